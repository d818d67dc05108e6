"""Whole buckets: read with their numbers, sampled, and claimed for Spark's optimiser."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import bucketfmt as bf
import bucketfmt_spark as bs
from tests.spark.tables import make_table, rows_of

COUNT = {"n": ("*", "count")}


def rows(size: int = 48) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{n}" for n in range(size)],
            "n": pa.array(range(size)),
            "day": [f"d{n % 2}" for n in range(size)],
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> bf.Table:
    path = tmp_path_factory.mktemp("buckets") / "t"
    return make_table(path, rows(), bf.SimpleBucketIndex(6), partition_by=["day"])


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> bf.Table:
    rest = rows(30).select(["id", "n"]).rename_columns(["id", "m"])
    return make_table(tmp_path_factory.mktemp("others") / "t", rest, bf.SimpleBucketIndex(6))


def exchanges(frame: DataFrame) -> int:
    return str(frame._jdf.queryExecution().executedPlan().toString()).count("Exchange")


def test_partition_i_has_bucket_i(spark: SparkSession, table: bf.Table) -> None:
    found = bs.read_buckets(spark, table)
    assert found.columns == ["bucket_id", "id", "n", "day"]
    placed = found.withColumn("partition", sf.spark_partition_id()).collect()
    assert all(row["partition"] == row["bucket_id"] for row in placed)
    located = table.locate([row["id"] for row in placed[:5]], ["d0"]).column("bucket_id")
    assert located.to_pylist() == [row["bucket_id"] for row in placed[:5]]
    assert rows_of(found.drop("bucket_id")) == rows_of(bs.read(spark, table.uri))


def test_a_row_in_another_bucket_than_its_own_is_told(
    spark: SparkSession, table: bf.Table, tmp_path: Path
) -> None:
    root = Path(shutil.copytree(table.uri, tmp_path / "t"))
    slices = [s for s in table.scan().plan().slices if s.partition_path == "d0"]
    one, another = (s.base_file for s in slices[:2])
    assert one is not None
    assert another is not None
    shutil.copy(root / one.path, root / another.path)
    with pytest.raises(Exception, match="hashes to another: run check"):
        bs.read_buckets(spark, root).collect()
    # A join by buckets would lose such rows without a word.
    for frame in (bs.join(spark, root, root, "semi"), bs.aggregate(spark, root, ["id"], COUNT)):
        with pytest.raises(Exception, match="hashes to another: run check"):
            frame.collect()
    with pytest.raises(bf.SchemaError, match="leaves out the hash field id"):
        bs.read_buckets(spark, table.scan(["n"]))


def test_samples_are_disjoint_and_sample_a_join(
    spark: SparkSession, table: bf.Table, other: bf.Table
) -> None:
    whole = rows_of(bs.read(spark, table.uri))
    parts = [bs.sample(spark, table, bucket, 3) for bucket in (1, 2, 3)]
    assert sorted(row for part in parts for row in rows_of(part)) == whole
    assert all(0 < part.count() < len(whole) for part in parts)
    joined = parts[1].join(bs.sample(spark, other, 2, 3), "id")
    everything = bs.join(spark, table, other)
    kept = {row["id"] for row in parts[1].collect()}
    assert rows_of(joined) == rows_of(everything.filter(sf.col("id").isin(*kept)))
    for bucket, out_of in ((1, 4), (0, 3), (4, 3), (1, 0)):
        with pytest.raises(ValueError, match=r"out_of is a divisor|bucket is 1 to"):
            bs.sample(spark, table, bucket, out_of)


def test_spark_knows_the_buckets_that_are_claimed(
    spark: SparkSession, table: bf.Table, other: bf.Table
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        left, right = (bs.claim(bs.read_buckets(spark, side)) for side in (table, other))
    unclaimed = bs.read_buckets(spark, table)
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        groups = left.groupBy("bucket_id", "id").agg(sf.sum("n").alias("n"))
        assert exchanges(groups) == 0
        assert exchanges(unclaimed.groupBy("bucket_id", "id").count()) == 1
        plain = unclaimed.groupBy("bucket_id", "id").agg(sf.sum("n").alias("n"))
        assert rows_of(groups) == rows_of(plain)

        both = left.join(right, ["bucket_id", "id"])
        assert exchanges(both) == 0
        assert exchanges(unclaimed.join(bs.read_buckets(spark, other), ["bucket_id", "id"])) == 2
        assert rows_of(both.drop("bucket_id")) == rows_of(bs.join(spark, table, other))
        assert rows_of(left.groupBy("day").count()) == rows_of(unclaimed.groupBy("day").count())
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def test_what_cannot_be_claimed_stays_as_it_is(spark: SparkSession, table: bf.Table) -> None:
    frame = bs.read_buckets(spark, table).filter("n > 3")
    with pytest.warns(UserWarning, match="not as read_buckets"):
        assert bs.claim(frame) is frame
