"""What the writer of a file reports of its rows, so that whoever commits need not read the file.

Pure, once it is known which columns have statistics. Source: HoodieAppendHandle, whose stats carry
the ranges of columns (HoodieDeltaWriteStat.putRecordsStats), and WriteStatus.indexStats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from bucketfmt.format.metadata.metadata_records import ColumnStats
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import Limits
from bucketfmt.location.records.record_locations import RECORD_INDEX
from bucketfmt.metadata_table.definitions import load_index_definitions
from bucketfmt.rows.row_file import open_row_file
from bucketfmt.storage.store import Store
from bucketfmt.write.commit.receipts import RowReport
from bucketfmt.write.metadata.records.file_statistics import ColumnStatistics

__all__ = ["RowReporter", "load_reporter"]

_KEYS = pa.large_string()
_NO_KEYS = pa.nulls(0, _KEYS)
_KEY_BYTES_MAX = 1 << 20  # of a file; who commits reads the keys of a larger file, once


@dataclass(frozen=True)
class RowReporter:
    """Reports what a metadata table keeps of rows. Pickles.

    Attributes:
        statistics: Taken of each file; None: the metadata table has no column statistics.
        takes_keys: Whether keys are reported too.
    """

    statistics: ColumnStatistics | None
    takes_keys: bool

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
        keys = None
        if self.takes_keys and written.nbytes + removed.nbytes <= _KEY_BYTES_MAX:
            keys = _copied(written), _copied(removed)
        return RowReport(stats, keys)


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
        definitions = load_index_definitions(store, config, limits)
        statistics = ColumnStatistics.of(definitions, config, limits)
    if statistics is None and not takes_keys:
        return None
    return RowReporter(statistics, takes_keys)


def _copied(keys: pa.ChunkedArray) -> pa.Array:
    """Return keys that do not hold the rows in memory that they may be a part of."""
    return pa.concat_arrays([_NO_KEYS, *keys.cast(_KEYS).chunks])
