"""The statistics of partitions against those of their files. M006.

I/O: reads `column_stats` of the newest file slices, a partition of the table at a time. Source:
HoodieMetadataTableValidator (validatePartitionStats).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from bucketfmt.check.report import Counted, Event, Finding
from bucketfmt.format.metadata.metadata_keys import (
    format_column_stats_key,
    format_partition_stats_key,
)
from bucketfmt.format.metadata.metadata_records import ColumnStats
from bucketfmt.metadata_table.metadata_partition import MetadataPartition
from bucketfmt.metadata_table.skipping.column_ranges import are_crossed, find_file_ranges
from bucketfmt.rows.row_ranges import ColumnRange
from bucketfmt.snapshot.data_files.files import FileSlice

__all__ = ["find_narrow_statistics"]


def find_narrow_statistics(
    of_partitions: MetadataPartition,
    of_files: MetadataPartition,
    schema: pa.Schema,
    slices: Mapping[str, Sequence[FileSlice]],
) -> Iterator[Event]:
    """Yield M006 for partitions whose statistics do not cover those of their files.

    Only columns are looked at whose statistics can be compared: see `find_file_ranges`.

    Args:
        of_partitions: `partition_stats`.
        of_files: `column_stats`.
        schema: The columns of the table, in Arrow types.
        slices: The newest file slices of each partition that is checked.

    Raises:
        BucketfmtError: a file of the metadata table cannot be read.
    """
    for path, own in slices.items():
        keys = {format_partition_stats_key(column, path): column for column in schema.names}
        stated = {
            keys[key]: record
            for key, record in of_partitions.lookup(list(keys)).items()
            if isinstance(record, ColumnStats) and not record.is_deleted
        }
        yield Counted("statistics of partitions", len(stated))
        wanted = [
            (column, format_column_stats_key(column, path, str(file.name)))
            for column in stated
            for each in own
            for file in each.files
        ]
        found = of_files.lookup([key for _, key in wanted])
        narrow = []
        for column, record in stated.items():
            files = [found.get(key) for name, key in wanted if name == column]
            has_rows = [s for s in files if isinstance(s, ColumnStats) and s.value_count]
            here = _range(column, [record], schema)
            there = _range(column, [s for s in has_rows if _range(column, [s], schema)], schema)
            if there and are_crossed(record, schema):
                narrow.append(
                    f"{column}, whose least value is greater than the greatest, and its files "
                    f"from {there.low!r} to {there.high!r}"
                )
            if here and there and not here.low <= there.low <= there.high <= here.high:
                narrow.append(
                    f"{column} from {here.low!r} to {here.high!r}, and its files from "
                    f"{there.low!r} to {there.high!r}"
                )
        if narrow:
            yield Finding.of("M006", f"statistics of {'; of '.join(narrow)}", partition=path)


def _range(column: str, files: Sequence[ColumnStats], schema: pa.Schema) -> ColumnRange | None:
    return find_file_ranges([files] if files else [], schema).columns.get(column)
