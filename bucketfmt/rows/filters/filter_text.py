"""Filters written as text: `qty > 1 and (city = 'sf' or city = 'ny')`. Pure.

A comparison is COLUMN OP VALUE, with = == != <> < <= > >= in, not in, is null, is not null. A value
is a number, `true`, `false`, a text in quotes, or a text without quotes that ends before `and`,
`or`, or a closing parenthesis. A list of values stands in parentheses or brackets. Values are of
the types of their columns. Null is neither equal nor unequal to a value, nor `not in` a list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import chain, product
from typing import Any

import pyarrow as pa

from bucketfmt.arguments import did_you_mean
from bucketfmt.errors import SchemaError
from bucketfmt.rows.time_text import time_units, without_zeros

__all__ = ["Condition", "all_of", "parse_filter_text"]

Condition = tuple[str, str, Any]
"""(column, operator, value), as in `rows.filters`."""

_ALTERNATIVES_MAX = 1_000
_NESTING_MAX = 50
_ORDERS = ("<", "<=", ">", ">=")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d{1,3})?")
_OPERATOR = re.compile(
    r"\s*(==|!=|<>|<=|>=|=|<|>|(?:not\s+in|in|is\s+not\s+null|is\s+null)(?![\w]))", re.IGNORECASE
)
_COLUMN = re.compile(r"\s*(?:\"([^\"]+)\"|`([^`]+)`|([^\s=!<>()\"'`]+))")
_QUOTED = re.compile(r"\s*('(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\")")
_BARE = re.compile(
    r"\s*(?!(?:and|or)(?![^\s()]))([^\s)].*?)\s*(?=$|\)|\b(?:and|or)\b)",
    re.IGNORECASE | re.DOTALL,
)
_BARE_ITEM = re.compile(r"\s*([^\s,()\[\]][^,()\[\]]*?)\s*(?=[,)\]])")
_WORD = re.compile(r"\s*(and|or)\b", re.IGNORECASE)


def parse_filter_text(text: str, schema: pa.Schema) -> list[list[Condition]]:
    """Return the alternatives that a text stands for: all conditions of one must hold.

    Args:
        text: The filter.
        schema: The columns that it may name.

    Raises:
        ValueError: the text is no filter, or a value has no equal in the type of its column.
        SchemaError: there is no such column.
    """
    parser = _Parser(text, schema)
    found = parser.alternatives(0)
    parser.expect_end()
    return found


class _Parser:
    """Reads a text from left to right."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text = text
        self._schema = schema
        self._at = 0

    def alternatives(self, depth: int) -> list[list[Condition]]:
        found = self._conjunction(depth)
        while self._take_word("or"):
            found = self._bounded(found + self._conjunction(depth))
        return found

    def expect_end(self) -> None:
        if self._text[self._at :].strip():
            raise self._error("and, or, or the end")

    def _conjunction(self, depth: int) -> list[list[Condition]]:
        found = self._term(depth)
        while self._take_word("and"):
            both = product(found, self._term(depth))
            found = self._bounded([one + other for one, other in both])
        return found

    def _term(self, depth: int) -> list[list[Condition]]:
        if depth > _NESTING_MAX:
            raise ValueError(f"the filter has more than {_NESTING_MAX} nested parentheses")
        if self._take("("):
            found = self.alternatives(depth + 1)
            if not self._take(")"):
                raise self._error("a closing parenthesis")
            return found
        return [[self._condition()]]

    def _condition(self) -> Condition:
        column, kind = self._column()
        match = _OPERATOR.match(self._text, self._at)
        if match is None:
            raise self._error(f"an operator after {column}, as in {column} = 3")
        self._at = match.end()
        operator = " ".join(match[1].lower().split())
        if operator in ("is null", "is not null"):
            return column, "in" if operator == "is null" else "not in", [None]
        if operator in ("in", "not in"):
            values = [_typed(value, column, kind) for value in self._list()]
            # As in SQL, and for the column != value, null is not among the others.
            return column, operator, [*values, None] if operator == "not in" else values
        operator = {"<>": "!=", "=": "=="}.get(operator, operator)
        given = self._value(_BARE)
        if operator in _ORDERS and _is_exact(kind) and _NUMBER.fullmatch(given):
            return column, operator, Decimal(given)
        value = _typed(given, column, kind)
        if value is None:
            raise ValueError(
                f"{column} {operator} null holds for no row; write {column} is null, or "
                f"{column} is not null"
            )
        return column, operator, value

    def _column(self) -> tuple[str, pa.DataType]:
        match = _COLUMN.match(self._text, self._at)
        if match is None:
            raise self._error("a column, as in qty >= 3")
        name = next(filter(None, match.groups()))
        position = self._schema.get_field_index(name)
        if position < 0:
            if _OPERATOR.match(self._text, match.end()) is None:
                raise self._error("a comparison, as in qty >= 3")
            raise SchemaError(f"no column {name!r}; {did_you_mean(name, self._schema.names)}")
        self._at = match.end()
        return name, self._schema.field(position).type

    def _list(self) -> list[Any]:
        close = ")" if self._take("(") else "]" if self._take("[") else None
        if close is None:
            raise self._error("a list, as in (1, 2)")
        found: list[Any] = []
        while not self._take(close):
            if found and not self._take(","):
                raise self._error("a comma or the end of the list")
            found.append(self._value(_BARE_ITEM))
        return found

    def _value(self, bare: re.Pattern[str]) -> Any:
        """Return a text in quotes as text; anything else as `_Bare`."""
        match = _QUOTED.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
            text = match[1]
            return text[1:-1].replace("''", "'") if text[0] == "'" else json.loads(text)
        match = bare.match(self._text, self._at)
        if match is None:
            raise self._error("a value")
        if match[1][0] in "'\"":
            raise self._error("a quote at the end of a text that begins with one")
        self._at = match.end()
        return _Bare(match[1])

    def _take(self, symbol: str) -> bool:
        rest = self._text[self._at :]
        is_there = rest.lstrip().startswith(symbol)
        if is_there:
            self._at = len(self._text) - len(rest.lstrip()) + len(symbol)
        return is_there

    def _take_word(self, word: str) -> bool:
        match = _WORD.match(self._text, self._at)
        if match is None or match[1].lower() != word:
            return False
        self._at = match.end()
        return True

    def _error(self, wanted: str) -> ValueError:
        rest = self._text[self._at :].strip()[:40]
        where = f"at {rest!r}" if rest else "at its end"
        return ValueError(f"the filter {self._text[:200]!r} needs {wanted}, {where}")

    def _bounded(self, found: list[list[Condition]]) -> list[list[Condition]]:
        if len(found) > _ALTERNATIVES_MAX:
            raise ValueError(f"the filter has more than {_ALTERNATIVES_MAX} alternatives")
        return found


class _Bare(str):
    """A value without quotes: a number, true, false, null, or text."""


def _is_exact(kind: pa.DataType) -> bool:
    """Whether numbers with more digits after the point than the column has order its values."""
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _typed(value: str, column: str, kind: pa.DataType) -> Any:
    """Return a value in the type of its column."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return None if isinstance(value, _Bare) and value == "null" else str(value)
    plain: Any = str(value)
    if isinstance(value, _Bare):
        try:
            plain = json.loads(value)
        except ValueError:
            plain = str(value)
    if plain is None:
        return None
    if isinstance(plain, bool) and not pa.types.is_boolean(kind):
        raise ValueError(f"the filter compares {column}, which is {kind}, with {value}")
    if pa.types.is_nested(kind):
        raise ValueError(
            f"the filter compares {column}, which is {kind}; of such a column write {column} is "
            f"null, or {column} is not null"
        )
    if pa.types.is_decimal(kind):
        plain = str(value)  # by its digits: a double has others
    if pa.types.is_integer(kind) and type(plain) is int:
        return plain  # whether the column has it or not
    try:
        if pa.types.is_time(kind):
            return pa.scalar(time_units(str(value), kind), kind).as_py()
        if pa.types.is_timestamp(kind) and isinstance(plain, str):
            plain = without_zeros(plain)
        return pa.scalar(plain).cast(kind).as_py()
    except (ValueError, pa.ArrowException, OverflowError) as error:
        told = str(error)
        if pa.types.is_timestamp(kind):
            example = "2026-01-31 10:00:00" if kind.tz is None else "2026-01-31T10:00:00Z"
            told = f"{plain!r} is no such moment; write it as in {example}"
        raise ValueError(f"the filter compares {column}, which is {kind}: {told}") from error


def all_of(parts: Sequence[list[list[Condition]]]) -> list[list[Condition]]:
    """Return the alternatives of several filters that must all hold."""
    return [list(chain.from_iterable(each)) for each in product(*parts)]
