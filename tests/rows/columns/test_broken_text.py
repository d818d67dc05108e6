"""Text that is not UTF-8 is found, wherever it is; other text is not."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError
from bucketfmt.rows.columns.broken_text import check_text, find_broken_text

VALUES = st.none() | st.text(max_size=4).map(str.encode) | st.binary(max_size=4)


def is_text(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def as_text(values: list[bytes | None], kind: pa.DataType) -> pa.Array:
    """Return values as a string column, whatever their bytes."""
    stored = pa.array(values, pa.binary() if kind == pa.string() else pa.large_binary())
    return pa.Array.from_buffers(kind, len(stored), stored.buffers())


@given(
    st.lists(st.lists(VALUES, max_size=6), max_size=3),
    st.sampled_from([pa.string(), pa.large_string()]),
    st.integers(0, 2),
)
@example([[b"\xff", b"a"]], pa.string(), 1)
@example([[b"a", "ü".encode()], [b"\xc3", b"\xbc"]], pa.large_string(), 0)
def test_rows_whose_text_is_broken(
    chunks: list[list[bytes | None]], kind: pa.DataType, skipped: int
) -> None:
    columns = [as_text(values, kind)[skipped:] for values in chunks]
    rows = pa.table({"n": pa.chunked_array([column.is_valid() for column in columns], pa.bool_())})
    rows = rows.append_column("t", pa.chunked_array(columns, kind))
    values = [value for chunk in chunks for value in chunk[skipped:]]
    broken = [number for number, value in enumerate(values) if not is_text(value)]
    assert [(found.column, found.rows) for found in find_broken_text(rows)] == (
        [("t", broken)] if broken else []
    )
    if broken:
        with pytest.raises(CorruptError, match=f"column t: the text of {len(broken)} rows is not"):
            check_text(rows)
    else:
        check_text(rows)


def test_text_inside_lists_is_looked_at() -> None:
    for values, broken in ([[b"a", b"\xff"], [0]], [[b"a", b"b"], []]):
        lists = pa.ListArray.from_arrays([0, 2], as_text(values, pa.string()))
        assert [found.rows for found in find_broken_text(pa.table({"l": lists}))] == (
            [broken] if broken else []
        )
