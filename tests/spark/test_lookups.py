"""Where the keys of a DataFrame live, their rows, and the table checked, by the executors."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import bucketfmt as bf
import bucketfmt_spark as bs
from tests.same_rows import assert_same
from tests.spark.tables import make_table

TABLES = [("1.2.0", "mor"), ("1.2.0", "ch_split"), ("0.15.0", "cow"), ("1.2.0", "partrules")]


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(("version", "name"), TABLES)
def test_executors_locate_and_look_up_as_the_core_does(
    spark: SparkSession, golden: Callable[[str, str], Path], version: str, name: str
) -> None:
    table = bf.open(golden(version, name))
    columns = ["_hoodie_record_key", "_hoodie_partition_path"]
    keys = table.scan([], meta_columns=True).to_arrow().select(columns).slice(0, 40)
    unknown = pa.table({columns[0]: ["not-there"], columns[1]: keys.column(1).slice(0, 1)})
    keys = pa.concat_tables([keys, unknown.cast(keys.schema)])
    frame = spark.createDataFrame(keys)

    located = bs.locate(frame, table.uri)
    assert "Exchange" not in str(located._jdf.queryExecution().executedPlan().toString())
    assert_same(located.toArrow(), table.locate(keys))

    found = bs.lookup(frame, table)
    assert str(found._jdf.queryExecution().executedPlan().toString()).count("Exchange") == 1
    as_spark = bs.read_scan(spark, table.scan()).schema
    assert found.schema == as_spark
    hudis = spark.createDataFrame(table.lookup(keys)).select(*found.columns)
    assert sorted(map(repr, found.collect())) == sorted(map(repr, hudis.collect()))


def test_keys_without_a_partition_are_looked_for_in_all(
    spark: SparkSession, golden: Callable[[str, str], Path]
) -> None:
    table = bf.open(golden("1.2.0", "mor"))
    assert table.config.partition_fields
    key = table.scan([], meta_columns=True).to_arrow().column("_hoodie_record_key")[0].as_py()
    frame = spark.createDataFrame([(key,), (key,)], "record_key string")
    name = table.schema.names[0]
    assert sorted(map(tuple, bs.lookup(frame, table.uri, [name]).collect())) == sorted(
        tuple(row.values()) for row in table.lookup([key], [name]).to_pylist()
    )
    with pytest.raises(ValueError, match="leave columns= out"):
        bs.lookup(frame, table.scan(), [name])


def test_rows_that_have_no_keys_are_refused_before_a_job(
    spark: SparkSession, golden: Callable[[str, str], Path]
) -> None:
    uri = golden("1.2.0", "mor")
    frame = spark.createDataFrame([("k", 1)], "id string, qty int")
    for ask in (bs.locate, bs.lookup):
        with pytest.raises(ValueError, match="need the column _hoodie_record_key, or all of: id"):
            ask(frame.select("qty"), uri)
        with pytest.raises(bf.SchemaError, match="column id is string in the table, and int32"):
            ask(frame.selectExpr("qty AS id"), uri)
        with_interval = frame.selectExpr("id", "interval 1 day AS since")
        assert ask(with_interval, uri).columns == ask(frame, uri).columns


def test_keys_of_a_new_partition_have_a_bucket_and_no_files(
    spark: SparkSession, golden: Callable[[str, str], Path]
) -> None:
    """A task failed, and the whole job."""
    table = bf.open(golden("1.2.0", "mor"))
    frame = spark.createDataFrame([("key-000125", "new")], "id string, region string")
    assert_same(bs.locate(frame, table).toArrow(), table.locate(frame.toArrow()))
    assert bs.lookup(frame, table).collect() == []


def test_an_unknown_index_is_told_on_the_driver(
    spark: SparkSession, golden: Callable[[str, str], Path]
) -> None:
    frame = spark.createDataFrame([("k",)], "record_key string")
    for ask in (bs.locate, bs.lookup):
        with pytest.raises(bf.IndexUnknownError):
            ask(frame, golden("1.2.0", "bloom"))


@pytest.mark.rotated(0)
@pytest.mark.parametrize("name", ["mor", "ch_split"])
def test_a_check_by_executors_says_what_one_here_says(
    spark: SparkSession, golden: Callable[[str, str], Path], name: str
) -> None:
    table = bf.open(golden("1.2.0", name))
    for depth in ("quick", "full"):
        here, there = table.check(depth), bs.check(spark, table.uri, depth)
        assert (there.status, there.depth, there.findings) == (
            here.status,
            here.depth,
            here.findings,
        )
        assert there.checked == here.checked


def test_a_check_of_a_table_without_partitions_has_several_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"id": [f"k{n}" for n in range(40)], "v": pa.array(range(40))})
    index = bf.SimpleBucketIndex(4)
    table = make_table(tmp_path / "t", rows, index, table_type="MERGE_ON_READ")
    examined: list[int] = []
    check = bf.Table.check

    def watch(self: bf.Table, *given: Any, **options: Any) -> bf.CheckReport:
        examined.append(len(options["examined"]))
        return check(self, *given, **options)

    here = table.check("full")
    monkeypatch.setattr(bf.Table, "check", watch)
    assert bs.check(spark, table.uri, "full") == here
    assert examined == [4], "the driver opens no data file again"


def test_a_check_by_executors_finds_damage(
    spark: SparkSession, golden: Callable[[str, str], Path], tmp_path: Path
) -> None:
    root = Path(shutil.copytree(golden("1.2.0", "cow"), tmp_path / "cow"))
    newest = max(root.rglob("*.parquet"), key=lambda path: path.name.rpartition("_")[2])
    newest.write_bytes(newest.read_bytes()[:-20])
    here, there = bf.open(root).check("default"), bs.check(spark, root)
    assert here.findings
    assert there.findings == here.findings
    assert not there
    assert len(bs.check(spark, root, max_findings=1).findings) == 1
    with pytest.raises(ValueError, match="depth is"):
        bs.check(spark, root, "deep")  # type: ignore[arg-type]
