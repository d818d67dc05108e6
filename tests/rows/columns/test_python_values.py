"""A column of Python values has the values that were given, or is refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bucketfmt.errors import SchemaError
from bucketfmt.rows.columns.python_values import check_unchanged, infer_column

DAY, NOON = date(2024, 1, 1), datetime(2024, 1, 1, 12, 0, 0, 1)
UTC, EAST = timezone.utc, timezone(timedelta(hours=9))
BERLIN = ZoneInfo("Europe/Berlin")
NOON_UTC = NOON.replace(tzinfo=UTC)
TWICE = datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN)  # and an hour later once more
MOMENT, ZONED = pa.timestamp("us"), pa.timestamp("us", "UTC")

KEPT: dict[str, tuple[list[Any], pa.DataType, list[Any]]] = {
    "dates": ([DAY, None], pa.date32(), [DAY, None]),
    "moments": ([NOON, None], MOMENT, [NOON, None]),
    "moments of two zones": (
        [NOON_UTC, NOON.replace(tzinfo=EAST)],
        ZONED,
        [NOON_UTC, NOON_UTC - timedelta(hours=9)],
    ),
    "an hour that comes twice": (
        [datetime(2024, 1, 1, tzinfo=UTC), TWICE, TWICE.replace(fold=1)],
        ZONED,
        [
            datetime(2024, 1, 1, tzinfo=UTC),
            datetime(2024, 10, 27, 0, 30, tzinfo=UTC),
            datetime(2024, 10, 27, 1, 30, tzinfo=UTC),
        ],
    ),
    "times of day": ([time(1, 2), None], pa.time64("us"), [time(1, 2), None]),
    "bytes of all kinds": (
        [b"a", bytearray(b"b"), memoryview(b"c"), np.bytes_(b"d")],
        pa.binary(),
        [b"a", b"b", b"c", b"d"],
    ),
    "the first and the last moment": (
        [datetime.min, datetime.max],
        MOMENT,
        [datetime.min, datetime.max],
    ),
    "moments of pandas": (
        [pd.Timestamp(NOON), NOON, pd.NaT, pd.NA],
        MOMENT,
        [NOON, NOON, None, None],
    ),
    "moments of pandas with a zone": ([pd.Timestamp(NOON_UTC), NOON_UTC], ZONED, [NOON_UTC] * 2),
    "moments of NumPy": (
        [np.datetime64("2024-01-01T12:00:00", "s"), np.datetime64("NaT", "s")],
        pa.timestamp("s"),
        [datetime(2024, 1, 1, 12), None],
    ),
    "an array of NumPy": (
        [np.array(["2024-01-01T12", "NaT"], "M8[ms]"), None, [np.datetime64(NOON, "ms")]],
        pa.list_(pa.timestamp("ms")),
        [[datetime(2024, 1, 1, 12), None], None, [datetime(2024, 1, 1, 12)]],
    ),
    "lists, tuples and sets": (
        [[DAY], (DAY, None), {DAY}, None, []],
        pa.list_(pa.date32()),
        [[DAY], [DAY, None], [DAY], None, []],
    ),
    "structs of other fields": (
        [{"a": DAY}, {"b": b"x"}, None, {}],
        pa.struct({"a": pa.date32(), "b": pa.binary()}),
        [{"a": DAY, "b": None}, {"a": None, "b": b"x"}, None, {"a": None, "b": None}],
    ),
    "nulls within": (
        [[{"a": DAY}], [None, {"a": None}], None],
        pa.list_(pa.struct({"a": pa.date32()})),
        [[{"a": DAY}], [None, {"a": None}], None],
    ),
    "scalars of Arrow": ([pa.scalar(NOON), pa.scalar(None, MOMENT)], MOMENT, [NOON, None]),
    "numbers": ([1, Decimal("1.5")], pa.decimal128(2, 1), [Decimal("1.0"), Decimal("1.5")]),
}


@pytest.mark.parametrize("name", KEPT)
def test_values_that_are_kept(name: str) -> None:
    values, kind, wanted = KEPT[name]
    column = infer_column("x", values)
    assert column.type == kind
    assert column.to_pylist() == wanted


CHANGED: dict[str, tuple[list[Any], str]] = {
    "a moment as its date": ([DAY, NOON], r"me\(2024, 1, 1, 12.* as datetime\.date\(2024, 1, 1\)"),
    "a moment of pandas as its date": ([DAY, pd.Timestamp(NOON)], "'x' .* Timestamp"),
    "an aware moment as a naive one": ([NOON, NOON.replace(tzinfo=EAST)], "would be stored as"),
    "a naive moment as an aware one": ([NOON_UTC, NOON], "would be stored as"),
    "a time without its zone": ([time(1, tzinfo=UTC)], "times of day with a zone"),
    "text as bytes": (["a", b"\xff"], "'a' would be stored as b'a'"),
    "bytes, then text": ([b"\xff", "a"], "'a' would be stored as b'a'"),
    "a number as a day": ([DAY, 3], "3 would be stored as"),
    "a number as a moment": ([NOON, 3], "3 would be stored as"),
    "a number as a time": ([time(1), 3], "3 would be stored as"),
    "a truth as a number": ([2.5, True], r"True would be stored as 1\.0"),
    "a truth of NumPy as a number": ([1, np.True_], "True_? would be stored as 1"),
    "a truth in a list": ([[0.5, None], [False]], r"'x\.element' .* False would be stored as 0\.0"),
    "in a list": ([[DAY, NOON]], r"'x\.element'"),
    "in two lists": ([[DAY], None, (NOON,)], r"'x\.element'"),
    "in a struct": ([{"a": DAY}, None, {"a": NOON}], r"'x\.a'"),
    "in a struct in a list": ([[{"a": 1, "b": DAY}], [None, {"b": NOON}]], r"'x\.element\.b'"),
    "a zone in a struct": ([{"a": NOON}, {"a": NOON_UTC}], r"'x\.a'"),
    "date, then moment": ([NOON, DAY], "'x'"),  # by Arrow
    "days of NumPy": ([np.datetime64("2024-01-01", "D")], "'x'"),  # by Arrow
    "a NaT within": ([[pd.NaT, NOON]], "'x'"),  # by Arrow
    "a number beyond 64 bits": ([2**70], "as Decimal or as text"),
    "half a character": (["\ud800"], "give text of whole characters, or bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_values_that_would_change(name: str) -> None:
    values, told = CHANGED[name]
    with pytest.raises(TypeError, match=told):
        infer_column("x", values)


def test_nanoseconds() -> None:
    fine = pd.Timestamp("2024-01-01 00:00:00.000000001")
    for values in ([fine], [[fine]], [{"a": fine}], [NOON, fine]):
        with pytest.raises(SchemaError, match="has nanoseconds, which a table does not keep"):
            infer_column("x", values)


def test_values_are_asked_for_where_they_may_have_changed() -> None:
    def asked() -> list[object]:
        raise AssertionError

    for column in (pa.array([True]), pa.array(["a"]), pa.array([{"a": [Decimal("0.5")]}])):
        check_unchanged("x", column, asked)
    for column in (pa.array([DAY]), pa.array([1]), pa.array([{"a": [0.5]}])):
        with pytest.raises(AssertionError):
            check_unchanged("x", column, asked)


def test_columns_of_several_chunks() -> None:
    column = pa.chunked_array([[DAY], [DAY, DAY]], pa.date32())
    check_unchanged("x", column, [DAY, DAY, DAY])
    with pytest.raises(TypeError, match="'x'"):
        check_unchanged("x", column, [DAY, DAY, NOON])


ZONES = st.sampled_from([None, UTC, EAST, BERLIN])
LEAVES = st.one_of(
    st.none(),
    st.dates(),
    st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=ZONES),
    st.times(timezones=st.sampled_from([None, UTC])),
    st.binary(max_size=3),
    st.text("ab", max_size=3),
    st.integers(-(2**31), 2**31),
    st.floats(allow_nan=False),
    st.booleans(),
    st.booleans().map(np.bool_),
    st.builds(pd.Timestamp, st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1))),
    st.builds(pd.Timestamp, st.integers(0, 3).map(lambda ns: 1_000_000_000_000 + ns)),
    st.just(pd.NaT),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    ),
    max_leaves=4,
)


@given(st.lists(VALUES, max_size=4))
@example([DAY, NOON])
@example([DAY, 2932897])
@example([[DAY], [NOON]])
@example([["", b""]])
@example([{"a": [{"b": "x"}, {"b": b"x"}]}])
@example([{"a": NOON_UTC}, {"a": NOON}])
def test_what_is_accepted_reads_back_equal(values: list[Any]) -> None:
    try:
        column = infer_column("x", values)
    except (TypeError, SchemaError):
        return
    stored = column.to_pylist()
    assert len(stored) == len(values)
    for value, other in zip(values, stored, strict=True):
        assert is_equal(value, other), (value, other)


def is_equal(value: Any, stored: Any) -> bool:
    """Compare as the documentation says it, by another way than the code."""
    if value is None or value is pd.NaT:
        return stored is None
    if isinstance(value, Mapping):
        assert value.keys() <= stored.keys()
        return all(is_equal(value.get(name), other) for name, other in stored.items())
    if isinstance(value, (list, tuple)):
        return len(value) == len(stored) and all(map(is_equal, value, stored))
    if isinstance(value, datetime):
        if getattr(value, "nanosecond", 0) or not isinstance(stored, datetime):
            return False
        if value.tzinfo is None or stored.tzinfo is None:
            return value.tzinfo is stored.tzinfo is None and value == stored
        return value.astimezone(UTC) == stored.astimezone(UTC)
    if isinstance(value, (bool, np.bool_)):
        return isinstance(stored, bool) and value == stored
    if isinstance(value, float) or isinstance(stored, float):
        return value == stored  # numbers may become floats of the same value
    kinds = (date, time, bytes, str, int)
    kind = next(kind for kind in kinds if isinstance(value, kind))
    return isinstance(stored, kind) and not isinstance(stored, datetime) and value == stored
