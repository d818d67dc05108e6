"""Conditions on columns of numbers, with values that Arrow compares exactly with theirs. Pure.

Arrow rounds the values of a list to the type of the column, refuses whole numbers that a float
would round, and fails with a number that no column has.
"""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.rows.filters.predicate import COMPARISONS, Predicate

__all__ = ["with_exact_numbers"]


def with_exact_numbers(part: Predicate, kind: pa.DataType) -> Predicate:
    """Return a condition on a column of this type; of numbers, with values that compare exactly."""
    if pa.types.is_decimal(kind):
        return _of_decimals(part, kind)
    if pa.types.is_floating(kind):
        return _of_floats(part)
    return _of_integers(part, kind) if pa.types.is_signed_integer(kind) else part


def _of_integers(part: Predicate, kind: pa.DataType) -> Predicate:
    """Return a condition on a column of whole numbers with whole numbers that the column may have.

    With a number that has a fraction Arrow compares rounded values, or refuses to; with a number
    that no column has, it fails. Where the condition holds for all values, or for none, it becomes
    `not in` null, or `in` nothing.
    """
    high = (1 << kind.bit_width - 1) - 1
    low = -high - 1
    if part.operator in ("in", "not in"):
        values = [v for v in part.value if not _is_number(v) or _is_one_of(v, low, high)]
        whole = (int(v) if _is_number(v) else v for v in values)
        return Predicate(part.column, part.operator, tuple(whole))
    value = part.value
    if not _is_number(value):
        return part
    none, every = Predicate(part.column, "in", ()), Predicate(part.column, "not in", (None,))
    if _is_nan(value):
        return every if part.operator == "!=" else none
    if part.operator in ("==", "!="):
        if _is_one_of(value, low, high):
            return Predicate(part.column, part.operator, int(value))
        return none if part.operator == "==" else every
    is_above = part.operator in (">", ">=")
    if not low <= value <= high:
        return every if (value < low) == is_above else none
    floor = math.floor(value)
    if floor == value:
        return Predicate(part.column, part.operator, floor)
    return Predicate(part.column, ">" if is_above else "<=", floor)


def _of_floats(part: Predicate) -> Predicate:
    """Return a condition on a column of floats with floats for whole numbers.

    Arrow refuses whole numbers that a float would round. Such a number lies between two floats: it
    equals none, and what is above it is above the lower one.
    """
    if part.operator in ("in", "not in"):
        values = [v for v in part.value if not _is_whole(v) or _float_below(v) == v]
        floats = (float(v) if _is_whole(v) else v for v in values)
        return Predicate(part.column, part.operator, tuple(floats))
    if not _is_whole(part.value):
        return part
    below = _float_below(part.value)
    if below == part.value:
        return Predicate(part.column, part.operator, below)
    if part.operator == "==":
        return Predicate(part.column, "in", ())
    if part.operator == "!=":
        return Predicate(part.column, "not in", (None,))
    return Predicate(part.column, "<=" if part.operator in ("<", "<=") else ">", below)


def _float_below(value: int) -> float:
    """Return the largest float that is not above a whole number."""
    try:
        nearest = float(value)
    except OverflowError:
        return sys.float_info.max if value > 0 else -math.inf
    return nearest if nearest <= value else math.nextafter(nearest, -math.inf)


def _is_one_of(value: Any, low: int, high: int) -> bool:
    """Whether a number is a whole number within bounds."""
    return not _is_nan(value) and low <= value <= high and math.floor(value) == value


def _is_nan(value: Any) -> bool:
    return not isinstance(value, int) and math.isnan(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _of_decimals(part: Predicate, kind: pa.DataType) -> Predicate:
    """Return a condition on a decimal column with decimals for numbers.

    In a list Arrow rounds numbers to the digits of the column, so that 1.005 would find 1.00, and a
    whole number it compares with no decimal. A number that no value of the column equals is left
    out of a list.
    """
    if part.operator in COMPARISONS:
        return Predicate(part.column, part.operator, _as_decimal(part.value, kind))
    values = []
    for value in part.value:
        if not isinstance(value, float | Decimal) and not _is_whole(value):
            values.append(value)
            continue
        try:
            exact = pa.scalar(Decimal(str(value)), kind).as_py()
        except (pa.ArrowException, ValueError):
            continue
        values.append(exact)
    return Predicate(part.column, part.operator, tuple(values))


def _as_decimal(value: Any, kind: pa.DataType) -> Any:
    """Return a number as the decimal of its digits, where Arrow compares that with a column."""
    is_finite = isinstance(value, float) and math.isfinite(value)
    if not is_finite and not _is_whole(value):
        return value
    exact = Decimal(str(value))
    try:
        pc.equal(pa.scalar(None, kind), pa.scalar(exact))
    except (pa.ArrowException, ValueError):
        return value
    return exact


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
