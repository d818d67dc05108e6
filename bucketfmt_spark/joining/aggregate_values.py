"""The values that Arrow aggregates, and its results in the types and the order of Spark. Pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["DIGITS_MAX", "Aggregate", "narrowed", "widened"]

DIGITS_MAX = 38
"""The largest precision of a decimal of Spark."""

_INT64_MAX = (1 << 63) - 1


class Aggregate(NamedTuple):
    """A column of the result: its source column, function, and type."""

    name: str
    column: str | None
    function: str
    kind: pa.DataType


def widened(column: pa.ChunkedArray, item: Aggregate) -> pa.ChunkedArray:
    """Return the column to aggregate, in a type whose sums are exact and whose order is Spark's."""
    kind = column.type
    if item.function in ("min", "max") and pa.types.is_floating(kind):
        return pa.chunked_array([_ordered(column.combine_chunks().cast(pa.float64()))])
    if item.function in ("sum", "avg") and pa.types.is_decimal(kind):
        return column.cast(pa.decimal128(DIGITS_MAX, kind.scale))
    if item.function in ("avg", "stddev"):
        return column.cast(pa.float64(), safe=False)
    if item.function == "sum" and pa.types.is_integer(kind):
        column = column.cast(pa.int64())
        bounds = pc.min_max(column).as_py()
        most = max(abs(bounds["min"] or 0), abs(bounds["max"] or 0))
        if most * len(column) > _INT64_MAX:  # Arrow wraps around: sum where it cannot
            return column.cast(pa.decimal128(DIGITS_MAX, 0))
    return column


def narrowed(found: list[pa.ChunkedArray], item: Aggregate) -> pa.ChunkedArray:
    """Return the results of Arrow's functions as the one of Spark's function."""
    column = found[0]
    if item.function in ("min", "max") and pa.types.is_floating(item.kind):
        column = pa.chunked_array([_unordered(column.combine_chunks())])
    if item.function == "avg":
        column = _divided(found[0], found[1], item.kind)
    try:
        return column.cast(item.kind)
    except pa.ArrowInvalid as error:
        what = "average" if item.function == "avg" else "sum"
        raise ValueError(f"the {what} {item.name} does not fit {item.kind}: {error}") from None


def _divided(sums: pa.ChunkedArray, counts: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if not pa.types.is_decimal(kind):
        return pc.divide(sums, pc.if_else(pc.equal(counts, 0), 1, counts))
    # The quotient has 20 digits more than the sum, and halves are rounded away from zero.
    number = pc.if_else(pc.equal(counts, 0), 1, counts).cast(pa.decimal128(19, 0))
    quotient = pc.divide(sums.cast(pa.decimal256(DIGITS_MAX, sums.type.scale)), number)
    return pc.round(quotient, ndigits=kind.scale, round_mode="half_towards_infinity")


def _ordered(values: pa.Array) -> pa.Array:
    """Return an integer for each double, in the order of Spark, for which NaN is the largest."""
    doubles = values.fill_null(0.0).to_numpy(zero_copy_only=False)
    doubles = np.where(np.isnan(doubles), np.nan, doubles)  # one NaN of many
    bits = doubles.view(np.int64)
    mask = np.asarray(values.is_null())
    return pa.array(bits ^ ((bits >> 63) & _INT64_MAX), mask=mask)


def _unordered(numbers: pa.Array) -> pa.Array:
    """Return the doubles of `_ordered`."""
    bits = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    doubles = (bits ^ ((bits >> 63) & _INT64_MAX)).view(np.float64)
    return pa.array(doubles, mask=np.asarray(numbers.is_null()), from_pandas=False)
