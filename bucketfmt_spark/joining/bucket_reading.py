"""Whole buckets as a DataFrame: `read_buckets` with their numbers, `sample` for some buckets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import bucketfmt as bf
from bucketfmt_spark.engine.arguments import check_int
from bucketfmt_spark.engine.spark_types import arrow_for_spark
from bucketfmt_spark.engine.tasks import number_tasks, task_frame
from bucketfmt_spark.joining.bucket_rows import check_bucket, read_all
from bucketfmt_spark.joining.sides import Side, scan_of

__all__ = ["BUCKET_COLUMN", "num_buckets_of", "read_buckets", "sample"]

BUCKET_COLUMN = "bucket_id"
_NUM_BUCKETS = "_bucketfmt_num_buckets"


def read_buckets(
    spark: SparkSession,
    table: Side,
    *,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
) -> DataFrame:
    """Return the rows of a table with their bucket, `bucket_id`, as first column.

    Partition i of the DataFrame has the rows of bucket i of all partitions of the table. Where
    these have different numbers of buckets, the buckets are those of their common divisor. On a
    ring, buckets are numbered in the order of the ring. Each row's hash is compared with its
    bucket.

    Raises:
        IndexUnknownError: the index of the table is unknown.
        UnsupportedError: the bucket of a row does not follow from columns.
        SchemaError: the scan leaves out a hash field, or the table has a column `bucket_id`.
        ExecutorError: executors have no bucketfmt, or another release.
    """
    scan = scan_of(spark, "table", table, storage_options, index)
    groups = bf.group_buckets(scan)
    buckets, reader = groups.buckets, scan.task_reader()
    buckets.check_rows_tell()
    lacking = [name for name in buckets.columns.fields if name not in scan.schema.names]
    if lacking:
        raise bf.SchemaError(f"the scan leaves out the hash field {lacking[0]}; add it to columns=")
    if BUCKET_COLUMN in scan.schema.names:
        raise bf.SchemaError(f"the table has a column {BUCKET_COLUMN}; leave it out with columns=")
    accepted = arrow_for_spark(scan.schema)

    def work(number: list[bytes], payloads: list[bytes]) -> Iterator[pa.RecordBatch]:
        bucket = int(number[0])
        for batch in read_all(reader, payloads, accepted):
            check_bucket(batch, buckets, bucket)
            numbers = pa.array(np.full(batch.num_rows, bucket, np.int32))
            names = [BUCKET_COLUMN, *batch.schema.names]
            yield pa.RecordBatch.from_arrays([numbers, *batch.columns], names=names)

    numbers = number_tasks(range(buckets.num_buckets))
    payloads = [[task.payload for _, task in group] for group in groups.tasks[0]]
    schema = pa.schema([pa.field(BUCKET_COLUMN, pa.int32()), *scan.schema])
    frame = task_frame(spark, [numbers, payloads], work, schema)
    setattr(frame, _NUM_BUCKETS, buckets.num_buckets)
    return frame


def num_buckets_of(df: DataFrame) -> int | None:
    """Return the number of buckets of a DataFrame that `read_buckets` returned; else None."""
    found = df.__dict__.get(_NUM_BUCKETS)
    return found if isinstance(found, int) else None


def sample(
    spark: SparkSession,
    table: Side,
    bucket: int,
    out_of: int,
    *,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
) -> DataFrame:
    """Return the rows of one bucket out of `out_of`, as Hive's TABLESAMPLE; opens only its files.

    Equal hash fields are in the samples of all tables with such buckets or in none, so the join of
    samples is a sample of the join.

    Args:
        spark: The session.
        table: A table, or a scan of it.
        bucket: From 1 to `out_of`.
        out_of: A divisor of the number of buckets.
        storage_options: As in `bucketfmt.open`, for a table that is given by its URI.
        index: As in `bucketfmt.open`, likewise.

    Raises:
        ValueError: `out_of` is not a divisor, or there is no such bucket.
        IndexUnknownError: the index of the table is unknown.
        UnsupportedError: equal rows may be in different buckets.
        ExecutorError: executors have no bucketfmt, or another release.
    """
    bucket, out_of = check_int("bucket", bucket), check_int("out_of", out_of)
    scan = scan_of(spark, "table", table, storage_options, index)
    groups = bf.group_buckets(scan)
    found = groups.buckets.num_buckets
    if out_of < 1 or found % out_of:
        raise ValueError(f"out_of is a divisor of the {found} buckets, not {out_of}")
    if not 1 <= bucket <= out_of:
        raise ValueError(f"bucket is 1 to {out_of}, not {bucket}")
    reader, accepted = scan.task_reader(), arrow_for_spark(scan.schema)

    def work(payloads: list[bytes]) -> Iterator[pa.RecordBatch]:
        yield from read_all(reader, payloads, accepted)

    chosen = groups.tasks[0][bucket - 1 :: out_of]
    tasks = [[task.payload for _, task in group] for group in chosen if group]
    return task_frame(spark, [tasks], work, scan.schema)
