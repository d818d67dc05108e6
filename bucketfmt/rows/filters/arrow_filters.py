"""What a pyarrow expression says, as conditions that can exclude buckets and row groups. Pure.

pyarrow does not show the parts of an expression, and writes it as a Substrait message, whose format
is public (https://substrait.io, `ExtendedExpression`). An expression with a part that is not known
here excludes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["find_conditions"]

_Condition: TypeAlias = tuple[str, str, Any]
_ALTERNATIVES_MAX = 1_000
_OPERATORS = {"equal": "==", "not_equal": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LITERAL, _SELECTION, _CALL, _ONE_OF = 1, 2, 3, 8  # fields of an Expression
_EPOCH = datetime(1970, 1, 1)


class _UnknownError(Exception):
    """A part of the expression is of a kind that is not read here."""


def find_conditions(expression: pc.Expression, schema: pa.Schema) -> list[list[_Condition]] | None:
    """Return alternatives of conditions that hold for the same rows; None if there are none known.

    Args:
        expression: The filter.
        schema: The columns that the filter may name.
    """
    try:
        message = bytes(expression.to_substrait(schema))
    except (pa.ArrowException, AttributeError, ImportError):  # a part has no form in Substrait
        return None
    try:
        return _Reader(message, schema).alternatives()
    except _UnknownError:
        return None


class _Reader:
    """Reads the one expression of a message."""

    def __init__(self, message: bytes, schema: pa.Schema) -> None:
        fields = _all_fields(message)
        declared = [_one(part, 3) for part in fields.get(2, [])]
        self._functions = {_number(part, 2): _one(part, 3).decode() for part in declared}
        self._expression = _one(fields[3][0], 1)
        self._names = schema.names

    def alternatives(self) -> list[list[_Condition]]:
        return self._read(self._expression)

    def _read(self, data: bytes) -> list[list[_Condition]]:
        fields = _all_fields(data)
        if _ONE_OF in fields:
            return [[self._one_of(fields[_ONE_OF][0])]]
        if _CALL not in fields:
            raise _UnknownError
        call = fields[_CALL][0]
        name = self._functions.get(_number(call, 1), "")
        arguments = [_one(part, 3) for part in _all_fields(call).get(4, [])]
        if name == "and":
            found: list[list[_Condition]] = [[]]
            for argument in arguments:
                found = [one + other for one, other in product(found, self._read(argument))]
                if len(found) > _ALTERNATIVES_MAX:
                    raise _UnknownError
            return found
        if name == "or":
            return [group for argument in arguments for group in self._read(argument)]
        if name in ("is_null", "is_not_null"):
            return [[(self._column(arguments[0]), "in" if name == "is_null" else "not in", [None])]]
        return [[self._comparison(name, arguments)]]

    def _comparison(self, name: str, arguments: list[bytes]) -> _Condition:
        if name not in _OPERATORS or len(arguments) != 2:
            raise _UnknownError
        left, right = arguments
        if _LITERAL in _all_fields(left):
            return self._column(right), _MIRRORED[_OPERATORS[name]], _literal(left)
        return self._column(left), _OPERATORS[name], _literal(right)

    def _one_of(self, data: bytes) -> _Condition:
        fields = _all_fields(data)
        return self._column(fields[1][0]), "in", [_literal(part) for part in fields.get(2, [])]

    def _column(self, data: bytes) -> str:
        fields = _all_fields(data)
        if _SELECTION not in fields:
            raise _UnknownError
        place = _one(_one(fields[_SELECTION][0], 1), 2)
        if 2 in _all_fields(place):  # a field of a struct
            raise _UnknownError
        name = self._names[_number(place, 1)]
        return str(name)


def _literal(data: bytes) -> Any:
    """Return the value of a literal; null has no place in a comparison."""
    fields = _all_fields(data)
    if _LITERAL not in fields:
        raise _UnknownError
    values = [(kind, value) for kind, value in _fields(fields[_LITERAL][0]) if kind != 50]
    if len(values) != 1:
        raise _UnknownError
    ((kind, value),) = values
    if isinstance(value, bytes):
        if kind == 12:
            return value.decode()
        if kind == 13:
            return value
        if kind == 24:
            unscaled = int.from_bytes(_one(value, 1), "little", signed=True)
            return Decimal(unscaled).scaleb(-_number(value, 3))
        raise _UnknownError
    number = value - (1 << 64) if value >= 1 << 63 else value
    if kind == 1:
        return bool(number)
    if kind in (2, 3, 5, 7):
        return number
    if kind == 14:
        return _EPOCH + timedelta(microseconds=number)
    if kind == 16:
        return date(1970, 1, 1) + timedelta(days=number)
    raise _UnknownError


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a protobuf message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
        elif kind == 2:
            size, at = _varint(data, at)
            yield tag >> 3, data[at : at + size]
            at += size
        else:  # a floating-point number
            raise _UnknownError


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _all_fields(data: bytes) -> dict[int, list[bytes]]:
    """Return the messages and texts in a message, by field."""
    found: dict[int, list[bytes]] = {}
    for number, value in _fields(data):
        if isinstance(value, bytes):
            found.setdefault(number, []).append(value)
    return found


def _one(data: bytes, field: int) -> bytes:
    found = _all_fields(data).get(field)
    if not found:
        raise _UnknownError
    return found[0]


def _number(data: bytes, field: int) -> int:
    """Return a number of a message; 0, which is not written, where it is left out."""
    values = [value for number, value in _fields(data) if number == field]
    return values[0] if values and isinstance(values[0], int) else 0
