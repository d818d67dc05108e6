"""The hash functions of the format, for one value at a time.

Pure. `hashing_kernels` has the same functions for whole columns, and is to be used for many values.
Sources: `java.lang.String.hashCode`, `java.util.List.hashCode`,
`BucketIdentifier.getBucketId`, `HashID` (xxHash), `MurmurHash`, `JenkinsHash`.

All arithmetic is modulo 2^32 (2^64 for XXH64). The Java hashes, Murmur and Jenkins are Java
ints and come back signed; the xxHash functions come back unsigned, as their authors print
them.
"""

from __future__ import annotations

from collections.abc import Sequence

from bucketfmt.format.encoding.cursor import Buffer

__all__ = [
    "HASH_VALUE_MASK",
    "MURMUR2_MULTIPLIER",
    "XXHASH32_PRIMES",
    "XXHASH64_PRIMES",
    "bucket_of_hash",
    "java_list_hash",
    "java_string_hash",
    "jenkins_hash",
    "murmur2_hudi",
    "xxhash32",
    "xxhash64",
]

HASH_VALUE_MASK = 0x7FFFFFFF  # Integer.MAX_VALUE: what both engines keep of a hash

_M32 = 0xFFFFFFFF
_M64 = 0xFFFFFFFFFFFFFFFF

# the primes 1 to 5 of the two xxHash functions, as their specification numbers them
XXHASH32_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
XXHASH64_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
MURMUR2_MULTIPLIER = 0x5BD1E995

_P32_1, _P32_2, _P32_3, _P32_4, _P32_5 = XXHASH32_PRIMES
_P64_1, _P64_2, _P64_3, _P64_4, _P64_5 = XXHASH64_PRIMES


def java_string_hash(text: str) -> int:
    """Return `text.hashCode()`: a signed 32-bit polynomial in 31 over UTF-16 code units."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass"))
    value = 0
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + low + (high << 8)) & _M32
    return _signed(value)


def java_list_hash(values: Sequence[str | None]) -> int:
    """Return the `hashCode()` of a Java list of strings: signed 32-bit; null hashes to 0."""
    result = 1
    for value in values:
        result = (31 * result + (0 if value is None else java_string_hash(value))) & _M32
    return _signed(result)


def bucket_of_hash(hash_value: int, num_buckets: int) -> int:
    """Return the bucket id of a list hash in a partition of `num_buckets` buckets.

    Raises:
        ValueError: `num_buckets` is less than one.
    """
    if num_buckets < 1:
        raise ValueError(f"num_buckets must be at least 1, not {num_buckets}")
    return (hash_value & HASH_VALUE_MASK) % num_buckets


def xxhash32(data: Buffer, seed: int = 0) -> int:
    """Return the unsigned 32-bit xxHash of `data`: the hash of the consistent-hashing ring."""
    view = memoryview(data)
    size, at = len(view), 0
    if size >= 16:
        lanes = [seed + _P32_1 + _P32_2, seed + _P32_2, seed, seed - _P32_1]
        while size - at >= 16:
            for lane in range(4):
                word = _little(view, at + 4 * lane, 4)
                lanes[lane] = _rotl32(lanes[lane] + word * _P32_2, 13) * _P32_1
            at += 16
        turns = (1, 7, 12, 18)
        value = sum(_rotl32(lane, turn) for lane, turn in zip(lanes, turns, strict=True))
    else:
        value = seed + _P32_5
    value += size
    while size - at >= 4:
        value = _rotl32(value + _little(view, at, 4) * _P32_3, 17) * _P32_4
        at += 4
    for byte in view[at:]:
        value = _rotl32(value + byte * _P32_5, 11) * _P32_1
    value &= _M32
    value = ((value ^ value >> 15) * _P32_2) & _M32
    value = ((value ^ value >> 13) * _P32_3) & _M32
    return value ^ value >> 16


def xxhash64(data: Buffer, seed: int = 0) -> int:
    """Return the unsigned 64-bit xxHash of `data`.

    The metadata table hashes column names and partition paths with
    seed 0xFFFFFFFFDABADABA (Hudi's int 0xDABADABA, sign-extended).
    """
    view = memoryview(data)
    size, at = len(view), 0
    if size >= 32:
        lanes = [seed + _P64_1 + _P64_2, seed + _P64_2, seed, seed - _P64_1]
        while size - at >= 32:
            for lane in range(4):
                lanes[lane] = _round64(lanes[lane], _little(view, at + 8 * lane, 8))
            at += 32
        turns = (1, 7, 12, 18)
        value = sum(_rotl64(lane, turn) for lane, turn in zip(lanes, turns, strict=True))
        for lane in lanes:
            value = (value ^ _round64(0, lane)) * _P64_1 + _P64_4
            value &= _M64
    else:
        value = seed + _P64_5
    value = (value + size) & _M64
    while size - at >= 8:
        value = _rotl64(value ^ _round64(0, _little(view, at, 8)), 27) * _P64_1 + _P64_4
        value &= _M64
        at += 8
    if size - at >= 4:
        value = _rotl64(value ^ (_little(view, at, 4) * _P64_1) & _M64, 23) * _P64_2 + _P64_3
        value &= _M64
        at += 4
    for byte in view[at:]:
        value = (_rotl64(value ^ (byte * _P64_5) & _M64, 11) * _P64_1) & _M64
    value = ((value ^ value >> 33) * _P64_2) & _M64
    value = ((value ^ value >> 29) * _P64_3) & _M64
    return value ^ value >> 32


def murmur2_hudi(data: Buffer, seed: int) -> int:
    """Return Hudi's MurmurHash2 of `data`: a signed 32-bit integer. The bloom filters' hash.

    It is not the stock function: the one to three bytes of the tail are mixed in reversed
    order and sign-extended, so results differ for every length that is not a multiple of 4.
    """
    view = memoryview(data)
    multiplier = MURMUR2_MULTIPLIER
    value = (seed ^ len(view)) & _M32
    whole = len(view) & ~3
    for at in range(0, whole, 4):
        word = (_little(view, at, 4) * multiplier) & _M32
        word = ((word ^ word >> 24) * multiplier) & _M32
        value = ((value * multiplier) & _M32) ^ word
    tail = view[whole:]
    if tail:
        for shift, byte in zip((0, 8, 16), reversed(tail), strict=False):
            value ^= ((byte - 256 if byte >= 128 else byte) << shift) & _M32
        value = (value * multiplier) & _M32
    value = ((value ^ value >> 13) * multiplier) & _M32
    return _signed(value ^ value >> 15)


def jenkins_hash(data: Buffer, seed: int) -> int:
    """Return Bob Jenkins's lookup3 hash of `data`, signed: the hash of the oldest bloom filters."""
    view = memoryview(data)
    a = b = c = (0xDEADBEEF + len(view) + seed) & _M32
    at = 0
    while len(view) - at > 12:
        a = (a + _little(view, at, 4)) & _M32
        b = (b + _little(view, at + 4, 4)) & _M32
        c = (c + _little(view, at + 8, 4)) & _M32
        for turn in (4, 6, 8, 16, 19, 4):  # mix(): one step, its three names moving round
            a = ((a - c) & _M32) ^ _rotl32(c, turn)
            c = (c + b) & _M32
            a, b, c = b, c, a
        at += 12
    if at == len(view):
        return _signed(c)
    a = (a + int.from_bytes(view[at : at + 4], "little")) & _M32
    b = (b + int.from_bytes(view[at + 4 : at + 8], "little")) & _M32
    c = (c + int.from_bytes(view[at + 8 :], "little")) & _M32
    for turn in (14, 11, 25, 16, 4, 14, 24):  # final(), likewise; the last value is c, now named b
        c = ((c ^ b) - _rotl32(b, turn)) & _M32
        a, b, c = b, c, a
    return _signed(b)


def _little(view: memoryview, at: int, size: int) -> int:
    return int.from_bytes(view[at : at + size], "little")


def _rotl32(value: int, turn: int) -> int:
    value &= _M32
    return (value << turn | value >> (32 - turn)) & _M32


def _rotl64(value: int, turn: int) -> int:
    value &= _M64
    return (value << turn | value >> (64 - turn)) & _M64


def _round64(lane: int, word: int) -> int:
    return (_rotl64(lane + word * _P64_2, 31) * _P64_1) & _M64


def _signed(value: int) -> int:
    return value - 0x100000000 if value & 0x80000000 else value
