"""The join of one bucket: its columns, and its execution in memory or in parts on disk.

The driver plans, without I/O; `rows` runs in a task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

import bucketfmt as bf
from bucketfmt_spark.engine.resolver import Resolver
from bucketfmt_spark.engine.spark_types import arrow_for_spark
from bucketfmt_spark.joining.bucket_rows import BucketRows, Budget, Cost
from bucketfmt_spark.joining.matching import Engine, How, Match, match_rows

__all__ = ["BucketJoin", "JoinTerms", "SideName", "plan_join"]

SideName = Literal["left", "right"]

_BATCH_ROWS = 65_536
_COST = Cost(4, 40)  # of pyarrow, which takes the most: docs/how-to/spark-memory.md


@dataclass(frozen=True)
class JoinTerms:
    """What is asked of a join.

    Attributes:
        how: The kind of the join.
        engine: The library that finds matches.
        memory_bytes: The memory of a task; where it does not suffice, sides are split on disk.
        on: The common columns to join by; None: the hash fields.
        columns: The columns of the result; None: all.
        suffix: Added to the names of columns of the right side that the left side has too.
        is_case_sensitive: Whether names that differ in case alone are names of two columns.
    """

    how: How
    engine: Engine
    memory_bytes: int
    on: Sequence[str] | None = None
    columns: Sequence[str] | None = None
    suffix: str | None = None
    is_case_sensitive: bool = True


@dataclass(frozen=True, eq=False)
class BucketJoin:
    """The join that a task does with the two sides of a bucket. Pickles.

    Attributes:
        left: The columns of the left side that are needed.
        right: The columns of the right side that are needed.
        keys: The columns that are compared, each with the common type of both sides.
        buckets: The buckets of both sides, for splitting sides on disk.
        terms: What was asked.
        output: The columns of the result: keys, other columns of the left, of the right.
        renamed: The columns of the right side that have another name in the result, by that name.
    """

    left: pa.Schema
    right: pa.Schema
    keys: pa.Schema
    buckets: bf.CommonBuckets
    terms: JoinTerms
    output: pa.Schema
    renamed: Mapping[str, str]

    def collect(self, folder: str) -> tuple[BucketRows, BucketRows]:
        """Return the collectors for the rows of the left and of the right side of a task.

        Args:
            folder: For files; the caller removes it.
        """
        budget = Budget(self.terms.memory_bytes, _COST)
        return (
            BucketRows(self.left, self.buckets, budget, folder, "left"),
            BucketRows(self.right, self.buckets, budget, folder, "right"),
        )

    def rows(self, left: BucketRows, right: BucketRows) -> Iterator[pa.RecordBatch]:
        """Yield the joined rows."""
        if left.is_spilled and not right.is_spilled:
            right.spill()
        if right.is_spilled and not left.is_spilled:
            left.spill()
        sides = zip(left.combined_tables(), right.combined_tables(), strict=True)
        for left_rows, right_rows in sides:
            yield from self._joined(left_rows, right_rows)

    def _joined(self, left: pa.Table, right: pa.Table) -> Iterator[pa.RecordBatch]:
        keys = self._keys_of(left), self._keys_of(right)
        of_left, of_right = match_rows(*keys, self.terms.how, self.terms.engine)
        del keys
        for start in range(0, len(of_left), _BATCH_ROWS):
            some = Match(
                of_left.slice(start, _BATCH_ROWS),
                None if of_right is None else of_right.slice(start, _BATCH_ROWS),
            )
            yield from self._taken(left, right, some).to_batches(_BATCH_ROWS)

    def _taken(self, left: pa.Table, right: pa.Table, match: Match) -> pa.Table:
        """Return the joined rows of some matches."""
        names = self.output.names
        left_rows = left.select([n for n in left.column_names if n in names]).take(match.left)
        right_rows = None
        if match.right is not None:
            of_right = {self.renamed.get(name, name) for name in names}
            others = [n for n in right.column_names if n in of_right]
            right_rows = right.select(others).take(match.right)
        columns = []
        for field in self.output:
            if field.name not in self.keys.names:
                if field.name in self.left.names or right_rows is None:
                    columns.append(left_rows.column(field.name))
                else:
                    own = self.renamed.get(field.name, field.name)
                    columns.append(right_rows.column(own))
            elif self.terms.how == "right" and right_rows is not None:
                columns.append(right_rows.column(field.name))
            elif self.terms.how == "full" and right_rows is not None:
                both = [s.column(field.name).cast(field.type) for s in (left_rows, right_rows)]
                # By the row and not by the value: a key that matched is no other's.
                columns.append(pc.if_else(pc.is_valid(match.left), *both))
            else:
                columns.append(left_rows.column(field.name))
        return pa.table(columns, schema=self.output)

    def _keys_of(self, rows: pa.Table) -> pa.Table:
        return rows.select(self.keys.names).cast(self.keys)


def plan_join(
    left: pa.Schema, right: pa.Schema, buckets: bf.CommonBuckets, terms: JoinTerms
) -> BucketJoin:
    """Return the join of the buckets of two sides.

    Args:
        left: The columns of the left side.
        right: The columns of the right side.
        buckets: The buckets of both sides.
        terms: What was asked.

    Raises:
        SchemaError: a side lacks a key column; both sides have another column of one name, and
            there is no suffix; or an unknown column was asked for.
        UnsupportedError: keys of types that cannot be compared.
        ValueError: `terms.on` leaves out a hash field.
    """
    how, on, columns, suffix = terms.how, terms.on, terms.columns, terms.suffix
    left, right = arrow_for_spark(left), arrow_for_spark(right)
    resolver = Resolver(left, terms.is_case_sensitive)
    on = None if on is None else resolver.names("on", on)
    names = _key_names(left, right, buckets, on)
    keys = pa.schema([_key_field(name, left.field(name), right.field(name)) for name in names])
    key_types = {"right": right, "full": keys}.get(how, left)
    fields = [key_types.field(name) for name in names]
    fields += [field for field in left if field.name not in names]
    renamed: dict[str, str] = {}
    if how not in ("semi", "anti"):
        others = [field.name for field in right if field.name not in names]
        twice = [name for name in others if resolver.name(name) in left.names]
        if twice and suffix is None:
            raise bf.SchemaError(
                f"both sides have a column {twice[0]} that is no key; give suffix= for that of the "
                "right side, leave one out by scan(columns=...), or join on it too"
            )
        new_names = {name: f"{name}{suffix}" for name in twice}
        renamed = {new: name for name, new in new_names.items()}
        fields += [right.field(n).with_name(new_names.get(n, n)) for n in others]
        known = [field.name for field in fields]
        if len(set(known)) < len(known):
            again = next(name for name in known if known.count(name) > 1)
            raise bf.SchemaError(f"the join has two columns {again}; give another suffix=")
    output = pa.schema(fields)
    if columns is not None:
        resolver = Resolver(output, terms.is_case_sensitive)
        columns = resolver.names("columns", columns)
        unknown = [name for name in columns if name not in output.names]
        if unknown or not columns:
            raise bf.SchemaError(
                f"no column {unknown[0] if unknown else ''!r} of the join, which has "
                f"{', '.join(output.names)}"
            )
        output = pa.schema([output.field(name) for name in dict.fromkeys(columns)])
    wanted = {*names, *(renamed.get(name, name) for name in output.names)}
    only_keys = how in ("semi", "anti")
    left = pa.schema([field for field in left if field.name in {*names, *output.names}])
    right = pa.schema([f for f in right if f.name in (names if only_keys else wanted)])
    return BucketJoin(left, right, keys, buckets, terms, output, renamed)


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
