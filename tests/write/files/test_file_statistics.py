"""The statistics of the columns of a file, by its rows."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.write.metadata.records.file_statistics import ColumnStatistics

STATISTICS = ColumnStatistics(DEFAULT_LIMITS, None, 9)


@pytest.mark.parametrize(
    ("column", "bounds", "nulls"),
    [
        (pa.chunked_array([["x", "x"], ["x"]]), ("x", "x"), 0),
        (pa.chunked_array([["x", "x"], ["y", "x"]]), ("x", "y"), 0),
        (pa.chunked_array([["x", None, "x"]]), ("x", "x"), 1),
        (pa.chunked_array([pa.nulls(3, pa.string())]), None, 3),
        (pa.chunked_array([], pa.string()), None, 0),
        (pa.chunked_array([[7, 7, 7]], pa.int32()), (7, 7), 0),
        (pa.chunked_array([[7]], pa.timestamp("us")), (7, 7), 0),
        (pa.chunked_array([[0.0, -0.0]]), (-0.0, 0.0), 0),
        (pa.chunked_array([[math.nan]]), (math.inf, math.inf), 0),
        (pa.chunked_array([[math.nan, 1.5, math.nan]]), (1.5, math.inf), 0),
        (pa.chunked_array([[math.nan, math.nan]]), (math.inf, math.inf), 0),
    ],
    ids=str,  # not as repr, which has an address that differs among processes
)
def test_bounds_of_columns_with_one_value_and_more(
    column: pa.ChunkedArray, bounds: tuple[object, object] | None, nulls: int
) -> None:
    [found] = STATISTICS.of_rows("f", [pa.table({"c": column})])
    low, high = (bound and bound.value for bound in (found.minimum, found.maximum))
    if bounds is None:
        assert (low, high) == (None, None)
    else:
        assert (low, high) == bounds
        assert str((low, high)) == str(bounds)  # the signs of zeros too
    assert (found.value_count, found.null_count) == (len(column), nulls)
