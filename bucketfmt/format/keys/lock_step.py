"""xxHash32, XXH64 and Hudi's Murmur over many rows of bytes at once, in plain NumPy.

Pure. Rows are given as one byte buffer and rows + 1 offsets. All rows of a block advance
together, one stripe of bytes a step, so that each line of a hash's definition becomes a few
NumPy calls for thousands of rows. Rows are ordered by length first: those that still have a
stripe left are then always the first ones. Time is linear in the bytes.
Semantics: `hashing`, which has the same functions for one value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bucketfmt.format.keys.hashing import MURMUR2_MULTIPLIER, XXHASH32_PRIMES, XXHASH64_PRIMES

__all__ = ["murmur2_hudi_rounds", "row_spans", "xxhash32_rows", "xxhash64_rows"]

_Bytes = npt.NDArray[np.uint8]
_Offsets = npt.NDArray[np.int64]
_U32s = npt.NDArray[np.uint32]
_U64s = npt.NDArray[np.uint64]
_Words = npt.NDArray[Any]  # uint32 or uint64

_BLOCK_ROWS = 1 << 14
_FEW_ROWS = 8  # are sooner hashed one after the other, in Python
_MURMUR_ROWS = 1 << 15  # of keys of 36 bytes, all arrays of a round fit a cache of a megabyte
_BLOCK_BYTES = 1 << 24
_M32 = 0xFFFFFFFF
_M64 = 0xFFFFFFFFFFFFFFFF


def xxhash32_rows(data: _Bytes, offsets: _Offsets) -> _U32s:
    """Return the unsigned xxHash32 of every row, seed 0."""
    p1, p2, p3, p4, p5 = (np.uint32(prime) for prime in XXHASH32_PRIMES)
    first_lanes = [int(p1) + int(p2) & _M32, int(p2), 0, -int(p1) & _M32]

    def kernel(block: _Block) -> _U32s:
        lanes = np.tile(np.array(first_lanes, np.uint32), (len(block), 1))
        for words in block.whole_stripes("<u4"):
            active = lanes[: len(words)]
            active += words * p2
            active[:] = _rotl(active, 13)
            active *= p1
        value = _rotl(lanes[:, 0], 1)
        for lane, turn in ((1, 7), (2, 12), (3, 18)):
            value += _rotl(lanes[:, lane], turn)
        value = np.where(block.stripes > 0, value, p5) + block.lengths.astype(np.uint32)
        words, left = block.last_stripe("<u4")
        for index in range(left.max() // 4):
            step = _rotl(value + words[:, index] * p3, 17) * p4
            value = np.where(left >= 4 * index + 4, step, value)
        for byte, present in _last_bytes(words, left, 4):
            value = np.where(present, _rotl(value + byte * p5, 11) * p1, value)
        value ^= value >> 15
        value *= p2
        value ^= value >> 13
        value *= p3
        value ^= value >> 16
        return value

    return _run(data, offsets, 16, kernel)


def xxhash64_rows(data: _Bytes, offsets: _Offsets, seed: int) -> _U64s:
    """Return the unsigned XXH64 of every row."""
    p1, p2, p3, p4, p5 = (np.uint64(prime) for prime in XXHASH64_PRIMES)
    lanes_of_seed = [seed + int(p1) + int(p2), seed + int(p2), seed, seed - int(p1)]
    first_lanes = [lane & _M64 for lane in lanes_of_seed]

    def mixed(lane: _Words, words: _Words) -> _Words:
        result: _Words = _rotl(lane + words * p2, 31) * p1
        return result

    def kernel(block: _Block) -> _U64s:
        lanes = np.tile(np.array(first_lanes, np.uint64), (len(block), 1))
        for words in block.whole_stripes("<u8"):
            lanes[: len(words)] = mixed(lanes[: len(words)], words)
        value = _rotl(lanes[:, 0], 1)
        for lane, turn in ((1, 7), (2, 12), (3, 18)):
            value += _rotl(lanes[:, lane], turn)
        none = np.zeros(len(block), np.uint64)
        for lane in range(4):
            value = (value ^ mixed(none, lanes[:, lane])) * p1 + p4
        value = np.where(block.stripes > 0, value, np.uint64(seed + int(p5) & _M64))
        value += block.lengths.astype(np.uint64)
        words, left = block.last_stripe("<u8")
        for index in range(left.max() // 8):
            step = _rotl(value ^ mixed(none, words[:, index]), 27) * p1 + p4
            value = np.where(left >= 8 * index + 8, step, value)
        half = np.take_along_axis(words.view("<u4"), (left[:, None] & ~7) // 4 % 8, axis=1)[:, 0]
        step = _rotl(value ^ (half * p1), 23) * p2 + p3
        value = np.where(left & 4 != 0, step, value)
        for byte, present in _last_bytes(words, left, 4):
            value = np.where(present, _rotl(value ^ (byte * p5), 11) * p1, value)
        value ^= value >> 33
        value *= p2
        value ^= value >> 29
        value *= p3
        value ^= value >> 32
        return value

    return _run(data, offsets, 32, kernel)


def murmur2_hudi_rounds(
    data: _Bytes, offsets: _Offsets, seed: int, rounds: int
) -> Iterator[tuple[slice | npt.NDArray[np.intp], _U32s]]:
    """Yield Hudi's unsigned MurmurHash2: some rows, and the hash of each, round after round.

    The first round has the given seed; each further round takes the previous hashes as its seeds.
    The groups of rows are the same in every round. The array of hashes is reused.
    """
    multiplier = np.uint32(MURMUR2_MULTIPLIER)
    for span in row_spans(offsets, _MURMUR_ROWS, _BLOCK_BYTES):
        block = _Block(data, offsets[span.start : span.stop + 1], 4)
        shared = int(block.stripes[_FEW_ROWS]) if len(block) > _FEW_ROWS else 0
        stripes = []  # mixed once: they do not depend on the seed
        for stripe in block.whole_stripes("<u4", shared):
            stripes.append(_premixed(stripe[:, 0]))
        longest = range(min(len(block), _FEW_ROWS))
        rests = [
            (row, _premixed(block.words_after(row, shared)).tolist())
            for row in longest
            if block.stripes[row] > shared
        ]
        tail, left = block.last_stripe("<u4")
        has_tails = bool(left.any())
        odd = np.zeros(len(block), np.uint32)
        for index, (byte, present) in enumerate(_last_bytes(tail, left, 4)):
            # reversed: the very last byte stays low; sign-extended: Java bytes are signed
            extended = byte.astype(np.int8).astype(np.int32) << (8 * (left - 1 - index)).clip(0)
            odd ^= np.where(present, extended, 0).astype(np.uint32)
        # Rows without a tail are mixed with 0 and multiplied by 1: nothing is done to them.
        odd_multiplier = np.where(left > 0, multiplier, np.uint32(1))
        lengths = block.lengths.astype(np.uint32)
        rows = span if block.order is None else span.start + block.order
        value = np.full(len(block), seed & _M32, np.uint32)
        shifted = np.empty_like(value)
        for _ in range(rounds):
            value ^= lengths
            for words in stripes:
                active = value[: len(words)]
                active *= multiplier
                active ^= words
            for row, rest in rests:
                hashed = int(value[row])
                for word in rest:
                    hashed = hashed * MURMUR2_MULTIPLIER & _M32 ^ word
                value[row] = hashed
            if has_tails:
                value ^= odd
                value *= odd_multiplier
            value ^= np.right_shift(value, 13, out=shifted)
            value *= multiplier
            value ^= np.right_shift(value, 15, out=shifted)
            yield rows, value


def _premixed(words: _U32s) -> _U32s:
    """Return what MurmurHash2 makes of words before they meet the hash."""
    multiplier = np.uint32(MURMUR2_MULTIPLIER)
    words = words * multiplier
    mixed: _U32s = (words ^ words >> 24) * multiplier
    return mixed


def row_spans(offsets: _Offsets, rows_max: int, bytes_max: int) -> Iterator[slice]:
    """Yield consecutive ranges of rows within both bounds; a longer row is a range of its own."""
    first, rows = 0, len(offsets) - 1
    while first < rows:
        last = int(np.searchsorted(offsets, offsets[first] + bytes_max, "right")) - 1
        last = min(max(last, first + 1), first + rows_max, rows)
        yield slice(first, last)
        first = last


class _Block:
    """Some rows, those with the most stripes first, and the bytes they are read from."""

    def __init__(self, data: _Bytes, bounds: _Offsets, stripe: int) -> None:
        # the zeros let the last stripe of the last row be read whole
        self._data = np.concatenate([data[bounds[0] : bounds[-1]], np.zeros(stripe, np.uint8)])
        self._stripe = stripe
        self._starts = bounds[:-1] - bounds[0]
        self.lengths = np.diff(bounds)
        self._is_even = bool((self.lengths == self.lengths[0]).all())
        self.stripes = self.lengths // stripe
        self.order: npt.NDArray[np.intp] | None = None
        if self.stripes.min() != self.stripes.max():
            narrow = np.int16 if self.stripes.max() < 1 << 15 else np.int64  # int16: radix sort
            self.order = np.argsort(-self.stripes.astype(narrow), kind="stable")
            self._starts = self._starts[self.order]
            self.lengths = self.lengths[self.order]
            self.stripes = self.stripes[self.order]

    def __len__(self) -> int:
        return len(self.lengths)

    def whole_stripes(self, kind: str, most: int | None = None) -> Iterator[npt.NDArray[Any]]:
        """Yield per step a stripe of words of each of the first rows, as many as have it.

        Args:
            kind: The numpy type of a word.
            most: After how many steps to end; None for all.
        """
        for step in range(int(self.stripes[0]) if most is None else most):
            is_even = self.order is None  # then all rows have as many
            rows = len(self) if is_even else int(np.searchsorted(-self.stripes, -step))
            yield self._read(rows, step * self._stripe, kind)

    def words_after(self, row: int, stripe: int) -> _U32s:
        """Return the words of one row after some stripes, where a stripe is a word."""
        first = int(self._starts[row]) + stripe * self._stripe
        count = int(self.stripes[row]) - stripe
        words: _U32s = np.ndarray((count,), "<u4", self._data.data, first)
        return words

    def last_stripe(self, kind: str) -> tuple[npt.NDArray[Any], _Offsets]:
        """Return the stripe after the whole stripes, and how many of its bytes are the row's."""
        whole = self.stripes * self._stripe
        return self._read(len(self), whole, kind), self.lengths - whole

    def _read(self, rows: int, at: int | _Offsets, kind: str) -> npt.NDArray[Any]:
        """Return a stripe of words of each of the first rows, from `at` bytes into the row."""
        read: npt.NDArray[Any]
        if self._is_even:  # rows lie at one distance, and are read where they are
            word = np.dtype(kind).itemsize
            shape, strides = (rows, self._stripe // word), (int(self.lengths[0]), word)
            first = at if isinstance(at, int) else int(at[0])
            read = np.ndarray(shape, kind, self._data.data, first, strides)
            return read
        count = len(self._data) - self._stripe + 1
        every_stripe = np.ndarray((count,), f"V{self._stripe}", self._data.data, 0, (1,))
        read = every_stripe[self._starts[:rows] + at].view(kind)
        return read.reshape(rows, -1)


def _run(
    data: _Bytes, offsets: _Offsets, stripe: int, kernel: Callable[[_Block], npt.NDArray[Any]]
) -> npt.NDArray[Any]:
    """Return the results of `kernel` for the rows, block by block, in the order of the rows."""
    if len(offsets) == 1:  # no rows: ask the kernel for the shape of a result
        return kernel(_Block(data, np.zeros(2, np.int64), stripe))[:0]
    results = []
    for span in row_spans(offsets, _BLOCK_ROWS, _BLOCK_BYTES):
        block = _Block(data, offsets[span.start : span.stop + 1], stripe)
        result = kernel(block)
        if block.order is not None:
            ordered, result = result, np.empty_like(result)
            result[block.order] = ordered
        results.append(result)
    return results[0] if len(results) == 1 else np.concatenate(results)


def _rotl(words: _Words, turn: int) -> _Words:
    return (words << turn) | (words >> (8 * words.itemsize - turn))


def _last_bytes(
    words: _Words, left: _Offsets, size: int
) -> Iterator[tuple[_Words, npt.NDArray[np.bool_]]]:
    """Yield, in order, each byte after the last whole word of `size` bytes, with its rows."""
    stripe = words.view(np.uint8)
    whole = left // size * size
    for index in range((left - whole).max()):
        at = np.minimum(whole + index, stripe.shape[1] - 1)
        byte = np.take_along_axis(stripe, at[:, None], axis=1)[:, 0]
        yield byte.astype(words.dtype), left - whole > index
