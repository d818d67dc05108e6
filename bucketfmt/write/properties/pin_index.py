"""Records the index of a table in hoodie.properties, where Hudi's writers find and obey it.

I/O. The index is proved for every partition first, and the properties change under the table lock
if no write was completed since.
"""

from __future__ import annotations

from bucketfmt.errors import ConflictError, IndexUnknownError, UnsupportedError
from bucketfmt.format.buckets.index_settings import IndexSettings
from bucketfmt.format.buckets.rehashes import REHASH
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.index.resolve import find_declared_index
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.location.rehashed_number import find_rehashed_number
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.write.commit.transactions import Transactions

__all__ = ["is_recorded", "pin_index"]


def is_recorded(config: TableConfig, snapshot: Snapshot) -> bool:
    """Whether hoodie.properties states the index as it is in a snapshot. Pure.

    After a rehash, or once it was taken back, the number of buckets is to be recorded anew.
    """
    try:
        settings = IndexSettings.from_properties(config.properties)
        rehashed = find_rehashed_number(snapshot, config)
    except IndexUnknownError:  # contradicts itself
        return False
    if rehashed is not None and rehashed.number != rehashed.stated:
        return False
    return find_declared_index(settings, None, has_hashing_metadata=False).index is not None


def pin_index(
    snapshot: Snapshot,
    finder: IndexFinder,
    transactions: Transactions,
    *,
    writes_rows: bool = False,
) -> TableConfig:
    """Record the index, once it is proved for every partition, and return the new properties.

    Args:
        snapshot: The table as it is now.
        finder: Its index.
        transactions: Has the table lock.
        writes_rows: A write follows, so that what refuses the write refuses this too.

    Raises:
        IndexUnknownError: the index is unknown, or not proved for a partition.
        ValueError: the caller's index contradicts the table.
        UnsupportedError: the index has no buckets; or, with `writes_rows`, a metadata table.
        ConflictError: another writer has completed a write meanwhile.
        LockTimeoutError: another writer has the table lock.
        StorageError: the store failed.
    """
    state = snapshot.state
    resolved = finder.resolve(snapshot)
    index = resolved.bucket_index
    if resolved.index is None:
        raise IndexUnknownError(
            f"the index cannot be recorded, since it is unknown: {resolved.evidence}; pass "
            "index=, such as index=SimpleBucketIndex(16)"
        )
    if index is None:
        raise UnsupportedError(f"recording {resolved.index}; only a bucket index is recorded")
    for partition_path in snapshot.partitions:
        finder.layout(snapshot, partition_path)
    recorded = index.properties(state.config.record_key_fields)
    with transactions.locked() as table:
        if writes_rows:
            transactions.metadata_keeper.check(table)
        now, then = table.timeline.writes.completed, state.timeline.writes.completed
        if now.instants != then.instants:
            raise ConflictError("another writer has written while the index was proved; try again")
        if is_recorded(table.config, snapshot):
            return table.config
        rehashed = find_rehashed_number(snapshot, table.config)
        if rehashed is not None and rehashed.newest is not None:
            recorded.update(rehashed.newest.entry())
        changed = {*IndexSettings.KEYS, REHASH}
        return table.change_properties(
            lambda properties: {
                **{k: v for k, v in properties.items() if k not in changed},
                **recorded,
            }
        )
