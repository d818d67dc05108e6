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

__all__ = [
    "ENTRY_OVERHEAD_BYTES",
    "KEY_OVERHEAD_BYTES",
    "KEY_SUFFIX",
    "ROW_BYTES_MAX",
    "TRANSACTION",
    "HFileEntries",
    "decode_entries",
]

_LENGTHS = struct.Struct(">iih")  # of the key, of the value, of the row
KEY_SUFFIX = b"\x00\x7f\xff\xff\xff\xff\xff\xff\xff\x04"
"""What follows the row in a key: no family, the latest timestamp, a put."""
TRANSACTION = b"\x00"
"""What follows the value: the number of the writing transaction."""
KEY_OVERHEAD_BYTES = 2 + len(KEY_SUFFIX)
"""Bytes of a key besides its row."""
ENTRY_OVERHEAD_BYTES = 8 + KEY_OVERHEAD_BYTES + len(TRANSACTION)
"""Bytes of an entry besides its row and its value."""
ROW_BYTES_MAX = 32_767


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
        value_start = row_end + len(KEY_SUFFIX)
        value_end = value_start + value_bytes
        if row_bytes < 0 or value_bytes < 0 or key_bytes < row_bytes + KEY_OVERHEAD_BYTES:
            raise CorruptError("the lengths of an HFile entry disagree", offset=position)
        if value_end >= end:
            raise TruncatedError("an HFile block ends inside an entry", offset=position)
        if key_bytes != row_bytes + KEY_OVERHEAD_BYTES or data[row_end:value_start] != KEY_SUFFIX:
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
