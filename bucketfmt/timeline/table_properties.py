"""Reads and writes hoodie.properties. Nothing else opens the file.

I/O. Source: HoodieTableConfig.modify, ConfigUtils.fetchConfigs and recoverIfNeeded,
HoodieTableMetaClient.TableBuilder.initTable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from functools import lru_cache

from bucketfmt.errors import (
    BucketfmtError,
    ConflictError,
    CorruptError,
    NotFoundError,
    TableNotFoundError,
)
from bucketfmt.format.names.layout import (
    METADATA_FOLDER,
    PROPERTIES,
    PROPERTIES_BACKUP,
    is_properties_update_name,
)
from bucketfmt.format.table.properties import (
    decode_properties,
    encode_properties,
    salvage_properties,
    table_checksum,
)
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import Limits
from bucketfmt.storage.store import FileInfo, Store, prepare_replace
from bucketfmt.timeline.foreign_folder import describe_folder

__all__ = [
    "change_properties",
    "has_table",
    "list_properties_updates",
    "load_config",
    "load_config_of_file",
    "load_damaged_properties",
    "put_properties",
]


def has_table(store: Store) -> bool:
    """Return whether there is a table: whether hoodie.properties is there.

    Raises:
        StorageError: the store failed.
    """
    return store.info(PROPERTIES) is not None


def load_config(store: Store, limits: Limits) -> TableConfig:
    """Return what hoodie.properties says; its backup where that is missing or damaged, as Hudi.

    Raises:
        TableNotFoundError: neither is there.
        CorruptError: what is there is damaged.
        UnsupportedError: the table is of a version or kind that this release does not read.
    """
    try:
        return load_config_of_file(store, PROPERTIES, limits)
    except (CorruptError, NotFoundError) as error:
        damage = error
    try:
        return load_config_of_file(store, PROPERTIES_BACKUP, limits)
    except NotFoundError:
        pass
    if isinstance(damage, CorruptError):
        raise damage
    raise TableNotFoundError(f"no Hudi table at {store.uri}: {describe_folder(store)}")


def load_config_of_file(store: Store, path: str, limits: Limits) -> TableConfig:
    """Return what one file says: `PROPERTIES` or `PROPERTIES_BACKUP`.

    Raises:
        NotFoundError: the file is not there.
        CorruptError: the file is damaged.
        UnsupportedError: the table is of a version or kind that this release does not read.
    """
    try:
        return _decode(store.read(path, limits.properties_bytes_max), limits)
    except BucketfmtError as error:
        raise error.within(path=path) from None


@lru_cache(maxsize=8)
def _decode(data: bytes, limits: Limits) -> TableConfig:
    """Return what the bytes of a file say; a write reads the same bytes some times over."""
    return TableConfig.from_properties(decode_properties(data, limits))


def load_damaged_properties(store: Store, limits: Limits) -> Iterator[Mapping[str, str]]:
    """Yield what can be read of damaged properties, and then what can be read of their backup."""
    for path in (PROPERTIES, PROPERTIES_BACKUP):
        properties = None
        with suppress(BucketfmtError):
            properties = salvage_properties(store.read(path, limits.properties_bytes_max), limits)
        if properties is not None:
            yield properties


def list_properties_updates(store: Store) -> list[FileInfo]:
    """Return the files that are there only while an update replaces the properties.

    Raises:
        StorageError: the store failed.
    """
    entries = store.list(METADATA_FOLDER)
    return [e for e in entries if not e.is_dir and is_properties_update_name(e.name)]


def put_properties(store: Store, properties: Mapping[str, str], now: datetime) -> bool:
    """Write the properties of a new table; return whether there was no table yet.

    Args:
        store: The table's files.
        properties: In the order in which they are written.
        now: In UTC, for the comment in the file.

    Raises:
        StorageError: the store failed.
    """
    return store.put_if_absent(PROPERTIES, _encode(properties, "Properties saved on", now))


def change_properties(
    store: Store,
    limits: Limits,
    now: float,
    change: Callable[[Mapping[str, str]], Mapping[str, str]],
    check_held: Callable[[], object],
) -> TableConfig:
    """Replace the properties of a table and return the new ones. Call it under the table lock.

    A crash leaves the old properties or the new ones. Readers of stores that do not replace a
    file at once fall back on the backup, as Hudi's readers do.

    Args:
        store: The table's files.
        limits: Bounds on what is read.
        now: Seconds since 1970, for the comment in the file.
        change: Returns the new properties for the old ones.
        check_held: Called right before each file is replaced: raises where the lock was lost.
            Nothing is changed then.

    Raises:
        ConflictError: another process changed them meanwhile. Nothing is changed.
        CorruptError: the properties are damaged, or the new ones would be.
        StorageError: the store failed.
    """
    replace = prepare_replace(store, PROPERTIES, limits.properties_bytes_max)
    old = load_config(store, limits)
    changed = dict(change(old.properties))
    database = changed.get("hoodie.database.name", "")
    changed["hoodie.table.checksum"] = str(table_checksum(old.name, database))
    config = TableConfig.from_properties(changed)
    moment = datetime.fromtimestamp(now, timezone.utc)
    check_held()
    store.replace(PROPERTIES_BACKUP, _encode(old.properties, "Updated at", moment))
    try:
        check_held()
    except BucketfmtError:
        store.delete(PROPERTIES_BACKUP)  # it was put late, and would look like an update's rest
        raise
    try:
        replace(_encode(changed, "Updated at", moment))
    except ConflictError:
        store.delete(PROPERTIES_BACKUP)
        raise
    store.delete(PROPERTIES_BACKUP)
    return config


def _encode(properties: Mapping[str, str], what: str, now: datetime) -> bytes:
    comments = [f"{what} {now.isoformat()}", now.strftime("%a %b %d %H:%M:%S UTC %Y")]
    return encode_properties(properties, comments)
