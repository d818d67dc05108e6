"""Whole buckets as a DataFrame: `read_buckets` with their numbers, `sample` some of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import bucketfmt as bf
from bucketfmt_spark.engine.spark_types import arrow_for_spark
from bucketfmt_spark.engine.tasks import number_tasks, task_frame
from bucketfmt_spark.joining.bucket_rows import check_bucket, read_all
from bucketfmt_spark.joining.sides import Side, scan_of

__all__ = ["BUCKET_COLUMN", "num_buckets_of", "read_buckets", "sample"]

BUCKET_COLUMN = "bucket_id"
_TOLD = "_bucketfmt_num_buckets"


def read_buckets(spark: SparkSession, table: Side) -> DataFrame:
    """Return the rows of a table with their bucket, `bucket_id`, as first column.

    Partition i has bucket i and nothing else: of all partitions of the table together, and where
    these have different numbers of buckets, of the coarsest common division. On a ring, buckets
    are numbered in its order. Each row's hash is compared with its bucket.

    Raises:
        IndexUnknownError: the table does not say how keys map to buckets.
        UnsupportedError: columns do not tell the bucket of a row.
        SchemaError: the scan leaves out a hash field, or the table has a column `bucket_id`.
        ExecutorError: executors have no bucketfmt, or another release.
    """
    scan = scan_of(table)
    groups = bf.group_buckets(scan)
    buckets, reader = groups.buckets, scan.task_reader()
    buckets.check_rows_tell()
    lacking = [name for name in buckets.columns.fields if name not in scan.schema.names]
    if lacking:
        raise bf.SchemaError(f"the scan leaves out {lacking[0]}, by which buckets are verified")
    if BUCKET_COLUMN in scan.schema.names:
        raise bf.SchemaError(f"the table has a column {BUCKET_COLUMN}: leave it out by columns=")
    taken = arrow_for_spark(scan.schema)

    def work(number: list[bytes], payloads: list[bytes]) -> Iterator[pa.RecordBatch]:
        bucket = int(number[0])
        for batch in read_all(reader, payloads, taken):
            check_bucket(batch, buckets, bucket)
            numbers = pa.array(np.full(batch.num_rows, bucket, np.int32))
            names = [BUCKET_COLUMN, *batch.schema.names]
            yield pa.RecordBatch.from_arrays([numbers, *batch.columns], names=names)

    numbers = number_tasks(range(buckets.num_buckets))
    payloads = [[task.payload for _, task in group] for group in groups.tasks[0]]
    schema = pa.schema([pa.field(BUCKET_COLUMN, pa.int32()), *scan.schema])
    frame = task_frame(spark, [numbers, payloads], work, schema)
    setattr(frame, _TOLD, buckets.num_buckets)
    return frame


def num_buckets_of(df: DataFrame) -> int | None:
    """Return how many partitions and buckets a frame has, if `read_buckets` returned it."""
    found = df.__dict__.get(_TOLD)
    return found if isinstance(found, int) else None


def sample(spark: SparkSession, table: Side, bucket: int, out_of: int) -> DataFrame:
    """Return the rows of one bucket out of so many, as Hive's TABLESAMPLE; no other is opened.

    Equal hash fields are sampled alike in all tables with such buckets: the join of samples is a
    sample of the join.

    Args:
        spark: The session.
        table: A table, or a scan of it.
        bucket: From 1 to `out_of`.
        out_of: A divisor of the number of buckets.

    Raises:
        ValueError: no divisor, or no such bucket.
        IndexUnknownError: the table does not say how keys map to buckets.
        UnsupportedError: equal rows may be in different buckets.
        ExecutorError: executors have no bucketfmt, or another release.
    """
    scan = scan_of(table)
    groups = bf.group_buckets(scan)
    found = groups.buckets.num_buckets
    if out_of < 1 or found % out_of:
        raise ValueError(f"out_of is a divisor of the {found} buckets, not {out_of}")
    if not 1 <= bucket <= out_of:
        raise ValueError(f"bucket is 1 to {out_of}, not {bucket}")
    reader, taken = scan.task_reader(), arrow_for_spark(scan.schema)

    def work(payloads: list[bytes]) -> Iterator[pa.RecordBatch]:
        yield from read_all(reader, payloads, taken)

    chosen = groups.tasks[0][bucket - 1 :: out_of]
    tasks = [[task.payload for _, task in group] for group in chosen if group]
    return task_frame(spark, [tasks], work, scan.schema)
