"""Real Apache Hudi as a peer of the writing benchmarks: reads orders, answers with seconds.

usage: python -m benchmarks.writing.hudi_writes ROWS UPDATES    (PySpark 3.5, Java 17)

Each line of the input is a JSON object with `work` (load, upsert, compact, index to make a record
index, or rescale to give all partitions `num_buckets`), `path`, `table_type`, `codec`, and
`metadata` for a metadata table ("statistics", or "record index" with that too); each is answered by
a line with `wall`. The rows are in Spark's memory beforehand, and a small table was written, so
neither reading them nor the start of the JVM is timed.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.make_data import MERGE_ON_READ, session, write

_TYPES = {"COPY_ON_WRITE": {}, "MERGE_ON_READ": MERGE_ON_READ}
_STATISTICS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
}
_RECORD_INDEX = {
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
}
_LOCK_OF_ONE_PROCESS = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
_METADATA = {"statistics": _STATISTICS, "record index": {**_STATISTICS, **_RECORD_INDEX}}


def _options(order: dict[str, str]) -> dict[str, str]:
    codec = {"hoodie.parquet.compression.codec": order["codec"]}
    return {
        **_TYPES[order["table_type"]],
        **codec,
        **_METADATA.get(order.get("metadata", ""), {}),
    }


def _compact(spark: SparkSession, path: Path, order: dict[str, str]) -> None:
    options = {
        "hoodie.parquet.compression.codec": order["codec"],
        "hoodie.metadata.enable": "false",
    }
    listed = ",".join(f"{name}={value}" for name, value in options.items())
    more = "hoodie.compact.inline.max.delta.commits=1"
    spark.sql(
        f"call run_compaction(op => 'scheduleandexecute', path => '{path}', "
        f"options => '{listed},{more}')"
    ).collect()


def _index(spark: SparkSession, path: Path) -> None:
    name = f"t{abs(hash(str(path)))}"
    spark.sql(f"create table {name} using hudi location '{path}'")
    lock = {"hoodie.write.lock.provider": _LOCK_OF_ONE_PROCESS}  # Hudi asks for one
    for key, value in {**_METADATA["record index"], **lock}.items():
        spark.sql(f"set {key}={value}")
    spark.sql(f"create index record_index on {name} (id)")
    spark.sql(f"drop table {name}")


def _rescale(spark: SparkSession, path: Path, order: dict[str, str]) -> None:
    name = f"t{abs(hash(str(path)))}"
    spark.sql(f"create table {name} using hudi location '{path}'")
    spark.sql(f"set hoodie.parquet.compression.codec={order['codec']}")
    stated = (path / ".hoodie/hoodie.properties").read_text().splitlines()
    former = dict(line.split("=", 1) for line in stated if "=" in line)
    spark.sql(
        f"call partition_bucket_index_manager(table => '{name}', rule => 'regex', overwrite => "
        f"'.,{order['num_buckets']}', bucket_number => "
        f"{former['hoodie.bucket.index.num.buckets']}, dry_run => false)"
    ).collect()
    spark.sql("reset hoodie.parquet.compression.codec")
    spark.sql(f"drop table {name}")


def _run(spark: SparkSession, frames: dict[str, DataFrame], order: dict[str, str]) -> None:
    path = Path(order["path"])
    if order["work"] == "compact":
        _compact(spark, path, order)
    elif order["work"] == "index":
        _index(spark, path)
    elif order["work"] == "rescale":
        _rescale(spark, path, order)
    else:
        operation = "bulk_insert" if order["work"] == "load" else "upsert"
        write(frames[order["work"]], path, operation, _options(order))


def main() -> None:
    spark = session("1.2.0")
    spark.conf.set("hoodie.datasource.write.recordkey.field", "id")
    rows, updates = (spark.read.parquet(path) for path in sys.argv[1:3])
    frames = {"load": rows.repartition(8).cache(), "upsert": updates.repartition(8).cache()}
    for frame in frames.values():
        frame.count()
    with tempfile.TemporaryDirectory() as folder:
        few = {work: frame.limit(20_000) for work, frame in frames.items()}
        for number, table_type in enumerate(_TYPES):
            order = {"path": f"{folder}/{number}", "table_type": table_type, "codec": "zstd"}
            works = ("load", "upsert", "compact") if number else ("load", "upsert")
            for work in works:
                _run(spark, few, {**order, "work": work})
        shutil.rmtree(folder, ignore_errors=True)
        Path(folder).mkdir()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        started = time.perf_counter()
        _run(spark, frames, json.loads(line))
        print(json.dumps({"wall": time.perf_counter() - started}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
