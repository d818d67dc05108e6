"""The join of one bucket: its columns, and its execution in memory or in parts on disk.

The driver plans, without I/O; `rows` runs in a task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

import bucketfmt as bf
from bucketfmt_spark.engine.spark_types import arrow_for_spark
from bucketfmt_spark.joining.bucket_rows import BucketRows
from bucketfmt_spark.joining.matching import Engine, How, match_rows

__all__ = ["BucketJoin", "SideName", "plan_join"]

SideName = Literal["left", "right"]

_BATCH_ROWS = 65_536


@dataclass(frozen=True, eq=False)
class BucketJoin:
    """The join that a task does with the two sides of a bucket. Pickles.

    Attributes:
        left: The columns of the left side.
        right: The columns of the right side.
        keys: The columns that are compared, each with the common type of both sides.
        how: The kind of the join.
        engine: The library that finds matches.
        buckets: The buckets of both sides, for splitting sides on disk.
        memory_bytes: The memory for one side; a larger side is split on disk.
        output: The columns of the result: keys, other columns of the left, of the right.
    """

    left: pa.Schema
    right: pa.Schema
    keys: pa.Schema
    how: How
    engine: Engine
    buckets: bf.CommonBuckets
    memory_bytes: int
    output: pa.Schema

    def collect(self, side: SideName, folder: str) -> BucketRows:
        """Return the collector for the rows of one side of a task."""
        schema = self.left if side == "left" else self.right
        return BucketRows(schema, self.buckets, self.memory_bytes, folder, side)

    def rows(self, left: BucketRows, right: BucketRows) -> Iterator[pa.RecordBatch]:
        """Yield the joined rows."""
        if left.is_spilled and not right.is_spilled:
            right.spill()
        if right.is_spilled and not left.is_spilled:
            left.spill()
        for left_rows, right_rows in zip(left.tables(), right.tables(), strict=True):
            yield from self._joined(left_rows, right_rows).to_batches(_BATCH_ROWS)

    def _joined(self, left: pa.Table, right: pa.Table) -> pa.Table:
        left, right = left.combine_chunks(), right.combine_chunks()  # rows are taken out of order
        match = match_rows(self._keys_of(left), self._keys_of(right), self.how, self.engine)
        names = self.output.names
        left_rows = left.select([n for n in left.column_names if n in names]).take(match.left)
        right_rows = None
        if match.right is not None:
            others = [n for n in right.column_names if n in names]
            right_rows = right.select(others).take(match.right)
        columns = []
        for field in self.output:
            if field.name not in self.keys.names:
                is_left = field.name in self.left.names
                side = left_rows if is_left or right_rows is None else right_rows
                columns.append(side.column(field.name))
            elif self.how == "right" and right_rows is not None:
                columns.append(right_rows.column(field.name))
            elif self.how == "full" and right_rows is not None:
                both = [s.column(field.name).cast(field.type) for s in (left_rows, right_rows)]
                # By the row and not by the value: a key that matched is no other's.
                columns.append(pc.if_else(pc.is_valid(match.left), *both))
            else:
                columns.append(left_rows.column(field.name))
        return pa.table(columns, schema=self.output)

    def _keys_of(self, rows: pa.Table) -> pa.Table:
        return rows.select(self.keys.names).cast(self.keys)


def plan_join(
    left: pa.Schema,
    right: pa.Schema,
    buckets: bf.CommonBuckets,
    how: How,
    on: Sequence[str] | None,
    columns: Sequence[str] | None,
    engine: Engine,
    memory_bytes: int,
) -> BucketJoin:
    """Return the join of the buckets of two sides.

    Raises:
        SchemaError: a side lacks a key column; both sides have another column of one name; or
            `columns` names an unknown column.
        UnsupportedError: keys of types that cannot be compared.
        ValueError: `on` leaves out a hash field.
    """
    left, right = arrow_for_spark(left), arrow_for_spark(right)
    names = _key_names(left, right, buckets, on)
    keys = pa.schema([_key_field(name, left.field(name), right.field(name)) for name in names])
    key_types = {"right": right, "full": keys}.get(how, left)
    fields = [key_types.field(name) for name in names]
    fields += [field for field in left if field.name not in names]
    if how not in ("semi", "anti"):
        others = [field for field in right if field.name not in names]
        twice = [field.name for field in others if field.name in left.names]
        if twice:
            raise bf.SchemaError(
                f"both sides have a column {twice[0]} that is no key; leave it out of one side by "
                "scan(columns=...), or rename it in a DataFrame, or join on it too"
            )
        fields += others
    output = pa.schema(fields)
    if columns is not None:
        unknown = [name for name in columns if name not in output.names]
        if unknown or not columns:
            raise bf.SchemaError(
                f"no column {unknown[0] if unknown else ''!r} of the join, which has "
                f"{', '.join(output.names)}"
            )
        output = pa.schema([output.field(name) for name in dict.fromkeys(columns)])
    return BucketJoin(left, right, keys, how, engine, buckets, memory_bytes, output)


def _key_names(
    left: pa.Schema, right: pa.Schema, buckets: bf.CommonBuckets, on: Sequence[str] | None
) -> list[str]:
    hashed = buckets.columns.fields
    names = list(dict.fromkeys(on)) if on is not None else list(hashed)
    left_out = [name for name in hashed if name not in names]
    if left_out:
        raise ValueError(
            f"on={names} leaves out {left_out[0]}, a hash field of the tables: equal rows may be "
            "in different buckets; add the field, or read() the tables and use Spark's own join"
        )
    for side, schema in (("left", left), ("right", right)):
        for name in names:
            if schema.get_field_index(name) < 0:
                raise bf.SchemaError(
                    f"the {side} side lacks the column {name} of the join; it has "
                    f"{', '.join(schema.names)}"
                )
    return names


def _key_field(name: str, left: pa.Field, right: pa.Field) -> pa.Field:
    kinds = left.type, right.type
    if all(map(pa.types.is_integer, kinds)):
        return max(left, right, key=lambda field: field.type.bit_width)
    if kinds[0].equals(kinds[1]) and not (pa.types.is_nested(left.type) or _is_inexact(left.type)):
        return left
    raise bf.UnsupportedError(
        f"{name} is {kinds[0]} on the left and {kinds[1]} on the right: the keys of both sides "
        "have one type, no floating point and not nested; cast the column of one side"
    )


def _is_inexact(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_null(kind))
