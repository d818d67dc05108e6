"""What `read` writes as csv or JSON lines, `upsert` stores as it was."""

from __future__ import annotations

from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bucketfmt as bf
from bucketfmt.cli.text_values import from_json
from tests.cli.conftest import Cli

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "text": pa.string(),
        "bytes": pa.binary(),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "price": pa.decimal128(9, 3),
        "real": pa.float64(),
        "few": pa.float32(),
        "days": pa.list_(pa.date32()),
        "pair": pa.struct({"raw": pa.binary(), "x": pa.float64()}),
        "tags": pa.map_(pa.string(), pa.int64()),
    }
)
MOMENT = datetime(2026, 11, 27, 23, 59, 59, 123_456, timezone.utc)
ROWS = pa.Table.from_pylist(
    [
        {
            "id": "NA",
            "text": "null",
            "bytes": b"\xff\x00",
            "day": date(1999, 12, 31),
            "at": MOMENT,
            "price": Decimal("-1.250"),
            "real": float("inf"),
            "few": 0.5,
            "days": [date(2026, 1, 1), None],
            "pair": {"raw": b"\x00", "x": float("-inf")},
            "tags": [("a", 1), ("b", None)],
        },
        {"id": "n/a", "text": "", "bytes": b"", "real": float("nan"), "days": [], "tags": []},
        {"id": "nan", "text": "NaN", "real": 1.5, "pair": {"raw": None, "x": 2.0}},
    ],
    schema=SCHEMA,
)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    for name in ("from", "into"):
        bf.create(
            str(tmp_path / name), schema=SCHEMA, record_key=["id"], index=bf.SimpleBucketIndex(1)
        )
    bf.open(str(tmp_path / "from")).upsert(ROWS)
    return tmp_path


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_what_was_read_is_stored_as_it_was(made: Path, cli: Cli, ending: str) -> None:
    """Texts such as NA were stored as null, and bytes as the text that stands for them."""
    file = made / f"rows.{ending}"
    assert cli("read", made / "from", "-c", ",".join(SCHEMA.names), "-o", file).code == 0
    run = cli("upsert", made / "into", file)
    assert (run.code, run.err) == (0, "")
    found = bf.open(str(made / "into")).scan(columns=SCHEMA.names).to_arrow().sort_by("id")
    assert str(found.to_pylist()) == str(ROWS.sort_by("id").to_pylist())  # NaN is NaN


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("rows.csv", "id,bytes\na,no base64!\n", "no value of type binary"),
        ("rows.csv", "id,days\na,[1\n", "rows.csv: "),
        ("rows.csv", 'id,tags\na,"[1]"\n', "no value of type map"),
        ("rows.csv", "id,real\na,NA\n", "rows.csv: "),
        ("rows.jsonl", '{"id": "a", "day": "yesterday"}\n', "rows.jsonl: "),
        ("rows.jsonl", '{"id": "a", "pair": {"z": 1}}\n', "no field of struct"),
        ("rows.jsonl", '{"id": "a", "real": "much"}\n', "rows.jsonl: "),
        ("rows.jsonl", '{"id": "a", "real": NaN}\n', "rows.jsonl: "),
    ],
)
def test_text_that_is_no_value(made: Path, cli: Cli, name: str, text: str, message: str) -> None:
    (made / name).write_text(text)
    run = cli("upsert", made / "into", made / name, "--missing", "null")
    assert run.code == 64
    assert message in run.err
    assert "Traceback" not in run.err
    assert bf.open(str(made / "into")).scan().count() == 0


def test_rows_of_nothing_but_dates(tmp_path: Path, cli: Cli) -> None:
    schema = pa.schema({"day": pa.date32()})
    root = str(tmp_path / "t")
    bf.create(root, schema=schema, record_key=["day"], index=bf.SimpleBucketIndex(1))
    (tmp_path / "days.jsonl").write_text('{"day": "2026-11-27"}\n{"day": "2026-11-28"}\n')
    assert cli("upsert", root, tmp_path / "days.jsonl").code == 0
    found = bf.open(root).scan(columns=["day"]).to_arrow()["day"].to_pylist()
    assert sorted(found) == [date(2026, 11, 27), date(2026, 11, 28)]


KINDS = [
    pa.date32(),
    pa.time64("us"),
    pa.timestamp("us", "UTC"),
    pa.binary(),
    pa.decimal128(9, 3),
    pa.float64(),
    pa.struct({"x": pa.int64(), "b": pa.binary()}),
    pa.map_(pa.string(), pa.float64()),
    pa.list_(pa.time64("us")),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.lists(JSON, max_size=4), st.sampled_from(KINDS))
def test_any_json_is_a_value_or_refused(values: list[object], kind: pa.DataType) -> None:
    try:
        column = from_json(values, kind)
    except (ValueError, pa.ArrowException):
        return
    assert column.type == kind
    assert len(column) == len(values)


def test_times_are_iso() -> None:
    assert from_json(["12:34:56.000001"], pa.time64("us")).to_pylist() == [time(12, 34, 56, 1)]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"k": 1.5}, pa.map_(pa.string(), pa.int32())),
        ([1.5], pa.list_(pa.int32())),
        ({"x": 1.9, "d": None}, pa.struct([("x", pa.int32()), ("d", pa.date32())])),
        ({"d": 19000.7}, pa.struct([("d", pa.date32())])),
        (3.7, pa.time64("us")),
        ("10:00:00.1234567", pa.time64("us")),
        ("10:00+02:00", pa.time64("us")),
        (["2024-01-01T00:00:00.000999Z"], pa.list_(pa.timestamp("ms", "UTC"))),
        (["2024-01-01"], pa.list_(pa.timestamp("ms", "UTC"))),
    ],
)
def test_what_would_be_cut_is_refused(value: object, kind: pa.DataType) -> None:
    with pytest.raises(ValueError, match=r"is no|is finer than"):
        from_json([value], kind)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ([2.0, 3], pa.list_(pa.int32()), [2, 3]),
        ("10:00:00.120000000", pa.time32("ms"), time(10, 0, 0, 120_000)),
        ("10:00", pa.time64("us"), time(10)),
        (
            "1969-12-31T23:59:59.999000Z",
            pa.timestamp("ms"),
            datetime(1969, 12, 31, 23, 59, 59, 999_000),
        ),
        ("2024-01-01T02:00:00+0200", pa.timestamp("us"), datetime(2024, 1, 1)),
    ],
)
def test_what_is_written_in_other_digits_is_the_same(
    value: object, kind: pa.DataType, expected: object
) -> None:
    assert from_json([value], kind).to_pylist() == [expected]
