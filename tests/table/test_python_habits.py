"""What people of pandas and SQL try first: one name, text, values as keys, dicts, DataFrames."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.facts import facts_html

ROWS = [
    {"id": 7, "city": "sf", "qty": 1, "ts": 1},
    {"id": 8, "city": "sf", "qty": 2, "ts": 1},
    {"id": 9, "city": "ny", "qty": 3, "ts": 1},
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> bf.Table:
    """Made as a new user would: from a DataFrame, with one name for one column."""
    frame = pd.DataFrame(ROWS)
    root = tmp_path_factory.mktemp("habits") / "trips"
    made = bf.create(root, schema=frame, record_key="id", partition_by="city", ordering="ts")
    made.upsert(ROWS)
    return made


def ids(rows: pa.Table) -> list[int]:
    return sorted(rows.column("id").to_pylist())


def test_the_default_index(table: bf.Table) -> None:
    assert str(table.index).startswith("SimpleBucketIndex(num_buckets=8")
    assert table.schema.names == ["id", "city", "qty", "ts"]


@pytest.mark.parametrize("made_of", [pl.DataFrame(ROWS), pa.Table.from_pylist(ROWS), ROWS])
def test_schemas_of_rows(tmp_path: Path, made_of: Any) -> None:
    made = bf.create(tmp_path / "t", schema=made_of, record_key="id")
    assert made.schema.names == ["id", "city", "qty", "ts"]


def test_one_name(table: bf.Table) -> None:
    assert table.scan("id").schema.names == ["id"]
    assert table.lookup(7, "qty").to_pylist() == [{"qty": 1}]
    assert table.check(partitions="sf").status == "clean"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("qty > 1 and city = 'sf'", [8]),
        ("qty > 1", [8, 9]),
        ("id in (7, 9) or qty = 2", [7, 8, 9]),
        ("_hoodie_partition_path = ny", [9]),
    ],
)
def test_filters_as_text(table: bf.Table, text: str, found: list[int]) -> None:
    assert ids(table.to_arrow(filter=text)) == found
    assert ids(table.changes(None, filter=text).to_arrow()) == found


def test_a_text_prunes_as_tuples_do(table: bf.Table) -> None:
    pruned = table.scan(filter="id = 7 and city = sf").plan()
    assert str(pruned) == str(table.scan(filter=[("id", "=", 7), ("city", "=", "sf")]).plan())
    assert pruned.partitions_pruned == 1
    assert len(pruned.slices) == 1


def test_a_text_deletes(tmp_path: Path) -> None:
    made = bf.create(tmp_path / "t", schema=pa.Table.from_pylist(ROWS), record_key="id")
    made.upsert(ROWS)
    made.delete(filter="qty >= 2")
    assert ids(made.to_arrow()) == [7]


KEYS = [
    7,
    [7],
    ["7"],
    [(7,)],
    [{"id": 7, "city": "sf"}],
    {"id": 7},
    np.array([7]),
    [np.int64(7)],
    [pa.scalar(7)],
    pa.array([7], pa.int16()),
    pa.chunked_array([[7]]),
    pd.Series([7]),
    pl.Series([7]),
    pl.DataFrame({"id": [7]}),
    [Decimal("7")],
    [7.0],
    [(7, "sf")],
]


@pytest.mark.parametrize(
    "keys", KEYS, ids=[f"{number}-{type(keys).__name__}" for number, keys in enumerate(KEYS)]
)
def test_keys_as_values(table: bf.Table, keys: Any) -> None:
    assert ids(table.lookup(keys)) == [7]
    assert set(table.locate(keys).column("record_key").to_pylist()) == {"7"}


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ([7, "a"], "one type"),
        ([(1, 2, 3)], "id, city"),
        ([b"7"], "no values of the two types are equal"),
        (object(), "keys are a list"),
    ],
)
def test_keys_that_are_refused(table: bf.Table, keys: Any, told: str) -> None:
    with pytest.raises((TypeError, bf.SchemaError), match=told):
        table.lookup(keys)


DAY = date(2026, 1, 1)


@pytest.fixture(scope="module")
def composite(tmp_path_factory: pytest.TempPathFactory) -> bf.Table:
    rows = [{"id": i, "day": date(2026, 1, i)} for i in (1, 2)]
    made = bf.create(
        tmp_path_factory.mktemp("habits") / "days",
        schema=pa.Table.from_pylist(rows),
        record_key=["id", "day"],
    )
    made.upsert(rows)
    return made


@pytest.mark.parametrize(
    "keys",
    [
        [(1, date(2026, 1, 1))],
        [{"id": 1, "day": date(2026, 1, 1)}],
        {"day": date(2026, 1, 1), "id": 1},
    ],
)
def test_composite_keys(composite: bf.Table, keys: Any) -> None:
    assert ids(composite.lookup(keys)) == [1]


def test_a_composite_key_that_is_given_as_one_value(composite: bf.Table) -> None:
    with pytest.raises(TypeError, match="has the fields id, day; give tuples, dicts or rows"):
        composite.lookup([1])
    with pytest.warns(
        UserWarning, match=r"0 of 2 keys found; keys of this table look like `id:\d,"
    ):
        composite.lookup(["1", "2"])


def test_shortcuts(table: bf.Table) -> None:
    assert table.version == 9
    assert table.history().column("operation_type").to_pylist() == ["UPSERT"]
    assert table.files().num_rows == 3
    assert table.to_pandas("qty").qty.sum() == 6
    assert table.to_polars("qty", "qty > 1").height == 2


def test_a_scan_pickles(table: bf.Table) -> None:
    for scan in (
        table.scan("id", "qty > 1"),
        table.scan(as_of=table.timeline.instants[0].requested_time, limit=2),
        table.changes(None, filter="qty > 1"),
    ):
        again = pickle.loads(pickle.dumps(scan))
        assert again.schema == scan.schema
        assert again.count() == scan.count() == 2
        assert str(again.plan()) == str(scan.plan())


def test_how_things_look(table: bf.Table) -> None:
    shown = f"<bucketfmt.Table trips at {table.uri}: COPY_ON_WRITE, version 9, key id, "
    assert repr(table) == shown + "partitioned by city>"
    page = table._repr_html_()
    assert "<td style='text-align:left'>SimpleBucketIndex(num_buckets=8" in page
    assert repr(table.scan("id")).startswith("<bucketfmt.Scan: 3 file groups, 3 files")
    assert "int64" in table.scan("id")._repr_html_()
    report = table.check()
    assert repr(report) == "<bucketfmt.CheckReport (default): clean>"
    assert str(report).endswith("\nclean")
    assert "clean" in report._repr_html_()
    result = table.find_commit("none") or table.upsert([{**ROWS[0], "ts": 2}])
    assert repr(result).startswith(f"<bucketfmt.CommitResult UPSERT at {result.instant}: 0 rows")
    assert "rows updated" in result._repr_html_()


def test_names_in_pages_are_no_markup() -> None:
    assert "<b>" not in facts_html("<b>", {"<b>": "<b>"})


def test_dir_shows_what_is_for_users(table: bf.Table) -> None:
    assert {"scan", "upsert", "to_polars", "check", "schema"} <= set(dir(table))
    assert not [name for name in dir(table) if name.startswith("_")]


def test_a_table_that_was_created_here_and_is_gone(tmp_path: Path) -> None:
    """It read as an empty one."""
    rows = pa.table({"id": ["a"], "ts": [1]})
    table = bf.create(tmp_path / "t", schema=rows, record_key="id")
    assert table.scan().count() == 0
    table.upsert(rows)
    shutil.rmtree(tmp_path / "t")
    for read in (lambda: table.scan().count(), lambda: table.lookup("a"), lambda: table.timeline):
        with pytest.raises(bf.TableNotFoundError, match="no Hudi table at"):
            read()


def test_rows_of_dicts_with_values_of_pandas(tmp_path: Path) -> None:
    """A NaT had an error of its own, and nanoseconds were cut."""
    schema = pa.schema([("id", pa.string()), ("at", pa.timestamp("us"))])
    table = bf.create(tmp_path / "t", schema=schema, record_key="id")
    day = pd.Timestamp("2024-01-01")
    table.upsert([{"id": "a", "at": pd.NaT}, {"id": "b", "at": day}, {"id": "c", "at": pd.NA}])
    found = {row["id"]: row["at"] for row in table.scan().to_arrow().to_pylist()}
    assert found == {"a": None, "b": day.to_pydatetime(), "c": None}
    with pytest.raises(bf.SchemaError, match="column 'at' has nanoseconds"):
        table.upsert([{"id": "d", "at": pd.Timestamp("2024-01-01 00:00:00.000000001")}])
    with pytest.raises(TypeError, match="schema is a pyarrow Schema"):
        bf.create(tmp_path / "u", schema=pd.DataFrame, record_key="id")  # type: ignore[arg-type]


def test_an_index_that_nobody_named_is_no_column(tmp_path: Path) -> None:
    """A filtered DataFrame has one: the rows were refused, or got a column of row numbers."""
    frame = pd.DataFrame({"id": ["a", "b"], "qty": [1, 2]})
    some = frame[frame.qty > 1]
    table = bf.create(tmp_path / "t", schema=some, record_key="id")
    assert table.schema.names == ["id", "qty"]
    table.upsert(frame)
    table.upsert(some.assign(qty=3), evolve=True)
    table.upsert(pa.Table.from_pandas(some.assign(qty=3)))
    assert table.preview_schema_changes(pa.Schema.from_pandas(some)) == ()
    with table.start_write("upsert", pa.Schema.from_pandas(some)) as started:
        started.publish(list(started.task.write(pa.Table.from_pandas(some), "0-0-0")))
    assert sorted(table.to_arrow().to_pylist(), key=str) == frame.to_dict("records")
    table.upsert(frame.set_index("id"))
    with pytest.raises(bf.SchemaError, match="lacks columns that the rows have: __index"):
        table.upsert(pa.table({"id": ["a"], "qty": [1], "__index_level_0__": [1]}))
    odd = pa.table({"id": ["c"], "qty": [3]}).replace_schema_metadata({"pandas": "no JSON"})
    table.upsert(odd)
    assert table.scan().count() == 3


def test_what_a_write_would_change_of_the_columns(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("qty", pa.int32())])
    table = bf.create(tmp_path / "t", schema=schema, record_key="id")
    wide = pa.schema([("id", pa.string()), ("qty", pa.int64()), ("tip", pa.float64())])
    told = table.preview_schema_changes(wide, evolve=True)
    assert told == ("qty: int32 became int64", "tip: added, double")
    assert table.upsert(wide.empty_table(), evolve=True).schema_changes == told
    assert table.preview_schema_changes(wide) == ()
    with pytest.raises(bf.SchemaError, match="the rows lack the columns qty, tip"):
        table.preview_schema_changes(wide.remove(2).remove(1))
    assert table.preview_schema_changes(wide.remove(2), missing="null") == ()
    with pytest.raises(ValueError, match="missing"):
        table.preview_schema_changes(wide, missing="nil")  # type: ignore[arg-type]


def test_history_tells_the_files_of_a_commit_once(tmp_path: Path) -> None:
    """A savepoint has the time of its commit."""
    rows = pa.table({"id": ["a"], "qty": [1]})
    table = bf.create(tmp_path / "t", schema=rows, record_key="id")
    table.upsert(rows)
    table.savepoint()
    told = table.history().select(["action", "operation_type", "files"]).to_pylist()
    assert told == [
        {"action": "commit", "operation_type": "UPSERT", "files": 1},
        {"action": "savepoint", "operation_type": None, "files": None},
    ]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_are_no_list_of_whole_numbers(
    tmp_path: Path, kind: Callable[[bytes], object]
) -> None:
    """The byte `1` is the number 49 to Python."""
    rows = pa.table({"id": [1, 49], "v": ["a", "b"]})
    table = bf.create(tmp_path / "t", schema=rows, record_key="id", index=bf.SimpleBucketIndex(2))
    table.upsert(rows)
    for call in (table.lookup, table.locate, table.delete):
        with pytest.raises((TypeError, bf.SchemaError)):
            call(kind(b"1"))
    assert table.to_arrow().sort_by("id").to_pylist() == rows.to_pylist()
