"""Joins without an exchange, against Spark's own join of the same rows."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import bucketfmt as bf
import bucketfmt_spark as bs
from tests.spark.tables import make_table, rows_of

HOWS = ["inner", "left", "right", "full", "semi", "anti"]
ENGINES = ["pyarrow", "polars", "duckdb"]


def trips(size: int = 60) -> pa.Table:
    ids = [f"ключ-{n}" if n % 7 else f"k😀{n}" for n in range(size)]
    return pa.table(
        {
            "id": pa.array(ids),
            "city": pa.array([["sf", "la", "", None][n % 4] for n in range(size)]),
            "fare": pa.array([Decimal(n) / 4 for n in range(size)], pa.decimal128(10, 2)),
            "stops": pa.array([[f"s{n}", None] if n % 3 else None for n in range(size)]),
            "made": pa.array(
                [datetime(2024, 1, 1 + n % 28, tzinfo=timezone.utc) for n in range(size)],
                pa.timestamp("us", "UTC"),
            ),
        }
    )


def riders(size: int = 60) -> pa.Table:
    ids = [f"ключ-{n}" if n % 7 else f"k😀{n}" for n in range(size // 3, size + size // 3)]
    where = pa.struct([("lat", pa.float64()), ("tags", pa.map_(pa.string(), pa.int32()))])
    return pa.table(
        {
            "id": pa.array(ids),
            "day": pa.array([f"2024-01-0{1 + n % 3}" for n in range(size)]),
            "name": pa.array([None if n % 5 == 0 else f"r{n}" for n in range(size)], pa.string()),
            "place": pa.array(
                [{"lat": n / 7, "tags": [("a", n)]} if n % 2 else None for n in range(size)], where
            ),
        }
    )


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> bf.Table:
    return make_table(
        tmp_path_factory.mktemp("left") / "trips",
        trips(),
        bf.SimpleBucketIndex(8),
        table_type="MERGE_ON_READ",
    )


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> bf.Table:
    return make_table(
        tmp_path_factory.mktemp("right") / "riders",
        riders(),
        bf.SimpleBucketIndex(4),
        partition_by=["day"],
    )


def assert_same_join(ours: DataFrame, sparks: DataFrame) -> None:
    assert ours.columns == sparks.columns
    assert [f.dataType for f in ours.schema] == [f.dataType for f in sparks.schema]
    assert rows_of(ours) == rows_of(sparks)


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(("how", "engine"), [(h, ENGINES[n % 3]) for n, h in enumerate(HOWS)])
def test_a_join_is_sparks_and_has_no_exchange(
    spark: SparkSession, left: bf.Table, right: bf.Table, how: str, engine: Any
) -> None:
    """RFC-29's 8 and 4 buckets; one table partitioned, the other with logs."""
    ours = bs.join(spark, left.uri, right, how, engine=engine)
    sparks = bs.read(spark, left.uri).join(bs.read(spark, right.uri), "id", how)
    assert "Exchange" in plan_of(sparks)
    assert "Exchange" not in plan_of(ours)
    assert_same_join(ours, sparks)


def test_chained_and_united_joins_stay_right(
    spark: SparkSession, left: bf.Table, right: bf.Table
) -> None:
    """Which partition of the final job a bucket becomes does not matter."""
    inner = bs.join(spark, left, right.scan(["id", "name"]))
    frame = bs.read(spark, right.uri, ["id", "name"])
    anti = bs.join(spark, left, frame, "left_outer")
    both = inner.union(anti).filter("name is not null")
    assert rows_of(both) == sorted(rows_of(inner.filter("name is not null")) * 2)


@pytest.mark.rotated(1, one_of=4)
@pytest.mark.parametrize(
    ("how", "frame_is"),
    [(h, "left") for h in ("inner", "left", "right", "anti")]
    + [(h, "right") for h in ("left", "right", "full", "semi")],
)
def test_a_dataframe_is_moved_to_the_tables_buckets_once(
    spark: SparkSession, left: bf.Table, right: bf.Table, how: str, frame_is: str
) -> None:
    """Its null keys match nothing, its buckets may be without rows, and so may the table's."""
    if frame_is == "left":
        frame = spark.createDataFrame(trips(9)).unionByName(
            spark.createDataFrame([(None, "x", None, ["y"], None)], bs.read(spark, left.uri).schema)
        )
        ours, sparks = (
            bs.join(spark, frame, right, how),
            frame.join(bs.read(spark, right.uri), "id", how),
        )
    else:
        rows = riders(50).slice(40)
        null = riders(1).set_column(0, "id", pa.array([None], pa.string()))
        frame = spark.createDataFrame(pa.concat_tables([rows, null]))
        ours, sparks = (
            bs.join(spark, left, frame, how),
            bs.read(spark, left.uri).join(frame, "id", how),
        )
    assert plan_of(ours).count("Exchange") == 1
    assert_same_join(ours, sparks)


@pytest.mark.rotated(0)
@pytest.mark.parametrize("how", ["inner", "full", "anti"])
def test_buckets_larger_than_memory_are_joined_in_parts(
    spark: SparkSession, left: bf.Table, right: bf.Table, how: str
) -> None:
    sparks = bs.read(spark, left.uri).join(bs.read(spark, right.uri), "id", how)
    assert_same_join(bs.join(spark, left, right, how, memory_bytes=100), sparks)
    frame = bs.read(spark, right.uri)
    assert_same_join(bs.join(spark, left, frame, how, memory_bytes=100), sparks)


def test_rings_are_joined_where_their_nodes_meet(spark: SparkSession, tmp_path: Path) -> None:
    one = make_table(
        tmp_path / "one",
        trips(),
        bf.ConsistentHashingIndex(8),
        table_type="MERGE_ON_READ",
        table_version=8,
    )
    other = make_table(
        tmp_path / "other",
        riders(),
        bf.ConsistentHashingIndex(4),
        partition_by=["day"],
        table_type="MERGE_ON_READ",
        table_version=8,
    )
    ours = bs.join(spark, one, other, "full")
    sparks = bs.read(spark, one.uri).join(bs.read(spark, other.uri), "id", "full")
    assert_same_join(ours, sparks)
    assert bf.group_buckets(one.scan(), other.scan()).buckets.num_buckets == 4
    frame = bs.read(spark, other.uri)
    assert_same_join(bs.join(spark, one, frame, "full", memory_bytes=100), sparks)


def test_composite_keys_and_integers_of_two_widths(spark: SparkSession, tmp_path: Path) -> None:
    keys = [(n % 9, f"n{n % 4}" if n % 5 else "") for n in range(40)]
    rows = pa.table(
        {
            "a": pa.array([k for k, _ in keys], pa.int32()),
            "b": pa.array([k for _, k in keys]),
            "v": pa.array([None if n % 3 == 0 else n for n in range(40)]),
        }
    )
    one = make_table(tmp_path / "one", rows, bf.SimpleBucketIndex(6), record_key=["a", "b"])
    wide = rows.set_column(0, "a", rows["a"].cast(pa.int64())).rename_columns(["a", "b", "w"])
    other = make_table(
        tmp_path / "other", wide.slice(5), bf.SimpleBucketIndex(4), record_key=["a", "b"]
    )
    for how in ("inner", "right", "full"):
        sparks = bs.read(spark, one.uri).join(bs.read(spark, other.uri), ["a", "b"], how)
        assert_same_join(bs.join(spark, one, other, how), sparks)
    frame = bs.read(spark, other.uri)
    assert_same_join(bs.join(spark, one, frame, "full"), sparks)
    # More is compared than is hashed: 9 by b alone would be in other buckets, 9 by all are not.
    more = bs.join(spark, one, frame.withColumnRenamed("w", "v"), "inner", on=["a", "b", "v"])
    assert_same_join(
        more, bs.read(spark, one.uri).join(frame.withColumnRenamed("w", "v"), ["a", "b", "v"])
    )


def test_what_cannot_be_joined_so_is_refused_on_the_driver(
    spark: SparkSession, left: bf.Table, right: bf.Table, tmp_path: Path
) -> None:
    named = pa.table({"id": ["1", "2"], "name": ["x", "y"]})
    by_name = make_table(tmp_path / "name", named, bf.SimpleBucketIndex(8), record_key=["name"])
    by_seven = make_table(tmp_path / "seven", named, bf.SimpleBucketIndex(7))
    by_eight = make_table(tmp_path / "eight", named, bf.SimpleBucketIndex(8))
    on_ring = make_table(
        tmp_path / "ring",
        named,
        bf.ConsistentHashingIndex(8),
        table_type="MERGE_ON_READ",
        table_version=8,
    )
    number = make_table(
        tmp_path / "number",
        named.set_column(0, "id", pa.array([1, 2])),
        bf.SimpleBucketIndex(8),
    )
    with pytest.raises(
        bf.UnsupportedError, match="one table is hashed by id and the other by name"
    ):
        bs.join(spark, left, by_name)
    with pytest.raises(bf.UnsupportedError, match="nothing in common"):
        bs.join(spark, left, by_seven)
    with pytest.raises(bf.UnsupportedError, match="different engines"):
        bs.join(spark, left, on_ring)
    with pytest.raises(bf.UnsupportedError, match="id is string in one table and int64"):
        bs.join(spark, left, number)
    with pytest.raises(bf.SchemaError, match="a column name that is no key; give suffix="):
        bs.join(spark, right, by_eight)
    with pytest.raises(bf.SchemaError, match="left side lacks the column id"):
        bs.join(spark, left.scan(["city"]), right)
    with pytest.raises(bf.SchemaError, match="right side lacks the column id"):
        bs.join(spark, left, spark.range(3).toDF("n"))
    with pytest.raises(ValueError, match="leaves out id"):
        bs.join(spark, left, right, on=["day"])
    with pytest.raises(ValueError, match="how is one of"):
        bs.join(spark, left, right, "cross")
    with pytest.raises(ValueError, match="engine is one of"):
        bs.join(spark, left, right, engine="spark")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="both sides are DataFrames"):
        bs.join(spark, spark.range(1), spark.range(1))
    with pytest.raises(TypeError, match=r"right is the URI of a table, .* not 7"):
        bs.join(spark, left, 7)  # type: ignore[arg-type]


def test_values_that_do_not_tell_their_bucket_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A key of two fields, hashed by one: `a,b` of it may be cut where another's is not."""
    rows = pa.table({"id": ["plain", "with, comma"], "k": ["1", "2"]})
    index = bf.SimpleBucketIndex(4, ("id",))
    two = make_table(tmp_path / "two", rows, index, record_key=["id", "k"])
    one = make_table(tmp_path / "one", rows.select(["id"]), bf.SimpleBucketIndex(4))
    joined = bs.join(spark, two, one)
    with pytest.raises(Exception, match="column id has values with `,` or `:`"):
        joined.collect()
    assert len(bs.join(spark, two.scan(filter=[("id", "=", "plain")]), one).collect()) == 1
