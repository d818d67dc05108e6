"""Groups without an exchange, against Spark's own of the same rows."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from math import inf, nan
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

import bucketfmt as bf
import bucketfmt_spark as bs
from tests.spark.tables import make_table, rows_of


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> bf.Table:
    size = 90
    rows = pa.table(
        {
            "user": [f"u{n % 13}" for n in range(size)],
            "seq": pa.array(range(size), pa.int32()),
            "kind": [["a", "b", None][n % 3] for n in range(size)],
            "amount": pa.array(
                [None if n % 4 == 0 else Decimal(n) / 100 for n in range(size)],
                pa.decimal128(9, 2),
            ),
            "ratio": pa.array([None if n % 13 == 5 else n / 7 for n in range(size)]),
            "odd": pa.array([[n / 3 - 9, nan, -0.0, None, -inf][n % 5] for n in range(size)]),
            "day": [date(2024, 1, 1 + n % 30) for n in range(size)],
        }
    )
    return make_table(
        tmp_path_factory.mktemp("events") / "events",
        rows,
        bf.SimpleBucketIndex(6, ("user",)),
        record_key=["user", "seq"],
        partition_by=["day"],
        table_type="MERGE_ON_READ",
    )


AGGS = {
    "n": ("*", "count"),
    "with_amount": ("amount", "count"),
    "total": ("amount", "sum"),
    "seqs": ("seq", "sum"),
    "ratios": ("ratio", "sum"),
    "mean": ("ratio", "avg"),
    "spread": ("ratio", "stddev"),
    "mean_amount": ("amount", "avg"),
    "amount_spread": ("amount", "stddev"),
    "least": ("odd", "min"),
    "most": ("odd", "max"),
    "least_ratio": ("ratio", "min"),
    "mean_seq": ("SEQ", "avg"),
    "first_day": ("day", "min"),
    "last_kind": ("kind", "max"),
    "kinds": ("kind", "count_distinct"),
}


ROUNDED = ("ratios", "mean", "spread", "amount_spread")


def sparks_own() -> list[Column]:
    return [
        sf.count("*").alias("n"),
        sf.count("amount").alias("with_amount"),
        sf.sum("amount").alias("total"),
        sf.sum("seq").alias("seqs"),
        sf.round(sf.sum("ratio"), 9).alias("ratios"),
        sf.round(sf.avg("ratio"), 9).alias("mean"),
        sf.round(sf.stddev("ratio"), 9).alias("spread"),
        sf.avg("amount").alias("mean_amount"),
        sf.round(sf.stddev("amount"), 9).alias("amount_spread"),
        sf.min("odd").alias("least"),
        sf.max("odd").alias("most"),
        sf.min("ratio").alias("least_ratio"),
        sf.avg("seq").alias("mean_seq"),
        sf.min("day").alias("first_day"),
        sf.max("kind").alias("last_kind"),
        sf.count_distinct("kind").alias("kinds"),
    ]


@pytest.mark.rotated(0)
@pytest.mark.parametrize(
    ("keys", "memory_bytes"), [(["user"], 1 << 20), (["user", "kind"], 1 << 20), (["user"], 100)]
)
def test_groups_are_sparks_and_have_no_exchange(
    spark: SparkSession, table: bf.Table, keys: list[str], memory_bytes: int
) -> None:
    given = [key.upper() for key in keys]
    ours = bs.aggregate(spark, table, given, AGGS, memory_bytes=memory_bytes)
    sparks = bs.read(spark, table.uri).groupBy(*keys).agg(*sparks_own())
    assert "Exchange" not in str(ours._jdf.queryExecution().executedPlan().toString())
    assert "Exchange" in str(sparks._jdf.queryExecution().executedPlan().toString())
    assert [(f.name, f.dataType) for f in ours.schema] == [
        (f.name, f.dataType) for f in sparks.schema
    ]
    rounded = [sf.round(name, 9).alias(name) if name in ROUNDED else name for name in ours.columns]
    assert rows_of(ours.select(*rounded)) == rows_of(sparks)


def test_a_scan_is_grouped_with_its_filter(spark: SparkSession, table: bf.Table) -> None:
    scan = table.scan(["user", "seq"], filter=[("user", "in", ["u3", "u5"])])
    ours = bs.aggregate(spark, scan, ["user"], {"n": ("*", "count"), "most": ("seq", "max")})
    assert sorted(map(tuple, ours.collect())) == [("u3", 7, 81), ("u5", 7, 83)]


def test_sums_that_wrap_around_are_told(spark: SparkSession, tmp_path: Path) -> None:
    large = pa.table({"id": ["a", "b"], "g": ["x", "y"], "v": pa.array([2**62, 2**62])})
    table = make_table(tmp_path / "t", large, bf.SimpleBucketIndex(1))
    fits = bs.aggregate(spark, table, ["id"], {"s": ("v", "sum")})
    assert sorted(map(tuple, fits.collect())) == [("a", 2**62), ("b", 2**62)]
    twice = pa.table({"id": ["a", "a"], "k": ["x", "y"], "v": pa.array([2**62, 2**62])})
    other = make_table(
        tmp_path / "u", twice, bf.SimpleBucketIndex(1, ("id",)), record_key=["id", "k"]
    )
    with pytest.raises(Exception, match="does not fit int64"):
        bs.aggregate(spark, other, ["id"], {"s": ("v", "sum")}).collect()


def test_what_is_not_grouped_so_is_refused_on_the_driver(
    spark: SparkSession, table: bf.Table
) -> None:
    count = {"n": ("*", "count")}
    with pytest.raises(ValueError, match="leaves out user"):
        bs.aggregate(spark, table, ["kind"], count)
    with pytest.raises(bf.SchemaError, match="no column 'nope'"):
        bs.aggregate(spark, table, ["user", "nope"], count)
    with pytest.raises(ValueError, match="not 'median'"):
        bs.aggregate(spark, table, ["user"], {"m": ("seq", "median")})
    with pytest.raises(ValueError, match="'user' is both a key"):
        bs.aggregate(spark, table, ["user"], {"user": ("seq", "sum")})
    with pytest.raises(bf.UnsupportedError, match="grouping by"):
        bs.aggregate(spark, table, ["user", "ratio"], count)
    with pytest.raises(bf.UnsupportedError, match="avg of kind"):
        bs.aggregate(spark, table, ["user"], {"m": ("kind", "avg")})
    with pytest.raises(bf.UnsupportedError, match="count_distinct of ratio"):
        bs.aggregate(spark, table, ["user"], {"m": ("ratio", "count_distinct")})
