"""What hoodie.properties state of the index, once the change of buckets they state is taken back.

I/O, under the table lock. Source: spec REHASH-3, MIGRATE-3.
"""

from __future__ import annotations

from collections.abc import Mapping

from bucketfmt.format.buckets.index_settings import IndexSettings
from bucketfmt.format.buckets.migrations import Migrated
from bucketfmt.format.buckets.rehashes import REHASH, Rehash
from bucketfmt.format.names.layout import HASHING_CONFIG_FOLDER, HASHING_METADATA_FOLDERS
from bucketfmt.snapshot.listing import StoreLister
from bucketfmt.snapshot.state import TableState
from bucketfmt.write.commit.locked_table import LockedTable

__all__ = ["take_back_index"]


def take_back_index(table: LockedTable, instant: str) -> None:
    """State the index of before a rehash or a migration that is taken back.

    Nothing happens where the properties state the index of another change. Readers do not see the
    change any more, and it is still pending: whoever comes after a crash does the same again.

    Args:
        table: The table.
        instant: The requested time of the replacecommit that is taken back.

    Raises:
        CorruptError: the properties are damaged.
        IndexUnknownError: the properties contradict themselves.
        StorageError: the store failed; do it again.
    """
    properties = table.load_config().properties
    migrated = Migrated.find(properties)
    rehash = Rehash.find(properties, table.limits)
    if migrated is not None and migrated.instant == instant:
        # The rings and the rules are those of the migration: changes since are taken back already.
        for folder in (*HASHING_METADATA_FOLDERS, HASHING_CONFIG_FOLDER):
            table.store.delete_tree(folder)
        gone, stated = {*IndexSettings.KEYS, REHASH, *migrated.entries()}, migrated.before
    elif rehash is not None and rehash.instant == instant:
        if IndexSettings.from_properties(properties, table.limits).num_buckets != rehash.after:
            return  # somebody else has stated another number since
        lister = StoreLister(table.store)
        now = TableState(table.store, table.config, table.load_timeline(), table.limits, lister)
        earlier = max(now.rehashes, key=lambda each: each.instant, default=None)
        gone = {*IndexSettings.NUM_BUCKETS, REHASH}
        stated = {
            IndexSettings.NUM_BUCKETS[0]: str(rehash.before),
            **({} if earlier is None else earlier.entry()),
        }
    else:
        return

    def change(old: Mapping[str, str]) -> dict[str, str]:
        return {**{name: text for name, text in old.items() if name not in gone}, **stated}

    table.change_properties(change)
