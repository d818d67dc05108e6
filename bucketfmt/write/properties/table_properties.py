"""Changes hoodie.properties. Nothing else writes to the file of a table that is there.

I/O. Source: HoodieTableConfig.modify, ConfigUtils.recoverIfNeeded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone

from bucketfmt.format.table.properties import encode_properties, table_checksum
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import Limits
from bucketfmt.storage.store import Store
from bucketfmt.table.table import load_config

__all__ = ["change_properties"]

_PROPERTIES = ".hoodie/hoodie.properties"
_BACKUP = f"{_PROPERTIES}.backup"
_CHECKSUMS = (".hoodie/.hoodie.properties.crc", ".hoodie/.hoodie.properties.backup.crc")


def change_properties(
    store: Store,
    limits: Limits,
    now: float,
    change: Callable[[Mapping[str, str]], Mapping[str, str]],
) -> TableConfig:
    """Replace the properties of a table and return the new ones. Call it under the table lock.

    A crash leaves the old properties or the new ones. Readers of stores that do not replace a
    file at once fall back on the backup, as Hudi's readers do.

    Args:
        store: The table's files.
        limits: Bounds on what is read.
        now: Seconds since 1970, for the comment in the file.
        change: Returns the new properties for the old ones.

    Raises:
        CorruptError: the properties are damaged, or the new ones would be.
        StorageError: the store failed.
    """
    old = load_config(store, limits)
    changed = dict(change(old.properties))
    database = changed.get("hoodie.database.name", "")
    changed["hoodie.table.checksum"] = str(table_checksum(old.name, database))
    config = TableConfig.from_properties(changed)
    moment = datetime.fromtimestamp(now, timezone.utc)
    comments = [f"Updated at {moment.isoformat()}", moment.strftime("%a %b %d %H:%M:%S UTC %Y")]
    for path in _CHECKSUMS:  # of Hadoop on a disk; a file without one is read as well
        store.delete(path)
    store.replace(_BACKUP, encode_properties(old.properties, comments))
    store.replace(_PROPERTIES, encode_properties(changed, comments))
    store.delete(_BACKUP)
    return config
