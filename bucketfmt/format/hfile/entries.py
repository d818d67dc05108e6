"""The keys and values of one data block of an HFile.

Pure. Source: HFileDataBlock, KeyValue.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bucketfmt.errors import CorruptError, TruncatedError, UnsupportedError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = ["ENTRY_OVERHEAD_BYTES", "HFileEntries", "decode_entries", "encode_entry"]

_LENGTHS = struct.Struct(">iih")  # of the key, of the value, of the row
_SUFFIX = b"\x00\x7f\xff\xff\xff\xff\xff\xff\xff\x04"  # no family, the latest timestamp, a put
_SUFFIX_BYTES = len(_SUFFIX)
_VERSION = b"\x00"  # the number of the writing transaction, in one byte
_KEY_OVERHEAD_BYTES = 2 + _SUFFIX_BYTES
ENTRY_OVERHEAD_BYTES = 8 + _KEY_OVERHEAD_BYTES + 1
"""Bytes of an entry besides its row and its value."""
_ROW_BYTES_MAX = 32_767


@dataclass(frozen=True)
class HFileEntries:
    """Entries in the order of their keys.

    Attributes:
        keys: The rows: the keys of Hudi's records.
        content: What the values are in.
        spans: Begin and end of each value in `content`.
    """

    keys: Sequence[bytes]
    content: memoryview
    spans: Sequence[tuple[int, int]]

    def value(self, position: int) -> memoryview:
        """Return the value of an entry."""
        start, end = self.spans[position]
        return self.content[start:end]


def decode_entries(content: Buffer, limits: Limits = DEFAULT_LIMITS) -> HFileEntries:
    """Return the entries of a data block.

    Raises:
        CorruptError: the content is not made of entries, or their keys are not in order.
        TruncatedError: the content ends inside an entry.
        UnsupportedError: an entry has a column family, a timestamp or a type that Hudi does not
            write.
    """
    view = memoryview(content).cast("B")
    data = bytes(view)
    keys: list[bytes] = []
    spans: list[tuple[int, int]] = []
    position, end, unpack = 0, len(data), _LENGTHS.unpack_from
    header_bytes = _LENGTHS.size
    while position < end:
        if end - position < ENTRY_OVERHEAD_BYTES:
            raise TruncatedError("an HFile block ends inside an entry", offset=position)
        key_bytes, value_bytes, row_bytes = unpack(data, position)
        row_end = position + header_bytes + row_bytes
        value_start = row_end + _SUFFIX_BYTES
        value_end = value_start + value_bytes
        if row_bytes < 0 or value_bytes < 0 or key_bytes < row_bytes + _KEY_OVERHEAD_BYTES:
            raise CorruptError("the lengths of an HFile entry disagree", offset=position)
        if value_end >= end:
            raise TruncatedError("an HFile block ends inside an entry", offset=position)
        if key_bytes != row_bytes + _KEY_OVERHEAD_BYTES or data[row_end:value_start] != _SUFFIX:
            raise UnsupportedError(
                "an HFile entry has a column family, a timestamp or a type that Hudi does not "
                "write; the file is not one of Hudi's, or damaged",
                offset=position,
            )
        if data[value_end] != 0:
            raise CorruptError("an HFile entry has a transaction number", offset=value_end)
        keys.append(data[position + header_bytes : row_end])
        spans.append((value_start, value_end))
        position = value_end + 1
    limits.check("records_per_block_max", len(keys))
    if any(later < earlier for earlier, later in pairwise(keys)):
        raise CorruptError("the keys of an HFile block are not in order")
    return HFileEntries(keys, memoryview(data), spans)


def encode_entry(key: bytes, value: Buffer) -> bytes:
    """Return an entry.

    Raises:
        ValueError: the key is longer than 32,767 bytes, which HFiles cannot hold.
    """
    if len(key) > _ROW_BYTES_MAX:
        raise ValueError(
            f"a key of {len(key)} bytes; the longest key in an HFile has {_ROW_BYTES_MAX}"
        )
    size = len(memoryview(value))
    header = _LENGTHS.pack(len(key) + _KEY_OVERHEAD_BYTES, size, len(key))
    return b"".join((header, key, _SUFFIX, value, _VERSION))
