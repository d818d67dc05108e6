"""What has to work in every kind of session: run by the tests, in a process of its own.

usage: smaller_set.py connect|classic FOLDER

Runs also on Spark 3.5, with what that environment has: bucketfmt, bucketfmt_spark, pyspark. Prints
a line for each thing that worked. FOLDER has golden tables `mor` and `ch_split`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

import bucketfmt as bf
import bucketfmt_spark as bs


def make_session(kind: str) -> SparkSession:
    builder = SparkSession.builder
    builder = builder.remote("local[2]") if kind == "connect" else builder.master("local[2]")
    for key, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def rows(frame: Any) -> list[tuple[str, ...]]:
    return sorted(tuple(map(repr, row)) for row in frame.collect())


def check_reads(spark: SparkSession, folder: Path) -> None:
    for name in ("mor", "ch_split"):
        table = bf.open(folder / name)
        found = bs.read(spark, folder / name)
        assert found.columns == table.schema.names
        columns = [column.to_pylist() for column in table.scan().to_arrow().columns]
        there = sorted(tuple(map(repr, row)) for row in zip(*columns, strict=True))
        assert rows(found) == there, name
    table = bf.open(folder / "mor")
    first = table.timeline.writes.completed.instants[0].completion_time
    changed = bs.changes(spark, folder / "mor", first)
    assert changed.count() == table.changes(first).count()


def check_joins(spark: SparkSession, folder: Path) -> None:
    table = bf.open(folder / "mor")
    key = table.config.record_key_fields[0]
    other = next(n for n in table.schema.names if n != key)
    whole = bs.read(spark, folder / "mor")
    left, right = table.scan([key]), table.scan([key, other])
    ours = bs.join(spark, left, right, "full")
    assert rows(ours) == rows(whole.select(key).join(whole.select(key, other), key, "full"))
    few = whole.select(key, other).limit(7)
    ours = bs.join(spark, left, few, "left")
    assert ours.count() == whole.select(key).join(few, key, "left").count()
    counted = bs.aggregate(spark, table, [key], {"n": ("*", "count")})
    assert rows(counted) == rows(whole.groupBy(key).count())


def check_lookups(spark: SparkSession, folder: Path) -> None:
    table = bf.open(folder / "mor")
    keys = table.scan([], meta_columns=True).to_arrow().column("_hoodie_record_key")[:5].to_pylist()
    frame = spark.createDataFrame([(key,) for key in keys], "record_key string")
    assert bs.locate(frame, folder / "mor").count() == table.locate(keys).num_rows
    assert bs.lookup(frame, folder / "mor").count() == table.lookup(keys).num_rows
    report = bs.check(spark, folder / "mor", "full")
    assert report.checked == table.check("full").checked


def check_writes(spark: SparkSession, folder: Path) -> None:
    fields = [("id", pa.string()), ("v", pa.int64()), ("p", pa.string())]
    for kind, index in {
        "simple": bf.SimpleBucketIndex(3),
        "ring": bf.ConsistentHashingIndex(3),
    }.items():
        table = bf.create(
            folder / kind,
            schema=pa.schema(fields),
            record_key=["id"],
            partition_by=["p"],
            index=index,
            table_type="MERGE_ON_READ",
        )
        for start in (0, 50):
            given = [(f"k{n}", n + start, "ab"[n % 2]) for n in range(start, start + 100)]
            frame = spark.createDataFrame(given, "id string, v bigint, p string")
            assert bs.write(frame, table.uri).rows_inserted >= 0
        keys = spark.createDataFrame([("k0", "a"), ("k1", "b")], "id string, p string")
        bs.write(keys, table.uri, "delete")
        assert bs.compact(spark, table.uri) is not None
        found = bs.read(spark, table.uri)
        assert found.count() == 148
        assert found.agg({"v": "sum"}).collect()[0][0] == sum(range(2, 50)) + sum(range(100, 200))
        if pyspark.__version__ >= "4.1" or kind == "simple":
            bucket = bs.bucket_id(index=table)
            there = {tuple(r) for r in found.select("id", bucket).collect()}
            rows_there = table.scan(["id", "p"]).to_arrow()
            assigned = table.pinned().assign(rows_there)["bucket_id"].to_pylist()
            assert there == set(zip(rows_there["id"].to_pylist(), assigned, strict=True))
        try:
            bs.write(spark.createDataFrame([(None, 1, "a")], found.schema), table.uri)
        except bf.KeyEncodingError:
            continue
        raise AssertionError("a null key was written")


def check_source(spark: SparkSession, folder: Path) -> None:
    if pyspark.__version__ < "4":
        try:
            bs.register(spark)
        except bf.UnsupportedError:
            return
        raise AssertionError("registered, on a Spark without data sources in Python")
    bs.register(spark)
    frame = spark.read.format("bucketfmt").load(str(folder / "mor"))
    assert rows(frame) == rows(bs.read(spark, folder / "mor"))


def main(kind: str, folder: Path) -> None:
    spark = make_session(kind)
    for check in (check_reads, check_joins, check_lookups, check_writes, check_source):
        check(spark, folder)
        print(check.__name__, flush=True)
    print("spark", spark.version, "pyarrow", pa.__version__)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
