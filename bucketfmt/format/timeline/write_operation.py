"""The operations that commits are made by: what each is called, and how it writes.

Pure. Source: `WriteOperationType`, `CommitUtils.getCommitActionType`.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["SERVICE_OPERATIONS", "WriteOperation"]


class WriteOperation(Enum):
    """What a commit does to its table.

    The value is what a caller passes, as in `hoodie.datasource.write.operation`. Operations that
    only Hudi has are left out where nothing depends on them.
    """

    UPSERT = "upsert"
    INSERT = "insert"
    BULK_INSERT = "bulk_insert"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    DELETE = "delete"
    DELETE_PARTITION = "delete_partition"
    CLUSTER = "cluster"
    COMPACT = "compact"
    LOG_COMPACT = "log_compact"
    INDEX = "index"
    BUCKET_RESCALE = "bucket_rescale"

    @classmethod
    def find(cls, operation_type: str | None) -> WriteOperation | None:
        """Return the operation of this type; None if the type is not among them."""
        return cls.__members__.get(operation_type or "")

    @property
    def operation_type(self) -> str:
        """The operation's name in commit metadata, for example `UPSERT`."""
        return self.name

    def action(self, table_type: str) -> str:
        """Return the action of the operation's commit on the timeline.

        Args:
            table_type: COPY_ON_WRITE or MERGE_ON_READ.
        """
        if self.replaces:
            return "replacecommit"
        return "deltacommit" if table_type == "MERGE_ON_READ" else "commit"

    @property
    def replaces(self) -> bool:
        """Whether the operation hides file groups."""
        return self.overwrites or self is WriteOperation.DELETE_PARTITION

    @property
    def overwrites(self) -> bool:
        """Whether the rows go to new file groups, whatever their buckets hold."""
        return self in (WriteOperation.INSERT_OVERWRITE, WriteOperation.INSERT_OVERWRITE_TABLE)

    @property
    def merges(self) -> bool:
        """Whether the rows are merged with the stored rows of their keys."""
        return self in (WriteOperation.UPSERT, WriteOperation.INSERT)

    @property
    def appends(self) -> bool:
        """Whether the operation may add to what a bucket holds without looking at it."""
        return self.merges or self.takes_keys

    @property
    def combines(self) -> bool:
        """Whether only one of several given rows with one key is written."""
        return self is not WriteOperation.BULK_INSERT

    @property
    def fills_empty_buckets(self) -> bool:
        """Whether the operation refuses a bucket that has rows."""
        return self is WriteOperation.BULK_INSERT

    @property
    def takes_keys(self) -> bool:
        """Whether the operation is given keys instead of rows."""
        return self is WriteOperation.DELETE

    @property
    def compacts(self) -> bool:
        """Whether the operation rewrites file slices with the same rows."""
        return self in (WriteOperation.COMPACT, WriteOperation.LOG_COMPACT)


SERVICE_OPERATIONS = frozenset(
    operation.operation_type
    for operation in (
        WriteOperation.CLUSTER,
        WriteOperation.COMPACT,
        WriteOperation.LOG_COMPACT,
        WriteOperation.INDEX,
    )
)
"""Types of the operations of table services, which say nothing new about the table's columns."""
