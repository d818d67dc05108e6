from __future__ import annotations

import contextlib
import datetime as dt
import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, TruncatedError
from bucketfmt.rows.parquet.parquet_footer import decode_codec, decode_footer
from bucketfmt.rows.row_ranges import ColumnRange
from tests.rotation import examples

UTC = dt.timezone.utc
ROWS = pa.table(
    {
        "i8": pa.array([-3, 5, None], pa.int8()),
        "i": pa.array([-3, 5, None], pa.int32()),
        "l": [-(2**62), 2**62, 0],
        "f": pa.array([-0.5, 1.5, None], pa.float32()),
        "d": [-0.5, 1.5, 2.5],
        "o": [True, False, None],
        "s": ["é", "a", "日本"],
        "b": [b"\xff", b"", None],
        "day": [dt.date(2024, 1, 2), dt.date(1969, 12, 31), None],
        "at": pa.array(
            [dt.datetime(2024, 1, 2), dt.datetime(1969, 1, 1), None], pa.timestamp("us", "UTC")
        ),
        "ms": pa.array([dt.datetime(2024, 1, 2), None, None], pa.timestamp("ms")),
        "m": pa.array([Decimal("-1.50"), Decimal("2.25"), None], pa.decimal128(30, 2)),
        "n": pa.array([None, None, None], pa.int64()),
        "tags": [[1], [2], None],
        "point": [{"x": 1}, {"x": 2}, None],
    }
)  # fmt: skip


def footer_bytes(rows: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, store_schema=False, **options)
    data = sink.getvalue()
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


def test_ranges_of_each_type() -> None:
    (group,) = decode_footer(footer_bytes(ROWS, write_statistics=True)).ranges(ROWS.schema)
    assert group.num_rows == 3
    found = {name: (r.low, r.high, r.null_count) for name, r in group.columns.items()}
    assert found == {
        "i8": (-3, 5, 1),
        "i": (-3, 5, 1),
        "l": (-(2**62), 2**62, 0),
        "f": (-0.5, 1.5, 1),
        "d": (-0.5, 2.5, 0),
        "o": (False, True, 1),
        "s": ("a", "日本", 0),
        "b": (b"", b"\xff", 1),
        "day": (dt.date(1969, 12, 31), dt.date(2024, 1, 2), 1),
        "at": (dt.datetime(1969, 1, 1, tzinfo=UTC), dt.datetime(2024, 1, 2, tzinfo=UTC), 1),
        "ms": (dt.datetime(2024, 1, 2), dt.datetime(2024, 1, 2), 2),
        "m": (Decimal("-1.50"), Decimal("2.25"), 1),
        "n": (None, None, 3),
    }


def test_decimals_stored_as_integers() -> None:
    for precision in (5, 15):
        rows = pa.table(
            {"m": pa.array([Decimal("-1.5"), Decimal("2.5")], pa.decimal128(precision, 1))}
        )
        footer = decode_footer(footer_bytes(rows, store_decimal_as_integer=True))
        (group,) = footer.ranges(rows.schema)
        assert (group.columns["m"].low, group.columns["m"].high) == (
            Decimal("-1.5"),
            Decimal("2.5"),
        )


def test_decimals_of_all_digits_are_not_rounded() -> None:
    values = [-(10**38) + 1, 10**38 - 1]
    rows = pa.table({"m": pa.array([Decimal(f"{v}E-18") for v in values], pa.decimal128(38, 18))})
    (group,) = decode_footer(footer_bytes(rows)).ranges(rows.schema)
    assert [group.columns["m"].low, group.columns["m"].high] == rows["m"].to_pylist()


def test_only_the_asked_columns_and_types() -> None:
    footer = decode_footer(footer_bytes(ROWS))
    (group,) = footer.ranges(
        pa.schema([("l", pa.int64()), ("tags", pa.list_(pa.int64())), ("z", pa.int8())])
    )
    assert set(group.columns) == {"l"}
    # bounds that are no value of the asked type
    asked = pa.schema(
        [("l", pa.string()), ("s", pa.int64()), ("d", pa.bool_()), ("day", pa.float64())]
    )
    (group,) = footer.ranges(asked)
    assert all((r.low, r.high) == (None, None) for r in group.columns.values())
    assert group.columns["s"] == ColumnRange(None, None, 0, pa.int64())


def test_dates_that_python_cannot_hold() -> None:
    rows = pa.table({"day": pa.array([-(10**9), 10**9], pa.int32()).cast(pa.date32())})
    (group,) = decode_footer(footer_bytes(rows)).ranges(rows.schema)
    assert (group.columns["day"].low, group.columns["day"].high) == (None, None)


def test_without_statistics() -> None:
    (group,) = decode_footer(footer_bytes(ROWS, write_statistics=False)).ranges(ROWS.schema)
    assert all(r.low is None and r.null_count is None for r in group.columns.values())


def test_many_row_groups() -> None:
    rows = pa.table({"n": list(range(100))})
    groups = decode_footer(footer_bytes(rows, row_group_size=3)).ranges(rows.schema)
    assert [(g.columns["n"].low, g.num_rows) for g in groups][-2:] == [(96, 3), (99, 1)]


@pytest.mark.parametrize(("name", "number"), [("NONE", 0), ("SNAPPY", 1), ("GZIP", 2), ("ZSTD", 6)])
def test_the_codec_of_each_row_group(name: str, number: int) -> None:
    footer = footer_bytes(ROWS, compression=name, row_group_size=1)
    assert [decode_codec(footer, group) for group in range(3)] == [number] * 3
    with pytest.raises(CorruptError, match="row group 3 of 3"):
        decode_codec(footer, 3)


def test_the_codec_takes_nothing_behind_the_first_column() -> None:
    wide = pa.table({f"c{number}": [number] for number in range(100)})
    footer = footer_bytes(wide, compression={f"c{n}": "GZIP" if n else "ZSTD" for n in range(100)})
    columns_at = footer.index(b"c0", footer.index(b"c99"))  # behind the schema, which has all names
    assert decode_codec(footer[: columns_at + 200], 0) == 6
    with pytest.raises(TruncatedError):
        decode_codec(footer[:columns_at], 0)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\x15",
        b"\x29\xfc\xff\xff\xff\xff\x0f",  # a list of 2^32 schema elements
        b"\x28\xff\xff\xff\xff\x0f",  # a text of that length
        b"\x1c" * 100,  # a struct in a struct in a struct ...
        b"\x19" * 100,
        b"\x15" + b"\xff" * 20,  # a number without end
        b"\x1d\x00",  # an unknown type
    ],
)
def test_damage(data: bytes) -> None:
    for decode in (decode_footer, lambda each: decode_codec(each, 0)):
        with pytest.raises(CorruptError):
            decode(data)


FOOTER = footer_bytes(ROWS)


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, len(FOOTER) - 1), st.binary(min_size=1, max_size=4))
def test_any_bytes_decode_or_fail_as_our_own(position: int, patch: bytes) -> None:
    damaged = FOOTER[:position] + patch + FOOTER[position + len(patch) :]
    with contextlib.suppress(BucketfmtError):
        decode_footer(damaged).ranges(ROWS.schema)
    with contextlib.suppress(BucketfmtError):
        decode_codec(damaged, 0)
    with pytest.raises(TruncatedError):
        decode_footer(FOOTER[:position])
