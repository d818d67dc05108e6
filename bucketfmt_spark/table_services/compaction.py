"""`compact`: merges log files into base files, with a task for each bucket.

The driver plans and commits; the tasks rewrite file groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import bucketfmt as bf
from bucketfmt.choices import Codec
from bucketfmt_spark.engine.failures import typed_errors
from bucketfmt_spark.engine.named_jobs import log, named_job
from bucketfmt_spark.engine.opening import TableOrUri, open_table
from bucketfmt_spark.engine.tasks import task_frame, task_token

__all__ = ["compact", "rewrite_on_executors"]

_RECEIPTS = pa.schema({"receipt": pa.binary()})


def compact(
    spark: SparkSession,
    uri: TableOrUri,
    *,
    min_log_files: int = 1,
    codec: Codec | None = None,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
    writer: bf.WriterConfig | None = None,
) -> bf.CommitResult | None:
    """Compact a merge-on-read table as `bucketfmt.Table.compact` does, on the executors.

    If the driver dies or a task fails finally, the compaction stays pending, and the next call
    executes it again.

    Returns:
        The commit; None if there was nothing to compact.

    Raises:
        ExecutorError: executors have no bucketfmt, or another release.
        ConflictError: another process is executing the pending compaction.
        CorruptError: a file of the compaction is missing or damaged.
    """
    table = open_table(spark, uri, storage_options, index, writer)
    started = table.start_compaction(min_log_files=min_log_files, codec=codec)
    if started is None:
        return None
    with started, typed_errors():
        return started.publish(rewrite_on_executors(spark, started))


def rewrite_on_executors(spark: SparkSession, started: bf.StartedCompaction) -> list[bytes]:
    """Rewrite the file groups of a compaction in a Spark job; return the receipts."""
    task = started.task

    def work(payloads: list[bytes]) -> Iterator[pa.RecordBatch]:
        for payload in payloads:
            receipt = task.compact(payload, task_token())
            yield pa.record_batch([pa.array([receipt], pa.binary())], schema=_RECEIPTS)

    frame = task_frame(spark, [[[payload] for payload in started.payloads]], work, _RECEIPTS)
    log.info(
        "compaction at %s: %d file groups of %d bytes, a task each",
        started.instant,
        len(started.payloads),
        sum(started.sizes),
    )
    with named_job(spark, "compact", task.basis.config.name, started.instant):
        return [bytes(row.receipt) for row in frame.collect()]
