"""Entries of HFiles in columns: keys and values put in order, and laid out all at once.

Pure: column kernels of NumPy and Arrow. Source: KeyValue, HFileDataBlock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.hfile.entries import (
    ENTRY_OVERHEAD_BYTES,
    KEY_OVERHEAD_BYTES,
    KEY_SUFFIX,
    ROW_BYTES_MAX,
    TRANSACTION,
)
from bucketfmt.format.hfile.stored_entry_kernels import (
    byte_windows,
    common_length,
    common_width,
    key_words,
    value_bounds,
)
from bucketfmt.process import cached_property

__all__ = ["EntryColumns", "sorted_places"]

_HEADER = np.dtype([("key", ">i4"), ("value", ">i4"), ("row", ">i2")])
_STEP_BYTES = 1 << 20  # of entries laid out together: memory of more is given back, and is new
_BYTES = pa.large_binary()


@dataclass(frozen=True)
class _Patterns:
    """An entry of each of some values, with keys of one length.

    Attributes:
        entries: `large_binary`.
        key_bytes: The length of the keys.
    """

    entries: pa.LargeBinaryArray
    key_bytes: int


@dataclass(frozen=True)
class EntryColumns:
    """Keys and values of equal number, to be written to an HFile.

    Attributes:
        keys: `large_binary`, without nulls.
        values: `large_binary`, or a dictionary of it, without nulls. Values that many keys share
            are cheap in a dictionary.
    """

    keys: pa.LargeBinaryArray
    values: pa.LargeBinaryArray | pa.DictionaryArray

    def __post_init__(self) -> None:
        """Raise ValueError: the columns are of other types or lengths, or hold nulls."""
        kinds = [column.type for column in (self.keys, self._dictionary())]
        if kinds != [_BYTES, _BYTES] or len(self.keys) != len(self.values):
            raise ValueError("entries of an HFile are two columns of bytes, of equal length")
        if self.keys.null_count or self.values.null_count:
            raise ValueError("an entry of an HFile has a key and a value")

    @classmethod
    def of(cls, entries: Iterable[tuple[bytes, Buffer]]) -> EntryColumns:
        """Return the columns of pairs of a key and a value."""
        rows = list(entries)
        return cls(
            pa.array([key for key, _ in rows], _BYTES),
            pa.array([bytes(value) for _, value in rows], _BYTES),
        )

    def __len__(self) -> int:
        return len(self.keys)

    def sort(self) -> EntryColumns:
        """Return the entries in the order of their keys, by unsigned bytes.

        Of entries with the same key the last stays.
        """
        return next(self.sort_parts([np.arange(len(self))]))

    def sort_parts(self, parts: Iterable[npt.NDArray[np.int64]]) -> Iterator[EntryColumns]:
        """Yield the entries of each part as `sort` returns all, given the places of each part."""
        for places in sorted_parts(self.keys, parts):
            yield self.take(places)

    def take(self, places: npt.NDArray[np.int64]) -> EntryColumns:
        """Return the entries at some places."""
        keys, values = self._take_keys(places), self.values
        if not isinstance(values, pa.DictionaryArray):
            return EntryColumns(keys, values.take(pa.array(places)))
        which = values.indices.to_numpy().take(places)
        return EntryColumns(keys, pa.DictionaryArray.from_arrays(which, values.dictionary))

    def check_order(self) -> None:
        """Raise ValueError: the keys are not in order, or a key is there twice or too long."""
        longest = int(self.key_bytes().max(initial=0))
        if longest > ROW_BYTES_MAX:
            raise ValueError(
                f"a key of {longest} bytes; the longest key in an HFile has {ROW_BYTES_MAX}"
            )
        words = _distinct_words(self.keys)
        unsure = np.flatnonzero(words[1:] <= words[:-1])
        before, after = (self.keys.take(pa.array(own)) for own in (unsure, unsure + 1))
        if not pc.all(pc.greater(after, before), min_count=0).as_py():
            raise ValueError("the keys of an HFile have to be in order, and each of them once")

    def key_bytes(self) -> npt.NDArray[np.int64]:
        """Return the length of each key."""
        return _lengths(self.keys)

    def value_bytes(self) -> npt.NDArray[np.int64]:
        """Return the length of each value."""
        lengths = _lengths(self._dictionary())
        if isinstance(self.values, pa.DictionaryArray):
            lengths = lengths.take(self.values.indices.to_numpy())
        return lengths

    def blocks(self, block_bytes: int) -> Iterator[tuple[bytes, memoryview]]:
        """Yield the first key and the content of each data block.

        A block ends with the entry that brings it to `block_bytes`. About a MiB of entries is laid
        out at a time.
        """
        sizes = self.key_bytes() + self.value_bytes() + ENTRY_OVERHEAD_BYTES
        places = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        cuts = [0]
        while cuts[-1] < len(self):
            end = int(places.searchsorted(places[cuts[-1]] + block_bytes))
            cuts.append(min(end, len(self)))
        firsts = self.keys.take(pa.array(cuts[:-1], pa.int64())).to_pylist()
        patterns = self._patterns()
        step = max(1, _STEP_BYTES // block_bytes)
        for start in range(0, len(firsts), step):
            some = cuts[start : start + step + 1]
            content = self[some[0] : some[-1]]._lay_out(patterns)
            bounds = (places[some] - places[some[0]]).tolist()
            for number, (begin, end) in enumerate(pairwise(bounds), start):
                yield firsts[number], content[begin:end]

    def encode(self) -> memoryview:
        """Return the entries one after the other, as a data block holds them."""
        return self._lay_out(self._patterns())

    def _patterns(self) -> _Patterns | None:
        """Return an entry of each value; None: keys differ in length, or no value is shared."""
        width, dictionary = self._width, self._dictionary()
        if not width or len(dictionary) >= len(self):
            return None
        entries = EntryColumns(pa.repeat(self.keys[0], len(dictionary)), dictionary)
        return _Patterns(entries._join(), width)

    def _lay_out(self, patterns: _Patterns | None) -> memoryview:
        """Return the entries: each the copy of an entry with the same value, with its own key.

        Args:
            patterns: Those of these entries, or of more; None: nothing is copied.
        """
        if patterns is None or not len(self):
            return _contents(self._join())
        entries = patterns.entries.take(self.values.indices)  # new bytes, which are changed below
        content, width = _contents(entries), patterns.key_bytes
        starts = value_bounds(entries)[:-1] + _HEADER.itemsize
        byte_windows(content, f"V{width}")[starts] = _cells(self.keys, width)
        return content

    def _join(self) -> pa.LargeBinaryArray:
        """Return the entries, of any lengths."""
        headers = np.empty(len(self), _HEADER)
        headers["row"] = headers["key"] = self.key_bytes()
        headers["key"] += KEY_OVERHEAD_BYTES
        headers["value"] = self.value_bytes()
        fixed = pa.binary(_HEADER.itemsize)
        column = pa.FixedSizeBinaryArray.from_buffers(
            fixed, len(self), [None, pa.py_buffer(headers)]
        )
        values = self.values
        if isinstance(values, pa.DictionaryArray):
            values = values.dictionary.take(values.indices)
        suffix, transaction, nothing = (
            pa.scalar(each, _BYTES) for each in (KEY_SUFFIX, TRANSACTION, b"")
        )
        return pc.binary_join_element_wise(
            column.cast(_BYTES), self.keys, suffix, values, transaction, nothing
        )

    def _take_keys(self, places: npt.NDArray[np.int64]) -> pa.LargeBinaryArray:
        """Return the keys at some places. Keys of one length take a third of the time of others."""
        width = self._width
        if not width:
            return self.keys.take(pa.array(places))
        cells = pa.py_buffer(_cells(self.keys, width).take(places))
        offsets = pa.py_buffer(np.arange(0, (len(places) + 1) * width, width))
        return pa.LargeBinaryArray.from_buffers(_BYTES, len(places), [None, offsets, cells])

    @cached_property
    def _width(self) -> int | None:
        """The length that all keys have."""
        return common_width(self.keys)

    def __getitem__(self, rows: slice) -> EntryColumns:
        return EntryColumns(self.keys[rows], self.values[rows])

    def _dictionary(self) -> pa.LargeBinaryArray:
        is_dictionary = isinstance(self.values, pa.DictionaryArray)
        return self.values.dictionary if is_dictionary else self.values


def sorted_places(keys: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    """Return the places of keys in the order of the keys; of equal keys the last place alone."""
    return next(sorted_parts(keys, [np.arange(len(keys))]))


def sorted_parts(
    keys: pa.LargeBinaryArray, parts: Iterable[npt.NDArray[np.int64]]
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the places of each part in the order of the keys; of equal keys the last place alone.

    Eight bytes of each key are compared as a number, and whole keys only where these are equal.

    Args:
        keys: `large_binary` without nulls.
        parts: Places of keys, ascending.
    """
    words = _distinct_words(keys)
    for part in parts:
        own = words.take(part)
        order = np.argsort(own)
        own, places = own.take(order), part.take(order)
        ties = own[1:] == own[:-1]
        if ties.any():
            tied = np.flatnonzero(np.append(ties, False) | np.insert(ties, 0, False))
            rows = np.sort(places[tied])
            places[tied] = rows = rows[pc.sort_indices(keys.take(pa.array(rows))).to_numpy()]
            same = keys.take(pa.array(rows))
            is_again = pc.equal(same[1:], same[:-1]).to_numpy(zero_copy_only=False)
            places = np.delete(places, tied[:-1][is_again])
        yield places


def _distinct_words(keys: pa.LargeBinaryArray) -> npt.NDArray[np.uint64]:
    """Return eight bytes of each key, from where the first keys begin to differ."""
    words, longest, skip = key_words(keys, 0), int(_lengths(keys).max(initial=0)), 0
    while len(words):
        least, most = (int(word).to_bytes(8, "big") for word in (words.min(), words.max()))
        common = common_length(least, most)
        skip += common
        if not common or skip >= longest:
            break
        words = key_words(keys, skip)
    return words


def _cells(column: pa.LargeBinaryArray, width: int) -> npt.NDArray[np.void]:
    """Return the values of a column, which all have the same length, without a copy."""
    cells: npt.NDArray[np.void] = np.frombuffer(_contents(column), f"V{width}")
    return cells


def _contents(column: pa.LargeBinaryArray) -> memoryview:
    """Return the values of a column, one after the other, without a copy."""
    bounds, data = value_bounds(column), column.buffers()[2]
    return memoryview(b"" if data is None else data)[bounds[0] : bounds[-1]]


def _lengths(column: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    lengths: npt.NDArray[np.int64] = pc.binary_length(column).to_numpy()
    return lengths
