"""Lock-step reads: one cursor per value, one numpy pass per encoding.

Avro rows have no fixed width, so no column can be sliced out. But the rows can be walked side
by side: `cursor[i]` is where value i begins, and each read returns the values of all rows at once
with the cursors moved behind them. Pure: no I/O.

Untrusted bytes cannot lead out of a span: a `Span` is padded on both sides, single bytes are read
with clipped indexes, wider reads first compare the furthest cursor with the end, and every jump in
the data is checked to go forward and to stay inside. So cursors only grow, nothing outside is read,
and a row that leaves its bounds cannot end where its length says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import CorruptError, TruncatedError

__all__ = ["Cursor", "Span"]

Cursor = npt.NDArray[np.int64]

_FRONT, _BACK = 32, 32  # bytes of padding: a decimal is read backwards, eight bytes at a time

_CONTINUED = np.uint64(0x8080808080808080)
_ONES = np.uint64(0x0101010101010101)
_UTF8_CONTINUATION = -0x40  # as int8, the bytes 0x80..0xBF are those below this


class Span:
    """The bytes that one lock step reads. Positions count from the start of the padding.

    `start` is the position of the first byte, `stop` the position after the last byte.
    """

    __slots__ = ("_buffer", "_bytes", "_even", "_words", "start", "stop", "view")

    def __init__(self, capacity: int) -> None:
        padded = np.zeros(_FRONT + capacity + _BACK, np.uint8)
        self.start = self.stop = _FRONT
        self.view = padded.data
        self._bytes = padded
        self._buffer = pa.py_buffer(padded)
        words: npt.NDArray[np.uint64] = np.ndarray(len(padded) - 7, "<u8", padded, 0, (1,))
        self._words = words  # one at every byte
        self._even = np.arange(0, dtype=np.uint32)

    def refilled(self, parts: Sequence[npt.NDArray[np.uint8]]) -> Span:
        """Return a span of `parts` one after the other; this span is reused if its memory suffices.

        Arrays that were decoded before hold copies and stay valid.
        """
        size = sum(map(len, parts))
        span = self if size <= len(self._bytes) - _FRONT - _BACK else Span(size)
        span.stop = span.start + size
        np.concatenate(parts, out=span._bytes[span.start : span.stop])
        return span

    def bytes_at(self, cursor: Cursor) -> npt.NDArray[np.uint8]:
        """Return the byte at each cursor; past the end, any byte."""
        return self._bytes.take(cursor, mode="clip")

    def words_at(self, cursor: Cursor) -> npt.NDArray[np.uint64]:
        """Return the eight bytes from each cursor on as little-endian integers.

        Raises:
            TruncatedError: a cursor is past the end.
        """
        if cursor.size and cursor.max() > self.stop:
            self.fail(cursor > self.stop, cursor, "a value begins behind the last byte")
        words: npt.NDArray[np.uint64] = self._words[cursor]
        return words

    def varints_at(self, cursor: Cursor) -> tuple[npt.NDArray[np.int64], Cursor]:
        """Return the zigzag varints at the cursors, and the cursors after them.

        Raises:
            CorruptError: a varint is longer than 64 bits.
        """
        first = self.bytes_at(cursor)
        if not first.size or first.max() < 0x80:
            return ((first >> 1) ^ -(first & 1)).view(np.int8).astype(np.int64), cursor + 1
        words = self.words_at(cursor)
        ends = ~words & _CONTINUED
        kept = ends ^ (ends - np.uint64(1))  # all bits up to the first byte that ends a varint
        size = ((kept & _ONES) * _ONES) >> np.uint64(56)
        raw = _join_sevens(words & kept)
        long = np.flatnonzero(ends == 0)
        if long.size:
            raw[long], size[long] = self._long_varints(raw[long], cursor[long])
        value = (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64)
        return value, cursor + size.view(np.int64)

    def _long_varints(
        self, low: npt.NDArray[np.uint64], cursor: Cursor
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Return values and sizes of varints of more than eight bytes."""
        tail = self.words_at(np.minimum(cursor + 8, self.stop))
        ninth, tenth = tail & np.uint64(0xFF), (tail >> np.uint64(8)) & np.uint64(0xFF)
        ends = ninth < 0x80
        tenth[ends] = 0
        if (tenth > 1).any():
            self.fail(tenth > 1, cursor, "a varint is longer than 64 bits")
        low |= ((ninth & np.uint64(0x7F)) << np.uint64(56)) | (tenth << np.uint64(63))
        return low, np.where(ends, np.uint64(9), np.uint64(10))

    def varint_at(self, position: int) -> tuple[int, int]:
        """Return the zigzag varint at `position`, and the position after it.

        Raises:
            CorruptError: the varint is longer than 64 bits or runs past the end.
        """
        raw, shift = 0, 0
        for end in range(position, min(position + 10, self.stop)):
            byte = self.view[end]
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                if raw >> 64:
                    break
                return (raw >> 1) ^ -(raw & 1), end + 1
            shift += 7
        raise CorruptError("a varint is longer than 64 bits", offset=position)

    def lengths_at(self, cursor: Cursor) -> tuple[Cursor, Cursor]:
        """Return where each length-prefixed value begins and ends.

        Raises:
            CorruptError: a length is negative or leads past the end.
        """
        length, begin = self.varints_at(cursor)
        unsigned = length.view(np.uint64)  # negative lengths are the largest
        if length.size and unsigned.max() > self.stop:
            self.fail(unsigned > self.stop, cursor, "a length is negative or leads out of the row")
        return begin, begin + length

    def gather(self, begin: Cursor, end: Cursor) -> pa.Array:
        """Return a binary array of copies of the bytes from each `begin` to its `end`.

        The values must be in ascending order, as the values of ascending rows are. Arrow then
        copies the values in one pass: from an array in which wanted bytes and the gaps after them
        alternate, the even values are taken.

        Raises:
            CorruptError: values overlap, so a row runs into the next row.
        """
        count = len(begin)
        if count and end[-1] > self.stop:
            self.fail(end > self.stop, begin, "a value runs past the last byte")
        if (end[:-1] > begin[1:]).any():
            self.fail(end[:-1] > begin[1:], begin, "a value runs into the next row")
        offsets = np.empty(2 * count + 1, np.int32)
        offsets[:-1:2] = begin
        offsets[1::2] = end
        offsets[-1] = offsets[-2] if count else 0
        alternate = pa.BinaryArray.from_buffers(
            pa.binary(), 2 * count, [None, pa.py_buffer(offsets), self._buffer]
        )
        if len(self._even) < count:
            self._even = np.arange(0, 2 * count, 2, dtype=np.uint32)
        return pc.take(alternate, pa.array(self._even[:count]), boundscheck=False)

    def gather_texts(self, begin: Cursor, end: Cursor) -> pa.Array:
        """Return a string array of copies of the bytes from each `begin` to its `end`.

        Raises:
            CorruptError: values overlap, or a value is not UTF-8.
        """
        values = self.gather(begin, end)
        _, offsets, data = values.buffers()
        size = int((end - begin).sum())
        if size and np.frombuffer(data, np.int8, size).min() < 0:
            # All texts as one must be UTF-8, and none may begin inside a character.
            inside = (self._bytes.take(begin).view(np.int8) < _UTF8_CONTINUATION) & (end > begin)
            if inside.any():
                self.fail(inside, begin, "a text is not UTF-8")
            ends = pa.py_buffer(np.array([0, size], np.int32))
            try:
                pa.StringArray.from_buffers(1, ends, data).validate(full=True)
            except pa.ArrowInvalid as error:
                broken = (i for i, text in enumerate(values) if not _is_utf8(text.as_py()))
                offset = int(begin[next(broken, 0)])
                raise CorruptError("a text is not UTF-8", offset=offset) from error
        return pa.StringArray.from_buffers(len(values), offsets, data)

    def fail(self, wrong: npt.NDArray[np.bool_], cursor: Cursor, message: str) -> NoReturn:
        """Raise `CorruptError` at the first cursor that is `wrong`."""
        position = int(cursor[int(wrong.argmax())])
        kind = TruncatedError if position >= self.stop else CorruptError
        raise kind(message, offset=position)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _join_sevens(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the low seven bits of each of the eight bytes, joined to 56 bits."""
    for step, mask in enumerate((0x007F007F007F007F, 0x00003FFF00003FFF, 0x000000000FFFFFFF)):
        bits = 8 << step
        low = words & np.uint64(mask)
        high = (words >> np.uint64(1 << step)) & np.uint64(mask << (bits - (1 << step)))
        words = low | high
    return words
