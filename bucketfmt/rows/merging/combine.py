"""Combining: of several incoming rows with one key, the row that is written.

Pure and vectorised. Sources: BaseWriteHelper.reduceRecords (1.x), HoodieWriteHelper
.deduplicateRecords and OverwriteWithLatestAvroPayload.preCombine (0.15). Hudi calls it
combining; a table combines the rows of one write by the rules it merges the rows of a log by.
"""

from __future__ import annotations

from collections.abc import Container

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import SchemaError
from bucketfmt.rows.columns.column_paths import find_column
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.rows.merging.log_entries import LogEntries, RowRun, find_merge_columns
from bucketfmt.rows.merging.merge_rules import MergeRules
from bucketfmt.rows.merging.ordering import Indexes
from bucketfmt.rows.merging.partial_updates import settle_entries
from bucketfmt.rows.merging.winners import find_winners

__all__ = ["check_ordering_values", "combine_rows", "find_standing_rows"]


def combine_rows(
    rows: pa.Table,
    record_keys: pa.ChunkedArray,
    rules: MergeRules,
    unfilled: Container[str] = (),
) -> tuple[pa.Table, Indexes]:
    """Return the rows that are written, one per key, in the given order, and which rows they are.

    A row that is marked as deleted competes like any other row, and becomes a delete. If the table
    fills values (`MergeRules.filling`), the rows of a key fill one another.

    Args:
        rows: Rows of one partition, later ones written later.
        record_keys: The record key of each.
        rules: How the table merges.
        unfilled: Columns whose values no row takes from another.

    Raises:
        SchemaError: an ordering field that decides is null.
    """
    entries = _find_entries(rows, record_keys, rules)
    if entries is None:
        return rows, np.arange(rows.num_rows)
    winners, composed = settle_entries(entries, rules)
    kept = np.sort(winners)
    combined = rows.take(pa.array(kept))
    if composed is None:
        return combined, kept
    places, found = np.searchsorted(kept, composed.winners), combined.columns
    for names, sources in composed.find_sources(rows):
        taken = kept.copy()
        taken[places] = sources
        for name in names:
            if name not in unfilled:
                index = rows.schema.get_field_index(name)
                found[index] = rows.column(index).take(pa.array(taken))
    return pa.Table.from_arrays(found, schema=rows.schema), kept


def find_standing_rows(rows: pa.Table, record_keys: pa.ChunkedArray, rules: MergeRules) -> Indexes:
    """Return which rows stay, one per key, in the given order. As `combine_rows`; none is filled.

    Raises:
        SchemaError: an ordering field that decides is null.
    """
    entries = _find_entries(rows, record_keys, rules)
    return np.arange(rows.num_rows) if entries is None else np.sort(find_winners(entries, rules))


def check_ordering_values(rows: pa.Table, rules: MergeRules) -> None:
    """Refuse rows whose ordering values decide, and of which one is null.

    Raises:
        SchemaError: so it is. Hudi 0.15 and 1.0 refuse such a row; Hudi 1.2 writes a row that no
            reader can compare with other rows of the key.
    """
    for name in rules.ordering_fields if rules.log_by_ordering else ():
        column = find_column(rows, name)
        if column is not None and column.null_count:
            raise SchemaError(
                f"column {name}: null, but the table finds the newer of two rows by it; "
                "give every row a value"
            )


def _find_entries(
    rows: pa.Table, record_keys: pa.ChunkedArray, rules: MergeRules
) -> LogEntries | None:
    """Return the rows as entries of a log; None if no key is there twice."""
    check_ordering_values(rows, rules)
    if pc.count_distinct(record_keys).as_py() == rows.num_rows:  # nulls are not counted
        return None
    competing = rows.select(
        [name for name in find_merge_columns(rules, rows.schema) if name != RECORD_KEY]
    ).append_column(RECORD_KEY, record_keys.cast(pa.string()))
    return LogEntries.of([RowRun(competing)], rules, competing.schema)
