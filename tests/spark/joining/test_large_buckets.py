"""A bucket that is larger than a task should be is read, joined and grouped in parts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import bucketfmt as bf
import bucketfmt_spark as bs
from bucketfmt_spark.engine import bucket_parts, tasks
from bucketfmt_spark.engine.bucket_parts import BucketParts
from bucketfmt_spark.joining import aggregates, joins
from tests.same_rows import assert_same
from tests.spark.joining.test_aggregates import AGGS, ROUNDED, sparks_own
from tests.spark.joining.test_aggregates import table as events  # noqa: F401  (a fixture)
from tests.spark.tables import make_table as make_small_table
from tests.spark.tables import rows_of
from tests.table.reading.row_groups import make_table


def rounded(frame: DataFrame) -> DataFrame:
    """Sums of doubles depend on their order."""
    return frame.select(*[sf.round(n, 9).alias(n) if n in ROUNDED else n for n in frame.columns])


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bf.Table:
    """A table of one bucket, of which a task takes 4 kB."""
    monkeypatch.setattr(tasks, "_OPEN_BYTES", 0)
    monkeypatch.setattr(tasks, "_TASK_BYTES", 4 << 10)
    return make_table(tmp_path / "t", "MERGE_ON_READ", ordering=["ts"])


def test_a_large_file_slice_is_read_in_parts(
    spark: SparkSession, table: bf.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bucketfmt.slices.slice_parts._SHARE_OF_LOG", 0)
    frame = bs.read(spark, table.uri)
    assert 3 <= frame.rdd.getNumPartitions() <= 8
    assert_same(frame.toArrow(), table.scan().to_arrow())
    bs.register(spark)
    loaded = spark.read.format("bucketfmt").load(table.uri)
    assert loaded.count() == frame.count()


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are made for more cores than there are."""
    monkeypatch.setattr(bucket_parts, "_PART_BYTES", 1)
    for module in (joins, aggregates):
        monkeypatch.setattr(module, "parallelism", lambda spark: 9)


def pair(folder: Path) -> tuple[bf.Table, bf.Table]:
    ids, others = ([f"k{n}" for n in range(*span)] for span in ((50,), (20, 70)))
    left = pa.table({"id": ids, "v": pa.array(range(50)), "x": ["a"] * 50})
    right = pa.table({"id": others, "w": pa.array(range(50)), "x": ["b"] * 50})
    return (
        make_small_table(folder / "l", left, bf.SimpleBucketIndex(4), table_type="MERGE_ON_READ"),
        make_small_table(folder / "r", right, bf.SimpleBucketIndex(2)),
    )


@pytest.mark.usefixtures("cores")
def test_large_buckets_are_joined_in_parts(spark: SparkSession, tmp_path: Path) -> None:
    left, right = pair(tmp_path)
    own = [bs.read(spark, side.uri) for side in (left, right)]
    for how in ("full", "anti"):
        ours = bs.join(spark, left, right, how, suffix="_r")
        plan = str(ours._jdf.queryExecution().executedPlan().toString())
        assert f"bucketfmt {how} join: 2 buckets in 9 tasks" in plan
        assert "Exchange" not in plan
        sparks = own[0].join(own[1].withColumnRenamed("x", "x_r"), "id", how)
        assert ours.columns == sparks.columns
        assert rows_of(ours) == rows_of(sparks)
    moved = bs.join(spark, left, own[1].drop("x"), "full", columns=["w", "id"])
    expected = own[0].join(own[1].drop("x"), "id", "full").select("w", "id")
    assert rows_of(moved) == rows_of(expected)


@pytest.mark.usefixtures("cores")
def test_large_buckets_are_grouped_by_spark(spark: SparkSession, events: bf.Table) -> None:  # noqa: F811
    ours = bs.aggregate(spark, events, ["user", "kind"], AGGS)
    plan = str(ours._jdf.queryExecution().executedPlan().toString())
    assert "large buckets in" in plan
    assert "Union" in plan, "other buckets are grouped alone"
    sparks = bs.read(spark, events.uri).groupBy("user", "kind").agg(*sparks_own())
    assert [(f.name, f.dataType) for f in ours.schema] == [
        (f.name, f.dataType) for f in sparks.schema
    ]
    assert rows_of(rounded(ours)) == rows_of(rounded(sparks))
    keys = bs.aggregate(spark, events, ["user"], {})
    assert rows_of(keys) == rows_of(bs.read(spark, events.uri, ["user"]).distinct())


def test_parts_are_dealt_to_the_largest_buckets(tmp_path: Path) -> None:
    one = pa.table({"id": ["k"], "v": pa.array([1])})
    table = make_small_table(tmp_path / "t", one, bf.SimpleBucketIndex(16))
    buckets = bf.group_buckets(table.scan()).buckets

    def plan(cores: int, *megabytes: int) -> BucketParts:
        sizes = [*megabytes, *[0] * (16 - len(megabytes))]
        pieces = tuple((("", bf.ReadTask(size << 20, b"")),) for size in sizes)
        return BucketParts.plan(bf.BucketGroups(buckets, (pieces,)), cores)

    skewed = plan(8, 5000, *[50] * 15)
    assert skewed.counts.tolist() == [7, *[1] * 15]
    assert plan(2, 5000, *[50] * 15).counts.tolist() == [2, *[1] * 15]
    assert plan(200, 5000, 5000).counts.tolist()[:3] == [8, 8, 1]
    for cores, sizes in ((16, [500] * 16), (2, [500] * 16), (200, [30] * 16), (8, [60])):
        assert set(plan(cores, *sizes).counts.tolist()) == {1}, sizes
    assert plan(8, 70).counts[0] == 2, "parts have 32 MB"
    assert plan(6, *[500] * 4).counts.tolist()[:4] == [2, 2, 1, 1]
    assert len(skewed) == 22
    assert [skewed.bucket_of(n) for n in (0, 6, 7, 21)] == [0, 0, 1, 15]
    assert skewed.numbers_of(1) == range(7, 8)
    ids = pa.array([f"k{n}" for n in range(200)])
    numbers = skewed.assign_rows([ids]).tolist()
    assert [skewed.bucket_of(n) for n in numbers] == buckets.assign_rows([ids]).tolist()
    batch = pa.record_batch({"id": ids.filter(pa.array(buckets.assign_rows([ids]) == 0))})
    for number in range(7):
        (kept,) = skewed.own_rows([batch], number)
        assert set(skewed.assign_rows([kept.column("id")]).tolist()) <= {number}
    assert sum(next(skewed.own_rows([batch], n)).num_rows for n in range(7)) == batch.num_rows
