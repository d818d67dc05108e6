"""Putting a new table where there is none.

I/O. Source: HoodieTableMetaClient.TableBuilder.initTable.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone

from bucketfmt.errors import StorageError
from bucketfmt.format.names.layout import (
    EMPTY_FILE_NAME,
    METADATA_FOLDER,
    is_partition_metafile_name,
)
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.index.model import Index
from bucketfmt.location.rule_files import put_rules
from bucketfmt.storage.store import Store
from bucketfmt.storage.stores.local_store import LocalStore
from bucketfmt.timeline.table_properties import has_table, put_properties

__all__ = ["check_no_table", "create_table"]


def check_no_table(store: Store) -> None:
    """Check that a table can be put here.

    Raises:
        ValueError: there is one already, or a file, or the folder is a part of another one.
        StorageError: the store failed.
    """
    file = store.find_file_in_the_way() if isinstance(store, LocalStore) else None
    if file is not None:
        raise ValueError(f"{file} is a file; give another folder")
    if has_table(store):
        raise ValueError(f"there is a Hudi table at {store.uri} already; open it instead")
    is_partition = any(map(is_partition_metafile_name, store.list_names("")))
    if is_partition or METADATA_FOLDER in store.uri.split("/"):
        part = "a partition" if is_partition else f"within the {METADATA_FOLDER} folder"
        raise ValueError(f"{store.uri} is {part} of another Hudi table; give another folder")


def create_table(store: Store, properties: Mapping[str, str], index: Index) -> None:
    """Put a new table where there is none. It is there from the last file on, or not at all.

    Raises:
        ValueError: there is a table already.
        StorageError: the store cannot be written to.
    """
    check_no_table(store)
    if index.hashing_config is not None:
        put_rules(store, index.hashing_config)
    config = TableConfig.from_properties(properties)
    if config.timeline_layout == 2:
        # On disks Hudi lists these folders before there is anything in them.
        placeholder = join_path(config.history_path, EMPTY_FILE_NAME)
        store.put_if_absent(placeholder, b"")
        store.delete(placeholder)
    if not put_properties(store, properties, datetime.now(timezone.utc)):
        raise StorageError(f"another writer has just made a table at {store.uri}; open it instead")
