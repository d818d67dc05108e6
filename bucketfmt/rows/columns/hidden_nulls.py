"""Hidden nulls: nulls of a required field in a struct that is null.

Arrow stores some value for such a field, which may be null. Parquet stores no value, and pyarrow's
writer refuses the null as a null of a required field. Pure.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import SchemaError

__all__ = ["fill_hidden_nulls", "may_hide_nulls"]


def may_hide_nulls(kind: pa.DataType) -> bool:
    """Return whether there are required fields within the type."""
    if not pa.types.is_nested(kind):
        return False
    if pa.types.is_map(kind):
        return may_hide_nulls(kind.item_type)
    fields = [kind.field(index) for index in range(kind.num_fields)]
    return any(not field.nullable or may_hide_nulls(field.type) for field in fields)


def fill_hidden_nulls(array: pa.Array, path: str) -> pa.Array:
    """Return the array with some value in place of every hidden null.

    Args:
        array: The values, of the type to write.
        path: The name of the column in errors.

    Raises:
        SchemaError: a required field is null, and the null is not hidden.
    """
    return _fill(array, path, None)


def _fill(array: pa.Array, path: str, is_hidden: pa.Array | None) -> pa.Array:
    """`is_hidden`: per row whether a struct around the value is null; None if no struct is null."""
    kind = array.type
    if not may_hide_nulls(kind):
        return array
    if pa.types.is_struct(kind):
        if array.null_count:
            is_null = array.is_null()
            is_hidden = is_null if is_hidden is None else pc.or_(is_hidden, is_null)
        fields = list(kind)
        children = [
            _fill(array.field(index), f"{path}.{field.name}", is_hidden)
            for index, field in enumerate(fields)
        ]
        children = [
            child if field.nullable else _required(child, f"{path}.{field.name}", is_hidden)
            for field, child in zip(fields, children, strict=True)
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if pa.types.is_map(kind):
        items = _fill(array.items, f"{path}.value", None)
        values = pa.StructArray.from_arrays(
            [array.keys, items], fields=[kind.key_field, kind.item_field]
        )
    else:
        values = _fill(array.values, f"{path}.element", None)
        if not kind.value_field.nullable:
            values = _required(values, f"{path}.element", None)
    buffers = array.buffers()[:2]  # validity, offsets
    return pa.Array.from_buffers(
        kind, len(array), buffers, array.null_count, array.offset, children=[values]
    )


def _required(array: pa.Array, path: str, is_hidden: pa.Array | None) -> pa.Array:
    """Return the array without nulls."""
    if not array.null_count:
        return array
    if is_hidden is None or not pc.all(pc.or_(is_hidden, array.is_valid())).as_py():
        raise SchemaError(f"column {path}: null, but the schema allows no null")
    kind = array.type
    if pa.types.is_struct(kind):
        children = [array.field(index) for index in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind))
    children = []
    if pa.types.is_map(kind):
        entries = [kind.key_field, kind.item_field]
        children = [pa.StructArray.from_arrays([array.keys, array.items], fields=entries)]
    elif pa.types.is_list(kind):
        children = [array.values]
    buffers = array.buffers()[1 : 2 if children else None]
    return pa.Array.from_buffers(
        kind, len(array), [None, *buffers], 0, array.offset, children=children or None
    )
