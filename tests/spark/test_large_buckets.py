"""A bucket that is larger than a task should be is read in parts."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import bucketfmt as bf
import bucketfmt_spark as bs
from bucketfmt_spark.engine import tasks
from tests.same_rows import assert_same
from tests.table.row_groups import make_table


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
