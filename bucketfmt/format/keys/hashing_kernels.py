"""The hash functions of the format over whole Arrow columns, with no Python per row.

Pure. A column is a `pa.Array` or `pa.ChunkedArray` of string, large_string, string_view, their
binary twins, a dictionary of those, or null; slices are honoured. If rows have more or fewer than
one value each, a column may also be a list of strings, which stands for the listed values in order.
Results are NumPy arrays with one element (or one line) per row.

Implementation: a column is one byte buffer and its row offsets. The Java hash is a polynomial in
31, and 31 has an inverse modulo 2^32: every byte is weighed by its own power of the inverse, the
weights are summed row by row in one pass, and one multiplication puts each sum right. Rows of one
length need no inverse: they are the lines of a matrix, which is multiplied by the powers of 31.
Texts in which ASCII and scripts alternate are not decoded: `utf8_units` tells what each byte adds
to its code unit, and lays the bytes out in lanes, of which all take a step of the polynomial at a
time. CPython decodes the others in less time.
The other hashes run all rows in lock step, a stripe of bytes at a time, longest rows first.
Semantics: `hashing`, which has the same functions for one value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import CorruptError
from bucketfmt.format.keys.hashing import HASH_VALUE_MASK
from bucketfmt.format.keys.lock_step import (
    murmur2_hudi_rounds,
    row_spans,
    xxhash32_rows,
    xxhash64_rows,
)
from bucketfmt.format.keys.utf8_units import Lanes, find_units, is_of_many_scripts

__all__ = [
    "bucket_ids",
    "buckets_of_list_hashes",
    "java_list_hashes",
    "java_string_hashes",
    "murmur2_hudi_hashes",
    "string_buffers",
    "xxhash32s",
    "xxhash64s",
]

_Bytes = npt.NDArray[np.uint8]
_Offsets = npt.NDArray[np.int64]
_U32s = npt.NDArray[np.uint32]

_CHUNK_ROWS = 1 << 15
_CHUNK_BYTES = 1 << 19  # a call costs little for each byte, and most arrays of a chunk stay cached


def java_string_hashes(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """Return `String.hashCode()` of every row as int32; 0 where null.

    Raises:
        CorruptError: a value is not UTF-8.
        TypeError: the column does not hold strings.
    """
    return _map_texts(column, _java_array).view(np.int32)


def java_list_hashes(columns: Sequence[pa.Array | pa.ChunkedArray]) -> npt.NDArray[np.int32]:
    """Return per row, as int32, `List.hashCode()` of the values of the columns.

    A null value is a list element with hash 0; a null list gives no values.

    Raises:
        CorruptError: a value is not UTF-8.
        TypeError: a column does not hold strings.
        ValueError: there is no column, or the lengths of the columns differ.
    """
    result = np.ones(_row_count(columns), np.uint32)
    for column in columns:
        if not _is_list(column):
            result *= np.uint32(31)
            result += _map_texts(column, _java_array)
            continue
        values, offsets = _list_values(column)
        hashes = _map_texts(values, _java_array)
        counts = np.diff(offsets)
        for position in range(int(counts.max(initial=0))):
            rows = np.flatnonzero(counts > position)
            result[rows] = result[rows] * np.uint32(31) + hashes[offsets[rows] + position]
    return result.view(np.int32)


def bucket_ids(
    columns: Sequence[pa.Array | pa.ChunkedArray], num_buckets: int
) -> npt.NDArray[np.int32]:
    """Return the bucket id of every row, 0..num_buckets-1, as int32.

    `columns` are the hash-field values, as `hash_value_columns` gives them.
    Rule: `BucketIdentifier.getBucketId`.

    Raises:
        CorruptError: a value is not UTF-8.
        TypeError: a column does not hold strings.
        ValueError: `num_buckets` is not a positive int32, there is no column, or the lengths of the
            columns differ.
    """
    return buckets_of_list_hashes(java_list_hashes(columns), num_buckets)


def buckets_of_list_hashes(
    list_hashes: npt.NDArray[np.int32], num_buckets: int
) -> npt.NDArray[np.int32]:
    """Return the bucket id of every hash that `java_list_hashes` made, as int32.

    Raises:
        ValueError: `num_buckets` is not a positive int32.
    """
    if not 1 <= num_buckets <= HASH_VALUE_MASK:
        raise ValueError(f"num_buckets must be 1..{HASH_VALUE_MASK}, not {num_buckets}")
    hashes = list_hashes & np.int32(HASH_VALUE_MASK)
    divisor = np.int32(num_buckets)
    result: npt.NDArray[np.int32] = hashes - hashes // divisor * divisor  # faster than %
    return result


def xxhash32s(columns: Sequence[pa.Array | pa.ChunkedArray]) -> npt.NDArray[np.uint32]:
    """Return per row the xxHash32 (seed 0) of all its values joined with nothing between.

    A null value counts as the text "null", as in Java's `String.join`. The ring looks up the
    low 31 bits. Rule: `ConsistentBucketIdentifier.getBucket`.

    Raises:
        TypeError: a column does not hold strings.
        ValueError: there is no column, or the lengths of the columns differ.
    """
    _row_count(columns)
    column = columns[0]
    if len(columns) > 1 or _is_list(column):
        texts = [_joined_values(column) for column in columns]
        column = pc.binary_join_element_wise(*texts, pa.scalar(b"", pa.large_binary()))
    return _map_texts(column, lambda array: xxhash32_rows(*string_buffers(_null_as_text(array))))


def xxhash64s(column: pa.Array | pa.ChunkedArray, seed: int) -> npt.NDArray[np.uint64]:
    """Return the unsigned XXH64 of every row; of the empty string where null.

    Raises:
        TypeError: the column does not hold strings.
    """
    return _map_texts(column, lambda array: xxhash64_rows(*string_buffers(array), seed))


def murmur2_hudi_hashes(column: pa.Array | pa.ChunkedArray, seed: int) -> npt.NDArray[np.int32]:
    """Return Hudi's MurmurHash2 of every row as int32; of the empty string where null.

    Raises:
        TypeError: the column does not hold strings.
    """

    def hashes(array: pa.Array) -> npt.NDArray[np.uint32]:
        result = np.empty(len(array), np.uint32)
        for rows, hashed in murmur2_hudi_rounds(*string_buffers(array), seed, 1):
            result[rows] = hashed
        return result

    return _map_texts(column, hashes).view(np.int32)


def string_buffers(array: pa.Array) -> tuple[_Bytes, _Offsets]:
    """Return the bytes of a string array and its rows + 1 offsets into them, nulls as empty.

    The bytes of a string or binary array without nulls are not copied. The first offset need not be
    0.

    Raises:
        TypeError: the array does not hold strings.
    """
    array = _plain(array)
    if array.null_count:
        array = array.fill_null(b"" if _is_binary(array) else "")
    if len(array) == 0:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    _, offset_buffer, data_buffer = array.buffers()
    width: type[Any] = np.int64 if str(array.type).startswith("large") else np.int32
    offsets = np.frombuffer(offset_buffer, width)[array.offset : array.offset + len(array) + 1]
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return data, offsets.astype(np.int64, copy=False)


# columns


def _plain(array: pa.Array) -> pa.Array:
    """Return the array as string, large_string, binary or large_binary."""
    kind = str(array.type)
    if kind in {"string", "large_string", "binary", "large_binary"}:
        return array
    if kind in {"string_view", "binary_view", "null"}:
        return array.cast(pa.large_binary() if kind == "binary_view" else pa.large_string())
    if pa.types.is_dictionary(array.type):
        return _plain(array.dictionary).take(array.indices)  # Arrow takes nothing of views
    raise TypeError(f"expected a column of strings, not {kind}")


def _is_binary(array: pa.Array) -> bool:
    return str(array.type) in {"binary", "large_binary"}


def _is_list(column: pa.Array | pa.ChunkedArray) -> bool:
    return bool(pa.types.is_list(column.type) or pa.types.is_large_list(column.type))


def _row_count(columns: Sequence[pa.Array | pa.ChunkedArray]) -> int:
    counts = {len(column) for column in columns}
    if len(counts) != 1:
        raise ValueError(f"expected columns of one length, not of {sorted(counts)} rows")
    return counts.pop()


def _map_texts(
    column: pa.Array | pa.ChunkedArray, kernel: Callable[[pa.Array], npt.NDArray[Any]]
) -> npt.NDArray[Any]:
    """Return the results of `kernel` for every chunk, once for each value of a dictionary."""
    if isinstance(column, pa.ChunkedArray):
        chunks = column.chunks or [pa.array([], column.type)]
        return np.concatenate([_map_texts(chunk, kernel) for chunk in chunks])
    if pa.types.is_dictionary(column.type):
        values = _plain(column.dictionary)
        results = kernel(pa.concat_arrays([values, pa.nulls(1, values.type)]))
        indices: npt.NDArray[np.int64] = column.indices.cast(pa.int64()).fill_null(-1).to_numpy()
        hashed: npt.NDArray[Any] = results[indices]
        return hashed
    return kernel(_plain(column))


def _list_values(column: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, _Offsets]:
    """Return the values of a list column, all in a row, and rows + 1 offsets into them."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks or [pa.array([], column.type)])
    counts = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return column.flatten(), offsets


def _null_as_text(array: pa.Array) -> pa.Array:
    return array.fill_null(b"null" if _is_binary(array) else "null") if array.null_count else array


def _joined_values(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return as large_binary, row by row, the values joined with nothing between."""
    if _is_list(column):
        values, offsets = _list_values(column)
        data, text_offsets = string_buffers(_null_as_text(_plain(values)))
        offsets = text_offsets[offsets]
    else:
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks or [pa.array([], column.type)])
        data, offsets = string_buffers(_null_as_text(_plain(column)))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


# Java's String.hashCode


def _java_array(array: pa.Array) -> _U32s:
    data, offsets = string_buffers(array)
    result = np.zeros(len(offsets) - 1, np.uint32)
    for span in row_spans(offsets, _CHUNK_ROWS, _CHUNK_BYTES):
        bounds = offsets[span.start : span.stop + 1]
        starts, counts, hashes = bounds[:-1], np.diff(bounds), result[span]
        units: npt.NDArray[Any] = data[bounds[0] : bounds[-1]]
        rows = slice(None) if counts.all() else np.flatnonzero(counts)
        counts = counts[rows]  # empty rows hash to 0, and reduceat takes none
        if len(counts) == 0:
            continue
        if units.max() < 0x80:
            hashes[rows] = _polynomials(units, counts)
            continue
        starts = starts[rows] - bounds[0]
        if is_of_many_scripts(units):
            hashes[rows] = _utf8_polynomials(units, starts)
        else:
            hashes[rows] = _polynomials(*_utf16_units(units, starts))
    return result


def _utf16_units(data: _Bytes, starts: _Offsets) -> tuple[npt.NDArray[np.uint16], _Offsets]:
    """Return the UTF-16 code units of rows of UTF-8, and how many each row has."""
    leads = (data & 0xC0) != 0x80
    if not leads[starts].all():
        raise CorruptError("a value of a string column begins within a UTF-8 character")
    try:
        units = str(data.data, "utf-8").encode("utf-16-le")
    except UnicodeDecodeError as error:
        raise CorruptError(f"a string column holds bytes that are not UTF-8: {error}") from error
    per_byte = leads.view(np.uint8)
    per_byte += data >= 0xF0  # a character of four bytes is a surrogate pair
    ends = np.cumsum(per_byte, dtype=np.int64)[np.append(starts[1:], len(data)) - 1]
    return np.frombuffer(units, "<u2"), np.diff(ends, prepend=0)


def _utf8_polynomials(data: _Bytes, starts: _Offsets) -> _U32s:
    """Return the polynomial in 31 of the UTF-16 code units of every row of UTF-8, none empty."""
    if ((data[starts] & 0xC0) == 0x80).any():
        raise CorruptError("a value of a string column begins within a UTF-8 character")
    lanes = Lanes.of(data)
    worth, begins = find_units(lanes)
    of_units = begins.view(np.uint8)
    factors = of_units * np.uint8(31 - 1)
    factors += np.uint8(1)
    counts = lanes.in_lines(of_units).copy()
    for before, line in pairwise(counts):  # the code units of each lane, up to each byte
        np.add(line, before, line)
    hashes = np.empty(counts.shape, np.uint32)
    before = np.zeros(lanes.count, np.uint32)
    lines = zip(hashes, lanes.in_lines(factors), lanes.in_lines(worth), strict=True)
    for line, factor, added in lines:  # and the polynomial of those: Horner's rule
        np.multiply(before, factor, line)
        np.add(line, added, line)
        before = line

    inverses = _powers(_INVERSE_OF_31, lanes.depth + 1)
    weights = np.ones(lanes.count + 1, np.uint32)  # of the last code unit before each lane
    np.multiply.accumulate(inverses[counts[-1]], out=weights[1:])
    sums = np.zeros(lanes.count + 1, np.uint32)  # of the weighed code units before each lane
    np.add.accumulate(hashes[-1] * weights[1:], out=sums[1:])
    lasts, lane = lanes.find(np.append(starts[1:], len(data)) - 1)
    of_lasts = weights[lane] * inverses[counts.ravel()[lasts]]
    ends = sums[lane] + hashes.ravel()[lasts] * of_lasts
    result: _U32s = np.diff(ends, prepend=np.uint32(0)) * _inverses(of_lasts)
    return result


def _polynomials(units: npt.NDArray[Any], counts: _Offsets) -> _U32s:
    """Return the polynomial in 31 of every row; `counts` are the code units of each, all > 0."""
    if len(units) > _CHUNK_BYTES:  # one long row: Horner's rule over pieces
        result = np.zeros(1, np.uint32)
        for start in range(0, len(units), _CHUNK_BYTES):
            piece = units[start : start + _CHUNK_BYTES]
            result *= np.uint32(pow(31, len(piece), 1 << 32))
            result += _polynomials(piece, np.array([len(piece)]))
        return result
    width = int(counts[0])
    if width * len(counts) == len(units) and (counts == width).all():
        rows = units.reshape(-1, width).astype(np.uint32)
        powers = np.flip(_powers(31, _CHUNK_BYTES)[:width]).copy()  # einsum is slow on a view
        alike: _U32s = np.einsum("ij,j->i", rows, powers)
        return alike
    ends = np.cumsum(counts)
    weighed = np.multiply(
        units, _powers(_INVERSE_OF_31, _CHUNK_BYTES)[: len(units)], dtype=np.uint32
    )
    sums = np.add.reduceat(weighed, ends - counts, dtype=np.uint32)
    hashes: _U32s = sums * _powers(31, _CHUNK_BYTES)[ends - 1]
    return hashes


_INVERSE_OF_31 = pow(31, -1, 1 << 32)


@lru_cache(maxsize=3)
def _powers(base: int, count: int) -> _U32s:
    """Return base^0, base^1, ... modulo 2^32."""
    powers = np.full(count, base, np.uint32)
    powers[0] = 1
    return np.multiply.accumulate(powers, dtype=np.uint32)


def _inverses(odd: _U32s) -> _U32s:
    """Return the inverses of odd numbers modulo 2^32, by Newton's method."""
    found: _U32s = odd.copy()  # right in the last 3 bits, and in twice as many after each step
    for _ in range(4):
        found *= np.uint32(2) - odd * found
    return found
