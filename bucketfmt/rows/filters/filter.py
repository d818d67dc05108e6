"""Filters on rows, and the row groups and buckets that a filter excludes.

Pure. As in `pyarrow.parquet`, a filter is a list of (column, operator, value), all of which must
hold, or a list of such lists, one of which must hold; or a text (`filter_text`), or a pyarrow
expression, which excludes by the conditions that `arrow_filters` finds in it.

Nulls compare as in pyarrow: a comparison with null holds for no row, `in` finds null only if null
is in the list, and `not in` if it is not; but in a text `not in` finds no null. A list finds what
`=` finds for one of its values. Only row groups and buckets that provably hold no matching row are
pruned.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from itertools import product
from operator import and_, or_
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.arguments import check_text
from bucketfmt.errors import SchemaError
from bucketfmt.rows.filters.arrow_filters import find_conditions
from bucketfmt.rows.filters.exact_numbers import with_exact_numbers
from bucketfmt.rows.filters.exclusion import find_allowed_texts, may_hold
from bucketfmt.rows.filters.filter_text import parse_filter_text
from bucketfmt.rows.filters.predicate import COMPARISONS, Predicate
from bucketfmt.rows.row_ranges import RowGroupRanges

__all__ = ["Filter", "FilterLike", "parse_filter"]

_Condition: TypeAlias = tuple[str, str, Any]
FilterLike: TypeAlias = (
    "str | pc.Expression | Sequence[_Condition] | Sequence[Sequence[_Condition]]"
)

_OPERATORS = {"=": "==", **{name: name for name in (*COMPARISONS, "in", "not in")}}
_KEY_VALUES_MAX = 100_000  # more keys than this prune nothing worth the product


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
            all(may_hold(part, group) for part in parts) for parts in self.alternatives
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
            allowed = [find_allowed_texts(group, field, schema) for field in fields]
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
        tuple(_typed(_parse_predicate(part), schema) for part in group) for group in groups
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


def _type_of(part: Predicate, schema: pa.Schema | None) -> pa.DataType | None:
    position = -1 if schema is None else schema.get_field_index(part.column)
    return None if schema is None or position < 0 else schema.field(position).type


def _typed(part: Predicate, schema: pa.Schema | None) -> Predicate:
    kind = _type_of(part, schema)
    return part if kind is None else with_exact_numbers(part, kind)


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


def _expression(part: Predicate, kind: pa.DataType | None) -> pc.Expression:
    field = pc.field(part.column)
    if part.operator in COMPARISONS:
        if kind is not None:
            _check_comparable(part, kind, pa.scalar(part.value))
        return COMPARISONS[part.operator](field, pc.scalar(part.value))
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
