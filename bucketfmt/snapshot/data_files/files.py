"""Data files and the slices they form, as values.

Pure. Source: HoodieBaseFile, HoodieLogFile, FileSlice. A table may have a million of them: they
hold no references in circles, so that the garbage collector need not look at them.
"""

from __future__ import annotations

import msgspec

from bucketfmt.errors import CorruptError, NotFoundError, TruncatedError
from bucketfmt.format.names.names import BaseFileName, LogFileName

__all__ = ["DataFile", "FileSlice", "RecordedCounts", "WrittenFile"]


class RecordedCounts(msgspec.Struct, frozen=True, gc=False):
    """How many rows, and how many deletes, a commit recorded for one file."""

    requested_time: str
    rows: int
    deletes: int


class WrittenFile(msgspec.Struct, frozen=True, gc=False):
    """A file as completed commits recorded it.

    `size` is the largest size recorded, in bytes; `spans` are the (offset, end) ranges
    commits wrote, several where a log file was appended to. Flink adds up the sizes of a
    group's flushes, so that the file may be shorter.
    """

    path: str
    name: BaseFileName | LogFileName
    size: int
    spans: tuple[tuple[int, int], ...] = ()
    counts: tuple[RecordedCounts, ...] = ()


class DataFile(msgspec.Struct, frozen=True, gc=False):
    """One base or log file: what the listing shows of it and what commits say of it.

    Attributes:
        path: Relative to the table root.
        name: The parsed file name.
        size: Bytes, as listed; None when a commit names the file and the listing has it not, or
            has only a link to nothing or a folder of that name.
        written: What completed commits recorded of it; None when no active commit names the file.
    """

    path: str
    name: BaseFileName | LogFileName
    size: int | None
    written: WrittenFile | None = None

    def check_exists(self) -> int:
        """Return the listed size.

        Raises:
            CorruptError: the table needs the file and it is not there.
        """
        if self.size is None:
            who = "a completed commit" if self.written is not None else "the folder"
            raise CorruptError(
                f"{who} names this file and it does not exist; restore it",
                path=self.path,
            )
        return self.size

    def gone(self) -> NotFoundError:
        """Return the error that the file was listed, and is not there."""
        return NotFoundError(
            "no such file, though the table lists it; check() says what lacks it, and what to do",
            path=self.path,
        )

    @property
    def may_hold_deletes(self) -> bool:
        """Whether commits recorded deletes in this log file, or do not tell all of the file.

        Commits of the archived timeline tell nothing. They wrote the beginning of a file that
        later commits appended to.
        """
        if self.written is None or all(start for start, _ in self.written.spans):
            return True
        return any(counts.deletes for counts in self.written.counts)

    @property
    def is_short(self) -> bool:
        """Whether the file is shorter than a completed commit recorded.

        That alone proves no damage: Flink adds up the sizes of several flushes
        (docs/decisions/0007). It is damage where something is missing in the file.
        """
        return (self.size or 0) < (self.written.size if self.written else 0)

    def explained(self, error: CorruptError) -> CorruptError:
        """Return an error met in the file; of a short file one that says so."""
        if self.is_short and self.written is not None:
            return TruncatedError(
                f"{self.size} bytes, but a completed commit recorded {self.written.size}; "
                f"restore the file ({error.message})",
                path=self.path,
                offset=self.size,
            )
        return error


class FileSlice(msgspec.Struct, frozen=True, gc=False):
    """A base file and the log files to merge over it, oldest first.

    `base_instant` is the slice's own instant: that of the base file, or of the first log
    file where there is no base file.
    """

    partition_path: str
    file_id: str
    base_instant: str
    base_file: DataFile | None
    log_files: tuple[DataFile, ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The base file, if any, and the log files."""
        if self.base_file is None:
            return self.log_files
        return (self.base_file, *self.log_files) if self.log_files else (self.base_file,)

    @property
    def size(self) -> int:
        """Bytes of all its files, as listed."""
        size = self.base_file.size or 0 if self.base_file is not None else 0
        for file in self.log_files:
            size += file.size or 0
        return size
