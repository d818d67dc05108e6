"""RECORD_POSITIONS: the rows of the base file that the records of a log block update.

Pure. Source: LogReaderUtils, HoodieLogBlock.addRecordPositionsIfRequired. Base64 of a 64-bit
Roaring bitmap in the portable layout (`Roaring64NavigableMap.serializePortable`, which is also
CRoaring's): u64 number of groups, then per group u32 high bits and a 32-bit Roaring bitmap, all
little-endian. Records in the block are sorted by position: the i-th position is the i-th record.
"""

from __future__ import annotations

from base64 import b64decode, b64encode

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from bucketfmt.errors import CorruptError, LimitError
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = ["decode_record_positions", "encode_record_positions"]


def decode_record_positions(text: str, limits: Limits = DEFAULT_LIMITS) -> NDArray[np.uint64]:
    """Return the positions, ascending: 0-based ordinals of rows in the base file.

    Raises:
        CorruptError: the text is not such a bitmap.
        LimitError: there are more positions than `limits.record_positions_max`.
    """
    try:
        data = b64decode(text, validate=True)
        bitmap = BitMap64.deserialize(data)
        sound = len(bitmap.serialize()) == len(data)
    except MemoryError as error:
        raise LimitError.of_memory("RECORD_POSITIONS", error) from error
    except (ValueError, IndexError, TypeError, OverflowError) as error:
        raise CorruptError("RECORD_POSITIONS is not the base64 text of a Roaring bitmap") from error
    if not sound:
        raise CorruptError("RECORD_POSITIONS has bytes after the bitmap")
    count = limits.check("record_positions_max", len(bitmap))
    return np.fromiter(bitmap, np.uint64, count)


def encode_record_positions(positions: NDArray[np.unsignedinteger]) -> str:
    """Return the header value for these positions, in any order.

    Raises:
        ValueError: two positions are the same (Hudi then leaves the header out).
    """
    bitmap = BitMap64(positions.tolist())
    if len(bitmap) != len(positions):
        raise ValueError("two records have the same position")
    bitmap.run_optimize()
    return b64encode(bitmap.serialize()).decode()
