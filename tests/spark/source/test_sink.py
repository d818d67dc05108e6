"""`df.write.format("bucketfmt")` and `writeStream`: what is written, refused and taken back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import bucketfmt as bf
import bucketfmt_spark as bs
from bucketfmt_spark.engine.spark_types import arrow_for_spark, spark_schema
from bucketfmt_spark.source.datasource import BucketfmtSource
from tests.spark.test_writing import leaves_no_trace, make
from tests.write.models import SCHEMA, Model, assert_reads_as, rows


@pytest.fixture(autouse=True)
def registered(spark: SparkSession) -> None:
    bs.register(spark)


def save(df: DataFrame, uri: str, mode: str = "append", **options: str) -> None:
    df.write.format("bucketfmt").mode(mode).options(**options).save(uri)


def pending(uri: str) -> tuple[Any, ...]:
    return bf.open(uri).timeline.pending.instants


@pytest.mark.rotated(0)
@pytest.mark.parametrize("kind", ["cow", "ring"])
def test_all_operations(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    uri, model = table.uri, Model()
    for operation, given in (
        ("bulk_insert", rows(range(40), ts=1)),
        ("insert", rows(range(40, 60), ts=1)),
        ("upsert", rows(range(30, 90), ts=2, price=2.0)),
    ):
        save(bs.place_rows(spark.createDataFrame(given), uri), uri, operation=operation)
        model.upsert(given)
        assert table.inspect.commits().to_pylist()[-1]["operation_type"] == operation.upper()
    gone = rows(range(10, 20), ts=0)
    keys = spark.createDataFrame(gone.select(["id", "region"]))
    save(bs.place_rows(keys, table), uri, operation="delete")
    model.delete(gone["id"].to_pylist())
    assert_reads_as(uri, model)
    if kind != "ring":
        one = rows(range(0, 9, 3), ts=1)  # of one partition
        save(spark.createDataFrame(one).coalesce(1), uri, operation="insert_overwrite")
        model.drop("us")
        model.upsert(one)
        assert_reads_as(uri, model)
        save(spark.createDataFrame(one).coalesce(1), uri, "overwrite", codec="snappy")
        model = Model()
        model.upsert(one)
        assert_reads_as(uri, model)
        file = table.scan().plan().slices[0].base_file
        assert file is not None
        footer = pq.read_metadata(Path(uri, file.path))
        assert footer.row_group(0).column(0).compression == "SNAPPY"


def test_what_was_read_can_be_written_and_a_key_commits_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(tmp_path, "mor")
    given = rows(range(30), ts=1)
    table.upsert(given)
    read = bs.read(spark, table.uri, meta_columns=True).withColumn("ts", sf.col("ts") + 1)
    for _ in range(2):
        options = {"idempotency_key": "a", "lock": "storage", "log_format": "parquet"}
        save(read.coalesce(1), table.uri, **options)
    assert table.scan().to_arrow()["ts"].to_pylist() == [2] * 30
    assert len(table.timeline.instants) == 2


def test_columns_are_named_in_any_case(spark: SparkSession, tmp_path: Path) -> None:
    """As for `write`: by the table, of which each is a column."""
    table, model = make(tmp_path, "cow"), Model()
    table.upsert(given := rows(range(30), ts=1))
    model.upsert(given)
    changed = rows(range(20, 40), ts=2, price=2.0)
    frame = spark.createDataFrame(changed)
    named = frame.toDF(*[name.upper() for name in frame.columns])
    save(bs.place_rows(named, table), table.uri)
    save(named.coalesce(1), table.uri, missing="keep", evolve="true")
    model.upsert(changed)
    assert_reads_as(table.uri, model)
    assert bf.open(table.uri).schema.names == table.schema.names


def test_options_for_columns(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, "cow")
    table.upsert(rows(range(3), ts=1))
    frame = spark.createDataFrame(rows(range(3), ts=2)).coalesce(1)
    fewer = frame.drop("name").withColumn("x", sf.lit(1))
    save(fewer, table.uri, evolve="true", missing="keep")
    found = bf.open(table.uri).scan().to_arrow()
    assert found["x"].to_pylist() == [1, 1, 1]
    assert sorted(map(str, found["name"].to_pylist())) == ["None", "näme 1", "näme 2"]


def test_rows_of_a_bucket_in_two_tasks_are_refused_and_taken_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(tmp_path, "cow")
    spread = spark.createDataFrame(rows(range(60), ts=1)).repartition(3)
    with pytest.raises(Exception, match=r"both had rows of .*place_rows\(df, uri\)"):
        save(spread, table.uri)
    assert leaves_no_trace(table)
    save(bs.place_rows(spread, table.uri), table.uri)
    assert bf.open(table.uri).scan().count() == 60


def test_what_cannot_be_written_is_refused_and_leaves_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(tmp_path, "cow")
    good = spark.createDataFrame(rows(range(20), ts=1)).coalesce(1)
    null_key = good.withColumn("id", sf.when(sf.col("ts") < 1, sf.col("id")))
    for df, mode, options, message in (
        (null_key, "append", {}, r"KeyEncodingError: .*id are null or empty"),
        (good.drop("price"), "append", {}, r"SchemaError: .*lack the columns price"),
        (good.withColumn("x", sf.lit(1)), "append", {}, r"SchemaError: .*rows have: x"),
        (good, "append", {"evolve": "yes"}, "evolve is true or false"),
        (good, "append", {"missing": "drop"}, "missing is error, null or keep"),
        (good, "append", {"operation": "merge"}, "no operation 'merge'"),
        (good, "overwrite", {"operation": "upsert"}, "upsert contradict each other"),
        (good, "append", {"columns": "id"}, "has no option columns"),
        (good, "append", {"lock": "process"}, "lock is one of auto, storage"),
        (good, "append", {"codec": "lzo"}, "codec is zstd, snappy, gzip or none"),
    ):
        with pytest.raises(Exception, match=message):
            save(df, table.uri, mode, **options)
        assert leaves_no_trace(table)
    with pytest.raises(Exception, match="TableNotFoundError"):
        save(good, str(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()


def in_rows(df: DataFrame, act: Callable[[], object]) -> DataFrame:
    """Do something where Spark computes the rows, in a task before those that write."""

    def run(batches: Any) -> Any:
        act()
        yield from batches

    return df.mapInArrow(run, df.schema)


def test_a_write_that_nothing_kept_alive_goes_on_unless_it_was_taken_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    """An exchange before the writing tasks may last longer than a heartbeat counts."""
    table = make(tmp_path, "cow")
    uri, folder = table.uri, Path(table.uri, ".hoodie/.heartbeat")
    df = spark.createDataFrame(rows(range(30), ts=1)).coalesce(1)

    def grow_old() -> None:
        for beat in folder.glob("*"):
            os.utime(beat, (0, 0))

    def be_taken_back() -> None:
        grow_old()
        bf.open(uri).upsert(rows(range(5), ts=2))

    save(bs.place_rows(in_rows(df, grow_old), uri), uri)
    assert bf.open(uri).scan().to_arrow()["ts"].to_pylist() == [1] * 30
    with pytest.raises(Exception, match=r"ConflictError: the write of \d+ has ended"):
        save(bs.place_rows(in_rows(df, be_taken_back), uri), uri)
    assert sorted(bf.open(uri).scan().to_arrow()["ts"].to_pylist()) == [1] * 25 + [2] * 5
    assert not pending(uri)
    assert not list(folder.glob("*"))


def test_a_concurrent_commit_is_a_conflict(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, "mor")
    table.upsert(rows(range(30), ts=1))
    uri = table.uri
    df = spark.createDataFrame(rows(range(30), ts=3)).coalesce(1)
    overtaken = in_rows(df, lambda: bf.open(uri).upsert(rows(range(30), ts=2)))
    with pytest.raises(Exception, match=r"ConflictError: .*also changes"):
        save(overtaken, uri)
    assert set(bf.open(uri).scan().to_arrow()["ts"].to_pylist()) == {2}
    assert not pending(uri)


class Stream:
    """Files that arrive, and a query that writes them to a table."""

    def __init__(self, spark: SparkSession, folder: Path, uri: str) -> None:
        self.spark, self.folder, self.uri = spark, folder, uri
        self.model = Model()
        (folder / "source").mkdir()

    def arrives(self, number: int) -> None:
        given = rows(range(20 * number, 20 * number + 30), ts=number, price=float(number))
        pq.write_table(given, self.folder / "source" / f"{number}.parquet")
        self.model.upsert(given)

    def run(self, kind: str = "bucketfmt", checkpoint: str = "checkpoint", **options: str) -> None:
        stream = self.spark.readStream.schema(spark_schema(arrow_for_spark(SCHEMA)))
        rows = stream.option("maxFilesPerTrigger", "1").parquet(str(self.folder / "source"))
        writing = bs.place_rows(rows, self.uri).writeStream.format(kind).options(**options)
        query = writing.option("checkpointLocation", str(self.folder / checkpoint)).trigger(
            availableNow=True
        )
        query.start(self.uri).awaitTermination()

    def crash_before_it_is_noted(self, batch: int) -> None:
        """Leave the checkpoint as a driver does that dies once the sink has committed."""
        for note in (self.folder / "checkpoint/commits").glob(f"*{batch}*"):
            note.unlink()


@pytest.mark.rotated(0, among="streams of Spark", one_of=3)
def test_a_stream_writes_each_batch_once(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, "cow")
    stream = Stream(spark, tmp_path, table.uri)
    stream.arrives(0)
    stream.arrives(1)
    stream.run()
    assert_reads_as(table.uri, stream.model)
    assert len(table.timeline.instants) == 2
    stream.crash_before_it_is_noted(1)
    stream.arrives(2)
    stream.run()
    assert (tmp_path / "checkpoint/commits/1").exists(), "it was repeated"
    assert_reads_as(table.uri, stream.model)
    assert len(table.timeline.instants) == 3
    # Another query, whose batches have the same numbers.
    stream.run(checkpoint="another")
    assert len(table.timeline.instants) == 6


def test_a_batch_that_failed_once_it_was_published_is_not_taken_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(tmp_path, "mor")

    class Dying(BucketfmtSource):
        @classmethod
        def name(cls) -> str:
            return "dying"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
            sink = super().streamWriter(schema, overwrite)
            commit = sink.commit

            def commit_and_die(messages: Any, batch: int) -> None:
                commit(messages, batch)
                raise RuntimeError("died once it was published")

            sink.commit = commit_and_die  # type: ignore[method-assign]
            return sink

    spark.dataSource.register(Dying)
    stream = Stream(spark, tmp_path, table.uri)
    stream.arrives(0)
    with pytest.raises(Exception, match="died once it was published"):
        stream.run("dying")
    assert_reads_as(table.uri, stream.model)
    stream.run()
    assert_reads_as(table.uri, stream.model)
    assert len(table.timeline.instants) == 1


def test_what_a_stream_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, "cow")
    stream = Stream(spark, tmp_path, table.uri)
    stream.arrives(0)
    with pytest.raises(Exception, match="makes its idempotency keys itself"):
        stream.run(idempotency_key="a")
    with pytest.raises(Exception, match="no operation 'merge'"):
        stream.run(operation="merge")
    assert leaves_no_trace(table)
