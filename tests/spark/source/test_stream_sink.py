"""A stream into a table: each batch once, whatever Spark repeats."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import bucketfmt as bf
import bucketfmt_spark as bs
from bucketfmt_spark.engine.spark_types import arrow_for_spark, spark_schema
from tests.spark.test_writing import make
from tests.write.models import SCHEMA, Model, assert_reads_as, rows


@pytest.mark.rotated(0, among="streams of Spark", one_of=3)
def test_a_batch_that_is_repeated_after_a_crash_is_not_written_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    table, model = make(tmp_path, "cow"), Model()
    source = tmp_path / "source"
    source.mkdir()

    def arrives(number: int) -> None:
        given = rows(range(20 * number, 20 * number + 30), ts=number, price=float(number))
        pq.write_table(given, source / f"{number}.parquet")
        model.upsert(given)

    write = bs.batch_writer(table.uri, "orders")
    dies = [False]

    def write_and_die(batch: DataFrame, batch_id: int) -> None:
        write(batch, batch_id)
        if dies[0]:
            raise RuntimeError("the driver dies once it has committed")

    def run() -> None:
        stream = spark.readStream.schema(spark_schema(arrow_for_spark(SCHEMA)))
        query = (
            stream.parquet(str(source))
            .writeStream.foreachBatch(write_and_die)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    arrives(0)
    run()
    arrives(1)
    dies[0] = True
    with pytest.raises(Exception, match="the driver dies"):
        run()
    assert_reads_as(table.uri, model)
    assert len(table.timeline.instants) == 2
    dies[0] = False
    arrives(2)
    run()
    assert_reads_as(table.uri, model)
    commits = [bf.open(table.uri).find_commit(f"orders/{number}") for number in range(4)]
    assert [commit is not None for commit in commits] == [True, True, True, False]
    assert len(table.timeline.instants) == 3


@pytest.mark.rotated(1, among="streams of Spark", one_of=3)
def test_services_run_by_themselves_between_the_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    table, model = make(tmp_path, "mor"), Model()
    services = bf.Services(
        compact_after=2, clean=bf.Retention(retain=2), clean_after=2, archive=bf.ArchivePolicy(4, 6)
    )
    source = tmp_path / "source"
    source.mkdir()
    for number in range(8):
        given = rows(range(5 * number, 5 * number + 20), ts=number, price=float(number))
        pq.write_table(given, source / f"{number}.parquet")
        model.upsert(given)
    write = bs.batch_writer(table.uri, "orders", writer=bf.WriterConfig(services=services))
    query = (
        spark.readStream.schema(spark_schema(arrow_for_spark(SCHEMA)))
        .option("maxFilesPerTrigger", 1)
        .parquet(str(source))
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert_reads_as(table.uri, model)
    after = bf.open(table.uri)
    actions = [instant.action for instant in after.timeline.instants]
    assert {"commit", "clean", "deltacommit"} == set(actions)  # a commit is a compaction here
    assert len(actions) <= 8  # of eight batches and the services that followed them
    assert max(after.inspect.file_groups()["log_files"].to_pylist()) <= 2
    due = after.maintain(services, dry_run=True)
    assert (due.compaction, due.clean, due.archived) == (None, None, ())
    assert [f for f in after.check(depth="full").findings if f.severity != "info"] == []


def test_it_makes_the_key_itself(tmp_path: Path) -> None:
    table = make(tmp_path, "cow")
    with pytest.raises(ValueError, match="query is the name of the query, and '' is empty"):
        bs.batch_writer(table, "")
    with pytest.raises(ValueError, match="batch_writer makes the idempotency_key from query="):
        bs.batch_writer(table, "a", idempotency_key="b")
