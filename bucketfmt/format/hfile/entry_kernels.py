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
from bucketfmt.format.hfile.stored_entry_kernels import byte_windows, common_length, key_words

__all__ = ["EntryColumns", "sorted_places"]

_HEADER = np.dtype([("key", ">i4"), ("value", ">i4"), ("row", ">i2")])
_STEP_BYTES = 4 << 20
_BYTES = pa.large_binary()


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
        if len(self) < 2:
            return self
        found = self.take(sorted_places(self.keys))
        is_last = pc.not_equal(found.keys[:-1], found.keys[1:])
        if pc.all(is_last).as_py():
            return found
        return found.take(np.flatnonzero(np.append(is_last, True)))

    def take(self, places: npt.NDArray[np.int64]) -> EntryColumns:
        """Return the entries at some places."""
        return EntryColumns(_take_keys(self.keys, places), self.values.take(pa.array(places)))

    def check_order(self) -> None:
        """Raise ValueError: the keys are not in order, or a key is there twice or too long."""
        longest = int(self.key_bytes().max(initial=0))
        if longest > ROW_BYTES_MAX:
            raise ValueError(
                f"a key of {longest} bytes; the longest key in an HFile has {ROW_BYTES_MAX}"
            )
        if len(self) > 1 and not pc.all(pc.greater(self.keys[1:], self.keys[:-1])).as_py():
            raise ValueError("the keys of an HFile have to be in order, and each of them once")

    def key_bytes(self) -> npt.NDArray[np.int64]:
        """Return the length of each key."""
        return _lengths(self.keys)

    def value_bytes(self) -> npt.NDArray[np.int64]:
        """Return the length of each value."""
        lengths = _lengths(self._dictionary())
        if isinstance(self.values, pa.DictionaryArray):
            lengths = lengths[self.values.indices.to_numpy()]
        return lengths

    def blocks(self, block_bytes: int) -> Iterator[tuple[bytes, memoryview]]:
        """Yield the first key and the content of each data block.

        A block ends with the entry that brings it to `block_bytes`. Some MiB of entries are laid
        out at a time.
        """
        sizes = self.key_bytes() + self.value_bytes() + ENTRY_OVERHEAD_BYTES
        places = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        cuts = [0]
        while cuts[-1] < len(self):
            end = int(np.searchsorted(places, places[cuts[-1]] + block_bytes))
            cuts.append(min(end, len(self)))
        firsts = self.keys.take(pa.array(cuts[:-1], pa.int64())).to_pylist()
        step = max(1, _STEP_BYTES // block_bytes)
        for start in range(0, len(firsts), step):
            some = cuts[start : start + step + 1]
            content = self[some[0] : some[-1]].encode()
            bounds = (places[some] - places[some[0]]).tolist()
            for number, (begin, end) in enumerate(pairwise(bounds), start):
                yield firsts[number], content[begin:end]

    def encode(self) -> memoryview:
        """Return the entries one after the other, as a data block holds them."""
        width = _common_width(self.keys)
        if width and len(self._dictionary()) < len(self):
            return self._scatter(width)
        return self._join()

    def _scatter(self, width: int) -> memoryview:
        """Return the entries, given keys of one length that share values.

        Each entry is the copy of an entry with the same value, and its own key is put into it.
        """
        dictionary, which = self._dictionary(), self.values.indices.to_numpy()
        patterns = EntryColumns(pa.repeat(self.keys[0], len(dictionary)), dictionary)._join()
        sizes = _lengths(dictionary) + (width + ENTRY_OVERHEAD_BYTES)
        patterns_at = np.cumsum(sizes) - sizes
        starts = np.cumsum(sizes[which]) - sizes[which]
        content = bytearray(int(starts[-1] + sizes[which[-1]]))
        for size in np.unique(sizes).tolist():
            rows = np.flatnonzero(sizes[which] == size)
            copied = byte_windows(patterns, f"V{size}")[patterns_at[which[rows]]]
            byte_windows(content, f"V{size}")[starts[rows]] = copied
        keys = byte_windows(content, f"V{width}")
        keys[starts + _HEADER.itemsize] = _cells(self.keys, width)
        return memoryview(content)

    def _join(self) -> memoryview:
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
        joined = pc.binary_join_element_wise(
            column.cast(_BYTES), self.keys, suffix, values, transaction, nothing
        )
        _, offsets, data = joined.buffers()
        bounds = np.frombuffer(offsets, np.int64)[[joined.offset, joined.offset + len(joined)]]
        return memoryview(data)[bounds[0] : bounds[1]]

    def __getitem__(self, rows: slice) -> EntryColumns:
        return EntryColumns(self.keys[rows], self.values[rows])

    def _dictionary(self) -> pa.LargeBinaryArray:
        is_dictionary = isinstance(self.values, pa.DictionaryArray)
        return self.values.dictionary if is_dictionary else self.values


def sorted_places(keys: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    """Return the places of keys in the order of the keys; equal keys stay in the order given.

    Eight bytes of each key are compared as a number, and whole keys only where these are equal.
    """
    if not len(keys):
        return np.empty(0, np.int64)
    bounds = pc.min_max(keys)
    skip = common_length(bounds["min"].as_py(), bounds["max"].as_py())
    words = key_words(keys, skip)
    order = np.argsort(words)
    words = words[order]
    ties = words[1:] == words[:-1]
    tied = np.flatnonzero(np.append(ties, False) | np.insert(ties, 0, False))
    if len(tied):
        rows = np.sort(order[tied])
        order[tied] = rows[pc.sort_indices(keys.take(pa.array(rows))).to_numpy()]
    return order


def _take_keys(keys: pa.LargeBinaryArray, places: npt.NDArray[np.int64]) -> pa.LargeBinaryArray:
    """Return the keys at some places. Keys of one length take a third of the time of others."""
    width = _common_width(keys)
    if not width:
        return keys.take(pa.array(places))
    cells = pa.py_buffer(_cells(keys, width).take(places))
    offsets = pa.py_buffer(np.arange(0, (len(places) + 1) * width, width))
    return pa.LargeBinaryArray.from_buffers(_BYTES, len(places), [None, offsets, cells])


def _common_width(column: pa.LargeBinaryArray) -> int | None:
    """Return the length that all values have; None: the lengths differ, or there is no value."""
    lengths = _lengths(column)
    if not len(lengths) or (lengths != lengths[0]).any():
        return None
    return int(lengths[0])


def _cells(column: pa.LargeBinaryArray, width: int) -> npt.NDArray[np.void]:
    """Return the values of a column, which all have the same length, without a copy."""
    _, offsets, data = column.buffers()
    first = np.frombuffer(offsets, np.int64)[column.offset]
    cells: npt.NDArray[np.void] = np.frombuffer(data, f"V{width}", len(column), first)
    return cells


def _lengths(column: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    lengths: npt.NDArray[np.int64] = pc.binary_length(column).to_numpy()
    return lengths
