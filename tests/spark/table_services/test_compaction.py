"""Compaction on executors: what was logged becomes base files, by tasks that may fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import bucketfmt as bf
import bucketfmt_spark as bs
from tests.spark.test_writing import make
from tests.write.models import Model, assert_reads_as, rows


@pytest.mark.rotated(0)
@pytest.mark.parametrize("kind", ["mor", "ring"])
def test_what_was_logged_becomes_base_files(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table, model = make(tmp_path, kind), Model()
    for ts in (1, 2):
        model.upsert(given := rows(range(60), ts=ts, price=float(ts)))
        table.upsert(given)
    result = bs.compact(spark, table.uri)
    assert result is not None
    assert result.operation == "COMPACT"
    assert len(result.files) == 12
    slices = table.scan().plan().slices
    assert {len(file_slice.log_files) for file_slice in slices} == {0}
    assert_reads_as(table.uri, model)
    assert bs.compact(spark, table.uri) is None


def test_one_that_cannot_be_done_stays_pending(spark: SparkSession, tmp_path: Path) -> None:
    table, model = make(tmp_path, "mor"), Model()
    for ts in (1, 2):
        model.upsert(given := rows(range(60), ts=ts, price=float(ts)))
        table.upsert(given)
    file = next(Path(table.uri).glob("us/*.parquet"))
    whole = file.read_bytes()
    file.write_bytes(whole[:20] + bytes(200) + whole[220:])  # pages; the footer is read before
    with pytest.raises(bf.CorruptError, match="us/"):
        bs.compact(spark, table.uri)
    assert [i.action for i in table.timeline.pending.instants] == ["compaction"]
    file.write_bytes(whole)
    result = bs.compact(spark, table.uri)
    assert result is not None
    assert_reads_as(table.uri, model)
    assert not table.timeline.pending.instants
