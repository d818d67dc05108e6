"""A planned read: the file slices it opens, and its rows for Arrow, pandas, polars and DuckDB.

The plan only lists files; data files are opened when rows are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from bucketfmt.arguments import check_bool, check_int, check_kind, check_names, check_text
from bucketfmt.errors import (
    ConflictError,
    CorruptError,
    IndexUnknownError,
    LimitError,
    SchemaError,
    UnsupportedError,
)
from bucketfmt.extras import of_extra
from bucketfmt.facts import facts_html
from bucketfmt.index.layout import BucketLayout
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.metadata_table.metadata_lister import metadata_behind
from bucketfmt.metadata_table.skipping.data_skipping import prune_slices
from bucketfmt.metadata_table.trusted_metadata import TrustedMetadata
from bucketfmt.process import cached_property
from bucketfmt.rows.columns.meta_columns import OPERATION
from bucketfmt.rows.filters.filter import Filter
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.cleaned_moments import check_not_cleaned
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.schema import TableSchema, without_path_columns
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.streams import merge_streams, reader_count
from bucketfmt.table.bucket_groups import (
    BucketedScan,
    BucketGroups,
    plan_bucketed_scan,
    plan_groups,
)
from bucketfmt.table.pinned import PinnedTable
from bucketfmt.table.plan_read import ScanPlan, find_buckets, plan_partitions, plan_slices
from bucketfmt.table.read_tasks import ReadTask, TaskReader
from bucketfmt.timeline.timeline import Timeline

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars

__all__ = ["Scan", "group_buckets", "output_schema", "plan_changes", "plan_scan"]

_BATCH_ROWS = 65_536
_LOG_BYTES_IN_WORK = 128 << 20  # a log is merged in memory, and takes some times its size there


class Scan:
    """Rows of a table at one moment. Reading it again reads the same files again.

    Attributes:
        schema: The columns it returns.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        spec: RowSpec,
        index_finder: IndexFinder,
        limit: int | None = None,
    ) -> None:
        self.schema = spec.output
        self._snapshot = snapshot
        self._spec = spec
        self._index_finder = index_finder
        self._limit = limit

    def __repr__(self) -> str:
        return f"<bucketfmt.Scan: {self.plan()}>"

    def _repr_html_(self) -> str:
        plan = self.plan()
        columns = {field.name: field.type for field in self.schema}
        return facts_html(f"scan: {plan}", columns)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the table at its timeline, with the options of the store, which may be secret."""
        state = self._snapshot.state
        timeline = Timeline(state.timeline.instants, state.timeline.layout)
        pinned = PinnedTable(
            state.store, state.config, state.limits, self._index_finder.argument, timeline
        )
        at = self._snapshot.as_of, self._snapshot.completed_until
        return _unpickle, (pinned, at, self._spec, self._limit)

    def plan(self) -> ScanPlan:
        """Return the file slices to open, and how many the filter leaves out."""
        with self._snapshot.state.read_here():
            return self._plan

    @cached_property
    def _plan(self) -> ScanPlan:
        snapshot, row_filter = self._snapshot, self._spec.row_filter
        config, schema = snapshot.state.config, self._spec.table.data
        partitions = plan_partitions(snapshot.partitions, config, schema, row_filter)
        slices = snapshot.slices_of(partitions)
        if self._spec.read_optimized:
            slices = [s for s in slices if s.base_file is not None]
        kept = slices
        if row_filter is not None:
            kept = [
                file_slice
                for path, own in groupby(slices, key=lambda s: s.partition_path)
                for file_slice in self._prune(path, list(own))
            ]
        wanted, metadata = kept, self._metadata
        if metadata is not None and row_filter is not None:
            stored = without_path_columns(schema, config)
            wanted = prune_slices(metadata, kept, row_filter, stored)
        check_not_cleaned(snapshot, wanted)
        return ScanPlan(
            tuple(wanted),
            len(snapshot.partitions) - len(partitions),
            len(slices) - len(kept),
            len(kept) - len(wanted),
        )

    @property
    def _metadata(self) -> TrustedMetadata | None:
        """The metadata table, if its statistics may leave out files.

        They go by the names of columns. Of a table whose columns have ids, an older file may have
        another column of that name.
        """
        has_ids = self._spec.table.internal is not None
        return None if has_ids else metadata_behind(self._snapshot.state.lister)

    def _prune(self, path: str, slices: list[FileSlice]) -> list[FileSlice]:
        layout = self._pruning_layout(path)
        if layout is None:
            return slices
        config, schema = self._snapshot.state.config, self._spec.table.data
        wanted = find_buckets(self._spec.row_filter, config, schema, layout)
        return plan_slices(slices, layout, wanted)

    def _pruning_layout(self, path: str) -> BucketLayout | None:
        """Return the layout that file groups may be left out by; None for none.

        Rows do not depend on the index: where the index is unknown, damaged or being made, reads go
        on, and `locate`, `lookup` and `check` tell. Keys of a few file groups are no reason to
        leave out others (docs/decisions/0002).

        Raises:
            ValueError: the caller's index contradicts the table.
        """
        try:
            if not self._index_finder.declared(self._snapshot).is_declared:
                return None
            return self._index_finder.layout(self._snapshot, path)
        except (ConflictError, CorruptError, IndexUnknownError, LimitError, UnsupportedError):
            return None

    def tasks(self) -> list[ReadTask]:
        """Return a task for each file slice, for reading in other processes.

        Raises:
            ValueError: the scan has a limit, which cannot be divided.
        """
        self._check_divisible()
        return [ReadTask.of(file_slice) for file_slice in self.plan().slices]

    def task_reader(self) -> TaskReader:
        """Return the reader of all tasks of this scan: a value that pickles."""
        self._check_divisible()
        return TaskReader(self._snapshot.basis, self._spec)

    def bucketed(self) -> BucketedScan:
        """Return the buckets that the file slices hold. See `group_buckets`."""
        self._check_divisible()
        return plan_bucketed_scan(self._snapshot, self._index_finder, self.plan().slices)

    def _check_divisible(self) -> None:
        if self._limit is not None:
            raise ValueError("a scan with a limit cannot be divided into tasks; leave limit= out")

    def to_batches(self, batch_rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches of at most `batch_rows`, in any order.

        File slices are read in parallel, fewer at a time where their logs are large. Memory follows
        the slices that are being read, not the size of the table.

        Raises:
            TypeError: `batch_rows` is not an integer.
            ValueError: `batch_rows` is not positive.
        """
        batch_rows = check_int("batch_rows", batch_rows, 1)
        for rows in self._limited(self._stream(self._spec, batch_rows)):
            yield from rows.to_batches(batch_rows)

    def to_arrow(self) -> pa.Table:
        """Return all rows as one table."""
        tables = list(self._limited(self._stream(self._spec, None)))
        return pa.concat_tables([self.schema.empty_table(), *tables])

    def count(self) -> int:
        """Return the number of rows, reading no more columns than the filter and merging need."""
        row_filter = self._spec.row_filter
        if self._limit is not None or row_filter is not None:
            # A table without columns would not know how many rows are left of a part of it.
            filtered = () if row_filter is None else row_filter.columns or ()
            spec = self._spec.selecting([*filtered, *self.schema.names][:1])
            return sum(rows.num_rows for rows in self._limited(self._stream(spec, _BATCH_ROWS)))
        reader = SliceReader(self._snapshot, self._spec.counting())
        slices = self.plan().slices
        counts = [partial(_count, reader, file_slice) for file_slice in slices]
        with self._snapshot.state.read_here(is_planned=True):
            return sum(merge_streams(counts, self._workers(slices), buffered=64))

    def _stream(self, spec: RowSpec, batch_rows: int | None) -> Iterator[pa.Table]:
        slices = self.plan().slices
        workers = self._workers(slices)
        reader = SliceReader(self._snapshot, spec, side_by_side=len(slices) >= workers)
        streams = [partial(reader.read, file_slice, batch_rows) for file_slice in slices]
        if batch_rows is None:  # everything is held in the end
            return merge_streams(streams, workers, buffered=workers)
        costs = [reader.log_size(file_slice) for file_slice in slices]
        return merge_streams(streams, workers, workers, costs, _LOG_BYTES_IN_WORK)

    def _workers(self, slices: Sequence[FileSlice]) -> int:
        return reader_count(self._snapshot.state.store, [s.size for s in slices])

    def _limited(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        left = self._limit
        for rows in self._with_causes(tables):
            if left is not None:
                rows = rows.slice(0, min(left, rows.num_rows))  # noqa: PLW2901
                left -= rows.num_rows
            if rows.num_rows:
                yield rows
            if left == 0:
                break

    def _with_causes(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield the tables; an error names the rollback or clean that deleted a file."""
        with self._snapshot.state.read_here(is_planned=True):
            yield from tables

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows as an Arrow C stream, which any Arrow library reads."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader over `to_batches`."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a pandas DataFrame. Needs the `pandas` extra."""
        with of_extra("pandas"):
            import pandas  # noqa: F401, PLC0415  (an optional dependency)

        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a polars DataFrame. Needs the `polars` extra."""
        with of_extra("polars"):
            import polars  # noqa: PLC0415  (an optional dependency)

        return polars.DataFrame(self.to_arrow())

    def to_duckdb(
        self, connection: duckdb.DuckDBPyConnection, name: str
    ) -> duckdb.DuckDBPyConnection:
        """Register the rows under `name` in a DuckDB connection, and return the connection.

        Raises:
            TypeError: `connection` registers no tables, or `name` is not text.
        """
        check_text("name", name)
        if not hasattr(connection, "register"):
            raise TypeError(f"connection is what duckdb.connect() returns, not {connection!r}")
        return connection.register(name, self.to_arrow())


def _unpickle(
    pinned: PinnedTable, at: tuple[str | None, str | None], spec: RowSpec, limit: int | None
) -> Scan:
    as_of, completed_until = at
    snapshot = Snapshot(pinned.snapshot.state, as_of=as_of, completed_until=completed_until)
    return Scan(snapshot, spec, pinned.finder, limit)


def group_buckets(*scans: Scan) -> BucketGroups:
    """Return the parts of each scan in each bucket that the scans have in common.

    Rows with equal hash fields are in one common bucket, which can be joined or grouped alone.

    Raises:
        IndexUnknownError: an index is unknown, has no buckets, or leaves out file groups.
        UnsupportedError: the tables hash different fields, or different texts of them; their
            buckets have nothing in common; or equal values may be in different buckets.
        ValueError: a scan has a limit.
        TypeError: an argument is no scan.
    """
    for scan in scans:
        check_kind("scans", scan, Scan, "the result of Table.scan")
    return plan_groups([scan.bucketed() for scan in scans])


def _count(reader: SliceReader, file_slice: FileSlice) -> Iterator[int]:
    yield reader.count(file_slice)


def plan_scan(
    snapshot: Snapshot,
    index_finder: IndexFinder,
    *,
    columns: Sequence[str] | None = None,
    row_filter: Filter | None = None,
    read_optimized: bool = False,
    meta_columns: bool = False,
    limit: int | None = None,
    commit_times: frozenset[str] | None = None,
) -> Scan:
    """Return a scan of a snapshot. Arguments as in `Table.scan`.

    Raises:
        TypeError: an argument has the wrong type.
        SchemaError: the table has no such column.
        ValueError: the limit is negative.
    """
    if columns is not None:
        columns = check_names("columns", columns)
    check_bool("read_optimized", read_optimized)
    check_bool("meta_columns", meta_columns)
    if limit is not None:
        limit = check_int("limit", limit, 0)
    wants_operations = meta_columns or OPERATION in (columns or ())
    table = snapshot.schema_with_operations if wants_operations else snapshot.schema
    output = output_schema(table, columns, meta_columns)
    if row_filter is not None:
        table.select(row_filter.columns or ())
    spec = RowSpec(
        table=table,
        output=output,
        row_filter=row_filter,
        read_optimized=read_optimized,
        commit_times=commit_times,
    )
    return Scan(snapshot, spec, index_finder, limit)


def output_schema(
    table: TableSchema, columns: Sequence[str] | None, meta_columns: bool
) -> pa.Schema:
    """Return the columns that a caller asked for.

    Raises:
        SchemaError: a column is unknown or named twice, or no columns are named.
    """
    names = list(columns) if columns is not None else list(table.data.names)
    if len(set(names)) < len(names):
        raise SchemaError("columns= names a column twice; name each column once")
    if not names and not meta_columns:
        raise SchemaError(
            "columns= names no columns; name some, or call count() for the number of rows"
        )
    if meta_columns:
        meta = table.meta_columns
        names = [*meta, *(name for name in names if name not in meta)]
    return table.select(names)


def plan_changes(
    state: TableState,
    index_finder: IndexFinder,
    *,
    since: str | None,
    until: str | None,
    columns: Sequence[str] | None = None,
    row_filter: Filter | None = None,
    meta_columns: bool = False,
    limit: int | None = None,
) -> Scan:
    """Return a scan of the rows that instants in (since, until] wrote. As in `Table.changes`.

    Raises:
        UnsupportedError: the rows of the table have no commit times.
        ValueError: `until` is before `since`.
    """
    if since is not None and until is not None and until < since:
        raise ValueError(f"until={until} is before since={since}: exchange the two")
    if not state.config.populate_meta_fields:
        raise UnsupportedError(
            "the table has no meta columns, so the commit of a row is unknown; compare two scans "
            "with as_of= instead"
        )
    by_completion = state.config.table_version >= 8
    written = None
    if since is not None:
        written = frozenset(
            requested
            for requested, completed in state.write_times(since)
            if (completed if by_completion else requested) > since
        )
    snapshot = Snapshot(
        state,
        as_of=None if by_completion else until,
        completed_until=until if by_completion else None,
    )
    return plan_scan(
        snapshot,
        index_finder,
        columns=columns,
        row_filter=row_filter,
        meta_columns=meta_columns,
        limit=limit,
        commit_times=written,
    )
