"""What has to work in every kind of session: run by the tests, in a process of its own.

usage: smaller_set.py connect|classic FOLDER

Runs also on Spark 3.5, with what that environment has: bucketfmt, bucketfmt_spark, pyspark. Prints
a line for each thing that worked. FOLDER has golden tables `mor` and `ch_split`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import bucketfmt as bf
import bucketfmt_spark as bs
from bucketfmt_spark.engine.credentials import setting_of
from bucketfmt_spark.engine.executors import map_batches


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
        "spark.hadoop.fs.s3a.secret.key": "the secret",
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


def make_table(path: Path, index: bf.Index) -> bf.Table:
    return bf.create(
        path,
        schema=pa.schema([("id", pa.string()), ("v", pa.int64()), ("p", pa.string())]),
        record_key=["id"],
        partition_by=["p"],
        index=index,
        table_type="MERGE_ON_READ",
    )


def check_writes(spark: SparkSession, folder: Path) -> None:
    for kind, index in {
        "simple": bf.SimpleBucketIndex(3),
        "ring": bf.ConsistentHashingIndex(3),
    }.items():
        table = make_table(folder / kind, index)
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
        check_buckets(found, table)
        try:
            bs.write(spark.createDataFrame([(None, 1, "a")], found.schema), table.uri)
        except bf.KeyEncodingError:
            continue
        raise AssertionError("a null key was written")
    check_buckets(found, make_table(folder / "rules", bf.PartitionBucketIndex(2, "a,3")))


def check_buckets(found: Any, table: bf.Table) -> None:
    """Compare the column with the core; and the exchange puts a bucket into one task."""
    bucket = bs.bucket_id(index=table)
    placed = bs.place_rows(found.filter("p = 'a'").coalesce(1), table, 3)
    there = placed.select("id", "p", bucket, sf.spark_partition_id()).collect()
    columns = {name: [row[name] for row in there] for name in ("id", "p")}
    assigned = table.pinned().assign(pa.table(columns))["bucket_id"].to_pylist()
    assert [row[2] for row in there] == assigned
    tasks = {(row[2], row[3]) for row in there}
    assert len(tasks) == len({row[2] for row in there}) == len({row[3] for row in there}) == 3


def check_streams(spark: SparkSession, folder: Path) -> None:
    """A stream into a table; where this Spark has them, by our source and our sink too."""
    uri = str(folder / "simple")
    expected = rows(bs.read(spark, uri))
    has_source, has_sink = pyspark.__version__ >= "4", pyspark.__version__ >= "4.1"
    if has_source:
        bs.register(spark)
        stream = spark.readStream.format("bucketfmt").load(uri)
    else:
        bs.read(spark, uri).write.parquet(str(folder / "parquet"))
        stream = spark.readStream.schema("id string, v bigint, p string").parquet(
            str(folder / "parquet")
        )
    for kind in ("foreachBatch", "format") if has_sink else ("foreachBatch",):
        table = make_table(folder / f"by_{kind}", bf.SimpleBucketIndex(2))
        placed = bs.place_rows(stream, table.uri).writeStream.format("bucketfmt")
        batches = stream.writeStream.foreachBatch(bs.batch_writer(table.uri, "copy"))
        query = (placed if kind == "format" else batches).trigger(availableNow=True)
        query = query.option("checkpointLocation", str(folder / f"notes_{kind}"))
        query.option("path", table.uri).start().awaitTermination()
        assert rows(bs.read(spark, table.uri)) == expected, kind
        assert len(table.timeline.instants) == 1, kind


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
    table = make_table(folder / "saved", bf.SimpleBucketIndex(3))
    given = spark.createDataFrame(
        [(f"k{n}", n, "ab"[n % 2]) for n in range(60)], "id string, v bigint, p string"
    )
    saving = given.repartition(3).write.format("bucketfmt").mode("append")
    told = ""
    try:
        saving.save(table.uri)
    except Exception as error:
        told = str(error)
    assert "bucketfmt_spark.place_rows(df, uri)" in told, "rows of a bucket from several tasks"
    assert not table.timeline.instants
    bs.place_rows(given, table.uri).write.format("bucketfmt").mode("append").save(table.uri)
    assert rows(bs.read(spark, table.uri)) == rows(given)


def check_operations(spark: SparkSession, folder: Path) -> None:
    """Errors of tasks have their types, and credentials come to tasks by the session's settings."""
    table = make_table(folder / "damaged", bf.SimpleBucketIndex(1))
    table.upsert(pa.table({"id": ["a"], "v": [1], "p": ["x"]}))
    found = bs.read(spark, table.uri)
    for path in (folder / "damaged/x").glob("*.parquet"):
        path.write_bytes(b"PAR1")
    told = "nothing\n"
    try:
        with bs.typed_errors():
            found.collect()
    except bf.CorruptError as error:
        told = str(error)
    assert "\n" not in told, told
    credential = setting_of(spark)("fs.s3a.secret.key")
    if credential is None:
        return  # Connect does not tell clients such settings

    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"found": [str(credential)]})

    assert b"the secret" not in cloudpickle.dumps(tell)
    assert map_batches(spark.range(1), tell, "found string").collect()[0][0] == "the secret"


def main(kind: str, folder: Path) -> None:
    spark = make_session(kind)
    checks = (
        check_reads,
        check_joins,
        check_lookups,
        check_writes,
        check_source,
        check_streams,
        check_operations,
    )
    for check in checks:
        check(spark, folder)
        print(check.__name__, flush=True)
    print("spark", spark.version, "pyarrow", pa.__version__)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
