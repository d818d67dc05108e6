"""Putting a new table where there is none.

I/O. Source: HoodieTableMetaClient.TableBuilder.initTable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from bucketfmt.errors import BucketfmtError, StorageError
from bucketfmt.format.names.instants import find_instant_file
from bucketfmt.format.names.layout import (
    ACTIVE_FOLDER_NAME,
    EMPTY_FILE_NAME,
    METADATA_FOLDER,
    PROPERTIES,
    PROPERTIES_BACKUP,
    is_partition_metafile_name,
)
from bucketfmt.format.names.names import find_data_file_name
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.index.model import Index
from bucketfmt.location.rule_files import put_rules
from bucketfmt.storage.store import Store
from bucketfmt.storage.stores.local_store import LocalStore
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.timeline.table_properties import has_table, put_properties

__all__ = ["check_no_table", "create_table"]

_FOLDERS_LISTED_MAX = 20


def check_no_table(store: Store, above: Sequence[Store] = ()) -> None:
    """Check that a table can be put here.

    Readers of a table, Hudi too, take partitions of a table below its folder for its own.

    Args:
        store: Of the folder.
        above: Of the folders above it. One that fails, as it may not be read, tells of no table.

    Raises:
        ValueError: there is one already, or what is left of one, or a file, or the folder is a
            part of another one, or is below one, or holds one.
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
    tables = map_in_threads(_has_table, above, waiting_count(store))
    if any(tables):
        raise ValueError(
            f"{store.uri} is within the Hudi table at {above[tables.index(True)].uri}, whose "
            "readers would take its rows for their own; give another folder"
        )
    leftover = _find_leftover(store)
    if leftover is not None:
        raise ValueError(
            f"{store.uri} has what is left of a Hudi table, {leftover}: its rows would come back "
            f"in the new one; restore {PROPERTIES} from a copy of the table, or give another folder"
        )


def _has_table(store: Store) -> bool:
    """Whether a table is here, be it one that is read by the backup of its properties."""
    try:
        return has_table(store) or store.info(PROPERTIES_BACKUP) is not None
    except StorageError:
        return False


def _find_leftover(store: Store) -> str | None:
    """Return what tells of a table that was here before its properties were lost.

    Folders alone are what a `create` leaves that ended early.
    """
    names = store.list_names(METADATA_FOLDER)
    if PROPERTIES_BACKUP.rpartition("/")[2] in names:
        return PROPERTIES_BACKUP
    if any(find_instant_file(name, 1) for name in names):
        return f"instants in {METADATA_FOLDER}"
    folder = join_path(METADATA_FOLDER, ACTIVE_FOLDER_NAME)
    if any(find_instant_file(name, 2) for name in store.list_names(folder)):
        return f"instants in {folder}"
    return _find_data_file(store)


def _find_data_file(store: Store) -> str | None:
    """Return a data file below the root, by few listings: a table has some wherever one looks.

    Raises:
        ValueError: a table is below the root.
    """
    folders = [""]
    for _ in range(_FOLDERS_LISTED_MAX):
        if not folders:
            break
        folder = folders.pop()
        try:
            entries = store.list(folder)
        except BucketfmtError:  # not of a table: lost+found of another user, a link that leads out
            continue
        if folder and any(entry.is_dir and entry.name == METADATA_FOLDER for entry in entries):
            raise ValueError(
                f"{store.uri} holds the Hudi table {folder}, whose partitions would be those of "
                "the new one too; give another folder"
            )
        for entry in entries:
            if not entry.is_dir and find_data_file_name(entry.name) is not None:
                return entry.path
        folders += [e.path for e in entries if e.is_dir and not e.name.startswith(".")]
    return None


def create_table(
    store: Store, properties: Mapping[str, str], index: Index, above: Sequence[Store] = ()
) -> None:
    """Put a new table where there is none. It is there from the last file on, or not at all.

    Args:
        store: Of its folder.
        properties: Of the table.
        index: Whose rules are put there, if it has such.
        above: Stores of the folders above.

    Raises:
        ValueError: there is a table already, or one above.
        StorageError: the store cannot be written to.
    """
    check_no_table(store, above)
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
