"""Other buckets by tasks on executors, while others write, and when a task fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import bucketfmt as bf
import bucketfmt_spark as bs
from bucketfmt_spark.table_services import buckets
from tests.spark.test_writing import make
from tests.write.models import Model, assert_reads_as, create_table, rows


def test_what_others_write_meanwhile_is_executed_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, model = make(tmp_path, "mor"), Model()
    model.upsert(given := rows(range(60), ts=1))
    table.upsert(given)
    rounds = []
    execute = buckets._execute

    def execute_and_write(
        session: SparkSession, task: bf.RewriteTask, payloads: list[bytes]
    ) -> list[list[bytes]]:
        receipts = execute(session, task, payloads)
        if not rounds:
            model.upsert(given := rows([7, 1000], ts=2, price=5.0))
            bf.open(table.uri).upsert(given)
        rounds.append(len(payloads))
        return receipts

    monkeypatch.setattr(buckets, "_execute", execute_and_write)
    result = bs.rehash(spark, table.uri, 8)
    assert result is not None
    assert result.file_groups_replaced == 12
    assert rounds[0] == 12
    assert len(rounds) == 2
    assert 1 <= rounds[1] <= 2  # the buckets of the two rows
    assert_reads_as(table.uri, model)
    assert bf.open(table.uri).index == bf.SimpleBucketIndex(8, ("id",))
    assert bf.open(table.uri).check(depth="full").status == "clean"
    assert bs.rehash(spark, table.uri, 8) is None


def test_a_rehash_whose_task_fails_leaves_the_table_as_it_was(
    spark: SparkSession, tmp_path: Path
) -> None:
    table, model = make(tmp_path, "cow"), Model()
    model.upsert(given := rows(range(60), ts=1))
    table.upsert(given)
    file = next(Path(table.uri).glob("us/*.parquet"))
    whole = file.read_bytes()
    file.write_bytes(whole[:20] + bytes(200) + whole[220:])
    with pytest.raises(bf.CorruptError, match="us/"):
        bs.rehash(spark, table.uri, 8)
    file.write_bytes(whole)
    assert not bf.open(table.uri).timeline.pending.instants
    assert bf.open(table.uri).index == bf.SimpleBucketIndex(4, ("id",))
    assert_reads_as(table.uri, model)


def test_rings_are_resized_and_a_failed_resize_is_executed_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    table, model = make(tmp_path, "ring"), Model()
    model.upsert(given := rows(range(60), ts=1))
    table.upsert(given)
    table.compact()
    file = next(Path(table.uri).glob("us/*.parquet"))
    whole = file.read_bytes()
    file.write_bytes(whole[:20] + bytes(200) + whole[220:])
    with pytest.raises(bf.CorruptError, match="us/"):
        bs.resize(spark, table.uri, max_file_size=1, max_buckets=8)
    assert [i.action for i in table.timeline.pending.instants] == ["clustering"]
    file.write_bytes(whole)
    result = bs.resize(spark, table.uri)
    assert result is not None
    assert result.file_groups_replaced == 12
    assert table.inspect.buckets().num_rows == 24
    assert not table.timeline.pending.instants
    assert_reads_as(table.uri, model)


def test_a_resize_of_directories_that_is_overtaken_is_begun_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, model = create_table(str(tmp_path / "t"), bf.ExtendibleHashingIndex(1)), Model()
    model.upsert(given := rows(range(60), ts=1))
    table.upsert(given)
    instants = []
    execute = buckets._execute

    def execute_and_replace(
        session: SparkSession, task: bf.RewriteTask, payloads: list[bytes]
    ) -> list[list[bytes]]:
        receipts = execute(session, task, payloads)
        if not instants:
            model.drop("us")
            model.upsert(given := rows([n for n in range(200, 240) if n % 3 == 0], ts=2))
            bf.open(table.uri).insert_overwrite(given)
        instants.append(task.instant)
        return receipts

    monkeypatch.setattr(buckets, "_execute", execute_and_replace)
    result = bs.resize(spark, table.uri, max_file_size=1, max_buckets=8)
    assert result is not None
    assert len({*instants}) == 2, "begun twice"
    assert_reads_as(table.uri, model)
    assert bf.open(table.uri).check(depth="full").status == "clean"
    assert not bf.open(table.uri).timeline.pending.instants
