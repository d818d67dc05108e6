from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError, SchemaError
from bucketfmt.rows.columns.conform import conform


def converted(column: pa.Array, target: pa.DataType) -> list:
    """Convert a column as part of a batch, of a sliced batch and of a chunked table."""
    schema = pa.schema([("c", target)])
    batch = pa.record_batch({"c": column})
    table = pa.table({"c": pa.chunked_array([column.slice(0, 1), column.slice(1)])})
    out = conform(batch, schema)
    out.validate(full=True)
    assert out.schema == schema
    assert conform(table, schema).column("c").to_pylist() == out.column(0).to_pylist()
    assert conform(batch.slice(1), schema).column(0).to_pylist() == out.column(0).to_pylist()[1:]
    return out.column(0).to_pylist()


LIST, MAP = pa.list_, pa.map_


@pytest.mark.parametrize(
    ("source", "values", "target", "expected"),
    [
        (pa.int32(), [1, None, -(2**31)], pa.int64(), [1, None, -(2**31)]),
        (pa.int32(), [1, 16777217], pa.float32(), [1.0, 16777216.0]),
        (pa.int64(), [2**53 + 1, -1], pa.float64(), [float(2**53), -1.0]),
        (pa.float32(), [1.1, None, 0.3], pa.float64(), [1.1, None, 0.3]),
        (pa.int64(), [-(2**31), None, 2**31 - 1], pa.int32(), [-(2**31), None, 2**31 - 1]),
        (pa.float64(), [1.1, None, -0.5], pa.float32(), [np.float32(1.1).item(), None, -0.5]),
        (pa.int32(), [1, None], pa.string(), ["1", None]),
        (pa.int64(), [-7, 2**62], pa.string(), ["-7", "4611686018427387904"]),
        (pa.float32(), [1.1, 1e10], pa.string(), ["1.1", "1.0E10"]),
        (pa.float64(), [100.0, 1e-5], pa.string(), ["100.0", "1.0E-5"]),
        (pa.decimal128(10, 2), [Decimal("1.50"), None], pa.string(), ["1.50", None]),
        (pa.string(), ["é", None], pa.binary(), ["é".encode(), None]),
        (pa.binary(), ["é".encode(), None], pa.string(), ["é", None]),
        (pa.binary(2), [b"ab", None], pa.binary(), [b"ab", None]),
        (pa.large_string(), ["a", None], pa.string(), ["a", None]),
        (
            pa.decimal128(10, 2),
            [Decimal("1.50"), None],
            pa.decimal128(20, 4),
            [Decimal("1.5000"), None],
        ),
        (pa.int64(), [12, None], pa.decimal128(10, 2), [Decimal("12.00"), None]),
        (pa.null(), [None, None], pa.int32(), [None, None]),
        (LIST(pa.int32()), [[1, None], None, []], LIST(pa.int64()), [[1, None], None, []]),
        (pa.large_list(pa.int32()), [[1], None], LIST(pa.int64()), [[1], None]),
        (
            LIST(pa.field("array", pa.string(), False)),
            [["a"], None],
            LIST(pa.string()),
            [["a"], None],
        ),
        (
            MAP(pa.string(), pa.int32()),
            [[("a", 1)], None, []],
            MAP(pa.string(), pa.int64()),
            [[("a", 1)], None, []],
        ),
        (
            pa.struct([("x", pa.int32()), ("gone", pa.int8())]),
            [{"x": 1, "gone": 2}, None, {"x": None, "gone": 0}],
            pa.struct([("new", pa.string()), ("x", pa.int64())]),
            [{"new": None, "x": 1}, None, {"new": None, "x": None}],
        ),
        (
            LIST(pa.struct([("x", pa.float32())])),
            [[{"x": 1.1}], None],
            LIST(pa.struct([("x", pa.float64()), ("y", pa.bool_())])),
            [[{"x": 1.1, "y": None}], None],
        ),
        (
            MAP(pa.string(), LIST(pa.struct([("x", pa.int32())]))),
            [[("k", [{"x": 1}])], None],
            MAP(pa.string(), LIST(pa.struct([("x", pa.string())]))),
            [[("k", [{"x": "1"}])], None],
        ),
        (pa.struct([("x", pa.int32())]), [{"x": 1}, None], pa.struct([]), [{}, None]),
    ],
)
def test_allowed_changes(
    source: pa.DataType, values: list, target: pa.DataType, expected: list
) -> None:
    assert converted(pa.array(values, source), target) == expected


@pytest.mark.parametrize(
    ("source", "target", "values", "expected"),
    [
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), [-1, 5], [-1000, 5000]),
        (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"), [-1, 1999, 2000], [-1, 1, 2]),
        (pa.timestamp("ns"), pa.timestamp("us", "UTC"), [-1, 1999, 2000], [-1, 1, 2]),
        (pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us"), [5, None], [5, None]),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), [5, None], [5, None]),
    ],
)
def test_timestamps_keep_the_instant(source, target, values, expected) -> None:
    column = pa.array(values, pa.int64()).cast(source)
    out = conform(pa.table({"c": column}), pa.schema([("c", target)])).column("c")
    assert out.cast(pa.int64()).to_pylist() == expected


def test_date_to_text() -> None:
    assert converted(pa.array([19000, None], pa.int32()).cast(pa.date32()), pa.string()) == [
        "2022-01-08",
        None,
    ]


def test_dictionary_becomes_plain() -> None:
    assert converted(pa.array(["a", "b", "a"]).dictionary_encode(), pa.string()) == ["a", "b", "a"]


def test_missing_dropped_and_reordered_columns() -> None:
    rows = pa.table({"a": [1, 2], "b": ["x", "y"], "c": [True, False]})
    out = conform(rows, pa.schema([("c", pa.bool_()), ("new", pa.date32()), ("a", pa.int64())]))
    assert out.to_pydict() == {"c": [True, False], "new": [None, None], "a": [1, 2]}
    assert conform(rows, pa.schema([])).num_rows == 2
    assert conform(rows.slice(0, 0), pa.schema([("z", pa.int8())])).num_rows == 0


def test_equal_schema_copies_nothing() -> None:
    rows = pa.table({"a": [1], "b": [[1]]})
    assert conform(rows, rows.schema) is rows
    batch = pa.record_batch({"a": pa.array([1, 2]), "b": pa.array(["x", "y"])})
    out = conform(batch, pa.schema([("b", pa.string()), ("a", pa.int64())]))
    assert out.column("a").buffers()[1].address == batch.column("a").buffers()[1].address


def test_renames_by_path_and_fields_that_only_share_a_name() -> None:
    rows = pa.table(
        {
            "old": [1],
            "point": [{"x": 1, "y": 2}],
            "tags": [[{"n": 1}]],
            "m": pa.array(
                [[("k", {"n": 5})]], pa.map_(pa.string(), pa.struct([("n", pa.int64())]))
            ),
            "again": ["old values"],
        }
    )
    point = pa.struct([("left", pa.int64()), ("y", pa.int64())])
    named = pa.struct([("name", pa.int64())])
    target = pa.schema(
        [
            ("new", pa.int64()),
            ("point", point),
            ("tags", pa.list_(named)),
            ("m", pa.map_(pa.string(), named)),
            ("again", pa.string()),
        ]
    )
    renames = {
        "new": "old",
        "point.left": "x",
        "point.y": None,
        "tags.element.name": "n",
        "m.value.name": "n",
        "again": None,
    }
    assert conform(rows, target, renames).to_pylist() == [
        {
            "new": 1,
            "point": {"left": 1, "y": None},
            "tags": [{"name": 1}],
            "m": [("k", {"name": 5})],
            "again": None,
        }
    ]


def test_rename_counts_even_where_schemas_are_equal() -> None:
    rows = pa.table({"a": [1], "s": [{"x": 1}]})
    out = conform(rows, rows.schema, {"a": None, "s.x": None})
    assert out.to_pylist() == [{"a": None, "s": {"x": None}}]


@pytest.mark.parametrize(
    ("column", "target"),
    [
        (pa.array([2**31], pa.int64()), pa.int32()),
        (pa.array([1.10000002384185791015625]), pa.float32()),  # not what 1.1 became
        (pa.array([1e300]), pa.float32()),
        (pa.array([1.0]), pa.int64()),
        (pa.array([True]), pa.string()),
        (pa.array(["1"]), pa.int32()),
        (pa.array([1], pa.timestamp("us")), pa.string()),
        (pa.array([1], pa.int64()), pa.timestamp("us")),
        (pa.array([[1]]), pa.int64()),
        (pa.array([{"a": 1}]), pa.list_(pa.int64())),
        (pa.array([b"ab"], pa.binary(2)), pa.binary(3)),
        (pa.array([Decimal("1.55")], pa.decimal128(10, 2)), pa.decimal128(10, 1)),
        (pa.array([10**6]), pa.decimal128(5, 2)),
        (pa.array([2**62], pa.timestamp("s")), pa.timestamp("us")),
    ],
)
def test_other_changes_are_refused(column: pa.Array, target: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="column c"):
        conform(pa.table({"c": column}), pa.schema([("c", target)]))


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(CorruptError, match=r"column c.*UTF-8"):
        conform(pa.table({"c": [b"\xff"]}), pa.schema([("c", pa.string())]))


# ------------------------------------------------------------------ any nesting, any slice

LEAVES = st.sampled_from([pa.int32(), pa.string(), pa.bool_()])
TYPES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: pa.struct([(f"f{i}", kind) for i, kind in enumerate(kinds)])
        ),
    ),
    max_leaves=5,
)


def values_of(kind: pa.DataType) -> st.SearchStrategy:
    if pa.types.is_struct(kind):
        some = st.fixed_dictionaries({field.name: values_of(field.type) for field in kind})
    elif pa.types.is_map(kind):
        some = st.lists(st.tuples(st.sampled_from("ab"), values_of(kind.item_type)), max_size=2)
    elif pa.types.is_list(kind):
        some = st.lists(values_of(kind.value_type), max_size=2)
    elif pa.types.is_int32(kind):
        some = st.integers(-9, 9)
    else:
        some = st.booleans() if pa.types.is_boolean(kind) else st.text("xy", max_size=2)
    return st.one_of(st.none(), some)


def widened(kind: pa.DataType) -> pa.DataType:
    """The same with long for int and a new field in every struct."""
    if pa.types.is_struct(kind):
        return pa.struct(
            [("new", pa.int8()), *((field.name, widened(field.type)) for field in kind)]
        )
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), widened(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(widened(kind.value_type))
    return pa.int64() if pa.types.is_int32(kind) else kind


def with_new(value: object, kind: pa.DataType) -> object:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {
            "new": None,
            **{field.name: with_new(value[field.name], field.type) for field in kind},
        }
    if pa.types.is_map(kind):
        return [(key, with_new(item, kind.item_type)) for key, item in value]
    if pa.types.is_list(kind):
        return [with_new(item, kind.value_type) for item in value]
    return value


@given(st.data())
def test_nested_columns(data: st.DataObject) -> None:
    kind = data.draw(TYPES)
    values = data.draw(st.lists(values_of(kind), min_size=1, max_size=5))
    assert converted(pa.array(values, kind), widened(kind)) == [
        with_new(value, kind) for value in values
    ]
