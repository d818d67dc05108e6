"""Has real Apache Hudi write planned tables, and keeps what it reads back.

Of a folder: FOLDER/plans holds the plans (`Plan.save`). A plan makes FOLDER/tables/NAME the table,
FOLDER/read/NAME/VIEW what Hudi reads, as parquet, and FOLDER/read/NAME.json the report, written
last: what became of each step, and which views there are.

Runs in the environment that setup.sh makes; imports nothing of this repository.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

# Hudi 1.0 cannot read some tables with its file group reader that it can with the former one.
READERS = {"own": {}, "former": {"hoodie.file.group.reader.enabled": "false"}}


class Writer:
    """One JVM with one version of Hudi."""

    def __init__(self, version: str, folder: Path) -> None:
        self.version, self.folder = version, folder
        settings = {
            "spark.jars.packages": f"org.apache.hudi:hudi-spark3.5-bundle_2.12:{version}",
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
            "spark.sql.adaptive.enabled": "false",
            # Hudi refuses to read columns whose type has changed with the vectorized reader.
            "spark.sql.parquet.enableVectorizedReader": "false",
            "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": "1500m",
            "spark.driver.extraJavaOptions": (
                f"-Duser.timezone=UTC -Djava.io.tmpdir={folder} "
                "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # a short life: no time to compile
            ),
            "spark.local.dir": str(folder / "local"),
        }
        if "SPARK_JARS_IVY" in os.environ:  # another cache of jars than ~/.ivy2
            settings["spark.jars.ivy"] = os.environ["SPARK_JARS_IVY"]
        # A task may fail once: PartitionBucketIndexCalculator keeps a map that its threads break.
        builder = SparkSession.builder.master("local[2, 2]")
        for key, value in settings.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        # Hudi 1.2 compares schemas of the metadata table by identity. If the first that a JVM does
        # is to compact a metadata table, each write fails then, unless this class is there before.
        _ = self.spark._jvm.org.apache.hudi.metadata.HoodieMetadataPayload.KEY_FIELD_NAME

    def plan_path(self, name: str) -> Path:
        """Return where the plan of a table is."""
        return self.folder / "plans" / f"{name}.json"

    def make(self, plan: dict[str, Any]) -> None:
        """Write one table and read it back."""
        name = plan["name"]
        started = time.monotonic()
        refused = [self._write(name, step) for step in plan["steps"]]
        written = time.monotonic()
        report: dict[str, Any] = {"refused": refused, "views": [], "instants": []}
        if any(reason is None for reason in refused):
            report["instants"] = self._instants(name)
            report["views"] = self._read_all(plan, report["instants"])
        report["seconds"] = [round(written - started, 1), round(time.monotonic() - written, 1)]
        path = self.folder / "read" / f"{name}.json"
        path.with_suffix(".part").write_text(json.dumps(report, indent=1))
        path.with_suffix(".part").rename(path)
        print(f"{self.version} {name} {report['seconds']}", flush=True)

    def _write(self, name: str, step: dict[str, Any]) -> str | None:
        """Do one write; return why Hudi refused it."""
        rows = self.spark.read.schema(step["schema"]).option("mode", "FAILFAST")
        data = rows.json(str(self.folder / "plans" / step["rows"]))
        target = str(self.folder / "tables" / name)
        try:
            data.write.format("hudi").options(**step["options"]).mode("append").save(target)
        except Exception as error:
            return root_cause(error)
        return None

    def _instants(self, name: str) -> list[list[str]]:
        """Return (requested time, completion time, action) of the active completed instants."""
        folder = self.folder / "tables" / name / ".hoodie"
        found = []
        for path in [*folder.iterdir(), *folder.glob("timeline/*")]:
            times, _, action = path.name.partition(".")
            if path.is_file() and times[:1].isdigit() and action.isalpha() and action != "inflight":
                requested, _, completed = times.partition("_")
                found.append([requested, completed or requested, action])
        return sorted(found)

    def _read_all(self, plan: dict[str, Any], instants: list[list[str]]) -> list[dict[str, Any]]:
        wanted: list[tuple[str, dict[str, str]]] = [("snapshot", {})]
        if plan["table_type"] == "MERGE_ON_READ":
            query = {"hoodie.datasource.query.type": "read_optimized"}
            wanted.append(("read_optimized", query))
        for requested, _, action in instants[-3:-1]:
            if action in ("commit", "deltacommit", "replacecommit"):
                wanted.append((f"as_of_{requested}", {"as.of.instant": requested}))
        return [self._read(plan["name"], view, options) for view, options in wanted]

    def _read(self, name: str, view: str, options: dict[str, str]) -> dict[str, Any]:
        """Read a view, with Hudi's former reader where its own fails; tell which one could."""
        failed = []
        readers = {"own": {}} if self.version.startswith("0.") else READERS
        for reader, setting in readers.items():
            reason = self._keep(name, view, {**options, **setting})
            if reason is None:
                return {"view": view, "reader": reader, "failed": failed}
            failed.append(reason)
        return {"view": view, "reader": None, "failed": failed}

    def _keep(self, name: str, view: str, options: dict[str, str]) -> str | None:
        """Keep what Hudi reads; return why it cannot."""
        source = self.spark.read.format("hudi").options(**options)
        try:
            data = source.load(str(self.folder / "tables" / name))
            data = data.select(*(f"`{column}`" for column in sorted(data.columns))).coalesce(1)
            data.write.mode("overwrite").parquet(str(self.folder / "read" / name / view))
        except Exception as error:
            return root_cause(error)
        return None

    def hash_keys(self, cases: list[dict[str, Any]]) -> list[list[int]]:
        """Return the simple bucket and the ring value of each key, by Hudi's own classes."""
        jvm = self.spark._jvm
        bucket = jvm.org.apache.hudi.index.bucket
        metadata = jvm.org.apache.hudi.common.model.HoodieConsistentHashingMetadata
        found = []
        for case in cases:
            number, fields = case["num_buckets"], case["hash_fields"]
            ring = bucket.ConsistentBucketIdentifier(metadata("", case["nodes"]))
            found.append(
                [
                    bucket.BucketIdentifier.getBucketId(case["key"], fields, number),
                    ring.getBucket(case["key"], fields).getValue(),
                ]
            )
        return found


def root_cause(error: Exception) -> str:
    """Return the line of a Java stack trace that says why; of any other error its first line."""
    lines = str(error).splitlines() or [repr(error)]
    causes = [line for line in lines if line.startswith("Caused by")]
    return (causes or [line for line in lines[1:2] if line.startswith(": ")] or lines)[-1][:400]
