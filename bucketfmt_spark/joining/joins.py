"""`join`: joins bucketed tables bucket by bucket, with no exchange.

Rows with equal keys are in buckets of one number on both sides, so that a task joins one bucket
of each (RFC-29), or a part of one. Where one side is a DataFrame, only the rows of the DataFrame
are moved, once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import bucketfmt as bf
from bucketfmt_spark.engine.arguments import (
    check_int,
    check_session,
    check_text,
    is_frame,
)
from bucketfmt_spark.engine.bucket_parts import BucketParts
from bucketfmt_spark.engine.exchange import exchange, split_by_bucket
from bucketfmt_spark.engine.executors import check_executors, map_batches, parallelism
from bucketfmt_spark.engine.resolver import is_case_sensitive, named_as
from bucketfmt_spark.engine.spark_types import arrow_of, as_spark_takes_it, spark_schema
from bucketfmt_spark.engine.tasks import PackedTasks, task_frame
from bucketfmt_spark.joining.bucket_join import JoinTerms, SideName, plan_join
from bucketfmt_spark.joining.bucket_rows import read_bucket, spill_folder
from bucketfmt_spark.joining.bucket_tasks import count_tasks, pack_buckets, unpack_buckets
from bucketfmt_spark.joining.matching import Engine, How, check_engine
from bucketfmt_spark.joining.sides import Side, scan_of

__all__ = ["join"]

_MEMORY_BYTES = 512 << 20
_SIDES = ("left", "right")
_HOW: dict[str, How] = {
    "inner": "inner",
    **dict.fromkeys(("left", "leftouter", "left_outer"), "left"),
    **dict.fromkeys(("right", "rightouter", "right_outer"), "right"),
    **dict.fromkeys(("full", "outer", "fullouter", "full_outer"), "full"),
    **dict.fromkeys(("semi", "leftsemi", "left_semi"), "semi"),
    **dict.fromkeys(("anti", "leftanti", "left_anti"), "anti"),
}


def join(
    spark: SparkSession,
    left: Side | DataFrame,
    right: Side | DataFrame,
    how: str = "inner",
    *,
    on: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    suffix: str | None = None,
    engine: Engine = "pyarrow",
    memory_bytes: int = _MEMORY_BYTES,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
) -> DataFrame:
    """Return the join of two sides, as Spark's `left.join(right, on, how)` returns it.

    Names of columns are resolved as the session resolves them.

    Args:
        spark: The session.
        left: A table, or a scan of it; one side may be a DataFrame.
        right: As `left`.
        how: The kind of the join, by Spark's names: inner, left, right, full, semi, anti.
        on: The common columns to join by, the hash fields of the tables among them. By default
            the hash fields.
        columns: The columns of the result. A `select` afterwards saves little, because Spark does
            not push it down into Python tasks.
        suffix: Added to the names of columns of the right side that the left side has too and that
            are no keys. Without it such columns are refused.
        engine: The library that joins the rows of a bucket: pyarrow, polars (the fastest) or
            duckdb.
        memory_bytes: The memory of a task, which has one large bucket, several small ones, or a
            part of a bucket that is larger than a core's share of all rows. Sides that take more
            are split into parts on local disk and joined part by part.
        storage_options: As in `bucketfmt.open`, for the sides that are given by their URIs.
        index: As in `bucketfmt.open`, likewise.

    Raises:
        UnsupportedError: the tables hash different fields, or equal rows may be in different
            buckets for another reason; or keys are of a type that cannot be compared as bytes.
        IndexUnknownError: the index of a table is unknown.
        SchemaError: a side lacks a key column, or both sides have another column of one name and
            there is no suffix.
        ValueError: there is no such kind of join, or `on` leaves out a hash field.
        TypeError: both sides are DataFrames.
        ExecutorError: executors have no bucketfmt, or another release.
    """
    check_session(spark)
    check_engine(engine)
    kind = _HOW.get(how.lower()) if isinstance(how, str) else None
    if kind is None:
        raise ValueError(f"how is one of {', '.join(dict.fromkeys(_HOW.values()))}, not {how!r}")
    terms = JoinTerms(
        kind,
        engine,
        check_int("memory_bytes", memory_bytes, 1),
        on,
        columns,
        suffix,
        is_case_sensitive(spark),
    )
    if suffix is not None:
        check_text("suffix", suffix, "text such as '_right'", may_be_blank=True)
    if is_frame(left) or is_frame(right):
        return _join_frame(spark, left, right, terms, storage_options, index)
    scans = [
        scan_of(spark, name, side, storage_options, index)
        for name, side in zip(_SIDES, (left, right), strict=True)
    ]
    groups = bf.group_buckets(*scans)
    buckets, parts = groups.buckets, BucketParts.plan(groups, parallelism(spark))
    plan = plan_join(scans[0].schema, scans[1].schema, buckets, terms)
    readers = [
        scan.task_reader().of_columns(columns.names)
        for scan, columns in zip(scans, (plan.left, plan.right), strict=True)
    ]
    pairs = enumerate(zip(*groups.tasks, strict=True))
    kept = [bucket for bucket, pair in pairs if _has_rows(terms.how, *map(bool, pair))]

    def work(headers: list[bytes], *payloads: list[bytes]) -> Iterator[pa.RecordBatch]:
        with spill_folder() as folder:
            sides = plan.collect(folder)
            for number, of_bucket in unpack_buckets(headers, *payloads):
                if sides[0].budget.is_half_used:  # equal keys are in one bucket: join these
                    yield from plan.rows(*sides)
                    sides = plan.collect(folder)
                bucket = parts.bucket_of(number)
                for side, reader, own in zip(sides, readers, of_bucket, strict=True):
                    rows = read_bucket(reader, own, side.schema, buckets, bucket)
                    side.add(parts.own_rows(rows, number))
            yield from plan.rows(*sides)

    tasks = pack_buckets(groups, parts, kept, parallelism(spark))
    read = "; ".join(f"{side} {scan.plan()}" for side, scan in zip(_SIDES, scans, strict=True))
    name = f"bucketfmt {terms.how} join: {len(kept)} buckets in {len(tasks[0])} tasks; {read}"
    return task_frame(spark, tasks, work, plan.output, name)


def _join_frame(
    spark: SparkSession,
    left: Side | DataFrame,
    right: Side | DataFrame,
    terms: JoinTerms,
    storage_options: Mapping[str, Any] | None,
    index: bf.Index | None,
) -> DataFrame:
    """Join a table with a DataFrame, whose rows go to the table's buckets, or parts of these."""
    if is_frame(left) and is_frame(right):
        raise TypeError("both sides are DataFrames; use Spark's own join, left.join(right)")
    frame: Any = left if is_frame(left) else right
    table = right if frame is left else left
    of_frame: SideName = "left" if frame is left else "right"
    of_table: SideName = "right" if frame is left else "left"
    scan = scan_of(spark, of_table, table, storage_options, index)
    groups = bf.group_buckets(scan)
    buckets = groups.buckets
    buckets.check_rows_tell()
    frame = named_as(frame, scan.schema.names)
    schemas = {of_frame: arrow_of(frame.schema), of_table: scan.schema}
    plan = plan_join(schemas["left"], schemas["right"], buckets, terms)
    check_executors(spark)
    reader = scan.task_reader().of_columns(getattr(plan, of_table).names)
    parts = BucketParts.plan(groups, parallelism(spark))
    packed = PackedTasks.of([[task.payload for _, task in group] for group in groups.tasks[0]])

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with spill_folder() as folder:
            left_rows, right_rows = plan.collect(folder)
            moved, read = (left_rows, right_rows) if of_frame == "left" else (right_rows, left_rows)
            found: set[int] = set()
            for number, rows in split_by_bucket(batches):
                found.add(number)
                moved.add([as_spark_takes_it(rows.select(moved.schema.names), moved.schema)])
            for number in found:
                bucket = parts.bucket_of(number)
                stored = read_bucket(reader, packed[bucket], read.schema, buckets, bucket)
                read.add(parts.own_rows(stored, number))
            yield from plan.rows(left_rows, right_rows)

    every_bucket = _has_rows(terms.how, of_table == "left", of_table == "right")
    num_tasks = count_tasks(groups, len(parts), parallelism(spark))
    moved = exchange(frame, parts, num_tasks, every_bucket=every_bucket)
    return map_batches(moved, run, spark_schema(plan.output), f"bucketfmt {terms.how} join")


def _has_rows(how: How, left: bool, right: bool) -> bool:
    """Return whether the join of a bucket can have rows, by the sides that have rows."""
    return {
        "inner": left and right,
        "semi": left and right,
        "left": left,
        "anti": left,
        "right": right,
        "full": left or right,
    }[how]
