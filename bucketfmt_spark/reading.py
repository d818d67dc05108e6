"""`read` and `changes`: a table's rows as a DataFrame.

The driver leaves out partitions, and file groups by hash. A task reads one file slice or several
small ones, merges base file and log, and leaves out row groups by their statistics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import bucketfmt as bf
from bucketfmt_spark.engine.executors import parallelism
from bucketfmt_spark.engine.opening import TableOrUri, open_table
from bucketfmt_spark.engine.tasks import pack_by_size, task_frame

__all__ = ["changes", "read", "read_scan"]


def read(
    spark: SparkSession,
    uri: TableOrUri,
    columns: Sequence[str] | None = None,
    filter: Any = None,  # noqa: A002  (as bucketfmt.Table.scan)
    as_of: str | datetime | None = None,
    read_optimized: bool = False,
    *,
    meta_columns: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
) -> DataFrame:
    """Return the rows of a table. Arguments as in `bucketfmt.open` and `bucketfmt.Table.scan`.

    The rows are those of the table at the time of the call, however often the DataFrame is
    computed. Pass columns and a filter here: Spark applies its own to rows that were read.

    Raises:
        ExecutorError: executors have no bucketfmt, or another release.
        SchemaError: the table has no such column.
        UnsupportedError: the table merges records in an unsupported way.
    """
    table = open_table(spark, uri, storage_options, index)
    scan = table.scan(columns, filter, as_of, read_optimized, meta_columns)
    return read_scan(spark, scan)


def changes(
    spark: SparkSession,
    uri: TableOrUri,
    since: str | datetime | None,
    until: str | datetime | None = None,
    columns: Sequence[str] | None = None,
    filter: Any = None,  # noqa: A002
    *,
    meta_columns: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Return the rows written after `since`, up to `until`. As `bucketfmt.Table.changes`.

    Raises:
        ExecutorError: as `read`.
        SchemaError: as `read`.
        UnsupportedError: the rows of the table have no commit times.
    """
    table = open_table(spark, uri, storage_options)
    scan = table.changes(since, until, columns, filter, meta_columns)
    return read_scan(spark, scan)


def read_scan(spark: SparkSession, scan: bf.Scan) -> DataFrame:
    """Return the rows of a scan, with the scan's columns, filter and instant.

    Raises:
        ExecutorError: as `read`.
        ValueError: the scan has a limit; limit the DataFrame.
    """
    reader, pieces = scan.task_reader(), scan.tasks()
    groups = pack_by_size([piece.size for piece in pieces], parallelism(spark))

    def work(payloads: list[bytes]) -> Iterator[pa.RecordBatch]:
        for payload in payloads:
            yield from reader.read(payload)

    tasks = [[pieces[number].payload for number in group] for group in groups]
    return task_frame(spark, [tasks], work, scan.schema)
