"""The hash-field values of whole columns of record keys, in every key dialect.

Pure. Semantics: `record_keys.extract_hash_values`, which is the function for one key.

Keys without separators, the common case, pass through untouched. Others are taken apart with
no Python per row: one pass over the bytes finds every `:` and `,`, and the rest happens on
those positions. Only COLON_MAP, which no supported release writes, reads keys one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import CorruptError
from bucketfmt.format.keys.hashing_kernels import string_buffers
from bucketfmt.format.keys.lock_step import row_spans
from bucketfmt.format.keys.record_keys import (
    EMPTY_PLACEHOLDER,
    NULL_PLACEHOLDER,
    KeyDialect,
    extract_hash_values,
    never_returns_error,
)

__all__ = ["hash_value_columns"]

_Bytes = npt.NDArray[np.uint8]
_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]

_COLON, _COMMA = ord(":"), ord(",")
_SEARCH_BYTES = 1 << 18
_CHUNK_ROWS = 1 << 15
_CHUNK_BYTES = 1 << 22


def hash_value_columns(
    record_keys: pa.Array | pa.ChunkedArray, hash_fields: Sequence[str], dialect: KeyDialect
) -> list[pa.Array | pa.ChunkedArray]:
    """Return the columns that `bucket_ids` and `xxhash32s` are to hash for these record keys.

    The result is one column: the record keys, if all keys are taken whole; else the values, as
    large_string if each key has exactly one value, as large_list of large_string if not.
    A null key gives one null value.

    Raises:
        CorruptError: a key is not UTF-8.
        KeyEncodingError: Hudi fails on a key, or never returns from hashing it; the error names the
            first such key.
        TypeError: the column does not hold strings.
    """
    chunks = record_keys.chunks if isinstance(record_keys, pa.ChunkedArray) else [record_keys]
    buffers = [string_buffers(chunk) for chunk in chunks]
    if all(_taken_whole(data[o[0] : o[-1]], dialect) for data, o in buffers):
        return [record_keys]
    try:
        keys = pa.concat_arrays([chunk.cast(pa.large_string()) for chunk in chunks])
        if dialect is KeyDialect.COLON_MAP:
            return [_colon_map(keys.to_pylist(), hash_fields)]
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise CorruptError(f"record keys are not UTF-8: {error}") from error
    split = _split_filter if dialect is KeyDialect.SPLIT_FILTER else _index_of
    data, offsets = string_buffers(keys)
    is_null = keys.is_null().to_numpy(zero_copy_only=False)
    values, counts = [], []
    for span in row_spans(offsets, _CHUNK_ROWS, _CHUNK_BYTES):
        bounds = offsets[span.start : span.stop + 1]
        marks = _find_marks(data[bounds[0] : bounds[-1]], bounds - bounds[0])
        chunk_values, chunk_counts = _assemble(marks, *split(marks, hash_fields), is_null[span])
        values.append(chunk_values)
        counts.append(chunk_counts)
    column = pa.concat_arrays(values)
    value_counts = np.concatenate(counts)
    if (value_counts == 1).all():
        return [column]
    value_offsets = np.concatenate([[0], np.cumsum(value_counts)])
    return [pa.LargeListArray.from_arrays(pa.array(value_offsets), column)]


def _taken_whole(data: _Bytes, dialect: KeyDialect) -> bool:
    if dialect is KeyDialect.INDEX_OF and not _contains(data, _COMMA):
        return True
    return not _contains(data, _COLON)


def _colon_map(record_keys: list[str | None], hash_fields: Sequence[str]) -> pa.Array:
    values = [
        [None] if key is None else extract_hash_values(key, hash_fields, KeyDialect.COLON_MAP)
        for key in record_keys
    ]
    return pa.array(values, pa.large_list(pa.large_string()))


def _contains(data: _Bytes, byte: int) -> bool:
    pieces = (data[i : i + _SEARCH_BYTES] for i in range(0, len(data), _SEARCH_BYTES))
    return any((piece == byte).any() for piece in pieces)


@dataclass(frozen=True)
class _Marks:
    """Every `:` and `,` of a column of keys, in order."""

    data: _Bytes
    offsets: _Ints  # of the keys, rows + 1
    positions: _Ints
    is_colon: _Bools
    rows: _Ints  # of each mark
    firsts: _Ints  # index of the first mark at or behind each row's start, rows + 1
    colons: _Ints  # positions of the colons
    colons_before: _Ints  # how many colons precede each mark, marks + 1

    def equal(self, starts: _Ints, ends: _Ints, text: str) -> _Bools:
        """Return which of the given spans hold exactly `text`."""
        expected = text.encode()
        candidates = np.flatnonzero(ends - starts == len(expected))
        for index, byte in enumerate(expected):
            candidates = candidates[self.data[starts[candidates] + index] == byte]
        result = np.zeros(len(starts), bool)
        result[candidates] = True
        return result

    def among(self, starts: _Ints, ends: _Ints, texts: Sequence[str]) -> _Bools:
        """Return which of the given spans hold one of `texts`."""
        result = np.zeros(len(starts), bool)
        for text in set(texts):
            result |= self.equal(starts, ends, text)
        return result


def _find_marks(data: _Bytes, offsets: _Ints) -> _Marks:
    positions = np.flatnonzero((data == _COLON) | (data == _COMMA))
    is_colon = data[positions] == _COLON
    firsts = np.searchsorted(positions, offsets)
    return _Marks(
        data=data,
        offsets=offsets,
        positions=positions,
        is_colon=is_colon,
        rows=np.repeat(np.arange(len(offsets) - 1), np.diff(firsts)),
        firsts=firsts,
        colons=positions[is_colon],
        colons_before=np.concatenate([[0], np.cumsum(is_colon)]),
    )


@dataclass(frozen=True)
class _Parts:
    """The parts the keys with separators fall into, in order."""

    rows: _Ints
    starts: _Ints
    colons: _Ints  # position of the first colon at or behind the start; may be behind the end
    ends: _Ints

    def take(self, which: _Bools) -> _Parts:
        return _Parts(self.rows[which], self.starts[which], self.colons[which], self.ends[which])


def _cut(marks: _Marks, parted: _Bools, separators: _Ints, row_ends: _Ints) -> _Parts:
    """Return the parts of the `parted` rows, cut at the marks with the indexes `separators`."""
    whole_rows = np.flatnonzero(parted)
    rows = np.concatenate([whole_rows, marks.rows[separators]])
    starts = np.concatenate([marks.offsets[whole_rows], marks.positions[separators] + 1])
    next_marks = np.concatenate([marks.firsts[whole_rows], separators + 1])
    order = np.argsort(starts, kind="stable")  # two sorted runs: merged, not sorted
    rows, starts, next_marks = rows[order], starts[order], next_marks[order]
    next_colons = np.append(marks.colons, len(marks.data))[marks.colons_before[next_marks]]
    ends = row_ends[rows]
    inner = np.flatnonzero(rows[1:] == rows[:-1])
    ends[inner] = starts[inner + 1] - 1
    return _Parts(rows, starts, next_colons, ends)


def _index_of(marks: _Marks, hash_fields: Sequence[str]) -> tuple[_Parts, _Bools, _Bools]:
    """Return the parts to hash, which of them are named, and the rows taken whole."""
    colons = np.diff(marks.colons_before[marks.firsts])
    parted = (colons > 0) & (colons < np.diff(marks.firsts))
    # a field ends at a ',' if the next mark is a ':', but the first field goes to its own ':'
    colon_follows = np.append(marks.is_colon[1:] & (marks.rows[1:] == marks.rows[:-1]), False)
    colon_precedes = marks.colons_before[:-1] > marks.colons_before[marks.firsts[marks.rows]]
    separators = np.flatnonzero(~marks.is_colon & colon_follows & colon_precedes)
    parts = _cut(marks, parted, separators, marks.offsets[1:])
    named = np.ones(len(parts.rows), bool)
    if hash_fields and list(hash_fields) != [""]:
        named = marks.among(parts.starts, parts.colons, hash_fields)
    is_last = np.append(parts.rows[1:] != parts.rows[:-1], True)
    last_colons = marks.colons[marks.colons_before[marks.firsts[parts.rows + 1]] - 1]
    endless = np.flatnonzero(is_last & ~named & (last_colons > parts.colons))
    if len(endless):
        row = parts.rows[endless[0]]
        key = marks.data[marks.offsets[row] : marks.offsets[row + 1]]
        raise never_returns_error(key.tobytes().decode(errors="replace"))
    chosen = parts.take(named)
    whole = np.ones(len(parted), bool)
    whole[chosen.rows] = False
    return chosen, np.ones(len(chosen.rows), bool), whole


def _split_filter(marks: _Marks, hash_fields: Sequence[str]) -> tuple[_Parts, _Bools, _Bools]:
    """Return the parts to hash, which of them are named, and the rows taken whole."""
    parted = np.diff(marks.colons_before[marks.firsts]) > 0
    # commas that fill a key up to its end part nothing, as String.split drops empty parts there
    following = marks.firsts[marks.rows + 1]
    indexes = np.arange(len(marks.rows))
    row_ends = marks.offsets[1:]
    trailing = (marks.positions + (following - indexes) == row_ends[marks.rows]) & (
        marks.colons_before[following] == marks.colons_before[:-1]
    )
    separators = np.flatnonzero(~marks.is_colon & ~trailing & parted[marks.rows])
    row_ends = row_ends - np.bincount(marks.rows[trailing], minlength=len(parted))
    parts = _cut(marks, parted, separators, row_ends)
    named = parts.colons < parts.ends
    kept = ~named
    if hash_fields:
        kept |= named & marks.among(parts.starts, parts.colons, hash_fields)
    else:
        kept[:] = True
    return parts.take(kept), named[kept], ~parted


def _assemble(
    marks: _Marks, parts: _Parts, named: _Bools, whole: _Bools, is_null: _Bools
) -> tuple[pa.Array, _Ints]:
    """Return the values of `parts` and of the keys taken `whole`, and how many each key has."""
    counts = np.bincount(parts.rows, minlength=len(whole))
    places = np.arange(len(parts.rows)) - (np.cumsum(counts) - counts)[parts.rows]
    counts[whole] = 1
    firsts = np.cumsum(counts) - counts
    places += firsts[parts.rows]
    whole_rows = np.flatnonzero(whole)
    whole_places = firsts[whole_rows]

    starts = np.where(named, parts.colons + 1, parts.starts)
    is_empty = named & marks.equal(starts, parts.ends, EMPTY_PLACEHOLDER)
    # an array over the same bytes of what is a value and, in turns, what lies before the next
    spans = np.zeros(2 * (len(places) + len(whole_rows)), np.int64)
    spans[2 * places] = starts
    spans[2 * places + 1] = np.where(is_empty, starts, parts.ends)
    spans[2 * whole_places] = marks.offsets[whole_rows]
    spans[2 * whole_places + 1] = marks.offsets[whole_rows + 1]
    null = np.zeros(len(spans) // 2, bool)
    null[places] = named & marks.equal(starts, parts.ends, NULL_PLACEHOLDER)
    null[whole_places] = is_null[whole_rows]

    buffers = [None, pa.py_buffer(spans), pa.py_buffer(marks.data)]
    texts = pa.Array.from_buffers(pa.large_string(), max(len(spans) - 1, 0), buffers)
    values = texts.take(pa.array(np.arange(0, len(spans), 2)))
    if null.any():
        values = pc.if_else(pa.array(null), pa.scalar(None, values.type), values)
    return values, counts
