"""The grouping of whole buckets: its columns, and its execution in memory or in parts on disk.

The driver plans, without I/O; `groups` runs in a task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import bucketfmt as bf
from bucketfmt_spark.joining.aggregate_values import DIGITS_MAX, Aggregate, narrowed, widened
from bucketfmt_spark.joining.bucket_rows import BucketRows, Budget, Cost

__all__ = ["BucketGrouping", "plan_grouping"]

_BATCH_ROWS = 65_536
# Where each row is a group of its own, measured: docs/how-to/spark-memory.md.
_BY_BYTE, _BY_ROW, _BY_FUNCTION = 3.6, 40, 50
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


@dataclass(frozen=True, eq=False)
class BucketGrouping:
    """The grouping that a task does with the rows of whole buckets. Pickles.

    Attributes:
        columns: The columns that are needed.
        keys: The columns to group by.
        aggregates: The columns of the result after the keys.
        output: The columns of the result.
    """

    columns: pa.Schema
    keys: list[str]
    aggregates: list[Aggregate]
    output: pa.Schema

    def collect(self, buckets: bf.CommonBuckets, memory_bytes: int, folder: str) -> BucketRows:
        """Return a collector for rows, which goes to disk where grouping them takes more memory."""
        functions = sum(len(_ARROWS[item.function]) for item in self.aggregates)
        cost = Cost(_BY_BYTE, _BY_ROW + _BY_FUNCTION * functions)
        return BucketRows(self.columns, buckets, Budget(memory_bytes, cost), folder, "rows")

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
            arguments[argument] = widened(rows.column(item.column), item)
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
            columns.append(narrowed(found, item))
        return pa.table(columns, schema=self.output)


def plan_grouping(
    schema: pa.Schema, keys: list[str], aggs: Mapping[str, tuple[str, str]]
) -> BucketGrouping:
    """Return the grouping of the rows of a table.

    Args:
        schema: The columns of the table, in the types of Spark.
        keys: The columns to group by.
        aggs: For each column of the result, (column, function).

    Raises:
        UnsupportedError: a type cannot be grouped or aggregated.
        SchemaError: the table has no such column.
        ValueError: there is no such function, or a column of the result has the name of a key.
    """
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
    return BucketGrouping(columns, keys, aggregates, pa.schema(output))


def _known(schema: pa.Schema, name: str) -> pa.Field:
    index = schema.get_field_index(name)
    if index < 0:
        raise bf.SchemaError(f"no column {name!r}; the scan has {', '.join(schema.names)}")
    return schema.field(index)


def _aggregate(schema: pa.Schema, name: str, column: str, function: str) -> Aggregate:
    """Return an aggregate with the type that Spark's function returns."""
    if (column, function) == ("*", "count"):
        return Aggregate(name, None, function, pa.int64())
    if function not in _ARROWS:
        raise ValueError(
            f"a function is {', '.join(_ARROWS)}, not {function!r}; for others read() the table "
            "and use groupBy"
        )
    kind = _known(schema, column).type
    types = pa.types
    if function == "count":
        return Aggregate(name, column, function, pa.int64())
    if types.is_nested(kind) or (function == "count_distinct" and types.is_floating(kind)):
        raise _not_built(function, column, kind)
    if function == "count_distinct":
        return Aggregate(name, column, function, pa.int64())
    if function in ("min", "max"):
        return Aggregate(name, column, function, kind)
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
        raise _not_built(function, column, kind)
    if function in ("sum", "avg") and types.is_decimal(kind):
        more_digits, more_scale = (10, 0) if function == "sum" else (4, 4)
        digits = min(kind.precision + more_digits, DIGITS_MAX)
        scale = min(kind.scale + more_scale, DIGITS_MAX)
        return Aggregate(name, column, function, pa.decimal128(digits, scale))
    is_whole = function == "sum" and types.is_integer(kind)
    return Aggregate(name, column, function, pa.int64() if is_whole else pa.float64())


def _not_built(function: str, column: str, kind: pa.DataType) -> bf.UnsupportedError:
    return bf.UnsupportedError(
        f"{function} of {column}, which is {kind}, is not supported; read() the table and use "
        "groupBy"
    )
