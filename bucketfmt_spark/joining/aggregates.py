"""`aggregate`: groups a bucketed table bucket by bucket, with no exchange.

Rows with equal hash fields are in one bucket, so that a task that groups by the hash fields, and
by further columns, needs one bucket only. A bucket that is larger than a core's share of all rows
is read by several tasks and grouped by Spark, which moves partial results of such buckets only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

import bucketfmt as bf
from bucketfmt_spark.engine.arguments import check_int, shown
from bucketfmt_spark.engine.bucket_parts import BucketParts
from bucketfmt_spark.engine.executors import parallelism
from bucketfmt_spark.engine.resolver import Resolver
from bucketfmt_spark.engine.spark_types import arrow_for_spark
from bucketfmt_spark.engine.tasks import number_tasks, plan_read_tasks, task_frame
from bucketfmt_spark.joining.bucket_grouping import BucketGrouping, plan_grouping
from bucketfmt_spark.joining.bucket_rows import read_bucket, spill_folder
from bucketfmt_spark.joining.bucket_tasks import pack_buckets, unpack_buckets
from bucketfmt_spark.joining.sides import Side, scan_of

__all__ = ["aggregate"]

_MEMORY_BYTES = 512 << 20
_OF_SPARK: dict[str, Callable[..., Column]] = {
    "sum": sf.sum,
    "avg": sf.avg,
    "min": sf.min,
    "max": sf.max,
    "stddev": sf.stddev,
    "count": sf.count,
    "count_distinct": sf.count_distinct,
}


def aggregate(
    spark: SparkSession,
    table: Side,
    keys: Sequence[str],
    aggs: Mapping[str, tuple[str, str]],
    *,
    memory_bytes: int = _MEMORY_BYTES,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
) -> DataFrame:
    """Return the groups of a table, as Spark's `groupBy(keys).agg(...)` returns them.

    Args:
        spark: The session.
        table: A table, or a scan of it.
        keys: The columns to group by, the hash fields of the table among them.
        aggs: For each column of the result, (column, function); ("*", "count") counts rows. The
            functions are sum, avg, min, max, stddev, count and count_distinct. Names of columns are
            resolved as the session resolves them.
        memory_bytes: The memory of a task, which has one large bucket or several small ones. Rows
            that take more to group are split into parts on local disk. Buckets that are larger than
            a core's share of all rows are read by several tasks and grouped by Spark, with an
            exchange.
        storage_options: As in `bucketfmt.open`, for a table that is given by its URI.
        index: As in `bucketfmt.open`, likewise.

    Raises:
        IndexUnknownError: the table does not say how keys map to buckets.
        UnsupportedError: equal rows may be in different buckets, or a type cannot be grouped.
        SchemaError: the table has no such column.
        ValueError: `keys` leaves out a hash field, or there is no such function.
        ExecutorError: executors have no bucketfmt, or another release.
    """
    aggs, memory_bytes = _checked(aggs), check_int("memory_bytes", memory_bytes, 1)
    scan = scan_of(spark, "table", table, storage_options, index)
    groups = bf.group_buckets(scan)
    schema = arrow_for_spark(scan.schema)
    resolver = Resolver.of(spark, schema)
    keys = resolver.names("keys", keys)
    aggs = {name: (resolver.name(column), what) for name, (column, what) in aggs.items()}
    hashed = groups.buckets.columns.fields
    left_out = [name for name in hashed if name not in keys]
    if left_out:
        raise ValueError(
            f"keys={list(keys)} leaves out {left_out[0]}, a hash field of the table: a group may "
            "have rows in several buckets; add the field, or read() the table and use groupBy"
        )
    plan = plan_grouping(schema, list(dict.fromkeys(keys)), aggs)
    reader, tasks_at_once = scan.task_reader().of_columns(plan.columns.names), parallelism(spark)
    parts = BucketParts.plan(groups, tasks_at_once)
    kept = [bucket for bucket, group in enumerate(groups.tasks[0]) if group]
    alone = [bucket for bucket in kept if parts.counts[bucket] == 1]
    large = [bucket for bucket in kept if parts.counts[bucket] > 1]
    frames = []
    if alone or not large:
        sides = pack_buckets(groups, parts, alone, tasks_at_once)
        name = f"bucketfmt aggregate: {len(alone)} buckets in {len(sides[0])} tasks; {scan.plan()}"
        work = _grouper(plan, reader, parts, memory_bytes)
        frames.append(task_frame(spark, sides, work, plan.output, name))
    if large:
        frames.append(_grouped_by_spark(spark, plan, reader, groups, large))
    return reduce(DataFrame.unionAll, frames)


def _checked(aggs: Any) -> dict[str, tuple[str, str]]:
    wanted = "aggs is a dict such as {'total': ('fare', 'sum')}"
    if not isinstance(aggs, Mapping):
        raise TypeError(f"{wanted}, not {shown(aggs)}")
    for name, given in aggs.items():
        pair = given if isinstance(given, tuple | list) else ()
        if not all(isinstance(text, str) for text in (name, *pair)) or len(pair) != 2:
            got = f"({', '.join(map(shown, pair))})" if pair else shown(given)
            raise TypeError(f"{wanted}, and {shown(name)} has {got}")
    return {name: (column, function) for name, (column, function) in aggs.items()}


def _grouper(
    plan: BucketGrouping, reader: bf.TaskReader, parts: BucketParts, memory_bytes: int
) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return the function that groups the buckets of a task."""
    buckets = parts.buckets

    def work(headers: list[bytes], payloads: list[bytes]) -> Iterator[pa.RecordBatch]:
        with spill_folder() as folder:
            rows = plan.collect(buckets, memory_bytes, folder)
            for number, (own,) in unpack_buckets(headers, payloads):
                if rows.budget.is_half_used:  # a group is in one bucket: group these
                    yield from plan.groups(rows)
                    rows = plan.collect(buckets, memory_bytes, folder)
                bucket = parts.bucket_of(number)
                rows.add(read_bucket(reader, own, plan.columns, buckets, bucket))
            yield from plan.groups(rows)

    return work


def _grouped_by_spark(
    spark: SparkSession,
    plan: BucketGrouping,
    reader: bf.TaskReader,
    groups: bf.BucketGroups,
    large: Sequence[int],
) -> DataFrame:
    """Return the groups of large buckets, which are read in parts."""
    buckets, tasks_at_once = groups.buckets, parallelism(spark)
    tasks = {
        bucket: plan_read_tasks([task for _, task in groups.tasks[0][bucket]], tasks_at_once)
        for bucket in large
    }

    def work(number: list[bytes], payloads: list[bytes]) -> Iterator[pa.RecordBatch]:
        yield from read_bucket(reader, payloads, plan.columns, buckets, int(number[0]))

    sides = [
        number_tasks(bucket for bucket, found in tasks.items() for _ in found),
        [payloads for found in tasks.values() for payloads in found],
    ]
    name = f"bucketfmt aggregate: {len(large)} large buckets in {len(sides[0])} tasks"
    frame = task_frame(spark, sides, work, plan.columns, name)
    columns = {name: f"c{number}" for number, name in enumerate(frame.columns)}
    aggregates = [
        _OF_SPARK[item.function](sf.lit(1) if item.column is None else columns[item.column])
        for item in plan.aggregates
    ]
    keys = [columns[name] for name in plan.keys]
    found = frame.toDF(*columns.values()).groupBy(*keys)
    named = [column.alias(f"a{number}") for number, column in enumerate(aggregates)]
    # Without aggregates the groups are the distinct keys.
    grouped = found.agg(*named) if named else found.count().select(*keys)
    return grouped.toDF(*plan.output.names)
