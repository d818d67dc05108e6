"""Leaving out file slices by the statistics in the metadata table.

I/O: reads `column_stats`, where that takes fewer requests than what it may leave out. Those of
partitions may lack rows of writes that others overtook (docs/decisions/0040). Source:
ColumnStatsIndexSupport.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from bucketfmt.format.metadata.metadata_keys import format_column_stats_key
from bucketfmt.format.metadata.metadata_records import ColumnStats, MetadataRecord
from bucketfmt.metadata_table.metadata_partition import MetadataPartition
from bucketfmt.metadata_table.skipping.column_ranges import find_file_ranges, prunable_columns
from bucketfmt.metadata_table.trusted_metadata import TrustedMetadata
from bucketfmt.rows.filters.filter import Filter
from bucketfmt.rows.row_ranges import RowGroupRanges
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice

__all__ = ["prune_slices"]

_COLUMN_STATS = "column_stats"


def prune_slices(
    metadata: TrustedMetadata,
    slices: Sequence[FileSlice],
    row_filter: Filter,
    schema: pa.Schema,
    *,
    whatever_it_costs: bool = False,
) -> list[FileSlice]:
    """Return the file slices that may have rows for which a filter holds.

    Args:
        metadata: The metadata table.
        slices: To choose from.
        row_filter: On rows of the table.
        schema: The columns of the table, in Arrow types. Columns with ids are not for this: an
            older file may have another column under the same name.
        whatever_it_costs: Read the statistics also where they are in more files than the slices.

    Raises:
        StorageError: the store failed.
    """
    columns = prunable_columns(row_filter, schema)
    files = [(each.partition_path, file) for each in slices for file in each.files]
    if not columns or not slices:
        return list(slices)

    def read(partition: MetadataPartition) -> dict[str, MetadataRecord] | None:
        if partition.num_files > len(files) and not whatever_it_costs:
            return None
        return partition.lookup([_key(column, *file) for file in files for column in columns])

    found = metadata.ask(_COLUMN_STATS, read)
    if found is None:
        return list(slices)
    return [s for s in slices if row_filter.may_match(_ranges_of(s, columns, found, schema))]


def _ranges_of(
    file_slice: FileSlice,
    columns: Sequence[str],
    found: Mapping[str, MetadataRecord],
    schema: pa.Schema,
) -> RowGroupRanges:
    partition_path = file_slice.partition_path
    statistics = []
    for column in columns:
        own = []
        for file in file_slice.files:
            record = found.get(_key(column, partition_path, file))
            if not isinstance(record, ColumnStats) or not _covers(record, file):
                break
            if record.value_count:
                own.append(record)
        else:
            if own:
                statistics.append(own)
    return find_file_ranges(statistics, schema)


def _covers(record: ColumnStats, file: DataFile) -> bool:
    """Whether statistics are of all rows of a file, as far as commits tell how many it has."""
    rows = None if file.written is None else sum(counts.rows for counts in file.written.counts)
    if rows is None:
        return bool(record.value_count)
    return record.value_count == rows


def _key(column: str, partition_path: str, file: DataFile) -> str:
    return format_column_stats_key(column, partition_path, str(file.name))
