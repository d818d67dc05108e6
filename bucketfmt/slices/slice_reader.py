"""The rows of one file slice: base file and log merged, filtered, in the table's columns.

I/O: opens the slice's files. Source: HoodieFileGroupReader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import BucketfmtError
from bucketfmt.rows.columns.broken_text import check_text
from bucketfmt.rows.columns.conform import Renames, conform
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.rows.filters.filter import Filter
from bucketfmt.rows.merging.log_entries import RowRun
from bucketfmt.rows.merging.merge import MergedLog, merge_log
from bucketfmt.rows.merging.over_deletes import OverDeletes, count_over_deletes
from bucketfmt.rows.parquet.copying import read_to_copy
from bucketfmt.rows.parquet.parquet_chunks import StoredColumn
from bucketfmt.rows.row_file import RowFile, check_base_file_format
from bucketfmt.slices.slice_columns import RowSpec, SliceColumns, stored_names
from bucketfmt.slices.slice_log import SliceLog
from bucketfmt.slices.slice_parts import WHOLE, SlicePart
from bucketfmt.snapshot.data_files.base_files import open_base_file
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.snapshot.read_basis import ReadBasis
from bucketfmt.snapshot.schema import without_path_columns
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.streams import beside

__all__ = ["BasePiece", "SliceMerge", "SliceReader"]

_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatch)

_BATCH_ROWS = 65_536
_MERGE_BATCH_ROWS = 1 << 18  # each looks at all of the log again


class BasePiece(NamedTuple):
    """Rows of a base file.

    Attributes:
        rows: In the columns asked for.
        stored: Where the rows are a row group: columns of it as they are stored.
    """

    rows: pa.Table
    stored: Mapping[str, StoredColumn] = {}


class SliceMerge(NamedTuple):
    """What is merged to read a slice. The rows are in more columns than those wanted."""

    log: MergedLog
    num_blocks: int
    base: Iterator[BasePiece]


class SliceReader:
    """Reads file slices of one snapshot. Safe to use from several threads."""

    def __init__(
        self, source: Snapshot | ReadBasis, spec: RowSpec, *, side_by_side: bool = False
    ) -> None:
        """Prepare to read; opens nothing.

        Args:
            source: The snapshot, or what of it other processes are given.
            spec: Which rows and columns.
            side_by_side: Slices keep all processors busy, so that each batch is one thread's.

        Raises:
            UnsupportedError: the table's base files are of a format that is not read.
        """
        self._basis = source if isinstance(source, ReadBasis) else source.basis
        check_base_file_format(self._basis.config.base_file_format)
        self._side_by_side = side_by_side
        self._spec = spec
        self._columns = SliceColumns(self._basis, spec)
        self._log = SliceLog(self._basis, spec, self._columns)

    def count(self, file_slice: FileSlice) -> int:
        """Return the number of rows; of a lone base file, as its footer has it."""
        spec, file = self._spec, file_slice.base_file
        narrowed = spec.row_filter is not None or spec.keys is not None
        if self._logs_of(file_slice) or narrowed or spec.commit_times is not None or file is None:
            return sum(rows.num_rows for rows in self.read(file_slice, None))
        with self._opened(file) as reader:
            return reader.num_rows

    def read(
        self, file_slice: FileSlice, batch_rows: int | None, part: SlicePart = WHOLE
    ) -> Iterator[pa.Table]:
        """Yield the rows of a slice, or of a part of it.

        Args:
            file_slice: What to read.
            batch_rows: About how many rows to hold at a time; None for a row group or more.
            part: Which part. The parts of a slice together have its rows, each once.

        Raises:
            CorruptError: a file is missing, cut or damaged, or text in it is not UTF-8.
            UnsupportedError: the slice has log files and the table merges in a way not built.
        """
        try:
            read = self._read_merged if self._logs_of(file_slice) else self._read_base_only
            for rows in read(file_slice, batch_rows, part):
                check_text(rows)
                yield rows
        except BucketfmtError as error:
            raise error.within(partition=file_slice.partition_path) from None

    @contextmanager
    def merge(self, file_slice: FileSlice) -> Iterator[tuple[SliceMerge, RowFile | None]]:
        """Return the log of a slice and the base rows to apply the log to, for counting rows.

        The base file, if there is one, is open while the body runs, and is yielded too.

        Raises:
            CorruptError: as `read` says; also while the base rows are read.
            UnsupportedError: as `read` says.
        """
        load = partial(self._load_log, file_slice)
        with beside(self._basis.store, load) as loaded, self.opened_base(file_slice) as opened:
            log, num_blocks = loaded()
            pieces = self._base_pieces(file_slice, log.schema, opened)
            yield SliceMerge(log, num_blocks, pieces), opened

    def _load_log(self, file_slice: FileSlice) -> tuple[MergedLog, int]:
        try:
            return self._log.load(file_slice)
        except BucketfmtError as error:
            raise error.within(partition=file_slice.partition_path) from None

    def logged_keys(self, file_slice: FileSlice) -> Iterator[pa.Array | pa.ChunkedArray]:
        """Yield the keys of the rows, and of the deletes, in the log of a slice.

        Raises:
            CorruptError: as `read` says.
            UnsupportedError: as `read` says.
        """
        try:
            for run in self._log.load_runs(file_slice)[2]:
                if isinstance(run, RowRun):
                    yield run.rows.column(RECORD_KEY).cast(pa.string())
                else:
                    yield pa.array(run.block.record_keys, pa.string()).drop_null()
        except BucketfmtError as error:
            raise error.within(partition=file_slice.partition_path) from None

    def count_over_deletes(
        self,
        file_slice: FileSlice,
        rows: pa.Table,
        read_base: Callable[[pa.Schema], Iterable[pa.Table]] | None = None,
    ) -> OverDeletes:
        """Return what readers would make of rows appended to the log of a slice.

        Only rows of keys that the log deletes count, and only such base rows are read.

        Args:
            file_slice: The slice.
            rows: One per key, none of them marked as deleted, with `_hoodie_record_key`. The
                `RowSpec` has their keys, and needs no output.
            read_base: Returns the base rows of these keys, and perhaps others, in the given
                columns; by default those of the slice.

        Raises:
            CorruptError: as `read` says.
            UnsupportedError: as `read` says.
        """
        try:
            return self._count_over_deletes(file_slice, rows, read_base)
        except BucketfmtError as error:
            raise error.within(partition=file_slice.partition_path) from None

    def read_pieces(
        self, file_slice: FileSlice, opened: RowFile | None = None
    ) -> Iterator[BasePiece]:
        """Yield the rows of a slice, for writing them again.

        Args:
            file_slice: The slice.
            opened: Its base file, where the caller has opened the file.

        Raises:
            CorruptError: as `read` says.
            UnsupportedError: as `read` says.
        """
        try:
            if self._logs_of(file_slice):
                for rows in self._read_merged(file_slice, _MERGE_BATCH_ROWS, WHOLE):
                    yield BasePiece(rows)
            else:
                working = self._columns.working_schema(merging=False)
                for piece in self._base_pieces(file_slice, working, opened):
                    yield BasePiece(self._columns.finish(piece.rows), piece.stored)
        except BucketfmtError as error:
            raise error.within(partition=file_slice.partition_path) from None

    @contextmanager
    def opened_base(self, file_slice: FileSlice) -> Iterator[RowFile | None]:
        """Open the base file of a slice, if it has one, for what the file says of its rows.

        Raises:
            CorruptError: the file is missing, or damaged.
        """
        if file_slice.base_file is None:
            yield None
        else:
            with self._opened(file_slice.base_file) as reader:
                yield reader

    def log_size(self, file_slice: FileSlice) -> int:
        """Return the bytes of the log files that are merged to read a slice."""
        return sum(file.size or 0 for file in self._logs_of(file_slice))

    def _logs_of(self, file_slice: FileSlice) -> tuple[DataFile, ...]:
        return () if self._spec.read_optimized else file_slice.log_files

    def _count_over_deletes(
        self,
        file_slice: FileSlice,
        rows: pa.Table,
        read_base: Callable[[pa.Schema], Iterable[pa.Table]] | None,
    ) -> OverDeletes:
        rules, limits = self._columns.rules, self._basis.limits
        schema, _, runs = self._log.load_runs(file_slice)
        deleted = merge_log(runs, rules, schema, limits).deleted_keys
        appended = _rows_of_keys(rows, deleted)
        if not appended.num_rows:
            return OverDeletes()
        keys = pc.unique(appended.column(RECORD_KEY))
        runs = [
            replace(run, rows=_rows_of_keys(run.rows, keys)) if isinstance(run, RowRun) else run
            for run in runs
        ]
        before = merge_log(runs, rules, schema, limits)
        after = merge_log([*runs, RowRun(conform(appended, schema))], rules, schema, limits)
        found: Iterable[pa.Table] = (
            self._base_rows(file_slice, schema, _MERGE_BATCH_ROWS, None)
            if read_base is None
            else read_base(schema)
        )
        base = (_rows_of_keys(each, keys) for each in found)
        return count_over_deletes(before, after, keys, base)

    # -- base file alone

    def _read_base_only(
        self, file_slice: FileSlice, batch_rows: int | None, part: SlicePart
    ) -> Iterator[pa.Table]:
        working, row_filter = self._columns.working_schema(merging=False), self._spec.row_filter
        for rows in self._base_rows(file_slice, working, batch_rows, row_filter, part.own_groups):
            yield self._columns.finish(rows)

    def _base_rows(
        self,
        file_slice: FileSlice,
        working: pa.Schema,
        batch_rows: int | None,
        row_filter: Filter | None,
        choose: Callable[[int], range] = range,
    ) -> Iterator[pa.Table]:
        """Yield the rows of the base file, in the working schema; a row group that no wanted
        row can be in is not read, nor one that `choose` leaves out, given their number.
        """
        file = file_slice.base_file
        if file is None:
            return
        with self._opened_rows(file, working) as (reader, names, renames):
            chosen = choose(reader.num_row_groups)
            groups = self._row_groups(reader, row_filter if renames is None else None)
            groups = [group for group in groups if group in chosen]
            for rows in self._read_groups(reader, names, groups, batch_rows):
                yield self._columns.complete(conform(rows, working, renames), file_slice)

    def _base_pieces(
        self, file_slice: FileSlice, working: pa.Schema, opened: RowFile | None = None
    ) -> Iterator[BasePiece]:
        """Yield the rows of the base file: row groups to copy from, and batches of others."""
        file = file_slice.base_file
        if file is None:
            return
        with self._opened_rows(file, working, opened) as (reader, names, renames):
            for number in range(reader.num_row_groups):
                copied = read_to_copy(reader, names, number) if renames is None else None
                if copied is not None:
                    rows = self._columns.complete(conform(copied.rows, working), file_slice)
                    yield BasePiece(rows, copied.columns)
                    continue
                for rows in self._read_groups(reader, names, [number], _MERGE_BATCH_ROWS):
                    yield BasePiece(
                        self._columns.complete(conform(rows, working, renames), file_slice)
                    )

    @contextmanager
    def _opened_rows(
        self, file: DataFile, working: pa.Schema, opened: RowFile | None = None
    ) -> Iterator[tuple[RowFile, list[str], Renames | None]]:
        """Open a base file for its rows: what to read of it, and what columns are called there."""
        renames = self._columns.renames(file.name.instant)
        with self._opened(file) if opened is None else nullcontext(opened) as reader:
            self._columns.check_file(reader, file.name.instant)
            yield reader, stored_names(working, reader.schema, renames), renames

    def _opened(self, file: DataFile) -> AbstractContextManager[RowFile]:
        return open_base_file(self._basis.store, file, self._basis.limits)

    def _read_groups(
        self, reader: RowFile, names: list[str], groups: list[int], batch_rows: int | None
    ) -> Iterator[pa.Table]:
        """Yield rows of row groups, one by one or in batches."""
        use_threads = not self._side_by_side
        if batch_rows is None:
            for group in groups:
                yield reader.read(names, [group], use_threads)
        elif groups:
            at_once = max(batch_rows, _BATCH_ROWS)
            for batch in reader.iter_batches(names, groups, at_once, use_threads):
                yield pa.Table.from_batches([batch])

    def _row_groups(self, reader: RowFile, row_filter: Filter | None) -> list[int]:
        groups = list(range(reader.num_row_groups))
        if row_filter is not None:
            stored = without_path_columns(self._spec.table.with_meta, self._basis.config)
            groups = reader.find_row_groups(row_filter, stored)
        if self._spec.keys is not None and self._basis.config.populate_meta_fields:
            with_keys = set(reader.find_row_groups_of_keys(self._spec.keys))
            groups = [group for group in groups if group in with_keys]
        return groups

    # -- base file and log

    def _read_merged(
        self, file_slice: FileSlice, batch_rows: int | None, part: SlicePart
    ) -> Iterator[pa.Table]:
        merged, _ = self._log.load(file_slice)
        # A base row has to be read where it can stand against its log record, or completes it.
        is_needed = self._columns.rules.base_by_ordering or merged.needs_base
        row_filter = None if is_needed else self._spec.row_filter
        if part.number:
            keys = self._columns.matching_schema(merged.schema)
            earlier = part.earlier_groups
            for rows in self._base_rows(file_slice, keys, batch_rows, row_filter, earlier):
                merged.mark_matched(self._columns.of_commit_times(rows).column(RECORD_KEY))
        own = part.own_groups
        for rows in self._base_rows(file_slice, merged.schema, batch_rows, row_filter, own):
            yield self._columns.finish(merged.apply(self._columns.of_commit_times(rows)))
        if not part.is_last:
            return
        rows = self._columns.finish(merged.remaining(with_orphans=self._spec.with_orphans))
        for start in range(0, rows.num_rows, batch_rows or rows.num_rows or 1):
            yield rows.slice(start, batch_rows)


def _rows_of_keys(rows: _Rows, keys: pa.Array) -> _Rows:
    return rows.filter(pc.is_in(rows.column(RECORD_KEY), keys))
