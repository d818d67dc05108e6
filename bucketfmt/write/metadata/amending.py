"""What the metadata table has to be told again of a change that was begun before others.

I/O, read only. The records of a key are merged in the order in which their changes were begun,
whoever was published first: HoodieLogFile.LogFileComparator. So a change that others overtook does
not have the last word on the partitions and the keys that they have in common
(docs/decisions/0040).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.format.metadata.metadata_keys import is_secondary_index
from bucketfmt.location.records.record_locations import RECORD_INDEX
from bucketfmt.metadata_table.metadata_partition import MetadataPartition
from bucketfmt.metadata_table.metadata_table import MetadataTable, load_metadata_table
from bucketfmt.metadata_table.valid_instants import is_initial_instant
from bucketfmt.timeline.timeline import Timeline
from bucketfmt.write.commit.locked_table import LockedTable
from bucketfmt.write.metadata.update import MetadataUpdate, PartitionUpdate

__all__ = ["find_last_overtaking", "load_overruled"]

_PARTITION_STATS = "partition_stats"


def find_last_overtaking(metadata: Timeline, time: str) -> str | None:
    """Return the last delta commit of a metadata table that was begun after an instant.

    None where there is none, and until table version 6: there a log file is merged in the order in
    which it was written.

    Args:
        metadata: The active timeline of the metadata table.
        time: When the instant was requested.
    """
    last = metadata.completed.of("deltacommit").last
    if metadata.layout == 1 or last is None or last.requested_time <= time:
        return None
    return None if is_initial_instant(last.requested_time) else last.requested_time


def load_overruled(
    table: LockedTable, time: str, update: MetadataUpdate, *, is_blind: bool
) -> MetadataUpdate:
    """Return the records of a change that records of changes begun later overrule.

    Deletions are left out: if the change is not published after all, what is said here stays for a
    while, and an entry too many is harmless, where an entry that lacks is not.

    Args:
        table: The table.
        time: When the change was requested.
        update: The records of the change.
        is_blind: Whether others may have written the same keys. Else they have at most partitions
            in common with the change.

    Raises:
        CorruptError: the metadata table is damaged.
        StorageError: the store failed.
    """
    metadata = load_metadata_table(table.store, table.config, table.timeline, table.limits)
    return {} if metadata is None else dict(_overruled(metadata, time, update, is_blind=is_blind))


def _overruled(
    metadata: MetadataTable, time: str, update: MetadataUpdate, *, is_blind: bool
) -> Iterator[tuple[str, dict[str | None, PartitionUpdate]]]:
    for name, parts in update.items():
        is_of_keys = name == RECORD_INDEX or is_secondary_index(name)
        if name != _PARTITION_STATS and not (is_blind and is_of_keys):
            continue
        partition = metadata.partition(name)
        found: dict[str | None, PartitionUpdate] = {}
        for data_partition, own in parts.items():
            logged = _logged_since(partition, data_partition, time)
            is_logged = pc.is_in(own.entries.keys, logged).to_numpy(zero_copy_only=False)
            if is_logged.any():
                entries = own.entries.take(np.flatnonzero(is_logged))
                found[data_partition] = replace(own, entries=entries, deleted=own.deleted[:0])
        if found:
            yield name, found


def _logged_since(
    partition: MetadataPartition, data_partition: str | None, time: str
) -> pa.LargeBinaryArray:
    """Return the keys in log files of changes that were begun after an instant."""
    found = [pa.array([], pa.large_binary())]
    for group in partition.groups.get(data_partition, ()):
        logs = group.file_slice.log_files
        later = {str(file.name) for file in logs if file.name.instant > time}
        if later:
            found.append(group.logged_keys(later))
    return pa.concat_arrays(found)
