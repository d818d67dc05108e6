"""The files that the newest file slices of the metadata table must have. M002.

Pure: commits go in, paths come out. Readers of Hudi go by what is in the folders: they do not miss
the entries of a file that is gone, and take older entries, or none, for those of the partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from bucketfmt.format.names.names import find_metadata_file_name
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.snapshot.data_files.written_files import CommittedFile, find_written_files
from bucketfmt.timeline.timeline import Instant

__all__ = ["find_needed_files"]

_INITIALISES = "BULK_INSERT_PREPPED"


def find_needed_files(
    commits: Iterable[tuple[Instant, CommitMetadata]],
) -> Mapping[str, Sequence[str]]:
    """Return the paths below the metadata table that each partition must have.

    What was written before a partition was initialised for the last time went with the partition
    of then. An initialisation that wrote nothing does not tell of which partition it is.

    Args:
        commits: The completed writes of the active timeline of the metadata table.

    Raises:
        CorruptError: a commit names a log file that has no name of one.
    """
    found: dict[str, dict[str, list[CommittedFile]]] = {}
    for instant, metadata in sorted(commits, key=lambda commit: _times(commit[0])[::-1]):
        named = metadata.partition_to_write_stats
        if metadata.operation_type == _INITIALISES:
            for partition in named or [*found]:
                found.pop(partition, None)
        for partition, stats in named.items():
            groups = found.setdefault(partition, defaultdict(list))
            for path in (stat.path for stat in stats if stat.path):
                name = find_metadata_file_name(path.rpartition("/")[2])
                if name is not None:
                    file = CommittedFile(*_times(instant), path, name, 0, 0, 0, 0)
                    groups[name.file_id].append(file)
    return {
        partition: [
            path for committed in groups.values() for path in find_written_files(committed[::-1])
        ]
        for partition, groups in found.items()
    }


def _times(instant: Instant) -> tuple[str, str]:
    return instant.requested_time, instant.completion_time or instant.requested_time
