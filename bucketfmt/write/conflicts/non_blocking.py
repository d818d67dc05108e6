"""Non-blocking concurrency control: writers that log to the same buckets at a time.

Pure. Each appends a log file of its own to one file group, so nobody waits for anybody, and
readers merge what is there. For that a new bucket has the same file id whoever begins it, and
begins with a log file. Source: WriteConcurrencyMode, HoodieWriteConfig, CommonClientUtils,
SparkBucketIndexPartitioner.getBucketInfo, BucketIdentifier.newBucketFileIdForNBCC.
"""

from __future__ import annotations

from bucketfmt.errors import UnsupportedError
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.index.model import Index

__all__ = ["check_non_blocking"]


def check_non_blocking(
    config: TableConfig, index: Index, operation: WriteOperation, *, keeps: bool = False
) -> None:
    """Refuse what cannot be written next to writers that do not look at each other.

    Args:
        config: The table's.
        index: How keys map to buckets.
        operation: What is to be written.
        keeps: Whether rows keep stored values, which another writer may change meanwhile.

    Raises:
        ValueError: the table is of a kind that does not have it.
        UnsupportedError: the operation hides file groups that others append to, or keeps values
            that others may change.
    """
    if (
        config.table_type != "MERGE_ON_READ"
        or config.table_version < 8
        or not index.has_numbered_buckets
        or index.group_bytes is not None
    ):
        raise ValueError(
            'concurrency="non_blocking" takes a merge-on-read table of version 8 or later with a '
            f"simple bucket index; this is a {config.table_type} table of version "
            f"{config.table_version} with {index}"
        )
    if keeps:
        raise UnsupportedError(
            'missing="keep" next to non-blocking writers, which may change the values that are '
            'kept; give the rows all columns, or write with concurrency="optimistic"'
        )
    if operation.replaces:
        raise UnsupportedError(
            "an overwrite or the drop of a partition next to non-blocking writers, whose log files "
            'it would hide; do it with concurrency="optimistic" while no other writer is at work'
        )
