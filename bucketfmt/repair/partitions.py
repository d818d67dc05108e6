"""Makes the metadata files of partitions again, by which Hudi takes a folder for a partition.

I/O, under the table lock. Source: HoodiePartitionMetadata, RepairAddpartitionmetaProcedure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bucketfmt.snapshot.listing import StoreLister, is_partition
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.write.commit.transactions import Transactions
from bucketfmt.write.files.data_file import put_partition_metafile

__all__ = ["find_lost_partitions", "repair_partitions"]


def find_lost_partitions(
    snapshot: Snapshot, partitions: Sequence[str] | None = None
) -> dict[str, str]:
    """Return the folders with data files that lack a metadata file, with the first instant of each.

    Args:
        snapshot: The table as it is now.
        partitions: Look at these paths; None: at those that commits of the active timeline name.
            A folder that no commit names may be a copy that somebody put aside.

    Raises:
        StorageError: the store failed.
        ValueError: there are no data files in one of `partitions`.
    """
    paths = sorted({*(snapshot.named_partitions if partitions is None else partitions)})
    lister = StoreLister(snapshot.state.store)
    lister.prepare(paths)
    found = {}
    for path in paths:
        instants = [file.name.instant for group in lister.files(path).values() for file in group]
        if partitions is not None and not instants:
            raise ValueError(f"there are no data files in {path!r}")
        if instants and not is_partition(lister, path):
            found[path] = min(instants)
    return found


def repair_partitions(
    transactions: Transactions,
    snapshot: Callable[[], Snapshot],
    partitions: Sequence[str] | None = None,
) -> list[str]:
    """Put the metadata files that are missing; return the partition paths.

    Raises:
        LockTimeoutError: the table lock could not be acquired.
        StorageError: the store failed.
        ValueError: as `find_lost_partitions`.
    """
    with transactions.recovered() as table:
        found = find_lost_partitions(snapshot(), partitions)
        for path, instant in found.items():
            table.check_held()
            put_partition_metafile(table.store, path, instant)
    return list(found)
