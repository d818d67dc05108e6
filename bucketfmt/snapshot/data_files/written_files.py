"""What completed commits say the table's files are: their paths, their sizes, who replaced them.

Pure. A listing alone cannot tell a lost or a cut file from one that was never written;
the commits can, because they record each file and its size.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import msgspec

from bucketfmt.format.buckets.migrations import MIGRATION
from bucketfmt.format.buckets.rehashes import Rehash, find_rewritten_until
from bucketfmt.format.names.names import BaseFileName, LogFileName, find_data_file_name
from bucketfmt.format.names.paths import check_relative_path
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.limits import Limits
from bucketfmt.snapshot.data_files.files import RecordedCounts, WrittenFile

__all__ = [
    "IDEMPOTENCY_KEY",
    "CommitRecord",
    "CommittedFile",
    "find_written_files",
    "group_committed_files",
]


IDEMPOTENCY_KEY = "bucketfmt.idempotency_key"
"""Entry of a commit's `extraMetadata`."""

_COMPLETION_TIME = attrgetter("completion_time")
_NO_COMMIT = (None, "", "null")  # Hudi spells the commit before a new file group "null"
_NamedFile = tuple[str, str, str, BaseFileName | LogFileName, int, int, int, int]


class CommittedFile(msgspec.Struct, frozen=True, gc=False):
    """One file as one commit recorded it; `offset` is where in a log file it began to write."""

    requested_time: str
    completion_time: str
    path: str
    name: BaseFileName | LogFileName
    offset: int
    size: int
    num_writes: int
    num_deletes: int


@dataclass(frozen=True)
class CommitRecord:
    """One completed write instant, reduced to what reading needs.

    `files` holds (partition path, file id, path, parsed name, offset, size, rows, deletes).
    `replaced` holds the (partition path, file id) this instant replaced.
    `rehash` is how it changed the number of buckets, if it did; `migration` is what it says of the
    bucket index that it moved partitions to.
    `idempotency_key` is what its writer gave it, if it is bucketfmt's.
    `retires` is whether files of earlier instants are read no more once it is completed: it wrote
    base files of known file groups, or replaced file groups.
    `rewritten_until` is the newest write whose rows it has, if it changed buckets.
    `is_timed` is whether it states how long it took, as writers of Hudi do and bucketfmt does not.
    """

    requested_time: str
    completion_time: str
    operation_type: str | None
    schema: str | None
    latest_schema: str | None
    files: tuple[_NamedFile, ...] = field(repr=False)
    replaced: tuple[tuple[str, str], ...] = field(repr=False, default=())
    rehash: Rehash | None = None
    migration: str | None = None
    idempotency_key: str | None = None
    rewritten_until: str | None = None
    retires: bool = False
    is_timed: bool = False

    @property
    def writes_logs(self) -> bool:
        """Whether it wrote log files."""
        return any(isinstance(file[3], LogFileName) for file in self.files)

    @property
    def hides_until(self) -> str:
        """When commits completed to whose file groups it hides the files, if it replaced them.

        A change of buckets states the newest such commit, since table version 6 has no completion
        times.
        """
        return max(self.completion_time, self.rewritten_until or "")

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
            CorruptError: it has a malformed entry about a change of buckets.
        """
        files, retires, is_timed = [], bool(metadata.compacted), False
        for partition_path, stats in metadata.partition_to_write_stats.items():
            for stat in stats:
                is_timed |= stat.runtime_stats is not None
                if not stat.path:
                    continue
                path = check_relative_path(stat.path, limits)
                name = find_data_file_name(path.rpartition("/")[2])
                if name is None:
                    continue
                retires |= isinstance(name, BaseFileName) and stat.prev_commit not in _NO_COMMIT
                offset = max(stat.log_offset or 0, 0)
                size = max(stat.file_size_in_bytes or 0, 0)
                counts = (stat.num_writes, stat.num_deletes)
                files.append((partition_path, name.file_id, path, name, offset, size, *counts))
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
            # Commits repeat them, and those of 2,000 commits are kept.
            schema=sys.intern(extra.get("schema") or "") or None,
            latest_schema=sys.intern(extra.get("latest_schema") or "") or None,
            files=tuple(files),
            replaced=tuple(replaced),
            rehash=Rehash.find(extra, limits),
            migration=extra.get(MIGRATION) or None,
            idempotency_key=extra.get(IDEMPOTENCY_KEY),
            rewritten_until=find_rewritten_until(extra),
            retires=retires or bool(replaced),
            is_timed=is_timed,
        )


def group_committed_files(
    commits: Iterable[CommitRecord],
) -> Mapping[str, Mapping[str, Sequence[CommittedFile]]]:
    """Return what commits wrote, last completed first: {partition path: {file id: files}}."""
    found: dict[str, dict[str, list[CommittedFile]]] = {}
    for commit in sorted(commits, key=_COMPLETION_TIME, reverse=True):
        times = (commit.requested_time, commit.completion_time)
        for partition_path, file_id, path, name, offset, size, rows, deletes in commit.files:
            groups = found.setdefault(partition_path, {})
            file = CommittedFile(*times, path, name, offset, size, rows, deletes)
            groups.setdefault(file_id, []).append(file)
    return found


def find_written_files(committed: Sequence[CommittedFile]) -> dict[str, WrittenFile]:
    """Return the files that the newest slices of one file group must have, by path.

    What was written before the newest base file is left out: cleaning may have removed it,
    and no reader of the newest slice needs it. `committed` comes last completed first.
    """
    if len(committed) == 1:  # most groups of a large table are so
        return {committed[0].path: _as_written(committed[0])}
    base_instant = ""
    found: dict[str, WrittenFile] = {}
    for file in committed:
        if file.completion_time < base_instant:
            continue
        if isinstance(file.name, BaseFileName):
            if file.name.instant < base_instant:
                continue
            base_instant = file.name.instant
        known, written = found.get(file.path), _as_written(file)
        if known is not None:
            written = WrittenFile(
                file.path,
                file.name,
                max(written.size, known.size),
                written.spans + known.spans,
                written.counts + known.counts,
            )
        found[file.path] = written
    return found


def _as_written(file: CommittedFile) -> WrittenFile:
    """Return what one commit says of a file."""
    spans = ((file.offset, file.size),) if file.size else ()
    counts = (RecordedCounts(file.requested_time, file.num_writes, file.num_deletes),)
    return WrittenFile(file.path, file.name, file.size, spans, counts)
