"""Reading what the files of a table say of their columns, for the metadata table.

I/O: the footers of base files, and whole log files. Source: ParquetUtils,
HoodieTableMetadataUtil.getLogFileColumnRangeMetadata.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import BucketfmtError
from bucketfmt.format.log.log_block import CorruptSpan, LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.metadata.index_definitions import IndexDefinition
from bucketfmt.format.metadata.metadata_records import ColumnStats
from bucketfmt.format.names.names import BaseFileName, find_data_file_name
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import Limits
from bucketfmt.metadata_table.definitions import find_indexed_columns, find_statistics_version
from bucketfmt.rows.avro.avro_schema import parse_avro_schema
from bucketfmt.rows.avro.row_blocks import AVRO_ROW_BLOCKS, decode_row_blocks
from bucketfmt.rows.columns.meta_columns import META_COLUMNS
from bucketfmt.rows.row_file import ROW_FILE_BLOCKS, RowFile, open_row_block, open_row_file
from bucketfmt.snapshot.data_files.virtual_logs import followed
from bucketfmt.storage.store import Store
from bucketfmt.write.metadata.records.statistics_records import (
    ColumnValues,
    column_stats,
    has_statistics,
)

__all__ = ["ColumnStatistics", "FileStatistics", "block_rows"]

_COLUMNS_MAX = 32  # hoodie.metadata.index.column.stats.max.columns.to.index
_KEPT_META_COLUMNS = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key")


@dataclass(frozen=True)
class ColumnStatistics:
    """Takes the statistics of columns, of a file whose rows or footer are at hand.

    Attributes:
        limits: Bounds on what is read.
        columns: Those that the table records as having statistics; None: it records none.
        table_version: In whose form they are kept (`find_statistics_version`).
    """

    limits: Limits
    columns: Sequence[str] | None
    table_version: int

    @classmethod
    def of(
        cls, definitions: Mapping[str, IndexDefinition], config: TableConfig, limits: Limits
    ) -> ColumnStatistics:
        """Return those of a table with these definitions of indexes."""
        version = find_statistics_version(definitions, config.table_version)
        return cls(limits, find_indexed_columns(definitions), version)

    def columns_of(self, schema: pa.Schema) -> list[str]:
        """Return the columns of a file, or of the table, that have statistics.

        Args:
            schema: The columns, Hudi's included.
        """
        known = [field.name for field in schema if has_statistics(field.type, self.table_version)]
        if self.table_version < 8:
            return known
        own = [name for name in known if name not in META_COLUMNS][:_COLUMNS_MAX]
        if self.columns is not None:
            recorded = [n for n in self.columns if n in known and n not in META_COLUMNS]
            # Hudi's default grows with the columns of the table; a list that somebody chose stays.
            if own[: len(recorded)] != recorded:
                return [name for name in self.columns if name in known]
        return [name for name in _KEPT_META_COLUMNS if name in known] + own

    def of_row_file(self, file_name: str, reader: RowFile) -> list[ColumnStats]:
        """Return the statistics of a base file, mostly by what its footer states.

        Raises:
            CorruptError: the file is damaged.
        """
        names = self.columns_of(reader.schema)
        groups, sizes = reader.ranges(names), reader.column_sizes()
        rows = sum(group.num_rows for group in groups)
        stated: dict[str, ColumnValues] = {}
        for name in names:
            kind = reader.schema.field(name).type
            if pa.types.is_floating(kind) and not reader.bounds_nan:
                continue
            filled = [
                (each, group.num_rows)
                for group in groups
                if (each := group.columns.get(name)) is None or each.null_count != group.num_rows
            ]
            if any(r is None or None in (r.low, r.high, r.null_count) for r, _ in filled):
                continue
            bounds = [each for each, _ in filled if each is not None]
            nulls = rows - sum(count for _, count in filled)
            nulls += sum(each.null_count or 0 for each in bounds)
            low = min((each.low for each in bounds), default=None)
            high = max((each.high for each in bounds), default=None)
            stated[name] = ColumnValues(low, high, rows, nulls, kind)
        unstated = [name for name in names if name not in stated]
        read = reader.read(unstated) if unstated else None
        found = {}
        for name in names:
            values = stated[name] if read is None or name in stated else _values_of([read[name]])
            stored, plain = sizes.get(name, (0, 0))
            found[name] = replace(values, total_bytes=stored, total_uncompressed_bytes=plain)
        return self._records(file_name, found)

    def of_rows(self, file_name: str, pieces: Iterable[pa.Table]) -> list[ColumnStats]:
        """Return the statistics of a log file, by its rows."""
        by_column: dict[str, list[pa.ChunkedArray]] = {}
        for rows in pieces:
            for column in self.columns_of(rows.schema):
                by_column.setdefault(column, []).append(rows[column])
        found = {column: _values_of(own) for column, own in by_column.items()}
        return self._records(file_name, found)

    def _records(self, file_name: str, found: Mapping[str, ColumnValues]) -> list[ColumnStats]:
        stats = [
            column_stats(file_name, name, own, self.table_version) for name, own in found.items()
        ]
        return [each for each in stats if each is not None]


class FileStatistics:
    """Reads the statistics of files. Safe to use from several threads."""

    def __init__(self, store: Store, statistics: ColumnStatistics) -> None:
        """Set up.

        Args:
            store: The files of the table.
            statistics: What is to be known of the files.
        """
        self._store, self._statistics = store, statistics

    def read(self, path: str) -> list[ColumnStats]:
        """Return the statistics of the columns of a file.

        Args:
            path: Of a base file or a log file, relative to the table.

        Raises:
            CorruptError: the file is damaged.
            UnsupportedError: its format is not read.
            StorageError: the store failed.
        """
        file_name = path.rpartition("/")[2]
        name = find_data_file_name(file_name)
        try:
            if not isinstance(name, BaseFileName):
                return self._statistics.of_rows(file_name, self._log_rows(path))
            with self._store.open_arrow(path) as source:
                reader = open_row_file(source, name.extension, self._statistics.limits)
                return self._statistics.of_row_file(file_name, reader)
        except BucketfmtError as error:
            raise error.within(path=path) from None

    def _log_rows(self, path: str) -> Iterator[pa.Table]:
        limits = self._statistics.limits
        spans = decode_log_file(self._store.read(path, limits.log_file_bytes_max), limits)
        for span in followed(self._store, path, spans, limits):
            if not isinstance(span, CorruptSpan) and len(span.content):
                yield from block_rows(span, limits)


def block_rows(block: LogBlock, limits: Limits) -> Iterator[pa.Table]:
    """Yield the rows of a log block; a block of another kind has none.

    Raises:
        CorruptError: the block is damaged.
        UnsupportedError: its rows are not read.
    """
    if block.block_type in AVRO_ROW_BLOCKS:
        yield decode_row_blocks([block], parse_avro_schema(block.schema, limits), limits)
    elif block.block_type in ROW_FILE_BLOCKS:
        yield open_row_block(block, limits).read()


def _values_of(pieces: Sequence[pa.ChunkedArray]) -> ColumnValues:
    """Return the values of a column in several pieces, which may be of several types.

    NaN counts as infinity. Spark has NaN above all numbers, but Hudi leaves a file out for
    `> 100` if its upper bound is NaN.
    """
    kind = pieces[-1].type
    lows: list[Any] = []
    highs: list[Any] = []
    rows = nulls = 0
    for piece in pieces:
        rows, nulls = rows + len(piece), nulls + piece.null_count
        column = piece if piece.type == kind else piece.cast(kind)
        if len(piece) and column[1:].equals(column[:-1]):  # a tenth of the work, or none
            low = high = column[0]
        else:
            found = pc.min_max(column)
            low, high = found["min"], found["max"]
        if low.is_valid:
            lows.append(_bound_of(low))
            highs.append(_bound_of(high))
        if pa.types.is_floating(kind) and pc.any(pc.is_nan(piece)).as_py():
            highs.append(math.inf)
    if pa.types.is_floating(kind):
        lows, highs = ([math.inf if math.isnan(v) else v for v in own] for own in (lows, highs))
    lowest, highest = min(lows, default=None), max(highs, default=None)
    if pa.types.is_floating(kind):  # both zeros are equal, but not to all who compare bounds
        lowest, highest = (-0.0 if lowest == 0 else lowest), (0.0 if highest == 0 else highest)
    return ColumnValues(lowest, highest, rows, nulls, kind)


def _bound_of(value: pa.Scalar) -> Any:
    """Return a bound as `ColumnValues` has it: Python has no moments past the year 9999."""
    return value.value if pa.types.is_temporal(value.type) else value.as_py()
