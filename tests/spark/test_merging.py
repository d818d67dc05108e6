"""MERGE by a DataFrame: each clause, which clause counts, and what is refused."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

import bucketfmt as bf
import bucketfmt_spark as bs
from tests.spark.tables import make_table, rows_of

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "region": pa.string(),
        "price": pa.float64(),
        "note": pa.string(),
        "_hoodie_is_deleted": pa.bool_(),
    }
)


def stored(numbers: range, **columns: Any) -> pa.Table:
    given = {
        "id": [f"k{n}" for n in numbers],
        "region": [("us", "eu")[n % 2] for n in numbers],
        "price": [float(n) for n in numbers],
        "note": [f"note {n}" for n in numbers],
        "_hoodie_is_deleted": [None for _ in numbers],
    }
    names = [field for field in SCHEMA if field.name in {**given, **columns}]
    return pa.table({**given, **columns}, schema=pa.schema(names))


@pytest.mark.rotated(0)
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_first_clause_that_holds_counts(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = make_table(
        tmp_path / "t",
        stored(range(10)),
        bf.SimpleBucketIndex(3),
        partition_by=["region"],
        table_type=kind,
    )
    source = spark.createDataFrame(
        stored(range(4, 14)).drop_columns(["note", "_hoodie_is_deleted"])
    ).withColumn("op", sf.when(sf.col("id") == "k5", "D").otherwise("U"))
    commits = len(table.timeline.instants)
    done = bs.merge(
        source,
        table.uri,
        bs.Delete("source.op = 'D'"),
        bs.Update(sf.col("target.price") > 7, {"note": "concat(target.note, '!', source.op)"}),
        bs.Update(set={"price": sf.col("source.price") * 10}),
        bs.Insert("source.price < 12"),
    )
    assert len(table.timeline.instants) == commits + 1
    assert done.rows_inserted == (2 if kind == "COPY_ON_WRITE" else 0)  # a log does not tell
    assert done.rows_deleted == 1
    found = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
    assert sorted(found) == sorted(f"k{n}" for n in range(12) if n != 5)
    assert {key: row["price"] for key, row in found.items() if row["price"] >= 10} == {
        "k4": 40.0,
        "k6": 60.0,
        "k7": 70.0,
        "k10": 10.0,
        "k11": 11.0,
    }
    assert found["k8"]["note"] == "note 8!U"
    assert found["k3"]["note"] == "note 3"
    assert found["k10"]["note"] is None
    assert bs.check(spark, table.uri, "full").status == "clean"


def test_a_table_without_partitions_and_what_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    given = stored(range(6)).drop_columns(["_hoodie_is_deleted"])
    table = make_table(tmp_path / "t", given, bf.SimpleBucketIndex(2))
    source = spark.createDataFrame(stored(range(4, 8)).drop_columns(["_hoodie_is_deleted"]))
    changed = source.withColumn("note", sf.lit("new"))
    bs.merge(changed, table.uri, bs.Update(), bs.Insert(values={"note": "'made'"}))
    found = bs.read(spark, table.uri, ["id", "price", "note"])
    assert rows_of(found)[4:] == [
        ("'k4'", "4.0", "'new'"),
        ("'k5'", "5.0", "'new'"),
        ("'k6'", "None", "'made'"),
        ("'k7'", "None", "'made'"),
    ]
    for frame, clauses, kind, message in (
        (source, (), ValueError, "merge takes clauses"),
        (source, (bs.Delete(),), bf.UnsupportedError, "a column _hoodie_is_deleted"),
        (source, (bs.Update(set={"id": "'x'"}),), ValueError, "id makes keys or partitions"),
        (source, (bs.Update(set={"no": "1"}),), ValueError, "no is not a column"),
        (source.drop("id"), (bs.Update(),), bf.SchemaError, "the source lacks id"),
        (source.union(source), (bs.Update(),), ValueError, "keys have several rows"),
        (source, ("update",), TypeError, "clauses are Update"),
    ):
        with pytest.raises(kind, match=message):
            bs.merge(frame, table.uri, *clauses)
    assert [i.state.name for i in bf.open(table.uri).timeline.instants].count("COMPLETED") == 3


KINDS = pa.schema(
    {
        "id": pa.string(),
        "n": pa.int32(),
        "d": pa.decimal128(10, 2),
        "day": pa.date32(),
        "x": pa.float64(),
        "tags": pa.list_(pa.string()),
        "nums": pa.list_(pa.int64()),
        "s": pa.struct({"p": pa.int64(), "q": pa.string()}),
        "m": pa.map_(pa.string(), pa.int64()),
    }
)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_value_is_stored_as_an_equal_one_or_refused(
    spark: SparkSession, tmp_path: Path, ansi: str
) -> None:
    given = pa.Table.from_pylist([{"id": "k", "n": 1, "tags": ["a"]}], schema=KINDS)
    table = make_table(tmp_path / "t", given, bf.SimpleBucketIndex(2))
    before = table.scan().to_arrow()
    keys = spark.createDataFrame([("k",)], "id string")
    told = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        for column, value in (
            ("n", "3.7D"),
            ("n", "3.7"),
            ("d", "cast('1.2345' as decimal(12, 4))"),
            ("day", "timestamp '2024-05-05 23:02:03'"),
            ("x", "cast(9007199254740993 as bigint)"),
        ):
            with pytest.raises(bf.SchemaError, match=f"column {column} is .*cast or round it"):
                bs.merge(keys.withColumn(column, sf.expr(value)), table.uri, bs.Update())
            with pytest.raises(bf.SchemaError, match="cast or round it"):
                bs.merge(keys, table.uri, bs.Update(set={column: value}))
        for column, value in (("n", "1099511627781L"), ("n", "'abc'"), ("d", "123456789012D")):
            # Spark 3.5 has no cast that is null where it fails by that setting.
            is_told = ansi == "false" or hasattr(Column, "try_cast")
            with pytest.raises(bf.SchemaError if is_told else Exception):
                bs.merge(keys, table.uri, bs.Update(set={column: value}))
        with pytest.raises(
            bf.SchemaError, match=r"column m .*does not compare maps; cast the value"
        ):
            bs.merge(keys, table.uri, bs.Update(set={"m": "map('a', 1)"}))
        with pytest.raises(bf.SchemaError, match="cast or round it"):
            bs.merge(keys, table.uri, bs.Update(set={"s": "struct('z' as q, 1 as p)"}))
        assert table.scan().to_arrow() == before
        values = {"n": "3L", "d": "1.5D", "day": "timestamp '2024-05-05 00:00:00'", "x": "12.5"}
        nested = {"nums": "array(1, 2)", "s": "struct(1 as p, 'z' as q)"}
        bs.merge(keys, table.uri, bs.Update(set={**values, **nested, "tags": "array('b')"}))
    finally:
        spark.conf.set("spark.sql.ansi.enabled", told)
    (row,) = table.scan().to_arrow().to_pylist()
    found = [str(row[name]) for name in ("n", "d", "day", "x", "tags")]
    assert found == ["3", "1.50", "2024-05-05", "12.5", "['b']"]
    assert (row["nums"], row["s"], row["m"]) == ([1, 2], {"p": 1, "q": "z"}, None)
    for option in ({"evolve": True}, {"missing": "keep"}):
        with pytest.raises(ValueError, match="merge takes no"):
            bs.merge(keys, table.uri, bs.Update(), **option)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.session.timeZone", "Asia/Kolkata"),
        ("spark.sql.execution.arrow.useLargeVarTypes", "true"),
    ],
)
def test_rows_are_merged_in_the_arrow_types_of_a_session(
    spark: SparkSession, tmp_path: Path, setting: str, value: str
) -> None:
    moment = datetime(2024, 3, 10, 5, tzinfo=timezone.utc)
    schema = pa.schema({"id": pa.string(), "at": pa.timestamp("us", "UTC")})
    rows = pa.table({"id": ["a", "b"], "at": [moment, None]}, schema=schema)
    table = make_table(tmp_path / "t", rows, bf.SimpleBucketIndex(2))
    before = spark.conf.get(setting)
    source = spark.createDataFrame(rows)
    spark.conf.set(setting, value)
    try:
        bs.merge(source, table, bs.Update(set={"at": "source.at + INTERVAL 1 HOUR"}))
    finally:
        spark.conf.set(setting, before)
    found = {row["id"]: row["at"] for row in table.scan().to_arrow().to_pylist()}
    assert found == {"a": moment + timedelta(hours=1), "b": None}
