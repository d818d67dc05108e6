"""Dropping the metadata table, so that readers list instead and Hudi builds it anew.

I/O. First the properties say that there is none, then it goes: whoever reads in between lists.
Source: HoodieTableMetadataUtil.deleteMetadataTable, HoodieTableConfig.clearMetadataPartitions.
"""

from __future__ import annotations

from bucketfmt.format.properties import decode_properties, encode_properties
from bucketfmt.limits import Limits
from bucketfmt.storage.store import Store

__all__ = ["drop_metadata_table"]

_PROPERTIES = ".hoodie/hoodie.properties"
_METADATA_TABLE = ".hoodie/metadata"
_PARTITIONS = "hoodie.table.metadata.partitions"


def drop_metadata_table(store: Store, limits: Limits) -> None:
    """Remove the metadata table. Call it under the table lock.

    Raises:
        StorageError: the store failed. The table reads as before; do it again.
    """
    properties = decode_properties(store.read(_PROPERTIES, limits.properties_bytes_max), limits)
    properties[_PARTITIONS] = ""
    properties[f"{_PARTITIONS}.inflight"] = ""
    data = encode_properties(properties, ["Metadata table dropped"])
    # The backup first: readers fall back on it while the file itself is being replaced.
    store.replace(f"{_PROPERTIES}.backup", data)
    store.replace(_PROPERTIES, data)
    store.delete(".hoodie/.hoodie.properties.crc")
    store.delete(f"{_PROPERTIES}.backup")
    store.delete_tree(_METADATA_TABLE)
