"""Dropping the metadata table, so that readers list instead and Hudi builds it anew.

I/O. First the properties say that there is none, then it goes: whoever reads in between lists.
Source: HoodieTableMetadataUtil.deleteMetadataTable, HoodieTableConfig.clearMetadataPartitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from bucketfmt.errors import ConflictError
from bucketfmt.format.names.layout import METADATA_TABLE
from bucketfmt.format.table.table_config import (
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
    METADATA_PARTITIONS_UNFINISHED,
)
from bucketfmt.limits import Limits
from bucketfmt.storage.store import Store
from bucketfmt.timeline.table_properties import change_properties

__all__ = ["LateRemovalError", "drop_metadata_table", "remove_folder", "with_partitions"]


class LateRemovalError(ConflictError):
    """A folder was removed, or some of its files, and the lock was lost: it may be another's.

    Attributes:
        folder: The metadata table, or one of its partitions.
    """

    def __init__(self, folder: str, lost: ConflictError) -> None:
        super().__init__(str(lost))
        self.folder = folder


def drop_metadata_table(
    store: Store,
    limits: Limits,
    now: float,
    check_held: Callable[[], object],
    unfinished: Collection[str] = (),
) -> None:
    """Remove the metadata table. Call it under the table lock.

    Args:
        store: The table's files.
        limits: Bounds on what is read.
        now: Seconds since 1970.
        check_held: Called before each change, and after the last: raises where the lock was lost.
            Nothing more is changed then.
        unfinished: The partitions that the caller makes anew.

    Raises:
        StorageError: the store failed. The table reads as before; do it again.
    """
    change_properties(
        store, limits, now, lambda old: with_partitions(old, (), unfinished), check_held
    )
    remove_folder(store, METADATA_TABLE, check_held)


def remove_folder(store: Store, folder: str, check_held: Callable[[], object]) -> None:
    """Remove the metadata table, or a partition of it. Call it under the table lock.

    Args:
        store: The table's files.
        folder: The path.
        check_held: Raises where the lock was lost.

    Raises:
        ConflictError: the lock was lost before, and nothing is removed.
        LateRemovalError: the lock was lost meanwhile.
        StorageError: the store failed; do it again.
    """
    check_held()
    try:
        store.delete_tree(folder)
    finally:
        try:
            check_held()
        except ConflictError as lost:
            raise LateRemovalError(folder, lost) from lost


def with_partitions(
    properties: Mapping[str, str], listed: Collection[str], unfinished: Collection[str]
) -> dict[str, str]:
    """Return the properties of a table with other partitions of its metadata table.

    Args:
        properties: As they are.
        listed: The partitions that are ready for use.
        unfinished: The partitions that are to be made anew.
    """
    changed = {
        **properties,
        METADATA_PARTITIONS: ",".join(sorted({*listed})),
        METADATA_PARTITIONS_INFLIGHT: "",
        METADATA_PARTITIONS_UNFINISHED: ",".join(sorted(unfinished)),
    }
    if not unfinished:
        del changed[METADATA_PARTITIONS_UNFINISHED]
    return changed
