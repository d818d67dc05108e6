"""UTF-8 as UTF-16 code units, with no character decoded.

Pure. The bits of a code unit lie in one to three bytes of UTF-8. Each byte is worth its own bits,
shifted to where they are in the unit, so that the bytes of a unit add up to it. All is arithmetic
on whole arrays of few bits, since choosing by a mask costs a wrong branch wherever scripts change.
The bytes lie in lanes, so that a caller takes running sums and products of thousands at a time:
along the bytes, each would wait for the one before.
Source: the Unicode standard, tables 3-5 to 3-7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from bucketfmt.errors import CorruptError

__all__ = ["Lanes", "find_units", "is_of_many_scripts"]

_Bytes = npt.NDArray[np.uint8]
_Flags = npt.NDArray[np.bool_]
_Offsets = npt.NDArray[np.int64]
_T = TypeVar("_T", bound=np.generic)

_REACH = 3  # the bytes of a character before and behind a byte

# First bytes after which not every continuation byte may follow, and those that may not.
_SECOND_BYTES = (
    (0xE0, np.less, np.uint8(0xA0)),
    (0xED, np.greater, np.uint8(0x9F)),
    (0xF0, np.less, np.uint8(0x90)),
    (0xF4, np.greater, np.uint8(0x8F)),
)
_LAST_FIRST_BYTE = 0xF4

_SAMPLE_BYTES = 1 << 10


@dataclass(frozen=True)
class Lanes:
    """Bytes cut into lanes of one length that lie side by side: what is near a byte is a line away.

    Attributes:
        margined: Line `i` has the byte `i` of every lane; above and below are lines of the bytes
            within reach of those of the first line and of the last. A 0 is behind the last byte.
        count: The number of lanes, and the length of a line.
        depth: The number of bytes of a lane.
    """

    margined: _Bytes
    count: int
    depth: int = 32

    @classmethod
    def of(cls, data: _Bytes) -> Lanes:
        """Return the lanes of any number of bytes."""
        depth = cls.depth
        count = len(data) // depth + 1
        padded = np.zeros(count * depth + 2 * _REACH, np.uint8)
        padded[_REACH : _REACH + len(data)] = data
        lines = np.ndarray((depth + 2 * _REACH, count), np.uint8, padded, strides=(1, depth))
        return cls(lines.ravel(), count)

    def beside(self, margined: npt.NDArray[_T], distance: int) -> npt.NDArray[_T]:
        """Return, for each byte, what lines with margins have for the byte that far behind it."""
        first = (_REACH + distance) * self.count
        return margined[first : first + self.depth * self.count]

    def in_lines(self, values: npt.NDArray[_T]) -> npt.NDArray[_T]:
        """Return values of all bytes as an array of lines."""
        return values.reshape(self.depth, self.count)

    def find(self, places: _Offsets) -> tuple[_Offsets, _Offsets]:
        """Return where values of all bytes have those of the bytes at `places`, and their lanes."""
        lanes = places // self.depth
        return places % self.depth * self.count + lanes, lanes


def is_of_many_scripts(data: _Bytes) -> bool:
    """Return whether of a sample each fourth character, or more, differs in bytes from the next.

    There a decoder of one character after the other takes wrong branches: the bound is where the
    two ways were measured to take about as long.
    """
    lengths = np.diff(np.flatnonzero((data[:_SAMPLE_BYTES] & 0xC0) != 0x80))
    changes = int(np.count_nonzero(lengths[1:] != lengths[:-1]))
    return 4 * changes >= len(lengths) > 0


def find_units(lanes: Lanes) -> tuple[npt.NDArray[np.uint16], _Flags]:
    """Return what each byte is worth in its code unit, and whether it begins one.

    A character of four bytes is a surrogate pair; its third byte begins the second surrogate.

    Raises:
        CorruptError: the bytes are not UTF-8.
    """
    lines, beside = lanes.margined, lanes.beside
    continues = (lines & 0xC0) == 0x80
    data, begins = beside(lines, 0), ~beside(continues, 0)
    pairs = lines >= 0xF0
    if not _is_utf8(lanes, begins, pairs):
        raise CorruptError("a string column holds bytes that are not UTF-8")
    behind = beside(continues, 1)  # one more byte of the character follows
    shifts = behind.view(np.uint8) + (behind & beside(continues, 2))
    shifts *= np.uint8(6)
    bits = data & (np.uint8(0x3F) + (data < 0x80) * np.uint8(0x40))
    if not pairs.any():
        return np.left_shift(bits, shifts, dtype=np.uint16), begins

    # The first surrogate has the first two bytes and the upper bits of the third. Beside the marks
    # of surrogates, it lacks 0x40 (characters of pairs count from 0x10000), and 0x3000 are bits of
    # the first byte that mark it as the first of four.
    first, second, third = (beside(pairs, -before) for before in range(3))
    begins |= third
    shifts -= first * np.uint8(12 - 8)
    shifts -= second * np.uint8(12 - 2)
    bits &= ~(third * np.uint8(0x30))
    worth = np.left_shift(bits, shifts, dtype=np.uint16)
    worth += (beside(lines, 1) >> 4 & 3) * second
    worth += first * np.uint16(0xD800 - 0x40 - 0x3000)
    worth += third * np.uint16(0xDC00)
    return worth, begins


def _is_utf8(lanes: Lanes, begins: _Flags, pairs: _Flags) -> bool:
    """Return whether the bytes are UTF-8.

    Args:
        lanes: The bytes.
        begins: Marks the first bytes of characters.
        pairs: Marks those of four bytes, in lines with margins.
    """
    behind, data, before, before_that = (
        lanes.beside(lanes.margined, distance) for distance in (1, 0, -1, -2)
    )
    wanted = before >= 0xC0
    wanted |= before_that >= 0xE0
    wanted |= lanes.beside(pairs, -3)
    if np.equal(wanted, begins, out=wanted).any():
        return False
    if data.max() > _LAST_FIRST_BYTE or ((data & 0xFE) == 0xC0).any():
        return False
    for first, is_wrong, bound in _SECOND_BYTES:
        is_first = data == first
        if is_first.any():
            is_first &= is_wrong(behind, bound)
            if is_first.any():
                return False
    return True
