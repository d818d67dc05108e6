"""Column hashes against the scalar ones, over every kind of column."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError
from bucketfmt.format.keys import hashing_kernels
from bucketfmt.format.keys.hashing import (
    java_list_hash,
    java_string_hash,
    murmur2_hudi,
    xxhash32,
    xxhash64,
)
from bucketfmt.format.keys.hashing_kernels import (
    bucket_ids,
    java_list_hashes,
    java_string_hashes,
    murmur2_hudi_hashes,
    string_buffers,
    xxhash32s,
    xxhash64s,
)
from bucketfmt.format.keys.lock_step import murmur2_hudi_rounds
from bucketfmt.format.keys.utf8_units import is_of_many_scripts
from tests.format.keys.test_hashing import LIST_HASHES, RING_HASHES
from tests.rotation import examples

Rows = list[str | None]

TEXTS = st.one_of(
    st.none(),
    st.text("abc019-_", max_size=40),
    st.text(max_size=30),
    st.text("aé日😀\0", max_size=70),
)


def as_dictionary(rows: Rows) -> pa.Array:
    return pa.array(rows, pa.string()).dictionary_encode()


def as_slice(rows: Rows) -> pa.Array:
    return pa.array(["before", None, *rows, "behind"])[2 : len(rows) + 2]


def as_chunks(rows: Rows) -> pa.ChunkedArray:
    array = pa.array(rows, pa.string())
    return pa.chunked_array([array[:2], array[2:2], array[2:]])


def as_binary(rows: Rows) -> pa.Array:
    return pa.array([row if row is None else row.encode() for row in rows], pa.binary())


COLUMNS: dict[str, Callable[[Rows], pa.Array | pa.ChunkedArray]] = {
    "string": lambda rows: pa.array(rows, pa.string()),
    "large_string": lambda rows: pa.array(rows, pa.large_string()),
    "string_view": lambda rows: pa.array(rows, pa.string_view()),
    "binary": as_binary,
    "large_binary": lambda rows: as_binary(rows).cast(pa.large_binary()),
    "dictionary": as_dictionary,
    "slice": as_slice,
    "slice of a dictionary": lambda rows: as_dictionary(["x", *rows, None])[1 : len(rows) + 1],
    "chunks": as_chunks,
    "no chunks": lambda rows: pa.chunked_array(
        [pa.array(rows, pa.string())] if rows else [], pa.string()
    ),
}


@pytest.mark.parametrize("kind", COLUMNS)
@settings(max_examples=examples(25))
@given(rows=st.lists(TEXTS, max_size=12))
def test_every_kind_of_column_hashes_as_its_values_do(kind: str, rows: Rows) -> None:
    column = COLUMNS[kind](rows)
    some = [row or "" for row in rows]
    shown = ["null" if row is None else row for row in rows]
    assert java_string_hashes(column).tolist() == [java_string_hash(row) for row in some]
    assert java_list_hashes([column]).tolist() == [java_list_hash([row]) for row in rows]
    assert xxhash32s([column]).tolist() == [xxhash32(row.encode()) for row in shown]
    assert xxhash64s(column, 7).tolist() == [xxhash64(row.encode(), 7) for row in some]
    assert murmur2_hudi_hashes(column, -3).tolist() == [murmur2_hudi(r.encode(), -3) for r in some]


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=12), st.sampled_from(list(COLUMNS)))
def test_several_columns_are_one_list(rows: list[tuple[str | None, str | None]], kind: str) -> None:
    columns = [COLUMNS[kind]([row[0] for row in rows]), pa.array([r[1] for r in rows], pa.string())]
    joined = ["".join("null" if value is None else value for value in row) for row in rows]
    assert java_list_hashes(columns).tolist() == [java_list_hash(row) for row in rows]
    assert xxhash32s(columns).tolist() == [xxhash32(text.encode()) for text in joined]


@settings(max_examples=examples(50))
@given(st.lists(st.none() | st.lists(TEXTS, max_size=4), max_size=12), st.booleans())
def test_a_list_column_stands_for_its_values(lists: list[Rows | None], large: bool) -> None:
    column = pa.array([["x"], *lists], pa.list_(pa.string()))[1:]
    if large:
        column = column.cast(pa.large_list(pa.large_string()))
    rows = [values or [] for values in lists]
    joined = ["".join("null" if value is None else value for value in row) for row in rows]
    for same in (column, pa.chunked_array([column[:3], column[3:]])):
        assert java_list_hashes([same]).tolist() == [java_list_hash(row) for row in rows]
        assert xxhash32s([same]).tolist() == [xxhash32(text.encode()) for text in joined]


def test_the_vectors_of_the_releases() -> None:
    values = [vector[0] for vector in LIST_HASHES]
    column = pa.array(values, pa.list_(pa.string()))
    assert java_list_hashes([column]).tolist() == [vector[1] for vector in LIST_HASHES]
    assert bucket_ids([column], 256).tolist() == [vector[4] for vector in LIST_HASHES]
    texts = pa.array([text for text, _ in RING_HASHES])
    assert (xxhash32s([texts]) & 0x7FFFFFFF).tolist() == [value for _, value in RING_HASHES]


@pytest.mark.parametrize("num_buckets", [1, 2, 4, 7, 256, 99_999_999, 2**31 - 1])
def test_bucket_ids_are_remainders(num_buckets: int) -> None:
    keys = [f"key-{i}" for i in range(500)] + ["polygenelubricants"]  # hash -2^31
    expected = [(java_list_hash([key]) & 0x7FFFFFFF) % num_buckets for key in keys]
    assert bucket_ids([pa.array(keys)], num_buckets).tolist() == expected


@pytest.mark.parametrize("num_buckets", [0, -1, 2**31])
def test_bucket_ids_refuse_a_number_that_is_no_positive_int32(num_buckets: int) -> None:
    with pytest.raises(ValueError, match="num_buckets"):
        bucket_ids([pa.array(["a"])], num_buckets)


def test_rows_around_the_size_of_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing_kernels, "_CHUNK_ROWS", 5)
    lengths = [0, 1, 31, 32, 33, 0, 0, 70, 300, 0, 64, 3]
    for alphabet in ("ab", "é", "日a", "😀b"):
        rows = [(alphabet * length)[:length] for length in lengths] * 3
        for size in (32, 64):
            monkeypatch.setattr(hashing_kernels, "_CHUNK_BYTES", size)
            hashes = java_string_hashes(pa.array(rows))
            assert hashes.tolist() == [java_string_hash(row) for row in rows]


@pytest.mark.parametrize("length", [1, 8, 33])
@pytest.mark.parametrize("alphabet", ["abcdefg", "é", "日", "😀"])
def test_rows_of_one_length(alphabet: str, length: int) -> None:
    rows = [(alphabet[start:] + alphabet * length)[:length] for start in range(len(alphabet))]
    expected = [java_string_hash(row) for row in rows]
    assert java_string_hashes(pa.array(rows)).tolist() == expected
    assert java_string_hashes(pa.array(["another", *rows])[1:]).tolist() == expected


def test_rows_longer_than_a_chunk() -> None:
    rows = ["x" * 200_001, "é" * 70_000, "", "😀" * 65_536, "y"]
    assert java_string_hashes(pa.array(rows)).tolist() == [java_string_hash(row) for row in rows]


@pytest.mark.parametrize("others", ["", "aéЖ日😀"])
def test_every_character(others: str) -> None:
    codes = np.array([code for code in range(0x110000) if not 0xD800 <= code < 0xE000])
    last = np.where(codes < 0x10000, codes, 0xDC00 + (codes & 0x3FF))
    first = np.where(codes < 0x10000, 0, 0xD800 + (codes - 0x10000 >> 10))
    ahead = java_string_hash(others) * np.where(codes < 0x10000, 31, 31 * 31)
    rows = [others + chr(code) for code in codes.tolist()]
    expected = (ahead + first * 31 + last).astype(np.uint32).view(np.int32)
    assert np.array_equal(java_string_hashes(pa.array(rows)), expected)


@pytest.mark.parametrize("behind", [[], ["é"]])
def test_what_is_not_utf8_is_corrupt_amid_many_scripts(behind: list[str]) -> None:
    seconds = [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF]
    tails = [b"", b"\x80", b"\xbf", b"\x80\xbf", b"\xbfA", b"\x80\x80\x80"]
    heads = [bytes([first, second]) for first in range(0x7F, 0x100) for second in seconds]
    before = "aéЖ日😀" * 100
    for row in (head + tail for head in heads for tail in tails):
        column = pa.array([before.encode(), row, *map(str.encode, behind)], pa.binary())
        try:
            texts = [row.decode(), *behind]
        except UnicodeDecodeError:
            with pytest.raises(CorruptError, match="UTF-8"):
                java_string_hashes(column)
        else:
            expected = [java_string_hash(text) for text in texts]
            assert java_string_hashes(column).tolist()[1:] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("aé" * 20, True),
        ("日abc" * 20, True),
        ("日abcdefgh" * 20, False),
        ("日本" * 20, False),
        ("a" * 2000 + "aé" * 2000, False),
        ("é", False),
    ],
)
def test_scripts_alternate_where_each_fourth_character_has_another_length(
    text: str, expected: bool
) -> None:
    assert is_of_many_scripts(np.frombuffer(text.encode(), np.uint8)) == expected


def test_many_rows_of_many_lengths_in_lock_step() -> None:
    rows = [f"{i * 2654435761:x}" * (i % 13) for i in range(40_000)]
    hashes, murmurs = xxhash32s([pa.array(rows)]), murmur2_hudi_hashes(pa.array(rows), 0)
    for index in range(0, len(rows), 97):
        assert hashes[index] == xxhash32(rows[index].encode())
        assert murmurs[index] == murmur2_hudi(rows[index].encode(), 0)


@pytest.mark.parametrize("length", range(70))
def test_rows_of_one_length_are_read_where_they_are(length: int) -> None:
    rows = [f"{i * 2654435761:x}" * 10 for i in range(1, 9)]
    rows = [row[:length] for row in rows]
    column = pa.array(["before", *rows])[1:]
    assert xxhash32s([column]).tolist() == [xxhash32(row.encode()) for row in rows]
    assert xxhash64s(column, 7).tolist() == [xxhash64(row.encode(), 7) for row in rows]
    assert murmur2_hudi_hashes(column, 1).tolist() == [murmur2_hudi(r.encode(), 1) for r in rows]


@pytest.mark.parametrize("rows", [[], [""], ["", ""], [None], [None, ""]])
def test_columns_without_a_byte(rows: Rows) -> None:
    column = pa.array(rows, pa.string())
    assert java_string_hashes(column).tolist() == [0] * len(rows)
    assert java_string_hashes(pa.nulls(len(rows))).tolist() == [0] * len(rows)
    assert xxhash32s([column]).dtype == np.uint32
    assert xxhash64s(column, 0).tolist() == [xxhash64(b"")] * len(rows)
    assert murmur2_hudi_hashes(column, 1).dtype == np.int32


def test_results_have_the_types_of_java_and_of_xxhash() -> None:
    column = pa.array(["a"])
    assert java_string_hashes(column).dtype == java_list_hashes([column]).dtype == np.int32
    assert bucket_ids([column], 3).dtype == np.int32
    assert xxhash64s(column, 0).dtype == np.uint64


def test_string_buffers_does_not_copy() -> None:
    array = pa.array(["ab", "cd", "ef"])
    data, offsets = string_buffers(array[1:])
    assert data.ctypes.data == array.buffers()[2].address
    assert offsets.tolist() == [2, 4, 6]


@pytest.mark.parametrize(
    "rows", [[b"\xff"], [b"a\xc3", b"\xa9b"], [b"\xed\xa0\x80"], [b"", b"ok", b"\xf0\x9f\x98"]]
)
def test_bytes_that_are_not_utf8_are_corrupt_for_java(rows: list[bytes]) -> None:
    binary = pa.array(rows, pa.binary())
    lying = pa.Array.from_buffers(pa.string(), len(rows), binary.buffers())
    for column in (binary, lying):
        with pytest.raises(CorruptError, match="UTF-8"):
            java_string_hashes(column)
        assert xxhash32s([column]).tolist() == [xxhash32(row) for row in rows]


@settings(max_examples=examples(200))
@given(st.lists(st.binary(max_size=9), max_size=6))
def test_any_bytes_hash_or_are_corrupt(rows: list[bytes]) -> None:
    column = pa.array(rows, pa.binary())
    try:
        texts = [row.decode() for row in rows]
    except UnicodeDecodeError:
        with pytest.raises(CorruptError):
            java_string_hashes(column)
    else:
        assert java_string_hashes(column).tolist() == [java_string_hash(text) for text in texts]


def test_columns_of_anything_else_are_refused() -> None:
    numbers = pa.array([1, 2])
    for refused in (java_string_hashes, lambda c: xxhash32s([c]), lambda c: bucket_ids([c], 4)):
        with pytest.raises(TypeError, match="int64"):
            refused(numbers)
    with pytest.raises(ValueError, match="one length"):
        java_list_hashes([pa.array(["a"]), pa.array(["a", "b"])])
    with pytest.raises(ValueError, match="one length"):
        xxhash32s([])


@pytest.mark.parametrize("number", [1, 7, 8, 9, 30])
def test_murmur_of_rows_of_very_different_lengths(number: int) -> None:
    """The longest few are hashed one after the other."""
    random = Random(number)
    lengths = [random.choice([0, 1, 3, 4, 36, 997, 4_000]) for _ in range(number)]
    keys = ["".join(random.choices("aé€𝄞0", k=length)).encode()[:length] for length in lengths]
    data = np.frombuffer(b"".join(keys), np.uint8)
    offsets = np.cumsum([0, *map(len, keys)])
    expected, found = [], []
    for _ in range(3):
        seeds = expected[-1] if expected else [5] * number
        expected.append([murmur2_hudi(k, s) for k, s in zip(keys, seeds, strict=True)])
    for rows, hashes in murmur2_hudi_rounds(data, offsets, 5, 3):
        found.append([0] * number)
        numbers = range(number)[rows] if isinstance(rows, slice) else rows
        for row, hashed in zip(numbers, hashes.view(np.int32).tolist(), strict=True):
            found[-1][row] = hashed
    assert found == expected
