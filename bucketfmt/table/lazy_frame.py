"""A table as a polars LazyFrame: columns, predicates and limits of a query go to `Table.scan`.

What polars asks of the rows is evaluated by polars in the end. The conditions found here leave out
buckets, files and row groups before: they hold for every row for which the predicate holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

if TYPE_CHECKING:
    from bucketfmt.table.dataset_view import MakeScan

__all__ = ["open_lazy_frame"]

_Condition: TypeAlias = tuple[str, str, Any]
_ALTERNATIVES_MAX = 1_000
_OPERATORS = {"Eq": "==", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_MIRRORED = {"Eq": "Eq", "NotEq": "NotEq", "Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq"}
_EXACT = (str, int, bool, date, Decimal, bytes)  # a datetime is a date


def open_lazy_frame(make_scan: MakeScan) -> pl.LazyFrame:
    """Return a lazy frame that reads by scans."""
    schema = make_scan().schema

    def read(
        columns: list[str] | None,
        predicate: pl.Expr | None,
        num_rows: int | None,
        batch_rows: int | None,
    ) -> Iterator[pl.DataFrame]:
        wanted = schema.names if columns is None else columns
        needed = [] if predicate is None else predicate.meta.root_names()
        scan = make_scan(
            columns=list(dict.fromkeys([*wanted, *needed])) or schema.names[:1],
            filter=None if predicate is None else find_conditions(predicate, schema),
            limit=num_rows if predicate is None else None,
        )
        left = num_rows
        for batch in scan.to_batches(*([] if batch_rows is None else [max(batch_rows, 1)])):
            frame = pl.DataFrame(pa.Table.from_batches([batch]))
            if predicate is not None:
                frame = frame.filter(predicate)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame.select(wanted) if wanted else frame
            if left == 0:
                return

    return register_io_source(read, schema=pl.DataFrame(schema.empty_table()).schema)


def find_conditions(predicate: pl.Expr, schema: pa.Schema) -> list[list[_Condition]] | None:
    """Return conditions of which one alternative holds where the predicate does; None for none."""
    try:
        parts = json.loads(predicate.meta.serialize(format="json"))
        return _find(parts, schema)
    except Exception:
        return None


def _find(part: Any, schema: pa.Schema) -> list[list[_Condition]] | None:
    if "BinaryExpr" in part:
        binary = part["BinaryExpr"]
        if binary["op"] in ("And", "LogicalAnd", "Or", "LogicalOr"):
            left, right = _find(binary["left"], schema), _find(binary["right"], schema)
            is_and = binary["op"].endswith("And")
            if left is None or right is None:
                return (left or right) if is_and else None
            if not is_and:
                return left + right
            both = [one + other for one, other in product(left, right)]
            return both if len(both) <= _ALTERNATIVES_MAX else left
        return _comparison(binary["left"], binary["op"], binary["right"], schema)
    if "Function" in part and "Boolean" in part["Function"]["function"]:
        kind, inputs = part["Function"]["function"]["Boolean"], part["Function"]["input"]
        if "IsIn" in kind:
            values = list(_value(inputs[1]))
            if all(map(_is_exact, values)):
                return [[(_column(inputs[0], schema), "in", values)]]
        if "IsBetween" in kind and kind["IsBetween"] == {"closed": "Both"}:
            low = _comparison(inputs[0], "GtEq", inputs[1], schema)
            high = _comparison(inputs[0], "LtEq", inputs[2], schema)
            return [low[0] + high[0]] if low and high else None
    return None


def _comparison(
    left: Any, operator: str, right: Any, schema: pa.Schema
) -> list[list[_Condition]] | None:
    if "Literal" in left:
        left, operator, right = right, _MIRRORED[operator], left
    column, value = _column(left, schema), _value(right)
    # polars has NaN greater than all numbers and equal to itself, and Arrow has not
    return [[(column, _OPERATORS[operator], value)]] if _is_exact(value) else None


def _is_exact(value: Any) -> bool:
    return isinstance(value, _EXACT)


def _column(part: Any, schema: pa.Schema) -> str:
    name = part["Column"]
    if pa.types.is_floating(schema.field(name).type):
        raise ValueError(name)
    return str(name)


def _value(part: Any) -> Any:
    literal = pl.Expr.deserialize(json.dumps(part).encode(), format="json")
    return pl.select(literal).item()
