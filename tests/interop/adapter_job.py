"""bucketfmt_spark and Hudi in one Spark job, turn about: run by test_spark_adapter.py.

usage: adapter_job.py FOLDER KIND ...

Runs in the environment that setup.sh makes, on its Spark 3.5, with this repository on PYTHONPATH.
Prints a line for each table on which both agreed with the model after each step.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import bucketfmt as bf
import bucketfmt_spark as bs
from tests.interop.engines.hudi_writer import Writer
from tests.write.models import SCHEMA, Model, rows

KINDS: dict[str, dict[str, Any]] = {
    "cow": {"index": bf.SimpleBucketIndex(3)},
    "mor": {"index": bf.SimpleBucketIndex(3), "table_type": "MERGE_ON_READ"},
    "rules": {"index": bf.PartitionBucketIndex(2, "region=us,3;region=eu,4")},
    "ring": {"index": bf.ConsistentHashingIndex(3), "table_type": "MERGE_ON_READ"},
}
HUDI = {
    "hoodie.metadata.enable": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.upsert.shuffle.parallelism": "2",
}
_COLUMNS = "id string, name string, price double, ts bigint, region string"


class Agreement:
    """One table, and what both are to read of it."""

    def __init__(self, spark: SparkSession, table: bf.Table) -> None:
        self.spark, self.table, self.model = spark, table, Model()

    def frame(self, first: int, last: int, ts: int) -> DataFrame:
        given = rows(range(first, last), ts=ts, price=float(ts))
        self.model.upsert(given)
        found = [tuple(row.values()) for row in given.to_pylist()]
        return self.spark.createDataFrame(found, _COLUMNS)

    def ours(self, frame: DataFrame, operation: Any = "upsert") -> None:
        bs.write(frame, self.table.uri, operation)
        self.compare()

    def hudis(self, frame: DataFrame, operation: str = "upsert") -> None:
        options = {
            **HUDI,
            "hoodie.table.name": self.table.config.name,
            "hoodie.datasource.write.operation": operation,
        }
        frame.write.format("hudi").options(**options).mode("append").save(self.table.uri)
        self.compare()

    def compare(self) -> None:
        expected = [tuple(row.values()) for _, row in sorted(self.model.rows.items())]
        self.spark.catalog.clearCache()
        hudi = self.spark.read.format("hudi").load(self.table.uri)
        for who, frame in {"hudi": hudi, "us": bs.read(self.spark, self.table.uri)}.items():
            found = [tuple(row) for row in frame.select(*SCHEMA.names).collect()]
            found.sort(key=lambda row: (row[4], row[0]))
            assert found == expected, f"{who} reads {len(found)} rows, not {len(expected)}"


def play(spark: SparkSession, table: bf.Table) -> None:
    both = Agreement(spark, table)
    both.ours(both.frame(0, 90, 1))
    both.hudis(both.frame(60, 120, 2))
    both.ours(both.frame(100, 140, 3))
    both.ours(both.frame(0, 30, 0))  # older: nothing changes
    if table.config.table_type == "MERGE_ON_READ":
        assert bs.compact(spark, table.uri) is not None
        both.compare()
    gone = both.frame(10, 20, 4)
    both.model.delete(row.id for row in gone.collect())
    both.ours(gone.select("id", "region"), "delete")
    both.hudis(both.frame(5, 25, 5))
    both.ours(both.frame(0, 150, 6))
    report = table.check(depth="full")
    assert report.status == "clean", report.findings


def main(folder: Path, kinds: Sequence[str]) -> None:
    writer = Writer("1.2.0", folder / "hudi")
    for kind in kinds:
        table = bf.create(
            str(folder / kind),
            schema=SCHEMA,
            record_key=["id"],
            partition_by=["region"],
            ordering=["ts"],
            properties={
                "hoodie.datasource.write.hive_style_partitioning": "true",
                "hoodie.datasource.write.partitionpath.urlencode": "true",
            },
            **KINDS[kind],
        )
        play(writer.spark, table)
        print("agreed on", kind, flush=True)
    writer.spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
