"""Columns of Python values, in the types that Arrow infers from them. Pure.

Arrow takes the type of a column from some of the values and converts the others, a few of them to
other values: a datetime to its date, an aware datetime to a naive one, text to bytes, an integer to
a day, True to 1.0. Such columns are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from bucketfmt.errors import SchemaError
from bucketfmt.rows.columns.column_types import is_list

__all__ = ["check_unchanged", "infer_column", "infer_table"]

_NULLS = ("NaTType", "NAType")  # of pandas
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_MICROSECOND = timedelta(microseconds=1)
_TRUTHS = frozenset({bool, np.bool_})


def infer_column(name: str, values: Sequence[Any]) -> pa.Array | pa.ChunkedArray:
    """Return values as a column whose values are equal to them.

    Args:
        name: Of the column, for messages.
        values: Of Python, NumPy or Arrow; NaT and NA of pandas are nulls.

    Raises:
        TypeError: the values have no common type in which all are equal to what was given.
        SchemaError: a moment has nanoseconds.
    """
    values = [None if type(value).__name__ in _NULLS else value for value in values]
    try:
        column = pa.array(values)
    except OverflowError as error:
        raise TypeError(
            f"column {name!r} has a value of no Arrow type: {error}; give integers beyond 64 bits "
            "as Decimal or as text"
        ) from error
    except UnicodeEncodeError as error:
        raise TypeError(
            f"column {name!r} has a value of no Arrow type: {error}; give text of whole "
            "characters, or bytes"
        ) from error
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise TypeError(
            f"column {name!r} has values of several types, a map, or a value of no Arrow type: "
            f"{error}. Give a pyarrow Table, whose columns have types"
        ) from error
    check_unchanged(name, column, values)
    return column


def infer_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return dicts as rows, each column as `infer_column` returns it.

    A column that a row lacks is null, and comes where it first appears.

    Raises:
        TypeError: a name is not text; or as of `infer_column`.
        SchemaError: as of `infer_column`.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"columns are named by text, not by {name!r}; give dicts with names")
    return pa.table({name: infer_column(name, [row.get(name) for row in rows]) for name in names})


def check_unchanged(
    name: str, column: pa.Array | pa.ChunkedArray, values: Sequence[Any] | Callable[[], list[Any]]
) -> None:
    """Raise where values of a column are not equal to the Python values that it was made of.

    Only columns with numbers, dates, moments, times of day or bytes are looked at, and text within
    lists: of others Arrow refuses what it would change.

    Args:
        name: Of the column, for messages.
        column: As Arrow made it.
        values: As many values; or a function that returns them, called if they are looked at.

    Raises:
        TypeError: a value is another one in the column.
        SchemaError: a moment has nanoseconds.
    """
    if not _may_change(column.type):
        return
    given = values() if callable(values) else values
    start = 0
    for array in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        _compare(name, array, given[start : start + len(array)])
        start += len(array)


def _may_change(kind: pa.DataType, *, is_within: bool = False) -> bool:
    """Whether Arrow may make such a column of other values; `is_within` a list, if it is text."""
    if pa.types.is_struct(kind):
        return any(_may_change(field.type, is_within=is_within) for field in kind)
    if is_list(kind):
        return _may_change(kind.value_type, is_within=True)
    return _find_same(kind) is not None and (is_within or not pa.types.is_string(kind))


def _compare(name: str, array: pa.Array, values: Sequence[Any]) -> None:
    kind, classes = array.type, {*map(type, values)}
    if not _may_change(kind, is_within=True) or any(
        issubclass(each, pa.Scalar) for each in classes
    ):
        return  # Arrow mixes no scalars of its own with other values, or of several types
    if pa.types.is_struct(kind):
        for field, inner in zip(kind, array.flatten(), strict=True):
            given = [None if _is_null(value) else value.get(field.name) for value in values]
            _compare(f"{name}.{field.name}", inner, given)
        return
    if is_list(kind):
        if _is_number(kind.value_type) and not _hold_truths(values):
            return
        items = [item for value in values if not _is_null(value) for item in value]
        _compare(f"{name}.element", array.flatten(), items)
        return
    is_same = _find_same(kind)
    if is_same is None or _are_alike(values, classes - {type(None)}, kind):
        return
    stored = array.cast(pa.int64()) if pa.types.is_timestamp(kind) else array
    try:
        plain = stored.to_pylist()
    except OverflowError:  # Arrow takes a number among dates for days, which dates end before
        raise TypeError(
            f"column {name!r} has numbers among dates. Give values of one type, or a pyarrow "
            "Table, whose columns have types"
        ) from None
    for at, (value, other) in enumerate(zip(values, plain, strict=True)):
        if not (_is_null(value) if other is None else is_same(value, other)):
            raise _changed(name, value, array[at])


def _are_alike(values: Sequence[Any], classes: set[type], kind: pa.DataType) -> bool:
    """Whether all values are of classes of Python whose values a type has."""
    if _is_number(kind):
        return classes.isdisjoint(_TRUTHS)
    if pa.types.is_string(kind):
        return classes == {str}
    if classes == {datetime}:
        is_naive = all(value is None or value.tzinfo is None for value in values)
        return pa.types.is_timestamp(kind) and kind.tz is None and is_naive
    return classes == ({date} if pa.types.is_date(kind) else {bytes}) and not (
        pa.types.is_timestamp(kind) or pa.types.is_time(kind)
    )


def _hold_truths(values: Sequence[Any]) -> bool:
    """Whether lists have truths in them. They may be long: nothing is copied.

    An array of NumPy has values of one type.
    """
    lists = (value for value in values if isinstance(value, (list, tuple)))
    return not _TRUTHS.isdisjoint(map(type, chain.from_iterable(lists)))


def _changed(name: str, value: object, stored: pa.Scalar) -> Exception:
    if getattr(value, "nanosecond", 0):
        return SchemaError(
            f"column {name!r} has nanoseconds, which a table does not keep: round them"
        )
    return TypeError(
        f"column {name!r} has values of several types, or times of day with a zone: {value!r:.80} "
        f"would be stored as {stored.as_py()!r:.80}. Give values of one type, or a pyarrow Table, "
        "whose columns have types"
    )


def _find_same(kind: pa.DataType) -> Callable[[Any, Any], bool] | None:
    """Return what compares a value with one of a type; None where Arrow changes no values."""
    if _is_number(kind):
        return lambda value, stored: type(value) not in _TRUTHS
    if pa.types.is_string(kind):
        return lambda value, stored: isinstance(value, str)
    if pa.types.is_date(kind):
        return _is_same_date
    if pa.types.is_time(kind):
        return _is_same_time
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _is_same_bytes
    if pa.types.is_timestamp(kind):
        return lambda value, count: _is_same_moment(value, count, kind.unit, kind.tz)
    return None


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_same_date(value: Any, stored: date) -> bool:
    return isinstance(value, date) and not isinstance(value, datetime) and value == stored


def _is_same_time(value: Any, stored: time) -> bool:
    return isinstance(value, time) and value.tzinfo is None and value == stored


def _is_same_bytes(value: Any, stored: bytes) -> bool:
    return isinstance(value, (bytes, bytearray, memoryview)) and bytes(value) == stored


def _is_same_moment(value: Any, stored: int, unit: Any, zone: str | None) -> bool:
    """Compare instants: `==` of datetimes is false for hours that a zone has twice (PEP 495)."""
    if isinstance(value, np.datetime64):
        return zone is None and bool(value == np.datetime64(stored, unit))
    if not isinstance(value, datetime):
        return False
    offset = value.utcoffset()
    if (offset is None) != (zone is None):
        return False
    seconds = (value.toordinal() - _EPOCH_DAY) * 86_400
    seconds += value.hour * 3600 + value.minute * 60 + value.second
    microseconds = seconds * 1_000_000 + value.microsecond
    if offset is not None:
        microseconds -= offset // _MICROSECOND
    nanoseconds = microseconds * 1_000 + getattr(value, "nanosecond", 0)
    return bool(nanoseconds == stored * _NANOSECONDS[unit])


def _is_null(value: Any) -> bool:
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))  # which pandas has for null
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    if isinstance(value, Decimal):
        return value.is_nan()
    return value is None or type(value).__name__ in _NULLS
