from __future__ import annotations

import pyarrow as pa
import pytest

from bucketfmt.errors import SchemaError
from bucketfmt.rows.columns.hidden_nulls import fill_hidden_nulls, may_hide_nulls


def required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


KINDS = [
    pa.bool_(),
    pa.int64(),
    pa.string(),
    pa.binary(3),
    pa.decimal128(5, 2),
    pa.list_(pa.string()),
    pa.map_(pa.string(), pa.int32()),
    pa.struct([required("x", pa.int32()), pa.field("y", pa.string())]),
]


def hiding(kind: pa.DataType) -> pa.StructArray:
    """A null struct with a null in its required field."""
    mask = pa.array([True, True, True])
    return pa.StructArray.from_arrays([pa.nulls(3, kind)], fields=[required("f", kind)], mask=mask)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_hidden_nulls_get_a_value(kind: pa.DataType) -> None:
    array = hiding(kind)
    for part in (array, array.slice(1), array.slice(2, 0)):
        filled = fill_hidden_nulls(part, "s")
        filled.validate(full=True)
        assert (filled.type, filled.to_pylist()) == (part.type, [None] * len(part))
        assert filled.field("f").null_count == 0


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_within_structs_lists_and_maps(kind: pa.DataType) -> None:
    inner = hiding(kind)
    outer = pa.StructArray.from_arrays(
        [inner], fields=[required("s", inner.type)], mask=inner.is_null()
    )
    filled = fill_hidden_nulls(outer.slice(1), "o")
    assert filled.to_pylist() == [None, None]
    assert (filled.field("s").null_count, filled.field("s").field("f").null_count) == (0, 0)
    offsets = pa.array([0, 2, 3], pa.int32())
    for array in (
        pa.ListArray.from_arrays(offsets, inner),
        pa.MapArray.from_arrays(offsets, pa.array(["a", "b", "c"]), inner),
    ):
        filled = fill_hidden_nulls(array.slice(1), "l")
        filled.validate(full=True)
        assert filled.to_pylist() == array.slice(1).to_pylist()


def test_nulls_that_are_seen() -> None:
    array = pa.StructArray.from_arrays(
        [pa.array([None, 1, None])],
        fields=[required("f", pa.int64())],
        mask=pa.array([True, False, False]),
    )
    with pytest.raises(SchemaError, match=r"column s.f: null"):
        fill_hidden_nulls(array, "s")
    assert fill_hidden_nulls(array.slice(0, 2), "s").to_pylist() == [None, {"f": 1}]
    items = pa.list_(required("element", pa.int64()))
    with pytest.raises(SchemaError, match=r"column l.element: null"):
        fill_hidden_nulls(pa.array([[1, None]], pa.list_(pa.int64())).cast(items), "l")


def test_types_that_hide_nothing_are_left_alone() -> None:
    for kind in (pa.int64(), pa.list_(pa.string()), pa.map_("string", "int32")):
        assert not may_hide_nulls(kind)
        array = pa.nulls(2, kind)
        assert fill_hidden_nulls(array, "a") is array
