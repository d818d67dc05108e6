from __future__ import annotations

import contextlib
import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, LimitError, UnsupportedError
from bucketfmt.format.keys.bloom import (
    BloomFilter,
    BloomFilterBuilder,
    BloomFilterType,
    HashType,
    decode_bloom_filter,
    encode_bloom_filter,
)
from bucketfmt.format.keys.hashing import jenkins_hash
from bucketfmt.limits import Limits
from tests.golden import GOLDEN

VECTORS = json.loads((Path(__file__).parent / "vectors" / "bloom.json").read_text())
SIMPLE, DYNAMIC = BloomFilterType.SIMPLE, BloomFilterType.DYNAMIC_V0
KEYS = [f"key{i}" for i in range(8)]


def build(keys: list[str], *settings: object) -> BloomFilter:
    builder = BloomFilterBuilder(*settings)  # type: ignore[arg-type]
    builder.add(pa.array(keys, pa.string()))
    return builder.build()


def bits(bloom_filter: BloomFilter) -> list[int]:
    (row,) = bloom_filter.rows
    return np.flatnonzero(np.unpackbits(np.frombuffer(row, np.uint8), bitorder="little")).tolist()


def test_simple_filter_of_hudi() -> None:
    text = VECTORS["simple_10_keys_0_7"]
    built = build(KEYS, SIMPLE, 10, 0.01)
    assert (built.num_bits, built.num_hashes, built.hash_type) == (96, 7, HashType.MURMUR)
    assert built.filter_type is SIMPLE
    assert encode_bloom_filter(built) == text
    assert decode_bloom_filter(text, None) == decode_bloom_filter(text, "SIMPLE") == built
    single = b64decode(encode_bloom_filter(build(["a"], SIMPLE, 10, 0.01)))
    assert single.hex() == VECTORS["simple_10_a_hex"]
    unicode = build(["é", "日本", "😀", "abc"], SIMPLE, 5, 0.01)
    assert encode_bloom_filter(unicode) == VECTORS["simple_5_unicode"]


def test_dynamic_filter_of_hudi() -> None:
    text = VECTORS["dynamic_5_20_keys_0_7"]
    built = build(KEYS, DYNAMIC, 5, 0.01, 20)
    assert built.filter_type is DYNAMIC
    assert (len(built.rows), built.keys_per_row, built.keys_in_last_row) == (2, 5, 3)
    assert encode_bloom_filter(built) == text
    assert decode_bloom_filter(text.encode(), "dynamic_v0") == built


@pytest.mark.rule("BLOOM-10")
@pytest.mark.parametrize("count", VECTORS["dynamic_5_20"])
def test_growth_of_dynamic_filters_of_hudi(count: str) -> None:
    keys = [f"key{i}" for i in range(int(count))]
    text = VECTORS["dynamic_5_20"][count]
    assert encode_bloom_filter(build(keys, DYNAMIC, 5, 0.01, 20)) == text
    in_parts = BloomFilterBuilder(DYNAMIC, 5, 0.01, 20)
    for start in range(0, len(keys), 3):
        in_parts.add(
            pa.chunked_array([keys[start : start + 2], keys[start + 2 : start + 3]], pa.string())
        )
    assert encode_bloom_filter(in_parts.build()) == text
    decoded = decode_bloom_filter(text, "DYNAMIC_V0")
    assert all(map(decoded.might_contain, keys))
    assert decoded.might_contain_many(pa.array(keys)).all()


def test_default_sizes() -> None:
    assert bits(build(["key1"], SIMPLE)) == VECTORS["simple_default_key1_bits"]
    text = encode_bloom_filter(build(["key1"]))
    assert len(text) == 431_380
    head = "ffffffff0000001e0100277d3e"
    assert b64decode(text)[:38].hex() == f"{head}0000ea600000000100000001{head}"


@pytest.mark.parametrize(("num_entries", "rate", "head"), VECTORS["sizes"])
def test_sizes_of_hudi(num_entries: int, rate: float, head: str) -> None:
    text = encode_bloom_filter(BloomFilterBuilder(SIMPLE, num_entries, rate).build())
    assert b64decode(text)[:13].hex() == head


@pytest.mark.rule("BLOOM-1", "BLOOM-5")
def test_footers_of_hudi(golden: Callable[[str, str], Path]) -> None:
    """Every key of a base file is in its filter; its keys make the same filter again."""
    tables = [
        entry for entry in GOLDEN if entry[1] in {"bloom", "clustered", "cow", "mor", "nonpart"}
    ]
    checked = 0
    for path in (path for table in tables for path in golden(*table).rglob("*.parquet")):
        footer = pq.read_metadata(path).metadata or {}
        text = footer.get(b"org.apache.hudi.bloomfilter")
        if text is None:
            continue
        decoded = decode_bloom_filter(text, footer[b"hoodie_bloom_filter_type_code"].decode())
        keys = pq.read_table(path, columns=["_hoodie_record_key"]).column(0)
        assert decoded.might_contain_many(keys).all()
        assert not decoded.might_contain("no such key")
        assert decoded.keys_per_row is not None
        rebuilt = BloomFilterBuilder(num_entries=decoded.keys_per_row)
        rebuilt.add(keys)
        assert encode_bloom_filter(rebuilt.build()).encode() == text
        checked += 1
    assert checked > 10


@given(
    st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=30),
    st.sampled_from(BloomFilterType),
)
def test_no_key_is_lost(keys: list[str], filter_type: BloomFilterType) -> None:
    built = build(keys, filter_type, 10, 0.01, 20)
    assert built.might_contain_many(pa.array(keys)).all()
    assert all(map(built.might_contain, keys))
    assert decode_bloom_filter(encode_bloom_filter(built), filter_type.value) == built


@pytest.mark.parametrize("hash_type", HashType)
def test_columns_and_single_keys_agree(hash_type: HashType) -> None:
    noise = np.random.default_rng(7).integers(0, 256, 60, np.uint8) | 0x55
    rows = (noise.tobytes(), noise[::-1].tobytes())
    bloom_filter = BloomFilter(475, 6, hash_type, rows, 5, 5)
    keys = ["", "a", "é", *(f"key{i}" for i in range(500))]
    expected = [bloom_filter.might_contain(key) for key in keys]
    assert 0 < sum(expected) < len(keys)
    assert expected[0]
    array = pa.array(keys)
    for column in (
        array,
        array.cast(pa.large_string()),
        array.dictionary_encode(),
        pa.chunked_array([array[:200], array[200:]]),
        pa.concat_arrays([pa.array(["x"]), array])[1:],
    ):
        assert bloom_filter.might_contain_many(column).tolist() == expected
    assert bloom_filter.might_contain_many(pa.array([None, "", None], pa.string())).all()
    assert bloom_filter.might_contain_many(pa.array([], pa.string())).tolist() == []
    assert bloom_filter.might_contain_many(pa.chunked_array([], pa.string())).tolist() == []
    with pytest.raises(TypeError):
        bloom_filter.might_contain_many(pa.array([1]))


def test_more_rows_than_are_hashed_at_once() -> None:
    built = build(KEYS, SIMPLE, 10, 0.01)
    column = pa.array([f"key{i % 7}" for i in range(40_000)])
    assert built.might_contain_many(column).all()


def old_filter(key: str) -> bytes:
    """A filter from before there were versions: three Jenkins hashes, 64 bits."""
    row, seed = bytearray(8), 0
    for _ in range(3):
        seed = jenkins_hash(key.encode(), seed)
        bit = abs(seed) % 64
        row[bit // 8] |= 1 << bit % 8
    return struct.pack(">ii", 3, 64) + row


def test_old_format() -> None:
    decoded = decode_bloom_filter(b64encode(old_filter("key1")), None)
    assert (decoded.hash_type, decoded.num_hashes, decoded.num_bits) == (HashType.JENKINS, 3, 64)
    assert decoded.might_contain("key1")
    assert not decoded.might_contain("key2")
    found = decoded.might_contain_many(pa.array(["key1", "key2", None]))
    assert found.tolist() == [True, False, True]
    assert decode_bloom_filter(encode_bloom_filter(decoded), None) == decoded


def test_keys_hudi_cannot_add() -> None:
    for keys in ([""], ["a", None]):
        with pytest.raises(ValueError, match="null or empty"):
            BloomFilterBuilder().add(pa.array(keys, pa.string()))
    for settings in ((SIMPLE, 1, 1e-320), (SIMPLE, 2**31, 0.1), (SIMPLE, 10, 1.0)):
        with pytest.raises(ValueError, match="keys at a false positive rate"):
            BloomFilterBuilder(*settings)


def _dynamic(keys_per_row: int, keys: int) -> str:
    """A dynamic filter of one row of 8 bits, as hexadecimal digits."""
    head = "ffffffff000000010100000008"
    return head + struct.pack(">iii", keys_per_row, keys, 1).hex() + head + "00"


def test_a_false_size_makes_no_row() -> None:
    forged = decode_bloom_filter(b64encode(bytes.fromhex(_dynamic(2**31 - 1, 0))), "DYNAMIC_V0")
    builder = BloomFilterBuilder.resume(forged)
    builder.add(pa.array(["a", "b"]))
    grown = builder.build()
    assert (grown.num_bits, grown.keys_per_row, grown.keys_in_last_row) == (8, 2**31 - 1, 2)
    assert grown.might_contain_many(pa.array(["a", "b"])).all()


@pytest.mark.parametrize(
    ("data", "type_code", "error", "message"),
    [
        ("", None, CorruptError, "left"),
        ("ffffffff", None, CorruptError, "left"),
        ("fffffffe", None, UnsupportedError, "version -2"),
        ("00000000", None, UnsupportedError, "version 0"),
        ("ffffffff00000001020000000801", None, UnsupportedError, "hash type 2"),
        ("ffffffff00000000010000000801", None, CorruptError, "0 hashes"),
        ("ffffffff00000401010000000801", None, CorruptError, "1025 hashes"),
        ("ffffffff00000001010000000001", None, CorruptError, "0 bits"),
        ("ffffffff0000000101ffffffff01", None, CorruptError, "-1 bits"),
        ("ffffffff00000001010000000901", None, CorruptError, "left"),
        ("ffffffff00000001017fffffff01", None, CorruptError, "left"),
        ("ffffffff0000000101000000080101", None, CorruptError, "follow"),
        (
            "ffffffff000000010100000008" + "00000005" * 2 + "00000000",
            "DYNAMIC_V0",
            CorruptError,
            "rows",
        ),
        (
            "ffffffff000000010100000008" + "00000005" * 2 + "ffffffff",
            "DYNAMIC_V0",
            CorruptError,
            "rows",
        ),
        (
            "ffffffff000000010100000008" + "00000005" * 2 + "7fffffff",
            "DYNAMIC_V0",
            CorruptError,
            "fit",
        ),
        (
            "ffffffff000000010100000008"
            + "00000005" * 2
            + "00000001"
            + "00000001000000080100000000",
            "DYNAMIC_V0",
            CorruptError,
            "other parameters",
        ),
        (_dynamic(0, 0), "DYNAMIC_V0", CorruptError, "0 keys in a row"),
        (_dynamic(-1, 0), "DYNAMIC_V0", CorruptError, "-1 keys in a row"),
        (_dynamic(5, -1), "DYNAMIC_V0", CorruptError, "-1 in the last"),
        ("ffffffff00000001010000000801", "DYNAMIC_V1", UnsupportedError, "DYNAMIC_V1"),
    ],
)
def test_damage_is_named(
    data: str, type_code: str | None, error: type[BucketfmtError], message: str
) -> None:
    with pytest.raises(error, match=message):
        decode_bloom_filter(b64encode(bytes.fromhex(data)), type_code)


@pytest.mark.parametrize("text", ["/", "????", "é", "AAAA\nAAAA"])
def test_no_base64(text: str) -> None:
    with pytest.raises(CorruptError, match="base64"):
        decode_bloom_filter(text, None)


@pytest.mark.rule("BLOOM-9")
def test_limit() -> None:
    text = VECTORS["simple_10_keys_0_7"]
    with pytest.raises(LimitError, match="bloom_filter_bytes_max"):
        decode_bloom_filter(text, None, Limits(bloom_filter_bytes_max=20))


@given(
    st.sampled_from(["SIMPLE", "DYNAMIC_V0"]),
    st.sampled_from(["", "ffffffff"]),
    st.binary(max_size=60),
)
def test_any_bytes_decode_or_are_refused(type_code: str, head: str, tail: bytes) -> None:
    with contextlib.suppress(BucketfmtError):
        decoded = decode_bloom_filter(b64encode(bytes.fromhex(head) + tail), type_code)
        decoded.might_contain("key")
        decoded.might_contain_many(pa.array(["key", ""]))
