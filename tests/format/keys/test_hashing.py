"""Scalar hashes against vectors made with the Hudi releases."""

from __future__ import annotations

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.format.keys.hashing import (
    bucket_of_hash,
    java_list_hash,
    java_string_hash,
    jenkins_hash,
    murmur2_hudi,
    xxhash32,
    xxhash64,
)

UUID = "c0a80101-0000-4000-8000-000000000001"

# (values, Java list hash, bucket of 4, of 10, of 256)
LIST_HASHES = [
    (["key1"], 3288529, 1, 9, 209),
    ([""], 31, 3, 1, 31),
    ([None], 31, 3, 1, 31),
    ([], 1, 1, 1, 1),
    (["abc"], 96385, 1, 5, 129),
    (["id:key1"], 1618373840, 0, 0, 208),
    (["1"], 80, 0, 0, 80),
    (["1", "x"], 2600, 0, 0, 40),
    (["1", None], 2480, 0, 0, 176),
    (["1", ""], 2480, 0, 0, 176),
    (["id:1,k2:x"], -1234476322, 2, 6, 222),
    (["2014-10-22 13:50:42"], -2011593182, 2, 6, 34),
    (["a,b"], 94710, 2, 0, 246),
    (["ключ"], 33309913, 1, 3, 217),
    (["😀"], 1772930, 2, 0, 130),
    ([UUID], -46826358, 2, 0, 138),
    (["2", "3"], 2562, 2, 2, 2),
]

# xxHash32 of the text, its low 31 bits
RING_HASHES = [
    ("", 46947589),
    ("a", 1426945110),
    ("key1", 133378825),
    ("abc", 852579327),
    ("1x", 671501283),
    ("ключ", 1328042331),
    ("😀", 1127825596),
    (UUID, 1407264109),
    ("1null", 1403886506),
    ("null", 171510893),
    ("1", 921487538),
]

# (text, seed, Murmur, Jenkins)
BLOOM_HASHES = [
    ("a", 0, -1838653602, 1490454280),
    ("a", -1, 713507990, 2103777456),
    ("ab", 7, 1643560620, -1708993992),
    ("abc", 0, 1775488903, 238646833),
    ("abcd", 0, 646393889, -1242265444),
    ("abcde", -1, -392878951, -159174895),
    ("é", 0, -384040333, -382074372),
    ("日本", -1, -727673871, -2074159795),
    ("abcé", 7, -185500720, 504314485),
    ("abcdefghijkl", 0, -859649948, 1074985083),
    ("abcdefghijklm", -1, 1534362303, -2086143629),
    ("Four score and seven years ago", 0, -373709198, 393676113),
    ("ключ-日本語-😀-key", 7, 2000098165, 606286425),
    (UUID, -1, 1246495828, -1203286820),
]

# base64 of big-endian XXH64, as in the keys of the metadata table
METADATA_KEYS = [
    ("part", "+WGrmgkN3io="),
    ("name", "F5SYxeUa1U8="),
    ("_hoodie_commit_time", "JBBzUToHtLc="),
    ("part=p1", "tssgLg9E7p0="),
    (".", "FXThHwelITM="),
    ("__partition_stat__", "2CMHrhWVE9w="),
]


@pytest.mark.parametrize(("values", "hash_value", "of_4", "of_10", "of_256"), LIST_HASHES)
def test_java_list_hash_and_bucket(
    values: list[str | None], hash_value: int, of_4: int, of_10: int, of_256: int
) -> None:
    assert java_list_hash(values) == hash_value
    assert [bucket_of_hash(hash_value, n) for n in (4, 10, 256)] == [of_4, of_10, of_256]


def test_java_string_hash_is_signed_and_takes_surrogates_apart() -> None:
    assert java_string_hash("") == 0
    assert java_string_hash("a") == 97
    assert java_string_hash("polygenelubricants") == -(2**31)
    assert java_string_hash("😀") == 31 * 0xD83D + 0xDE00
    assert java_string_hash("\ud83d") == 0xD83D  # a lone surrogate is a code unit like any other


@pytest.mark.parametrize("num_buckets", [0, -4])
def test_bucket_of_hash_refuses_a_number_that_is_not_positive(num_buckets: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        bucket_of_hash(7, num_buckets)


@pytest.mark.parametrize(("text", "ring_hash"), RING_HASHES)
def test_xxhash32(text: str, ring_hash: int) -> None:
    assert xxhash32(text.encode()) & 0x7FFFFFFF == ring_hash


@pytest.mark.parametrize(("text", "key"), METADATA_KEYS)
def test_xxhash64_makes_metadata_table_keys(text: str, key: str) -> None:
    import base64

    hashed = xxhash64(text.encode(), 0xFFFFFFFFDABADABA)
    assert base64.b64encode(hashed.to_bytes(8, "big")).decode() == key


@pytest.mark.parametrize(("text", "seed", "murmur", "jenkins"), BLOOM_HASHES)
def test_bloom_hashes(text: str, seed: int, murmur: int, jenkins: int) -> None:
    assert murmur2_hudi(text.encode(), seed) == murmur
    assert jenkins_hash(text.encode(), seed) == jenkins


@given(st.binary(max_size=150), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))
def test_xxhash_agrees_with_the_reference_library(data: bytes, seed32: int, seed64: int) -> None:
    assert xxhash32(data, seed32) == xxhash.xxh32_intdigest(data, seed32)
    assert xxhash64(memoryview(data), seed64) == xxhash.xxh64_intdigest(data, seed64)


@given(st.text())
def test_java_string_hash_is_horner_over_code_units(text: str) -> None:
    value = 0
    for character in text:
        code = ord(character)
        high, low = 0xD800 + (code - 0x10000 >> 10), 0xDC00 + (code & 0x3FF)
        for unit in (code,) if code < 0x10000 else (high, low):
            value = (31 * value + unit) % 2**32
    assert java_string_hash(text) % 2**32 == value
