"""The entries of data blocks, decoded in lock step.

Pure: column kernels of NumPy and Arrow. Where an entry begins is known from the lengths of the
entry before, so that a block is walked; all blocks of a batch are walked together, one entry of
each at a time. Source: KeyValue, HFileDataBlock.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import CorruptError, TruncatedError, UnsupportedError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.hfile.entries import KEY_OVERHEAD_BYTES, KEY_SUFFIX
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.process import cached_property

__all__ = ["StoredEntries", "byte_windows", "common_length", "decode_blocks", "key_words"]

_HEADER = np.dtype([("key", ">i4"), ("value", ">i4"), ("row", ">i2")])
_SUFFIX = np.frombuffer(KEY_SUFFIX, np.uint8)
_LENGTHS = struct.Struct(">II")
_SIZES_BYTES = 9  # the two lengths before a key, and the transaction behind a value
_LANES_MIN = 16  # fewer blocks are walked one after the other
_STEPS = 32
_PAD = bytes(24 + _STEPS * _SIZES_BYTES)  # what the last entry, and a walk past it, may read
_WORD_BYTES = 8
_BYTES = pa.large_binary()
_BOTH_HALVES, _HALF = np.uint64((1 << 32) + 1), np.uint64(32)  # the sum of two lengths of a word
_SIZES_WORD = np.uint64(_SIZES_BYTES)

_Ints = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class StoredEntries:
    """Entries of some data blocks, in the order of their keys.

    The lengths of an entry are compared with one another when its key or its value is asked for.

    Attributes:
        content: The blocks, one after the other, and zeros behind them.
        begins: For each block the number of its first entry; at the end that of all entries.
        starts: Where each entry begins in `content`.
        offset: Where the blocks begin in the file, which errors say.
    """

    content: bytes
    begins: _Ints
    starts: _Ints
    offset: int

    def __len__(self) -> int:
        return len(self.starts)

    def keys(self, numbers: _Ints | slice = slice(None)) -> pa.LargeBinaryArray:
        """Return the keys of some entries, `large_binary`, or of all.

        Args:
            numbers: Of the entries, ascending.

        Raises:
            CorruptError: the lengths of an entry disagree.
            UnsupportedError: the key of an entry has more parts than Hudi writes.
        """
        starts, ends, _ = self._places(numbers)
        return _spans(self.content, starts, ends)

    def values(self, numbers: _Ints | slice = slice(None)) -> pa.LargeBinaryArray:
        """Return the values of some entries, `large_binary`, or of all.

        Args:
            numbers: Of the entries, ascending.

        Raises:
            CorruptError: the lengths of an entry disagree, or it has a transaction number.
            UnsupportedError: an entry has a column family, a timestamp or a type that Hudi does not
                write.
        """
        _, key_ends, ends = self._places(numbers)
        suffixes = byte_windows(self.content, f"V{len(KEY_SUFFIX)}")[key_ends]
        is_plain = (suffixes.view(np.uint8).reshape(-1, len(KEY_SUFFIX)) == _SUFFIX).all(axis=1)
        if not is_plain.all():
            raise self._unsupported()
        if np.frombuffer(self.content, np.uint8)[ends].any():
            raise CorruptError("an HFile entry has a transaction number", offset=self.offset)
        return _spans(self.content, key_ends + len(KEY_SUFFIX), ends)

    def _places(self, numbers: _Ints | slice) -> tuple[_Ints, _Ints, _Ints]:
        """Return where the keys of entries begin, where they end, and where the values end."""
        starts = self.starts[numbers]
        header = byte_windows(self.content, f"V{_HEADER.itemsize}")[starts].view(_HEADER)
        key_bytes, value_bytes, row_bytes = (
            header[name].astype(np.int64) for name in ("key", "value", "row")
        )
        own_bytes = key_bytes - KEY_OVERHEAD_BYTES
        if not ((row_bytes >= 0) & (value_bytes >= 0) & (own_bytes >= row_bytes)).all():
            raise CorruptError("the lengths of an HFile entry disagree", offset=self.offset)
        if not (own_bytes == row_bytes).all():
            raise self._unsupported()
        key_starts = starts + _HEADER.itemsize
        key_ends = key_starts + row_bytes
        return key_starts, key_ends, key_ends + (value_bytes + len(KEY_SUFFIX))

    def find(self, sought: pa.LargeBinaryArray) -> tuple[_Ints, _Ints]:
        """Return the entries that have one of some keys.

        Keys are compared eight bytes at a time, from where the first key and the last begin to
        differ. Only keys that agree with a sought one in these bytes are compared whole.

        Args:
            sought: `large_binary`, no key twice.

        Returns:
            The numbers of the entries, ascending, and the place of the key of each in `sought`.
        """
        if not len(self) or not len(sought):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        wanted = np.sort(key_words(sought, self._skip))
        wanted = wanted[np.diff(wanted, prepend=~wanted[:1]) != 0]
        begins = np.searchsorted(self._words, wanted)
        counts = np.searchsorted(self._words, wanted, "right") - begins
        firsts = np.repeat(begins - np.cumsum(counts) + counts, counts)
        alike = firsts + np.arange(len(firsts))
        places = pc.index_in(self.keys(alike), value_set=sought)
        is_hit = places.is_valid().to_numpy(zero_copy_only=False)
        return alike[is_hit], places.drop_null().to_numpy().astype(np.int64)

    def check_order(self) -> None:
        """Raise CorruptError: the keys are not in order, or a key is there twice."""
        if len(self) < 2:
            return
        ascend = self._words[1:] > self._words[:-1]
        if ascend.all():
            return
        others = np.flatnonzero(~ascend)
        if not pc.all(pc.greater(self.keys(others + 1), self.keys(others))).as_py():
            raise CorruptError(
                "the keys of an HFile are not in order, or a key is there twice", offset=self.offset
            )

    @cached_property
    def _skip(self) -> int:
        """How many bytes the first key and the last have in common, and so all between have."""
        return common_length(*self.keys(np.array([0, len(self) - 1])).to_pylist())

    @cached_property
    def _words(self) -> _Words:
        row_bytes = byte_windows(self.content, "<i2")[self.starts + _LENGTHS.size]
        left = row_bytes.byteswap().astype(np.int64) - self._skip
        return _words_at(self.content, self.starts + (_HEADER.itemsize + self._skip), left)

    def _unsupported(self) -> UnsupportedError:
        return UnsupportedError(
            "an HFile entry has a column family, a timestamp or a type that Hudi does not write; "
            "the file is not one of Hudi's, or damaged",
            offset=self.offset,
        )


def decode_blocks(
    contents: Sequence[Buffer], offset: int = 0, limits: Limits = DEFAULT_LIMITS
) -> StoredEntries:
    """Return the entries of data blocks.

    Args:
        contents: The blocks, in the order of their keys.
        offset: Where the first of them begins in the file, which errors say.
        limits: Bounds on what is allocated.

    Raises:
        CorruptError: keys are not in order or are there twice, or the first or the last entry is
            damaged.
        TruncatedError: a block ends inside an entry.
        UnsupportedError: the key of the first or the last entry has more parts than Hudi writes.
        LimitError: a block has more entries than `records_per_block_max`.
    """
    sizes = [len(memoryview(content)) for content in contents]
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    data = b"".join([*contents, _PAD])
    starts = _walk(data, bounds)
    begins = np.searchsorted(starts, bounds)
    limits.check("records_per_block_max", int(np.diff(begins).max(initial=0)))
    filled = np.flatnonzero(np.diff(begins))
    lasts = starts[begins[filled + 1] - 1]
    if not (_following(byte_windows(data, "<u8"), lasts) == bounds[filled + 1]).all():
        raise TruncatedError("an HFile block ends inside an entry", offset=offset)
    entries = StoredEntries(data, begins, starts, offset)
    entries.check_order()
    return entries


def common_length(first: bytes, last: bytes) -> int:
    """Return how many bytes two keys begin with in common."""
    differ = (at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return next(differ, min(len(first), len(last)))


def key_words(keys: pa.LargeBinaryArray, skip: int) -> _Words:
    """Return eight bytes of each key, from byte `skip` on, as numbers that sort as the bytes do.

    A key that ends earlier is continued by zeros.
    """
    if not len(keys):
        return np.empty(0, np.uint64)
    _, offsets, data = keys.buffers()
    bounds = np.frombuffer(offsets, np.int64)[keys.offset : keys.offset + len(keys) + 1]
    first = int(bounds[0])
    own = b"" if data is None else memoryview(data)[first : bounds[-1]]
    places = np.minimum(bounds[:-1] + skip, bounds[1:]) - first
    return _words_at(b"".join([own, _PAD]), places, np.diff(bounds) - skip)


def _words_at(data: bytes, places: _Ints, left: _Ints) -> _Words:
    """Return the eight bytes at each place; zeros for those past the bytes that are left."""
    words = byte_windows(data, "<u8")[places]
    words.byteswap(inplace=True)
    if (left < _WORD_BYTES).any():
        bits = (8 * (_WORD_BYTES - left).clip(0, _WORD_BYTES)).astype(np.uint64)
        words = words >> bits << bits  # NumPy shifts by all 64 bits to 0
    return words


def _walk(data: bytes, bounds: _Ints) -> _Ints:
    """Return where entries begin, by the lengths that entries state.

    All blocks are walked together. A walk that has come to the end of its block goes on in the
    following block until the others have made as many steps; what it finds there is left out.
    """
    places, ends = bounds[:-1], bounds[1:]
    found = [np.empty(0, np.int64)]
    windows = byte_windows(data, "<u8")
    while True:
        going = places < ends
        places, ends = places[going], ends[going]
        if len(places) < _LANES_MIN:
            break
        steps = np.empty((_STEPS + 1, len(places)), np.int64)
        steps[0] = places
        try:
            for place, following in pairwise(steps):
                following[:] = _following(windows, place)
        except IndexError:  # a damaged length leads out of the data
            break
        found.append(steps[:-1][steps[:-1] < ends])
        places = steps[-1]
    for start, end in zip(places.tolist(), ends.tolist(), strict=True):
        found.append(np.array(_walk_block(data, start, end), np.int64))
    starts = np.concatenate(found)
    starts.sort()
    return starts


def _following(windows: _Words, places: _Ints) -> _Ints:
    """Return where the entry begins that follows the entry at each place."""
    lengths = windows[places]
    lengths.byteswap(inplace=True)
    lengths *= _BOTH_HALVES
    lengths >>= _HALF
    lengths += _SIZES_WORD
    following: _Ints = places + lengths.view(np.int64)
    return following


def _walk_block(data: bytes, place: int, end: int) -> list[int]:
    starts, unpack = [], _LENGTHS.unpack_from
    while place < end:
        starts.append(place)
        key_bytes, value_bytes = unpack(data, place)
        place += _SIZES_BYTES + key_bytes + value_bytes
    return starts


def byte_windows(data: Buffer, kind: str) -> npt.NDArray[Any]:
    """Return every run of bytes of the size of a type, by where the run begins."""
    count = len(memoryview(data)) - np.dtype(kind).itemsize + 1
    windows: npt.NDArray[Any] = np.ndarray((count,), kind, data, 0, (1,))
    return windows


def _spans(data: bytes, starts: _Ints, ends: _Ints) -> pa.LargeBinaryArray:
    """Return some spans of `data` that follow each other, as a column.

    The spans and what is between them are the rows of a column that has no bytes of its own; every
    other row is taken from it.
    """
    count = len(starts)
    offsets = np.empty(2 * count + 1, np.int64)
    offsets[0:-1:2], offsets[1::2] = starts, ends
    offsets[-1] = ends[-1] if count else 0
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    column = pa.LargeBinaryArray.from_buffers(_BYTES, 2 * count, buffers)
    return column.take(pa.array(np.arange(0, 2 * count, 2)))
