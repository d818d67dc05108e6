"""`aggregate`: groups a bucketed table bucket by bucket, with no exchange.

Rows with equal hash fields are in one bucket, so that a task that groups by the hash fields, and
by further columns, needs one bucket only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

import bucketfmt as bf
from bucketfmt_spark.engine.executors import parallelism
from bucketfmt_spark.engine.resolver import Resolver
from bucketfmt_spark.engine.spark_types import arrow_for_spark
from bucketfmt_spark.engine.tasks import task_frame
from bucketfmt_spark.joining.bucket_rows import BucketRows, Budget, read_bucket
from bucketfmt_spark.joining.bucket_tasks import pack_buckets, unpack_buckets
from bucketfmt_spark.joining.sides import Side, scan_of

__all__ = ["aggregate"]

_MEMORY_BYTES = 512 << 20
_BATCH_ROWS = 65_536
_INT64_MAX = (1 << 63) - 1
_DIGITS_MAX = 38
_ARROWS: dict[str, list[tuple[Any, ...]]] = {
    "sum": [("sum",)],
    "avg": [("sum",), ("count",)],
    "min": [("min",)],
    "max": [("max",)],
    "stddev": [("stddev", pc.VarianceOptions(ddof=1))],
    "count": [("count",)],
    "count_distinct": [("count_distinct",)],
}
"""By the function of Spark: the functions of Arrow, with their options."""


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
        memory_bytes: The memory for the rows of a task, which has one large bucket or several small
            ones; more rows are split into parts on local disk.
        storage_options: As in `bucketfmt.open`, for a table that is given by its URI.
        index: As in `bucketfmt.open`, likewise.

    Raises:
        IndexUnknownError: the table does not say how keys map to buckets.
        UnsupportedError: equal rows may be in different buckets, or a type cannot be grouped.
        SchemaError: the table has no such column.
        ValueError: `keys` leaves out a hash field, or there is no such function.
        ExecutorError: executors have no bucketfmt, or another release.
    """
    scan = scan_of(spark, table, storage_options, index)
    groups = bf.group_buckets(scan)
    schema = arrow_for_spark(scan.schema)
    resolver = Resolver.of(spark, schema)
    keys = [resolver.name(name) for name in keys]
    aggs = {name: (resolver.name(column), what) for name, (column, what) in aggs.items()}
    hashed = groups.buckets.columns.fields
    left_out = [name for name in hashed if name not in keys]
    if left_out:
        raise ValueError(
            f"keys={list(keys)} leaves out {left_out[0]}, a hash field of the table: a group may "
            "have rows in several buckets; add the field, or read() the table and use groupBy"
        )
    plan = _plan(schema, list(dict.fromkeys(keys)), aggs)
    reader, buckets = scan.task_reader(), groups.buckets

    def work(headers: list[bytes], payloads: list[bytes]) -> Iterator[pa.RecordBatch]:
        with tempfile.TemporaryDirectory(prefix="bucketfmt-") as folder:
            rows = BucketRows(plan.columns, buckets, Budget(memory_bytes), folder, "rows")
            names = plan.columns.names
            for bucket, (own,) in unpack_buckets(headers, payloads):
                if rows.budget.is_half_used:  # a group is in one bucket: group these
                    yield from plan.groups(rows)
                    rows = BucketRows(plan.columns, buckets, Budget(memory_bytes), folder, "rows")
                found = read_bucket(reader, own, schema, buckets, bucket)
                rows.add(batch.select(names) for batch in found)
            yield from plan.groups(rows)

    kept = [bucket for bucket, group in enumerate(groups.tasks[0]) if group]
    sides = pack_buckets(groups, kept, parallelism(spark))
    name = f"bucketfmt aggregate: {len(kept)} buckets in {len(sides[0])} tasks"
    return task_frame(spark, sides, work, plan.output, name)


class _Aggregate(NamedTuple):
    """A column of the result: its source column, function, and type."""

    name: str
    column: str | None
    function: str
    kind: pa.DataType


@dataclass(frozen=True, eq=False)
class _Plan:
    columns: pa.Schema
    keys: list[str]
    aggregates: list[_Aggregate]
    output: pa.Schema

    def groups(self, rows: BucketRows) -> Iterator[pa.RecordBatch]:
        """Yield the groups of the rows of whole buckets."""
        for part in rows.tables():
            if part.num_rows:
                yield from self.group(part).to_batches(_BATCH_ROWS)

    def group(self, rows: pa.Table) -> pa.Table:
        """Return the groups of rows.

        Raises:
            ValueError: a sum or an average does not fit the type of the result.
        """
        wanted: list[Any] = []
        arguments = {}
        for number, item in enumerate(self.aggregates):
            if item.column is None:
                wanted.append(([], "count_all"))
                continue
            argument = f"{number}"
            arguments[argument] = _widened(rows.column(item.column), item)
            wanted += [(argument, *function) for function in _ARROWS[item.function]]
        named = {f"k{number}": rows.column(name) for number, name in enumerate(self.keys)}
        found = pa.table({**named, **arguments}).group_by(list(named), use_threads=False)
        groups = found.aggregate(wanted)
        columns = [groups.column(f"k{number}") for number in range(len(self.keys))]
        for number, item in enumerate(self.aggregates):
            if item.column is None:
                columns.append(groups.column("count_all"))
                continue
            found = [groups.column(f"{number}_{name}") for name, *_ in _ARROWS[item.function]]
            columns.append(_narrowed(found, item))
        return pa.table(columns, schema=self.output)


def _plan(schema: pa.Schema, keys: list[str], aggs: Mapping[str, tuple[str, str]]) -> _Plan:
    fields = [_known(schema, name) for name in keys]
    for field in fields:
        if pa.types.is_nested(field.type) or pa.types.is_floating(field.type):
            raise bf.UnsupportedError(
                f"grouping by {field.name} of type {field.type}: keys are no floating point "
                "numbers and not nested; read() the table and use groupBy"
            )
    aggregates = [_aggregate(schema, name, *given) for name, given in aggs.items()]
    twice = {item.name for item in aggregates} & set(keys)
    if twice:
        raise ValueError(
            f"{twice.pop()!r} is both a key and a column of the result; rename that column"
        )
    needed = dict.fromkeys([*keys, *(item.column for item in aggregates if item.column)])
    output = [*fields, *(pa.field(item.name, item.kind) for item in aggregates)]
    columns = pa.schema([_known(schema, name) for name in needed])
    return _Plan(columns, keys, aggregates, pa.schema(output))


def _known(schema: pa.Schema, name: str) -> pa.Field:
    index = schema.get_field_index(name)
    if index < 0:
        raise bf.SchemaError(f"no column {name!r}; the scan has {', '.join(schema.names)}")
    return schema.field(index)


def _aggregate(schema: pa.Schema, name: str, column: str, function: str) -> _Aggregate:
    """Return an aggregate with the type that Spark's function returns."""
    if (column, function) == ("*", "count"):
        return _Aggregate(name, None, function, pa.int64())
    if function not in _ARROWS:
        raise ValueError(
            f"a function is {', '.join(_ARROWS)}, not {function!r}; for others read() the table "
            "and use groupBy"
        )
    kind = _known(schema, column).type
    types = pa.types
    if function == "count":
        return _Aggregate(name, column, function, pa.int64())
    if types.is_nested(kind) or (function == "count_distinct" and types.is_floating(kind)):
        raise _not_built(function, column, kind)
    if function == "count_distinct":
        return _Aggregate(name, column, function, pa.int64())
    if function in ("min", "max"):
        return _Aggregate(name, column, function, kind)
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
        raise _not_built(function, column, kind)
    if function in ("sum", "avg") and types.is_decimal(kind):
        more_digits, more_scale = (10, 0) if function == "sum" else (4, 4)
        digits = min(kind.precision + more_digits, _DIGITS_MAX)
        scale = min(kind.scale + more_scale, _DIGITS_MAX)
        return _Aggregate(name, column, function, pa.decimal128(digits, scale))
    is_whole = function == "sum" and types.is_integer(kind)
    return _Aggregate(name, column, function, pa.int64() if is_whole else pa.float64())


def _not_built(function: str, column: str, kind: pa.DataType) -> bf.UnsupportedError:
    return bf.UnsupportedError(
        f"{function} of {column}, which is {kind}, is not supported; read() the table and use "
        "groupBy"
    )


def _widened(column: pa.ChunkedArray, item: _Aggregate) -> pa.ChunkedArray:
    """Return the column to aggregate, in a type whose sums are exact and whose order is Spark's."""
    kind = column.type
    if item.function in ("min", "max") and pa.types.is_floating(kind):
        return pa.chunked_array([_ordered(column.combine_chunks().cast(pa.float64()))])
    if item.function in ("sum", "avg") and pa.types.is_decimal(kind):
        return column.cast(pa.decimal128(_DIGITS_MAX, kind.scale))
    if item.function in ("avg", "stddev"):
        return column.cast(pa.float64(), safe=False)
    if item.function == "sum" and pa.types.is_integer(kind):
        column = column.cast(pa.int64())
        bounds = pc.min_max(column).as_py()
        most = max(abs(bounds["min"] or 0), abs(bounds["max"] or 0))
        if most * len(column) > _INT64_MAX:  # Arrow wraps around: sum where it cannot
            return column.cast(pa.decimal128(_DIGITS_MAX, 0))
    return column


def _narrowed(found: list[pa.ChunkedArray], item: _Aggregate) -> pa.ChunkedArray:
    """Return the results of Arrow's functions as the one of Spark's function."""
    column = found[0]
    if item.function in ("min", "max") and pa.types.is_floating(item.kind):
        column = pa.chunked_array([_unordered(column.combine_chunks())])
    if item.function == "avg":
        column = _divided(found[0], found[1], item.kind)
    try:
        return column.cast(item.kind)
    except pa.ArrowInvalid as error:
        what = "average" if item.function == "avg" else "sum"
        raise ValueError(f"the {what} {item.name} does not fit {item.kind}: {error}") from None


def _divided(sums: pa.ChunkedArray, counts: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if not pa.types.is_decimal(kind):
        return pc.divide(sums, pc.if_else(pc.equal(counts, 0), 1, counts))
    # The quotient has 20 digits more than the sum, and halves are rounded away from zero.
    number = pc.if_else(pc.equal(counts, 0), 1, counts).cast(pa.decimal128(19, 0))
    quotient = pc.divide(sums.cast(pa.decimal256(_DIGITS_MAX, sums.type.scale)), number)
    return pc.round(quotient, ndigits=kind.scale, round_mode="half_towards_infinity")


def _ordered(values: pa.Array) -> pa.Array:
    """Return an integer for each double, in the order of Spark, for which NaN is the largest."""
    doubles = values.fill_null(0.0).to_numpy(zero_copy_only=False)
    doubles = np.where(np.isnan(doubles), np.nan, doubles)  # one NaN of many
    bits = doubles.view(np.int64)
    mask = np.asarray(values.is_null())
    return pa.array(bits ^ ((bits >> 63) & _INT64_MAX), mask=mask)


def _unordered(numbers: pa.Array) -> pa.Array:
    """Return the doubles of `_ordered`."""
    bits = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    doubles = (bits ^ ((bits >> 63) & _INT64_MAX)).view(np.float64)
    return pa.array(doubles, mask=np.asarray(numbers.is_null()), from_pandas=False)
