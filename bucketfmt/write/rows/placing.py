"""Rows that were gathered by sets of keys, brought to the file groups that have their keys.

Where keys are hashed, the route of a row leads to its file group already. By a record index the
table has to be asked, in each attempt of a write anew. I/O: reads the index; and of keys that may
move to another partition the stored rows. Source: HoodieIndexUtils.tagGlobalLocationBackToRecords
and mergeForPartitionUpdatesAndDeletionsIfNeeded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import UnsupportedError
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.location.located import LateRoutes
from bucketfmt.location.routes import Route
from bucketfmt.rows.columns.conform import conform
from bucketfmt.rows.columns.meta_columns import PARTITION_PATH, RECORD_KEY
from bucketfmt.rows.columns.meta_rows import merge_schema
from bucketfmt.rows.columns.virtual_keys import partition_paths, record_keys
from bucketfmt.rows.merging.combine import combine_rows
from bucketfmt.rows.merging.log_entries import RowRun, find_delete_marks, find_merge_columns
from bucketfmt.rows.merging.merge import merge_log
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.write.rows.basis import Basis
from bucketfmt.write.rows.grouping import GroupedRows, split_rows

__all__ = ["PlacedRows", "place_rows"]

_ROWS_AT_A_TIME = 1 << 18


@dataclass(frozen=True, eq=False)
class PlacedRows:
    """Rows by routes that lead to file groups.

    Attributes:
        rows: The rows that file groups take; keys, where keys are deleted.
        moved: The keys that file groups lose, because their rows go to another partition.
    """

    rows: GroupedRows
    moved: GroupedRows

    @property
    def counts(self) -> dict[Route, int]:
        """How many rows each route has, in the order of the routes; 0 if it only loses keys."""
        routes = sorted({*self.rows.routes, *self.moved.routes})
        return {route: self.rows.num_rows([route]) for route in routes}

    def rows_of(self, routes: Sequence[Route]) -> pa.Table | None:
        """Return the rows of routes; None where there are none."""
        own = [route for route in routes if self.rows.num_rows([route])]
        return self.rows.rows(own) if own else None

    def moved_of(self, routes: Sequence[Route]) -> pa.Table | None:
        """Return the keys that leave the file groups of routes; None where there are none."""
        own = [route for route in routes if self.moved.num_rows([route])]
        return self.moved.rows(own) if own else None


@contextmanager
def place_rows(
    basis: Basis, operation: WriteOperation, gathered: GroupedRows
) -> Iterator[PlacedRows]:
    """Bring gathered rows to routes that lead to file groups, while the body runs.

    Raises:
        ValueError: the rows lack columns whose stored values are in another partition; keys of a
            bulk insert are not new; or keys of an overwrite stay in another partition.
        CorruptError: the index contradicts the table, or is damaged.
        StorageError: the store failed.
    """
    late = basis.locator.late
    with GroupedRows() as moved:
        if late is None:
            yield PlacedRows(gathered, moved)
            return
        with GroupedRows() as rows:
            placed = PlacedRows(rows, moved)
            placing = _Placing(basis, operation, late, placed)
            for routes in _batches(gathered.counts):
                placing.place(routes, [gathered.rows([route]) for route in routes])
            placing.check_overwritten()
            yield placed


def _batches(counts: dict[Route, int]) -> Iterator[list[Route]]:
    """Yield routes that have some number of rows together."""
    batch: list[Route] = []
    size = 0
    for route, count in counts.items():
        batch.append(route)
        size += count
        if size >= _ROWS_AT_A_TIME:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _Placing:
    """Places the rows of one attempt."""

    def __init__(
        self, basis: Basis, operation: WriteOperation, late: LateRoutes, placed: PlacedRows
    ) -> None:
        if operation.fills_empty_buckets and not basis.index.keeps_locations:
            raise UnsupportedError(
                f"{operation.value} by {basis.index}, which may have no key twice; use insert"
            )
        self._basis = basis
        self._operation = operation
        self._late = late
        self._placed = placed
        self._config = basis.snapshot.state.config
        self._elsewhere: dict[str, str] = {}

    def place(self, routes: Sequence[Route], tables: Sequence[pa.Table]) -> None:
        """Place all rows of some routes."""
        rows = pa.concat_tables(tables)
        if self._operation.takes_keys:
            paths = [
                pa.repeat(pa.scalar(route.partition_path, pa.string()), table.num_rows)
                for route, table in zip(routes, tables, strict=True)
            ]
            self._place_keys(rows, pa.chunked_array(paths, pa.string()))
            return
        keys = record_keys(rows, self._config, self._basis.key_encoding)
        paths = partition_paths(rows, self._config)
        if self._late.has_global_keys and self._operation.combines:
            # A row says which partition it is in, and takes that from no other.
            unfilled = {field.partition(".")[0] for field in self._config.partition_fields}
            rows, kept = combine_rows(rows, keys, self._basis.rules, unfilled)
            if len(kept) < len(keys):
                keys, paths = keys.take(pa.array(kept)), paths.take(pa.array(kept))
        if self._operation.fills_empty_buckets:
            self._check_new(keys, paths)
        if self._operation is WriteOperation.INSERT_OVERWRITE and self._late.has_global_keys:
            self._note_elsewhere(keys, paths)
        if self._operation.overwrites or self._operation.fills_empty_buckets:
            self._add(rows, paths, self._late.place_new(keys, paths))
            return
        self._place_rows(rows, keys, paths)

    def _check_new(self, keys: pa.ChunkedArray, paths: pa.ChunkedArray) -> None:
        """Raise ValueError: a key is given twice, or is stored. The index names one row of a key.

        Args:
            keys: The key of each row.
            paths: The partition of each row.
        """
        within = None if self._late.has_global_keys else paths
        given = {RECORD_KEY: keys} if within is None else {RECORD_KEY: keys, PARTITION_PATH: within}
        counts = pa.table(given).group_by([*given]).aggregate([([], "count_all")])
        repeated = counts.filter(pc.greater(counts["count_all"], 1))
        if repeated.num_rows:
            raise ValueError(
                f"bulk_insert has the key {repeated[RECORD_KEY][0].as_py()!r} twice, and "
                f"{self._basis.index} names one row of a key; use upsert or insert"
            )
        stored = self._late.settle(keys, within).partition_paths
        found = pc.index(stored.is_valid(), True).as_py()
        if found >= 0:
            raise ValueError(
                f"bulk_insert of key {keys[found].as_py()!r}, which partition "
                f"{stored[found].as_py()!r} has already; use upsert or insert"
            )

    def _note_elsewhere(self, keys: pa.ChunkedArray, paths: pa.ChunkedArray) -> None:
        """Note a key of each other partition that has keys of the rows.

        Args:
            keys: The key of each row.
            paths: The partition of each row.
        """
        stored = self._late.settle(keys, None).partition_paths
        is_elsewhere = pc.fill_null(pc.not_equal(stored, paths), False)
        own = pa.table({PARTITION_PATH: stored, RECORD_KEY: keys}).filter(is_elsewhere)
        first = own.group_by([PARTITION_PATH]).aggregate([(RECORD_KEY, "min")])
        for path, key in zip(*(column.to_pylist() for column in first.columns), strict=True):
            self._elsewhere.setdefault(path, key)

    def check_overwritten(self) -> None:
        """Raise ValueError: a key of an overwrite is stored in a partition that stays."""
        overwritten = {route.partition_path for route in self._placed.rows.routes}
        for path in sorted(self._elsewhere.keys() - overwritten):
            raise ValueError(
                f"insert_overwrite of key {self._elsewhere[path]!r}, which partition {path!r} has, "
                f"and {self._basis.index} names one row of a key; delete the key there first, or "
                "overwrite that partition too"
            )

    def _place_keys(self, rows: pa.Table, paths: pa.ChunkedArray) -> None:
        """Place keys to delete, but for those that are not stored in their partition."""
        settled = self._late.settle(
            rows.column(RECORD_KEY), None if self._late.has_global_keys else paths
        )
        is_stored = pc.fill_null(pc.equal(settled.partition_paths, paths), False)
        numbers = settled.numbers[is_stored.to_numpy()]
        self._add(rows.filter(is_stored), paths.filter(is_stored), numbers)

    def _place_rows(self, rows: pa.Table, keys: pa.ChunkedArray, paths: pa.ChunkedArray) -> None:
        settled = self._late.settle(keys, None if self._late.has_global_keys else paths)
        stored, numbers = settled.partition_paths, settled.numbers.copy()
        goes_to = pc.coalesce(stored, paths)
        if self._late.moves_keys:
            leaves = pc.fill_null(pc.not_equal(stored, paths), False).to_numpy()
            moving = self._find_moving(rows, keys, goes_to, numbers, np.flatnonzero(leaves))
            own = pa.array(moving)
            gone = pa.table({RECORD_KEY: keys.take(own)})
            for route, lost in split_rows(gone, goes_to.take(own), numbers[moving]):
                self._placed.moved.add(route, lost)
            is_moving = np.isin(np.arange(len(keys)), moving)
            goes_to = pc.if_else(pa.array(is_moving), paths, goes_to)
            numbers[is_moving] = self._late.place_new(keys.take(own), paths.take(own))
        self._add(rows, goes_to, numbers)

    def _find_moving(
        self,
        rows: pa.Table,
        keys: pa.ChunkedArray,
        paths: pa.ChunkedArray,
        numbers: np.ndarray,
        leaving: np.ndarray,
    ) -> np.ndarray:
        """Return which rows move their keys to their own partition.

        A row that is marked as deleted does not, nor does a row that is older than the stored row:
        these are merged where the key is stored.

        Args:
            rows: All rows.
            keys: The key of each.
            paths: Where each key is stored, or else the partition of its row.
            numbers: The routes of the stored keys.
            leaving: The rows that are of another partition than their keys.
        """
        basis, rules = self._basis, self._basis.rules
        own = rows.take(pa.array(leaving)).append_column(RECORD_KEY, keys.take(pa.array(leaving)))
        marked = np.logical_or(*find_delete_marks(own, rules))
        leaving, own = leaving[~marked], own.filter(pa.array(~marked))
        if basis.kept and len(leaving):
            raise ValueError(
                f"{len(leaving)} rows lack columns and move their keys to another partition "
                "(update_partition_path); give these rows all columns"
            )
        if rules.filling is not None and len(leaving):
            raise UnsupportedError(
                f"{len(leaving)} rows move their keys to another partition (update_partition_path),"
                " and the table fills values of rows (a partial update mode); write such rows with "
                "Hudi, or delete the keys first"
            )
        if not (rules.base_by_ordering and rules.ordering_fields and len(leaving)):
            return leaving
        is_populated = self._config.populate_meta_fields
        working = merge_schema(basis.schema.data, is_populated=is_populated)
        output = pa.schema([working.field(name) for name in find_merge_columns(rules, working)])
        log = merge_log([RowRun(conform(own, output))], rules, output, basis.snapshot.state.limits)
        newer: list[pa.Array] = []
        places = zip(
            paths.take(pa.array(leaving)).to_pylist(), numbers[leaving].tolist(), strict=True
        )
        for path, number in sorted(set(places)):
            group = basis.locator.targets(path, {number: 0})[number][0]
            file_slice = basis.locator.slice_of(group)
            if file_slice is None:
                continue
            spec = RowSpec(
                table=basis.schema, output=output, keys=pc.unique(own.column(RECORD_KEY))
            )
            for stored in SliceReader(basis.snapshot, spec).read(file_slice, None):
                found = log.find_replacements(stored)
                replaced = np.concatenate([found.places, found.gone])
                newer += stored.column(RECORD_KEY).take(pa.array(replaced, pa.int64())).chunks
        is_newer = pc.is_in(own.column(RECORD_KEY), pa.chunked_array(newer, pa.string()))
        return leaving[np.asarray(is_newer.to_numpy(), np.bool_)]

    def _add(self, rows: pa.Table, paths: pa.ChunkedArray, numbers: np.ndarray) -> None:
        for route, own in split_rows(rows, paths, numbers):
            self._placed.rows.add(route, own)
