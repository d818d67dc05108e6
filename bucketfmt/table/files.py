"""Data files and the slices they form, as values.

Pure. Source: HoodieBaseFile, HoodieLogFile, FileSlice.
"""

from __future__ import annotations

from dataclasses import dataclass

from bucketfmt.errors import CorruptError, TruncatedError
from bucketfmt.format.names import BaseFileName, LogFileName

__all__ = ["DataFile", "FileSlice", "WrittenFile"]


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file as completed commits recorded it.

    `size` is the largest size recorded, in bytes; `spans` are the (offset, end) ranges
    commits wrote, several where a log file was appended to.
    """

    path: str
    name: BaseFileName | LogFileName
    size: int
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class DataFile:
    """One base or log file: what the listing shows of it and what commits say of it.

    Attributes:
        path: Relative to the table root.
        name: The parsed file name.
        size: Bytes, as listed; None when a commit names the file and the listing has it not.
        written: What completed commits recorded of it; None when no active commit names the file.
    """

    path: str
    name: BaseFileName | LogFileName
    size: int | None
    written: WrittenFile | None = None

    def check_whole(self) -> int:
        """Return the listed size once it is sure that nothing a commit wrote is missing.

        Raises:
            CorruptError: a completed commit names the file and it is not there.
            TruncatedError: the file is shorter than a completed commit recorded.
        """
        if self.size is None:
            raise CorruptError(
                "a completed commit names this file and it does not exist; restore it, "
                "or read as of an instant before it was cleaned",
                path=self.path,
            )
        if self.written is not None and self.size < self.written.size:
            raise TruncatedError(
                f"{self.size} bytes, but a completed commit recorded {self.written.size}; "
                "restore the file",
                path=self.path,
                offset=self.size,
            )
        return self.size


@dataclass(frozen=True, slots=True)
class FileSlice:
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
        return (self.base_file, *self.log_files) if self.base_file else self.log_files

    @property
    def size(self) -> int:
        """Bytes of all its files, as listed."""
        return sum(file.size or 0 for file in self.files)
