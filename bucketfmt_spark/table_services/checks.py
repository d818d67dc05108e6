"""`check`: checks the partitions, or the file slices, of a table in parallel."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

import pyarrow as pa
from pyspark.sql import SparkSession

import bucketfmt as bf
from bucketfmt.choices import Depth
from bucketfmt_spark.engine.arguments import check_choice, check_int
from bucketfmt_spark.engine.executors import parallelism
from bucketfmt_spark.engine.failures import typed_errors
from bucketfmt_spark.engine.named_jobs import named_job
from bucketfmt_spark.engine.opening import TableOrUri, open_table
from bucketfmt_spark.engine.tasks import number_tasks, task_frame

__all__ = ["check"]

_TASKS_A_CORE = 4  # partitions differ in size
_SHARES_MAX = 32  # each lists the table
_REPORT = pa.schema({"report": pa.string()})
_EXAMINED = pa.schema({"examined": pa.binary()})


def check(
    spark: SparkSession,
    uri: TableOrUri,
    depth: Depth = "default",
    *,
    max_findings: int = 100,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
) -> bf.CheckReport:
    """Check a table as `bucketfmt.Table.check` does, on executors.

    A task checks whole partitions, and the timeline. Of a table that has fewer partitions than
    there are cores, each task opens the files of a share of the file slices; the driver checks all
    else, and opens the files of slices with faults again.

    Raises:
        ValueError: an unknown depth.
        StorageError: the timeline cannot be listed.
        ExecutorError: executors have no bucketfmt, or another release.
    """
    check_choice("depth", depth, get_args(Depth))
    max_findings = check_int("max_findings", max_findings, 1)
    table = open_table(spark, uri, storage_options, index)
    if depth == "quick":  # listings alone
        return table.check(depth, max_findings=max_findings)
    paths = table.partitions_to_check()
    if not paths:
        return table.check(depth, max_findings=max_findings)
    if len(paths) < parallelism(spark):
        examined = _examine(spark, table, depth)
        return table.check(depth, max_findings=max_findings, examined=examined)
    number = min(len(paths), _TASKS_A_CORE * parallelism(spark))
    tasks = [[path.encode() for path in paths[start::number]] for start in range(number)]

    def work(chosen: list[bytes]) -> Iterator[pa.RecordBatch]:
        own = [path.decode() for path in chosen]
        report = table.check(depth, own, max_findings=max_findings)
        yield pa.record_batch([pa.array([json.dumps(report.to_dict())])], schema=_REPORT)

    with typed_errors(), named_job(spark, f"{depth} check of", table.config.name):
        found = task_frame(spark, [tasks], work, _REPORT).collect()
    reports = [bf.CheckReport.from_dict(json.loads(row.report)) for row in found]
    return bf.merge_reports(reports, max_findings)


def _examine(
    spark: SparkSession, table: bf.Table, depth: Literal["default", "full"]
) -> list[bytes]:
    """Return what `Table.examine` returns for all shares."""
    of = min(parallelism(spark), _SHARES_MAX)

    def work(share: list[bytes]) -> Iterator[pa.RecordBatch]:
        examined = table.examine(depth, int(share[0]), of)
        yield pa.record_batch([pa.array(examined, pa.binary())], schema=_EXAMINED)

    with typed_errors(), named_job(spark, f"{depth} check of", table.config.name):
        found = task_frame(spark, [number_tasks(range(of))], work, _EXAMINED).collect()
    return [bytes(row.examined) for row in found]
