from __future__ import annotations

import datetime as dt
import io
import math
import operator as op
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import SchemaError
from bucketfmt.rows.columns.java_text import java_strings
from bucketfmt.rows.filters.filter import Filter, parse_filter
from bucketfmt.rows.filters.predicate import Predicate
from bucketfmt.rows.parquet.parquet_footer import ParquetFooter, decode_footer
from bucketfmt.rows.row_ranges import ColumnRange, RowGroupRanges
from tests.rotation import examples

ROWS = pa.table(
    {"a": [1, 2, None, 4], "b": ["x", None, "y", "x"], "f": [1.5, math.nan, None, -0.0]}
)


def kept(given: Any, rows: pa.Table = ROWS) -> list[int]:
    numbered = rows.append_column("n", pa.array(range(rows.num_rows)))
    return parse_filter(given).apply(numbered).column("n").to_pylist()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([("a", "=", 2)], [1]),
        ([("a", "==", 2)], [1]),
        ([("a", "!=", 2)], [0, 3]),
        ([("a", ">", 1), ("b", "=", "x")], [3]),
        ([[("a", "<=", 1)], [("b", "=", "y")]], [0, 2]),
        ([("a", "in", [1, 4, 9])], [0, 3]),
        ([("a", "in", {1})], [0]),
        ([("a", "in", pa.array([1]))], [0]),
        ([("a", "in", [])], []),
        ([("a", "not in", [1, 4])], [1, 2]),
        ([("a", "in", [None])], [2]),
        ([("b", "in", [None])], [1]),
        ([("b", "not in", [None, "x"])], [2]),
        ([("b", "not in", [])], [0, 1, 2, 3]),
        ([("a", "=", None)], []),
        ([("a", "=", pa.scalar(2))], [1]),
        ([("a", "=", np.int64(2))], [1]),
        ([("f", "=", 0.0)], [3]),
        ([("f", "!=", 1.5)], [1, 3]),
        (pc.field("a") > 3, [3]),
        (pc.field("b").is_null(), [1]),
    ],
)
def test_applies_as_pyarrow_does(given: Any, expected: list[int]) -> None:
    assert kept(given) == expected


@pytest.mark.parametrize(
    "given",
    [
        [],
        [[]],
        [("a", "=", 1), ("b", "=")],
        [("a", "~", 1)],
        [("a", "in", "abc")],
        [("a", "in", 1)],
        [("a", "in", [1, "x"])],
        [("a", "=", 2**70)],
        [("a", "=", object())],
        [(1, "=", 1)],
        [["a", "=", 1]],
    ],
)
def test_malformed(given: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_filter(given)


def test_text_is_no_filter() -> None:
    with pytest.raises(TypeError, match="filter is a text such as"):
        parse_filter("a = 1")  # type: ignore[arg-type]


def test_what_does_not_fit_the_columns() -> None:
    for odd in ([("z", "=", 1)], [("a", "=", "text")], pc.field("z") == 1, [("a", "<", b"x")]):
        with pytest.raises(SchemaError, match="filter does not fit"):
            kept(odd)


def test_columns() -> None:
    assert parse_filter([[("a", "=", 1), ("b", "=", 1)], [("a", ">", 1)]]).columns == ("a", "b")
    assert parse_filter(pc.field("a") == 1).columns is None
    assert parse_filter([("a", "=", 1)]).alternatives == ((Predicate("a", "==", 1),),)


# ------------------------------------------------------------------------------ row groups


def footer_of(rows: pa.Table, row_group_size: int = 2, **options: Any) -> ParquetFooter:
    sink = io.BytesIO()
    pq.write_table(rows, sink, row_group_size=row_group_size, store_schema=False, **options)
    data = sink.getvalue()
    return decode_footer(data[-8 - int.from_bytes(data[-8:-4], "little") : -8])


def groups(given: Any, rows: pa.Table, **options: Any) -> list[int]:
    wanted, ranges = parse_filter(given), footer_of(rows, **options).ranges(rows.schema)
    return [number for number, group in enumerate(ranges) if wanted.may_match(group)]


GROUPED = pa.table(
    {
        "i": [1, 2, 3, 4, None, None],
        "s": ["a", "b", "c", "d", None, "e"],
        "f": [1.0, 2.0, math.nan, 4.0, None, 5.0],
        "d": [dt.date(2024, 1, day) for day in range(1, 7)],
        "t": pa.array(
            [dt.datetime(2024, 1, day) for day in range(1, 7)], pa.timestamp("us", "UTC")
        ),
        "m": pa.array([Decimal(n) for n in range(6)], pa.decimal128(10, 2)),
        "o": [True, True, False, False, None, True],
        "l": [[1], [2], [3], [4], [5], [6]],
    }
)
UTC = dt.timezone.utc


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([("i", "=", 2)], [0]),
        ([("i", "=", 9)], []),
        ([("i", "!=", 1)], [0, 1]),
        ([("i", "<", 3)], [0]),
        ([("i", "<=", 3)], [0, 1]),
        ([("i", ">", 2)], [1]),
        ([("i", ">=", 2)], [0, 1]),
        ([("i", "in", [1, 9])], [0]),
        ([("i", "in", [None])], [2]),
        ([("i", "in", [])], []),
        ([("i", "not in", [1, 2])], [0, 1, 2]),
        ([("i", "=", None)], []),
        ([("i", "=", 2.0)], [0, 1]),  # another type: only what is certain goes
        ([("s", "=", "c")], [1]),
        ([("s", ">", "d")], [1, 2]),  # the bound may be a prefix
        ([("s", "<", "b")], [0]),
        ([("f", "=", 2)], [0]),
        ([("f", "!=", 1.0)], [0, 1, 2]),
        ([("f", "=", math.nan)], [0, 1, 2]),
        ([("d", "=", dt.date(2024, 1, 3))], [1]),
        ([("t", ">", dt.datetime(2024, 1, 4, tzinfo=UTC))], [2]),
        ([("t", ">", dt.datetime(2024, 1, 4))], [0, 1, 2]),
        ([("m", ">=", Decimal("3.5"))], [2]),
        ([("m", ">=", 4)], [2]),
        ([("o", "=", False)], [1]),
        ([("l", "=", 1)], [0, 1, 2]),
        ([("i", "=", 1), ("s", "=", "d")], []),
        ([[("i", "=", 1)], [("s", "=", "e")]], [0, 2]),
        ([("unknown", "=", 1)], [0, 1, 2]),
        (pc.field("i") == 1, [0, 1, 2]),
    ],
)
def test_row_groups(given: Any, expected: list[int]) -> None:
    assert groups(given, GROUPED) == expected


def test_without_statistics_all_stay() -> None:
    assert groups([("i", "=", 9)], GROUPED, write_statistics=False) == [0, 1, 2]


def test_constant_group_and_unequal() -> None:
    rows = pa.table({"i": [1, 1, 1, 2], "s": ["a", "a", "a", "b"], "f": [1.0, 1.0, 1.0, 2.0]})
    assert groups([("i", "!=", 1)], rows) == [1]
    assert groups([("s", "!=", "a")], rows) == [0, 1]  # bounds of text may be cut
    assert groups([("f", "!=", 1.0)], rows) == [0, 1]  # NaN is in no bounds


def test_a_prefix_as_greatest_value() -> None:
    """Writers may cut bounds of text: then the greatest is only a prefix."""
    group = RowGroupRanges(5, {"s": ColumnRange("ab", "cd", 0, pa.string())})
    for value, operator, may in [
        ("cde", "=", True),
        ("cde", ">", True),
        ("ce", "=", False),
        ("ce", ">", False),
        ("a", "=", False),
        ("ab", "<", False),
        ("ab", "<=", True),
    ]:
        assert parse_filter([("s", operator, value)]).may_match(group) == may, (value, operator)


def test_unknown_bounds_and_null_counts_exclude_nothing() -> None:
    kinds = {"i": pa.int64(), "f": pa.float64()}
    group = RowGroupRanges(
        5,
        {
            "i": ColumnRange(1, None, None, kinds["i"]),
            "f": ColumnRange(math.nan, 1.0, 0, kinds["f"]),
        },
    )
    for unclear in ([("i", "=", 9)], [("i", "in", [None])], [("f", ">", 9.0)]):
        assert parse_filter(unclear).may_match(group)
    assert not parse_filter([("f", "in", [None])]).may_match(group)


COLUMN = {
    "i": (pa.int64(), st.integers(-3, 3)),
    "s": (pa.string(), st.text("ab", max_size=2)),
    "f": (pa.float64(), st.sampled_from([-1.5, -0.0, 0.0, 1.0, math.nan, math.inf])),
    "g": (pa.float32(), st.sampled_from([-1.5, 0.1, float(np.float32(0.1)), math.nan])),
    "o": (pa.bool_(), st.booleans()),
    "d": (pa.date32(), st.dates(dt.date(2024, 1, 1), dt.date(2024, 1, 3))),
    "m": (pa.decimal128(4, 1), st.sampled_from([Decimal("0.5"), Decimal("1.0"), Decimal(-2)])),
}
OPERATORS = ["=", "!=", "<", "<=", ">", ">=", "in", "not in"]


@st.composite
def predicates(draw: st.DrawFn) -> tuple[str, str, Any]:
    name = draw(st.sampled_from(sorted(COLUMN)))
    values = st.one_of(st.none(), COLUMN[name][1])
    operator = draw(st.sampled_from(OPERATORS))
    if operator in ("in", "not in"):
        return name, operator, draw(st.lists(values, min_size=1, max_size=3))
    return name, operator, draw(values)


TABLES = st.lists(
    st.tuples(*(st.one_of(st.none(), values) for _, values in COLUMN.values())),
    min_size=1,
    max_size=8,
)
FILTERS = st.lists(st.lists(predicates(), min_size=1, max_size=3), min_size=1, max_size=3)


def table_of(rows: list[tuple]) -> pa.Table:
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(list(c), kind) for c, (kind, _) in zip(columns, COLUMN.values(), strict=True)
    ]
    return pa.table(arrays, names=list(COLUMN))


@settings(max_examples=examples(150), deadline=None)
@given(TABLES, FILTERS)
def test_no_row_group_with_a_kept_row_is_pruned(rows: list[tuple], given: list) -> None:
    table = table_of(rows)
    assert {row // 2 for row in kept(given, table)} <= set(groups(given, table))


# ----------------------------------------------------------------------------- key values

SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMN.items()])


def values_of(given: Any, *fields: str) -> set | None:
    found = parse_filter(given).key_values(fields, SCHEMA)
    return None if found is None else set(found)


def test_key_values() -> None:
    assert values_of([("i", "=", 7)], "i") == {("7",)}
    assert values_of([("i", "in", [1, 2])], "i") == {("1",), ("2",)}
    assert values_of([("i", "in", [1, 2]), ("s", "=", "x")], "i", "s") == {("1", "x"), ("2", "x")}
    assert values_of([("i", "in", [1, 2]), ("s", "=", "x")], "s", "i") == {("x", "1"), ("x", "2")}
    assert values_of([("i", "in", [1, 2]), ("i", "in", [2, 3])], "i") == {("2",)}
    assert values_of([("i", "in", [1, 2]), ("i", ">", 9)], "i") == {("1",), ("2",)}
    assert values_of([[("i", "=", 1)], [("i", "=", 2)]], "i") == {("1",), ("2",)}
    assert values_of([("i", "=", None)], "i") == set()
    assert values_of([("i", "in", [None, 1])], "i") == {(None,), ("1",)}
    assert values_of([("s", "=", "a,b:c")], "s") == {("a,b:c",)}
    assert values_of([("d", "=", dt.date(2024, 1, 2))], "d") == {("2024-01-02",)}
    assert values_of([("m", "=", Decimal("1.5"))], "m") == {("1.5",)}
    assert values_of([("m", "=", 1)], "m") == {("1.0",)}
    assert values_of([("o", "=", True)], "o") == {("true",)}
    assert values_of([("f", "=", 0)], "f") == {("0.0",), ("-0.0",)}


def test_what_is_not_proved_is_not_restricted() -> None:
    assert values_of([[("i", "=", 1)], [("s", "=", "x")]], "i") is None
    assert values_of([("i", "=", 1)], "i", "s") is None
    assert values_of([("i", ">", 1)], "i") is None
    assert values_of([("i", "not in", [1])], "i") is None
    assert values_of(pc.field("i") == 1, "i") is None
    assert values_of([("i", "=", 1.0)], "i") is None  # Arrow compares them as doubles
    assert values_of([("i", "in", [True, False])], "i") is None
    assert values_of([("g", "=", 0.1)], "g") is None  # no float is that double
    assert values_of([("i", "=", True)], "i") is None
    assert values_of([("m", "=", Decimal("0.15"))], "m") is None
    assert values_of([("m", "=", 0.5)], "m") is None
    assert values_of([("f", "=", 1e17)], "f") is None  # Java releases write it differently
    assert values_of([("f", "=", math.nan)], "f") is None
    assert values_of([("d", "=", dt.datetime(2024, 1, 2))], "d") is None
    assert values_of([("unknown", "=", 1)], "unknown") is None
    assert (
        values_of(
            [("i", "in", list(range(1000))), ("s", "in", [str(n) for n in range(1000)])], "i", "s"
        )
        is None
    )
    assert values_of([("i", "=", 1), ("i", "=", 1.0)], "i") == {("1",)}


@settings(max_examples=examples(150), deadline=None)
@given(
    TABLES, FILTERS, st.lists(st.sampled_from(sorted(COLUMN)), min_size=1, max_size=2, unique=True)
)
def test_key_values_hold_every_kept_row(rows: list[tuple], given: list, fields: list[str]) -> None:
    table = table_of(rows)
    found = parse_filter(given).key_values(fields, table.schema)
    if found is None:
        return
    passed = table.take(pa.array(kept(given, table), pa.int64()))
    texts = [java_strings(passed.column(field).combine_chunks()).to_pylist() for field in fields]
    assert set(zip(*texts, strict=True)) <= found


def test_filter_is_a_value_of_its_parts() -> None:
    wanted = parse_filter([("a", "=", 1)])
    assert isinstance(wanted, Filter)
    assert isinstance(wanted.expression, pc.Expression)


@pytest.mark.parametrize(
    ("operator", "value", "found"),
    [
        ("=", 1, ["1.00"]),
        (">=", 1, ["1.00", "1.01"]),
        ("=", 1.005, []),
        ("<", Decimal("1.005"), ["1.00"]),
        ("in", [1.005], []),  # Arrow would round to 1.00
        ("in", [1.005, 1.01, 10**30], ["1.01"]),
        ("in", [Decimal("1.010"), 1], ["1.00", "1.01"]),
        ("in", [None], [None]),
        ("not in", [1.005, None], ["1.00", "1.01"]),
        ("not in", [float("nan")], ["1.00", "1.01", None]),
    ],
)
def test_numbers_are_compared_with_decimals_by_value(
    operator: str, value: object, found: list[str | None]
) -> None:
    values = pa.array([Decimal("1.00"), Decimal("1.01"), None], pa.decimal128(8, 2))
    rows = pa.table({"d": values})
    kept = parse_filter([("d", operator, value)], rows.schema).apply(rows)["d"].to_pylist()
    assert [each if each is None else str(each) for each in kept] == found


_LIMITS = [0, 1, 2**24, 2**31, 2**53, 2**63, 2**64, 10**30]
_WHOLE = st.builds(
    lambda limit, sign, more: sign * limit + more,
    st.sampled_from(_LIMITS),
    st.sampled_from([-1, 1]),
    st.integers(-2, 2),
)
_NUMBERS = st.one_of(
    _WHOLE,
    st.floats(),
    _WHOLE.map(float),
    _WHOLE.map(lambda whole: Decimal(whole) + Decimal("0.5")),
)


@settings(max_examples=examples(200))
@given(
    st.sampled_from([pa.int8(), pa.int32(), pa.int64()]),
    st.lists(st.none() | _WHOLE, max_size=5),
    st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "in", "not in"]),
    st.lists(_NUMBERS, min_size=1, max_size=4),
)
def test_whole_numbers_compare_with_any_number_by_value(
    kind: pa.DataType, values: list[int | None], operator: str, given: list[Any]
) -> None:
    """As Python compares them, whatever Arrow would round, or refuse."""
    high = 2 ** (kind.bit_width - 1) - 1
    low = -high - 1
    values = [None if v is None else min(max(v, low), high) for v in values]
    rows = pa.table({"i": pa.array(values, kind)})
    if operator in ("in", "not in"):
        wanted = [v for v in values if (v in given) == (operator == "in")]
        found = parse_filter([("i", operator, given)], rows.schema).apply(rows)
    else:
        known = {"=": op.eq, "!=": op.ne, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge}
        wanted = [v for v in values if v is not None and known[operator](v, given[0])]
        if isinstance(given[0], float) and math.isnan(given[0]):
            return  # Arrow's
        found = parse_filter([("i", operator, given[0])], rows.schema).apply(rows)
    assert found["i"].to_pylist() == wanted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i < 1.5", [0]),
        ("i > -1.5", [0, 1]),
        ("i < 99999999999", [0, 1]),
        ("i > 99999999999999999999", []),
        ("i = 99999999999999999999", []),
        ("i in (1, 99999999999)", [0]),
        ("d < 1.255", [0]),
        ("d >= 1.255", [1]),
        ("t = '01:02'", [0]),
        ("t > 01:02:03.5", [1]),
    ],
)
def test_values_of_a_text_that_the_column_cannot_have(text: str, expected: list[int]) -> None:
    table = pa.table(
        {
            "i": pa.array([1, 2**31 - 1], pa.int32()),
            "d": pa.array([Decimal("1.25"), Decimal("1.26")], pa.decimal128(9, 2)),
            "t": pa.array([dt.time(1, 2), dt.time(1, 3)], pa.time64("us")),
            "n": [0, 1],
        }
    )
    assert parse_filter(text, table.schema).apply(table)["n"].to_pylist() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f = 0", [0, 1]),
        ("f in (0)", [0, 1]),
        ("f in (0, 2)", [0, 1, 4]),
        ("f not in (0)", [2, 4]),
        ("f != 0", [2, 4]),
        ("q != 1", [1, 2]),
        ("q not in (1)", [1, 2]),
        ("q not in (1, 2)", [2]),
        ("q > 1.5", [1, 2]),
    ],
)
def test_a_list_of_a_text_agrees_with_comparisons(text: str, expected: list[int]) -> None:
    """Null is not in a list and not out of it, as in SQL, and -0.0 is 0.0."""
    table = pa.table(
        {"f": [-0.0, 0.0, math.nan, None, 2.0], "q": pa.array([1, 2, 3, None, None], pa.int32())}
    )
    numbered = table.append_column("n", pa.array(range(table.num_rows)))
    assert parse_filter(text, table.schema).apply(numbered)["n"].to_pylist() == expected


@pytest.mark.parametrize("text", ["q = null", "q != null", "q < null"])
def test_a_comparison_with_null_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write q is null"):
        parse_filter(text, pa.schema({"q": pa.int32()}))


_NOON, _MIDNIGHT = dt.datetime(2020, 1, 1, 12), dt.datetime(2020, 1, 1)
_OF_ALL_TYPES = pa.table(
    {
        "flag": [True, False, None],
        "day": pa.array([_MIDNIGHT.date(), dt.date(2020, 1, 2), None]),
        "at": pa.array([_MIDNIGHT, _NOON, None], pa.timestamp("us")),
        "f": pa.array([16777216.0, 0.1, -0.0], pa.float32()),
        "d": pa.array([2.0**53, math.inf, None]),
        "q": pa.array([1, 2**31 - 1, None], pa.int32()),
        "text": ["1", "true", None],
        "raw": [b"1", b"true", None],
        "price": pa.array([Decimal("1.00"), Decimal("0.10"), None], pa.decimal128(9, 2)),
    }
)
_OF_ALL_SORTS = [
    *(True, 0, 1, 2, 0.5, 0.1, 1.0, math.nan, math.inf, 16777217.0, 2**53 + 1, -(10**20), 10**30),
    *("1", "true", "2020-01-01", b"1", Decimal("0.1"), Decimal("0.105"), dt.timedelta(1)),
    *(_NOON, _MIDNIGHT, _MIDNIGHT.date(), _NOON.replace(tzinfo=dt.timezone.utc)),
    *(np.datetime64("2020-01-01"), np.datetime64("2020-01-01T12:00:00.000000001")),
]


def _found(condition: tuple[str, str, Any]) -> list[Any] | type[Exception]:
    try:
        kept = parse_filter([condition], _OF_ALL_TYPES.schema).apply(_OF_ALL_TYPES)
    except (SchemaError, ValueError) as error:
        return type(error)
    return kept.column(condition[0]).to_pylist()


@pytest.mark.parametrize("value", _OF_ALL_SORTS, ids=repr)
@pytest.mark.parametrize("column", _OF_ALL_TYPES.column_names)
def test_a_list_finds_what_a_comparison_finds(column: str, value: Any) -> None:
    """Arrow casts lists: 0.5 and "true" found True, and noon its day, also for `delete`."""
    found = _found((column, "==", value))
    assert _found((column, "in", [value])) == found
    if isinstance(found, list):
        others = [v for v in _OF_ALL_TYPES[column].to_pylist() if v not in found or v is None]
        assert _found((column, "not in", [value])) == others


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (("d", "<", 2**53 + 1), [2.0**53]),
        (("d", "<=", 2**53 + 1), [2.0**53]),
        (("d", ">", 2**53 + 1), [math.inf]),
        (("d", ">=", 2**53 - 1), [2.0**53, math.inf]),
        (("d", "!=", 2**53 + 1), [2.0**53, math.inf]),
        (("d", ">", 10**400), [math.inf]),
        (("d", "<", -(10**400)), []),
        (("f", "<", 99999999999), [16777216.0, float(np.float32(0.1)), -0.0]),
        (("q", "<", math.nan), []),
        (("q", "!=", math.nan), [1, 2**31 - 1]),
        (("day", "==", np.datetime64("2020-01-01")), [_MIDNIGHT.date()]),
        (("day", "==", np.datetime64("NaT")), []),
    ],
)
def test_numbers_that_no_float_is_and_times_of_numpy(
    condition: tuple[str, str, Any], expected: list[Any]
) -> None:
    assert _found(condition) == expected


@pytest.mark.parametrize("operator", ["=", "!=", "<", "in", "not in"])
@pytest.mark.parametrize(
    ("kind", "value", "advice"),
    [
        (pa.list_(pa.string()), "x", "only nulls are found"),
        (pa.struct([("f", pa.int64())]), {"f": 1}, "only nulls are found"),
        (pa.int32(), "x", "compare it with values of its type"),
        (pa.string(), 1, "compare it with values of its type"),
    ],
)
def test_what_arrow_does_not_compare_is_refused_in_words(
    operator: str, kind: pa.DataType, value: object, advice: str
) -> None:
    given = [value] if "in" in operator else value
    with pytest.raises(SchemaError, match=advice) as refused:
        parse_filter([("c", operator, given)], pa.schema([("c", kind)]))
    assert f"column c is {kind}, and {value!r} in the filter is " in str(refused.value)


def test_nulls_are_found_in_a_nested_column() -> None:
    rows = pa.table({"c": pa.array([["x"], None], pa.list_(pa.string()))})
    found = parse_filter([("c", "in", [None])], rows.schema).apply(rows)
    assert found.to_pylist() == [{"c": None}]


def test_a_float_is_compared_with_decimals_by_its_digits() -> None:
    """0.35 is a little less as a double: `price > 0.35` held for 0.35, and `=` did not."""
    values = [Decimal(number) / 100 for number in range(200)]
    rows = pa.table({"c": pa.array(values, pa.decimal128(10, 2))})
    for value in (0.35, 0.41, 1.13, 0.5, 1.0):
        exact = Decimal(str(value))
        for operator, holds in (
            ("=", op.eq),
            ("!=", op.ne),
            ("<", op.lt),
            ("<=", op.le),
            (">", op.gt),
            (">=", op.ge),
        ):
            found = parse_filter([("c", operator, value)], rows.schema).apply(rows)
            assert found["c"].to_pylist() == [each for each in values if holds(each, exact)]


def test_a_moment_finer_than_the_column_equals_none() -> None:
    day = dt.datetime(2024, 1, 1)
    rows = pa.table({"c": pa.array([day], pa.timestamp("us"))})
    later = pd.Timestamp("2024-01-01 00:00:00.000000001")
    counts = {
        operator: parse_filter([("c", operator, later)], rows.schema).apply(rows).num_rows
        for operator in ("=", "!=", "<", ">")
    }
    assert counts == {"=": 0, "!=": 1, "<": 1, ">": 0}


def test_a_value_that_the_column_cannot_have_is_left_out_of_a_list() -> None:
    rows = pa.table({"c": pa.array([b"abcd"], pa.binary(4))})
    found = parse_filter([("c", "in", [b"abc", b"abcd"])], rows.schema).apply(rows)
    assert found.num_rows == 1
    assert parse_filter([("c", "in", [b"abc"])], rows.schema).apply(rows).num_rows == 0
