"""Rows of one schema as rows of another: the schema evolution Hudi allows.

A table's files keep the schema they were written with; a reader brings every batch to the
table's schema. Pure. Sources: HoodieAvroUtils.rewritePrimaryType and
recordNeedsRewriteForExtendedAvroTypePromotion (log blocks), SparkBasicSchemaEvolution (base
files). If these two sources disagree, the change is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import CorruptError, SchemaError
from bucketfmt.rows.columns.java_text import double_through_text, java_strings

__all__ = ["Renames", "conform"]

_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)

Renames = Mapping[str, "str | None"]
"""Full target path ("point.x", "tags.element", "m.value.x") -> name of that field in the source.

None means that the source lacks the field, even if the source has a field of that name: a column
that was dropped and added again.
"""


def conform(rows: _Rows, target: pa.Schema, renames: Renames | None = None) -> _Rows:
    """Return `rows` with exactly the columns of `target`, in its order and with its types.

    Columns are matched by name, at every level, after `renames`. A column that the source lacks is
    null; a column that the target lacks is dropped. Allowed changes of type: int -> long -> float
    -> double (float to double through its text, as Hudi does); integer, float, double, decimal
    and date to string; integer to decimal; string <-> bytes; a decimal that keeps all digits;
    another unit or zone of a timestamp (the instant stays; a coarser unit rounds down).
    Values are copied only where a type changes.

    Further, long -> int and double -> float where each value stays: a compaction that was planned
    before a moment and executed after it has the types of later, and the values of before.

    Raises:
        SchemaError: the change is not one of these, or a value does not fit the target type.
        CorruptError: bytes that are to become a string are not UTF-8.
    """
    if rows.schema.equals(target) and not renames:
        return rows
    columns = []
    for field in target:
        source = _source_name(field.name, field.name, renames)
        index = rows.schema.get_field_index(source) if source is not None else -1
        if index < 0:
            columns.append(pa.nulls(rows.num_rows, field.type))
            continue
        column = rows.column(index)
        if isinstance(column, pa.ChunkedArray):
            chunks = [_conform(chunk, field.type, field.name, renames) for chunk in column.chunks]
            columns.append(pa.chunked_array(chunks, field.type))
        else:
            columns.append(_conform(column, field.type, field.name, renames))
    if not columns:
        return rows.select([])  # keeps the number of rows
    container = pa.Table if isinstance(rows, pa.Table) else pa.RecordBatch
    return container.from_arrays(columns, schema=target)


def _source_name(path: str, name: str, renames: Renames | None) -> str | None:
    return name if renames is None else renames.get(path, name)


def _conform(array: pa.Array, target: pa.DataType, path: str, renames: Renames | None) -> pa.Array:
    source = array.type
    if source.equals(target) and not (renames and pa.types.is_nested(target)):
        return array
    if pa.types.is_dictionary(source):
        return _conform(array.dictionary_decode(), target, path, renames)
    if pa.types.is_dictionary(target):
        return _conform(array, target.value_type, path, renames).dictionary_encode()
    if pa.types.is_null(source):
        return pa.nulls(len(array), target)
    if pa.types.is_large_list(source) or pa.types.is_fixed_size_list(source):
        return _conform(array.cast(pa.list_(source.value_field)), target, path, renames)
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return _conform_struct(array, target, path, renames)
    if pa.types.is_map(source) and pa.types.is_map(target):
        keys = _conform(array.keys, target.key_type, f"{path}.key", renames)
        items = _conform(array.items, target.item_type, f"{path}.value", renames)
        fields = [target.key_field, target.item_field]
        return _with_children(
            array, target, pa.StructArray.from_arrays([keys, items], fields=fields)
        )
    if pa.types.is_list(source) and pa.types.is_list(target):
        values = _conform(array.values, target.value_type, f"{path}.element", renames)
        return _with_children(array, target, values)
    try:
        return _promote(array, target, path)
    except pa.ArrowInvalid as error:
        if _is_binary(source) and _is_text(target):
            raise CorruptError(f"column {path}: the bytes of a string are not UTF-8") from error
        raise SchemaError(
            f"column {path}: a value of type {source} does not fit {target}"
        ) from error


def _with_children(array: pa.Array, target: pa.DataType, values: pa.Array) -> pa.Array:
    """Return a list or map array with the same lengths and nulls, and other values."""
    buffers = array.buffers()[:2]  # validity, offsets
    return pa.Array.from_buffers(
        target, len(array), buffers, array.null_count, array.offset, children=[values]
    )


def _conform_struct(
    array: pa.StructArray, target: pa.StructType, path: str, renames: Renames | None
) -> pa.Array:
    children = []
    for field in target:
        inner = f"{path}.{field.name}"
        source = _source_name(inner, field.name, renames)
        index = array.type.get_field_index(source) if source is not None else -1
        if index < 0:
            children.append(pa.nulls(len(array), field.type))
        else:
            children.append(_conform(array.field(index), field.type, inner, renames))
    if not children:  # there is no array to take the length from
        validity = array.buffers()[:1]
        return pa.Array.from_buffers(target, len(array), validity, offset=array.offset)
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _promote(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    """Return `array` converted to `target` as Hudi converts it; neither type is nested."""
    source = array.type
    is_integer = pa.types.is_signed_integer(source)
    if is_integer and pa.types.is_signed_integer(target):
        return array.cast(target)
    if is_integer and (pa.types.is_float32(target) or pa.types.is_float64(target)):
        return array.cast(target, safe=False)  # rounds to nearest, as Java does
    if pa.types.is_float32(source) and pa.types.is_float64(target):
        return double_through_text(array)
    if pa.types.is_float64(source) and pa.types.is_float32(target):
        return _narrowed(array)
    if _is_text(target) and (
        is_integer
        or pa.types.is_float32(source)
        or pa.types.is_float64(source)
        or pa.types.is_decimal(source)
        or pa.types.is_date32(source)
    ):
        return java_strings(array).cast(target)
    if (_is_text(source) or _is_binary(source)) and (_is_text(target) or _is_binary(target)):
        if not pa.types.is_fixed_size_binary(target):
            return array.cast(target)
    elif pa.types.is_decimal(source) and pa.types.is_decimal(target):
        return array.cast(target)
    elif is_integer and pa.types.is_decimal(target):
        # by way of a type that holds every 64-bit integer, so that values decide, not types
        return array.cast(pa.decimal128(min(19 + target.scale, 38), target.scale)).cast(target)
    elif pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        return _conform_timestamp(array, target)
    raise SchemaError(
        f"column {path}: {source} cannot become {target}; "
        "Hudi allows no such change, so check the table's schema"
    )


def _narrowed(doubles: pa.Array) -> pa.Array:
    """Return doubles as the floats that they were widened from."""
    floats = doubles.cast(pa.float32(), safe=False)
    is_same = pc.or_(pc.equal(double_through_text(floats), doubles), pc.is_nan(doubles))
    if not pc.all(is_same).as_py():
        raise pa.ArrowInvalid("a double that is no float")
    return floats


_UNITS = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def _conform_timestamp(array: pa.Array, target: pa.TimestampType) -> pa.Array:
    finer = list(_UNITS)
    if finer.index(target.unit) < finer.index(array.type.unit):
        naive = array.cast(pa.timestamp(array.type.unit))
        array = pc.floor_temporal(naive, unit=_UNITS[target.unit])
    return array.cast(target)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )
