"""Rows compared as Hudi and bucketfmt return them: in any order, and by type."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["assert_same", "canonical", "canonical_type"]


def canonical_type(kind: pa.DataType) -> pa.DataType:
    """The type without what Spark's own parquet files change: field names inside lists, INT96."""
    if pa.types.is_list(kind):
        return pa.list_(canonical_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(canonical_type(kind.key_type), canonical_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(f.name, canonical_type(f.type)) for f in kind])
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", "UTC")
    return kind


def canonical(table: pa.Table) -> tuple[dict[str, pa.DataType], list[str]]:
    """Types by column, and rows in a fixed order, columns sorted by name.

    Rows as text: NaN is not equal to itself, and 0.0 is to -0.0.
    """
    names = sorted(table.column_names)
    types = {name: canonical_type(table.schema.field(name).type) for name in names}
    columns = [table.column(name).cast(types[name]).to_pylist() for name in names]
    columns = [
        [_maps_in_order(value) for value in column] if pa.types.is_nested(types[name]) else column
        for name, column in zip(names, columns, strict=True)
    ]
    return types, sorted(repr(row) for row in zip(*columns, strict=True))


def _maps_in_order(value: Any) -> Any:
    """The value, with the entries of maps (tuples, in pyarrow) sorted by their keys."""
    if isinstance(value, dict):
        return {name: _maps_in_order(item) for name, item in value.items()}
    if isinstance(value, list):
        items = [_maps_in_order(item) for item in value]
        return sorted(items, key=repr) if any(isinstance(i, tuple) for i in items) else items
    if isinstance(value, tuple):
        return tuple(_maps_in_order(item) for item in value)
    return value


def assert_same(ours: pa.Table, hudis: pa.Table) -> None:
    our_types, our_rows = canonical(ours)
    their_types, their_rows = canonical(hudis)
    assert our_types == their_types
    assert our_rows == their_rows
