"""Exact casts: values of one type as equal values of another type, or an error. Used by writes.

Pure. Reads use `rows.conform`, which converts values as Hudi does; a write never changes a value.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import SchemaError
from bucketfmt.rows.columns.column_types import is_list

__all__ = ["cast_exactly", "check_castable", "plain_values"]

_DECIMAL256_DIGITS = 76
_UINT64_DIGITS = 20


def cast_exactly(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    """Return equal values of the type `target`, which is a type that tables store.

    Equal are: integers, floating-point numbers and decimals of the same number (except decimals as
    floating-point numbers, which are hardly ever equal, and -0.0, which equals no integer); the
    same text, bytes, date, time of day or moment in any unit or zone; lists, maps and structs of
    equal values. A field that a struct lacks and `target` has is null.

    Raises:
        SchemaError: the types have no equal values, a value has no equal value in `target`, or a
            map has a key twice, of which Hudi's readers keep one.
    """
    source = array.type
    if source == target and not _has_map(source):
        return array
    if pa.types.is_null(source):
        return pa.nulls(len(array), target)
    if pa.types.is_dictionary(source):
        return cast_exactly(plain_values(array), target, path)
    if pa.types.is_run_end_encoded(source):
        return cast_exactly(pc.run_end_decode(array), target, path)
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return _struct(array, target, path)
    if pa.types.is_map(source) and pa.types.is_map(target):
        return _map(array, target, path)
    if is_list(source) and pa.types.is_list(target):
        offsets, values = _offsets(pc.list_value_length(array)), array.flatten()
        values = cast_exactly(values, target.value_type, f"{path}.element")
        return pa.ListArray.from_arrays(offsets, values, target, mask=_nulls(array))
    cast = _find_cast(source, target)
    if cast is None:
        raise SchemaError(
            f"column {path} is {target} in the table, and {source} in the rows: no values of the "
            "two types are equal; cast the column of the rows"
        )
    try:
        return cast(array)
    except pa.ArrowInvalid:
        raise SchemaError(
            f"column {path}: the value {_find_example(array, cast)} of type {source} is not equal "
            f"to any of the table's type {target}; cast or round the rows"
        ) from None


def check_castable(source: pa.DataType, target: pa.DataType, path: str) -> None:
    """Check that values of `source` may be equal to values of `target`.

    Raises:
        SchemaError: no values of the two types are equal.
    """
    cast_exactly(pa.nulls(0, source), target, path)


def plain_values(array: pa.DictionaryArray) -> pa.Array:
    """Return the values that a dictionary array stands for, in a type without views.

    Arrow has no `take` for views, which polars uses in its Categorical and Enum columns.
    """
    values = array.dictionary
    return values.cast(_without_views(values.type)).take(array.indices)


def _without_views(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    if types.is_map(kind):
        key = kind.key_field.with_type(_without_views(kind.key_type))
        return pa.map_(key, kind.item_field.with_type(_without_views(kind.item_type)))
    if is_list(kind):
        element = kind.value_field.with_type(_without_views(kind.value_type))
        if types.is_fixed_size_list(kind):
            return pa.list_(element, kind.list_size)
        return pa.large_list(element)
    return kind


# -- nested


def _has_map(kind: pa.DataType) -> bool:
    if not pa.types.is_nested(kind):
        return False
    return pa.types.is_map(kind) or any(
        _has_map(kind.field(index).type) for index in range(kind.num_fields)
    )


def _struct(array: pa.Array, target: pa.StructType, path: str) -> pa.Array:
    given = array.flatten()  # what lies under a null struct is null
    children = []
    for field in target:
        index = array.type.get_field_index(field.name)
        if index < 0:
            children.append(pa.nulls(len(array), field.type))
        else:
            children.append(cast_exactly(given[index], field.type, f"{path}.{field.name}"))
    return pa.StructArray.from_arrays(children, fields=list(target), mask=_nulls(array))


def _map(array: pa.Array, target: pa.MapType, path: str) -> pa.Array:
    entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    validity, starts = array.buffers()[:2]
    lists = pa.Array.from_buffers(
        pa.list_(entries.type),
        len(array),
        [validity, starts],
        offset=array.offset,
        children=[entries],
    )
    offsets, flat = _offsets(pc.list_value_length(lists)), lists.flatten()
    keys = cast_exactly(flat.field(0), target.key_type, f"{path}.key")
    _check_distinct(offsets, keys, path)
    values = cast_exactly(flat.field(1), target.item_type, f"{path}.value")
    children = pa.StructArray.from_arrays(
        [keys, values], fields=[target.key_field, target.item_field]
    )
    buffers = pa.ListArray.from_arrays(offsets, children, mask=_nulls(array)).buffers()[:2]
    return pa.Array.from_buffers(target, len(array), buffers, children=[children])


def _check_distinct(offsets: pa.Array, keys: pa.Array, path: str) -> None:
    sizes = np.diff(offsets.to_numpy())
    pairs = pa.table([pa.array(np.repeat(np.arange(len(sizes)), sizes)), keys], ["map", "key"])
    counted = pairs.group_by(["map", "key"]).aggregate([([], "count_all")])
    if counted.num_rows != len(keys):
        double = counted.filter(pc.greater(counted["count_all"], 1))["key"][0].as_py()
        raise SchemaError(
            f"column {path}: a map has the key {double!r} twice, of which Hudi keeps one; "
            "give each key once"
        )


def _offsets(lengths: pa.Array) -> pa.Array:
    sizes = lengths.fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return pa.array(offsets)


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


# -- scalars

_Cast = Callable[[pa.Array], pa.Array]


def _find_cast(source: pa.DataType, target: pa.DataType) -> _Cast | None:
    """Return a function that makes equal values or raises ArrowInvalid; None if none are equal."""
    types = pa.types
    if types.is_integer(source):
        if types.is_integer(target):
            return lambda array: array.cast(target)
        if types.is_floating(target):
            return lambda array: _floats_of_integers(array, target)
        if types.is_decimal(target):
            return lambda array: _decimals_of_integers(array, target)
    elif types.is_floating(source):
        if types.is_floating(target):
            return lambda array: _other_floats(array, target)
        if types.is_integer(target):
            return lambda array: _integers_of_floats(array, target)
    elif types.is_decimal(source):
        if types.is_decimal(target) or types.is_integer(target):
            return lambda array: array.cast(target)
    elif any(
        test(source) and test(target)
        for test in (_is_text, _is_bytes, types.is_date, types.is_time, _is_moment, _is_local)
    ):
        return lambda array: array.cast(target)
    return None


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    is_plain = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    return bool(is_plain or types.is_fixed_size_binary(kind))


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is not None)


def _is_local(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is None)


def _floats_of_integers(array: pa.Array, target: pa.DataType) -> pa.Array:
    floats = array.cast(target, safe=False)
    known = array.drop_null()
    integers = known.to_numpy()
    rounded = known.cast(target, safe=False).to_numpy().astype(np.float64)
    bound = float(2**64 if pa.types.is_unsigned_integer(array.type) else 2**63)
    is_within = rounded < bound  # 2^63 - 1, rounded, is beyond what an integer can be
    back = np.where(is_within, rounded, 0.0).astype(integers.dtype)
    _check((is_within & (back == integers)).all())
    return floats


def _decimals_of_integers(array: pa.Array, target: pa.DataType) -> pa.Array:
    # By way of a type that holds them all, so that values decide and not types.
    digits = min(_UINT64_DIGITS + target.scale, _DECIMAL256_DIGITS)
    return array.cast(pa.decimal256(digits, target.scale)).cast(target)


def _other_floats(array: pa.Array, target: pa.DataType) -> pa.Array:
    floats = array.cast(target, safe=False)
    if target.bit_width < array.type.bit_width:
        known = array.drop_null().to_numpy()
        back = floats.drop_null().to_numpy().astype(known.dtype)
        _check(np.array_equal(back, known, equal_nan=True))
    return floats


def _integers_of_floats(array: pa.Array, target: pa.DataType) -> pa.Array:
    wide = array.cast(pa.float64())
    known = wide.drop_null().to_numpy()
    is_whole = (known >= -(2.0**63)) & (known < 2.0**63) & (np.trunc(known) == known)
    _check((is_whole & ~((known == 0) & np.signbit(known))).all())
    return wide.cast(pa.int64(), safe=False).cast(target)


def _check(is_exact: bool | np.bool_) -> None:
    if not is_exact:
        raise pa.ArrowInvalid("a value has no equal")


def _find_example(array: pa.Array, cast: _Cast) -> str:
    """Return a value that the cast refuses, as text."""
    while len(array) > 1:
        half = array.slice(0, len(array) // 2)
        try:
            cast(half)
        except pa.ArrowInvalid:
            array = half
        else:
            array = array.slice(len(half))
    if pa.types.is_temporal(array.type):
        text = str(array.cast(pa.string())[0])
    else:
        text = repr(array[0].as_py())
    return text if len(text) <= 80 else f"{text[:80]}..."
