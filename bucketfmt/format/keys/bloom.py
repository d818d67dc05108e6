"""Bloom filters of record keys, as base file footers and the metadata table hold them.

Pure; a column kernel where it takes Arrow columns. Source: org.apache.hudi.common.bloom
(InternalBloomFilter, InternalDynamicBloomFilter, HashFunction, BloomFilterUtils). The stored form
is the base64 of

    SIMPLE      head | bits
    DYNAMIC_V0  head | i32 keys per row | i32 keys in the last row | i32 rows | rows * SIMPLE

where head is `i32 -1 | i32 hashes | u8 hash type | i32 bits`, or, from before there were versions,
`i32 hashes | i32 bits` with the Jenkins hash. Bit i is bit i % 8 of byte i // 8, lowest first.
"""

from __future__ import annotations

import math
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.encoding.cursor import Cursor
from bucketfmt.format.keys.hashing import jenkins_hash, murmur2_hudi
from bucketfmt.format.keys.hashing_kernels import string_buffers
from bucketfmt.format.keys.lock_step import murmur2_hudi_rounds
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "BloomFilter",
    "BloomFilterBuilder",
    "BloomFilterType",
    "HashType",
    "decode_bloom_filter",
    "encode_bloom_filter",
]

_VERSION = -1
_HEAD = struct.Struct(">iiBi")
_GROWTH = struct.Struct(">iii")
_OLD_HEAD_BYTES = 8
_HASHES_MAX = 1024  # a false positive rate of 1e-300 takes 997
_BITS_MAX = 2**31 - 1
_SLICE_ROWS = 1 << 16
_FIRST_ROUNDS = 4  # a full filter has half of its bits set: one foreign key in 16 gets past these


class BloomFilterType(str, Enum):
    """The values of the footer `hoodie_bloom_filter_type_code`; without it, SIMPLE."""

    SIMPLE = "SIMPLE"
    DYNAMIC_V0 = "DYNAMIC_V0"


class HashType(IntEnum):
    """The hash function. Every release that writes versions writes Murmur."""

    JENKINS = 0
    MURMUR = 1


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A bloom filter of record keys. False positives are possible, false negatives are not.

    Attributes:
        num_bits: Bits of a row.
        num_hashes: Bits that a key sets.
        hash_type: The hash function.
        rows: The bits, packed. A dynamic filter has one or more rows; each key is in one of them.
        keys_per_row: The number of keys that a row of a dynamic filter is made for; None if SIMPLE.
        keys_in_last_row: The number of keys in the last row; None if SIMPLE.
    """

    num_bits: int
    num_hashes: int
    hash_type: HashType
    rows: tuple[bytes, ...]
    keys_per_row: int | None = None
    keys_in_last_row: int | None = None

    @property
    def filter_type(self) -> BloomFilterType:
        """SIMPLE or DYNAMIC_V0."""
        simple = self.keys_per_row is None
        return BloomFilterType.SIMPLE if simple else BloomFilterType.DYNAMIC_V0

    def might_contain(self, record_key: str) -> bool:
        """Return False only if the key was not added; True for the empty key."""
        key = record_key.encode()
        candidates = self.rows
        bits = _bits_of_key(key, self.num_hashes, self.num_bits, self.hash_type)
        for bit in bits if key else ():
            candidates = tuple(row for row in candidates if row[bit >> 3] >> (bit & 7) & 1)
            if not candidates:
                return False
        return True

    def might_contain_many(self, record_keys: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
        """Return `might_contain` for every row of a column of strings; True where null.

        Raises:
            TypeError: the column does not hold strings.
        """
        results = [self._might_contain_slice(keys) for keys in _slices(record_keys)]
        return np.concatenate(results) if results else np.empty(0, np.bool_)

    def _might_contain_slice(self, keys: pa.Array) -> NDArray[np.bool_]:
        data, offsets = string_buffers(keys)
        found = self._are_set(data, offsets, min(_FIRST_ROUNDS, self.num_hashes))
        empty = offsets[1:] == offsets[:-1]
        left = np.flatnonzero(found & ~empty)
        if len(left) and self.num_hashes > _FIRST_ROUNDS:
            found[left] = self._are_set(*string_buffers(keys.take(left)), self.num_hashes)
        result: NDArray[np.bool_] = found | empty
        return result

    def _are_set(
        self, data: NDArray[np.uint8], offsets: NDArray[np.int64], rounds: int
    ) -> NDArray[np.bool_]:
        """Return per key whether some row has its first `rounds` bits."""
        rows = [np.frombuffer(row, np.uint8) for row in self.rows]
        found = np.ones((len(rows), len(offsets) - 1), np.uint8)
        for keys, bits in _rounds_of_bits(data, offsets, rounds, self.num_bits, self.hash_type):
            places, shifts = bits >> 3, (bits & 7).astype(np.uint8)
            for number, row in enumerate(rows):
                found[number, keys] &= row[places] >> shifts
        result: NDArray[np.bool_] = np.logical_or.reduce(found, axis=0)
        return result


class BloomFilterBuilder:
    """Collects keys as a Hudi writer does, with the same bytes for the same keys in the same order.

    Args:
        filter_type: `hoodie.bloom.index.filter.type`.
        num_entries: `hoodie.index.bloom.num_entries`: keys per row.
        false_positive_rate: `hoodie.index.bloom.fpp`.
        max_entries: `hoodie.bloom.index.filter.dynamic.max.entries`: a dynamic filter adds rows
            until the rows are made for this many keys; further keys go to the rows in turn.
    """

    def __init__(
        self,
        filter_type: BloomFilterType = BloomFilterType.DYNAMIC_V0,
        num_entries: int = 60_000,
        false_positive_rate: float = 1e-9,
        max_entries: int = 100_000,
    ) -> None:
        ln2 = math.log(2)
        self._num_bits = math.ceil(num_entries * (-math.log(false_positive_rate) / (ln2 * ln2)))
        self._num_hashes = math.ceil(ln2 * self._num_bits / num_entries)
        if not (0 < self._num_bits <= _BITS_MAX and self._num_hashes <= _HASHES_MAX):
            raise ValueError(
                f"a bloom filter cannot be sized for {num_entries} keys at a false "
                f"positive rate of {false_positive_rate}"
            )
        self._dynamic = filter_type is BloomFilterType.DYNAMIC_V0
        self._num_entries = num_entries
        self._max_entries = max_entries
        self._rows = [self._new_row()]
        self._keys_in_last_row = 0
        self._keys_in_turn: int | None = None  # keys added since the last row was full

    @classmethod
    def resume(cls, bloom_filter: BloomFilter, max_entries: int = 100_000) -> BloomFilterBuilder:
        """Return a builder that holds the keys of a filter and accepts more keys.

        Raises:
            UnsupportedError: the filter has no version, so it uses the Jenkins hash; make a new
                filter.
        """
        if bloom_filter.hash_type is not HashType.MURMUR:
            raise UnsupportedError("keys cannot be added to a bloom filter of Jenkins hashes")
        keys_per_row, keys = bloom_filter.keys_per_row, bloom_filter.keys_in_last_row
        # Made for one key: the keys per row that a file states are no reason for a large row.
        builder = cls(bloom_filter.filter_type, 1, max_entries=max_entries)
        builder._num_entries = keys_per_row or 1
        builder._num_bits, builder._num_hashes = bloom_filter.num_bits, bloom_filter.num_hashes
        packed = (np.frombuffer(row, np.uint8) for row in bloom_filter.rows)
        builder._rows = [
            np.unpackbits(row, count=bloom_filter.num_bits, bitorder="little").view(np.bool_)
            for row in packed
        ]
        builder._keys_in_last_row = keys or 0
        return builder

    def add(self, record_keys: pa.Array | pa.ChunkedArray) -> None:
        """Add every row of a column of strings.

        Raises:
            TypeError: the column does not hold strings.
            ValueError: a key is null or empty.
        """
        for keys in _slices(record_keys):
            for row, own in self._placed(keys):
                data, offsets = string_buffers(own)
                if np.any(offsets[1:] == offsets[:-1]):
                    raise ValueError("a record key is null or empty")
                for _, bits in _rounds_of_bits(
                    data, offsets, self._num_hashes, self._num_bits, HashType.MURMUR
                ):
                    row[bits] = True

    def _placed(self, keys: pa.Array) -> Iterator[tuple[NDArray[np.bool_], pa.Array]]:
        """Yield rows, and which of the next keys each takes (InternalDynamicBloomFilter.add)."""
        if not self._dynamic:
            yield self._rows[0], keys
            return
        while len(keys):
            if self._keys_in_turn is None and self._keys_in_last_row >= self._num_entries:
                if len(self._rows) * self._num_entries >= self._max_entries:
                    self._keys_in_turn = 0
                else:
                    self._rows.append(self._new_row())
                    self._keys_in_last_row = 0
            if self._keys_in_turn is not None:
                turns = np.arange(self._keys_in_turn, self._keys_in_turn + len(keys))
                row_of_key = np.maximum(turns - 1, 0) % len(self._rows)  # row 0 has the first two
                self._keys_in_turn += len(keys)
                self._keys_in_last_row += len(keys)
                for number, row in enumerate(self._rows):
                    yield row, keys.filter(pa.array(row_of_key == number))
                return
            fitting = min(self._num_entries - self._keys_in_last_row, len(keys))
            self._keys_in_last_row += fitting
            yield self._rows[-1], keys[:fitting]
            keys = keys[fitting:]

    def _new_row(self) -> NDArray[np.bool_]:
        return np.zeros(self._num_bits, np.bool_)

    def build(self) -> BloomFilter:
        """Return the filter of the keys so far."""
        rows = tuple(np.packbits(row, bitorder="little").tobytes() for row in self._rows)
        growth = (self._num_entries, self._keys_in_last_row) if self._dynamic else (None, None)
        return BloomFilter(self._num_bits, self._num_hashes, HashType.MURMUR, rows, *growth)


def decode_bloom_filter(
    text: str | bytes, type_code: str | None, limits: Limits = DEFAULT_LIMITS
) -> BloomFilter:
    """Return the filter that a footer or the metadata table holds as base64.

    `type_code` is the value of `hoodie_bloom_filter_type_code`; None means SIMPLE.

    Raises:
        CorruptError: the text is not such a filter.
        UnsupportedError: this release does not know the filter type, version or hash function.
        LimitError: the filter is larger than `limits.bloom_filter_bytes_max`.
    """
    try:
        filter_type = BloomFilterType(type_code.upper() if type_code else "SIMPLE")
    except ValueError:
        raise UnsupportedError(f"bloom filter type {type_code!r} is unknown") from None
    limits.check("bloom_filter_bytes_max", len(text) * 3 // 4 - 2)
    try:
        data = b64decode(text, validate=True)
    except ValueError as error:
        raise CorruptError("bloom filter is not base64") from error
    cursor = Cursor(data, limits=limits)
    head = _decode_head(cursor)
    if filter_type is BloomFilterType.SIMPLE:
        result = BloomFilter(*head, (_decode_bits(cursor, head[0]),))
    else:
        start = cursor.position
        keys_per_row, keys_in_last_row = cursor.i32("keys per row"), cursor.i32("keys")
        if keys_per_row <= 0 or keys_in_last_row < 0:
            raise CorruptError(
                f"a dynamic bloom filter of {keys_per_row} keys in a row, and {keys_in_last_row} "
                "in the last",
                offset=start,
            )
        count = cursor.count(cursor.i32("rows"), _OLD_HEAD_BYTES + (head[0] + 7) // 8, "rows")
        if count == 0:
            raise CorruptError("a dynamic bloom filter has no rows")
        rows = []
        for _ in range(count):
            if _decode_head(cursor) != head:
                raise CorruptError(
                    "a row of a dynamic bloom filter has other parameters than the filter",
                    offset=cursor.position,
                )
            rows.append(_decode_bits(cursor, head[0]))
        result = BloomFilter(*head, tuple(rows), keys_per_row, keys_in_last_row)
    cursor.expect_end("bloom filter")
    return result


def _decode_head(cursor: Cursor) -> tuple[int, int, HashType]:
    """Return bits of a row, hashes and hash type."""
    start = cursor.position
    num_hashes = cursor.i32("bloom filter version")
    hash_code = int(HashType.JENKINS)
    if num_hashes <= 0:
        if num_hashes != _VERSION:
            raise UnsupportedError(f"bloom filter version {num_hashes} is unknown", offset=start)
        num_hashes = cursor.i32("hashes")
        hash_code = cursor.u8("hash type")
    num_bits = cursor.i32("bits")
    if not 0 < num_hashes <= _HASHES_MAX or num_bits <= 0:
        raise CorruptError(f"bloom filter of {num_bits} bits, {num_hashes} hashes", offset=start)
    try:
        return num_bits, num_hashes, HashType(hash_code)
    except ValueError:
        raise UnsupportedError(
            f"bloom filter hash type {hash_code} is unknown", offset=start
        ) from None


def _decode_bits(cursor: Cursor, num_bits: int) -> bytes:
    return bytes(cursor.take((num_bits + 7) // 8, "bloom filter bits"))


def encode_bloom_filter(bloom_filter: BloomFilter) -> str:
    """Return the base64 text that goes into a footer."""
    head = _HEAD.pack(
        _VERSION, bloom_filter.num_hashes, bloom_filter.hash_type, bloom_filter.num_bits
    )
    parts = [head + row for row in bloom_filter.rows]
    if bloom_filter.keys_per_row is not None:
        growth = (bloom_filter.keys_per_row, bloom_filter.keys_in_last_row, len(parts))
        parts.insert(0, head + _GROWTH.pack(*growth))
    return b64encode(b"".join(parts)).decode()


def _slices(record_keys: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array]:
    """Yield the column in arrays of rows few enough to hash at once."""
    chunks = record_keys.chunks if isinstance(record_keys, pa.ChunkedArray) else [record_keys]
    for chunk in chunks:
        for start in range(0, len(chunk), _SLICE_ROWS):
            yield chunk.slice(start, _SLICE_ROWS)


def _bits_of_key(key: bytes, rounds: int, num_bits: int, hash_type: HashType) -> Iterator[int]:
    """Yield the bits of a key: each hash is the seed of the next (HashFunction.hash)."""
    hash_bytes = murmur2_hudi if hash_type is HashType.MURMUR else jenkins_hash
    seed = 0
    for _ in range(rounds):
        seed = hash_bytes(key, seed)
        yield abs(seed) % num_bits  # abs() after Java's %, which takes the sign of the left side


def _rounds_of_bits(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    rounds: int,
    num_bits: int,
    hash_type: HashType,
) -> Iterator[tuple[slice | NDArray[np.intp], NDArray[np.int64]]]:
    """Yield some of the keys, and the bit of each, for one hash after the other."""
    if hash_type is HashType.MURMUR:
        for keys, hashes in murmur2_hudi_rounds(data, offsets, 0, rounds):
            bits = np.abs(hashes.view(np.int32)).view(np.uint32)
            # numpy divides 32-bit numbers by a scalar with SIMD, but has no such remainder
            whole = bits // np.uint32(num_bits)
            whole *= np.uint32(num_bits)
            bits -= whole
            yield keys, bits.astype(np.int64)
        return
    texts = data.tobytes()  # key by key: Hudi itself has never written Jenkins hashes
    starts = offsets.tolist()
    bits_of_keys = [
        list(_bits_of_key(texts[start:stop], rounds, num_bits, hash_type))
        for start, stop in pairwise(starts)
    ]
    for bits in np.array(bits_of_keys, np.int64).reshape(-1, rounds).T:
        yield slice(None), bits
