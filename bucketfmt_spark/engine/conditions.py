"""What the core can do with a condition of Spark: leave out partitions, buckets and rows.

Spark applies the whole condition to the rows that are read, so that a result is always Spark's. The
part of a condition that means the same to the core is found in its SQL text, and the core leaves
out what that part excludes. Pure, but for the text of a Column.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import sqlglot
from pyspark.sql import Column, SparkSession
from sqlglot import expressions as sql

from bucketfmt_spark.engine.resolver import Resolver
from bucketfmt_spark.engine.spark_types import arrow_for_spark, spark_schema

__all__ = ["Condition", "find_condition", "text_of"]

Predicate = tuple[str, str, Any]
_ALTERNATIVES_MAX = 64
_INT64, _INT32 = range(-(1 << 63), 1 << 63), range(-(1 << 31), 1 << 31)
_CASTS = {sql.DType.BIGINT: _INT64, sql.DType.INT: _INT32}
"""Of casts of whole numbers: what stays the same number. By settings Spark wraps others around."""
_OPERATORS: dict[Any, tuple[str, str]] = {
    sql.EQ: ("=", "="),
    sql.LT: ("<", ">"),
    sql.LTE: ("<=", ">="),
    sql.GT: (">", "<"),
    sql.GTE: (">=", "<="),
}
"""By the operation: the core's operator, and the one with the sides exchanged."""
_READ = frozenset({"this", "expression", "expressions", "low", "high"})  # of the nodes
_PREFIX = re.compile(r"([^%_\\]+)%")


@dataclass(frozen=True)
class Condition:
    """What is known of a condition.

    Attributes:
        columns: The columns that the condition reads; None if they are unknown.
        alternatives: A filter of `bucketfmt.Table.scan` that all rows pass which pass the
            condition; None if there is none.
    """

    columns: tuple[str, ...] | None = None
    alternatives: list[list[Predicate]] | None = None


def text_of(spark: SparkSession, condition: str | Column, schema: pa.Schema) -> str | None:
    """Return the SQL text of a condition; None if the session does not tell a Column's text.

    The text of a Column comes from Spark's analysis of it, which only classic sessions tell.

    Args:
        spark: The session.
        condition: The text, or the Column.
        schema: The columns of the table.
    """
    if isinstance(condition, str):
        return condition
    accepted = pa.schema([(field.name, field.type) for field in schema])
    try:
        empty = spark.createDataFrame([], spark_schema(arrow_for_spark(accepted)))
        analyzed: Any = empty.where(condition)
        return str(analyzed._jdf.queryExecution().analyzed().condition().sql())
    except Exception:  # Spark Connect; or Spark refuses the condition where it is applied
        return None


def find_condition(text: str | None, resolver: Resolver) -> Condition:
    """Return what is known of a condition by its SQL text."""
    if text is None:
        return Condition()
    try:
        tree = sqlglot.parse_one(text, dialect="spark")
    except sqlglot.errors.SqlglotError:
        return Condition()  # Spark says what is wrong
    columns = _columns(tree, resolver)
    # By settings of Spark, `"` quotes a text or a name, and a backslash in a text escapes or not.
    if columns is None or '"' in text or "\\" in text:
        return Condition(columns)
    return Condition(columns, _alternatives(tree, resolver))


def _columns(tree: Any, resolver: Resolver) -> tuple[str, ...] | None:
    if tree.find(sql.Query, sql.Lambda, sql.Star, sql.Command, sql.Block) is not None:
        return None
    found = {resolver.name(column.parts[0].name) for column in tree.find_all(sql.Column)}
    if not found <= set(resolver.schema.names):
        return None
    return tuple(name for name in resolver.schema.names if name in found)


def _alternatives(tree: Any, resolver: Resolver) -> list[list[Predicate]] | None:
    """Return a disjunction of conjunctions that holds wherever the tree does; None if unknown."""
    if not _says_no_more(tree):
        return None
    if isinstance(tree, sql.Paren):
        return _alternatives(tree.this, resolver)
    if isinstance(tree, sql.And):
        sides = [_alternatives(side, resolver) for side in (tree.left, tree.right)]
        known = [side for side in sides if side is not None]
        if len(known) < 2:
            return known[0] if known else None
        both = [[*left, *right] for left in known[0] for right in known[1]]
        return both if len(both) <= _ALTERNATIVES_MAX else known[0]
    if isinstance(tree, sql.Or):
        left, right = (_alternatives(side, resolver) for side in (tree.left, tree.right))
        if left is None or right is None or len(left) + len(right) > _ALTERNATIVES_MAX:
            return None
        return [*left, *right]
    found = _predicates(tree, resolver)
    return None if not found else [found]


def _says_no_more(tree: Any) -> bool:
    """Whether a node has nothing but what is read here.

    Releases of sqlglot differ in where they note what turns a condition around: `NOT LIKE` was a
    `Not`, and is a `Like` that is negated.
    """
    return all(name in _READ or not value for name, value in tree.args.items())


def _predicates(tree: Any, resolver: Resolver) -> list[Predicate]:
    """Return the predicates that hold wherever the tree does; none if they are unknown."""
    if type(tree) in _OPERATORS:
        operator, exchanged = _OPERATORS[type(tree)]
        left, right = tree.args["this"], tree.args["expression"]
        if not isinstance(left, sql.Column):
            left, right, operator = right, left, exchanged
        return _compared(left, [(operator, right)], resolver)
    if isinstance(tree, sql.Between):
        return _compared(tree.this, [(">=", tree.args["low"]), ("<=", tree.args["high"])], resolver)
    if isinstance(tree, sql.In) and tree.expressions:
        name, read = _column(tree.this, resolver)
        values = [read(item) for item in tree.expressions]
        return [(name, "in", values)] if name and None not in values else []
    if isinstance(tree, sql.Like) and isinstance(tree.expression, sql.Literal):
        return _prefixed(tree, resolver)
    is_not = isinstance(tree, sql.Not)
    inner = tree.this.unnest() if is_not else tree
    is_null = isinstance(inner, sql.Is) and isinstance(inner.expression, sql.Null)
    if is_null and _says_no_more(inner):
        name, _ = _column(inner.this, resolver)
        return [(name, "not in" if is_not else "in", [None])] if name else []
    return []


def _compared(column: Any, bounds: list[tuple[str, Any]], resolver: Resolver) -> list[Predicate]:
    name, read = _column(column, resolver)
    values = [(operator, read(bound)) for operator, bound in bounds]
    return [(name, operator, value) for operator, value in values if name and value is not None]


def _prefixed(tree: Any, resolver: Resolver) -> list[Predicate]:
    """Return the range of texts with a prefix: `LIKE 'p%'`."""
    found = _PREFIX.fullmatch(tree.expression.name)
    name, _ = _column(tree.this, resolver)
    if found is None or not name or not pa.types.is_string(resolver.schema.field(name).type):
        return []
    prefix = found[1]
    after = chr(ord(prefix[-1]) + 1) if ord(prefix[-1]) < 0xD7FF else None
    least: list[Predicate] = [(name, ">=", prefix)]
    return least if after is None else [*least, (name, "<", prefix[:-1] + after)]


def _column(tree: Any, resolver: Resolver) -> tuple[str, Callable[[Any], Any]]:
    """Return a column's name and what reads literals of its type; an empty name for no column.

    Only types that have the same order and equality in Spark and in Arrow are known.
    """
    if not isinstance(tree, sql.Column) or len(tree.parts) != 1:
        return "", lambda _: None
    name = resolver.name(tree.name)
    kind = resolver.schema.field(name).type
    if pa.types.is_string(kind):
        return name, _text
    if pa.types.is_integer(kind):
        return name, _integer
    if pa.types.is_boolean(kind):
        return name, lambda item: bool(item.this) if isinstance(item, sql.Boolean) else None
    if pa.types.is_date32(kind):
        return name, _date
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return name, lambda item: _moment(item, resolver.time_zone)
    return name, lambda _: None


def _text(item: Any) -> str | None:
    return str(item.this) if isinstance(item, sql.Literal) and item.is_string else None


def _integer(item: Any) -> int | None:
    if isinstance(item, sql.Neg):
        found = _integer(item.this)
        return None if found is None else -found
    kept = _INT64
    if isinstance(item, sql.Cast) and item.to.this in _CASTS:
        kept, item = _CASTS[item.to.this], item.this
    if not isinstance(item, sql.Literal) or item.is_string or not str(item.this).isdecimal():
        return None
    return int(item.this) if int(item.this) in kept else None


def _date(item: Any) -> date | None:
    if isinstance(item, sql.Cast) and item.to.this == sql.DType.DATE:
        item = item.this
    text = _text(item)
    if text is None or re.fullmatch(r"\d{4}-\d\d-\d\d", text) is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _moment(item: Any, time_zone: str) -> datetime | None:
    """Return the moment of a literal; None for a time that the zone has twice, or skips.

    The text of a Column may be of either moment, when clocks are turned back: Spark writes no zone.
    """
    zoned = (sql.DType.TIMESTAMP, sql.DType.TIMESTAMPTZ, sql.DType.TIMESTAMPLTZ)
    if isinstance(item, sql.Cast) and item.to.this in zoned:
        item = item.this
    text = _text(item)
    pattern = r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?)?"
    if text is None or re.fullmatch(pattern, text) is None:
        return None
    whole, _, fraction = text.partition(".")
    try:
        found = datetime.fromisoformat(whole).replace(tzinfo=ZoneInfo(time_zone))
    except (ValueError, KeyError):  # no such day, or no such zone
        return None
    if found.utcoffset() != found.replace(fold=1).utcoffset():
        return None
    found = found.replace(microsecond=int(fraction.ljust(6, "0")) if fraction else 0)
    return found.astimezone(timezone.utc)
