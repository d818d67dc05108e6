"""How an entry of an HFile is laid out: lengths, row, suffix, value, transaction.

Pure. Source: HFileDataBlock, KeyValue.

    i32 bytes of the key | i32 bytes of the value | i16 bytes of the row
        | row | suffix | value | transaction

The key is the length of the row, the row, and the suffix.
"""

from __future__ import annotations

__all__ = [
    "ENTRY_OVERHEAD_BYTES",
    "KEY_OVERHEAD_BYTES",
    "KEY_SUFFIX",
    "ROW_BYTES_MAX",
    "TRANSACTION",
]

KEY_SUFFIX = b"\x00\x7f\xff\xff\xff\xff\xff\xff\xff\x04"
"""What follows the row in a key: no family, the latest timestamp, a put."""
TRANSACTION = b"\x00"
"""What follows the value: the number of the writing transaction."""
KEY_OVERHEAD_BYTES = 2 + len(KEY_SUFFIX)
"""Bytes of a key besides its row."""
ENTRY_OVERHEAD_BYTES = 8 + KEY_OVERHEAD_BYTES + len(TRANSACTION)
"""Bytes of an entry besides its row and its value."""
ROW_BYTES_MAX = 32_767
