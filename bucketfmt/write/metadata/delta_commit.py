"""The delta commit of the metadata table that goes with an instant of the table.

I/O, under the lock of the table. The log files come first, then the completed instant: readers of
the metadata table take the records as valid once the instant of the table is completed too. Source:
HoodieBackedTableMetadataWriter (commitInternal, tagRecordsWithLocation), HoodieAppendHandle,
HoodieTableMetadataUtil.getValidInstantTimestamps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from bucketfmt.errors import CorruptError
from bucketfmt.format.log.log_block import CorruptSpan, encode_rollback_block
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.metadata.metadata_files import (
    encode_deletes_block,
    encode_entries_block,
    encode_initial_block,
)
from bucketfmt.format.metadata.metadata_keys import (
    format_metadata_file_id,
    parse_metadata_file_id,
)
from bucketfmt.format.metadata.metadata_schemas import metadata_schema
from bucketfmt.format.names.instants import State, format_instant_file_name
from bucketfmt.format.names.layout import METADATA_FOLDER, METADATA_TABLE, UNKNOWN_WRITE_TOKEN
from bucketfmt.format.names.names import LogFileName, find_metadata_file_name
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata, WriteStat
from bucketfmt.limits import Limits
from bucketfmt.metadata_table.metadata_table import find_last_compaction
from bucketfmt.metadata_table.valid_instants import is_amending_instant, is_initial_instant
from bucketfmt.storage.store import FileInfo, Store
from bucketfmt.storage.streams import beside, map_in_threads, waiting_count
from bucketfmt.timeline.completion_times import CompletionTimes
from bucketfmt.timeline.history import load_history
from bucketfmt.timeline.load import load_commit_metadata, load_timeline
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.timeline.transitions import delete_instant_file
from bucketfmt.write.commit.locked_table import LockedTable
from bucketfmt.write.metadata.update import MetadataUpdate, PartitionUpdate, PartUpdates

__all__ = [
    "INITIAL_WRITE_TOKEN",
    "is_in_base_files",
    "put_delta_commit",
    "remove_delta_commit",
]

INITIAL_WRITE_TOKEN = "0-0-0"  # noqa: S105
"""The write token of the log file that a file group begins with (DEFAULT_WRITE_TOKEN)."""

_UPSERT = "UPSERT_PREPPED"
_AMENDS = "bucketfmt.amends"  # in a delta commit: of which instant of the table it is
_INITIAL_SUFFIXES = "010"  # and above: of the instants of initialisations, in version 6


@dataclass(frozen=True)
class _Group:
    """A file group of the metadata table: the slice that takes the next log file.

    Attributes:
        file_id: Of the file group.
        start: The instant that the slice began with.
        version: Of the newest log file of the slice; 0 if there is none.
        is_lasting: Whether the file group is there whatever becomes of pending instants.
    """

    file_id: str
    start: str
    version: int
    is_lasting: bool = True


def put_delta_commit(
    table: LockedTable,
    time: str,
    collect: Callable[[], MetadataUpdate],
    pending: Collection[str],
    amends: str | None = None,
) -> MetadataUpdate:
    """Write a delta commit, and return its records; what an earlier try has left is removed first.

    A partition of the table that is new to a partitioned record index gets a file group in it.

    Args:
        table: The metadata table, under the lock of the table that it is of.
        time: The instant of the table that the records come from.
        collect: Returns the records. Over a network the delta commit begins meanwhile.
        pending: The pending instants of the table. A file group that only they have written to may
            go with them.
        amends: The instant of the table that the records come from, where `time` is another one:
            see `find_amending_instant`.

    Raises:
        CorruptError: a partition lacks file groups.
        ConflictError: the lock was lost.
        StorageError: the store failed.
    """
    if _find_own(table.store, table.config, table.limits, table.timeline, time):
        remove_delta_commit(table.store, table.config, table.limits, time)
        table.load_timeline()
    writer, workers = _GroupWriter(table, time, pending), waiting_count(table.store)
    with beside(table.store, partial(_begin, table, time)) as begun:
        update = collect()
        found = map_in_threads(lambda own: [*writer.pieces(*own)], [*update.items()], workers)
        instant = begun()
    stats: dict[str, list[WriteStat]] = {}
    for stat in map_in_threads(writer.put, [*chain.from_iterable(found)], workers):
        if stat is not None:
            stats.setdefault(stat.partition_path or "", []).append(stat)
    metadata = CommitMetadata(
        partition_to_write_stats=stats,
        extra_metadata={} if amends is None else {_AMENDS: amends},
        operation_type=_UPSERT,
    )
    table.publish(instant, metadata, is_last=False)  # the change of the table follows
    return update


def _begin(table: LockedTable, time: str) -> Instant:
    table.request("deltacommit", time=time)
    return table.begin(time, "deltacommit")


def remove_delta_commit(store: Store, config: TableConfig, limits: Limits, time: str) -> bool:
    """Remove the delta commit of an instant, whatever there is of it, and what amends it.

    It is done before the instant of the table leaves the timeline: from then on readers would take
    the records as valid, as those of an archived instant.

    Args:
        store: The files of the metadata table.
        config: The properties of the metadata table.
        limits: Bounds on what is read.
        time: The instant of the table.

    Returns:
        Whether nothing is left of it. False: a compaction has put the records into base files.

    Raises:
        StorageError: the store failed; do it again.
    """
    timeline = load_timeline(store, config, limits)
    own = _find_own(store, config, limits, timeline, time)
    if not own:
        return True
    if _is_compacted(own, timeline, config):
        return False
    for instant in own:
        if instant.is_completed:
            delete_instant_file(store, config, instant.file_name)
    times = {instant.requested_time for instant in own}
    remove = partial(_remove_of, store, config, limits, times)
    folders = [e.path for e in store.list("") if e.is_dir and e.name != METADATA_FOLDER]
    entries = [entry for path in folders for entry in store.list(path)]
    map_in_threads(remove, entries, waiting_count(store))
    for state in (State.INFLIGHT, State.REQUESTED):
        for instant in own:
            name = format_instant_file_name(
                instant.requested_time, instant.action, state, None, config.timeline_layout
            )
            delete_instant_file(store, config, name)
    return True


def is_in_base_files(store: Store, config: TableConfig, limits: Limits, time: str) -> bool:
    """Return whether base files of the metadata table have records of a completed instant.

    A compaction has put them there, or a partition was made when the instant was completed.

    Args:
        store: The files of the metadata table.
        config: The properties of the metadata table.
        limits: Bounds on what is read.
        time: The instant of the table.

    Raises:
        CorruptError: the timeline of the metadata table is damaged.
        StorageError: the store failed.
    """
    timeline = load_timeline(store, config, limits)
    own = _find_own(store, config, limits, timeline, time)
    written = [instant for instant in own if instant.is_completed]
    if not written or _is_compacted(written, timeline, config):
        return True  # where there is none, it was archived, or all partitions were made later
    instants = (*timeline.completed.instants, *load_history(store, config, limits))
    if config.timeline_layout == 1:  # they begin with the last instant that was completed
        made = (i.requested_time for i in instants if len(i.requested_time) > len(time))
        suffixes = (made_at[len(time) :] for made_at in made if made_at[: len(time)] >= time)
        return any(suffix >= _INITIAL_SUFFIXES for suffix in suffixes)
    first = min(_time_of(instant, config) for instant in written)
    return any(
        (instant.completion_time or "") > first
        for instant in instants
        if is_initial_instant(instant.requested_time)
    )


def _find_own(
    store: Store, config: TableConfig, limits: Limits, timeline: Timeline, time: str
) -> list[Instant]:
    """Return the delta commit of an instant of the table, and those that amend it."""
    amending = partial(_amends, store, config, limits, time)
    return [i for i in timeline.instants if i.requested_time == time or amending(i)]


def _is_compacted(own: Iterable[Instant], timeline: Timeline, config: TableConfig) -> bool:
    last = find_last_compaction(timeline)
    return last is not None and any(
        _time_of(i, config) <= last.requested_time for i in own if i.is_completed
    )


def _amends(store: Store, config: TableConfig, limits: Limits, time: str, instant: Instant) -> bool:
    """Whether a delta commit amends that of an instant. A pending one has no other purpose left."""
    if config.timeline_layout == 1 or not is_amending_instant(instant.requested_time):
        return False
    if not instant.is_completed:
        return True
    metadata = load_commit_metadata(store, config, instant, limits)
    return metadata.extra_metadata.get(_AMENDS) == time


def _time_of(instant: Instant, config: TableConfig) -> str:
    """The time that tells whether a compaction has an instant's records."""
    is_new = config.timeline_layout > 1
    return (instant.completion_time if is_new else instant.requested_time) or "~"


def _remove_of(
    store: Store, config: TableConfig, limits: Limits, own: Collection[str], entry: FileInfo
) -> None:
    """Remove what delta commits have written to a file, if they have: one, until version 6."""
    name = find_metadata_file_name(entry.name)
    if not isinstance(name, LogFileName):
        return
    if config.table_version >= 8:
        if name.instant in own:
            store.delete(entry.path)
        return
    (time,) = own
    spans = decode_log_file(store.read(entry.path, limits.log_file_bytes_max), limits)
    times = {None if isinstance(span, CorruptSpan) else span.instant_time for span in spans}
    if times == {time}:
        store.delete(entry.path)
    elif time in times:  # others have written to the file as well
        block = encode_rollback_block(time, time)
        _put_log(store, entry.path.rpartition("/")[0], name.file_id, name.instant, 1, block)


def _put_log(
    store: Store, folder: str, file_id: str, start: str, version: int, data: bytes
) -> LogFileName:
    """Create a log file of a slice with the first version that is free."""
    while True:
        name = LogFileName(file_id, start, version, UNKNOWN_WRITE_TOKEN)
        if store.put_if_absent(join_path(folder, str(name)), data):
            return name
        version += 1


_Piece = tuple[str, _Group, PartitionUpdate | None]


class _GroupWriter:
    """Writes the log files of one delta commit."""

    def __init__(self, table: LockedTable, time: str, pending: Collection[str]) -> None:
        self._table, self._time, self._pending = table, time, pending
        self._by_write = table.config.table_version >= 8
        load = partial(load_history, table.store, table.config, table.limits)
        self._completion_times = CompletionTimes(table.timeline, load)

    def pieces(self, partition: str, updates: PartUpdates) -> Iterable[_Piece]:
        """Yield what changes in each file group of a partition, and new file groups."""
        if all(path is None and not len(own) for path, own in updates.items()):
            return
        every = self._groups(partition, [path for path in updates if path is not None])
        for data_partition, update in updates.items():
            groups = every.get(data_partition)
            if groups is None:
                raise self._lacks_groups(partition)
            changes = dict(update.by_group(len(groups)))
            for number, group in enumerate(groups):
                own = changes.get(number)
                if own is not None or not group.is_lasting:
                    yield partition, group, own

    def put(self, piece: _Piece) -> WriteStat | None:
        """Write the next log file of a file group; first the file group, if it is new."""
        partition, group, update = piece
        store = self._table.store
        if not group.is_lasting:
            first = LogFileName(group.file_id, self._time, 1, INITIAL_WRITE_TOKEN)
            store.replace(join_path(partition, str(first)), encode_initial_block(self._time))
        if update is None:
            return None
        data = self._encode(partition, update)
        # Until version 6 a log file is named after its slice, later after the write.
        start, number = (self._time, 1) if self._by_write else (group.start, group.version + 1)
        name = _put_log(store, partition, group.file_id, start, number, data)
        return WriteStat(
            file_id=group.file_id,
            path=join_path(partition, str(name)),
            prev_commit=start,
            num_writes=len(update.entries),
            num_deletes=len(update.deleted),
            num_update_writes=len(update.entries),
            total_write_bytes=len(data),
            file_size_in_bytes=len(data),
            partition_path=partition,
            log_version=name.version,
            log_offset=0,
            base_file="",
            log_files=[str(name)],
        )

    def _encode(self, partition: str, update: PartitionUpdate) -> bytes:
        schema, blocks = metadata_schema(self._table.config.table_version), []
        if len(update.entries):
            created_ms = int(self._table.machine.now() * 1000)
            blocks.append(
                encode_entries_block(update.entries, schema, self._time, created_ms=created_ms)
            )
        if len(update.deleted):
            keys = update.deleted.to_pylist()
            blocks.append(encode_deletes_block(keys, partition, schema, self._time))
        return b"".join(blocks)

    def _groups(
        self, partition: str, wanted: Iterable[str]
    ) -> Mapping[str | None, Sequence[_Group]]:
        """Return the file groups of a partition, in the order of their numbers.

        Args:
            partition: Of the metadata table.
            wanted: The partitions of the table that are given a file group if they have none.

        Returns:
            The file groups by the partition of the table that they are for; None: for all.
        """
        found: dict[str, _Group] = {}
        unfinished = self._table.timeline.pending.requested_times
        for entry in self._table.store.list(partition):
            name = find_metadata_file_name(entry.name)
            if isinstance(name, LogFileName):
                if name.instant in unfinished:
                    continue  # also the first file of a file group that nobody has made to the end
                is_lasting = not self._by_write or name.instant not in self._pending
                group = _Group(name.file_id, name.instant, name.version, is_lasting)
            elif name is not None and self._completion_times.is_completed(name.instant):
                group = _Group(name.file_id, name.instant, 0)
            else:  # the base file of a compaction that failed, or no data file
                continue
            known = found.get(group.file_id)
            if known is None:
                found[group.file_id] = group
                continue
            newer = max(known, group, key=lambda each: (each.start, each.version))
            is_lasting = known.is_lasting or group.is_lasting
            found[group.file_id] = replace(newer, is_lasting=is_lasting)
        numbered: dict[str | None, dict[int, _Group]] = {}
        for file_id, group in found.items():
            data_partition, number = parse_metadata_file_id(partition, file_id)
            numbered.setdefault(data_partition, {})[number] = group
        for data_partition in wanted:
            if data_partition not in numbered and None not in numbered:
                file_id = format_metadata_file_id(partition, 0, data_partition)
                numbered[data_partition] = {0: _Group(file_id, self._time, 0, is_lasting=False)}
        if any(sorted(own) != list(range(len(own))) for own in numbered.values()):
            raise self._lacks_groups(partition)
        return {
            data_partition: [own[number] for number in range(len(own))]
            for data_partition, own in numbered.items()
        }

    @staticmethod
    def _lacks_groups(partition: str) -> CorruptError:
        return CorruptError(
            f"the metadata table has not all file groups of {partition}",
            path=join_path(METADATA_TABLE, partition),
        )
