"""Collecting what an instant changes in the partitions of the metadata table.

I/O, read only: reads the footers and the keys of the files that the instant wrote, and what the
metadata table has of the other files of their partitions. Source: HoodieMetadataWriteUtils
(convertMetadataToRecords, convertMetadataToPartitionStatRecords), BaseFileRecordParsingUtils,
HoodieBackedTableMetadataWriter.getRecordIndexReplacedRecords.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.format.buckets.index_settings import has_directories
from bucketfmt.format.metadata.metadata_keys import (
    format_bloom_filter_key,
    format_column_stats_key,
    is_secondary_index,
)
from bucketfmt.format.metadata.metadata_records import (
    BloomFilterEntry,
    ColumnStats,
    MetadataRecord,
    MetadataSchema,
)
from bucketfmt.format.metadata.metadata_schemas import metadata_schema
from bucketfmt.format.names.names import BaseFileName, find_data_file_name
from bucketfmt.format.names.paths import check_relative_path, join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.service_metadata import CleanMetadata
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.location.records.record_locations import RECORD_INDEX
from bucketfmt.metadata_table.definitions import (
    find_secondary_columns,
)
from bucketfmt.process import cached_property
from bucketfmt.rows.avro.avro_schema import arrow_schema, parse_avro_schema
from bucketfmt.rows.columns.meta_rows import meta_schema
from bucketfmt.snapshot.data_files.files import DataFile
from bucketfmt.snapshot.schema import find_stated_schema
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.write.commit.locked_table import PendingChange
from bucketfmt.write.metadata.locked_metadata import LockedMetadata
from bucketfmt.write.metadata.records.file_bloom_filter import read_bloom_filter
from bucketfmt.write.metadata.records.file_statistics import ColumnStatistics, FileStatistics
from bucketfmt.write.metadata.records.plan_files import plan_files
from bucketfmt.write.metadata.records.record_index_update import (
    KeyChange,
    RecordIndexReader,
    instant_milliseconds,
    plan_record_index,
)
from bucketfmt.write.metadata.records.secondary_index import (
    plan_secondary_index,
    read_secondary_keys,
)
from bucketfmt.write.metadata.records.slice_keys import read_keys_among
from bucketfmt.write.metadata.records.statistics_records import (
    deleted_column_stats,
    deleted_partition_stats,
    empty_column_stats,
    partition_stats,
)
from bucketfmt.write.metadata.table_after import TableAfter
from bucketfmt.write.metadata.update import MetadataUpdate, PartitionUpdate, PartUpdates

__all__ = ["UpdateCollector", "find_partitions_to_list"]

_Records = dict[str, MetadataRecord]


class UpdateCollector:
    """Collects the update of one change. Made for as long as the table lock is held."""

    def __init__(self, state: TableState, change: PendingChange, metadata: LockedMetadata) -> None:
        """Set up.

        Args:
            state: The table as it is, whose lister has the files of the change too.
            change: What is about to be published.
            metadata: The metadata table as it is before the change.
        """
        self._change, self._state = change, state
        self._store, self._config, self._limits = state.store, state.config, state.limits
        self._definitions, self._metadata = metadata.definitions, metadata.table
        self._statistics = ColumnStatistics.of(self._definitions, state.config, state.limits)
        self._after = TableAfter(self._state, change)

    @property
    def lost_columns(self) -> list[str]:
        """The columns recorded as having statistics that the change gives a type without.

        Readers believe that such a column is null in the files of the change, and the statistics
        of partitions would stay as they were.

        Raises:
            CorruptError: the schema in the change does not parse.
        """
        schema, indexed = self._written_schema, self._statistics.columns
        if schema is None or not indexed:
            return []
        known = {name for name in indexed if schema.get_field_index(name) >= 0}
        return sorted(known - {*self._statistics.columns_of(schema)})

    def collect(self, partitions: Iterable[str]) -> MetadataUpdate:
        """Return what changes in these partitions of the metadata table.

        Raises:
            CorruptError: a file that the change wrote is damaged, or the metadata table is.
            StorageError: the store failed.
        """
        schema = metadata_schema(self._config.table_version)
        makers: Mapping[str, Callable[[], Mapping[str, MetadataRecord | None]]] = {
            "files": lambda: plan_files(self._change.content),
            "bloom_filters": self._bloom_filters,
            "column_stats": self._column_stats,
            "partition_stats": self._partition_stats,
        }
        update: dict[str, PartUpdates] = {}
        for partition in sorted(partitions):
            if partition == "record_index":
                update[partition] = self._record_index(schema)
                continue
            if partition in self._secondary_columns:
                update[partition] = self._secondary_index(partition, schema)
                continue
            found = makers[partition]()
            records = {key: record for key, record in found.items() if record is not None}
            gone = [key for key, record in found.items() if record is None]
            update[partition] = {None: PartitionUpdate.of(records, schema, gone)}
        return update

    # -- what the change wrote and deleted

    @cached_property
    def _written(self) -> Sequence[tuple[str, str]]:
        """The (partition path, path) of each file that the change wrote, each file once."""
        content = self._change.content
        if not isinstance(content, CommitMetadata):
            return ()
        found = {
            check_relative_path(stat.path, self._limits): path
            for path, stats in content.partition_to_write_stats.items()
            for stat in stats
            if stat.path and stat.file_name is not None
        }
        return [(partition, path) for path, partition in found.items()]

    @cached_property
    def _deleted(self) -> Sequence[tuple[str, str]]:
        """The (partition path, file name) of each file that the change deleted."""
        content = self._change.content
        if not isinstance(content, CleanMetadata):
            return ()
        return [
            (path, file.rpartition("/")[2])
            for path, own in content.partition_metadata.items()
            for file in own.delete_path_patterns
        ]

    @cached_property
    def _written_schema(self) -> pa.Schema | None:
        """The user's columns of the files that the change wrote, as the change states them."""
        content = self._change.content
        text = content.extra_metadata.get("schema") if isinstance(content, CommitMetadata) else None
        return arrow_schema(parse_avro_schema(text, self._limits)) if text else None

    @cached_property
    def _written_columns(self) -> list[str]:
        """The columns of the files that the change wrote that have statistics."""
        schema = self._written_schema
        return [] if schema is None else self._statistics.columns_of(meta_schema(schema))

    @cached_property
    def _written_stats(self) -> Mapping[str, Sequence[ColumnStats]]:
        """The statistics of each file that the change wrote, by path."""
        reported = self._reported_stats()
        unreported = [path for _, path in self._written if path not in reported]
        read = dict(zip(unreported, self._read_statistics(unreported), strict=True))
        return {path: read.get(path) or reported[path] for _, path in self._written}

    def _reported_stats(self) -> Mapping[str, Sequence[ColumnStats]]:
        """Return the statistics that writers of files took, by path.

        Those of other columns than the table has now with statistics are left out.
        """
        columns, found = {*self._written_columns}, {}
        for path, report in self._change.reports.items():
            stats = report.column_stats
            if stats is not None and (not stats or {each.column for each in stats} == columns):
                found[path] = stats or self._empty_stats(path)
        return found

    def _read_statistics(self, paths: Sequence[str]) -> list[list[ColumnStats]]:
        files = FileStatistics(self._store, self._statistics)
        found = map_in_threads(files.read, paths, waiting_count(self._store))
        return [own or self._empty_stats(path) for path, own in zip(paths, found, strict=True)]

    def _empty_stats(self, path: str) -> list[ColumnStats]:
        """Return the statistics of a log file that has deletes only."""
        version, name = self._statistics.table_version, path.rpartition("/")[2]
        return [empty_column_stats(name, column, version) for column in self._table_columns]

    # -- partitions

    def _bloom_filters(self) -> _Records:
        is_base = [(p, f) for p, f in self._written if isinstance(_name(f), BaseFileName)]
        instant = self._change.instant.requested_time

        def read(given: tuple[str, str]) -> BloomFilterEntry | None:
            return read_bloom_filter(self._store, given[1], instant, self._limits)

        entries = map_in_threads(read, is_base, waiting_count(self._store))
        found: _Records = {
            format_bloom_filter_key(partition, path.rpartition("/")[2]): entry
            for (partition, path), entry in zip(is_base, entries, strict=True)
            if entry is not None
        }
        gone = BloomFilterEntry("", instant, b"", True)
        for partition, file in self._deleted:
            if isinstance(_name(file), BaseFileName):
                found[format_bloom_filter_key(partition, file)] = gone
        return found

    def _column_stats(self) -> _Records:
        found: _Records = {}
        for partition, path in self._written:
            for stats in self._written_stats[path]:
                key = format_column_stats_key(
                    stats.column or "", partition, path.rpartition("/")[2]
                )
                found[key] = stats
        if self._deleted:
            version, columns = self._statistics.table_version, self._table_columns
            for partition, file in self._deleted:
                found.update(deleted_column_stats(partition, file, columns, version))
        return found

    def _partition_stats(self) -> _Records:
        content = self._change.content
        if not isinstance(content, CommitMetadata):
            return {}
        found: _Records = {}
        touched = {partition for partition, _ in self._written}
        touched |= content.partition_to_replace_file_ids.keys()
        for partition in sorted(touched):
            names = [
                file.path.rpartition("/")[2]
                for file_slice in self._after.newest_slices(partition)
                for file in (file_slice.base_file, *file_slice.log_files)
                if file is not None
            ]
            if names:
                found.update(partition_stats(partition, self._statistics_of(partition, names)))
            else:
                version = self._statistics.table_version
                found.update(deleted_partition_stats(partition, self._table_columns, version))
        return found

    def _statistics_of(self, partition: str, names: Sequence[str]) -> list[ColumnStats]:
        """Return the statistics of files of a partition, from the metadata table where it can."""
        found: list[ColumnStats] = []
        others = []
        for name in names:
            own = self._written_stats.get(join_path(partition, name))
            if own is None:
                others.append(name)
            else:
                found += own
        columns = self._table_columns
        keys = {
            format_column_stats_key(column, partition, name): name
            for name in others
            for column in columns
        }
        table = self._metadata if keys else None
        records = {} if table is None else table.partition("column_stats").lookup(list(keys))
        known = set()
        for key, record in records.items():
            if isinstance(record, ColumnStats) and not record.is_deleted:
                known.add(keys[key])
                found.append(record)
        missing = [join_path(partition, name) for name in others if name not in known]
        for stats in self._read_statistics(missing):
            found += stats
        return found

    def _record_index(self, schema: MetadataSchema) -> PartUpdates:
        content, config = self._change.content, self._config
        if not isinstance(content, CommitMetadata):
            return {}
        reader = RecordIndexReader(self._store, config, self._limits)
        changes = reader.read_commit(
            content, self._files_of, Snapshot(self._state), self._change.reports
        )
        if self._change.is_blind:
            changes = self._as_read(changes)
        instant_ms = instant_milliseconds(self._change.instant.requested_time, config)
        definition = self._definitions.get("record_index")
        partitions = None
        if definition is not None and definition.is_partitioned:
            partitions = content.partition_to_write_stats
        return plan_record_index(changes, [instant_ms] * len(changes), schema, partitions)

    def _as_read(self, changes: Sequence[KeyChange]) -> list[KeyChange]:
        """Return which of the keys of a blind change readers see once the change is published.

        A delete that others logged may hide a row of the change, and a row that others logged may
        outlive a delete of the change. Of a row that a delete hides now, a pending compaction may
        compact the delete alone: such rows are kept in the index.
        """
        basis, columns = self._after.basis, self._after.schema
        slices = {
            (path, own.file_id): own
            for path in {change.partition_path for change in changes}
            for own in self._after.newest_slices(path)
        }

        def look(change: KeyChange) -> KeyChange:
            file_slice = slices.get((change.partition_path, change.file_id))
            keys = pc.unique(pa.concat_arrays([change.written, change.removed]))
            if columns is None or file_slice is None or not len(keys):
                return change
            seen = read_keys_among(basis, columns, file_slice, keys)
            if (change.partition_path, change.file_id) in self._state.pending_compactions:
                seen = pc.unique(pa.concat_arrays([seen, change.written]))
            gone = keys.filter(pc.invert(pc.is_in(keys, seen)))
            return replace(change, written=seen, removed=gone)

        return map_in_threads(look, changes, waiting_count(self._store))

    @cached_property
    def _secondary_columns(self) -> Mapping[str, str]:
        """The column of each secondary index that is kept in step with the change."""
        names = self._config.metadata_partitions
        if not any(map(is_secondary_index, names)):
            return {}
        return find_secondary_columns(names, self._definitions, self._after.schema)

    @property
    def lost_indexes(self) -> list[str]:
        """The indexes that are not kept in step.

        Secondary indexes are not, whose column the change gives another type. Where a resize of a
        ring is completed after writes that began later, no index of records is: rows that these
        wrote are in new file groups that the commit of the resize does not name. A resize of
        directories has all rows of its buckets: a later write to one of these is in conflict.

        Raises:
            CorruptError: the schema in the change does not parse.
        """
        listed = self._config.metadata_partitions
        indexes = set(filter(is_secondary_index, listed))
        if self._completes_late_resize and RECORD_INDEX in listed:
            return sorted(indexes | {RECORD_INDEX})
        return sorted(indexes - self._secondary_columns.keys())

    @property
    def _completes_late_resize(self) -> bool:
        content, last = self._change.content, self._state.timeline.writes.completed.last
        return (
            isinstance(content, CommitMetadata)
            and WriteOperation.find(content.operation_type) is WriteOperation.CLUSTER
            and not has_directories(self._config.properties)
            and last is not None
            and last.requested_time > self._change.instant.requested_time
        )

    def _secondary_index(self, name: str, schema: MetadataSchema) -> PartUpdates:
        column, columns = self._secondary_columns[name], self._after.schema
        if columns is None or not self._touched_groups:
            return {}
        snapshot, before, after = Snapshot(self._state), [], []
        for path, file_ids in self._touched_groups.items():
            before += snapshot.slices_where(path, file_ids.__contains__)
            after += [s for s in self._after.newest_slices(path) if s.file_id in file_ids]
        old = read_secondary_keys(snapshot.basis, columns, before, column)
        new = read_secondary_keys(self._after.basis, columns, after, column)
        return {None: plan_secondary_index(old, new, schema, self._definitions[name])}

    @cached_property
    def _touched_groups(self) -> Mapping[str, set[str]]:
        """The file groups whose rows the change changes, by partition path."""
        content = self._change.content
        if not isinstance(content, CommitMetadata):
            return {}
        operation = WriteOperation.find(content.operation_type)
        if operation is not None and (operation.compacts or operation is WriteOperation.CLUSTER):
            return {}
        found = {path: set(ids) for path, ids in content.partition_to_replace_file_ids.items()}
        for path, stats in content.partition_to_write_stats.items():
            found.setdefault(path, set()).update(s.file_id for s in stats if s.file_id)
        return found

    def _files_of(self, partition: str, file_id: str) -> Sequence[DataFile]:
        return self._state.lister.files(partition).get(file_id, ())

    @cached_property
    def _table_columns(self) -> list[str]:
        """The columns of the table that have statistics, before the change."""
        commits = self._state.stating_commits
        schema = find_stated_schema(commits, self._config, self._limits)
        return [] if schema is None else self._statistics.columns_of(schema.with_meta)


def find_partitions_to_list(config: TableConfig, change: PendingChange) -> Sequence[str]:
    """Return the partitions whose files a collector asks for in any case. Pure.

    Args:
        config: The properties of the table.
        change: What is about to be published.
    """
    content = change.content
    if "partition_stats" not in config.metadata_partitions:
        return ()
    if not isinstance(content, CommitMetadata):
        return ()
    return [
        *{**content.partition_to_write_stats, **content.partition_to_replace_file_ids},
    ]


def _name(path: str) -> object:
    return find_data_file_name(path.rpartition("/")[2])
