"""What an earlier attempt at a compaction or resize wrote, and never published.

I/O. The instant is begun again under its requested time, with other write tokens: of two base files
of one file group and instant, readers open either, and Hudi fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from bucketfmt.format.names.names import BaseFileName, LogFileName, find_data_file_name
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.timeline.markers import delete_markers
from bucketfmt.write.commit.locked_table import LockedTable

__all__ = ["remove_earlier_attempt"]


def remove_earlier_attempt(
    table: LockedTable,
    instant: str,
    partition_paths: Iterable[str],
    find_name: Callable[[str], BaseFileName | LogFileName | None] = find_data_file_name,
) -> None:
    """Remove the base files of an instant, announced or not, then what announced them.

    Log files of the instant of a resize are of writers that write to the new file groups too.

    Args:
        table: The table.
        instant: The requested time.
        partition_paths: Where the instant writes.
        find_name: Reads the name of a file; None for other files.

    Raises:
        ConflictError: the lock was lost.
        StorageError: the store failed; some of the files may be left.
    """
    store = table.store
    listings = map_in_threads(store.list, sorted(set(partition_paths)), waiting_count(store))
    for info in chain.from_iterable(listings):
        name = None if info.is_dir else find_name(info.name)
        if isinstance(name, BaseFileName) and name.instant == instant:
            table.check_held()
            store.delete(info.path)
    delete_markers(store, instant)
