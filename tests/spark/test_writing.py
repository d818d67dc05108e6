"""Rows of DataFrames in tables: what is written, by how many exchanges, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import bucketfmt as bf
import bucketfmt_spark as bs
from bucketfmt_spark import writing
from bucketfmt_spark.engine.failures import find_cause
from tests.write.models import SCHEMA, Model, assert_reads_as, rows

KINDS: dict[str, dict[str, Any]] = {
    "cow": {"index": bf.SimpleBucketIndex(4)},
    "mor": {"index": bf.SimpleBucketIndex(4), "table_type": "MERGE_ON_READ"},
    "flat": {"index": bf.SimpleBucketIndex(3), "partition_by": []},
    "rules": {"index": bf.PartitionBucketIndex(2, "us,3;eu,5")},
    "ring": {"index": bf.ConsistentHashingIndex(4), "table_type": "MERGE_ON_READ"},
    "version 6": {"index": bf.SimpleBucketIndex(4), "table_version": 6},
}


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> bf.Table:
    return make(tmp_path, request.param)


def make(tmp_path: Path, kind: str) -> bf.Table:
    given = {"partition_by": ["region"], **KINDS[kind]}
    return bf.create(
        str(tmp_path / "t"), schema=SCHEMA, record_key=["id"], ordering=["ts"], **given
    )


@pytest.mark.rotated(1, one_of=4)
def test_all_operations(spark: SparkSession, table: bf.Table) -> None:
    model = Model()
    for operation, given in (
        ("insert", rows(range(60), ts=1)),
        ("upsert", rows(range(40, 90), ts=2, price=2.0)),
        ("upsert", rows(range(5), ts=0, price=9.0)),
    ):
        result = bs.write(spark.createDataFrame(given), table.uri, operation)  # type: ignore[arg-type]
        assert result.operation == operation.upper()
        model.upsert(given)
    gone = rows(range(10, 20), ts=0)
    keys = spark.createDataFrame(gone.select(["id", "region"]))
    bs.write(keys, table.uri, "delete")
    model.delete(gone["id"].to_pylist())
    assert_reads_as(table.uri, model)
    if not isinstance(table.index, bf.ConsistentHashingIndex):
        given = rows([n for n in range(200, 240) if n % 3 == 0], ts=1)
        result = bs.write(spark.createDataFrame(given), table.uri, "insert_overwrite")
        assert result.file_groups_replaced > 0
        if table.config.partition_fields:
            model.drop("us")
        else:
            model = Model()
        model.upsert(given)
        assert_reads_as(table.uri, model)


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize("kind", ["cow", "flat", "rules"])
def test_one_exchange_and_one_job(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    frame = spark.createDataFrame(rows(range(50), ts=1))
    placed = writing.place_rows(frame, table)
    assert placed._jdf.queryExecution().executedPlan().toString().count("Exchange") == 1
    counted = spark.sparkContext.accumulator(0)

    def count(batches: Any) -> Any:
        for batch in batches:
            counted.add(batch.num_rows)
            yield batch

    bs.write(frame.mapInArrow(count, frame.schema), table.uri, "bulk_insert")
    assert counted.value == 50
    assert bf.open(table.uri).scan().count() == 50


@pytest.mark.rotated(1, one_of=3)
def test_a_bucket_is_one_task(spark: SparkSession, table: bf.Table) -> None:
    placed = writing.place_rows(spark.createDataFrame(rows(range(300), ts=1)), table, 12)
    found = placed.withColumn("task", sf.spark_partition_id()).toArrow()
    assigned = table.pinned().assign(found)
    of_bucket: dict[tuple[str, int], set[int]] = {}
    for path, bucket, task in zip(
        assigned["partition_path"].to_pylist(),
        assigned["bucket_id"].to_pylist(),
        found["task"].to_pylist(),
        strict=True,
    ):
        of_bucket.setdefault((path, bucket), set()).add(task)
    assert all(len(tasks) == 1 for tasks in of_bucket.values())
    if not table.config.partition_fields:
        of_own = {bucket: tasks for (_, bucket), tasks in of_bucket.items()}
        assert of_own == {bucket: {bucket} for bucket in range(3)}


def test_what_was_read_can_be_written_and_columns_be_added(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(tmp_path, "cow")
    table.upsert(rows(range(30), ts=1))
    frame = bs.read(spark, table.uri, meta_columns=True)
    more = frame.withColumn("ts", sf.col("ts") + 1).withColumn("at", sf.lit(5).cast("timestamp"))
    more = more.withColumn("tags", sf.array(sf.lit("x")))
    with pytest.raises(bf.SchemaError, match="lacks columns that the rows have: at, tags"):
        bs.write(more, table.uri)
    result = bs.write(more, table.uri, evolve=True)
    assert result.schema_changes == (
        "at: added, timestamp[us, tz=UTC]",
        "tags: added, list<element: string>",
    )
    found = bf.open(table.uri).scan().to_arrow()
    assert found["ts"].to_pylist() == [2] * 30
    assert found["tags"].to_pylist() == [["x"]] * 30
    assert {moment.timestamp() for moment in found["at"].to_pylist()} == {5.0}


@pytest.mark.rotated(0)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_columns_that_rows_lack_are_kept(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    given, model = rows(range(30), ts=1), Model()
    bs.write(spark.createDataFrame(given), table.uri)
    known = spark.createDataFrame(rows(range(20, 40), ts=2)).drop("name", "price")
    bs.write(known, table.uri, missing="keep")
    stored = {row["id"]: row for row in given.to_pylist()}
    expected = rows(range(20, 40), ts=2).to_pylist()
    for row in expected:
        kept = stored.get(row["id"], {"name": None, "price": None})
        row.update(name=kept["name"], price=kept["price"])
    model.upsert(given)
    model.upsert(pa.Table.from_pylist(expected, SCHEMA))
    assert_reads_as(table.uri, model)


def test_a_text_in_a_column_of_numbers_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, "cow")
    table.upsert(rows(range(30), ts=1))
    text = spark.createDataFrame(rows([1], ts=2)).withColumn("ts", sf.lit("2"))
    with pytest.raises(bf.SchemaError, match="column ts is int64 in the table, and string"):
        bs.write(text, table.uri, evolve=True)
    assert bf.open(table.uri).schema == SCHEMA


def test_rows_larger_than_memory_is_given(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, "cow")
    given = rows(range(3000), ts=1)
    monkeypatch.setattr("bucketfmt_spark.engine.tasks.TaskContext", _OneTask)
    monkeypatch.setattr("bucketfmt.write.rows.grouping._BYTES_IN_MEMORY", 10_000)
    with table.start_write("upsert", SCHEMA) as started:
        batches = iter(given.to_batches(max_chunksize=100))
        result = started.publish(writing.write_batches(started.task, batches))
    assert result.rows_inserted == 3000
    model = Model()
    model.upsert(given)
    assert_reads_as(table.uri, model)


class _OneTask:
    @classmethod
    def get(cls) -> _OneTask:
        return cls()

    def partitionId(self) -> int:  # noqa: N802
        return 0

    stageId = taskAttemptId = partitionId  # noqa: N815


def leaves_no_trace(table: bf.Table) -> bool:
    root = Path(table.uri)
    found = [path for path in root.rglob("*.parquet") if path.is_file()]
    return not bf.open(table.uri).timeline.instants and not found


def test_bad_rows_are_typed_errors_and_nothing_is_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(tmp_path, "cow")
    good = spark.createDataFrame(rows(range(20), ts=1))
    null_key = good.withColumn("id", sf.when(sf.col("ts") < 1, sf.col("id")))
    for bad, kind, message in (
        (null_key, bf.KeyEncodingError, "id are null or empty"),
        (good.drop("price"), bf.SchemaError, "lack the columns price"),
        (good.withColumn("price", sf.lit(True)), bf.SchemaError, "column price"),
        (good.withColumn("region", sf.lit("../x")), bf.UnsafePathError, "x"),
        (good.withColumn("gap", sf.expr("interval 1 day")), bf.UnsupportedError, "interval"),
    ):
        with pytest.raises(kind, match=message):
            bs.write(bad, table.uri)
    with pytest.raises(bf.SchemaError, match="no column region"):
        bs.write(good.select("id"), table.uri, "delete")
    for tasks in ("2", 1.5, True):
        with pytest.raises(TypeError, match="num_tasks is an integer"):
            bs.write(good, table.uri, num_tasks=tasks)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="operation is one of upsert"):
        bs.write(good, table.uri, "merge")  # type: ignore[arg-type]
    assert leaves_no_trace(table)
    bs.write(good, table.uri)
    with pytest.raises(ValueError, match="bulk_insert into bucket"):
        bs.write(good, table.uri, "bulk_insert")
    assert len(bf.open(table.uri).timeline.instants) == 1


def test_null_keys_where_the_kernel_places_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, "rules")
    bad = spark.createDataFrame(rows(range(20), ts=1)).withColumn("id", sf.lit(""))
    with pytest.raises(bf.KeyEncodingError, match="null or empty"):
        bs.write(bad, table.uri)
    assert leaves_no_trace(table)


def test_an_error_of_the_users_own_stays_sparks(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, "cow")

    def fail(batches: Any) -> Any:
        raise ZeroDivisionError("mine")

    frame = spark.createDataFrame(rows(range(20), ts=1))
    with pytest.raises(Exception, match="ZeroDivisionError: mine"):
        bs.write(frame.mapInArrow(fail, frame.schema), table.uri)
    assert leaves_no_trace(table)


def test_a_concurrent_commit(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, "cow")
    table.upsert(rows(range(30), ts=1))
    uri, overtaken = table.uri, tmp_path / "overtaken"

    def overtake(batches: Any) -> Any:
        if not overtaken.exists():
            overtaken.touch()
            bf.open(uri).upsert(rows(range(30), ts=2))
        yield from batches

    frame = spark.createDataFrame(rows(range(30), ts=3)).coalesce(1)
    slow = frame.mapInArrow(overtake, frame.schema)
    with pytest.raises(bf.ConflictError, match="also changes bucket"):
        bs.write(slow, uri, retries=0)
    assert set(bf.open(uri).scan().to_arrow()["ts"].to_pylist()) == {2}
    overtaken.unlink()
    assert bs.write(slow, uri).rows_updated == 30
    assert set(bf.open(uri).scan().to_arrow()["ts"].to_pylist()) == {3}
    assert not bf.open(uri).timeline.pending.instants


def test_one_idempotency_key_commits_once(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, "cow")
    frame = spark.createDataFrame(rows(range(30), ts=1))
    first = bs.write(frame, table.uri, idempotency_key="a", commit_metadata={"job": "7"})
    again = bs.write(frame, table.uri, idempotency_key="a")
    assert again.repeated
    assert again.instant == first.instant
    assert len(bf.open(table.uri).timeline.instants) == 1


def test_causes_are_found_in_what_spark_says() -> None:
    for text, kind in {
        "x\nModuleNotFoundError: No module named 'bucketfmt_spark'": bs.ExecutorError,
        "x\nbucketfmt.errors.CorruptError: a/b: cut": bf.CorruptError,
        "x\nbucketfmt.errors.NoSuchError: a": type(None),
        "[USER_RAISED_EXCEPTION] the record key fields id are null or empty; Hudi takes no such "
        "row SQLSTATE: P0001": bf.KeyEncodingError,
        "java.lang.RuntimeException: the record key fields id are null or empty; Hudi takes no "
        "such row\n\tat x": bf.KeyEncodingError,
        'File "/x/bucketfmt/write/a.py", line 3, in f\n    x\nValueError: no': ValueError,
        'File "/x/mine.py", line 3, in f\n    x\nValueError: no': type(None),
        "": type(None),
    }.items():
        assert type(find_cause(text)) is kind, text
    printed = (
        "'Project [raise_error(the record key fields id are null or empty; Hudi takes no such row"
    )
    assert find_cause(f"{printed} SQLSTATE", is_of_plan=True) is None
    assert (
        type(find_cause("x\nbucketfmt.errors.CorruptError: a", is_of_plan=True)) is bf.CorruptError
    )
