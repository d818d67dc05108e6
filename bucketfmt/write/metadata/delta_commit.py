"""The delta commit of the metadata table that goes with an instant of the table.

I/O, under the lock of the table. The log files come first, then the completed instant: readers of
the metadata table take the records as valid once the instant of the table is completed too. Source:
HoodieBackedTableMetadataWriter (commitInternal, tagRecordsWithLocation), HoodieAppendHandle,
HoodieTableMetadataUtil.getValidInstantTimestamps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from bucketfmt.errors import CorruptError
from bucketfmt.format.log.log_block import BlockType, CorruptSpan, HeaderKey, encode_log_block
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.metadata.metadata_files import encode_deletes_block, encode_entries_block
from bucketfmt.format.metadata.metadata_keys import file_id_prefix
from bucketfmt.format.metadata.metadata_schemas import metadata_schema
from bucketfmt.format.names.instants import State, format_instant_file_name
from bucketfmt.format.names.layout import METADATA_FOLDER, METADATA_TABLE
from bucketfmt.format.names.names import LogFileName, find_metadata_file_name
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata, WriteStat
from bucketfmt.limits import Limits
from bucketfmt.metadata_table.metadata_table import find_last_compaction
from bucketfmt.storage.store import FileInfo, Store
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.timeline.load import load_timeline
from bucketfmt.timeline.timeline import Instant
from bucketfmt.write.commit.locked_table import LockedTable
from bucketfmt.write.metadata.update import MetadataUpdate, PartitionUpdate

__all__ = ["put_delta_commit", "remove_delta_commit"]

_WRITE_TOKEN = "1-0-1"  # HoodieLogFormat.UNKNOWN_WRITE_TOKEN  # noqa: S105
_ROLLBACK_BLOCK = "0"  # HoodieCommandBlockTypeEnum
_UPSERT = "UPSERT_PREPPED"


@dataclass(frozen=True)
class _Group:
    """A file group of the metadata table: the slice that takes the next log file.

    Attributes:
        file_id: Of the file group.
        start: The instant that the slice began with.
        version: Of the newest log file of the slice; 0 if there is none.
    """

    file_id: str
    start: str
    version: int


def put_delta_commit(table: LockedTable, time: str, update: MetadataUpdate) -> None:
    """Write a delta commit; what an earlier try has left of it is removed first.

    Args:
        table: The metadata table, under the lock of the table that it is of.
        time: The instant of the table that the records come from.
        update: The records.

    Raises:
        CorruptError: a partition lacks file groups.
        ConflictError: the lock was lost.
        StorageError: the store failed.
    """
    remove_delta_commit(table.store, table.config, table.limits, time)
    table.load_timeline()
    instant = table.request("deltacommit", time=time)
    table.begin(time, "deltacommit")
    writer = _GroupWriter(table, time)
    stats: dict[str, list[WriteStat]] = {}
    pieces = [piece for path, own in update.items() for piece in writer.pieces(path, own)]
    for stat in map_in_threads(writer.put, pieces, waiting_count(table.store)):
        stats.setdefault(stat.partition_path or "", []).append(stat)
    table.load_timeline()
    metadata = CommitMetadata(partition_to_write_stats=stats, operation_type=_UPSERT)
    table.publish(instant, metadata)


def remove_delta_commit(store: Store, config: TableConfig, limits: Limits, time: str) -> bool:
    """Remove the delta commit of an instant, whatever there is of it.

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
    own = [i for i in timeline.instants if i.requested_time == time]
    if not own:
        return True
    last = find_last_compaction(timeline)
    if last is not None and any(
        _time_of(i, config) <= last.requested_time for i in own if i.is_completed
    ):
        return False
    for instant in own:
        if instant.is_completed:
            store.delete(join_path(config.timeline_path, instant.file_name))
    remove = partial(_remove_of, store, config, limits, time)
    folders = [e.path for e in store.list("") if e.is_dir and e.name != METADATA_FOLDER]
    entries = [entry for path in folders for entry in store.list(path)]
    map_in_threads(remove, entries, waiting_count(store))
    for state in (State.INFLIGHT, State.REQUESTED):
        for instant in own:
            name = format_instant_file_name(
                time, instant.action, state, None, config.timeline_layout
            )
            store.delete(join_path(config.timeline_path, name))
    return True


def _time_of(instant: Instant, config: TableConfig) -> str:
    """The time that tells whether a compaction has an instant's records."""
    is_new = config.timeline_layout > 1
    return (instant.completion_time if is_new else instant.requested_time) or "~"


def _remove_of(
    store: Store, config: TableConfig, limits: Limits, time: str, entry: FileInfo
) -> None:
    """Remove what a delta commit has written to a file, if it has."""
    name = find_metadata_file_name(entry.name)
    if not isinstance(name, LogFileName):
        return
    if config.table_version >= 8:
        if name.instant == time:
            store.delete(entry.path)
        return
    spans = decode_log_file(store.read(entry.path, limits.log_file_bytes_max), limits)
    times = {None if isinstance(span, CorruptSpan) else span.instant_time for span in spans}
    if times == {time}:
        store.delete(entry.path)
    elif time in times:  # others have written to the file as well
        header: dict[int, str] = {
            HeaderKey.INSTANT_TIME: time,
            HeaderKey.COMMAND_BLOCK_TYPE: _ROLLBACK_BLOCK,
            HeaderKey.TARGET_INSTANT_TIME: time,
        }
        block = encode_log_block(BlockType.COMMAND, header)
        _put_log(store, entry.path.rpartition("/")[0], name.file_id, name.instant, 1, block)


def _put_log(
    store: Store, folder: str, file_id: str, start: str, version: int, data: bytes
) -> LogFileName:
    """Create a log file of a slice with the first version that is free."""
    while True:
        name = LogFileName(file_id, start, version, _WRITE_TOKEN)
        if store.put_if_absent(join_path(folder, str(name)), data):
            return name
        version += 1


_Piece = tuple[str, _Group, PartitionUpdate]


class _GroupWriter:
    """Writes the log files of one delta commit."""

    def __init__(self, table: LockedTable, time: str) -> None:
        self._table, self._time = table, time
        self._by_write = table.config.table_version >= 8

    def pieces(self, partition: str, update: PartitionUpdate) -> Iterable[_Piece]:
        """Yield what changes in each file group of a partition."""
        if not len(update):
            return
        groups = self._groups(partition)
        for number, own in update.by_group(len(groups)):
            yield partition, groups[number], own

    def put(self, piece: _Piece) -> WriteStat:
        """Write the next log file of a file group."""
        partition, group, update = piece
        store = self._table.store
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

    def _groups(self, partition: str) -> Sequence[_Group]:
        """Return the file groups of a partition, in the order of their numbers."""
        timeline = self._table.timeline
        found: dict[str, _Group] = {}
        for entry in self._table.store.list(partition):
            name = find_metadata_file_name(entry.name)
            if isinstance(name, LogFileName):
                group = _Group(name.file_id, name.instant, name.version)
            elif name is not None and timeline.is_completed(name.instant):
                group = _Group(name.file_id, name.instant, 0)
            else:  # the base file of a compaction that failed, or no data file
                continue
            known = found.get(group.file_id)
            if known is None or (known.start, known.version) < (group.start, group.version):
                found[group.file_id] = group
        prefix = file_id_prefix(partition) or ""
        expected = [f"{prefix}{number:04}-0" for number in range(len(found))]
        if not found or sorted(found) != expected:
            raise CorruptError(
                f"the metadata table has not all file groups of {partition}; rebuild the partition "
                f"(bucketfmt index rebuild TABLE {partition})",
                path=join_path(METADATA_TABLE, partition),
            )
        return [found[file_id] for file_id in expected]
