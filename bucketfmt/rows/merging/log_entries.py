"""The entries of the log of a file slice: rows written and keys deleted.

Pure. Sources: KeyBasedFileGroupRecordBuffer, DeleteContext, RecordContext.isDeleteRecord.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import CorruptError, LimitError, UnsupportedError
from bucketfmt.format.log.delete_records import DeleteBlock
from bucketfmt.rows.columns.column_paths import find_column, top_column
from bucketfmt.rows.columns.java_text import java_strings
from bucketfmt.rows.columns.meta_columns import IS_DELETED, OPERATION, RECORD_KEY
from bucketfmt.rows.merging.merge_rules import MergeRules
from bucketfmt.rows.merging.ordering import Indexes, Mask, OrderingValues, find_delete_ordering

__all__ = [
    "DeleteRun",
    "HeldColumns",
    "LogEntries",
    "RowRun",
    "Run",
    "find_delete_marks",
    "find_merge_columns",
    "find_ordering_columns",
]


@dataclass(frozen=True, slots=True, eq=False)
class RowRun:
    """The rows of one data block, or of several that follow one another.

    Attributes:
        rows: In the schema that all rows are merged in, with `_hoodie_record_key`.
        held: Where a log has partial updates, the columns that the blocks hold. The others are null
            here, and are those of older records. None: the blocks hold whole rows.
        is_partial: The block's IS_PARTIAL header: the block holds only the columns of an update.
        are_keys_distinct: Whether no two rows are known to have one key. Saves finding out.
    """

    rows: pa.RecordBatch | pa.Table
    held: frozenset[str] | None = None
    is_partial: bool = False
    are_keys_distinct: bool = False


@dataclass(frozen=True, slots=True)
class DeleteRun:
    """The entries of one delete block."""

    block: DeleteBlock


Run = RowRun | DeleteRun


@dataclass(frozen=True, slots=True, eq=False)
class HeldColumns:
    """Which columns the rows of a log with partial updates hold.

    Attributes:
        columns: Sets of columns that the same rows hold.
        masks: A line for each of these sets: which kinds of rows hold the columns.
        are_updates: Which kinds of rows are those of partial blocks.
        of_rows: For each row its kind.
        first_entry: The first entry of a partial block. Records before it are merged whole.
    """

    columns: tuple[tuple[str, ...], ...]
    masks: Mask
    are_updates: Mask
    of_rows: Indexes
    first_entry: int

    @classmethod
    def find(cls, runs: Sequence[Run], names: Sequence[str]) -> HeldColumns | None:
        """Return the columns that the rows of `runs` hold of `names`; None: all hold all."""
        rows = [run for run in runs if isinstance(run, RowRun)]
        if not any(run.is_partial for run in rows):
            return None
        kinds = list(dict.fromkeys((run.held, run.is_partial) for run in rows))
        alike: dict[tuple[bool, ...], list[str]] = {}
        for name in names:
            alike.setdefault(tuple(h is None or name in h for h, _ in kinds), []).append(name)
        return cls(
            columns=tuple(map(tuple, alike.values())),
            masks=np.array(list(alike), np.bool_),
            are_updates=np.array([is_partial for _, is_partial in kinds], np.bool_),
            of_rows=np.repeat(
                [kinds.index((run.held, run.is_partial)) for run in rows],
                [run.rows.num_rows for run in rows],
            ),
            first_entry=min(
                span.start
                for run, span in _spans(runs)
                if isinstance(run, RowRun) and run.is_partial
            ),
        )


@dataclass(frozen=True, slots=True, eq=False)
class LogEntries:
    """All entries of a log, oldest first, as columns.

    Attributes:
        rows: The rows of all data blocks.
        keys: Every record key once.
        codes: Per entry, the index of its key in `keys`.
        row: Per entry, the index of its row in `rows`; -1 for a delete block's entry.
        is_marked: The entry is a row that is marked as deleted.
        is_overruling: The entry is such a row, and `MergeRules.marked_deletes_overrule` applies.
        is_unordered: The entry is a delete that replaces every earlier record.
        is_foreign: The entry is such a delete because its ordering value has another Java class
            than the rows' ordering values.
        ordering: The ordering values; None if the rules compare none.
        held: The columns that the rows hold; None if all hold all.
    """

    rows: pa.Table
    keys: pa.Array
    codes: Indexes
    row: Indexes
    is_marked: Mask
    is_overruling: Mask
    is_unordered: Mask
    is_foreign: Mask
    ordering: OrderingValues | None
    held: HeldColumns | None = None

    @classmethod
    def of(cls, runs: Sequence[Run], rules: MergeRules, schema: pa.Schema) -> LogEntries:
        """Return the entries of `runs`; the runs are in the order of the log.

        Raises:
            CorruptError: a record key is null.
            LimitError: the record keys take 2 GiB or more.
            UnsupportedError: rows without ordering value compete with a delete of another type.
        """
        tables = [_rows_of(run, schema) for run in runs if isinstance(run, RowRun)]
        rows = pa.concat_tables(tables) if tables else schema.empty_table()
        keys, codes = _encode_keys(runs)
        from_rows = np.zeros(len(codes), np.bool_)
        for run, span in _spans(runs):
            from_rows[span] = isinstance(run, RowRun)
        by_column, by_operation = find_delete_marks(rows, rules)
        is_overruling, is_marked = (np.zeros(len(codes), np.bool_) for _ in range(2))
        is_overruling[from_rows] = by_column
        is_marked[from_rows] = by_column | by_operation
        is_unordered, is_foreign = (np.zeros(len(codes), np.bool_) for _ in range(2))
        ordering = None
        if rules.log_by_ordering:
            columns = find_ordering_columns(rows, rules)
            if not rules.legacy:
                is_unordered[from_rows] = is_marked[from_rows] & _is_default(columns)
            ordering = _find_ordering(runs, rules, columns, is_unordered, is_foreign)
        row = np.where(from_rows, np.cumsum(from_rows) - 1, -1)
        marks = is_marked, is_overruling, is_unordered, is_foreign
        held = HeldColumns.find(runs, schema.names)
        entries = cls(rows, keys, codes, row, *marks, ordering, held)
        if is_foreign.any() and len(rules.ordering_fields) == 1:
            unset = np.zeros(len(codes), np.bool_)
            unset[from_rows] = columns[0].is_null().to_numpy()
            entries.check_without_ordering(codes[unset])
        return entries

    def check_without_ordering(self, codes: Indexes) -> None:
        """Refuse rows without ordering value of these keys, if a foreign delete has the same key.

        The ordering value of such a row counts as the integer 0, so the classes may agree after
        all.

        Raises:
            UnsupportedError: there are such rows.
        """
        both = np.intersect1d(codes, self.codes[self.is_foreign])
        if len(both):
            raise UnsupportedError(
                f"key {self.keys[int(both[0])].as_py()!r} has a delete whose ordering value is of "
                "another type than the column, and a row without one; compact the table with Hudi"
            )


def find_merge_columns(rules: MergeRules, schema: pa.Schema) -> list[str]:
    """Return the top-level columns of `schema` that rows need in order to be merged."""
    names = [RECORD_KEY, IS_DELETED, OPERATION, *rules.ordering_fields]
    if rules.delete_field is not None:
        names.append(rules.delete_field)
    tops = (top_column(schema.names, name) for name in names)
    return [name for name in dict.fromkeys(tops) if name in schema.names]


def find_ordering_columns(rows: pa.Table, rules: MergeRules) -> list[pa.ChunkedArray]:
    """Return one column per ordering field, at least one.

    A table without ordering field, or without the column (0.x records `ts` by default), has the
    integer 0 everywhere.
    """
    columns = [find_column(rows, name) for name in rules.ordering_fields]
    zeros = pa.chunked_array([pa.array(np.zeros(rows.num_rows, np.int32))])
    return [zeros if column is None else column for column in columns] or [zeros]


def find_delete_marks(rows: pa.Table, rules: MergeRules) -> tuple[Mask, Mask]:
    """Return per row whether a column marks the row as deleted, and whether its operation does."""
    by_column, by_operation = (np.zeros(rows.num_rows, np.bool_) for _ in range(2))
    if IS_DELETED in rows.schema.names:
        marks = rows.column(IS_DELETED)
        if pa.types.is_boolean(marks.type):
            by_column |= pc.fill_null(marks, False).to_numpy()
    column = None if rules.delete_field is None else find_column(rows, rules.delete_field)
    if column is not None:
        texts = pa.chunked_array([java_strings(chunk) for chunk in column.chunks], pa.string())
        by_column |= pc.is_in(texts, pa.array(rules.delete_markers, pa.string())).to_numpy()
    if OPERATION in rows.schema.names:
        operations = pa.array(rules.delete_operations, pa.string())
        by_operation |= pc.is_in(rows.column(OPERATION), operations).to_numpy()
    return by_column, by_operation


def _spans(runs: Sequence[Run]) -> Iterator[tuple[Run, slice]]:
    """Yield each run with the range of its entries."""
    start = 0
    for run in runs:
        size = run.rows.num_rows if isinstance(run, RowRun) else len(run.block)
        yield run, slice(start, start + size)
        start += size


def _find_ordering(
    runs: Sequence[Run],
    rules: MergeRules,
    columns: Sequence[pa.ChunkedArray],
    is_unordered: Mask,
    is_foreign: Mask,
) -> OrderingValues:
    """Return the ordering values of all entries; mark the deletes without a comparable value."""
    types = [column.type for column in columns]
    chunks: list[list[pa.Array]] = [[] for _ in columns]
    rows_before = 0
    for run, span in _spans(runs):
        if isinstance(run, RowRun):
            for found, column in zip(chunks, columns, strict=True):
                found.extend(column.slice(rows_before, run.rows.num_rows).chunks)
            rows_before += run.rows.num_rows
            continue
        deletes = find_delete_ordering(run.block, types, rules.legacy)
        for found, values in zip(chunks, deletes.columns, strict=True):
            found.append(values)
        is_unordered[span] = deletes.is_default | ~deletes.is_comparable
        is_foreign[span] = ~deletes.is_default & ~deletes.is_comparable
    whole = [pa.chunked_array(*pair) for pair in zip(chunks, types, strict=True)]
    return OrderingValues.of(whole, null_is_zero=not rules.legacy)


def _rows_of(run: RowRun, schema: pa.Schema) -> pa.Table:
    rows = run.rows if isinstance(run.rows, pa.Table) else pa.Table.from_batches([run.rows])
    if not rows.schema.equals(schema):
        raise ValueError("the rows have another schema than the merge; conform the rows first")
    return rows


def _encode_keys(runs: Sequence[Run]) -> tuple[pa.Array, Indexes]:
    """Return the distinct keys, and per entry the index of its key."""
    chunks: list[pa.Array] = []
    for run in runs:
        if isinstance(run, RowRun):
            column = run.rows.column(RECORD_KEY)
            chunks.extend(column.chunks if isinstance(column, pa.ChunkedArray) else [column])
        else:
            chunks.append(pa.array(run.block.record_keys, pa.string()))
    keys = pa.chunked_array([chunk.cast(pa.string()) for chunk in chunks], pa.string())
    if keys.null_count:
        raise CorruptError("a log record has no record key")
    try:
        if len(runs) == 1 and isinstance(runs[0], RowRun) and runs[0].are_keys_distinct:
            return pa.concat_arrays(keys.chunks), np.arange(len(keys))
        encoded = keys.dictionary_encode()
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        raise LimitError(
            "the log of a file slice has 2 GiB of record keys; compact the table with Hudi"
        ) from error
    if not encoded.num_chunks:
        return pa.array([], pa.string()), np.zeros(0, np.int64)
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
    return encoded.chunk(encoded.num_chunks - 1).dictionary, codes.astype(np.int64)


def _is_default(columns: Sequence[pa.ChunkedArray]) -> Mask:
    """Return per row whether its ordering value is Hudi's default, the integer 0."""
    if len(columns) > 1:
        return np.zeros(len(columns[0]), np.bool_)  # a tuple is never the integer 0
    column = columns[0]
    is_default = np.asarray(column.is_null().to_numpy(), np.bool_)
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    if pa.types.is_integer(column.type) and column.type.bit_width <= 32:
        is_default |= pc.fill_null(pc.equal(column, 0), False).to_numpy()
    return is_default
