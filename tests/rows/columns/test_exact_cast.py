"""A value becomes an equal value of the table's type, or is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import SchemaError
from bucketfmt.rows.columns.exact_cast import cast_exactly

LIST, MAP, STRUCT = pa.list_, pa.map_, pa.struct

EXACT: list[tuple[pa.DataType, list[Any], pa.DataType]] = [
    (pa.int8(), [1, None, -128], pa.int32()),
    (pa.int64(), [1, None, -(2**31)], pa.int32()),
    (pa.uint64(), [2**63 - 1], pa.int64()),
    (pa.int64(), [2**53, 2**60, -(2**63), None], pa.float64()),
    (pa.uint64(), [2**63], pa.float64()),
    (pa.int32(), [2**24], pa.float32()),
    (pa.float64(), [3.0, None, -(2.0**63)], pa.int64()),
    (pa.float64(), [0.5, None, float("inf"), -0.0], pa.float32()),
    (pa.float32(), [1.100000023841858], pa.float64()),
    (pa.int64(), [12, None], pa.decimal128(4, 2)),
    (pa.decimal128(10, -2), [Decimal("1500")], pa.decimal128(12, 0)),
    (pa.decimal256(40, 2), [Decimal("1.50")], pa.decimal128(3, 1)),
    (pa.decimal128(5, 1), [Decimal("2.0")], pa.int64()),
    (pa.large_string(), ["é", None], pa.string()),
    (pa.string_view(), ["é", None], pa.string()),
    (pa.dictionary(pa.int8(), pa.string()), ["a", None, "a"], pa.string()),
    (pa.binary_view(), [b"\xff", None], pa.binary()),
    (pa.binary(), [b"ab", None], pa.binary(2)),
    (pa.binary(2), [b"ab", None], pa.binary()),
    (pa.null(), [None, None], pa.int32()),
    (LIST(pa.int64()), [[1, None], None, []], LIST(pa.int32())),
    (LIST(pa.int8(), 2), [[1, 2], None], LIST(pa.int32())),
    (pa.list_view(pa.int8()), [[1, 2], None], LIST(pa.int32())),
    (pa.large_list(pa.large_string()), [["a"], None], LIST(pa.string())),
    (MAP(pa.large_string(), pa.int8()), [[("a", 1)], None], MAP(pa.string(), pa.int64())),
    (STRUCT({"a": pa.float64()}), [{"a": 1.0}, None], STRUCT({"a": pa.int32()})),
]  # fmt: skip

INEXACT: list[tuple[pa.DataType, Any, pa.DataType, str]] = [
    (pa.int64(), 2**31, pa.int32(), "2147483648 of type int64"),
    (pa.int64(), 2**53 + 1, pa.float64(), "9007199254740993 of type int64"),
    (pa.int64(), 2**63 - 1, pa.float64(), "9223372036854775807"),
    (pa.uint64(), 2**64 - 1, pa.float64(), "18446744073709551615"),
    (pa.int32(), 2**24 + 1, pa.float32(), "16777217"),
    (pa.float64(), 1.5, pa.int64(), "1.5 of type double"),
    (pa.float64(), 2.0**63, pa.int64(), "9.22"),
    (pa.float64(), float("nan"), pa.int32(), "nan"),
    (pa.float64(), -0.0, pa.int64(), "-0.0"),
    (pa.float64(), 0.1, pa.float32(), "0.1"),
    (pa.float64(), 1e300, pa.float32(), "1e\\+300"),
    (pa.int64(), 100, pa.decimal128(4, 2), "100"),
    (pa.decimal128(5, 2), Decimal("1.55"), pa.decimal128(5, 1), "1.55"),
    (pa.decimal128(5, 1), Decimal("1.5"), pa.int64(), "1.5"),
    (pa.timestamp("us"), 1501, pa.timestamp("ms"), "1970-01-01 00:00:00.001501"),
    (pa.timestamp("ns", "UTC"), 1, pa.timestamp("us", "UTC"), "00.000000001"),
    (pa.timestamp("s"), 2**62, pa.timestamp("ms"), "4611686018427387904"),
    (pa.time64("ns"), 1, pa.time64("us"), "00:00:00.000000001"),
    (pa.date64(), 1, pa.date32(), "1970-01-01"),
    (pa.binary(), b"abc", pa.binary(2), "b'abc'"),
    (LIST(pa.int64()), [1, 2**40], LIST(pa.int32()), r"c\.element: the value 1099511627776"),
    (STRUCT({"a": pa.int64()}), {"a": 2**40}, STRUCT({"a": pa.int32()}), r"c\.a: the value"),
    (MAP(pa.string(), pa.int8()), [("k", 1), ("k", 1)], MAP(pa.string(), pa.int32()), "'k' twice"),
]

NEVER = [
    (pa.int64(), pa.string()),
    (pa.string(), pa.int64()),
    (pa.string(), pa.binary()),
    (pa.binary(), pa.string()),
    (pa.bool_(), pa.int32()),
    (pa.int32(), pa.bool_()),
    (pa.int32(), pa.date32()),
    (pa.date32(), pa.timestamp("ms")),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.time64("us"), pa.int64()),
    (pa.decimal128(5, 2), pa.float64()),
    (pa.float64(), pa.decimal128(5, 2)),
    (pa.duration("s"), pa.int64()),
    (pa.month_day_nano_interval(), pa.string()),
    (LIST(pa.int32()), pa.int32()),
    (STRUCT({"a": pa.int32()}), MAP(pa.string(), pa.int32())),
    (MAP(pa.int32(), pa.int32()), MAP(pa.string(), pa.int32())),
    (pa.dense_union([pa.field("a", pa.int32())]), pa.int32()),
    (pa.uuid(), pa.binary(16)),
    (pa.json_(), pa.string()),
]


@pytest.mark.parametrize(("source", "values", "target"), EXACT, ids=str)
def test_equal_values(source: pa.DataType, values: list[Any], target: pa.DataType) -> None:
    array = pa.array(values, source)
    for start in range(len(values)):
        found = cast_exactly(array.slice(start), target, "c")
        found.validate(full=True)
        assert found.type == target
        assert found.to_pylist() == values[start:]


@pytest.mark.parametrize(("source", "value", "target", "message"), INEXACT, ids=str)
def test_a_value_that_would_change(
    source: pa.DataType, value: Any, target: pa.DataType, message: str
) -> None:
    fine = pa.nulls(3, source)
    array = pa.concat_arrays([fine, pa.array([value], source), fine])
    with pytest.raises(SchemaError, match=message):
        cast_exactly(array, target, "c")
    for rest in (array.slice(0, 3), array.slice(4)):  # the same buffers, without the value
        assert cast_exactly(rest, target, "c").to_pylist() == [None] * 3


@pytest.mark.parametrize(("source", "target"), NEVER, ids=str)
def test_types_without_equal_values(source: pa.DataType, target: pa.DataType) -> None:
    with pytest.raises(SchemaError, match=r"c(\.key)? is .* in the table, and .* in the rows"):
        cast_exactly(pa.nulls(0, source), target, "c")


def test_values_that_no_row_has_are_not_looked_at() -> None:
    hidden = pa.StructArray.from_arrays([pa.array([2**40, 1])], ["a"], mask=pa.array([True, False]))
    found = cast_exactly(hidden, STRUCT({"a": pa.int32()}), "c")
    assert found.to_pylist() == [None, {"a": 1}]
    runs = pc.run_end_encode(pa.array([7, 7, 8]))
    assert cast_exactly(runs, pa.int32(), "c").to_pylist() == [7, 7, 8]


NUMBERS = [
    pa.int32(),
    pa.int64(),
    pa.uint64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(20, 2),
]
_EDGES = [0, 1, -1, 2**24, 2**24 + 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63)]


@given(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS), st.data())
def test_numbers_stay_the_same_number(
    source: pa.DataType, target: pa.DataType, data: st.DataObject
) -> None:
    number = st.sampled_from(_EDGES) | st.integers(-(2**64), 2**64)
    if pa.types.is_floating(source):
        number = number | st.floats(width=source.bit_width, allow_nan=False, allow_infinity=False)
    values = data.draw(st.lists(number | st.none(), max_size=4))
    if pa.types.is_decimal(source):
        values = [None if value is None else Decimal(value) for value in values]
    if pa.types.is_floating(source):
        values = [None if value is None else float(value) for value in values]
    try:
        array = pa.array(values, source)
    except (pa.ArrowInvalid, OverflowError):
        return
    try:
        found = cast_exactly(array, target, "c")
    except SchemaError:
        return
    # Python compares numbers of different types exactly.
    assert found.to_pylist() == array.to_pylist()


VIEWS = [
    (pa.array(["a", "b"], pa.string_view()), pa.string()),
    (pa.array([b"\xff", b"b"], pa.binary_view()), pa.binary()),
    (pa.array([["a"], ["b", None]], LIST(pa.string_view())), LIST(pa.string())),
    (pa.array([["a"], ["b"]], LIST(pa.string_view(), 1)), LIST(pa.string())),
    (
        pa.array([{"x": "a"}, {"x": None}], STRUCT({"x": pa.string_view()})),
        STRUCT({"x": pa.string()}),
    ),
    (
        pa.array([[("k", b"a")], []], MAP(pa.string_view(), pa.binary_view())),
        MAP(pa.string(), pa.binary()),
    ),
]


@pytest.mark.parametrize(("values", "target"), VIEWS, ids=str)
def test_dictionaries_of_views(values: pa.Array, target: pa.DataType) -> None:
    given = pa.DictionaryArray.from_arrays(pa.array([1, None, 0, 1], pa.uint32()), values)
    expected = [values.to_pylist()[n] if n is not None else None for n in (1, None, 0, 1)]
    for array, wanted in ((given, expected), (given.slice(2), expected[2:])):
        found = cast_exactly(array, target, "x")
        assert found.type == target
        assert found.to_pylist() == wanted
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 4]), given)
    found = cast_exactly(lists, LIST(target), "x")
    assert found.to_pylist() == [expected[:1], expected[1:]]
