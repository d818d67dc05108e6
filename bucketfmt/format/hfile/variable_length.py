"""Numbers of variable length in an HFile: protobuf varints and messages, and Hadoop's VInt.

Pure. Source: HFile.proto, IOUtils.readVarLong, WritableUtils.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.encoding.cursor import Cursor

__all__ = [
    "decode_hadoop_vint",
    "decode_message",
    "encode_hadoop_vint",
    "encode_varint",
]

_HADOOP_ONE_BYTE_MIN = -112
_HADOOP_POSITIVE_MIN = -120

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}


def encode_varint(value: int) -> bytes:
    """Return the protobuf varint of a number that is not negative."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def decode_message(cursor: Cursor) -> Mapping[int, list[int | memoryview]]:
    """Return the fields of a protobuf message by number, each with its values in order.

    Varints are unsigned integers; everything else is a view of the bytes.

    Raises:
        CorruptError: the bytes are no message.
        UnsupportedError: a field is a group, which HFiles do not have.
    """
    fields: dict[int, list[int | memoryview]] = defaultdict(list)
    while cursor.remaining:
        tag = cursor.varint(what="protobuf tag")
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise CorruptError("a protobuf field has the number 0", offset=cursor.position)
        if kind == _VARINT:
            fields[number].append(cursor.varint())
        elif kind == _BYTES:
            fields[number].append(cursor.take(cursor.varint(), f"protobuf field {number}"))
        elif kind in _FIXED_SIZES:
            fields[number].append(cursor.take(_FIXED_SIZES[kind], f"protobuf field {number}"))
        else:
            raise UnsupportedError(
                f"protobuf field {number} has wire type {kind}; the file is newer than this "
                "release, or damaged",
                offset=cursor.position,
            )
    return fields


def decode_hadoop_vint(cursor: Cursor) -> int:
    """Return a number in Hadoop's variable-length encoding.

    The first byte is the number itself from -112 to 127. Below, it says how many bytes follow:
    -113 to -120 for one to eight bytes of a number that is not negative, -121 to -128 likewise
    for the complement of a negative number.
    """
    first = cursor.u8("VInt")
    first -= (first & 0x80) << 1
    if first >= _HADOOP_ONE_BYTE_MIN:
        return first
    is_negative = first < _HADOOP_POSITIVE_MIN
    size = (_HADOOP_POSITIVE_MIN if is_negative else _HADOOP_ONE_BYTE_MIN) - first
    value = int.from_bytes(cursor.take(size, "VInt"), "big")
    return ~value if is_negative else value


def encode_hadoop_vint(value: int) -> bytes:
    """Return a number that is not negative in Hadoop's variable-length encoding."""
    if value <= 0x7F:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([_HADOOP_ONE_BYTE_MIN - size & 0xFF]) + value.to_bytes(size, "big")
