"""Delete payloads of version 3: Avro without a container, Hudi 0.14 and later.

Pure. Source: HoodieDeleteRecordList.avsc, HoodieAvroWrapperUtils. The payload is an array of
records (key, partition path, ordering value); key and path are unions of null and string, the
ordering value a union of null and one wrapper record for every `OrderingKind` up to ARRAY.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

import numpy as np

from bucketfmt.errors import CorruptError, TruncatedError, UnsupportedError
from bucketfmt.format.encoding.cursor import Buffer, Cursor
from bucketfmt.format.log.ordering_values import OrderingKind, OrderingValue, RawOrderingValue
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = ["DeleteColumns", "decode_avro_deletes", "encode_avro_deletes"]

DeleteColumns = tuple[list["str | None"], list["str | None"], bytes, list[RawOrderingValue]]
"""Record keys, partition paths, ordering kinds (one byte each), ordering values."""

_INT_KINDS = (OrderingKind.INT, OrderingKind.DATE, OrderingKind.LOCAL_DATE)
_LONG_KINDS = (OrderingKind.LONG, OrderingKind.TIME_MICROS, OrderingKind.TIMESTAMP_MICROS)
_INTEGER_BRANCHES = bytes(2 * kind for kind in (*_INT_KINDS, *_LONG_KINDS) if kind < 12)
_LOCAL_DATE_BRANCH = 12  # of the union inside ARRAY, which has no ARRAY
_RECORD_BYTES_MIN = 3  # three unions, each of them null
_VARINT_BYTES_MAX = 10
_TOP_BITS = int.from_bytes(b"\x80" * _VARINT_BYTES_MAX, "little")
_LOW = (1 << 64) - 1
_DECIMAL_DIGITS = 30
_DECIMAL_SCALE = 15
_DECIMAL_CONTEXT = Context(prec=_DECIMAL_DIGITS, traps=[Inexact, InvalidOperation])
_F32 = struct.Struct("<f")
_F64 = struct.Struct("<d")


def decode_avro_deletes(payload: Buffer, limits: Limits = DEFAULT_LIMITS) -> DeleteColumns:
    """Return the deletes of a payload.

    Raises:
        CorruptError: the payload does not fit the schema.
        LimitError: the payload has more records than `limits.records_per_block_max`.
    """
    cursor = Cursor(bytes(payload), limits=limits)
    decoder = _Decoder(cursor)
    for count in _array_blocks(cursor, _RECORD_BYTES_MIN):
        limits.check("records_per_block_max", len(decoder.values) + count)
        try:
            decoder.append_records(count)
        except IndexError as error:
            raise TruncatedError("delete payload ends within a record") from error
        except UnicodeDecodeError as error:
            raise CorruptError("delete payload: a text is not UTF-8") from error
    cursor.expect_end("delete payload")
    return decoder.columns()


class _Decoder:
    """The columns of the records decoded so far."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.payload = bytes(cursor.data)
        self.latin = self.payload.decode("latin-1")  # its slices are the texts that are ASCII
        self.record_keys: list[str | None] = []
        self.partition_paths: list[str | None] = []
        self.kinds = bytearray()
        self.values: list[Any] = []  # integers still packed, as `_unpack` takes them

    def append_records(self, count: int) -> None:
        """Decode `count` records at the cursor.

        A block may hold millions of records, and each begins where the previous record ends. So
        this is one loop, without function calls of this package in the usual case: short ASCII
        keys, the partition path of the previous record, an integer as long as the previous integer.
        """
        payload, latin = self.payload, self.latin
        append_key, append_path = self.record_keys.append, self.partition_paths.append
        append_kind, append_value = self.kinds.append, self.values.append
        path, path_bytes = None, b"\0"
        size = mask = tops = 0  # of the last integer: its bytes, all bits, the top bit of each byte
        continues = -1  # ... the same but for its last byte: the varint ends there
        position = self.cursor.position
        for _ in range(count):
            length = payload[position + 1]
            stop = position + 2 + (length >> 1)
            key = latin[position + 2 : stop]
            if payload[position] == 2 and not length & 0x81 and key.isascii():
                append_key(key)
            else:
                text, stop = self.text(position)
                append_key(text)
            position = stop
            if not payload.startswith(path_bytes, position):
                path, stop = self.text(position)
                path_bytes = payload[position:stop]
            append_path(path)
            position += len(path_bytes)
            branch = payload[position]
            position += 1
            if branch not in _INTEGER_BRANCHES:
                kind, value, position = self.other_value(branch, position)
                append_kind(kind)
                append_value(value)
                continue
            packed = int.from_bytes(payload[position : position + _VARINT_BYTES_MAX], "little")
            if packed & tops != continues:
                size = 1
                while payload[position + size - 1] > 0x7F:
                    size += 1
                if size > _VARINT_BYTES_MAX:
                    raise CorruptError("an integer longer than 64 bits", offset=position)
                mask = (1 << 8 * size) - 1
                tops, continues = mask & _TOP_BITS, mask >> 8 & _TOP_BITS
            append_kind(branch >> 1)
            append_value(packed & mask)
            position += size
        if position > len(payload):
            raise IndexError
        self.cursor.position = position

    def text(self, position: int) -> tuple[str | None, int]:
        """Return the union of null and string at `position`, and the position after it."""
        branch = self.payload[position]
        if branch == 0:
            return None, position + 1
        if branch != 2:
            raise CorruptError(f"union branch {branch / 2} of a text", offset=position)
        return self.string(position + 1)

    def string(self, position: int) -> tuple[str, int]:
        """Return the string at `position`, and the position after it."""
        payload, start = self.payload, position + 1
        length = payload[position]
        if length > 0x7F:
            length += (payload[start] << 7) - 0x80
            start += 1
        if length & 1 or length >> 14:  # negative, or over 8191 bytes
            self.cursor.position = position
            length = 2 * self.cursor.count(self.cursor.zigzag(), 1, "text")
            start = self.cursor.position
        stop = start + (length >> 1)
        text = self.latin[start:stop]
        return text if text.isascii() else payload[start:stop].decode(), stop

    def other_value(self, branch: int, position: int) -> tuple[OrderingKind, RawOrderingValue, int]:
        """Return kind, value and end of an ordering value that is not an integer."""
        if branch == 2 * OrderingKind.STRING:
            return OrderingKind.STRING, *self.string(position)
        if branch & 1 or branch > 2 * OrderingKind.ARRAY:
            raise CorruptError(f"ordering value of union branch {branch / 2}", offset=position - 1)
        kind = OrderingKind(branch >> 1)
        self.cursor.position = position
        return kind, _READERS[kind](self.cursor), self.cursor.position

    def columns(self) -> DeleteColumns:
        """Return the decoded columns with unpacked integers."""
        kinds, values = bytes(self.kinds), self.values
        for group, bits in ((_INT_KINDS, 32), (_LONG_KINDS, 64)):
            rows = np.flatnonzero(np.isin(np.frombuffer(kinds, np.uint8), group)).tolist()
            all_rows = len(rows) == len(values)
            unpacked = _unpack(values if all_rows else [values[row] for row in rows], bits)
            if all_rows:
                values = unpacked
            else:
                for row, value in zip(rows, unpacked, strict=True):
                    values[row] = value
        return self.record_keys, self.partition_paths, kinds, values


def _unpack(packed: list[int], bits: int) -> list[int]:
    """Return the values of zigzag varints, each given as its bytes read as little-endian."""
    high = np.zeros(1, np.uint64)
    try:
        low = np.array(packed, np.uint64)
    except OverflowError:  # 9 or 10 bytes
        low = np.array([value & _LOW for value in packed], np.uint64)
        high = np.array([value >> 64 for value in packed], np.uint64)
    if np.any(high & np.uint64(0x7E00)):
        raise CorruptError("delete payload: an integer longer than 64 bits")
    # seven bits of every byte, joined by twos: 8 groups of 7, 4 of 14, 2 of 28, 1 of 56
    for shift, kept in ((1, 0x007F007F007F007F), (2, 0x00003FFF00003FFF), (4, 0x0FFFFFFF)):
        low = (low & np.uint64(kept)) | ((low >> np.uint64(shift)) & np.uint64(kept << 7 * shift))
    low = (
        low | (high & np.uint64(0x7F)) << np.uint64(56) | (high & np.uint64(0x100)) << np.uint64(55)
    )
    values = (low >> np.uint64(1)).view(np.int64) ^ -(low & np.uint64(1)).view(np.int64)
    if bits == 32 and np.any(values != values.astype(np.int32)):
        raise CorruptError("delete payload: an int longer than 32 bits")
    unpacked: list[int] = values.tolist()
    return unpacked


def _array_blocks(cursor: Cursor, item_bytes_min: int) -> Iterator[int]:
    """Yield the item count of each block of an Avro array; the items are read in between."""
    while (count := cursor.zigzag(64, "array block count")) != 0:
        if count > 0:
            yield cursor.count(count, item_bytes_min, "array block")
            continue
        size = cursor.count(cursor.zigzag(64, "array block size"), 1, "array block size")
        end = cursor.position + size
        yield cursor.count(-count, item_bytes_min, "array block")
        if cursor.position != end:
            raise CorruptError(
                "delete payload: an array block does not have the size that its header states",
                offset=cursor.position,
            )


def _read_array(cursor: Cursor) -> tuple[OrderingValue, ...]:
    """Return the values of an ArrayWrapper."""
    if cursor.zigzag(32, "union") != 1:
        raise CorruptError("delete payload: an ArrayWrapper has no values", offset=cursor.position)
    values: list[OrderingValue] = []
    for count in _array_blocks(cursor, 1):
        cursor.limits.check("schema_fields_max", len(values) + count)  # one per ordering field
        for _ in range(count):
            branch = cursor.zigzag(32, "union")
            if not 0 <= branch <= _LOCAL_DATE_BRANCH:
                raise CorruptError(f"union branch {branch}", offset=cursor.position)
            kind = OrderingKind.LOCAL_DATE if branch == _LOCAL_DATE_BRANCH else OrderingKind(branch)
            values.append(OrderingValue(kind, _READERS[kind](cursor)))
    return tuple(values)


def _read_boolean(cursor: Cursor) -> bool:
    byte = cursor.u8("boolean")
    if byte > 1:
        raise CorruptError(f"boolean {byte}", offset=cursor.position)
    return byte == 1


def _read_float(cursor: Cursor) -> float:
    value: float = _F32.unpack(cursor.take(4, "float"))[0]
    return value


def _read_double(cursor: Cursor) -> float:
    value: float = _F64.unpack(cursor.take(8, "double"))[0]
    return value


def _read_bytes(cursor: Cursor) -> bytes:
    return bytes(cursor.take(cursor.zigzag(64, "length"), "bytes"))


def _read_decimal(cursor: Cursor) -> Decimal:
    unscaled = int.from_bytes(_read_bytes(cursor), "big", signed=True)
    if abs(unscaled) >= 10**_DECIMAL_DIGITS:
        raise CorruptError(f"decimal of over {_DECIMAL_DIGITS} digits", offset=cursor.position)
    return Decimal(f"{unscaled}E-{_DECIMAL_SCALE}")


_READERS: dict[OrderingKind, Callable[[Cursor], RawOrderingValue]] = {
    OrderingKind.NULL: lambda cursor: None,
    OrderingKind.BOOLEAN: _read_boolean,
    OrderingKind.FLOAT: _read_float,
    OrderingKind.DOUBLE: _read_double,
    OrderingKind.BYTES: _read_bytes,
    OrderingKind.STRING: lambda cursor: cursor.utf8(cursor.zigzag(64, "length"), "text"),
    OrderingKind.DECIMAL: _read_decimal,
    OrderingKind.ARRAY: _read_array,
    **dict.fromkeys(_INT_KINDS, lambda cursor: cursor.zigzag(32, "int")),
    **dict.fromkeys(_LONG_KINDS, lambda cursor: cursor.zigzag(64, "long")),
}


def encode_avro_deletes(
    record_keys: Sequence[str | None],
    partition_paths: Sequence[str | None],
    kinds: bytes,
    values: Sequence[RawOrderingValue],
) -> bytes:
    """Return the payload, as one array block.

    Raises:
        UnsupportedError: the schema cannot hold a value, which Hudi refuses as well.
        ValueError: columns have different lengths, or a value does not fit its kind.
    """
    out = bytearray()
    if record_keys:
        out += _zigzag(len(record_keys))
    last_path, path_bytes = None, b"\0"
    last_value, last_kind, value_bytes = None, 0, b"\0"
    for key, path, kind, value in zip(record_keys, partition_paths, kinds, values, strict=True):
        out += _encode_text(key)
        if path != last_path:
            last_path, path_bytes = path, _encode_text(path)
        out += path_bytes
        if value is not last_value or kind != last_kind:
            last_value, last_kind = value, kind
            value_bytes = _encode_wrapper(OrderingKind(kind), value, OrderingKind.ARRAY)
        out += value_bytes
    out.append(0)
    return bytes(out)


def _encode_wrapper(kind: OrderingKind, value: Any, last_kind: OrderingKind) -> bytes:
    """Return the union branch and the record of one value.

    Of the thirteen branches the last one is ARRAY in a record and LOCAL_DATE inside ARRAY.
    """
    branch = OrderingKind.ARRAY if kind is last_kind else kind
    if branch > OrderingKind.ARRAY or (kind is OrderingKind.ARRAY and kind is not last_kind):
        raise UnsupportedError(f"a {kind.name} ordering value, which Hudi does not write here")
    return bytes((2 * branch,)) + _ENCODERS[kind](value)


def _encode_integer(value: int, bits: int) -> bytes:
    if value >> (bits - 1) not in (0, -1):
        raise ValueError(f"{value} has more than {bits} bits")
    return _zigzag(value)


def _encode_array(values: tuple[OrderingValue, ...]) -> bytes:
    items = [_encode_wrapper(v.kind, v.value, OrderingKind.LOCAL_DATE) for v in values]
    return b"".join((b"\2", _zigzag(len(items)) if items else b"", *items, b"\0"))


def _encode_decimal(value: Decimal) -> bytes:
    """Return unscaled bytes, as HoodieTableMetadataUtil.tryUpcastDecimal prepares them."""
    try:
        scaled = _DECIMAL_CONTEXT.quantize(value, Decimal(f"1E-{_DECIMAL_SCALE}"))
    except ArithmeticError as error:
        raise UnsupportedError(
            f"{value} as an ordering value: Hudi keeps {_DECIMAL_DIGITS} digits, "
            f"{_DECIMAL_SCALE} of them behind the point"
        ) from error
    unscaled = int(_DECIMAL_CONTEXT.scaleb(scaled, _DECIMAL_SCALE))
    size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return _encode_bytes(unscaled.to_bytes(size, "big", signed=True))


def _encode_text(text: str | None) -> bytes:
    """Return the union of null and string."""
    return b"\0" if text is None else b"\2" + _encode_bytes(text.encode())


def _encode_bytes(data: bytes) -> bytes:
    return _zigzag(len(data)) + data


def _zigzag(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    if rest < 0x80:
        return rest.to_bytes(1, "little")
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_ENCODERS: dict[OrderingKind, Callable[[Any], bytes]] = {
    OrderingKind.NULL: lambda value: b"",
    OrderingKind.BOOLEAN: lambda value: bytes((bool(value),)),
    OrderingKind.FLOAT: _F32.pack,
    OrderingKind.DOUBLE: _F64.pack,
    OrderingKind.BYTES: _encode_bytes,
    OrderingKind.STRING: lambda value: _encode_bytes(value.encode()),
    OrderingKind.DECIMAL: _encode_decimal,
    OrderingKind.ARRAY: _encode_array,
    **dict.fromkeys(_INT_KINDS, lambda value: _encode_integer(value, 32)),
    **dict.fromkeys(_LONG_KINDS, lambda value: _encode_integer(value, 64)),
}
