"""Writes of Spark, of bucketfmt_spark and of Hudi in one session: run by spark_writing.py.

usage: python -m benchmarks.spark.writing_job FOLDER ROWS REPETITIONS

Runs in the environment of tests/interop/setup.sh. Prints JSON: {title: {peer: [[wall, CPU], ...]}}.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import bucketfmt as bf
import bucketfmt_spark as bs
from bucketfmt_spark.engine.spark_types import arrow_of

TableType = Literal["COPY_ON_WRITE", "MERGE_ON_READ"]
BUCKETS = 8
CODEC = "snappy"
HUDI = {
    "hoodie.metadata.enable": "false",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.type": "NON_PARTITION",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": str(BUCKETS),
    "hoodie.parquet.compression.codec": CODEC,
    "hoodie.upsert.shuffle.parallelism": str(BUCKETS),
}


SETTINGS = {
    "spark.jars.packages": "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "3g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(BUCKETS),
    "spark.sql.session.timeZone": "UTC",
}


def make_session(folder: Path) -> SparkSession:
    builder = SparkSession.builder.master("local[2]")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    if "SPARK_JARS_IVY" in os.environ:  # another cache of jars than ~/.ivy2
        builder = builder.config("spark.jars.ivy", os.environ["SPARK_JARS_IVY"])
    session = builder.config("spark.local.dir", str(folder / "local")).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def cpu_seconds() -> float:
    """Return user and system time of this process and all below it, ended ones included."""
    ticks = os.sysconf("SC_CLK_TCK")
    children: dict[int, list[int]] = {}
    times: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.name))
        times[int(entry.name)] = sum(map(int, fields[11:15])) / ticks
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += times.get(pid, 0.0)
        waiting += children.get(pid, [])
    return total


def make_rows(spark: SparkSession, first: int, last: int, ts: int, step: int = 1) -> DataFrame:
    number = sf.col("number")
    return (
        spark.range(first, last, step, 4)
        .withColumnRenamed("id", "number")
        .select(
            sf.concat(sf.lit("trip-"), sf.lpad(number.cast("string"), 12, "0")).alias("id"),
            sf.concat(sf.lit("rider "), sf.pmod(sf.hash(number), sf.lit(100_000))).alias("rider"),
            (sf.pmod(sf.hash(number + ts), sf.lit(10_000)) / 100).alias("fare"),
            sf.pmod(sf.hash(number * 3), sf.lit(6)).alias("seats"),
            sf.pmod(sf.hash(number * 5), sf.lit(500)).cast("string").alias("city"),
            sf.lit(ts).cast("bigint").alias("ts"),
        )
    )


def measured(run: Callable[[], Any]) -> list[float]:
    wall, cpu = time.perf_counter(), cpu_seconds()
    run()
    return [time.perf_counter() - wall, cpu_seconds() - cpu]


def make_table(path: Path, rows: DataFrame, table_type: TableType = "COPY_ON_WRITE") -> bf.Table:
    return bf.create(
        path,
        table_type=table_type,
        schema=arrow_of(rows.schema),
        record_key=["id"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(BUCKETS),
        properties={"hoodie.datasource.write.hive_style_partitioning": "false"},
    )


def main(folder: Path, num_rows: int, repetitions: int) -> None:
    spark = make_session(folder)
    for name, frame in {
        "rows": make_rows(spark, 0, num_rows, 1),
        "changes": make_rows(spark, num_rows // 2, num_rows // 2 + num_rows // 5, 2),
        "few": make_rows(spark, 0, num_rows, 3, step=100),
    }.items():
        frame.write.mode("overwrite").parquet(str(folder / name))
    rows = spark.read.parquet(str(folder / "rows"))
    changes = spark.read.parquet(str(folder / "changes"))
    few = spark.read.parquet(str(folder / "few"))

    def native() -> None:
        bucket = bs.bucket_id("id", index=bf.SimpleBucketIndex(BUCKETS))
        placed = rows.withColumn("bucket", bucket).repartition(BUCKETS, "bucket")
        writer = placed.write.partitionBy("bucket").option("compression", CODEC)
        writer.mode("overwrite").parquet(str(folder / "native"))

    def bucket_by(frame: DataFrame) -> None:
        writer = frame.write.option("compression", CODEC).option("path", str(folder / "bucketed"))
        writer = writer.bucketBy(BUCKETS, "id").sortBy("id")
        writer.mode("overwrite").saveAsTable("bucketed")

    def ours() -> None:
        shutil.rmtree(folder / "ours", ignore_errors=True)
        table = make_table(folder / "ours", rows)
        bs.write(rows, table.uri, "bulk_insert", codec=CODEC)

    def our_upsert() -> None:
        bs.write(changes, str(folder / "ours"), "upsert", codec=CODEC)

    def upsert_few(table: bf.Table) -> None:
        bs.write(few, table, "upsert", codec=CODEC)

    def hudis(frame: DataFrame, operation: str) -> None:
        options = {
            **HUDI,
            "hoodie.table.name": "hudis",
            "hoodie.datasource.write.operation": operation,
        }
        mode = "append" if operation == "upsert" else "overwrite"
        frame.write.format("hudi").options(**options).mode(mode).save(str(folder / "hudis"))

    writes = {
        "Spark: write.parquet, by bucket": native,
        "Spark: write.bucketBy": lambda: bucket_by(rows),
        "Spark: write.bucketBy, a file to a bucket": lambda: bucket_by(
            rows.repartition(BUCKETS, "id")
        ),
        "bucketfmt_spark: bulk_insert": ours,
    }
    upserts = {
        "Hudi 1.2.0: upsert": lambda: hudis(changes, "upsert"),
        "bucketfmt_spark: upsert": our_upsert,
    }
    upserts_of_few = {}
    for kind in get_args(TableType):
        table = make_table(folder / kind, rows, kind)
        bs.write(rows, table, "bulk_insert", codec=CODEC)
        # Services run after some of the commits, and would be counted in some rounds.
        table = bf.open(table.uri, writer=bf.WriterConfig(services=None))
        upserts_of_few[kind.lower().replace("_", "-")] = partial(upsert_few, table)
    hudis(rows, "bulk_insert")
    found: dict[str, dict[str, list[list[float]]]] = {}
    races = {"write": writes, "upsert": upserts, "upsert of few": upserts_of_few}
    for title, peers in races.items():
        for run in peers.values():
            run()  # once untimed
        timings: dict[str, list[list[float]]] = {peer: [] for peer in peers}
        for _ in range(repetitions):
            for peer, run in peers.items():
                timings[peer].append(measured(run))
        found[title] = timings
    counted = [
        spark.read.format("hudi").load(str(folder / name)).agg(sf.count("*"), sf.sum("fare"))
        for name in ("ours", "hudis")
    ]
    ours_read, hudis_read = (frame.collect()[0] for frame in counted)
    if ours_read[0] != hudis_read[0] or abs(ours_read[1] - hudis_read[1]) > 1:
        raise SystemExit(f"the peers disagree: {ours_read} and {hudis_read}")
    print(json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
