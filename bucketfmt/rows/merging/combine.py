"""Combining: of several incoming rows with one key, the row that is written.

Pure and vectorised. Sources: BaseWriteHelper.reduceRecords (1.x), HoodieWriteHelper
.deduplicateRecords and OverwriteWithLatestAvroPayload.preCombine (0.15). Hudi calls it
combining; a table combines the rows of one write by the rules it merges the rows of a log by.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import SchemaError
from bucketfmt.rows.columns.column_paths import find_column
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.rows.merging.log_entries import LogEntries, RowRun, find_merge_columns
from bucketfmt.rows.merging.merge_rules import MergeRules
from bucketfmt.rows.merging.ordering import Indexes
from bucketfmt.rows.merging.winners import find_winners

__all__ = ["find_standing_rows"]


def find_standing_rows(rows: pa.Table, record_keys: pa.ChunkedArray, rules: MergeRules) -> Indexes:
    """Return the rows that are written, one per key, in the given order.

    A row that is marked as deleted competes like any other row, and becomes a delete.

    Args:
        rows: Rows of one partition, later ones written later.
        record_keys: The record key of each.
        rules: How the table merges.

    Raises:
        SchemaError: an ordering field that decides is null. Hudi 0.15 and 1.0 refuse such a row;
            Hudi 1.2 writes a row that no reader can compare with other rows of the key.
    """
    for name in rules.ordering_fields if rules.log_by_ordering else ():
        column = find_column(rows, name)
        if column is not None and column.null_count:
            raise SchemaError(
                f"column {name}: null, but the table finds the newer of two rows by it; "
                "give every row a value"
            )
    if pc.count_distinct(record_keys).as_py() == rows.num_rows:  # nulls are not counted
        return np.arange(rows.num_rows)
    competing = rows.select(
        [name for name in find_merge_columns(rules, rows.schema) if name != RECORD_KEY]
    ).append_column(RECORD_KEY, record_keys.cast(pa.string()))
    entries = LogEntries.of([RowRun(competing)], rules, competing.schema)
    return np.sort(find_winners(entries, rules))
