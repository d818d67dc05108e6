"""Write the tables the benchmarks read and update, with real Apache Hudi.

usage: make_data.py INTO [--hudi VERSION] [--scale N] [TABLE...]

Runs where pyspark 3.5 is (tests/interop/setup.sh makes such an environment). Writes into INTO, or
for a scale of N > 1 with the suffix _Nx, 2 million rows times N:

  cow        copy on write, every row by one bulk_insert
  mor        merge on read, the same base files, then 10 % of the rows updated in Avro log blocks
  log_only   merge on read, every row in Avro log blocks and no base file, as non-blocking
             concurrency control (and Flink) leaves a table not compacted yet; Hudi 1.0 or later

Rows are the same every time: a key of 32 hexadecimal digits and five more columns, in one
partition of 16 buckets. Base files are snappy (Hudi's default is gzip, which would measure zlib
rather than readers); there is no metadata table. What was written is described in INTO/data.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

ROWS = 2_000_000
BUCKETS = 16
TABLES = ("cow", "mor", "log_only")
KEYGEN = "org.apache.hudi.keygen"

COMMON = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.keygenerator.class": f"{KEYGEN}.NonpartitionedKeyGenerator",
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.num.buckets": str(BUCKETS),
    "hoodie.parquet.compression.codec": "snappy",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.upsert.shuffle.parallelism": "8",
    "hoodie.bulkinsert.shuffle.parallelism": "8",
}
MERGE_ON_READ = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.table.type": "MERGE_ON_READ",
}
NON_BLOCKING = {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}


def session(version: str) -> SparkSession:
    settings = {
        "spark.jars.packages": f"org.apache.hudi:hudi-spark3.5-bundle_2.12:{version}",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "6g",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def rows(spark: SparkSession, count: int, ts: int, every: int = 1) -> DataFrame:
    """Every n-th of the `count` rows, at time `ts`; a later time gives other prices and names."""
    return spark.range(0, count, every, 8).selectExpr(
        "md5(cast(id as string)) as id",
        f"concat('name-', cast(id % 9973 as string), '-{ts}') as name",
        f"cast(id * {ts} % 1000003 as double) / 100 as price",
        "cast(id % 1000 as int) as qty",
        "date_add(date '2024-01-01', cast(id % 365 as int)) as day",
        f"cast({ts} as bigint) as ts",
    )


def write(data: DataFrame, path: Path, operation: str, options: dict[str, str]) -> None:
    more = {"hoodie.table.name": path.name, "hoodie.datasource.write.operation": operation}
    data.write.format("hudi").options(**{**COMMON, **options, **more}).mode("append").save(
        str(path)
    )


def make(spark: SparkSession, table: str, path: Path, count: int) -> None:
    base = rows(spark, count, 1)
    if table == "cow":
        write(base, path, "bulk_insert", {})
    elif table == "mor":
        write(base, path, "bulk_insert", MERGE_ON_READ)
        write(rows(spark, count, 2, every=10), path, "upsert", MERGE_ON_READ)
    else:
        write(base, path, "upsert", {**MERGE_ON_READ, **NON_BLOCKING})


def describe(path: Path) -> dict[str, object]:
    """What plain pyarrow and the file system say of the table."""
    base = list(path.glob("*.parquet"))
    logs = [file for file in path.glob(".*.log.*") if file.suffix != ".crc"]
    footers = [pq.ParquetFile(file).metadata for file in base]
    properties = (path / ".hoodie/hoodie.properties").read_text().splitlines()
    return {
        "table_version": next(p.split("=")[1] for p in properties if "table.version" in p),
        "base_files": len(base),
        "base_rows": sum(footer.num_rows for footer in footers),
        "base_bytes": sum(file.stat().st_size for file in base),
        "codecs": sorted({footer.row_group(0).column(0).compression for footer in footers}),
        "log_files": len(logs),
        "log_bytes": sum(file.stat().st_size for file in logs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("into", type=Path)
    parser.add_argument("tables", nargs="*", default=TABLES, metavar="TABLE")
    parser.add_argument("--hudi", default="1.2.0", help="version of the Hudi bundle")
    parser.add_argument("--scale", type=int, default=1, help="times 2 million rows")
    arguments = parser.parse_intermixed_args()
    into: Path = arguments.into.resolve()
    into.mkdir(parents=True, exist_ok=True)
    index = into / "data.json"
    described = json.loads(index.read_text()) if index.exists() else {}
    spark = session(arguments.hudi)
    count = ROWS * arguments.scale
    for table in arguments.tables:
        name = table if arguments.scale == 1 else f"{table}_{arguments.scale}x"
        path = into / name
        shutil.rmtree(path, ignore_errors=True)
        started = time.perf_counter()
        make(spark, table, path, count)
        seconds = round(time.perf_counter() - started, 1)
        facts = {"hudi": arguments.hudi, "rows": count, "written_in": seconds}
        described[name] = {**facts, **describe(path)}
        index.write_text(json.dumps(described, indent=1) + "\n")
        print(name, json.dumps(described[name]), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
