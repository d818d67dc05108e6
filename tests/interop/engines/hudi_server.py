"""Real Apache Hudi, doing what it is told line by line.

usage: hudi_server.py VERSION FOLDER

Each line of standard input is a JSON object, and is answered by one on standard output:
{"failed": null, "value": ...} or why it failed. `do` is one of

    read      table, into, options: keeps a view as parquet
    write     table, rows, options: writes the rows of a parquet file
    merge     table, rows, assigned, options: updates columns of rows of the same id, by MERGE INTO
    index     table, column, options, expression: makes an index of the same name as the column, by
              Spark SQL: a secondary index, or bounds of an expression that has these options
    service   table, service, instant, options: a table service, by Hudi's write client
    rescale   table, how, rules, default, dry_run: partition_bucket_index_manager
    make      plan: writes and reads the planned table of that name, as `hudi_writer.py` says
    hash_keys cases: the bucket and the ring value of each record key, by Hudi's own classes

Runs in the environment that setup.sh makes; imports nothing of this repository but its neighbour.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hudi_writer import Writer, root_cause


class Session:
    """What a JVM is asked to do."""

    def __init__(self, version: str, folder: Path) -> None:
        self._writer = Writer(version, folder)
        self.spark = self._writer.spark

    def answer(self, asked: dict[str, Any]) -> Any:
        """Do one thing, and return what came of it."""
        return getattr(self, asked["do"])(asked)

    def make(self, asked: dict[str, Any]) -> None:
        self._writer.make(json.loads(self._writer.plan_path(asked["plan"]).read_text()))

    def hash_keys(self, asked: dict[str, Any]) -> list[list[int]]:
        return self._writer.hash_keys(asked["cases"])

    def read(self, asked: dict[str, Any]) -> None:
        self.spark.catalog.clearCache()
        rows = self.spark.read.format("hudi").options(**asked["options"]).load(asked["table"])
        if asked["where"] is not None:
            rows = rows.where(asked["where"])
        rows.coalesce(1).write.mode("overwrite").parquet(asked["into"])

    def write(self, asked: dict[str, Any]) -> None:
        rows = self.spark.read.parquet(asked["rows"])
        write = rows.write.format("hudi").options(**asked["options"]).mode("append")
        write.save(asked["table"])

    def merge(self, asked: dict[str, Any]) -> None:
        self.spark.read.parquet(asked["rows"]).createOrReplaceTempView("given")
        assigned = ", ".join(f"t.{name} = s.{name}" for name in asked["assigned"])
        with self._judged(asked):
            self.spark.sql(
                "merge into judged t using given s on t.id = s.id "
                f"when matched then update set {assigned}"
            ).collect()

    def index(self, asked: dict[str, Any]) -> None:
        with self._judged(asked):
            column, expression = asked["column"], asked["expression"]
            made = f"create index {column} on judged ({column})"
            if expression:
                given = ", ".join(f"{key}='{value}'" for key, value in expression.items())
                made = f"create index {column} on judged using column_stats({column})"
                made += f" options({given})"
            self.spark.sql(made).collect()

    @contextmanager
    def _judged(self, asked: dict[str, Any]) -> Iterator[None]:
        """Call the table `judged`, and set the options, while the body runs."""
        for key, value in asked["options"].items():
            self.spark.conf.set(key, value)
        try:
            self.spark.sql(f"create table judged using hudi location '{asked['table']}'")
            yield
        finally:
            self.spark.sql("drop table if exists judged")
            for key in asked["options"]:
                self.spark.conf.unset(key)

    def service(self, asked: dict[str, Any]) -> str | None:
        jvm = self.spark._jvm
        properties = jvm.java.util.Properties()
        for key, value in asked["options"].items():
            properties.setProperty(key, value)
        config = jvm.org.apache.hudi.config.HoodieWriteConfig.newBuilder()
        config = config.withPath(asked["table"]).withProperties(properties).build()
        context = jvm.org.apache.hudi.client.common.HoodieSparkEngineContext(
            self.spark.sparkContext._jsc
        )
        client = jvm.org.apache.hudi.client.SparkRDDWriteClient(context, config)
        try:
            return getattr(self, asked["service"])(client, asked["instant"])
        finally:
            client.close()

    def rescale(self, asked: dict[str, Any]) -> None:
        self.spark.sql(f"create table rescaled using hudi location '{asked['table']}'")
        try:
            self.spark.sql(
                f"call partition_bucket_index_manager(table => 'rescaled', {asked['how']} => "
                f"'{asked['rules']}', rule => 'regex', bucket_number => {asked['default']}, "
                f"dry_run => {str(asked['dry_run']).lower()})"
            ).collect()
        finally:
            self.spark.sql("drop table rescaled")

    def schedule(self, client: Any, _: str | None) -> str | None:
        """Return the instant of a compaction; None if there is nothing to compact."""
        found = client.scheduleCompaction(
            self.spark._jvm.org.apache.hudi.common.util.Option.empty()
        )
        return found.get() if found.isPresent() else None

    def run_pending_compactions(self, client: Any, _: str | None) -> None:
        client.runAnyPendingCompactions()

    def schedule_clustering(self, client: Any, _: str | None) -> str | None:
        """Return the instant of a clustering; None if there is nothing to cluster."""
        found = client.scheduleClustering(
            self.spark._jvm.org.apache.hudi.common.util.Option.empty()
        )
        return found.get() if found.isPresent() else None

    def cluster(self, client: Any, instant: str | None) -> None:
        client.cluster(instant, True)

    def clean(self, client: Any, _: str | None) -> None:
        client.clean()

    def archive(self, client: Any, _: str | None) -> None:
        client.archive()

    def rollback(self, client: Any, instant: str | None) -> None:
        if not client.rollback(instant):
            raise RuntimeError(f"there is no {instant} to roll back")

    def savepoint(self, client: Any, instant: str | None) -> None:
        client.savepoint(instant, "judge", "")

    def delete_savepoint(self, client: Any, instant: str | None) -> None:
        client.deleteSavepoint(instant)

    def restore(self, client: Any, instant: str | None) -> None:
        client.restoreToSavepoint(instant)


def main(version: str, folder: Path) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Spark prints what is no answer
    for part in ("local", "tables", "read"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    session = Session(version, folder)
    print(json.dumps({"failed": None, "value": None}), file=answers, flush=True)
    for line in sys.stdin:
        failed = value = None
        try:
            value = session.answer(json.loads(line))
        except Exception as error:
            failed = root_cause(error)
            print(error, file=sys.stderr, flush=True)  # the whole of it
        print(json.dumps({"failed": failed, "value": value}), file=answers, flush=True)
    session.spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve())
