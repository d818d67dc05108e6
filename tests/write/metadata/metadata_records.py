"""What a metadata table has to say of a table, worked out from the table's files alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import bucketfmt as bf
from bucketfmt.format.metadata.metadata_keys import (
    ALL_PARTITIONS_KEY,
    file_group_of_key,
    format_column_stats_key,
    format_files_key,
    format_secondary_key,
    is_secondary_index,
    secondary_file_group_of_key,
)
from bucketfmt.format.metadata.metadata_records import (
    ColumnStats,
    FilesRecord,
    MetadataRecord,
    RecordLocation,
    StatValue,
)
from bucketfmt.format.timeline.service_metadata import RollbackMetadata
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.metadata_table.definitions import load_index_definitions
from bucketfmt.metadata_table.metadata_table import load_metadata_table
from bucketfmt.rows.columns.meta_columns import PARTITION_PATH, RECORD_KEY
from bucketfmt.snapshot.data_files.files import DataFile
from bucketfmt.snapshot.listing import StoreLister
from bucketfmt.timeline.load import load_instant_content
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.write.metadata.records.file_statistics import ColumnStatistics, FileStatistics
from bucketfmt.write.metadata.records.statistics_records import partition_stats

__all__ = ["assert_in_step", "records_of"]


def records_of(table: bf.Table, partition: str) -> dict[str, MetadataRecord]:
    """Return the records of a partition of the metadata table, but for those that are deleted."""
    found = load_metadata_table(table.store, table.config, table.timeline, DEFAULT_LIMITS)
    assert found is not None
    return {
        key: record
        for key, record in found.partition(partition).scan()
        if not getattr(record, "is_deleted", False)
    }


def assert_in_step(table: bf.Table) -> None:
    """The metadata table says what the files say, record by record."""
    table = bf.Table(table.store, load_config(table.store, DEFAULT_LIMITS), DEFAULT_LIMITS, None)
    listed = table.config.metadata_partitions
    lister = StoreLister(table.store)
    files = {
        (path, own.path.rpartition("/")[2]): own
        for path in lister.partitions
        for group in lister.files(path).values()
        for own in group
        if table.config.table_version < 8 or table.timeline.is_completed(own.name.instant)
    }
    _assert_files(records_of(table, "files"), files)
    if "record_index" in listed:
        rows = table.scan([RECORD_KEY, PARTITION_PATH]).to_arrow().to_pylist()
        ids = {(p, i) for p in lister.partitions for i in lister.files(p)}
        metadata = load_metadata_table(table.store, table.config, table.timeline, DEFAULT_LIMITS)
        assert metadata is not None
        index = metadata.partition("record_index")
        found_keys = {
            (data_partition, key.decode()): record
            for data_partition, groups in index.groups.items()
            for group in groups
            for key, record in group.scan()
        }
        expected_keys = {
            (row[PARTITION_PATH] if index.is_partitioned else None, row[RECORD_KEY]): row
            for row in rows
        }
        assert found_keys.keys() == expected_keys.keys()
        for key, row in expected_keys.items():
            location = found_keys[key]
            assert isinstance(location, RecordLocation)
            assert location.partition_path == row[PARTITION_PATH]
            assert (location.partition_path, location.file_id) in ids
    definitions = load_index_definitions(table.store, table.config, DEFAULT_LIMITS)
    for name in filter(is_secondary_index, listed):
        _assert_secondary_index(table, name, definitions[name].source_fields[0])
    if "column_stats" not in listed:
        return
    taken = ColumnStatistics.of(definitions, table.config, DEFAULT_LIMITS)
    statistics = FileStatistics(table.store, taken)
    stats: dict[str, ColumnStats] = {}
    by_partition: dict[str, list[ColumnStats]] = {}
    newest = {
        file.path
        for own in table._snapshot().partitions
        for file_slice in table._snapshot().slices(own)
        for file in (file_slice.base_file, *file_slice.log_files)
        if file is not None
    }
    for (path, name), file in files.items():
        for own in statistics.read(file.path):
            stats[format_column_stats_key(own.column or "", path, name)] = own
            if file.path in newest:
                by_partition.setdefault(path, []).append(own)
    found = records_of(table, "column_stats")
    # Files without rows, and logs of deletes, have empty records, or none.
    filled = {k: r for k, r in found.items() if not isinstance(r, ColumnStats) or r.value_count}
    # Statistics that no reader asks for: of files that are not listed, and until version 6 of the
    # log files of what was rolled back, which stay and may lack statistics.
    asked = {name for _, name in files} - _rolled_back_logs(table)
    unasked = {
        key
        for key, own in (*filled.items(), *stats.items())
        if isinstance(own, ColumnStats) and own.file_name not in asked
    }
    expected = {key: own for key, own in stats.items() if own.value_count}
    differing = {
        key: (filled.get(key), expected.get(key))
        for key in (filled.keys() | expected.keys()) - unasked
        if _normal(filled.get(key)) != _normal(expected.get(key))
    }
    assert not differing, differing
    if "partition_stats" in listed:
        of_partitions = {}
        for path, of_partition in by_partition.items():
            of_partitions.update(partition_stats(path, of_partition))
        found = records_of(table, "partition_stats")
        assert found.keys() == of_partitions.keys()
        wrong = {
            key: (found[key], of_partitions[key])
            for key in found
            if not _covers(_normal(found[key]), _normal(of_partitions[key]))
        }
        assert not wrong, wrong


def _assert_secondary_index(table: bf.Table, name: str, column: str) -> None:
    """Each row has an entry, which look-ups find in its file group, and no entry is left over."""
    version = table.config.table_version
    rows = table.scan([RECORD_KEY, column]).to_arrow().to_pylist()
    expected = {
        format_secondary_key(None if row[column] is None else str(row[column]), row[RECORD_KEY])
        for row in rows
        if row[column] is not None or version >= 9
    }
    assert records_of(table, name).keys() == expected
    found = load_metadata_table(table.store, table.config, table.timeline, DEFAULT_LIMITS)
    assert found is not None
    groups = found.partition(name).groups[None]
    find = secondary_file_group_of_key if version >= 9 else file_group_of_key
    for number, group in enumerate(groups):
        for key, _ in group.scan():
            assert find(key.decode(), len(groups)) == number


def _covers(found: Any, expected: Any) -> bool:
    """Whether the statistics of a partition leave no value of the partition out.

    After a compaction by Hudi 1.0 they still cover rows of the file slice before.
    """
    if found == expected:
        return True
    counted = found.value_count >= expected.value_count and found.null_count >= expected.null_count
    if expected.minimum is None and expected.maximum is None:  # all are null
        return bool(counted)
    same = (found.minimum, found.maximum, expected.minimum, expected.maximum)
    if any(bound is None for bound in same) or len({bound.wrapper for bound in same}) > 1:
        return False
    least, greatest, wanted_least, wanted_greatest = (bound.value for bound in same)
    return bool(least <= wanted_least and wanted_greatest <= greatest and counted)


def _normal(record: MetadataRecord | None) -> MetadataRecord | None:
    """Return statistics in one form for what Hudi says in several.

    Where all values are null, Hudi states 0 for numbers. Until table version 8 a compaction by
    Hudi makes plain ints of dates.
    """
    if not isinstance(record, ColumnStats):
        return record
    if record.value_count == record.null_count:
        return replace(record, minimum=None, maximum=None)
    return replace(record, minimum=_as_int(record.minimum), maximum=_as_int(record.maximum))


def _as_int(bound: StatValue | None) -> StatValue | None:
    return replace(bound, wrapper="Int") if bound and bound.wrapper == "Date" else bound


def _rolled_back_logs(table: bf.Table) -> set[str]:
    found = set()
    for instant in table.timeline.completed.of("rollback").instants:
        content = load_instant_content(table.store, table.config, instant)
        assert isinstance(content, RollbackMetadata)
        for own in content.partition_metadata.values():
            paths = (*own.log_files_from_failed_commit, *own.rollback_log_files)
            found.update(path.rpartition("/")[2] for path in paths)
    return found


def _assert_files(
    records: dict[str, MetadataRecord], files: dict[tuple[str, str], DataFile]
) -> None:
    sizes: dict[str, dict[str, int | None]] = {}
    for (path, name), file in files.items():
        sizes.setdefault(format_files_key(path), {})[name] = file.size
    said = {}
    for key, record in records.items():
        assert isinstance(record, FilesRecord)
        if key == ALL_PARTITIONS_KEY:
            assert record.entries.keys() >= sizes.keys()
        elif record.entries:
            assert not any(entry.is_deleted for entry in record.entries.values())
            said[key] = {name: entry.size for name, entry in record.entries.items()}
    assert said == sizes
