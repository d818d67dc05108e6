from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import UnsupportedError
from bucketfmt.rows.columns.java_text import double_through_text, java_strings

# As java.lang.Double.toString prints them (OpenJDK 17, and 19 where the two differ).
DOUBLES = [
    (0.0, "0.0"),
    (-0.0, "-0.0"),
    (1.0, "1.0"),
    (-1.1, "-1.1"),
    (100.0, "100.0"),
    (1e-3, "0.001"),
    (9.999e-4, "9.999E-4"),
    (1e7, "1.0E7"),
    (9999999.0, "9999999.0"),
    (12345678.9, "1.23456789E7"),
    (123456.0, "123456.0"),
    (1e-5, "1.0E-5"),
    (1e15, "1.0E15"),
    (1e16, "1.0E16"),
    (123456789012345680.0, "1.2345678901234568E17"),
    (1e21, "1.0E21"),
    (1e22, "1.0E22"),
    (1e23, "1.0E23"),  # Java before 19 prints 9.999999999999999E22
    (1.7976931348623157e308, "1.7976931348623157E308"),
    (2.2250738585072014e-308, "2.2250738585072014E-308"),
    (5e-324, "4.9E-324"),
    (1e-323, "9.9E-324"),
    (5e-323, "4.9E-323"),
    (math.inf, "Infinity"),
    (-math.inf, "-Infinity"),
    (math.nan, "NaN"),
]
FLOATS = [
    (1.1, "1.1"),
    (3.4028235e38, "3.4028235E38"),
    (1e-45, "1.4E-45"),
    (16777216.0, "1.6777216E7"),
    (1e7, "1.0E7"),
    (0.001, "0.001"),
    (0.0009, "9.0E-4"),
    (-2.5, "-2.5"),
]


@pytest.mark.rule("KEY-4")
def test_doubles_and_floats() -> None:
    for kind, vectors in ((pa.float64(), DOUBLES), (pa.float32(), FLOATS)):
        column = pa.array([*(value for value, _ in vectors), None], kind)
        texts = [*(text for _, text in vectors), None]
        assert java_strings(column).to_pylist() == texts
        assert java_strings(column.slice(3)).to_pylist() == texts[3:]
    assert java_strings(pa.array([], pa.float64())).to_pylist() == []
    assert java_strings(pa.array([None], pa.float32())).to_pylist() == [None]


@given(
    st.lists(st.floats(width=64, allow_nan=False)), st.lists(st.floats(width=32, allow_nan=False))
)
def test_text_of_a_float_reads_back(doubles: list[float], floats: list[float]) -> None:
    for text, value in zip(
        java_strings(pa.array(doubles, pa.float64())).to_pylist(), doubles, strict=True
    ):
        assert float(text) == value
        assert math.isinf(value) or ("E" in text) == (not 1e-3 <= abs(value) < 1e7 and value != 0)
        assert math.isinf(value) or "." in text
    for text, value in zip(
        java_strings(pa.array(floats, pa.float32())).to_pylist(), floats, strict=True
    ):
        assert np.float32(text) == np.float32(value)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, -(2**63), None], pa.int64()), ["1", "-9223372036854775808", None]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([Decimal("12.34"), Decimal("-0.10")], pa.decimal128(10, 2)), ["12.34", "-0.10"]),
        (pa.array([Decimal("1E-7"), Decimal(0)], pa.decimal128(20, 10)), ["1.000E-7", "0E-10"]),
        (
            pa.array([0, 19000, 2932896, 2932897], pa.int32()).cast(pa.date32()),
            ["1970-01-01", "2022-01-08", "9999-12-31", "+10000-01-01"],
        ),
        (pa.array([1_700_000_000_123_456], pa.timestamp("us", "UTC")), ["1700000000123456"]),
        (pa.array([1_700_000_000_123], pa.timestamp("ms")), ["1700000000123"]),
        (pa.array(["a", None, "日本"]), ["a", None, "日本"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pa.nulls(2), [None, None]),
    ],
)
def test_other_types(column: pa.Array, expected: list) -> None:
    assert java_strings(column).to_pylist() == expected


def test_types_without_text() -> None:
    for column in (pa.array([b"a"]), pa.array([[1]]), pa.array([{"a": 1}])):
        with pytest.raises(UnsupportedError, match="no text form"):
            java_strings(column)


def test_float_widens_by_its_text() -> None:
    column = pa.array([1.1, None, math.inf, -0.0, 16777216.0], pa.float32())
    assert double_through_text(column).to_pylist() == [1.1, None, math.inf, -0.0, 16777216.0]
    assert math.isnan(double_through_text(pa.array([math.nan], pa.float32()))[0].as_py())
    assert str(double_through_text(pa.array([-0.0], pa.float32()))[0].as_py()) == "-0.0"


def test_date_of_python() -> None:
    assert java_strings(pa.array([dt.date(2024, 2, 29)])).to_pylist() == ["2024-02-29"]
