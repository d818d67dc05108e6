"""polars and DuckDB query a table as they query files: filters reach buckets and row groups."""

from __future__ import annotations

import pickle
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import bucketfmt as bf
from bucketfmt.rows.filters.arrow_filters import find_conditions
from bucketfmt.rows.filters.filter import parse_filter
from bucketfmt.table.table import Table as ReadableTable

f = pc.field
NAN = float("nan")
ROWS = pa.table(
    {
        "id": [f"k{i}" for i in range(40)],
        "city": ["sf", "ny"] * 20,
        "qty": pa.array(range(40), pa.int32()),
        "fare": [float(i) if i % 7 else float("nan") for i in range(40)],
        "day": [date(2026, 1, 1 + i % 20) for i in range(40)],
        "note": [None if i % 3 else "x" for i in range(40)],
        "cost": pa.array([Decimal(i) / 4 for i in range(40)], pa.decimal128(10, 2)),
        "at": pa.array([datetime(2026, 1, 1, i % 24) for i in range(40)], pa.timestamp("us")),
    }
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> bf.Table:
    root = tmp_path_factory.mktemp("views") / "t"
    made = bf.create(root, schema=ROWS, record_key="id", partition_by="city")
    made.upsert(ROWS)
    return made


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[bf.Scan]:
    """The scans that a query makes, without those that only tell the columns."""
    made: list[bf.Scan] = []
    scan = ReadableTable.scan

    def recorded(self: Any, *given: Any, **options: Any) -> bf.Scan:
        found = scan(self, *given, **options)
        if options.keys() - {"as_of"}:
            made.append(found)
        return found

    monkeypatch.setattr(ReadableTable, "scan", recorded)
    return made


EXPRESSIONS = [
    (f("id") == "k1", [[("id", "==", "k1")]]),
    (pc.scalar("k1") == f("id"), [[("id", "==", "k1")]]),
    (pc.scalar(3) < f("qty"), [[("qty", ">", 3)]]),
    (f("qty") >= -3, [[("qty", ">=", -3)]]),
    ((f("id") == "a") & (f("qty") > 5), [[("id", "==", "a"), ("qty", ">", 5)]]),
    ((f("id") == "a") | (f("qty") != 5), [[("id", "==", "a")], [("qty", "!=", 5)]]),
    (f("id").isin(["a", "b"]), [[("id", "in", ["a", "b"])]]),
    (f("note").is_null(), [[("note", "in", [None])]]),
    (f("note").is_valid(), [[("note", "not in", [None])]]),
    (f("day") <= date(1969, 12, 31), [[("day", "<=", date(1969, 12, 31))]]),
    (f("cost") == Decimal("1.50"), [[("cost", "==", Decimal("1.50"))]]),
    (f("at") > datetime(2026, 1, 1), [[("at", ">", datetime(2026, 1, 1))]]),
    (~(f("qty") == 3), None),
    (f("fare") < 1.5, None),
    (f("qty") + 1 == 3, None),
    (pc.starts_with(f("id"), "k"), None),
    ((f("id") == "a") & ~(f("qty") == 3), None),
]


@pytest.mark.parametrize(("expression", "conditions"), EXPRESSIONS, ids=str)
def test_what_an_expression_says(expression: pc.Expression, conditions: Any) -> None:
    assert find_conditions(expression, ROWS.schema) == conditions
    if conditions is not None:
        alike = parse_filter(conditions)
        rows = ROWS.drop_columns(["fare"])  # NaN equals nothing
        assert rows.filter(expression).equals(rows.filter(alike.expression))


def test_an_expression_prunes(table: bf.Table) -> None:
    scan = table.scan(filter=(f("id") == "k1") & (f("city") == "ny"))
    assert scan.plan().partitions_pruned == 1
    assert len(scan.plan().slices) == 1
    assert scan.to_arrow().column("qty").to_pylist() == [1]


# Before 2.0, DuckDB handed comparisons to Arrow, to which NaN is not greater than a number.
NAN_IS_GREATEST = int(duckdb.__version__.partition(".")[0]) >= 2

QUERIES = [
    ("select qty from trips where id = 'k1'", [(1,)], 2),
    ("select id from trips where qty > 37 order by id", [("k38",), ("k39",)], None),
    ("select count(*) from trips", [(40,)], None),
    ("select count(*) from trips where city = 'sf'", [(20,)], 8),
    ("select id from trips where id in ('k3', 'k4') order by 1", [("k3",), ("k4",)], None),
    ("select sum(qty) from trips where note is null and qty between 1 and 4", [(7,)], None),
    ("select id from trips where day = date '2026-01-20' and qty < 20", [("k19",)], None),
    ("select count(*) from trips where fare > 30", [(8 + 6 * NAN_IS_GREATEST,)], None),
]


@pytest.mark.parametrize(("query", "rows", "slices"), QUERIES)
def test_duckdb(
    table: bf.Table, scans: list[bf.Scan], query: str, rows: list[Any], slices: int | None
) -> None:
    trips = table.to_dataset()
    with duckdb.connect() as connection:
        connection.register("trips", trips)
        assert connection.sql(query).fetchall() == rows
    assert len(scans) == 1
    if "count(*)" not in query:
        assert set(scans[0].schema.names) < set(ROWS.schema.names)
    if slices is not None:
        assert len(scans[0].plan().slices) <= slices


def test_a_dataset_of_pyarrow(table: bf.Table) -> None:
    dataset = pickle.loads(pickle.dumps(table.to_dataset()))
    assert dataset.schema == ROWS.schema
    assert dataset.count_rows(filter=f("qty") < 3) == 3
    found = dataset.to_table(columns=["id"], filter=f("id") == "k2")
    assert found.to_pydict() == {"id": ["k2"]}
    assert dataset.head(3, columns=["qty"]).num_rows == 3
    double = dataset.to_table(columns={"twice": pc.add(f("qty"), f("qty"))}, filter=f("id") == "k2")
    assert double.to_pydict() == {"twice": [4]}
    with pytest.raises(NotImplementedError, match="no fragments"):
        dataset.get_fragments()


def test_a_dataset_has_all_that_those_of_pyarrow_have(table: bf.Table) -> None:
    """Methods of pyarrow's own code ended the process."""
    known = {
        "count_rows",
        "filter",
        "get_fragments",
        "head",
        "join",
        "join_asof",
        "scanner",
        "take",
    }
    known |= {"partition_expression", "replace_schema", "schema", "sort_by", "to_batches"}
    assert {name for name in dir(ds.Dataset) if not name.startswith("_")} == known | {"to_table"}
    dataset = table.to_dataset()
    few = dataset.filter(f("qty") < 3).filter(f("qty") > 0)
    few = pickle.loads(pickle.dumps(few))
    assert sorted(few.to_table()["qty"].to_pylist()) == [1, 2]
    assert few.count_rows() == few.count_rows(filter=f("id") != "k9") == 2
    assert few.head(1).num_rows == 1
    assert few.partition_expression.equals((f("qty") < 3) & (f("qty") > 0))
    assert dataset.partition_expression.equals(pc.scalar(True))
    assert sum(batch.num_rows for batch in few.to_batches()) == few.scanner().count_rows() == 2
    assert dataset.take([0, 1]).num_rows == 2
    ordered = few.sort_by([("qty", "descending")]).to_table()
    assert ordered["id"].to_pylist() == ["k2", "k1"]
    with pytest.raises(NotImplementedError, match="use to_table"):
        dataset.replace_schema(ROWS.schema)


def test_datasets_are_joined(tmp_path: Path) -> None:
    rows = ROWS.select(["id", "qty"])
    index = bf.SimpleBucketIndex(2)
    table = bf.create(tmp_path / "t", schema=rows, record_key="id", index=index)
    table.upsert(rows)
    dataset = table.to_dataset()
    few = dataset.filter((f("qty") < 3) & (f("qty") > 0))
    names = ds.dataset(pa.table({"id": ["k1", "k2"], "name": ["one", "two"]}))
    assert sorted(few.join(names, "id").to_table()["name"].to_pylist()) == ["one", "two"]
    joined = few.join(dataset, "id", right_suffix="_again").to_table()
    assert joined["qty_again"].to_pylist() == joined["qty"].to_pylist()
    times = ds.dataset(pa.table({"id": ["k1"], "qty": pa.array([0], pa.int32()), "x": [7]}))
    found = dataset.filter(f("id") == "k1").join_asof(times, "qty", "id", -5).to_table()
    assert found["x"].to_pylist() == [7]


c = pl.col
LAZY = [
    (c("id") == "k1", 2),
    (c("id").is_in(["k3", "k4"]), 4),
    ((c("city") == "sf") & (c("qty") > 3), 8),
    ((c("id") == "k1") | (c("id") == "k2"), 4),
    ((c("id") == "k1") & c("note").is_null(), 2),
    (c("day") == date(2026, 1, 3), None),
    (c("cost") == Decimal("1.5"), None),
    (c("at") >= datetime(2026, 1, 1, 20), None),
    (c("qty").is_between(3, 5), None),
    (c("fare") > 30, None),
    (c("fare") == pl.lit(NAN), None),
    (c("fare") != 3.0, None),
    (~(c("qty") == 3), None),
    (c("qty") > 3.5, None),
    (c("id").str.ends_with("9"), None),
]


@pytest.mark.parametrize(("predicate", "slices"), LAZY, ids=str)
def test_polars(
    table: bf.Table, scans: list[bf.Scan], predicate: pl.Expr, slices: int | None
) -> None:
    found = table.to_lazy().filter(predicate).select("id", "qty").sort("id").collect()
    assert found.equals(pl.DataFrame(ROWS).filter(predicate).select("id", "qty").sort("id"))
    assert len(scans) == 1
    assert set(scans[0].schema.names) < set(ROWS.schema.names)
    if slices is not None:
        assert len(scans[0].plan().slices) <= slices


def test_limits_and_counts_of_polars(table: bf.Table, scans: list[bf.Scan]) -> None:
    lazy = table.to_lazy()
    assert lazy.head(3).collect().height == 3
    assert scans[-1].count() == 3
    assert lazy.filter(c("qty") > 10).head(3).collect().height == 3
    assert lazy.select(pl.len()).collect().item() == 40
    assert lazy.collect().sort("qty").equals(pl.DataFrame(ROWS))
