"""Dropping the metadata table, so that readers list instead and Hudi builds it anew.

I/O. First the properties say that there is none, then it goes: whoever reads in between lists.
Source: HoodieTableMetadataUtil.deleteMetadataTable, HoodieTableConfig.clearMetadataPartitions.
"""

from __future__ import annotations

from bucketfmt.format.names.layout import METADATA_TABLE
from bucketfmt.format.table.table_config import (
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
)
from bucketfmt.limits import Limits
from bucketfmt.storage.store import Store
from bucketfmt.timeline.table_properties import change_properties

__all__ = ["drop_metadata_table"]


def drop_metadata_table(store: Store, limits: Limits, now: float) -> None:
    """Remove the metadata table. Call it under the table lock.

    Args:
        store: The table's files.
        limits: Bounds on what is read.
        now: Seconds since 1970.

    Raises:
        StorageError: the store failed. The table reads as before; do it again.
    """
    none = {METADATA_PARTITIONS: "", METADATA_PARTITIONS_INFLIGHT: ""}
    change_properties(store, limits, now, lambda properties: {**properties, **none})
    store.delete_tree(METADATA_TABLE)
