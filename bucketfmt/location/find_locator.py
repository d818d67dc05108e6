"""Chooses what locates the keys of a table, by its index.

I/O where nothing states the index, and where the metadata table has the locations of keys.
"""

from __future__ import annotations

from bucketfmt.errors import ConflictError, CorruptError, IndexUnknownError
from bucketfmt.format.names.layout import PROPERTIES
from bucketfmt.location.file_groups.group_locator import GroupLocator
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.location.locator import BucketLocator, Locator
from bucketfmt.location.records.record_locator import RecordLocator
from bucketfmt.snapshot.snapshot import Snapshot

__all__ = ["find_locator"]


def find_locator(snapshot: Snapshot, index_finder: IndexFinder) -> Locator:
    """Return what locates keys by the index of the table.

    Raises:
        ValueError: the caller's index contradicts the table.
        CorruptError: the metadata table, or what states the index or the partitions, is damaged.
        UnsupportedError: the table states an index this release does not know, or one that needs
            columns which the table does not have.
    """
    _check_partition_fields(snapshot)
    try:
        index = index_finder.resolve(snapshot).index
        if index is not None and index.keeps_locations:
            records = index_finder.records(snapshot)
            return RecordLocator(snapshot, records, moves_keys=index.moves_keys)
        if index is not None and index.group_bytes is not None:
            return GroupLocator(snapshot, index_finder, index.group_bytes)
    except (ConflictError, IndexUnknownError) as error:
        return BucketLocator(snapshot, index_finder, error)
    return BucketLocator(snapshot, index_finder)


def _check_partition_fields(snapshot: Snapshot) -> None:
    """Refuse a table that lost the fields of its partitions.

    Keys would be looked for in its root alone, and written there beside the rows they have.
    """
    if not snapshot.state.config.is_unpartitioned:
        return
    path = min(filter(None, snapshot.named_partitions), default=None)
    if path is not None:
        raise CorruptError(
            f"hoodie.table.partition.fields is missing, and the table has the partition {path!r}: "
            "keys would be looked for in its root. Put the property back",
            path=PROPERTIES,
        )
