"""What the files of a table say, as whole partitions of the metadata table.

I/O, read only. Source: HoodieBackedTableMetadataWriter.initializeFromFilesystem,
HoodieTableMetadataUtil.readRecordKeysFromFileSlices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain

import pyarrow as pa

from bucketfmt.format.buckets.index_settings import PARTITIONED_RECORD_INDEX, IndexSettings
from bucketfmt.format.metadata.metadata_keys import (
    ALL_PARTITIONS_KEY,
    format_bloom_filter_key,
    format_column_stats_key,
    format_files_key,
    is_secondary_index,
)
from bucketfmt.format.metadata.metadata_records import (
    ColumnStats,
    FileEntry,
    FilesRecord,
    MetadataRecord,
)
from bucketfmt.format.metadata.metadata_schemas import metadata_schema
from bucketfmt.format.names.names import BaseFileName
from bucketfmt.metadata_table.definitions import (
    find_secondary_columns,
    load_index_definitions,
)
from bucketfmt.process import cached_property
from bucketfmt.snapshot.data_files.file_slices import is_change_data
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.snapshot.listing import StoreLister
from bucketfmt.snapshot.schema import find_stated_schema
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.timeline.markers import load_markers
from bucketfmt.write.commit.locked_table import LockedTable
from bucketfmt.write.metadata.records.file_bloom_filter import read_bloom_filter
from bucketfmt.write.metadata.records.file_statistics import ColumnStatistics, FileStatistics
from bucketfmt.write.metadata.records.record_index_update import (
    KeyChange,
    instant_milliseconds,
    plan_record_index,
)
from bucketfmt.write.metadata.records.secondary_index import (
    plan_secondary_index,
    read_secondary_keys,
)
from bucketfmt.write.metadata.records.slice_keys import read_slice_keys
from bucketfmt.write.metadata.records.statistics_records import partition_stats
from bucketfmt.write.metadata.update import PartitionUpdate, PartUpdates
from bucketfmt.write.services.pending_cleans import load_doomed

__all__ = ["TableContents"]


class TableContents:
    """The contents of each partition of the metadata table, of the table as it is now."""

    def __init__(self, table: LockedTable) -> None:
        """Set up.

        Args:
            table: The table, under its lock.
        """
        self._store, self._config, self._limits = table.store, table.config, table.limits
        self._lister = StoreLister(table.store)
        self._state = TableState(
            table.store, table.config, table.load_timeline(), table.limits, self._lister
        )
        self._snapshot = Snapshot(self._state)
        self._definitions = load_index_definitions(table.store, table.config, table.limits)
        self._statistics = ColumnStatistics.of(self._definitions, table.config, table.limits)

    def read(self, name: str) -> PartUpdates:
        """Return the records of a partition of the metadata table.

        Raises:
            CorruptError: a file of the table is damaged.
            StorageError: the store failed.
        """
        schema = metadata_schema(self._config.table_version)
        if name == "record_index":
            return self._record_index()
        if name in self.secondary_columns:
            return self._secondary_index(name)
        makers: Mapping[str, Callable[[], Mapping[str, MetadataRecord]]] = {
            "files": self._files,
            "column_stats": self._column_stats,
            "bloom_filters": self._bloom_filters,
            "partition_stats": self._partition_stats,
        }
        return {None: PartitionUpdate.of(makers[name](), schema)}

    @cached_property
    def keeps_keys_by_partition(self) -> bool:
        """Whether a record index is partitioned: as its definition says, or else the index type."""
        definition = self._definitions.get("record_index")
        if definition is not None:
            return definition.is_partitioned
        settings = IndexSettings.from_properties(self._config.properties)
        return settings.index_type == PARTITIONED_RECORD_INDEX

    @cached_property
    def secondary_columns(self) -> Mapping[str, str]:
        """The column of each secondary index that is made here, by partition."""
        names = filter(is_secondary_index, self._definitions)
        schema = find_stated_schema(self._state.commits, self._config, self._limits)
        return find_secondary_columns(["record_index", *names], self._definitions, schema)

    @cached_property
    def columns(self) -> Sequence[str]:
        """The columns that have statistics."""
        schema = find_stated_schema(self._state.commits, self._config, self._limits)
        return [] if schema is None else self._statistics.columns_of(schema.with_meta)

    @cached_property
    def _partitions(self) -> Sequence[str]:
        """Every partition path; also of folders with files that have lost their metadata file.

        These have it again by the next write or repair, and nothing would add their files then.
        """
        listed = {*self._lister.partitions}
        named = self._snapshot.partitions
        return [path for path in named if path in listed or self._lister.files(path)]

    @cached_property
    def _committed(self) -> Sequence[tuple[str, DataFile]]:
        """The (partition path, file) of each file that is not of a pending instant.

        Until table version 6 the names of log files do not tell, but what a pending instant has
        announced: its writer may yet remove them. From version 8 on log files with rows for a
        pending resize bear the time of the resize.
        """
        timeline, by_write = self._state.timeline, self._config.table_version >= 8
        announced = set() if by_write else self._load_announced()
        recorded = {own[2] for commit in self._state.commits for own in commit.files}
        listed = [
            (path, file)
            for path in self._partitions
            for group in (*self._lister.files(path).values(), self._lister.change_data(path))
            for file in group
        ]
        if not by_write:
            announced |= self._load_announced()  # what was announced since, and is listed
        return [
            (path, file)
            for path, file in listed
            if file.size
            and (file.path in recorded or file.path not in announced)
            and (
                timeline.is_completed(file.name.instant)
                or not (by_write or isinstance(file.name, BaseFileName))
                or file.path in recorded
            )
        ]

    @cached_property
    def _staying(self) -> Sequence[tuple[str, DataFile]]:
        """Of committed files of rows, what no clean is deleting: cleans delete without the lock."""
        state = self._state
        doomed = load_doomed(state.store, state.config, state.timeline, state.limits)
        return [
            (path, file)
            for path, file in self._committed
            if (path, str(file.name)) not in doomed and not is_change_data(file.name)
        ]

    def _load_announced(self) -> set[str]:
        """Return the paths of the files that pending instants have announced, and may yet remove.

        What a rollback announces are log files with command blocks, which stay. The rollbacks of a
        restore are pending until the restore is completed.
        """
        pending = [
            instant.requested_time
            for instant in self._state.timeline.pending.instants
            if instant.action != "rollback"
        ]
        load = partial(load_markers, self._store, limits=self._limits)
        found = map_in_threads(load, pending, waiting_count(self._store))
        markers = chain.from_iterable(found)
        return {marker.data_file_path for marker in markers}

    def _files(self) -> dict[str, MetadataRecord]:
        sizes: dict[str, dict[str, FileEntry]] = {path: {} for path in self._partitions}
        for path, file in self._committed:
            sizes[path][str(file.name)] = FileEntry(file.size or 0, False)
        partitions = {format_files_key(path): FileEntry(0, False) for path in sizes}
        found: dict[str, MetadataRecord] = {
            ALL_PARTITIONS_KEY: FilesRecord(partitions, are_partitions=True)
        }
        for path, entries in sizes.items():
            found[format_files_key(path)] = FilesRecord(entries, are_partitions=False)
        return found

    @cached_property
    def _stats(self) -> Mapping[str, Sequence[ColumnStats]]:
        """The statistics of each committed file that stays, by path."""
        paths = [file.path for _, file in self._staying]
        files = FileStatistics(self._store, self._statistics)
        read = map_in_threads(files.read, paths, waiting_count(self._store))
        return dict(zip(paths, read, strict=True))

    def _column_stats(self) -> dict[str, MetadataRecord]:
        return {
            format_column_stats_key(stats.column or "", path, str(file.name)): stats
            for path, file in self._staying
            for stats in self._stats[file.path]
        }

    def _partition_stats(self) -> dict[str, MetadataRecord]:
        found: dict[str, MetadataRecord] = {}
        for path in self._partitions:
            newest = [
                stats
                for file_slice in self._snapshot.slices(path)
                for file in (file_slice.base_file, *file_slice.log_files)
                if file is not None
                for stats in self._stats.get(file.path, ())
            ]
            found.update(partition_stats(path, newest))
        return found

    def _bloom_filters(self) -> dict[str, MetadataRecord]:
        bases = [(p, f) for p, f in self._staying if isinstance(f.name, BaseFileName)]

        def read(given: tuple[str, DataFile]) -> MetadataRecord | None:
            file = given[1]
            return read_bloom_filter(self._store, file.path, file.name.instant, self._limits)

        filters = map_in_threads(read, bases, waiting_count(self._store))
        return {
            format_bloom_filter_key(path, str(file.name)): found
            for (path, file), found in zip(bases, filters, strict=True)
            if found is not None
        }

    @cached_property
    def _slices(self) -> Sequence[FileSlice]:
        return [s for path in self._partitions for s in self._snapshot.slices(path)]

    def _secondary_index(self, name: str) -> PartUpdates:
        schema, column = self._snapshot.schema, self.secondary_columns[name]
        keys = read_secondary_keys(self._snapshot.basis, schema, self._slices, column)
        none = pa.array([], keys.type)
        own = metadata_schema(self._config.table_version)
        return {None: plan_secondary_index(none, keys, own, self._definitions[name])}

    def _record_index(self) -> PartUpdates:
        """Return the index of all records, by their newest file slices, merged."""
        slices = self._slices
        keys = read_slice_keys(self._snapshot, slices)
        none = pa.array([], pa.large_string())
        schema = metadata_schema(self._config.table_version)
        by_instant: dict[str, list[KeyChange]] = {}
        for own, file_slice in zip(keys, slices, strict=True):
            change = KeyChange(file_slice.partition_path, file_slice.file_id, own, none)
            by_instant.setdefault(file_slice.base_instant, []).append(change)
        changes = [change for own in by_instant.values() for change in own]
        times = [
            instant_milliseconds(instant, self._config)
            for instant, own in by_instant.items()
            for _ in own
        ]
        partitions = self._partitions if self.keeps_keys_by_partition else None
        return plan_record_index(changes, times, schema, partitions)
