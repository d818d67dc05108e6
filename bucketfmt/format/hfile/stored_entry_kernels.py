"""The entries of data blocks, decoded in lock step.

Pure: column kernels of NumPy and Arrow. Where an entry begins is known from the lengths of the
entry before, so that a block is walked; all blocks of a batch are walked together, one entry of
each at a time. Source: KeyValue, HFileDataBlock.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import CorruptError, TruncatedError, UnsupportedError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.hfile.entries import KEY_OVERHEAD_BYTES, KEY_SUFFIX
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = ["StoredEntries", "decode_blocks"]

_HEADER = np.dtype([("key", ">i4"), ("value", ">i4"), ("row", ">i2")])
_SUFFIX = np.frombuffer(KEY_SUFFIX, np.uint8)
_LENGTHS = struct.Struct(">II")
_SIZES_BYTES = 9  # the two lengths before a key, and the transaction behind a value
_PAD = bytes(24)  # lets the header and the suffix of the last entry be read whole
_LANES_MIN = 16  # fewer blocks are walked one after the other
_STEPS = 32
_BYTES = pa.large_binary()

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class StoredEntries:
    """Entries of some data blocks, in the order of their keys.

    Attributes:
        keys: The rows: the keys of Hudi's records, `large_binary`.
        begins: For each block the number of its first entry; at the end that of all entries.
        content: What the values are in.
        value_starts: Where each value begins in `content`.
        value_ends: Where each value ends.
    """

    keys: pa.LargeBinaryArray
    begins: _Ints
    content: bytes
    value_starts: _Ints
    value_ends: _Ints

    def values(self, numbers: _Ints | slice = slice(None)) -> pa.LargeBinaryArray:
        """Return the values of some entries, `large_binary`, or of all."""
        return _spans(self.content, self.value_starts[numbers], self.value_ends[numbers])


def decode_blocks(contents: Sequence[Buffer], limits: Limits = DEFAULT_LIMITS) -> StoredEntries:
    """Return the entries of data blocks that are given in the order of their keys.

    The offset of an error counts from the beginning of the first block, as if the blocks were one.

    Raises:
        CorruptError: a block is not made of entries, or keys are not in order or are there twice.
        TruncatedError: a block ends inside an entry.
        UnsupportedError: an entry has a column family, a timestamp or a type that Hudi does not
            write.
        LimitError: a block has more entries than `records_per_block_max`.
    """
    sizes = [len(memoryview(content)) for content in contents]
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    data = b"".join([*contents, _PAD])
    starts = _walk(data, bounds)
    begins = np.searchsorted(starts, bounds)
    limits.check("records_per_block_max", int(np.diff(begins).max(initial=0)))

    header = _windows(data, _HEADER.itemsize)[starts].view(_HEADER)
    key_bytes, value_bytes, row_bytes = (
        header[name].astype(np.int64) for name in ("key", "value", "row")
    )
    row_ends = starts + _HEADER.itemsize + row_bytes
    value_starts = row_ends + len(KEY_SUFFIX)
    value_ends = value_starts + value_bytes
    lengths_fit = (row_bytes >= 0) & (value_bytes >= 0)
    lengths_fit &= key_bytes >= row_bytes + KEY_OVERHEAD_BYTES
    nexts = starts + _SIZES_BYTES + key_bytes + value_bytes
    follows = np.append(starts[1:], bounds[-1:])[: len(starts)]
    # the walk trusted the lengths: a wrong length shows in where the next entry begins
    if not (nexts == follows).all():
        number = int((nexts != follows).argmax())
        raise TruncatedError("an HFile block ends inside an entry", offset=int(starts[number]))
    if not lengths_fit.all():
        number = int(lengths_fit.argmin())
        raise CorruptError("the lengths of an HFile entry disagree", offset=int(starts[number]))
    is_plain = key_bytes == row_bytes + KEY_OVERHEAD_BYTES
    suffixes = _windows(data, len(KEY_SUFFIX))[np.where(is_plain, row_ends, 0)]
    is_plain &= (suffixes.view(np.uint8).reshape(-1, len(KEY_SUFFIX)) == _SUFFIX).all(axis=1)
    if not is_plain.all():
        raise UnsupportedError(
            "an HFile entry has a column family, a timestamp or a type that Hudi does not write; "
            "the file is not one of Hudi's, or damaged",
            offset=int(starts[is_plain.argmin()]),
        )
    transactions = np.frombuffer(data, np.uint8)[value_ends]
    if transactions.any():
        offset = int(value_ends[transactions.argmax()])
        raise CorruptError("an HFile entry has a transaction number", offset=offset)

    keys = _spans(data, starts + _HEADER.itemsize, row_ends)
    if len(keys) > 1 and not pc.all(pc.greater(keys[1:], keys[:-1])).as_py():
        raise CorruptError("the keys of an HFile are not in order, or a key is there twice")
    return StoredEntries(keys, begins, data, value_starts, value_ends)


def _walk(data: bytes, bounds: _Ints) -> _Ints:
    """Return where entries begin. Past the end of a block no entry is taken, nor byte read."""
    places, ends = bounds[:-1], bounds[1:]
    found = [np.empty(0, np.int64)]
    windows, last = _windows(data, _LENGTHS.size), len(data) - _LENGTHS.size
    while True:
        going = places < ends
        places, ends = places[going], ends[going]
        if len(places) < _LANES_MIN:
            break
        rows = []
        for _ in range(_STEPS):
            rows.append(places)
            lengths = windows[np.minimum(places, last)].view(">u8").astype(np.uint64)
            places = places + _SIZES_BYTES + (lengths >> np.uint64(32)).view(np.int64)
            places += (lengths & np.uint64(0xFFFFFFFF)).view(np.int64)
        steps = np.array(rows)
        found.append(steps[steps < ends])
    for start, end in zip(places.tolist(), ends.tolist(), strict=True):
        found.append(np.array(_walk_block(data, start, end), np.int64))
    starts = np.concatenate(found)
    starts.sort()
    return starts


def _walk_block(data: bytes, place: int, end: int) -> list[int]:
    starts, unpack = [], _LENGTHS.unpack_from
    while place < end:
        starts.append(place)
        key_bytes, value_bytes = unpack(data, place)
        place += _SIZES_BYTES + key_bytes + value_bytes
    return starts


def _windows(data: bytes, size: int) -> npt.NDArray[np.void]:
    """Return every run of `size` bytes by where the run begins."""
    windows: npt.NDArray[np.void] = np.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))
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
