"""What a condition excludes without a look at the rows: row groups, and keys. Pure."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from bucketfmt.rows.columns.java_text import java_strings
from bucketfmt.rows.filters.predicate import Predicate
from bucketfmt.rows.row_ranges import RowGroupRanges

__all__ = ["find_allowed_texts", "may_hold"]


def may_hold(part: Predicate, group: RowGroupRanges) -> bool:
    """Whether `part` may hold for some row of the group, by the statistics."""
    found = group.columns.get(part.column)
    if found is None or part.operator == "not in":
        return True
    wanted = part.value if part.operator == "in" else (part.value,)
    if part.operator == "in" and None in wanted and found.null_count != 0:
        return True
    if found.null_count == group.num_rows:
        return False  # null compares with nothing
    operator = "==" if part.operator == "in" else part.operator
    return any(
        _bounds_allow(operator, _comparable(value, found.type), found.low, found.high)
        for value in wanted
        if value is not None
    )


def _bounds_allow(operator: str, value: Any, low: Any, high: Any) -> bool:
    """Whether a value within the bounds, or NaN, may compare so with `value`."""
    if value is None or low is None or high is None:
        return True
    if isinstance(low, float) and (math.isnan(low) or math.isnan(high)):
        return True
    is_text = isinstance(value, (str, bytes))
    below_high = value < high or (is_text and value.startswith(high))
    if operator == "==":
        return bool(low <= value and (below_high or value == high))
    if operator == "!=":
        return is_text or isinstance(value, float) or not low == value == high
    if operator in ("<", "<="):
        return bool(low < value or (operator == "<=" and low == value))
    return bool(below_high or (operator == ">=" and value == high))


def find_allowed_texts(
    group: tuple[Predicate, ...], field: str, schema: pa.Schema
) -> set[str | None] | None:
    """Return the texts that `field` may have where all of `group` holds; None if not restricted."""
    position = schema.get_field_index(field)
    if position < 0:
        return None
    kind = schema.field(position).type
    allowed: set[str | None] | None = None
    for part in group:
        if part.column != field or part.operator not in ("==", "in"):
            continue
        values = part.value if part.operator == "in" else (part.value,)
        texts: set[str | None] = set()
        for value in values:
            if value is None:
                texts.update([None] if part.operator == "in" else [])
                continue
            written = _texts_of(value, kind)
            if written is None:
                break
            texts.update(written)
        else:
            allowed = texts if allowed is None else allowed & texts
    return allowed


def _texts_of(value: Any, kind: pa.DataType) -> list[str] | None:
    """Return each text Hudi may have written for a value equal to `value`; None if unsure."""
    value = _comparable(value, kind)
    if value is None or isinstance(value, bytes):
        return None
    if isinstance(value, float):
        if value == 0:
            return ["0.0", "-0.0"]
        # Outside of these bounds Java releases disagree about the text.
        high = 1e7 if pa.types.is_float32(kind) else 1e16
        if not 1e-30 < abs(value) < high:
            return None
    try:
        array = pa.array([value], kind)
        exact = array[0].as_py() == value or isinstance(value, float)
    except (pa.ArrowException, OverflowError, ValueError):
        return None
    return [java_strings(array)[0].as_py()] if exact else None


def _comparable(value: Any, kind: pa.DataType) -> Any:
    """Return `value` if Python compares it with such a column as Arrow does, else None."""
    is_number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    if pa.types.is_integer(kind):
        fits = is_number and isinstance(value, int)
    elif pa.types.is_float32(kind) or pa.types.is_float64(kind):
        if not is_number or isinstance(value, Decimal):
            return None
        value = float(value)
        # `in` rounds to the column's type and `==` does not, so only exact values are clear
        is_float = pa.types.is_float32(kind)
        fits = float(np.float32(value)) == value if is_float else not math.isnan(value)
    elif pa.types.is_decimal(kind):
        fits = is_number and not isinstance(value, float)
    elif pa.types.is_boolean(kind):
        fits = isinstance(value, bool)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        fits = isinstance(value, str)
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        fits = isinstance(value, bytes)
    elif pa.types.is_date32(kind):
        fits = type(value) is date
    elif pa.types.is_timestamp(kind) and kind.unit != "ns":  # Python's datetime ends at micros
        fits = isinstance(value, datetime) and (value.tzinfo is None) == (kind.tz is None)
    else:
        fits = False
    return value if fits else None
