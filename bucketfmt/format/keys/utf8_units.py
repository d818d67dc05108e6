"""UTF-8 as UTF-16 code units, with no character decoded.

Pure. The bits of a code unit lie in one to three bytes of UTF-8. Each byte is worth its own bits,
shifted to where they are in the unit, so that the bytes of a unit add up to it. All is arithmetic
on whole arrays of few bits, since choosing by a mask costs a wrong branch wherever scripts change.
Source: the Unicode standard, tables 3-5 to 3-7.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bucketfmt.errors import CorruptError

__all__ = ["find_units", "is_of_many_scripts"]

_Bytes = npt.NDArray[np.uint8]
_Flags = npt.NDArray[np.bool_]

# First bytes after which not every continuation byte may follow: the least and the largest.
_SECOND_BYTES = ((0xE0, 0xA0, 0xBF), (0xED, 0x80, 0x9F), (0xF0, 0x90, 0xBF), (0xF4, 0x80, 0x8F))
_LAST_FIRST_BYTE = 0xF4

_SAMPLE_BYTES = 1 << 10


def is_of_many_scripts(data: _Bytes) -> bool:
    """Return whether of a sample each fourth character, or more, differs in bytes from the next.

    There a decoder of one character after the other takes wrong branches: the bound is where the
    two ways were measured to take about as long.
    """
    lengths = np.diff(np.flatnonzero((data[:_SAMPLE_BYTES] & 0xC0) != 0x80))
    changes = int(np.count_nonzero(lengths[1:] != lengths[:-1]))
    return 4 * changes >= len(lengths) > 0


def find_units(
    data: _Bytes, starts: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint16], _Flags]:
    """Return what each byte is worth in its code unit, and whether it begins one.

    A character of four bytes is a surrogate pair; its third byte begins the second surrogate.

    Args:
        data: One or more rows of UTF-8, one behind the other.
        starts: Where the rows begin.

    Raises:
        CorruptError: a row is not UTF-8.
    """
    continues = (data & 0xC0) == 0x80
    if continues[starts].any():
        raise CorruptError("a value of a string column begins within a UTF-8 character")
    if not _is_utf8(data, continues):
        raise CorruptError("a string column holds bytes that are not UTF-8")
    begins = ~continues
    behind = continues[1:].view(np.uint8)  # 1 where one more byte of the character follows
    shifts = np.zeros(len(data), np.uint8)
    shifts[:-1] = behind
    shifts[:-2] += behind[:-1] & behind[1:]
    shifts *= np.uint8(6)
    bits = data & (np.uint8(0x3F) + (data < 0x80) * np.uint8(0x40))
    pairs = data[:-3] >= 0xF0
    if not pairs.any():
        return np.left_shift(bits, shifts, dtype=np.uint16), begins

    # The first surrogate has the first two bytes and the upper bits of the third. Beside the marks
    # of surrogates, it lacks 0x40 (characters of pairs count from 0x10000), and 0x3000 are bits of
    # the first byte that mark it as the first of four.
    shifts[:-3] -= pairs * np.uint8(12 - 8)
    shifts[1:-2] -= pairs * np.uint8(12 - 2)
    begins[2:-1] |= pairs
    worth = np.left_shift(bits, shifts, dtype=np.uint16)
    first, second, third = worth[:-3], worth[1:-2], worth[2:-1]
    of_pairs = pairs.astype(np.uint16)
    upper = (third >> 10) * of_pairs
    first += of_pairs * np.uint16(0xD800 - 0x40 - 0x3000)
    second += upper
    third += of_pairs * np.uint16(0xDC00)
    third -= upper << 10
    return worth, begins


def _is_utf8(data: _Bytes, continues: _Flags) -> bool:
    """Return whether the bytes are UTF-8; `continues` marks those that are no first bytes."""
    size = len(data)
    wanted = np.zeros(size + 3, np.bool_)
    for distance, least in enumerate((0xC0, 0xE0, 0xF0), 1):
        wanted[distance : size + distance] |= data >= least
    if wanted[size:].any() or not np.array_equal(wanted[:size], continues):
        return False
    if data.max() > _LAST_FIRST_BYTE or ((data & 0xFE) == 0xC0).any():
        return False
    for first, least, largest in _SECOND_BYTES:
        is_first = data[:-1] == first
        if is_first.any():
            is_first &= (data[1:] < least) | (data[1:] > largest)
            if is_first.any():
                return False
    return True
