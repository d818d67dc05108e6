"""Structures of parquet files in Thrift's compact protocol: read and written, with unknown fields.

Fields are kept by id with their types, so that unknown fields survive.
Pure. Sources: thrift-compact-protocol.md, TCompactProtocol.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from bucketfmt.errors import CorruptError, TruncatedError

__all__ = [
    "BINARY",
    "I16",
    "I32",
    "I64",
    "LIST",
    "STRUCT",
    "Reader",
    "Struct",
    "ThriftList",
    "encode_struct",
    "read_fields",
    "read_list_head",
    "read_struct",
    "read_value",
    "read_varint",
    "skip_struct",
]

_TRUE, _FALSE, _BYTE, I16, I32, I64, _DOUBLE, BINARY, LIST, _, _, STRUCT = range(1, 13)
_NUMBERS = frozenset((I16, I32, I64))
_DEPTH_MAX = 16  # parquet.thrift nests half as deep
_LONG_LIST = 15


class Reader(NamedTuple):
    """Reads values of one type: returns the value at an offset, and the offset after it."""

    kind: int
    read: Callable[[bytes, int], tuple[Any, int]]


class Struct(dict[int, Any]):
    """Values by field id; equal if the values are.

    Attributes:
        kinds: The type of each field, as the protocol numbers them.
    """

    __slots__ = ("kinds",)

    def __init__(self) -> None:
        super().__init__()
        self.kinds: dict[int, int] = {}

    def put(self, field_id: int, value: Any, kind: int | None = None) -> None:
        """Set a field; `kind` is needed for a new field."""
        self[field_id] = value
        if kind is not None:
            self.kinds[field_id] = kind

    def drop(self, *field_ids: int) -> None:
        """Remove fields that exist."""
        for field_id in field_ids:
            self.pop(field_id, None)
            self.kinds.pop(field_id, None)

    def copied(self) -> Struct:
        """Return a copy with the same values."""
        same = Struct()
        same.update(self)
        same.kinds.update(self.kinds)
        return same


class ThriftList(list[Any]):
    """The values of a list.

    Attributes:
        kind: The type of the values, as numbered by the protocol.
    """

    __slots__ = ("kind",)

    def __init__(self, values: Iterable[Any], kind: int) -> None:
        super().__init__(values)
        self.kind = kind


def read_struct(data: bytes, at: int, depth: int = 0) -> tuple[Struct, int]:
    """Return the struct that begins at `at`, and the offset after it.

    Raises:
        CorruptError: the bytes are not a struct.
        TruncatedError: a value is longer than the remaining bytes.
        IndexError, struct.error: the data end within the struct.
    """
    if depth > _DEPTH_MAX:
        raise CorruptError("parquet footer: structures nest too deep", offset=at)
    fields = Struct()
    kinds = fields.kinds
    field_id = 0
    while True:
        head = data[at]
        at += 1
        if head == 0:
            return fields, at
        if head >> 4:
            field_id += head >> 4
        else:
            field_id, at = _read_zigzag(data, at)
        kind = head & 0x0F
        kinds[field_id] = kind
        if kind in _NUMBERS and data[at] < 0x80:  # most values are numbers of one byte
            fields[field_id] = (data[at] >> 1) ^ -(data[at] & 1)
            at += 1
        elif kind in (_TRUE, _FALSE):  # a boolean is its own type
            fields[field_id] = kind == _TRUE
        else:
            fields[field_id], at = read_value(data, at, kind, depth)


def read_value(data: bytes, at: int, kind: int, depth: int = 0) -> tuple[Any, int]:
    """Return the value of a type that begins at `at`, and the offset after it. As `read_struct`."""
    if kind in _NUMBERS:
        return _read_zigzag(data, at)
    if kind == BINARY:
        size, at = read_varint(data, at)
        if size > len(data) - at:
            raise TruncatedError("parquet footer: a text is longer than the footer", offset=at)
        return data[at : at + size], at + size
    if kind == STRUCT:
        return read_struct(data, at, depth + 1)
    if kind == LIST:
        return _read_list(data, at, depth)
    if kind in (_TRUE, _FALSE, _BYTE):  # within a list, one byte each
        return data[at] == _TRUE if kind != _BYTE else data[at], at + 1
    if kind == _DOUBLE:
        return struct.unpack_from("<d", data, at)[0], at + 8
    raise CorruptError(f"parquet footer: value of type {kind}", offset=at)


def _read_list(data: bytes, at: int, depth: int) -> tuple[ThriftList, int]:
    if depth > _DEPTH_MAX:
        raise CorruptError("parquet footer: lists nest too deep", offset=at)
    kind, size, at = read_list_head(data, at)
    values = ThriftList((), kind)
    for _ in range(size):
        value, at = read_value(data, at, kind, depth + 1)
        values.append(value)
    return values, at


def read_list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the type and the number of the values of a list, and the offset of the first value.

    Raises:
        CorruptError, TruncatedError, IndexError: as `read_struct`.
    """
    head = data[at]
    size, at = (head >> 4, at + 1) if head >> 4 < _LONG_LIST else read_varint(data, at + 1)
    if size > len(data) - at:
        raise TruncatedError("parquet footer: a list is longer than the footer", offset=at)
    return head & 0x0F, size, at


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned number that begins at `at`, and the offset after it.

    Raises:
        CorruptError: the number has more than 64 bits.
        IndexError: the data end within the number.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:  # ten bytes hold 64 bits and a little more
            raise CorruptError("parquet footer: a number of more than 64 bits", offset=at)


def _read_zigzag(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    if value < 0x80:  # most numbers of a footer
        return (value >> 1) ^ -(value & 1), at + 1
    value, at = read_varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def read_fields(
    data: bytes, at: int, readers: Mapping[int, Reader], until: int | None = None
) -> tuple[dict[int, Any], int]:
    """Return the fields of a struct that there are readers for, and the offset after the struct.

    The other fields are skipped.

    Args:
        data: Holds the struct.
        at: Where the struct begins.
        readers: What reads the value of a field, by the id of the field.
        until: The id of the field to end with; the offset is then that after this field.

    Raises:
        CorruptError, TruncatedError, IndexError, struct.error: as `read_struct`. CorruptError also
            if the value of a field has another type than the reader is for.
    """
    found: dict[int, Any] = {}
    field_id = 0
    while True:
        head = data[at]
        at += 1
        if head == 0:
            return found, at
        if head >> 4:
            field_id += head >> 4
        else:
            field_id, at = _read_zigzag(data, at)
        kind, reader = head & 0x0F, readers.get(field_id)
        if reader is not None:
            if kind != reader.kind:
                raise CorruptError(f"parquet footer: field {field_id} is of another type")
            found[field_id], at = reader.read(data, at)
            if field_id == until:
                return found, at
        elif kind not in (_TRUE, _FALSE):
            at = _skip_value(data, at, kind, 0)


def skip_struct(data: bytes, at: int, depth: int = 0) -> int:
    """Return the offset after the struct that begins at `at`, several times as fast as it is read.

    Raises:
        CorruptError, TruncatedError, IndexError, struct.error: as `read_struct`.
    """
    if depth > _DEPTH_MAX:
        raise CorruptError("parquet footer: structures nest too deep", offset=at)
    while True:
        at = _match_plain_fields(data, at).end()  # type: ignore[union-attr]  # or of no field
        head = data[at]
        at += 1
        if head == 0:
            return at
        kind = head & 0x0F
        if not head >> 4:
            _, at = _read_zigzag(data, at)
        if kind == BINARY and data[at] < 0x80:  # most texts are short
            at += 1 + data[at]
        elif kind not in (_TRUE, _FALSE):
            at = _skip_value(data, at, kind, depth)


def _skip_value(data: bytes, at: int, kind: int, depth: int) -> int:
    if kind == STRUCT:
        return skip_struct(data, at, depth + 1)
    if kind != LIST:
        return read_value(data, at, kind, depth)[1]
    if depth > _DEPTH_MAX:
        raise CorruptError("parquet footer: lists nest too deep", offset=at)
    kind, size, at = read_list_head(data, at)
    for _ in range(size):
        if kind == STRUCT:
            at = skip_struct(data, at, depth + 2)
        elif kind in _NUMBERS and data[at] < 0x80:
            at += 1
        elif kind == BINARY and data[at] < 0x80:
            at += 1 + data[at]
        else:
            at = _skip_value(data, at, kind, depth + 1)
    return at


def _heads_of(*kinds: int) -> bytes:
    """Return the heads of fields of these types, whose ids follow that of the field before."""
    return b"".join(b"\\x%02x" % (step << 4 | kind) for step in range(1, 16) for kind in kinds)


# Numbers and booleans: most fields are such, and a struct has several in a row.
_match_plain_fields = re.compile(
    rb"(?:[%b][\x80-\xff]{0,9}[\x00-\x7f]|[%b]){0,1000}"
    % (_heads_of(I16, I32, I64), _heads_of(_TRUE, _FALSE))
).match


def encode_struct(fields: Struct) -> bytes:
    """Return the bytes of a struct; `read_struct` returns an equal one."""
    out = bytearray()
    _write_struct(out, fields)
    return bytes(out)


def _write_struct(out: bytearray, fields: Struct) -> None:
    before = 0
    for field_id, value in sorted(fields.items()):
        kind = fields.kinds[field_id]
        if kind in (_TRUE, _FALSE):
            kind = _TRUE if value else _FALSE
        if 0 < field_id - before <= 15:
            out.append(field_id - before << 4 | kind)
        else:
            out.append(kind)
            _write_zigzag(out, field_id)
        before = field_id
        if kind not in (_TRUE, _FALSE):
            _write_value(out, value, kind)
    out.append(0)


def _write_value(out: bytearray, value: Any, kind: int) -> None:
    if kind in (I16, I32, I64):
        _write_zigzag(out, value)
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind == LIST:
        if len(value) < _LONG_LIST:
            out.append(len(value) << 4 | value.kind)
        else:
            out.append(_LONG_LIST << 4 | value.kind)
            _write_varint(out, len(value))
        for item in value:
            _write_value(out, item, value.kind)
    elif kind in (_TRUE, _FALSE):
        out.append(_TRUE if value else _FALSE)
    elif kind == _BYTE:
        out.append(value)
    else:
        out += struct.pack("<d", value)


def _write_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _write_zigzag(out: bytearray, value: int) -> None:
    _write_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)
