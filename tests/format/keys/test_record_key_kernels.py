"""Columns of record keys: against the scalar extraction, and against real Hudi's tables."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError, KeyEncodingError
from bucketfmt.format.buckets.partition_rules import PartitionBucketRules
from bucketfmt.format.keys import record_key_kernels
from bucketfmt.format.keys.hashing import java_list_hash
from bucketfmt.format.keys.hashing_kernels import bucket_ids, java_list_hashes
from bucketfmt.format.keys.record_key_kernels import hash_value_columns
from bucketfmt.format.keys.record_keys import (
    KeyDialect,
    dialect_for_table_version,
    extract_hash_values,
)
from tests.golden import GOLDEN
from tests.rotation import examples

TABLE_VERSIONS = {"0.15.0": 6, "1.0.2": 8, "1.2.0": 9}

KEYS = st.lists(
    st.sampled_from(["a", "b", ",", ":", ",", ":", "id", "__null__", "__empty__", "é"]), max_size=12
).map("".join)
FIELDS = st.sampled_from([[], [""], ["a"], ["id"], ["a", "b"], ["b", "id"], ["nope"]])
DIALECTS = st.sampled_from(list(KeyDialect))


def values_of(keys: pa.Array, fields: list[str], dialect: KeyDialect) -> list[list[str | None]]:
    (column,) = hash_value_columns(keys, fields, dialect)
    return [row if isinstance(row, list) else [row] for row in column.to_pylist()]


def scalar_values(key: str | None, fields: list[str], dialect: KeyDialect) -> list[str | None]:
    return [None] if key is None else extract_hash_values(key, fields, dialect)


@settings(max_examples=examples(400))
@given(st.lists(st.none() | KEYS, max_size=12), FIELDS, DIALECTS, st.integers(0, 3))
def test_columns_give_what_single_keys_give(
    keys: list[str | None], fields: list[str], dialect: KeyDialect, skipped: int
) -> None:
    array = pa.array(["x:1,y", "", None, *keys], pa.string())[3:]
    column = pa.chunked_array([array[:skipped], array[skipped:]]) if skipped else array
    try:
        expected = [scalar_values(key, fields, dialect) for key in keys]
    except KeyEncodingError as error:  # the first such key is named
        with pytest.raises(KeyEncodingError, match=f"^{re.escape(str(error))}$"):
            hash_value_columns(column, fields, dialect)
        return
    assert values_of(column, fields, dialect) == expected
    hashes = java_list_hashes(hash_value_columns(column, fields, dialect))
    assert hashes.tolist() == [java_list_hash(values) for values in expected]


@pytest.mark.parametrize("dialect", list(KeyDialect))
@pytest.mark.parametrize(
    "column",
    [
        pa.array(["key-1", "a,b", "", None]),
        pa.array(["key-1", "x"], pa.string_view()),
        pa.array(["key-1", "x", "key-1"]).dictionary_encode(),
        pa.chunked_array([["a"], [], ["b,"]], pa.large_string()),
        pa.chunked_array([], pa.string()),
    ],
)
def test_plain_keys_pass_through_untouched(
    column: pa.Array | pa.ChunkedArray, dialect: KeyDialect
) -> None:
    assert hash_value_columns(column, ["id"], dialect)[0] is column


def test_index_of_takes_keys_whole_that_lack_either_separator() -> None:
    column = pa.array(["2024-10-24 10:11:11", "id:7"])
    assert hash_value_columns(column, ["ts"], KeyDialect.INDEX_OF)[0] is column
    mixed = pa.array(["2024-10-24 10:11:11", "a,b", None])
    assert values_of(mixed, ["ts"], KeyDialect.INDEX_OF) == [
        ["2024-10-24 10:11:11"],
        ["a,b"],
        [None],
    ]


@pytest.mark.parametrize("dialect", [KeyDialect.INDEX_OF, KeyDialect.SPLIT_FILTER])
def test_keys_with_one_value_each_give_a_column_of_texts(dialect: KeyDialect) -> None:
    keys = pa.array([f"id:key-{i},name:n{i},z:{i % 7}" for i in range(50)])
    (column,) = hash_value_columns(keys, ["name"], dialect)
    assert column.type == pa.large_string()
    assert column.to_pylist() == [f"n{i}" for i in range(50)]
    (column,) = hash_value_columns(keys, ["z", "id"], dialect)
    assert column.to_pylist() == [[f"key-{i}", str(i % 7)] for i in range(50)]


@pytest.mark.parametrize("dialect", list(KeyDialect))
def test_rows_around_the_size_of_a_chunk(
    dialect: KeyDialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_key_kernels, "_CHUNK_ROWS", 2)
    monkeypatch.setattr(record_key_kernels, "_CHUNK_BYTES", 20)
    keys = ["plain", "", "a:1,b:2", None, "a:" + "x" * 50 + ",b:y", "p", "q", ""]
    expected = [scalar_values(key, ["a"], dialect) for key in keys]
    assert values_of(pa.array(keys), ["a"], dialect) == expected


def test_a_key_that_hangs_hudi_is_named() -> None:
    keys = pa.array(["id:6,note:x", "id:7,note:a:b", "id:8,note:c:d"])
    with pytest.raises(KeyEncodingError, match="id:7,note:a:b"):
        hash_value_columns(keys, ["id"], KeyDialect.INDEX_OF)


@pytest.mark.parametrize("dialect", list(KeyDialect))
def test_bytes_that_are_not_utf8_are_corrupt(dialect: KeyDialect) -> None:
    rows = pa.array([b"a:\xff,b:c", b"x"], pa.binary())
    lying = pa.Array.from_buffers(pa.string(), 2, rows.buffers())
    for column in (rows, lying):
        with pytest.raises(CorruptError, match="UTF-8"):
            bucket_ids(hash_value_columns(column, ["a"], dialect), 4)


@settings(max_examples=examples(150))
@given(
    st.lists(st.lists(st.sampled_from([b"a", b":", b",", b"\xff", b"\xc3\xa9"])).map(b"".join)),
    DIALECTS,
)
def test_any_bytes_give_buckets_or_a_bucketfmt_error(
    rows: list[bytes], dialect: KeyDialect
) -> None:
    binary = pa.array(rows, pa.binary())
    lying = pa.Array.from_buffers(pa.string(), len(rows), binary.buffers())
    with contextlib.suppress(CorruptError, KeyEncodingError):
        assert len(bucket_ids(hash_value_columns(lying, ["a"], dialect), 4)) == len(rows)


NUM_BUCKETS = {
    "cow": 4,
    "mor": 4,
    "mor_compacted": 4,
    "parquet_log": 4,
    "cleaned": 4,
    "mdt_bucket": 4,
    "intkey": 4,
    "nonpart": 4,  # awkward keys: separators, placeholders, emoji
    "complexkey": 4,  # key fields id and name, hash field id
    "bucket_bulk": 2,
}


@pytest.mark.parametrize(("version", "name"), [g for g in GOLDEN if g[1] in NUM_BUCKETS])
def test_hudi_put_every_key_into_the_bucket_computed_here(
    version: str, name: str, golden_expected: Callable[..., pa.Table]
) -> None:
    rows = golden_expected(version, name)
    dialect = dialect_for_table_version(TABLE_VERSIONS[version])
    values = hash_value_columns(rows["_hoodie_record_key"], ["id"], dialect)
    found = pc.utf8_slice_codeunits(rows["_hoodie_file_name"], 0, 8).cast(pa.int32())
    assert bucket_ids(values, NUM_BUCKETS[name]).tolist() == found.to_pylist()


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("partlevel", PartitionBucketRules("us,8;eu,2", 4)),
        ("partrules", PartitionBucketRules("us,1;ap,5", 2)),  # after a rescale
    ],
)
def test_hudi_put_every_key_into_the_bucket_the_partition_rules_give(
    name: str, rules: PartitionBucketRules, golden_expected: Callable[..., pa.Table]
) -> None:
    rows = golden_expected("1.2.0", name)
    for partition_path in ("us", "eu", "ap"):
        here = rows.filter(pc.equal(rows["_hoodie_partition_path"], partition_path))
        found = pc.utf8_slice_codeunits(here["_hoodie_file_name"], 0, 8).cast(pa.int32())
        values = hash_value_columns(here["_hoodie_record_key"], ["id"], KeyDialect.INDEX_OF)
        num_buckets = rules.num_buckets_for(partition_path)
        assert bucket_ids(values, num_buckets).tolist() == found.to_pylist()
        assert set(found.to_pylist()) == set(range(num_buckets))
