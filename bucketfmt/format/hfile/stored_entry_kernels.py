"""The entries of data blocks, decoded in lock step.

Pure: column kernels of NumPy and Arrow. Where an entry begins is known from the lengths of the
entry before, so that a block is walked; all blocks of a batch are walked together, one entry of
each at a time. Source: KeyValue, HFileDataBlock.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
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

__all__ = [
    "PADDING_BYTES",
    "Scratch",
    "StoredEntries",
    "byte_windows",
    "common_length",
    "common_width",
    "decode_blocks",
    "key_words",
    "value_bounds",
]

_HEADER = np.dtype([("key", ">i4"), ("value", ">i4"), ("row", ">i2")])
_SUFFIX = np.frombuffer(KEY_SUFFIX, np.uint8)
_LENGTHS = struct.Struct(">II")
_SIZES_BYTES = 9  # the two lengths before a key, and the transaction behind a value
PADDING_BYTES = 24
"""Zeros behind blocks: the header and the suffix of the last entry are read whole."""
_LANES_MIN = 16  # fewer blocks are walked one after the other
_STEPS = 32
_STEPS_BYTES = _SIZES_BYTES * np.arange(_STEPS + 1)[:, np.newaxis]
_WORD_BYTES = 8
_BYTES = pa.large_binary()
_BOTH_HALVES, _HALF = np.uint64((1 << 32) + 1), np.uint64(32)  # the sum of two lengths of a word
_LONG = np.uint64(0xFFFF_FF00_FFFF_FF00)  # the bits of two lengths of which one is above 255

_Ints = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]
_Lengths = Callable[[_Ints, int], npt.NDArray[Any]]
"""Returns, of entries by where they begin, the bytes of the key and the value together. Places of
step n are given without the bytes that n entries have besides (`_SIZES_BYTES`)."""


class Scratch:
    """Memory that each batch of blocks is decoded in, so that its pages are faulted in once.

    Not to be used by several threads.
    """

    def __init__(self) -> None:
        self._octets = np.empty(0, np.uint8)

    def octets(self, count: int) -> npt.NDArray[np.uint8]:
        """Return memory, which the next call returns again."""
        if len(self._octets) < count:
            self._octets = np.empty(count + count // 8, np.uint8)  # batches are about as large
        return self._octets[:count]


@dataclass(frozen=True)
class StoredEntries:
    """Entries of some data blocks, in the order of their keys. The lengths of each were checked.

    Attributes:
        content: The blocks, one after the other.
        begins: For each block the number of its first entry; at the end that of all entries.
        key_starts: Where each row begins in `content`: the key of Hudi's record.
        key_ends: Where each row ends.
        value_starts: Where each value begins.
        value_ends: Where each value ends.
    """

    content: bytes
    begins: _Ints
    key_starts: _Ints
    key_ends: _Ints
    value_starts: _Ints
    value_ends: _Ints

    def __len__(self) -> int:
        return len(self.key_starts)

    def key(self, number: int) -> bytes:
        """Return the key of an entry."""
        return self.content[self.key_starts[number] : self.key_ends[number]]

    def edge_keys(self) -> Iterator[tuple[bytes, bytes] | None]:
        """Yield the first key of each block and its last, None of a block without entries."""
        begins, ends = self.begins[:-1], self.begins[1:]
        has_entries = begins < ends
        edges = np.column_stack([begins[has_entries], ends[has_entries] - 1]).ravel()
        bounds = zip(self.key_starts[edges].tolist(), self.key_ends[edges].tolist(), strict=True)
        keys = (self.content[start:end] for start, end in bounds)
        for has_some in has_entries.tolist():
            yield (next(keys), next(keys)) if has_some else None

    def keys(self, numbers: _Ints | slice = slice(None)) -> pa.LargeBinaryArray:
        """Return the keys of some entries, `large_binary`, or of all."""
        return _spans(self.content, self.key_starts[numbers], self.key_ends[numbers])

    def values(self, numbers: _Ints | slice = slice(None)) -> pa.LargeBinaryArray:
        """Return the values of some entries, `large_binary`, or of all.

        Raises:
            UnsupportedError: an entry has a column family, a timestamp or a type that Hudi does not
                write.
            CorruptError: an entry has a transaction number.
        """
        key_ends, starts, ends = (
            places[numbers] for places in (self.key_ends, self.value_starts, self.value_ends)
        )
        suffixes = byte_windows(self.content, f"V{len(KEY_SUFFIX)}")[key_ends]
        is_plain = (suffixes.view(np.uint8).reshape(-1, len(KEY_SUFFIX)) == _SUFFIX).all(axis=1)
        if not is_plain.all():
            raise _unsupported(int(self.key_starts[numbers][is_plain.argmin()]))
        transactions = np.frombuffer(self.content, np.uint8)[ends]
        if transactions.any():
            offset = int(ends[transactions.argmax()])
            raise CorruptError("an HFile entry has a transaction number", offset=offset)
        return _spans(self.content, starts, ends)

    def find(self, sought: pa.LargeBinaryArray) -> tuple[_Ints, _Ints]:
        """Return the entries that have one of some keys.

        Keys are compared eight bytes at a time, from where the first key and the last begin to
        differ. Only keys that agree with a sought one in these bytes are compared whole: with that
        key alone, where no two entries agree in these bytes, and no two sought keys.

        Args:
            sought: `large_binary`, no key twice.

        Returns:
            The numbers of the entries, ascending, and the place of the key of each in `sought`.
        """
        if not len(self) or not len(sought):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        wanted = key_words(sought, self._skip)
        if self._has_distinct_words and (wanted[1:] > wanted[:-1]).all():
            begins = np.searchsorted(self._words, wanted)
            places = np.flatnonzero(self._words.take(begins, mode="clip") == wanted)
            alike = begins[places]
            is_hit = pc.equal(self.keys(alike), sought.take(pa.array(places)))
            is_hit = is_hit.to_numpy(zero_copy_only=False)
            return alike[is_hit], places[is_hit]
        wanted.sort()
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
        if len(self) < 2 or self._has_distinct_words:
            return
        others = np.flatnonzero(self._words[1:] <= self._words[:-1])
        if not pc.all(pc.greater(self.keys(others + 1), self.keys(others))).as_py():
            raise CorruptError("the keys of an HFile are not in order, or a key is there twice")

    @cached_property
    def _skip(self) -> int:
        """How many bytes the first key and the last have in common, and so all between have."""
        return common_length(self.key(0), self.key(len(self) - 1))

    @cached_property
    def _has_distinct_words(self) -> bool:
        """Whether the words alone tell that the keys are in order, and none is there twice."""
        return bool((self._words[1:] > self._words[:-1]).all())

    @cached_property
    def _words(self) -> _Words:
        return _words_at(self.content, self.key_starts + self._skip, self.key_ends)


def decode_blocks(
    data: bytes, sizes: Sequence[int], scratch: Scratch, limits: Limits = DEFAULT_LIMITS
) -> StoredEntries:
    """Return the entries of data blocks that are given in the order of their keys.

    The offset of an error counts from the beginning of the first block, as if the blocks were one.

    Args:
        data: The blocks, one after the other, and `PADDING_BYTES` zeros.
        sizes: How many bytes each block has.
        scratch: For what is not returned.
        limits: Bounds on what is allocated.

    Raises:
        CorruptError: a block is not made of entries, or keys are not in order or are there twice.
        TruncatedError: a block ends inside an entry.
        UnsupportedError: the key of an entry has more parts than Hudi writes.
        LimitError: a block has more entries than `records_per_block_max`.
    """
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    starts, key_bytes, value_bytes, row_bytes = _find_entries(data, bounds, scratch)
    begins = np.searchsorted(starts, bounds)
    limits.check("records_per_block_max", int(np.diff(begins).max(initial=0)))
    own_bytes = key_bytes - KEY_OVERHEAD_BYTES
    is_plain = own_bytes == row_bytes
    if not is_plain.all() or min(row_bytes.min(initial=0), value_bytes.min(initial=0)) < 0:
        lengths_fit = (row_bytes >= 0) & (value_bytes >= 0) & (own_bytes >= row_bytes)
        if not lengths_fit.all():
            number = int(lengths_fit.argmin())
            raise CorruptError("the lengths of an HFile entry disagree", offset=int(starts[number]))
        raise _unsupported(int(starts[is_plain.argmin()]))
    key_starts = starts + _HEADER.itemsize
    key_ends = key_starts + row_bytes
    value_starts = key_ends + len(KEY_SUFFIX)
    entries = StoredEntries(
        data, begins, key_starts, key_ends, value_starts, value_starts + value_bytes
    )
    entries.check_order()
    return entries


def common_length(first: bytes, last: bytes) -> int:
    """Return how many bytes two keys begin with in common."""
    differ = (at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return next(differ, min(len(first), len(last)))


def common_width(column: pa.LargeBinaryArray) -> int | None:
    """Return the length that all values have; None: the lengths differ, or there is no value."""
    if not len(column):
        return None
    widths = np.diff(value_bounds(column))
    return int(widths[0]) if (widths == widths[0]).all() else None


def key_words(keys: pa.LargeBinaryArray, skip: int) -> _Words:
    """Return eight bytes of each key, from byte `skip` on, as numbers that sort as the bytes do.

    A key that ends earlier is continued by zeros.
    """
    if not len(keys):
        return np.empty(0, np.uint64)
    bounds, data, width = value_bounds(keys), keys.buffers()[2], common_width(keys)
    if width is not None and skip + _WORD_BYTES <= width:
        words: _Words = np.ndarray((len(keys),), ">u8", data, bounds[0] + skip, (width,))
        return words.astype(np.uint64)
    own = memoryview(b"" if data is None else data)[: bounds[-1]]
    starts, ends = bounds[:-1] + skip, bounds[1:]
    # a word that begins in the last bytes is read from a copy of them, which zeros follow
    last = int(starts.searchsorted(len(own) - _WORD_BYTES, "right"))
    base = int(bounds[last])
    tail = b"".join([own[base:], bytes(PADDING_BYTES)])
    words = np.empty(len(keys), np.uint64)
    if last:
        words[:last] = _words_at(own, starts[:last], ends[:last])
    words[last:] = _words_at(tail, starts[last:] - base, ends[last:] - base)
    return words


def value_bounds(column: pa.LargeBinaryArray) -> _Ints:
    """Return where the values of a column begin in its bytes, and where the last value ends."""
    bounds: _Ints = np.frombuffer(column.buffers()[1], np.int64)
    return bounds[column.offset : column.offset + len(column) + 1]


def _words_at(data: Buffer, starts: _Ints, ends: _Ints) -> _Words:
    left = ends - starts  # of each key
    if left.min(initial=_WORD_BYTES) < 0:
        starts = np.minimum(starts, ends)
    words = byte_windows(data, "<u8")[starts]
    words.byteswap(inplace=True)
    if left.min(initial=_WORD_BYTES) < _WORD_BYTES:
        bits = 8 * (_WORD_BYTES - left).clip(0, _WORD_BYTES).astype(np.uint64)
        words = words >> bits << bits  # NumPy shifts by all 64 bits to 0
    return words


def _unsupported(offset: int) -> UnsupportedError:
    return UnsupportedError(
        "an HFile entry has a column family, a timestamp or a type that Hudi does not write; the "
        "file is not one of Hudi's, or damaged",
        offset=offset,
    )


def _find_entries(
    data: bytes, bounds: _Ints, scratch: Scratch
) -> tuple[_Ints, _Ints, _Ints, _Ints]:
    """Return where entries begin, and how many bytes the key, the value and the row of each have.

    Raises:
        TruncatedError: a block ends inside an entry.
    """
    for lengths in _lengths_to_try(data, bounds, scratch):
        starts = _walk(data, bounds, lengths)
        header = byte_windows(data, f"V{_HEADER.itemsize}")[starts].view(_HEADER)
        key_bytes, value_bytes, row_bytes = (
            header[name].astype(np.int64) for name in ("key", "value", "row")
        )
        nexts = starts + key_bytes
        nexts += value_bytes
        nexts += _SIZES_BYTES
        # the walk trusted the lengths: a wrong length shows in where the next entry begins
        is_next = nexts == np.append(starts[1:], bounds[-1:])[: len(starts)]
        if is_next.all():
            return starts, key_bytes, value_bytes, row_bytes
    offset = int(starts[is_next.argmin()])
    raise TruncatedError("an HFile block ends inside an entry", offset=offset)


def _lengths_to_try(data: bytes, bounds: _Ints, scratch: Scratch) -> Iterator[_Lengths]:
    """Yield what tells the lengths of entries: fast for short ones, if blocks begin with such."""
    words = byte_windows(data, ">u8")
    begins = bounds[:-1][np.diff(bounds) > 0]
    if len(begins) >= _LANES_MIN and not (words[begins] & _LONG).any():
        octets = np.frombuffer(data, np.uint8)
        # Of an entry that begins at each byte, if both lengths and their sum are below 256.
        sums = np.add(octets[3:-4], octets[7:], out=scratch.octets(len(octets) - 7))
        ahead = [sums[min(_SIZES_BYTES * step, len(sums) - 1) :] for step in range(_STEPS)]
        yield lambda places, step: ahead[step].take(places, mode="clip")
    windows, last = byte_windows(data, "<u8"), len(data) - _LENGTHS.size

    def whole(places: _Ints, step: int) -> npt.NDArray[Any]:
        lengths = windows[np.minimum(places + _SIZES_BYTES * step, last)]
        lengths.byteswap(inplace=True)
        lengths *= _BOTH_HALVES
        lengths >>= _HALF
        return lengths.view(np.int64)

    yield whole


def _walk(data: bytes, bounds: _Ints, lengths: _Lengths) -> _Ints:
    """Return where entries begin. Past the end of a block no entry is taken, nor byte read."""
    places, ends = bounds[:-1], bounds[1:]
    lanes = np.arange(len(places), dtype=np.min_scalar_type(len(places)))
    found, of_lane = [np.empty(0, np.int64)], [lanes[:0]]
    while True:
        going = places < ends
        places, ends, lanes = places[going], ends[going], lanes[going]
        if len(places) < _LANES_MIN:
            break
        steps = np.empty((_STEPS + 1, len(places)), np.int64)
        steps[0] = places
        for step, (places, following) in enumerate(pairwise(steps)):
            np.add(places, lengths(places, step), out=following)
        steps += _STEPS_BYTES
        places, steps = steps[-1], steps[:-1]
        is_within = steps < ends
        found.append(steps[is_within])
        of_lane.append(np.broadcast_to(lanes, steps.shape)[is_within])
    for lane, (start, end) in enumerate(zip(places.tolist(), ends.tolist(), strict=True)):
        found.append(np.array(_walk_block(data, start, end), np.int64))
        of_lane.append(lanes[lane].repeat(len(found[-1])))
    # The entries of a lane ascend. NumPy sorts numbers of 16 bits by counting them.
    return np.concatenate(found).take(np.argsort(np.concatenate(of_lane), kind="stable"))


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
