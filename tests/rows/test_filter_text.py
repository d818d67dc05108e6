"""Filters as text: what they mean, what is refused, and that they end on any text."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import SchemaError
from bucketfmt.rows.filters.filter import parse_filter
from bucketfmt.rows.filters.filter_text import all_of, parse_filter_text

SCHEMA = pa.schema(
    {
        "qty": pa.int32(),
        "city": pa.string(),
        "day": pa.date32(),
        "at": pa.timestamp("us"),
        "fare": pa.decimal128(10, 2),
        "ok": pa.bool_(),
        "or": pa.int64(),
        "two words": pa.int64(),
    }
)
ONE = [
    ("qty > 1", ("qty", ">", 1)),
    ("qty=1", ("qty", "==", 1)),
    ("qty <> -1", ("qty", "!=", -1)),
    ("city = 'sf'", ("city", "==", "sf")),
    ("city = sf", ("city", "==", "sf")),
    ('city = "s\\"f"', ("city", "==", 's"f')),
    ("city = 'o''hare and co'", ("city", "==", "o'hare and co")),
    ("city = 7", ("city", "==", "7")),
    ("city = key-000125", ("city", "==", "key-000125")),
    ("city = san francisco", ("city", "==", "san francisco")),
    ("city in ('sf', ny)", ("city", "in", ["sf", "ny"])),
    ('city in ["sf","ny"]', ("city", "in", ["sf", "ny"])),
    ("qty NOT IN (1, 2)", ("qty", "not in", [1, 2, None])),
    ("qty > 5.5", ("qty", ">", 5.5)),
    ("qty is null", ("qty", "in", [None])),
    ("city is not  null", ("city", "not in", [None])),
    ("day >= 2026-01-31", ("day", ">=", date(2026, 1, 31))),
    ("at < '2026-01-31 10:00:00'", ("at", "<", datetime(2026, 1, 31, 10))),
    ("fare = 1.50", ("fare", "==", Decimal("1.50"))),
    ("fare >= 2", ("fare", ">=", Decimal("2.00"))),
    ("fare in (1e2, -3)", ("fare", "in", [Decimal("100.00"), Decimal("-3.00")])),
    ("ok = true", ("ok", "==", True)),
    ("`or` = 3", ("or", "==", 3)),
    ('"two words" = 3', ("two words", "==", 3)),
    ("city = 'and'", ("city", "==", "and")),
    ("city = order", ("city", "==", "order")),
    ("city = or-ange", ("city", "==", "or-ange")),
    ("city = ' '", ("city", "==", " ")),
    ("city in ( sf , b c )", ("city", "in", ["sf", "b c"])),
]


@pytest.mark.parametrize(("text", "condition"), ONE)
def test_a_comparison(text: str, condition: tuple[str, str, Any]) -> None:
    assert parse_filter_text(text, SCHEMA) == [[condition]]
    assert parse_filter(text, SCHEMA).alternatives is not None


A, B, C = ("qty", "==", 1), ("city", "==", "sf"), ("ok", "==", True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("qty = 1 and city = sf or ok = true", [[A, B], [C]]),
        ("qty = 1 and (city = sf or ok = true)", [[A, B], [A, C]]),
        ("(qty = 1 or city = sf) AND ok = true", [[A, C], [B, C]]),
        ("((qty = 1))", [[A]]),
    ],
)
def test_and_or_and_parentheses(text: str, found: object) -> None:
    assert parse_filter_text(text, SCHEMA) == found


def test_several_texts() -> None:
    parts = [parse_filter_text(text, SCHEMA) for text in ("qty = 1 or city = sf", "ok = true")]
    assert all_of(parts) == [[A, C], [B, C]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "needs a column, as in qty >= 3, at its end"),
        ("qty", "needs an operator after qty"),
        ("qty ~ 3", "needs an operator after qty"),
        ("many words", "needs a comparison"),
        ("qty =", "needs a value, at its end"),
        ("city != ", "needs a value, at its end"),
        ("city !=\n", "needs a value, at its end"),
        ("(city != )", "needs a value, at '\\)'"),
        ("city = and qty = 1", "needs a value, at 'and qty = 1'"),
        ("city > OR qty = 1", "needs a value, at 'OR qty = 1'"),
        ("city in ('sf', )", "needs a value, at '\\)'"),
        ("city in (,)", "needs a value, at ',\\)'"),
        ("qty = many", "the filter compares qty, which is int32"),
        ("qty = 3.5", "the filter compares qty, which is int32"),
        ("qty = true", "the filter compares qty, which is int32, with true"),
        ("fare = 1.005", "the filter compares fare, which is decimal"),  # not 1.00
        ("fare in (1.505, 2)", "the filter compares fare, which is decimal"),
        ("city = 'sf", "needs a quote at the end"),
        ('city in ("sf)', "needs a quote at the end"),
        ("qty in 3", "needs a list"),
        ("qty in (3", "needs a "),
        ("(qty = 3", "needs a closing parenthesis"),
        ("qty = 3 and", "needs a column"),
        ("qty = '3' '4'", "needs and, or, or the end"),
        ("(" * 60 + "qty = 1" + ")" * 60, "more than 50 nested"),
        (" and ".join(["(qty = 1 or qty = 2)"] * 12), "more than 1000 alternatives"),
    ],
)
def test_what_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_filter_text(text, SCHEMA)


def test_a_column_that_is_not_there() -> None:
    with pytest.raises(SchemaError, match="no column 'Cty'; did you mean 'city'"):
        parse_filter_text("qty = 1 and Cty = sf", SCHEMA)


WORDS = st.sampled_from(
    ["qty", "city", "and", "or", "(", ")", "=", "in", "not in", "is null", "'", '"', "1", ",", "x"]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(WORDS | st.text(max_size=3), max_size=12).map(" ".join))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    try:
        found = parse_filter_text(text, SCHEMA)
    except (ValueError, SchemaError):
        return
    assert all(len(condition) == 3 for group in found for condition in group)


@pytest.mark.parametrize(
    ("kind", "value", "text", "expected"),
    [
        (pa.time64("us"), 1, "c = '00:00:00.000001000'", 1),
        (pa.timestamp("ms"), 1, "c = '1970-01-01 00:00:00.001000'", 1),
        (pa.timestamp("s"), 1, "c = '1970-01-01T00:00:01.000'", 1),
        (pa.decimal128(4, 4), Decimal("0.5"), "c < 1", 1),
        (pa.decimal128(4, 4), Decimal("0.5"), "c > 1e9", 0),
    ],
)
def test_values_that_are_written_in_more_digits(
    kind: pa.DataType, value: object, text: str, expected: int
) -> None:
    rows = pa.table({"c": pa.array([value], kind)})
    assert parse_filter(text, rows.schema).apply(rows).num_rows == expected


@pytest.mark.parametrize("text", ["12:00:00.0000009", "12:00+02:00", "25:00", "noon"])
def test_a_time_that_no_column_has_is_refused(text: str) -> None:
    """Digits were cut, and the zone was left out of account."""
    with pytest.raises(ValueError, match="the filter compares c"):
        parse_filter(f"c = '{text}'", pa.schema([("c", pa.time64("us"))]))
