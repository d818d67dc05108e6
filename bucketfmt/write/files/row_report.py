"""What the writer of a file reports of its rows, so that whoever commits need not read the file.

Pure, once it is known which columns have statistics. Source: HoodieAppendHandle, whose stats carry
the ranges of columns (HoodieDeltaWriteStat.putRecordsStats), and WriteStatus.indexStats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from bucketfmt.errors import CorruptError
from bucketfmt.format.metadata.metadata_encoding import encode_metadata_record
from bucketfmt.format.metadata.metadata_records import ColumnStats, decode_metadata_record
from bucketfmt.format.metadata.metadata_schemas import metadata_schema
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import Limits
from bucketfmt.location.records.record_locations import RECORD_INDEX
from bucketfmt.metadata_table.definitions import find_indexed_columns, load_index_definitions
from bucketfmt.rows.row_file import open_row_file
from bucketfmt.storage.store import Store
from bucketfmt.write.commit.receipts import RowReport
from bucketfmt.write.metadata.records.file_statistics import ColumnStatistics

__all__ = ["RowReporter", "decode_reported_keys", "decode_reported_stats", "load_reporter"]

_KEYS = pa.large_string()
_KEY_SCHEMA = pa.schema([pa.field("key", _KEYS)])
_KEY_BYTES_MAX = 1 << 20  # of a file; who commits reads the keys of a larger file, once


@dataclass(frozen=True)
class RowReporter:
    """Reports what a metadata table keeps of rows. Pickles.

    Attributes:
        statistics: Taken of each file; None: the metadata table has no column statistics.
        takes_keys: Whether keys are reported too.
        table_version: Of the table.
    """

    statistics: ColumnStatistics | None
    takes_keys: bool
    table_version: int

    def of_base_file(
        self, file_name: str, data: pa.Buffer, written: pa.ChunkedArray, removed: pa.ChunkedArray
    ) -> RowReport:
        """Return the report of a base file.

        Args:
            file_name: The file.
            data: All of it.
            written: The keys that the file group had no rows of before.
            removed: The keys that it has no rows of any more.
        """
        stats = None
        if self.statistics is not None:
            reader = open_row_file(data, file_name.rpartition(".")[2], self.statistics.limits)
            stats = self.statistics.of_row_file(file_name, reader)
        return self._report(stats, written, removed)

    def of_log_file(
        self, file_name: str, rows: pa.Table, written: pa.ChunkedArray, removed: pa.ChunkedArray
    ) -> RowReport:
        """Return the report of a log file.

        Args:
            file_name: The file.
            rows: Its rows, Hudi's columns included.
            written: The keys of the rows.
            removed: The keys that it deletes.
        """
        stats = None
        if self.statistics is not None:
            stats = self.statistics.of_rows(file_name, [rows] if rows.num_rows else [])
        return self._report(stats, written, removed)

    def _report(
        self,
        stats: Sequence[ColumnStats] | None,
        written: pa.ChunkedArray,
        removed: pa.ChunkedArray,
    ) -> RowReport:
        schema = metadata_schema(self.table_version)
        encoded = None
        if stats is not None:
            encoded = tuple(encode_metadata_record(each, schema) for each in stats)
        is_small = written.nbytes + removed.nbytes <= _KEY_BYTES_MAX
        keys = (_encode_keys(written), _encode_keys(removed)) if is_small else None
        return RowReport(column_stats=encoded, keys=keys if self.takes_keys else None)


def load_reporter(
    store: Store, config: TableConfig, limits: Limits, *, takes_keys: bool
) -> RowReporter | None:
    """Return what reports rows of the files of a table; None if no metadata table wants it.

    Args:
        store: The files of the table.
        config: The properties of the table.
        limits: Bounds on what is read.
        takes_keys: Whether keys may be reported, which are many.

    Raises:
        CorruptError: the definitions of indexes are damaged.
        StorageError: the store failed.
    """
    partitions = config.metadata_partitions
    takes_keys = takes_keys and RECORD_INDEX in partitions
    statistics = None
    if "column_stats" in partitions:
        columns = find_indexed_columns(load_index_definitions(store, config, limits))
        statistics = ColumnStatistics(limits, columns, config.table_version)
    if statistics is None and not takes_keys:
        return None
    return RowReporter(statistics, takes_keys, config.table_version)


def decode_reported_stats(report: RowReport, table_version: int) -> list[ColumnStats] | None:
    """Return the column statistics of a report; None if they were not taken.

    Raises:
        CorruptError: the report is damaged.
    """
    if report.column_stats is None:
        return None
    schema = metadata_schema(table_version)
    found = [decode_metadata_record(each, schema) for each in report.column_stats]
    stats = [each for each in found if isinstance(each, ColumnStats)]
    if len(stats) != len(found):
        raise CorruptError("a receipt reports statistics of columns that are no such records")
    return stats


def decode_reported_keys(report: RowReport) -> tuple[pa.Array, pa.Array] | None:
    """Return the keys that came and the keys that went, as `large_string`; None if not taken.

    Raises:
        CorruptError: the report is damaged.
    """
    if report.keys is None:
        return None
    written, removed = map(_decode_keys, report.keys)
    return written, removed


def _encode_keys(keys: pa.ChunkedArray) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _KEY_SCHEMA) as stream:
        stream.write_table(pa.Table.from_arrays([keys.cast(_KEYS)], schema=_KEY_SCHEMA))
    return bytes(sink.getvalue())


def _decode_keys(data: bytes) -> pa.Array:
    try:
        with pa.ipc.open_stream(data) as stream:
            table = stream.read_all()
        table.validate(full=True)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptError(f"a receipt reports keys that do not decode: {error}") from error
    if table.schema != _KEY_SCHEMA:
        raise CorruptError(f"a receipt reports keys as {table.schema}")
    return table.column(0).combine_chunks()
