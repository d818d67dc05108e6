"""Putting a new table where there is none.

I/O. Source: HoodieTableMetaClient.TableBuilder.initTable.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone

from bucketfmt.errors import StorageError
from bucketfmt.format.buckets.partition_rules import encode_hashing_config
from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.format.names.names import format_hashing_config_name
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.properties import encode_properties
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.index.model import Index, PartitionBucketIndex
from bucketfmt.storage.store import Store
from bucketfmt.write.properties.plan_create import rules_of

__all__ = ["check_no_table", "create_table"]

_PROPERTIES = ".hoodie/hoodie.properties"
_CONFIGS = ".hoodie/.bucket_index/partition_bucket_index_meta/configs"


def check_no_table(store: Store) -> None:
    """Check that a table can be put here.

    Raises:
        ValueError: there is one already.
        StorageError: the store failed.
    """
    if store.info(_PROPERTIES) is not None:
        raise ValueError(f"there is a Hudi table at {store.uri} already; open it instead")


def create_table(store: Store, properties: Mapping[str, str], index: Index) -> None:
    """Put a new table where there is none. It is there from the last file on, or not at all.

    Raises:
        ValueError: there is a table already.
        StorageError: the store cannot be written to.
    """
    check_no_table(store)
    if isinstance(index, PartitionBucketIndex):
        path = join_path(_CONFIGS, format_hashing_config_name(INIT_INSTANT))
        store.put_if_absent(path, encode_hashing_config(rules_of(index)))
    config = TableConfig.from_properties(properties)
    if config.timeline_layout == 2:
        # On disks Hudi lists these folders before there is anything in them.
        placeholder = join_path(config.history_path, ".empty")
        store.put_if_absent(placeholder, b"")
        store.delete(placeholder)
    now = datetime.now(timezone.utc)
    comments = [f"Properties saved on {now.isoformat()}", now.strftime("%a %b %d %H:%M:%S UTC %Y")]
    if not store.put_if_absent(_PROPERTIES, encode_properties(properties, comments)):
        raise StorageError(f"another writer has just made a table at {store.uri}; open it instead")
