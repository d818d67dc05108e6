"""Every error bucketfmt raises about a table, its bytes or its store.

There is one root class, and a subclass only where a caller would act differently. A wrong
argument is a `ValueError` or a `TypeError`.
"""

from __future__ import annotations

from typing import TypeVar

__all__ = [
    "BucketfmtError",
    "ChecksumError",
    "CommitUnknownError",
    "ConflictError",
    "CorruptError",
    "IndexUnknownError",
    "KeyEncodingError",
    "LimitError",
    "LockLostError",
    "LockTimeoutError",
    "NotFoundError",
    "OvertakenError",
    "SchemaError",
    "StorageError",
    "TableNotFoundError",
    "TruncatedError",
    "UnsafePathError",
    "UnsupportedError",
]

_E = TypeVar("_E", bound="BucketfmtError")


class BucketfmtError(Exception):
    """Base of all errors about a table. The message ends with what to do.

    Attributes:
        path: The file concerned, relative to the table root; None where no file is concerned.
        offset: Byte offset in `path` where the fault was seen.
        partition: Partition path concerned ("" is the root of an unpartitioned table).
        bucket: Bucket id concerned.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        partition: str | None = None,
        bucket: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.offset = offset
        self.partition = partition
        self.bucket = bucket

    def within(
        self: _E,
        *,
        path: str | None = None,
        base_offset: int = 0,
        partition: str | None = None,
        bucket: int | None = None,
    ) -> _E:
        """Return this error after filling in the places that are not set yet.

        `base_offset` is where the decoded bytes begin in the file. The offset is added once, by the
        caller that first names the file.
        """
        if self.path is None and path is not None:
            self.path = path
            if self.offset is not None:
                self.offset += base_offset
        if self.partition is None:
            self.partition = partition
        if self.bucket is None:
            self.bucket = bucket
        return self

    def __str__(self) -> str:
        places = []
        if self.path is not None:
            places.append(self.path)
        if self.offset is not None:
            places.append(f"offset {self.offset}")
        if self.partition is not None and self.path is None:
            places.append(f"partition {self.partition!r}")
        if self.bucket is not None:
            places.append(f"bucket {self.bucket}")
        where = ", ".join(places)
        return f"{where}: {self.message}" if where else self.message


class CorruptError(BucketfmtError):
    """Bytes or names break the format. Restore the file; `bucketfmt check` finds other damage."""


class TruncatedError(CorruptError):
    """A file or a span ends before the format says it does."""


class ChecksumError(CorruptError):
    """A stored checksum disagrees with the bytes it covers."""


class UnsupportedError(BucketfmtError):
    """The table uses a feature that this release does not support. The table is not damaged."""


class LimitError(BucketfmtError):
    """The table would exceed a bound of `bucketfmt.Limits`. Raise the limit for a trusted table.

    Or the memory of the process does not suffice; then nothing is known to be damaged.
    """

    @classmethod
    def of_memory(cls, what: str, error: MemoryError) -> LimitError:
        """Return the error where memory does not suffice to read something.

        What the failed calls hold is given back first: there may be no memory for a message.
        """
        held: BaseException | None = error
        while held is not None:  # a call that cleans up may have failed for the same reason
            held.__traceback__ = None
            held = held.__context__
        why = f" ({error})" if str(error) else ""
        return cls(f"{what}{': ' * bool(what)}the memory of this process does not suffice{why}")


class UnsafePathError(BucketfmtError):
    """A name found in a table would leave the table root. Treat the table as hostile."""


class TableNotFoundError(BucketfmtError):
    """There is no Hudi table at the given place."""


class IndexUnknownError(BucketfmtError):
    """The table does not say how keys map to buckets. Pass `index=`."""


class KeyEncodingError(BucketfmtError):
    """A record key cannot be made of its fields, or cannot be split in the table's dialect."""


class SchemaError(BucketfmtError):
    """Data and table schema disagree, or a column is unknown."""


class ConflictError(BucketfmtError):
    """Another commit touched the same (partition, bucket). Refresh and retry."""


class OvertakenError(ConflictError):
    """A commit after which a change of buckets that was begun cannot be published. Begin again."""


class LockTimeoutError(BucketfmtError):
    """The table lock could not be acquired in time. Retry later."""


class CommitUnknownError(BucketfmtError):
    """Whether the commit took effect is unknown. Look at the timeline; remove no files."""


class LockLostError(CommitUnknownError):
    """The commit was published, but the table lock was lost before its file appeared.

    Another writer may have completed a commit meanwhile, so rows of either commit may be hidden.
    """


class StorageError(BucketfmtError):
    """The store failed, and the table did not change. Retry."""


class NotFoundError(StorageError):
    """A file that was to be read does not exist.

    The reader knows what a missing file means: there is no table, the table changed during the
    read (read again), or the table lost a file.
    """
