"""Rows of Python objects are stored as they were given, or refused before a file is written."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.write.rows import incoming

DAY, NOON = date(2024, 1, 1), datetime(2024, 1, 1, 12)
UTC, EAST = timezone.utc, timezone(timedelta(hours=9))
TYPES: dict[str, pa.DataType] = {
    "day": pa.date32(),
    "at": pa.timestamp("us"),
    "zoned": pa.timestamp("us", "UTC"),
    "clock": pa.time64("us"),
    "raw": pa.binary(),
    "days": pa.list_(pa.date32()),
    "both": pa.struct({"day": pa.date32()}),
}


def make(folder: Path, column: str) -> bf.Table:
    schema = pa.schema({"id": pa.string(), column: TYPES[column]})
    return bf.create(folder / column, schema=schema, record_key="id", index=bf.SimpleBucketIndex(2))


def stored(table: bf.Table, column: str) -> list[Any]:
    return [row[column] for row in sorted(table.to_arrow().to_pylist(), key=lambda r: r["id"])]


CHANGED: list[tuple[str, list[Any]]] = [
    ("day", [DAY, NOON]),
    ("day", [DAY, pd.Timestamp(NOON)]),
    ("day", [DAY, 3]),
    ("at", [NOON, NOON.replace(tzinfo=EAST)]),
    ("zoned", [NOON.replace(tzinfo=UTC), NOON]),
    ("clock", [time(1), time(1, tzinfo=EAST)]),
    ("raw", ["a", b"\xff"]),
    ("days", [[DAY], [NOON]]),
    ("both", [{"day": DAY}, {"day": NOON}]),
]


@pytest.mark.parametrize(("column", "values"), CHANGED)
@pytest.mark.parametrize("form", ["dicts", "pandas"])
def test_values_that_arrow_would_change(
    column: str, values: list[Any], form: str, tmp_path: Path
) -> None:
    table = make(tmp_path, column)
    rows: Any = [{"id": str(at), column: value} for at, value in enumerate(values)]
    if form == "pandas":
        series = pd.Series(values, dtype=object)
        if column == "zoned":
            series = series[::-1].reset_index(drop=True)  # pandas takes the zone of the first
        rows = pd.DataFrame({"id": [row["id"] for row in rows], column: series})
    for take in (
        table.upsert,
        table.preview_write,
        lambda rows: bf.create(tmp_path / "new", schema=rows, record_key="id"),
    ):
        with pytest.raises(
            TypeError, match=rf"column '{column}\b.* would be stored as .*a pyarrow Table"
        ):
            take(rows)
    assert table.scan().count() == 0
    assert not (tmp_path / "new").exists()


KEPT: list[tuple[str, list[Any], list[Any]]] = [
    ("day", [DAY, None, pd.NaT], [DAY, None, None]),
    ("at", [NOON, pd.Timestamp(NOON), pd.NaT], [NOON, NOON, None]),
    (
        "zoned",
        [NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=EAST)],
        [NOON.replace(tzinfo=UTC), (NOON - timedelta(hours=9)).replace(tzinfo=UTC)],
    ),
    ("clock", [time(1), None], [time(1), None]),
    ("raw", [b"a", bytearray(b"\xff")], [b"a", b"\xff"]),
    ("days", [[DAY, None], (DAY,), None], [[DAY, None], [DAY], None]),
    ("both", [{"day": DAY}, {}, None], [{"day": DAY}, {"day": None}, None]),
]


@pytest.mark.parametrize(("column", "values", "wanted"), KEPT)
@pytest.mark.parametrize("form", ["dicts", "pandas"])
def test_values_that_are_stored(
    column: str, values: list[Any], wanted: list[Any], form: str, tmp_path: Path
) -> None:
    table = make(tmp_path, column)
    rows: Any = [{"id": str(at), column: value} for at, value in enumerate(values)]
    table.upsert(
        pd.DataFrame({"id": [row["id"] for row in rows], column: pd.Series(values, dtype=object)})
        if form == "pandas"
        else rows
    )
    assert stored(table, column) == wanted


def test_categories_and_indexes_of_pandas(tmp_path: Path) -> None:
    table = make(tmp_path, "day")
    later = date(2024, 1, 2)
    frame = pd.DataFrame({"id": ["0", "1"], "day": pd.Series([DAY, later], dtype="category")})
    table.upsert(frame)
    assert stored(table, "day") == [DAY, later]
    table.upsert(frame.assign(day=[later, DAY]).set_index("day"))
    assert stored(table, "day") == [later, DAY]
    mixed = pd.DataFrame({"id": ["0", "1"], "day": pd.Series([DAY, NOON], dtype=object)})
    for changed in (
        mixed.astype({"day": "category"}),
        mixed.set_index("day"),
        mixed.assign(id=["0", "1"]).set_index(["id", "day"]),
    ):
        with pytest.raises(TypeError, match=r"column 'day' .* would be stored as"):
            table.upsert(changed)
    assert stored(table, "day") == [later, DAY]


def test_an_index_that_nobody_named_is_not_converted(tmp_path: Path) -> None:
    """Labels of several types were an error of Arrow."""
    table = make(tmp_path, "day")
    table.upsert(pd.DataFrame({"id": ["0", "1"], "day": [DAY, DAY]}, index=["a", 1]))
    assert stored(table, "day") == [DAY, DAY]


def test_an_index_that_repeats_a_column_is_left_out(tmp_path: Path) -> None:
    """As of `set_index(drop=False)`. With other values it was left out too, in silence."""
    table = make(tmp_path, "day")
    later = date(2024, 1, 2)
    frame = pd.DataFrame({"id": ["0", "1"], "day": [DAY, DAY]})
    table.upsert(frame.set_index("day", drop=False))
    assert stored(table, "day") == [DAY, DAY]
    table.upsert(frame.assign(day=later).set_index(["id", "day"], drop=False))
    assert stored(table, "day") == [later, later]
    with pytest.raises(bf.SchemaError, match="the index are named 'day', and their values differ"):
        table.upsert(frame.set_index("day", drop=False).assign(day=later))
    assert stored(table, "day") == [later, later]


def test_frames_without_such_columns_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame(
        {
            "id": ["a"],
            "text": pd.Series(["x"], dtype=object),
            "at": pd.Series([pd.Timestamp(NOON)]),
            "many": [["x", "y"]],  # Arrow makes text of bytes in a list
        }
    )
    compared: list[str] = []
    monkeypatch.setattr(
        "bucketfmt.rows.columns.python_values._compare",
        lambda name, array, values: compared.append(name),
    )
    rows = incoming.open_rows(frame).read_all()
    assert rows.column_names == ["id", "text", "at", "many"]
    assert compared == ["many"]
    incoming.open_rows(frame.assign(day=[DAY]))
    assert compared == ["many", "many", "day"]


def test_keys_are_not_taken_for_others(tmp_path: Path) -> None:
    """A moment among dates deleted the row of its date."""
    schema = pa.schema({"day": pa.date32(), "n": pa.int64()})
    table = bf.create(tmp_path / "t", schema=schema, record_key="day")
    table.upsert([{"day": DAY, "n": 1}, {"day": date(2024, 1, 2), "n": 2}])
    keys: list[list[Any]] = [
        [date(2024, 1, 2), NOON],
        [(date(2024, 1, 2),), (NOON,)],
        [{"day": date(2024, 1, 2)}, {"day": NOON}],
    ]
    for given in keys:
        for take in (table.delete, table.lookup):
            with pytest.raises(TypeError, match=r"column 'day' .* would be stored as"):
                take(given)
    assert table.scan().count() == 2
    table.delete([DAY])
    assert table.to_arrow().to_pylist() == [{"day": date(2024, 1, 2), "n": 2}]


def test_keys_as_dicts_of_other_fields(tmp_path: Path) -> None:
    """The fields of the first dict counted: the key of one partition was deleted in all."""
    schema = pa.schema({"id": pa.string(), "p": pa.string(), "n": pa.int64()})
    table = bf.create(tmp_path / "t", schema=schema, record_key="id", partition_by="p")
    rows = [{"id": key, "p": p, "n": 1} for key in "ab" for p in ("x", "y")]
    table.upsert(rows)
    for keys in ([{"id": "b"}, {"id": "a", "p": "x"}], [{"id": "a", "p": "x"}, {"id": "b"}]):
        for take in (table.delete, table.lookup, table.locate):
            with pytest.raises(TypeError, match=r"\{'id': 'b'\} lacks p, which other dicts have"):
                take(keys)
    with pytest.raises(TypeError, match=r"\{\} lacks p, which other dicts have|lacks id"):
        table.delete([{}, {"id": "a", "p": "x"}])
    assert table.scan().count() == 4
    table.delete([{"id": "a", "p": "x"}, {"id": "b", "p": "y", "n": 1}])
    left = sorted((row["id"], row["p"]) for row in table.to_arrow().to_pylist())
    assert left == [("a", "y"), ("b", "x")]
    table.delete([{"id": "a"}, {"id": "b", "n": 1}])
    assert table.scan().count() == 0


def test_objects_of_polars(tmp_path: Path) -> None:
    """Their addresses in memory were stored."""
    frame = pl.DataFrame({"id": ["a"], "x": pl.Series([object()], dtype=pl.Object)})
    table = bf.create(
        tmp_path / "t",
        schema=pa.schema({"id": pa.string(), "x": pa.binary(8)}),
        record_key="id",
    )
    for take in (
        table.upsert,
        lambda rows: bf.create(tmp_path / "new", schema=rows, record_key="id"),
        lambda rows: bf.create(tmp_path / "new", schema=rows.schema, record_key="id"),
    ):
        with pytest.raises(TypeError, match=r"\(Object in polars\) have no Arrow type: x; cast"):
            take(frame)
    assert table.scan().count() == 0
    assert not (tmp_path / "new").exists()


def test_dicts_that_lack_columns(tmp_path: Path) -> None:
    """Where stored values are kept, a dict that lacked a column which another had wrote null."""
    schema = pa.schema({"id": pa.string(), "n": pa.int64(), "m": pa.int64()})
    table = bf.create(tmp_path / "t", schema=schema, record_key="id")
    whole = [{"id": "a", "n": 1, "m": 1}, {"id": "b", "n": 2, "m": 2}]
    table.upsert(whole)
    apart = [{"id": "a", "n": 3}, {"id": "b"}]
    refused = r"row 1 lacks the column n, which other rows have.*a write for each set of columns"
    for take in (table.upsert, table.preview_write):
        with pytest.raises(bf.SchemaError, match=refused):
            take(apart, missing="keep")
    with (
        pytest.raises(bf.SchemaError, match=refused),
        table.start_write("upsert", schema, missing="keep") as started,
    ):
        list(started.task.write(apart, "0-0-0"))
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == whole
    for row in apart:
        table.upsert([row], missing="keep")
    kept = sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
    assert kept == [{"id": "a", "n": 3, "m": 1}, {"id": "b", "n": 2, "m": 2}]
    table.upsert(apart, missing="null")
    assert {row["id"]: row["n"] for row in table.to_arrow().to_pylist()} == {"a": 3, "b": None}
