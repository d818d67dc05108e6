"""Ranges of the values in row groups, by which readers leave row groups unread. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

__all__ = ["ColumnRange", "RowGroupRanges"]


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """The statistics of one column in a row group; None where a statistic is absent.

    Attributes:
        low: No value is less.
        high: No value is greater; of text or bytes, no value greater without this prefix.
            Writers may cut both short. NaN lies outside both.
        null_count: Number of nulls.
        type: The column's type; the bounds are Python values of it.
    """

    low: Any
    high: Any
    null_count: int | None
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class RowGroupRanges:
    """One row group: its number of rows, and the ranges of the columns with statistics."""

    num_rows: int
    columns: dict[str, ColumnRange]
