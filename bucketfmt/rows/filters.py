"""Filters on rows, and the row groups and buckets that a filter excludes.

Pure. As in `pyarrow.parquet`, a filter is a list of (column, operator, value), all of which must
hold, or a list of such lists, one of which must hold; or a text (`rows.filter_text`), or a pyarrow
expression, which excludes by the conditions that `rows.arrow_filters` finds in it.

Nulls compare as in pyarrow: a comparison with null holds for no row, `in` finds null only if null
is in the list, and `not in` if it is not; but in a text `not in` finds no null. A list finds what
`=` finds for one of its values. Only row groups and buckets that provably hold no matching row are
pruned.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from itertools import product
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.arguments import check_text
from bucketfmt.errors import SchemaError
from bucketfmt.rows.arrow_filters import find_conditions
from bucketfmt.rows.columns.java_text import java_strings
from bucketfmt.rows.filter_text import parse_filter_text
from bucketfmt.rows.row_ranges import RowGroupRanges

__all__ = ["Filter", "FilterLike", "Predicate", "parse_filter"]

_Condition: TypeAlias = tuple[str, str, Any]
FilterLike: TypeAlias = (
    "str | pc.Expression | Sequence[_Condition] | Sequence[Sequence[_Condition]]"
)

_COMPARISONS = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_OPERATORS = {"=": "==", **{name: name for name in (*_COMPARISONS, "in", "not in")}}
_KEY_VALUES_MAX = 100_000  # more keys than this prune nothing worth the product


@dataclass(frozen=True, slots=True)
class Predicate:
    """One comparison. `value` is a tuple for `in` and `not in`; `operator` is never `=`."""

    column: str
    operator: str
    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """A filter that can be applied to rows, and that tells what it excludes.

    Attributes:
        expression: Holds for the rows to keep.
        alternatives: Any of these conjunctions must hold; None if only the expression is known.
    """

    expression: pc.Expression
    alternatives: tuple[tuple[Predicate, ...], ...] | None

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns that the filter reads; None if they are unknown."""
        if self.alternatives is None:
            return None
        names = (predicate.column for group in self.alternatives for predicate in group)
        return tuple(dict.fromkeys(names))

    def apply(self, rows: pa.Table) -> pa.Table:
        """Return the rows that pass the filter.

        Raises:
            SchemaError: a column is unknown, or a value cannot be compared with its column's type.
        """
        try:
            return rows.filter(self.expression)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise SchemaError(f"the filter does not fit the table's columns: {error}") from error

    def may_match(self, group: RowGroupRanges) -> bool:
        """Return whether some row of the row group may pass; False is certain.

        A column must have a range only if its type in the file is its type in the rows to filter.
        """
        return self.alternatives is None or any(
            all(_may_hold(part, group) for part in parts) for parts in self.alternatives
        )

    def key_values(
        self, fields: Sequence[str], schema: pa.Schema
    ) -> frozenset[tuple[str | None, ...]] | None:
        """Return every value that the filter allows for `fields`, as the text that Hudi hashes.

        One tuple per combination, one text (None for null) per field, in the order of
        `fields`; empty if no row can pass. None: the filter does not provably restrict the fields.
        """
        if self.alternatives is None:
            return None
        found: set[tuple[str | None, ...]] = set()
        for group in self.alternatives:
            allowed = [_allowed_texts(group, field, schema) for field in fields]
            sets = [texts for texts in allowed if texts is not None]
            if len(sets) < len(fields):
                return None
            if len(found) + math.prod(map(len, sets)) > _KEY_VALUES_MAX:
                return None
            found.update(product(*sets))
        return frozenset(found)


def parse_filter(given: FilterLike, schema: pa.Schema | None = None) -> Filter:
    """Return the filter that `given` describes.

    Args:
        given: As users write it.
        schema: The columns that a text may name.

    Raises:
        TypeError: `given` is not a list, or holds an item that is not a tuple or a list.
        SchemaError: a text names a column that does not exist.
        ValueError: `given` is neither an expression nor a non-empty list of (column, operator,
            value) or of lists of these, an operator is unknown, or a value has no Arrow type.
    """
    if isinstance(given, pc.Expression):
        known = None if schema is None else find_conditions(given, schema)
        if known is None:
            return Filter(given, None)
        return Filter(given, tuple(tuple(map(_parse_predicate, group)) for group in known))
    if not isinstance(given, Sequence) or (isinstance(given, str) and schema is None):
        raise TypeError(
            "filter is a text such as \"qty > 1 and city = 'sf'\", a list of (column, operator, "
            f"value) or a pyarrow expression, not {given!r}"
        )
    groups: Iterable[Any]
    if isinstance(given, str) and schema is not None:
        groups = parse_filter_text(check_text("filter", given), schema)
    else:
        groups = [given] if given and isinstance(given[0], tuple) else given
    for group in groups:
        if isinstance(group, str) or not isinstance(group, Iterable):
            raise TypeError(f"filter is a list of (column, operator, value), and {group!r} is not")
    alternatives = tuple(
        tuple(_of_numbers(_parse_predicate(part), schema) for part in group) for group in groups
    )
    if not alternatives or not all(alternatives):
        raise ValueError("an empty filter; pass None to keep all rows")
    try:
        conjunctions = [
            reduce(and_, (_expression(part, _type_of(part, schema)) for part in group))
            for group in alternatives
        ]
    except (pa.ArrowException, OverflowError) as error:
        raise ValueError(f"a value of the filter has a type that Arrow lacks: {error}") from error
    return Filter(reduce(or_, conjunctions), alternatives)


def _expression(part: Predicate, kind: pa.DataType | None) -> pc.Expression:
    field = pc.field(part.column)
    if part.operator in _COMPARISONS:
        if kind is not None:
            _check_comparable(part, kind, pa.scalar(part.value))
        return _COMPARISONS[part.operator](field, pc.scalar(part.value))
    known = [value for value in part.value if value is not None]
    listed = known if kind is None else _as_stored(known, kind, part)
    found = field.isin(listed) if len(listed) else pc.scalar(False)
    for value in known:
        if isinstance(value, float | int) and not isinstance(value, bool) and value == 0:
            # -0.0 too, which `isin` takes for another.
            found |= field.is_valid() & (field == pc.scalar(value))
            break
    if len(known) < len(part.value):
        found |= field.is_null()
    return found if part.operator == "in" else ~found


def _check_comparable(part: Predicate, kind: pa.DataType, given: pa.Scalar | pa.Array) -> None:
    """Check that Arrow compares the values of a column with given ones.

    Raises:
        SchemaError: they have other types, or Arrow does not compare such values.
    """
    try:
        pc.equal(pa.scalar(None, kind), given)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        advice = "compare it with values of its type"
        if pa.types.is_nested(kind):
            null = (part.column, "in", [None])
            advice = f"in such a column only nulls are found, by {null}; filter the rows of a scan"
        value = (given[0] if isinstance(given, pa.Array) else given).as_py()
        raise SchemaError(
            f"column {part.column} is {kind}, and {value!r} in the filter is {given.type}; {advice}"
        ) from error


def _as_stored(values: Sequence[Any], kind: pa.DataType, part: Predicate) -> pa.Array:
    """Return the values of a column's type that equal one of these, as `=` compares them.

    `isin` casts what it is given: 0.5 and "true" would find True, and noon its day.

    Raises:
        SchemaError: `=` refuses one of the values.
    """
    of_types: dict[type, list[Any]] = {}
    for value in values:
        of_types.setdefault(type(value), []).append(value)
    found = [pa.array([], kind)]
    for listed in of_types.values():
        given = pa.array(listed)
        _check_comparable(part, kind, given)
        found += _cast_equal(given, kind)
    return pa.concat_arrays(found)


def _cast_equal(given: pa.Array, kind: pa.DataType) -> list[pa.Array]:
    """Return those values that a column of this type can have, in its type."""
    try:
        stored = given.cast(kind, safe=False)
    except pa.ArrowInvalid:  # of one of them at least
        if len(given) == 1:
            return []
        half = len(given) // 2
        return [*_cast_equal(given[:half], kind), *_cast_equal(given[half:], kind)]
    return [stored.filter(pc.equal(stored, given))]


def _parse_predicate(part: Any) -> Predicate:
    if not isinstance(part, tuple) or len(part) != 3 or not isinstance(part[0], str):
        raise ValueError(f"{part!r} is not a (column, operator, value)")
    column, operator, value = part
    if operator not in _OPERATORS:
        raise ValueError(f"{operator!r} is not one of the operators {', '.join(_OPERATORS)}")
    if operator in ("in", "not in"):
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise ValueError(f"{column} {operator} needs a list of values, not {value!r}")
        return Predicate(column, operator, tuple(_plain(item) for item in value))
    return Predicate(column, _OPERATORS[operator], _plain(value))


def _of_numbers(part: Predicate, schema: pa.Schema | None) -> Predicate:
    """Return a condition on a column of numbers with values that Arrow compares exactly."""
    kind = _type_of(part, schema)
    if kind is None:
        return part
    if pa.types.is_decimal(kind):
        return _of_decimals(part, kind)
    if pa.types.is_floating(kind):
        return _of_floats(part)
    return _of_integers(part, kind) if pa.types.is_signed_integer(kind) else part


def _type_of(part: Predicate, schema: pa.Schema | None) -> pa.DataType | None:
    position = -1 if schema is None else schema.get_field_index(part.column)
    return None if schema is None or position < 0 else schema.field(position).type


def _of_integers(part: Predicate, kind: pa.DataType) -> Predicate:
    """Return a condition on a column of whole numbers with whole numbers that the column may have.

    With a number that has a fraction Arrow compares rounded values, or refuses to; with a number
    that no column has, it fails. Where the condition holds for all values, or for none, it becomes
    `not in` null, or `in` nothing.
    """
    high = (1 << kind.bit_width - 1) - 1
    low = -high - 1
    if part.operator in ("in", "not in"):
        values = [v for v in part.value if not _is_number(v) or _is_one_of(v, low, high)]
        whole = (int(v) if _is_number(v) else v for v in values)
        return Predicate(part.column, part.operator, tuple(whole))
    value = part.value
    if not _is_number(value):
        return part
    none, every = Predicate(part.column, "in", ()), Predicate(part.column, "not in", (None,))
    if _is_nan(value):
        return every if part.operator == "!=" else none
    if part.operator in ("==", "!="):
        if _is_one_of(value, low, high):
            return Predicate(part.column, part.operator, int(value))
        return none if part.operator == "==" else every
    is_above = part.operator in (">", ">=")
    if not low <= value <= high:
        return every if (value < low) == is_above else none
    floor = math.floor(value)
    if floor == value:
        return Predicate(part.column, part.operator, floor)
    return Predicate(part.column, ">" if is_above else "<=", floor)


def _of_floats(part: Predicate) -> Predicate:
    """Return a condition on a column of floats with floats for whole numbers.

    Arrow refuses whole numbers that a float would round. Such a number lies between two floats: it
    equals none, and what is above it is above the lower one.
    """
    if part.operator in ("in", "not in"):
        values = [v for v in part.value if not _is_whole(v) or _float_below(v) == v]
        floats = (float(v) if _is_whole(v) else v for v in values)
        return Predicate(part.column, part.operator, tuple(floats))
    if not _is_whole(part.value):
        return part
    below = _float_below(part.value)
    if below == part.value:
        return Predicate(part.column, part.operator, below)
    if part.operator == "==":
        return Predicate(part.column, "in", ())
    if part.operator == "!=":
        return Predicate(part.column, "not in", (None,))
    return Predicate(part.column, "<=" if part.operator in ("<", "<=") else ">", below)


def _float_below(value: int) -> float:
    """Return the largest float that is not above a whole number."""
    try:
        nearest = float(value)
    except OverflowError:
        return sys.float_info.max if value > 0 else -math.inf
    return nearest if nearest <= value else math.nextafter(nearest, -math.inf)


def _is_one_of(value: Any, low: int, high: int) -> bool:
    """Whether a number is a whole number within bounds."""
    return not _is_nan(value) and low <= value <= high and math.floor(value) == value


def _is_nan(value: Any) -> bool:
    return not isinstance(value, int) and math.isnan(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _of_decimals(part: Predicate, kind: pa.DataType) -> Predicate:
    """Return a condition on a decimal column with decimals for numbers.

    In a list Arrow rounds numbers to the digits of the column, so that 1.005 would find 1.00, and a
    whole number it compares with no decimal. A number that no value of the column equals is left
    out of a list.
    """
    if part.operator in _COMPARISONS:
        return Predicate(part.column, part.operator, _as_decimal(part.value, kind))
    values = []
    for value in part.value:
        if not isinstance(value, float | Decimal) and not _is_whole(value):
            values.append(value)
            continue
        try:
            exact = pa.scalar(Decimal(str(value)), kind).as_py()
        except (pa.ArrowException, ValueError):
            continue
        values.append(exact)
    return Predicate(part.column, part.operator, tuple(values))


def _as_decimal(value: Any, kind: pa.DataType) -> Any:
    """Return a number as the decimal of its digits, where Arrow compares that with a column."""
    is_finite = isinstance(value, float) and math.isfinite(value)
    if not is_finite and not _is_whole(value):
        return value
    exact = Decimal(str(value))
    try:
        pc.equal(pa.scalar(None, kind), pa.scalar(exact))
    except (pa.ArrowException, ValueError):
        return value
    return exact


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    """The Python value of an Arrow or numpy scalar."""
    if isinstance(value, pa.Scalar):
        return value.as_py()
    if isinstance(value, np.datetime64 | np.timedelta64):
        plain = value.item()
        return value if isinstance(plain, int) else plain  # of nanoseconds Python has no object
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime) and value != value:  # noqa: PLR0124  (pandas' NaT)
        return None
    if getattr(value, "nanosecond", 0):  # a Timestamp of pandas, which Arrow would cut
        zone = None if value.tzinfo is None else "UTC"
        return pa.scalar(value.value, pa.timestamp("ns", zone))
    return value


def _comparable(value: Any, kind: pa.DataType) -> Any:
    """Return `value` if Python compares it with such a column as Arrow does, else None."""
    is_number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    if pa.types.is_integer(kind):
        fits = is_number and isinstance(value, int)
    elif pa.types.is_float32(kind) or pa.types.is_float64(kind):
        if not is_number or isinstance(value, Decimal):
            return None
        value = float(value)
        # `in` rounds to the column's type and `==` does not, so only exact values are clear
        is_float = pa.types.is_float32(kind)
        fits = float(np.float32(value)) == value if is_float else not math.isnan(value)
    elif pa.types.is_decimal(kind):
        fits = is_number and not isinstance(value, float)
    elif pa.types.is_boolean(kind):
        fits = isinstance(value, bool)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        fits = isinstance(value, str)
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        fits = isinstance(value, bytes)
    elif pa.types.is_date32(kind):
        fits = type(value) is date
    elif pa.types.is_timestamp(kind) and kind.unit != "ns":  # Python's datetime ends at micros
        fits = isinstance(value, datetime) and (value.tzinfo is None) == (kind.tz is None)
    else:
        fits = False
    return value if fits else None


def _may_hold(part: Predicate, group: RowGroupRanges) -> bool:
    """Whether `part` may hold for some row of the group, by the statistics."""
    found = group.columns.get(part.column)
    if found is None or part.operator == "not in":
        return True
    wanted = part.value if part.operator == "in" else (part.value,)
    if part.operator == "in" and None in wanted and found.null_count != 0:
        return True
    if found.null_count == group.num_rows:
        return False  # null compares with nothing
    operator = "==" if part.operator == "in" else part.operator
    return any(
        _bounds_allow(operator, _comparable(value, found.type), found.low, found.high)
        for value in wanted
        if value is not None
    )


def _bounds_allow(operator: str, value: Any, low: Any, high: Any) -> bool:
    """Whether a value within the bounds, or NaN, may compare so with `value`."""
    if value is None or low is None or high is None:
        return True
    if isinstance(low, float) and (math.isnan(low) or math.isnan(high)):
        return True
    is_text = isinstance(value, (str, bytes))
    below_high = value < high or (is_text and value.startswith(high))
    if operator == "==":
        return bool(low <= value and (below_high or value == high))
    if operator == "!=":
        return is_text or isinstance(value, float) or not low == value == high
    if operator in ("<", "<="):
        return bool(low < value or (operator == "<=" and low == value))
    return bool(below_high or (operator == ">=" and value == high))


def _allowed_texts(
    group: tuple[Predicate, ...], field: str, schema: pa.Schema
) -> set[str | None] | None:
    """Return the texts that `field` may have where all of `group` holds; None if not restricted."""
    position = schema.get_field_index(field)
    if position < 0:
        return None
    kind = schema.field(position).type
    allowed: set[str | None] | None = None
    for part in group:
        if part.column != field or part.operator not in ("==", "in"):
            continue
        values = part.value if part.operator == "in" else (part.value,)
        texts: set[str | None] = set()
        for value in values:
            if value is None:
                texts.update([None] if part.operator == "in" else [])
                continue
            written = _texts_of(value, kind)
            if written is None:
                break
            texts.update(written)
        else:
            allowed = texts if allowed is None else allowed & texts
    return allowed


def _texts_of(value: Any, kind: pa.DataType) -> list[str] | None:
    """Return each text Hudi may have written for a value equal to `value`; None if unsure."""
    value = _comparable(value, kind)
    if value is None or isinstance(value, bytes):
        return None
    if isinstance(value, float):
        if value == 0:
            return ["0.0", "-0.0"]
        # Outside of these bounds Java releases disagree about the text.
        high = 1e7 if pa.types.is_float32(kind) else 1e16
        if not 1e-30 < abs(value) < high:
            return None
    try:
        array = pa.array([value], kind)
        exact = array[0].as_py() == value or isinstance(value, float)
    except (pa.ArrowException, OverflowError, ValueError):
        return None
    return [java_strings(array)[0].as_py()] if exact else None
