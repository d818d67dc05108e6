"""Files against commits: what is listed, and what the commits say they wrote.

Pure: listings, slices and commits in, findings out. T002, T003, and B002 where a file group
holds what a retried task left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bucketfmt.check.report import Finding, NotChecked
from bucketfmt.format.names.names import BaseFileName, LogFileName
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.process import cached_property
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.snapshot.data_files.written_files import CommitRecord
from bucketfmt.timeline.timeline import Timeline

__all__ = [
    "WriteLedger",
    "find_leftovers",
    "find_lost_files",
    "find_reused_file_ids",
    "find_rows_in_root",
    "find_size_fault",
    "find_wrong_sizes",
]

_PARQUET_BYTES_MIN = 12  # two magics and a length
_ABANDONED_LOG_FIX = (
    "If a restore left the file, `clean()` deletes it. Else delete it after a backup."
)


@dataclass(frozen=True)
class WriteLedger:
    """What the active timeline tells of writes.

    Attributes:
        timeline: All instants.
        table_version: 6, 8 or 9.
        commits: The completed writes whose metadata could be read and names files, by instant.
    """

    timeline: Timeline
    table_version: int
    commits: Mapping[str, CommitRecord]

    @classmethod
    def of(
        cls, timeline: Timeline, table_version: int, commits: Iterable[CommitRecord]
    ) -> WriteLedger:
        """Return the ledger of these commits. One that names no file tells nothing of files."""
        known = {commit.requested_time: commit for commit in commits if commit.files}
        return cls(timeline, table_version, known)

    def fate(self, instant: str) -> Literal["committed", "untold", "pending", "unknown"]:
        """Return what became of a write: `untold` if its commit is archived or unreadable."""
        if instant in self.commits:
            return "committed"
        if self.timeline.is_completed(instant):
            return "untold"
        return "pending" if self.timeline.is_pending(instant) else "unknown"

    def is_stray(self, file: DataFile) -> bool:
        """Return whether a file is of a committed write, and no commit names it.

        Only for names that hold the instant of the write, as those of log files do from table
        version 8 on. Hudi 1.0.2 logs deletes to a ring under the instant of the rows: the commit
        that names the file is another.
        """
        if file.written is not None or not self._names_its_write(file):
            return False
        return file.name.instant in self.commits and file.path not in self.paths

    def is_abandoned(self, file: DataFile) -> bool:
        """Return whether the timeline does not know (any more) the instant that a file bears.

        That is its write; of a log file until version 6, and of copies for a resize, what began
        the slice. An instant newer than the whole timeline may have begun since that was listed.
        """
        return self.fate(file.name.instant) == "unknown" and self.timeline.last is not None

    def is_newest(self, instant: str) -> bool:
        """Return whether an instant is newer than all that the timeline knows."""
        last = self.timeline.last
        return last is None or instant > last.requested_time

    @cached_property
    def paths(self) -> frozenset[str]:
        """The files that commits name, relative to the table root."""
        return frozenset(
            path for commit in self.commits.values() for _, _, path, *_ in commit.files
        )

    def _names_its_write(self, file: DataFile) -> bool:
        return isinstance(file.name, BaseFileName) or self.table_version >= 8


def find_lost_files(slices: Iterable[FileSlice]) -> Iterator[Finding]:
    """Yield T002 for the files that readers need, commits name and the listing has not."""
    for file_slice in slices:
        lost = [file for file in file_slice.files if file.size is None]
        if lost:
            yield Finding.of(
                "T002",
                f"{len(lost)} of {len(file_slice.files)} files of file group "
                f"{file_slice.file_id} are named by completed commits and not there",
                partition=file_slice.partition_path,
                paths=[file.path for file in lost],
                instants=[file.name.instant for file in lost],
            )


def find_wrong_sizes(
    slices: Iterable[FileSlice], table_version: int, names_only: bool
) -> Iterator[Finding | NotChecked]:
    """Yield T002 for files of another size than the commits recorded, and empty ones.

    Where only the content can tell and `names_only` is true, the file is not checked.
    """
    for file in (file for file_slice in slices for file in file_slice.files):
        if file.size is None:
            continue  # lost
        if file.size and file.written is not None and file.size == file.written.size:
            continue  # mostly
        fault = find_size_fault(file, table_version)
        if fault is not None:
            yield Finding.of(
                "T002",
                fault,
                partition=_folder(file.path),
                paths=[file.path],
                instants=[file.name.instant],
            )
        elif names_only and file.is_short:
            why = "shorter than its commit recorded, which may be damage or a sum that Flink made "
            yield NotChecked(file.path, why + "of several flushes; depth default tells")


def find_rows_in_root(
    partition_path: str, slices: Sequence[FileSlice], partition_fields: Sequence[str]
) -> Iterator[Finding]:
    """Yield T002 where a table that is partitioned by columns has rows in no partition."""
    if slices and partition_path == "" and partition_fields:
        yield Finding.of(
            "T002",
            f"rows in the root of the table, which is partitioned by {', '.join(partition_fields)}",
            partition="",
            paths=[file.path for file_slice in slices for file in file_slice.files],
        )


def find_size_fault(file: DataFile, table_version: int) -> str | None:
    """Return what the size of a file alone proves to be wrong with it; None if nothing."""
    if file.size is None:
        return "it is not there"
    is_base = isinstance(file.name, BaseFileName)
    if file.size == 0 and is_base:
        return "no bytes at all"
    recorded = file.written.size if file.written is not None else 0
    is_larger = 0 < recorded < file.size
    # Before version 8 a log file grows by appends, and a failed one leaves bytes behind.
    if is_larger and (is_base or table_version >= 8):
        return f"{file.size} bytes, but the commit recorded {recorded}"
    if file.is_short and not _may_be_summed(file, table_version):
        return f"only {file.size} bytes, but the commit recorded {recorded}"
    return None


def _may_be_summed(file: DataFile, table_version: int) -> bool:
    """Whether several flushes may have made a file, of which Flink records the sum of sizes.

    From version 8 on each flush makes a log file of its own, which counts up the version in its
    name; before, it appends to the one there is (docs/decisions/0007).
    """
    if isinstance(file.name, BaseFileName):
        return (file.size or 0) >= _PARQUET_BYTES_MIN
    if table_version >= 8:
        return file.name.version > 1
    spans = file.written.spans if file.written is not None else ()
    return any(0 < offset < (file.size or 0) for offset, _ in spans)


def find_leftovers(
    listed: Mapping[str, Sequence[DataFile]],
    live: Collection[str],
    ledger: WriteLedger,
    explained: Collection[str],
) -> Iterator[Finding]:
    """Yield T002 and B002 for files that no commit names.

    Args:
        listed: The data files of a partition by file id.
        live: The file groups that readers see.
        ledger: What the commits tell.
        explained: File groups that another finding is about already.
    """
    for file_id, files in listed.items():
        if file_id in explained:
            continue
        attempts: Mapping[tuple[object, ...], list[DataFile]] = {}
        for file in files:
            if file.path in ledger.paths and file.name.instant in ledger.commits:
                continue  # mostly: a commit names it, and its instant is committed
            if ledger.is_abandoned(file):
                reason = "the timeline does not have its instant"
                fix = _ABANDONED_LOG_FIX if isinstance(file.name, LogFileName) else None
                yield _left(file, reason, "warning", False, fix)
            elif ledger.is_stray(file):
                attempts = attempts or _group_attempts(files)
                named = [f for f in attempts[_attempt_key(file)] if not ledger.is_stray(f)]
                if named:
                    yield _tried_twice(file, named)
                elif file_id not in live:
                    reason = "its commit does not name it, and no reader opens it"
                    yield _left(file, reason, "info", False)
                elif isinstance(file.name, BaseFileName):
                    yield _left(file, "readers see it, but its commit does not name it")
                else:  # Flink names one of the log files that it flushed
                    reason = "its commit names other log files only"
                    yield _left(file, reason, "info", False)


def _group_attempts(
    files: Iterable[DataFile],
) -> Mapping[tuple[object, ...], list[DataFile]]:
    """Return the files of a group by what several attempts of one task have in common."""
    attempts: dict[tuple[object, ...], list[DataFile]] = defaultdict(list)
    for file in files:
        attempts[_attempt_key(file)].append(file)
    return attempts


def _attempt_key(file: DataFile) -> tuple[object, ...]:
    name = file.name
    if isinstance(name, LogFileName):
        return ("log", name.instant, name.version)
    return ("base", name.instant)


def _left(
    file: DataFile,
    reason: str,
    severity: Literal["error", "warning", "info"] = "error",
    data_loss: bool = True,
    fix: str | None = None,
) -> Finding:
    return Finding.of(
        "T002",
        f"{reason} (instant {file.name.instant})",
        partition=_folder(file.path),
        paths=[file.path],
        instants=[file.name.instant],
        severity=severity,
        data_loss=data_loss,
        fix=fix,
    )


def _tried_twice(file: DataFile, named: Sequence[DataFile]) -> Finding:
    return Finding.of(
        "B002",
        f"the commit names {named[0].path.rpartition('/')[2]} and not this attempt at the same "
        "file",
        partition=_folder(file.path),
        paths=[file.path],
        instants=[file.name.instant],
    )


def find_reused_file_ids(commits: Sequence[CommitRecord]) -> Iterator[Finding]:
    """Yield T003 for file groups that a commit wrote to which it, or one before it, replaced."""
    if not any(commit.replaced for commit in commits):
        return
    replaced: dict[tuple[str, str], CommitRecord] = {}
    for commit in sorted(commits, key=lambda commit: commit.requested_time):
        for group in commit.replaced:
            replaced.setdefault(group, commit)
        operation = WriteOperation.find(commit.operation_type)
        if operation is not None and operation.compacts:
            continue  # a compaction planned before runs on; nobody misses its rows
        for partition_path, file_id, path, *_ in commit.files:
            by = replaced.get((partition_path, file_id))
            if by is not None and not _ran_meanwhile(commit, by):
                yield Finding.of(
                    "T003",
                    f"file group {file_id} was replaced by {by.requested_time} and written to by "
                    f"{commit.requested_time}",
                    partition=partition_path,
                    paths=[path],
                    instants=[by.requested_time, commit.requested_time],
                )


def _ran_meanwhile(commit: CommitRecord, replacing: CommitRecord) -> bool:
    """Whether the rows of the commit are in the new file groups as well.

    While a clustering is pending, a write goes to old and new file groups. A change of
    buckets rewrites what was written meanwhile.
    """
    if replacing.rewritten_until is not None and replacing is not commit:
        return commit.requested_time <= replacing.rewritten_until
    operation = WriteOperation.find(replacing.operation_type)
    if operation is not WriteOperation.CLUSTER or replacing is commit:
        return False
    # Before version 8 no one records when it completed: copies of the rows tell.
    copied = any(name.instant == replacing.requested_time for _, _, _, name, *_ in commit.files)
    return copied or replacing.completion_time >= commit.requested_time


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
