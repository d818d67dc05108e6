"""What completed commits say the table's files are: their paths, their sizes, who replaced them.

Pure. A listing alone cannot tell a lost or a cut file from one that was never written;
the commits can, because they record each file and its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bucketfmt.format.commit_metadata import CommitMetadata
from bucketfmt.format.names import BaseFileName, LogFileName, find_data_file_name
from bucketfmt.format.paths import check_relative_path
from bucketfmt.limits import Limits
from bucketfmt.table.files import WrittenFile

__all__ = ["CommitRecord", "find_written_files"]


_NamedFile = tuple[str, str, str, BaseFileName | LogFileName, int, int]


@dataclass(frozen=True)
class CommitRecord:
    """One completed write instant, reduced to what reading needs.

    `files` holds (partition path, file id, path, parsed name, offset, size).
    `replaced` holds the (partition path, file id) this instant replaced.
    """

    requested_time: str
    completion_time: str
    operation_type: str | None
    schema: str | None
    latest_schema: str | None
    files: tuple[_NamedFile, ...] = field(repr=False)
    replaced: tuple[tuple[str, str], ...] = field(repr=False, default=())

    @classmethod
    def from_metadata(
        cls,
        requested_time: str,
        completion_time: str,
        metadata: CommitMetadata,
        limits: Limits,
    ) -> CommitRecord:
        """Reduce a commit's metadata.

        Raises:
            UnsafePathError: a file path in it would leave the table.
        """
        files = []
        for partition_path, stats in metadata.partition_to_write_stats.items():
            for stat in stats:
                if not stat.path:
                    continue
                path = check_relative_path(stat.path, limits)
                name = find_data_file_name(path.rpartition("/")[2])
                if name is None:
                    continue
                offset = max(stat.log_offset or 0, 0)
                size = max(stat.file_size_in_bytes or 0, 0)
                files.append((partition_path, name.file_id, path, name, offset, size))
        replaced = [
            (partition_path, file_id)
            for partition_path, file_ids in (metadata.partition_to_replace_file_ids or {}).items()
            for file_id in file_ids
        ]
        extra = metadata.extra_metadata or {}
        return cls(
            requested_time=requested_time,
            completion_time=completion_time,
            operation_type=metadata.operation_type,
            schema=extra.get("schema") or None,
            latest_schema=extra.get("latest_schema") or None,
            files=tuple(files),
            replaced=tuple(replaced),
        )


def find_written_files(
    commits: Iterable[CommitRecord],
) -> Mapping[str, dict[str, WrittenFile]]:
    """Return the files the newest slices must have: {partition path: {path: WrittenFile}}.

    What was written before a group's newest base file is left out: cleaning may have
    removed it, and no reader of the newest slice needs it.
    """
    newest_base: dict[tuple[str, str], str] = {}
    found: dict[str, dict[str, WrittenFile]] = {}
    for commit in sorted(commits, key=lambda c: c.completion_time, reverse=True):
        for partition_path, file_id, path, name, offset, size in commit.files:
            group = (partition_path, file_id)
            base_instant = newest_base.get(group)
            if base_instant is not None and commit.completion_time < base_instant:
                continue
            if isinstance(name, BaseFileName):
                if base_instant is not None and name.instant < base_instant:
                    continue
                newest_base[group] = name.instant
            partition = found.setdefault(partition_path, {})
            known = partition.get(path)
            spans = ((offset, size),) if size else ()
            partition[path] = WrittenFile(
                path,
                name,
                max(size, known.size if known else 0),
                spans + (known.spans if known else ()),
            )
    return found
