"""Tables that real Hudi wrote, read as DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import bucketfmt as bf
import bucketfmt_spark as bs
from bucketfmt_spark.engine.spark_types import arrow_for_spark
from tests.same_rows import assert_same
from tests.spark.tables import make_table, rows_of

# Among them: every type there is, logs of each kind, renamed columns, virtual keys, a ring.
TABLES = [
    ("0.15.0", "mor"),
    ("0.15.0", "uncommitted_mor"),
    ("1.0.2", "nbcc"),
    ("1.2.0", "cow"),
    ("1.2.0", "mor"),
    ("1.2.0", "ch_split"),
    ("1.2.0", "evolved_ids_mor"),
    ("1.2.0", "nested_mor"),
    ("1.2.0", "parquet_log"),
    ("1.2.0", "virtual_mor"),
]


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(("version", "name"), TABLES)
def test_spark_has_the_rows_and_types_that_hudi_has(
    spark: SparkSession,
    golden: Callable[[str, str], Path],
    golden_expected: Callable[..., pa.Table],
    version: str,
    name: str,
) -> None:
    found = bs.read(spark, golden(version, name), meta_columns=not name.startswith("virtual"))
    hudis = golden_expected(version, name)
    assert_same(
        found.toArrow(), hudis.select([c for c in hudis.column_names if c in found.columns])
    )
    assert len(found.columns) >= len(hudis.column_names) - 5


def test_reading_is_pruned_on_the_driver_and_moves_nothing(
    spark: SparkSession, golden: Callable[[str, str], Path]
) -> None:
    path = golden("1.2.0", "mor")
    table = bf.open(path)
    frame = bs.read(spark, path, ["price", "id"], [("region", "=", "eu")])
    assert frame.columns == ["price", "id"]
    assert bs.read(spark, path, "price").columns == ["price"]
    with pytest.raises(TypeError, match="columns is a list of texts, and 1 is not text"):
        bs.read(spark, path, [1])  # type: ignore[list-item]
    plan = str(frame._jdf.queryExecution().executedPlan().toString())
    assert "Exchange" not in plan
    of_scan = table.scan(["price", "id"], [("region", "=", "eu")]).plan()
    assert f"bucketfmt scan: {of_scan}; columns price, id" in plan
    assert of_scan.partitions_pruned
    assert_same(frame.toArrow(), table.scan(["price", "id"], [("region", "=", "eu")]).to_arrow())
    nothing = bs.read(spark, path, filter=[("region", "=", "nowhere")])
    assert nothing.collect() == []
    assert nothing.rdd.getNumPartitions() <= 1, "no partition, and so no task, is left"
    expression = bs.read(spark, path, filter=pc.field("price") > 0)
    assert expression.count() == table.scan(filter=pc.field("price") > 0).count()


def test_other_moments_are_read(spark: SparkSession, golden: Callable[[str, str], Path]) -> None:
    path = golden("1.2.0", "timetravel_mor")
    table = bf.open(path)
    first, second = table.timeline.writes.completed.instants[:2]
    for ours, core in (
        (bs.read(spark, path, as_of=first.requested_time), table.scan(as_of=first.requested_time)),
        (bs.read(spark, path, read_optimized=True), table.scan(read_optimized=True)),
        (
            bs.changes(spark, path, first.completion_time, second.completion_time),
            table.changes(first.completion_time, second.completion_time),
        ),
        (bs.read_scan(spark, table.scan(meta_columns=True)), table.scan(meta_columns=True)),
    ):
        assert_same(ours.toArrow(), core.to_arrow())


def test_a_read_stays_as_it_was_planned(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b"], "v": pa.array([1, 2])})
    table = make_table(tmp_path / "t", rows, bf.SimpleBucketIndex(2), table_type="MERGE_ON_READ")
    frame = bs.read(spark, table.uri)
    table.upsert(pa.table({"id": ["a", "c"], "v": pa.array([7, 8])}))
    assert rows_of(frame) == [("'a'", "1"), ("'b'", "2")]
    assert rows_of(bs.read(spark, table.uri)) == [("'a'", "7"), ("'b'", "2"), ("'c'", "8")]


def test_every_arrow_type_that_a_table_has(spark: SparkSession, tmp_path: Path) -> None:
    moment = datetime(2024, 2, 29, 23, 59, 59, 123456)
    columns = {
        "id": pa.array(["a", "b"]),
        "flag": pa.array([True, None]),
        "small": pa.array([-(2**31), None], pa.int32()),
        "big": pa.array([2**63 - 1, None], pa.int64()),
        "single": pa.array([1.5, None], pa.float32()),
        "double": pa.array([float("nan"), None]),
        "money": pa.array([Decimal("-12345678901234567890.12"), None], pa.decimal128(38, 2)),
        "raw": pa.array([b"\x00\xff", None]),
        "day": pa.array([moment.date(), None]),
        "at": pa.array([moment, None], pa.timestamp("us", "UTC")),
        "local": pa.array([moment, None], pa.timestamp("us")),
        "list": pa.array([[1, None], None], pa.list_(pa.int32())),
        "map": pa.array([[("k", None)], None], pa.map_(pa.string(), pa.float64())),
        "nested": pa.array(
            [{"x": [{"y": moment}]}, None],
            pa.struct([("x", pa.list_(pa.struct([("y", pa.timestamp("us", "UTC"))])))]),
        ),
    }
    table = make_table(tmp_path / "t", pa.table(columns), bf.SimpleBucketIndex(1))
    found = bs.read(spark, table.uri)
    assert_same(found.toArrow(), pa.table(columns))
    simple = "string boolean int bigint float double decimal(38,2) binary date timestamp"
    assert [f.dataType.simpleString() for f in found.schema][:10] == simple.split()
    assert found.schema["local"].dataType.simpleString() == "timestamp_ntz"


def test_types_that_spark_has_not() -> None:
    schema = pa.schema({"t": pa.time32("ms"), "u": pa.time64("us"), "f": pa.binary(4)})
    assert arrow_for_spark(schema).types == [pa.int32(), pa.int64(), pa.binary()]
    with pytest.raises(bf.UnsupportedError, match="Spark has no type for decimal256"):
        arrow_for_spark(pa.schema({"wide": pa.decimal256(60, 2)}))


def test_a_damaged_file_is_told_by_the_job_that_reads_it(
    spark: SparkSession, golden_copy: Callable[[str, str], Path]
) -> None:
    path = golden_copy("1.2.0", "cow")
    newest = bf.open(path).scan().plan().slices[0].base_file
    assert newest is not None
    (path / newest.path).write_bytes(b"PAR1")
    with pytest.raises(Exception, match=newest.path):
        bs.read(spark, path).count()
