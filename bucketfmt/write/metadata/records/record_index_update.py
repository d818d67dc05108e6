"""What a commit changes in the record index: which keys came, and which went.

I/O, read only: reads the keys of the files that the commit wrote, and of those that they replace.
Source: HoodieTableMetadataUtil.convertMetadataToRecordIndexRecords, BaseFileRecordParsingUtils,
HoodieBackedTableMetadataWriter.getRecordIndexAdditionalUpserts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timezone

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import BucketfmtError
from bucketfmt.format.log.delete_records import decode_delete_block
from bucketfmt.format.log.log_block import BlockType, CorruptSpan
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.metadata.metadata_records import MetadataSchema, RecordLocation
from bucketfmt.format.metadata.record_location_kernels import (
    RecordLocations,
    encode_record_locations,
)
from bucketfmt.format.names.instants import parse_instant_time
from bucketfmt.format.names.names import (
    BaseFileName,
    FileGroupId,
    LogFileName,
)
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import NULL_COMMIT, CommitMetadata, WriteStat
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.limits import Limits
from bucketfmt.rows.columns.meta_columns import COMMIT_TIME, RECORD_KEY
from bucketfmt.rows.columns.virtual_keys import record_keys
from bucketfmt.rows.row_file import open_row_file
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.snapshot.data_files.virtual_logs import followed
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.store import Store
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.write.commit.receipts import RowReport
from bucketfmt.write.metadata.records.file_statistics import block_rows
from bucketfmt.write.metadata.records.slice_keys import read_slice_keys
from bucketfmt.write.metadata.update import PartitionUpdate, PartUpdates

__all__ = ["KeyChange", "RecordIndexReader", "instant_milliseconds", "plan_record_index"]

_KEYS = pa.large_string()


@dataclass(frozen=True)
class KeyChange:
    """The keys that a commit wrote to one file group, and those that it took from it.

    Attributes:
        partition_path: Of the file group.
        file_id: Of the file group.
        written: The keys that are there now and may not have been before; no key twice.
        removed: The keys that are there no more.
    """

    partition_path: str
    file_id: str
    written: pa.Array
    removed: pa.Array


def plan_record_index(
    changes: Sequence[KeyChange],
    instants_ms: Sequence[int],
    schema: MetadataSchema,
    partitions: Iterable[str] | None,
) -> PartUpdates:
    """Return what changes in the record index.

    A key that one file group lost and another one has is moved. Of two file groups that both have
    a key, which only tables have whose keys are not unique, the index names the later one.

    Args:
        changes: Of all file groups.
        instants_ms: For each file group the instant of the commit that the keys came with, in
            milliseconds since the epoch.
        schema: By which to encode.
        partitions: Of a partitioned record index, the partitions of the table that are to have file
            groups in the index, besides those of the changes. None: the index is global.
    """
    if partitions is None:
        return {None: _plan_keys(changes, instants_ms, schema)}
    own: dict[str, list[tuple[KeyChange, int]]] = {path: [] for path in partitions}
    for change, instant_ms in zip(changes, instants_ms, strict=True):
        own.setdefault(change.partition_path, []).append((change, instant_ms))
    return {
        path: _plan_keys([change for change, _ in each], [ms for _, ms in each], schema)
        for path, each in own.items()
    }


def _plan_keys(
    changes: Sequence[KeyChange], instants_ms: Sequence[int], schema: MetadataSchema
) -> PartitionUpdate:
    """Return what changes among keys that are unique."""
    locations = [
        RecordLocation(each.partition_path, each.file_id, instant_ms)
        for each, instant_ms in zip(changes, instants_ms, strict=True)
    ]
    keys = pa.chunked_array([each.written for each in changes], _KEYS).combine_chunks()
    sizes = [len(each.written) for each in changes]
    numbers = np.repeat(np.arange(len(changes), dtype=np.int32), sizes)
    removed = pa.chunked_array([each.removed for each in changes], _KEYS).combine_chunks()
    gone = pc.unique(removed)
    if len(gone):  # few, mostly: hashing the keys that were written would take longer
        moved = keys.filter(pc.is_in(keys, gone))
        gone = gone.filter(pc.invert(pc.is_in(gone, moved)))
    entries = encode_record_locations(keys, RecordLocations(locations, numbers), schema)
    return PartitionUpdate(entries, gone.cast(pa.string()))


def instant_milliseconds(instant: str, config: TableConfig) -> int:
    """Return an instant in milliseconds since the epoch, as Hudi puts it into the record index."""
    moment = parse_instant_time(instant)
    zoned = moment.replace(tzinfo=timezone.utc) if config.timezone == "UTC" else moment.astimezone()
    return round(zoned.timestamp() * 1000)


class RecordIndexReader:
    """Reads the keys of files. Safe to use from several threads."""

    def __init__(self, store: Store, config: TableConfig, limits: Limits) -> None:
        """Set up.

        Args:
            store: The files of the table.
            config: The properties of the table.
            limits: Bounds on what is read.
        """
        self._store, self._config, self._limits = store, config, limits

    def read_commit(
        self,
        metadata: CommitMetadata,
        files_of: Callable[[str, str], Iterable[DataFile]],
        snapshot: Snapshot,
        reports: Mapping[str, RowReport],
    ) -> list[KeyChange]:
        """Return the keys that a commit wrote and removed, by file group.

        Args:
            metadata: What the commit says.
            files_of: Returns the files of a file group, by partition path and file id.
            snapshot: The table before the commit.
            reports: What the writers of files tell of their rows, by path.

        Raises:
            CorruptError: a file is damaged.
            StorageError: the store failed.
        """
        operation = WriteOperation.find(metadata.operation_type)
        if operation is not None and operation.compacts:
            return []
        stats = [
            (path, stat)
            for path, own in metadata.partition_to_write_stats.items()
            for stat in own
            if stat.path
        ]
        told = {path: report.keys for path, report in reports.items() if report.keys is not None}
        untold = [(path, stat) for path, stat in stats if stat.path not in told]
        logged = self._find_logged(untold, snapshot)

        def read(given: tuple[str, WriteStat]) -> KeyChange:
            partition, stat = given
            file_id = stat.file_id or ""
            keys = told.get(stat.path or "")
            if keys is not None:
                return KeyChange(partition, file_id, *keys)
            before = logged.get((partition, file_id))
            if before is not None:
                return self._read_rewritten(stat, before, snapshot)
            return self._read_stat(partition, stat, files_of)

        changes = map_in_threads(read, stats, waiting_count(self._store))
        if operation is not WriteOperation.CLUSTER:  # the keys are in the new file groups
            replaced = [
                file_slice
                for path, file_ids in metadata.partition_to_replace_file_ids.items()
                for file_slice in snapshot.slices_where(path, set(file_ids).__contains__)
            ]
            changes += [
                KeyChange(own.partition_path, own.file_id, _no_keys(), keys)
                for own, keys in zip(replaced, read_slice_keys(snapshot, replaced), strict=True)
            ]
        return changes

    def _read_stat(
        self,
        partition: str,
        stat: WriteStat,
        files_of: Callable[[str, str], Iterable[DataFile]],
    ) -> KeyChange:
        path, file_id = stat.path or "", stat.file_id or ""
        if isinstance(stat.file_name, LogFileName):
            written, removed = self._keys_of_log(path)
            return KeyChange(partition, file_id, pc.unique(written), pc.unique(removed))
        before = self._find_replaced_base(partition, stat, files_of)
        if before is None:
            return KeyChange(partition, file_id, self._keys_of_base(path), _no_keys())
        if not (stat.num_inserts or stat.num_deletes):
            return KeyChange(partition, file_id, _no_keys(), _no_keys())
        return KeyChange(
            partition, file_id, *_differences(self._keys_of_base(before), self._keys_of_base(path))
        )

    def _find_logged(
        self, stats: Iterable[tuple[str, WriteStat]], snapshot: Snapshot
    ) -> dict[FileGroupId, FileSlice]:
        """Return the file slices with log files that base files replace."""
        replaced: dict[str, set[str]] = {}
        if self._config.table_type == "MERGE_ON_READ":
            for path, stat in stats:
                if isinstance(stat.file_name, BaseFileName):
                    replaced.setdefault(path, set()).add(stat.file_id or "")
        return {
            (path, own.file_id): own
            for path, file_ids in replaced.items()
            for own in snapshot.slices_where(path, file_ids.__contains__)
            if own.log_files
        }

    def _read_rewritten(self, stat: WriteStat, before: FileSlice, snapshot: Snapshot) -> KeyChange:
        """Return the keys that a base file has of its commit, and those that are there no more.

        The index may lack keys of the slice that Hudi logged, and has none that the log deletes.
        """
        path, (old,) = stat.path or "", read_slice_keys(snapshot, [before])
        if not self._config.populate_meta_fields:
            changed = _differences(old, self._keys_of_base(path))
            return KeyChange(before.partition_path, before.file_id, *changed)
        rows = self._read_base(path, [RECORD_KEY, COMMIT_TIME])
        new, name = self._keys_of(rows), stat.file_name
        instant = None if name is None else name.instant
        written = new.filter(pc.equal(rows[COMMIT_TIME], instant).combine_chunks())
        removed = old.filter(pc.invert(pc.is_in(old, new)))
        return KeyChange(before.partition_path, before.file_id, written, removed)

    def _find_replaced_base(
        self,
        partition: str,
        stat: WriteStat,
        files_of: Callable[[str, str], Iterable[DataFile]],
    ) -> str | None:
        """Return the base file that a base file replaces; version 6 records its instant only."""
        if stat.prev_base_file:
            return join_path(partition, stat.prev_base_file.rpartition("/")[2])
        if stat.prev_commit in (None, NULL_COMMIT):
            return None
        for file in files_of(partition, stat.file_id or ""):
            if isinstance(file.name, BaseFileName) and file.name.instant == stat.prev_commit:
                return file.path
        return None

    def _keys_of_base(self, path: str) -> pa.Array:
        columns = [RECORD_KEY] if self._config.populate_meta_fields else None
        return self._keys_of(self._read_base(path, columns))

    def _read_base(self, path: str, columns: list[str] | None) -> pa.Table:
        try:
            with self._store.open_arrow(path) as source:
                reader = open_row_file(source, path.rpartition(".")[2], self._limits)
                return reader.read(columns)
        except BucketfmtError as error:
            raise error.within(path=path) from None

    def _keys_of_log(self, path: str) -> tuple[pa.Array, pa.Array]:
        """Return the keys of the rows, and the keys that are deleted, of a log file."""
        limits = self._limits
        written, removed = [_no_keys()], [_no_keys()]
        try:
            data = self._store.read(path, limits.log_file_bytes_max)
            for span in followed(self._store, path, decode_log_file(data, limits), limits):
                if isinstance(span, CorruptSpan) or not len(span.content):
                    continue
                if span.block_type is BlockType.DELETE:
                    keys = decode_delete_block(span.content, limits).record_keys
                    removed.append(pa.array(keys, _KEYS).drop_null())
                else:
                    written += [self._keys_of(rows) for rows in block_rows(span, limits)]
        except BucketfmtError as error:
            raise error.within(path=path) from None
        parts = (pa.chunked_array(each, _KEYS).combine_chunks() for each in (written, removed))
        return next(parts), next(parts)

    def _keys_of(self, rows: pa.Table) -> pa.Array:
        if self._config.populate_meta_fields:
            keys = rows[RECORD_KEY]
        else:
            keys = record_keys(rows, self._config, are_stored=True)
        return keys.cast(_KEYS).combine_chunks()


def _differences(old: pa.Array, new: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the keys that only the new file has, and those that only the old one has."""
    if new[: len(old)].equals(old):  # the rows that were there keep their places
        return new[len(old) :], _no_keys()
    written = new.filter(pc.invert(pc.is_in(new, old)))
    if len(new) - len(written) == len(old):
        return written, _no_keys()
    return written, old.filter(pc.invert(pc.is_in(old, new)))


def _no_keys() -> pa.Array:
    return pa.array([], _KEYS)
