"""Readers of Avro's scalar types: values of many rows at once, or only their extent.

`read` returns one Arrow array for all cursors, and the cursors after the values; `skip` returns
only the cursors; `skip_one` skips a value at a single position, for lists so long and few that
reading them side by side does not pay. Cursors ascend, and nulls have no cursor. Pure: no I/O.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketfmt.errors import CorruptError, TruncatedError
from bucketfmt.rows.avro.avro_schema import arrow_type
from bucketfmt.rows.avro.avro_span import Cursor, Span
from bucketfmt.rows.avro.avro_types import AvroEnum, AvroFixed, AvroPrimitive

__all__ = ["Reader", "make_scalar_reader"]

_DECIMAL_BYTES_MAX = 32


class Reader(ABC):
    """Reads values of one type.

    Attributes:
        arrow: The Arrow type of what `read` returns.
        width: The size of every value in bytes; None if sizes differ.
        bytes_min: The least size of a value in bytes.
        bytes_per_row: Memory a row takes in Arrow whatever its value, rounded up.
    """

    arrow: pa.DataType
    width: int | None
    bytes_min: int
    bytes_per_row: int

    @abstractmethod
    def read(self, span: Span, cursor: Cursor) -> tuple[pa.Array, Cursor]:
        """Return the values that begin at the cursors, and the cursors after them."""

    @abstractmethod
    def skip(self, span: Span, cursor: Cursor) -> Cursor:
        """Return the cursors after the values; only bytes that move a cursor are checked."""

    @abstractmethod
    def skip_one(self, span: Span, position: int) -> int:
        """Return the position behind the one value at `position`."""


class _FixedWidth(Reader):
    """A type whose values all take `width` bytes."""

    width: int

    def __init__(self, arrow: pa.DataType, width: int, bytes_per_row: int) -> None:
        self.arrow = arrow
        self.width = self.bytes_min = width
        self.bytes_per_row = bytes_per_row

    def skip(self, span: Span, cursor: Cursor) -> Cursor:
        return cursor + self.width

    def skip_one(self, span: Span, position: int) -> int:
        return position + self.width


class _Null(_FixedWidth):
    def read(self, span: Span, cursor: Cursor) -> tuple[pa.Array, Cursor]:
        return pa.nulls(len(cursor)), cursor


class _Boolean(_FixedWidth):
    def read(self, span: Span, cursor: Cursor) -> tuple[pa.Array, Cursor]:
        values = span.bytes_at(cursor)
        if values.size and values.max() > 1:
            span.fail(values > 1, cursor, "a boolean is neither 0 nor 1")
        return _plain(self.arrow, np.packbits(values, bitorder="little"), len(cursor)), cursor + 1


class _Float(_FixedWidth):
    def read(self, span: Span, cursor: Cursor) -> tuple[pa.Array, Cursor]:
        words = span.words_at(cursor)
        values = words.astype(np.uint32) if self.width == 4 else words
        return _plain(self.arrow, values, len(cursor)), cursor + self.width


class _Fixed(_FixedWidth):
    def read(self, span: Span, cursor: Cursor) -> tuple[pa.Array, Cursor]:
        end = cursor + self.width
        data = span.gather(cursor, end).buffers()[2] or pa.py_buffer(b"")
        return pa.Array.from_buffers(self.arrow, len(cursor), [None, data]), end


class _Varint(Reader):
    """int and long, and the dates and times stored as such."""

    width = None
    bytes_min = 1

    def __init__(self, arrow: pa.DataType) -> None:
        self.arrow = arrow
        self.bytes_per_row = arrow.bit_width // 8

    def read(self, span: Span, cursor: Cursor) -> tuple[pa.Array, Cursor]:
        values, end = span.varints_at(cursor)
        if self.bytes_per_row == 4:
            narrow = values.astype(np.int32)
            if (narrow != values).any():
                span.fail(narrow != values, cursor, "an int is longer than 32 bits")
            return self._checked(_plain(self.arrow, narrow, len(cursor)), cursor), end
        return self._checked(_plain(self.arrow, values, len(cursor)), cursor), end

    def _checked(self, values: pa.Array, cursor: Cursor) -> pa.Array:
        return _checked(values, cursor, "a day") if pa.types.is_time(self.arrow) else values

    def skip(self, span: Span, cursor: Cursor) -> Cursor:
        return span.varints_at(cursor)[1]

    def skip_one(self, span: Span, position: int) -> int:
        return span.varint_at(position)[1]


class _Enum(_Varint):
    def __init__(self, symbols: Sequence[str]) -> None:
        self.arrow = pa.string()
        self.bytes_per_row = 4 + max(len(symbol.encode()) for symbol in symbols)
        self._symbols = pa.array(symbols, pa.string())

    def read(self, span: Span, cursor: Cursor) -> tuple[pa.Array, Cursor]:
        values, end = span.varints_at(cursor)
        wrong = (values < 0) | (values >= len(self._symbols))
        if wrong.any():
            span.fail(wrong, cursor, "an enum has no such symbol")
        return self._symbols.take(pa.array(values)), end


class _Bytes(Reader):
    """bytes and string."""

    width = None
    bytes_min = 1
    bytes_per_row = 4

    def __init__(self, arrow: pa.DataType) -> None:
        self.arrow = arrow

    def read(self, span: Span, cursor: Cursor) -> tuple[pa.Array, Cursor]:
        begin, end = span.lengths_at(cursor)
        gather = span.gather_texts if self.arrow == pa.string() else span.gather
        return gather(begin, end), end

    def skip(self, span: Span, cursor: Cursor) -> Cursor:
        return span.lengths_at(cursor)[1]

    def skip_one(self, span: Span, position: int) -> int:
        length, begin = span.varint_at(position)
        if not 0 <= length <= span.stop - begin:
            raise TruncatedError("a length leads out of the row", offset=position)
        return begin + length


class _BytesDecimal(_Bytes):
    def __init__(self, arrow: pa.DataType) -> None:
        self.arrow = arrow
        self.bytes_per_row = arrow.byte_width

    def read(self, span: Span, cursor: Cursor) -> tuple[pa.Array, Cursor]:
        begin, end = span.lengths_at(cursor)
        return _decimals(self.arrow, span, begin, end), end


class _FixedDecimal(_FixedWidth):
    def read(self, span: Span, cursor: Cursor) -> tuple[pa.Array, Cursor]:
        end = cursor + self.width
        return _decimals(self.arrow, span, cursor, end), end


def make_scalar_reader(schema: AvroPrimitive | AvroFixed | AvroEnum) -> Reader:
    """Return the reader of values of `schema`."""
    if isinstance(schema, AvroEnum):
        return _Enum(schema.symbols)
    arrow = arrow_type(schema)
    if isinstance(schema, AvroFixed):
        if pa.types.is_decimal(arrow):
            return _FixedDecimal(arrow, schema.size, arrow.byte_width)
        return _Fixed(arrow, schema.size, schema.size)
    if schema.kind == "null":
        return _Null(arrow, 0, 0)
    if schema.kind == "boolean":
        return _Boolean(arrow, 1, 1)
    if schema.kind in {"float", "double"}:
        return _Float(arrow, arrow.byte_width, arrow.byte_width)
    if schema.kind in {"int", "long"}:
        return _Varint(arrow)
    return _BytesDecimal(arrow) if pa.types.is_decimal(arrow) else _Bytes(arrow)


def _plain(arrow: pa.DataType, values: npt.NDArray[np.generic], length: int) -> pa.Array:
    return pa.Array.from_buffers(arrow, length, [None, pa.py_buffer(values)])


def _checked(values: pa.Array, cursor: Cursor, what: str) -> pa.Array:
    """Return `values` if all are within the range of their type."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid as error:
        offset = int(cursor[0]) if len(cursor) else None
        raise CorruptError(f"a value exceeds {what}: {error}", offset=offset) from error
    return values


def _decimals(arrow: pa.DataType, span: Span, begin: Cursor, end: Cursor) -> pa.Array:
    """Return big-endian two's complement numbers as decimals, eight bytes of all in a pass."""
    size, limbs = end - begin, arrow.byte_width // 8
    wrong = (size < 1) | (size > _DECIMAL_BYTES_MAX) | (end > span.stop)
    if wrong.any():
        span.fail(wrong, begin, "a decimal of no bytes, or of more than 32, or past the end")
    longest = int(size.max(initial=1))
    parts: list[npt.NDArray[np.int64]] = []
    for limb in range(max(limbs, -(-longest // 8))):
        unused = 64 - 8 * np.clip(size - 8 * limb, 0, 8)
        part = span.words_at(end - 8 * (limb + 1)).view(">i8").astype(np.int64)
        part = (part << unused) >> unused  # the sign fills what is not this number's
        parts.append(np.where(unused == 64, parts[-1] >> 63, part) if limb else part)
    for part in parts[limbs:]:
        wrong = part != parts[limbs - 1] >> 63
        if wrong.any():
            span.fail(wrong, begin, f"a decimal of more than {8 * limbs} bytes")
    numbers = np.stack(parts[:limbs], axis=1)
    return _checked(_plain(arrow, numbers, len(begin)), begin, "its digits")
