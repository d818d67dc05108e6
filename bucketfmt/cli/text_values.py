"""Values of csv and JSON lines, as `read -o` writes them, in the types of a table.

Pure. JSON has no bytes, dates, times, NaN or maps, and csv has no nested values: bytes are base64,
dates and times ISO 8601, and nested values of csv are JSON. What `read` wrote is what `upsert`
stores.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import pyarrow as pa

from bucketfmt.rows.time_text import moment_units, time_units

__all__ = ["csv_type", "from_csv", "from_json", "is_written_as_text"]

_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def is_written_as_text(kind: pa.DataType) -> bool:
    """Whether JSON has values of this type as text, or in another shape, that pyarrow refuses."""
    is_map = pa.types.is_map(kind)
    is_coarse = pa.types.is_timestamp(kind) and kind.unit in ("s", "ms")  # `read` has six digits
    inner = () if is_map else (kind.field(i).type for i in range(kind.num_fields))
    return (
        is_map
        or _is_bytes(kind)
        or pa.types.is_date(kind)
        or pa.types.is_time(kind)
        or is_coarse
        or any(is_written_as_text(each) or pa.types.is_floating(each) for each in inner)
    )


def csv_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that a column of csv is parsed as, for `from_csv` to go on with."""
    return pa.string() if _is_bytes(kind) or pa.types.is_nested(kind) else kind


def from_csv(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of csv in its type.

    Args:
        column: As it was parsed, of `csv_type(kind)`.
        kind: The type of the column of the table.

    Raises:
        ValueError: a text is no value of that type.
    """
    if column.type == kind:
        return column
    texts: Sequence[Any] = column.to_pylist()
    if pa.types.is_nested(kind):
        texts = [None if text is None else msgspec.json.decode(text) for text in texts]
    return from_json(texts, kind)


def from_json(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values that were decoded from JSON as a column.

    Raises:
        ValueError: one is no value of that type.
    """
    try:
        return pa.array([_value(each, kind) for each in values], kind)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"not of type {kind}: {error}") from None


def _value(value: Any, kind: pa.DataType) -> Any:
    try:
        return _parsed(value, kind)
    except (TypeError, AttributeError, binascii.Error, InvalidOperation):
        raise ValueError(f"{str(value)[:100]!r} is no value of type {kind}") from None


def _parsed(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        names = {field.name for field in kind}
        if unknown := [name for name in value if name not in names]:
            raise ValueError(f"{unknown[0]!r} is no field of {kind}")
        return {field.name: _value(value.get(field.name), field.type) for field in kind}
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(_value(k, kind.key_type), _value(v, kind.item_type)) for k, v in pairs]
    if pa.types.is_nested(kind):
        return [_value(each, kind.value_type) for each in value]
    if _is_bytes(kind):
        return base64.b64decode(value, validate=True)
    if isinstance(value, str):
        return _of_text(value, kind)
    if isinstance(value, float) and (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        if not (value.is_integer() and pa.types.is_integer(kind)):  # Arrow would cut it
            raise ValueError(f"{value!r} is no value of type {kind}")
        return int(value)
    return value


def _of_text(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_floating(kind):
        return _NOT_FINITE[text] if text in _NOT_FINITE else float(text)
    if pa.types.is_decimal(kind):
        return Decimal(text)
    if pa.types.is_date(kind):
        return date.fromisoformat(text)
    if pa.types.is_time(kind):
        return time_units(text, kind)
    if pa.types.is_timestamp(kind):
        return moment_units(text, kind)
    return text


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )
