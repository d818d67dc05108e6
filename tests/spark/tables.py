"""Small tables that bucketfmt writes, for joins and the like."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import bucketfmt as bf

__all__ = ["make_table", "rows_of"]


def make_table(
    path: Path,
    rows: pa.Table,
    index: bf.Index,
    *,
    record_key: Sequence[str] = ("id",),
    partition_by: Sequence[str] = (),
    **arguments: Any,
) -> bf.Table:
    """Write rows as a table, in two commits, so that merge-on-read tables have logs."""
    table = bf.create(
        path,
        schema=rows.schema,
        record_key=record_key,
        partition_by=partition_by,
        index=index,
        **arguments,
    )
    half = rows.num_rows // 2
    for part in (rows.slice(0, half + 1), rows.slice(half)):
        if part.num_rows:
            table.upsert(part)
    return table


def rows_of(frame: Any) -> list[tuple[str, ...]]:
    """The rows of a DataFrame as text, sorted: NaN is equal to itself, order is none."""
    return sorted(tuple(map(repr, row)) for row in frame.collect())
