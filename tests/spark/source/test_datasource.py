"""`format("bucketfmt")`, as a batch and as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import bucketfmt as bf
import bucketfmt_spark as bs
from bucketfmt_spark.source.stream_source import find_commits
from tests.spark.tables import rows_of

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


@contextmanager
def pushing_down(spark: SparkSession, enabled: bool) -> Iterator[None]:
    spark.conf.set(PUSH_DOWN, str(enabled).lower())
    bs.register(spark)
    try:
        yield
    finally:
        spark.conf.unset(PUSH_DOWN)
        bs.register(spark)


def load(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.read.format("bucketfmt").options(**options).load(str(path))


@pytest.mark.rotated(0)
@pytest.mark.parametrize("enabled", [True, False])
def test_rows_are_those_of_read_whether_filters_are_pushed_or_not(
    spark: SparkSession, golden: Callable[[str, str], Path], enabled: bool
) -> None:
    path = golden("1.2.0", "mor")
    table = bf.open(path)
    key = table.config.record_key_fields[0]
    read = bs.read(spark, path).toArrow().to_pylist()
    values = sorted(row[key] for row in read)
    with pushing_down(spark, enabled):
        frame = load(spark, path)
        assert frame.schema == bs.read(spark, path).schema
        found = frame.toArrow().to_pylist()
        assert sorted(found, key=itemgetter(key)) == sorted(read, key=itemgetter(key))
        one = frame.filter(frame[key] == values[0])
        few = frame.filter(frame[key].isin(values[:2]) & frame[key].isNotNull())
        assert [row[key] for row in one.collect()] == [values[0]]
        assert sorted(row[key] for row in few.collect()) == sorted(
            v for v in values if v in values[:2]
        )
        region = frame.filter(frame.region == "eu")
        europe = sorted(row[key] for row in read if row["region"] == "eu")
        assert sorted(row[key] for row in region.collect()) == europe
        planned, tasks = region.rdd.getNumPartitions(), frame.rdd.getNumPartitions()
        assert 0 < planned < tasks if enabled else planned == tasks


def test_options_are_those_of_a_scan(
    spark: SparkSession, golden: Callable[[str, str], Path]
) -> None:
    path = golden("1.2.0", "timetravel_mor")
    table = bf.open(path)
    first, second = table.timeline.writes.completed.instants[:2]
    name = table.schema.names[1]
    bs.register(spark)
    for options, ours in (
        (
            {"columns": f"{name}, {table.schema.names[0]}"},
            {"columns": [name, table.schema.names[0]]},
        ),
        ({"as_of": first.requested_time}, {"as_of": first.requested_time}),
        ({"read_optimized": "true"}, {"read_optimized": True}),
        ({"meta_columns": "TRUE"}, {"meta_columns": True}),
    ):
        assert rows_of(load(spark, path, **options)) == rows_of(bs.read(spark, path, **ours))
    since = str(first.completion_time)
    changed = load(spark, path, since=since, until=str(second.completion_time))
    assert rows_of(changed) == rows_of(bs.changes(spark, path, since, second.completion_time))


def test_wrong_options_are_told(spark: SparkSession, golden: Callable[[str, str], Path]) -> None:
    path = golden("1.2.0", "cow")
    bs.register(spark)
    for options, message in (
        ({"colums": "a"}, "has no option colums"),
        ({"read_optimized": "yes"}, "read_optimized is true or false"),
        ({"since": "20240101000000000", "as_of": "20240101000000000"}, "read changes"),
        ({"columns": "nope"}, "no column 'nope'"),
    ):
        with pytest.raises(Exception, match=message):
            load(spark, path, **options).count()
    with pytest.raises(Exception, match="no path"):
        spark.read.format("bucketfmt").load().count()


def make_stream_table(path: Path) -> bf.Table:
    return bf.create(
        path,
        schema=pa.schema({"id": pa.string(), "v": pa.int64()}),
        record_key=["id"],
        index=bf.SimpleBucketIndex(2),
        table_type="MERGE_ON_READ",
    )


def upsert(table: bf.Table, first: int, count: int) -> None:
    ids = [f"k{n}" for n in range(first, first + count)]
    table.upsert(pa.table({"id": ids, "v": pa.array(range(first, first + count))}))


def run(spark: SparkSession, path: Path, checkpoint: Path, seen: list[Any], **options: str) -> None:
    """Read what there is, batch by batch, each kept with its number."""

    def keep(frame: DataFrame, number: int) -> None:
        seen.append((number, sorted(map(tuple, frame.collect()))))

    stream = spark.readStream.format("bucketfmt").options(**options).load(str(path))
    query = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()


@pytest.mark.rotated(0, among="streams of Spark", one_of=3)
def test_a_stream_reads_each_commit_once_and_goes_on_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make_stream_table(tmp_path / "t")
    upsert(table, 0, 3)
    upsert(table, 10, 2)
    upsert(table, 0, 1)
    bs.register(spark)
    seen: list[Any] = []
    run(spark, tmp_path / "t", tmp_path / "c", seen, maxFilesPerTrigger="1")
    assert [number for number, _ in seen] == [0, 1, 2], (
        "a commit a batch, though each has more files"
    )
    assert [rows for _, rows in seen] == [
        [("k0", 0), ("k1", 1), ("k2", 2)],
        [("k10", 10), ("k11", 11)],
        [("k0", 0)],
    ]
    run(spark, tmp_path / "t", tmp_path / "c", seen)
    assert len(seen) == 3, "nothing is new"
    upsert(table, 20, 1)
    upsert(table, 21, 1)
    run(spark, tmp_path / "t", tmp_path / "c", seen)
    assert seen[3:] == [(3, [("k20", 20), ("k21", 21)])]


@pytest.mark.rotated(0, among="streams of Spark", one_of=3)
def test_a_batch_that_failed_is_read_again_the_same(spark: SparkSession, tmp_path: Path) -> None:
    table = make_stream_table(tmp_path / "t")
    upsert(table, 0, 3)
    bs.register(spark)
    seen: list[Any] = []

    def fail(frame: DataFrame, number: int) -> None:
        seen.append((number, sorted(map(tuple, frame.collect()))))
        raise RuntimeError("the sink failed")

    stream = spark.readStream.format("bucketfmt").load(str(tmp_path / "t"))
    failing = stream.writeStream.foreachBatch(fail).trigger(availableNow=True)
    with pytest.raises(Exception, match="the sink failed"):
        failing.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination()
    upsert(table, 0, 1)
    upsert(table, 7, 1)
    run(spark, tmp_path / "t", tmp_path / "c", seen)
    first, again, rest = seen
    assert again == first == (0, [("k0", 0), ("k1", 1), ("k2", 2)])
    assert rest == (1, [("k0", 0), ("k7", 7)])


def test_before_version_8_a_stream_waits_for_what_is_pending(
    golden: Callable[[str, str], Path],
) -> None:
    """A write that was requested earlier may complete later: its rows must not be passed by."""
    table = bf.open(golden("0.15.0", "uncommitted_mor"))
    moments = [commit.moment for commit in find_commits(table, "")]
    pending = [
        row["requested_time"]
        for row in table.inspect.commits().to_pylist()
        if row["state"] != "COMPLETED"
    ]
    assert moments
    assert pending
    assert max(moments) < min(pending)
    assert find_commits(table, max(moments)) == []


def test_before_version_8_a_stream_does_not_wait_for_a_clustering(
    golden_copy: Callable[[str, str], Path],
) -> None:
    """It has no new rows, and may be pending for long."""
    table = bf.open(golden_copy("0.15.0", "ch_pending"))
    (planned,) = (i.requested_time for i in table.timeline.pending.instants)
    written = table.upsert(table.to_arrow().slice(0, 3)).instant
    assert written > planned
    assert find_commits(table, planned)[-1].moment == written
