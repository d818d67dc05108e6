"""Chooses what locates the keys of a table, by its index.

I/O where nothing states the index, and where the metadata table has the locations of keys.
"""

from __future__ import annotations

from bucketfmt.errors import ConflictError, IndexUnknownError
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
        CorruptError: the metadata table, or what states the index, is damaged.
        UnsupportedError: the table states an index this release does not know, or one that needs
            columns which the table does not have.
    """
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
