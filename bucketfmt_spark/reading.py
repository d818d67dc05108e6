"""`read` and `changes`: a table's rows as a DataFrame.

The driver leaves out partitions, and file groups by hash. A task reads one file slice, several
small ones or a part of a large one, merges base file and log, and leaves out row groups by their
statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import bucketfmt as bf
from bucketfmt_spark.engine.arguments import (
    check_condition,
    check_kind,
    check_session,
    is_column,
)
from bucketfmt_spark.engine.executors import parallelism
from bucketfmt_spark.engine.opening import TableOrUri, open_table
from bucketfmt_spark.engine.resolver import Resolver
from bucketfmt_spark.engine.tasks import plan_read_tasks, task_frame

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
    computed. Pass columns and a filter here: a `select` or `where` afterwards is applied to rows
    that were read.

    The filter may also be SQL text or a Column. Spark applies the filter to the rows, and the part
    of it that compares columns of text, integers, booleans, dates and timestamps with literals
    (=, <, IN, BETWEEN, LIKE 'p%', IS NULL, and AND and OR of these) leaves out partitions, buckets
    and row groups. On Spark Connect a Column leaves out nothing: give text.
    Names of columns are resolved as the session resolves them. `explain()` shows how many file
    groups, files and bytes are left to read, what was left out, and the columns.

    Raises:
        ExecutorError: executors have no bucketfmt, or another release.
        SchemaError: the table has no such column.
        UnsupportedError: the table merges records in an unsupported way.
    """
    table = open_table(spark, uri, storage_options, index)

    def scan(wanted: Sequence[str] | None, given: Any) -> bf.Scan:
        return table.scan(wanted, given, as_of, read_optimized, meta_columns)

    return _read(spark, table, scan, columns, filter)


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
    index: bf.Index | None = None,
) -> DataFrame:
    """Return the rows written after `since`, up to `until`. As `bucketfmt.Table.changes`.

    Raises:
        ExecutorError: as `read`.
        SchemaError: as `read`.
        UnsupportedError: the rows of the table have no commit times.
    """
    table = open_table(spark, uri, storage_options, index)

    def scan(wanted: Sequence[str] | None, given: Any) -> bf.Scan:
        return table.changes(since, until, wanted, given, meta_columns)

    return _read(spark, table, scan, columns, filter)


def _read(
    spark: SparkSession,
    table: bf.Table,
    scan: Callable[[Sequence[str] | None, Any], bf.Scan],
    columns: Sequence[str] | None,
    row_filter: Any,
) -> DataFrame:
    """Return the rows of a scan of some columns with a filter, which may be Spark's."""
    resolver = Resolver.of(spark, table.schema)
    wanted = None if columns is None else resolver.names("columns", columns)
    if not isinstance(row_filter, str) and not is_column(row_filter):
        return read_scan(spark, scan(wanted, resolver.predicates(row_filter)))
    # Imported here, because sqlglot takes longer to import than all else that executors need.
    from bucketfmt_spark.engine.conditions import find_condition, text_of  # noqa: PLC0415

    check_condition("filter", row_filter)
    found = find_condition(text_of(spark, row_filter, table.schema), resolver)
    if wanted is None:
        return read_scan(spark, scan(None, found.alternatives)).where(row_filter)
    needed = resolver.schema.names if found.columns is None else found.columns
    others = [name for name in needed if name not in wanted]
    rows = read_scan(spark, scan([*wanted, *others], found.alternatives)).where(row_filter)
    return rows.drop(*others)


def read_scan(spark: SparkSession, scan: bf.Scan) -> DataFrame:
    """Return the rows of a scan, with the scan's columns, filter and instant.

    Raises:
        ExecutorError: as `read`.
        ValueError: the scan has a limit; limit the DataFrame.
    """
    check_session(spark)
    check_kind("scan", scan, bf.Scan, "a bucketfmt.Scan, as Table.scan() returns it")
    reader = scan.task_reader()
    tasks = plan_read_tasks(scan.tasks(), parallelism(spark))

    def work(payloads: list[bytes]) -> Iterator[pa.RecordBatch]:
        for payload in payloads:
            yield from reader.read(payload)

    name = f"bucketfmt scan: {scan.plan()}; columns {', '.join(scan.schema.names)}"
    return task_frame(spark, [tasks], work, scan.schema, name)
