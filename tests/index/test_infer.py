"""N and the hash fields are inferred from keys only where they prove a single answer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.format.keys.hashing import bucket_of_hash, java_list_hash
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.index.infer import infer_num_buckets, infer_simple_index, largest_bucket_id
from bucketfmt.index.numbered_buckets import SimpleBucketIndex

Samples = list[tuple[int, pa.ChunkedArray]]


def placed(keys: list[str], values: list[list[str]], num_buckets: int) -> Samples:
    """The keys by the bucket that the hash values put them in."""
    by_bucket: dict[int, list[str]] = {}
    for key, hashed in zip(keys, values, strict=True):
        bucket = bucket_of_hash(java_list_hash(hashed), num_buckets)
        by_bucket.setdefault(bucket, []).append(key)
    return [(bucket, pa.chunked_array([found])) for bucket, found in sorted(by_bucket.items())]


def infer(samples: Samples, *fields: str, largest: int | None = None) -> SimpleBucketIndex | None:
    largest = max(bucket for bucket, _ in samples) if largest is None else largest
    return infer_simple_index(samples, largest, fields or ("id",), KeyDialect.INDEX_OF)


def simple(num_keys: int, num_buckets: int) -> Samples:
    keys = [f"key-{i * 7919:06d}" for i in range(num_keys)]
    return placed(keys, [[key] for key in keys], num_buckets)


@given(st.integers(1, 64))
def test_the_number_the_keys_were_placed_by(num_buckets: int) -> None:
    assert infer(simple(2000, num_buckets)) == SimpleBucketIndex(num_buckets)


def test_a_multiple_fits_as_well_while_the_upper_buckets_are_empty() -> None:
    lower = [(bucket, keys) for bucket, keys in simple(400, 8) if bucket < 4]
    assert infer(lower) is None  # 4 and 8 both fit
    assert infer(lower, largest=5) == SimpleBucketIndex(8)  # the log-only bucket 5 rules out 4


def test_keys_placed_by_two_numbers_fit_none() -> None:
    first, second = simple(100, 4), simple(160, 6)
    assert infer(first + second) is None


def test_one_stray_key_fits_none() -> None:
    samples = simple(100, 4)
    stray = samples[1][1].slice(0, 1)
    assert infer([*samples, (0, stray)]) is None


@pytest.mark.parametrize(("count", "proved"), [(15, False), (16, True)])
def test_few_keys_prove_nothing(count: int, proved: bool) -> None:
    assert (infer(simple(count, 2)) is not None) is proved


def test_no_keys_and_no_key_fields_prove_nothing() -> None:
    assert infer_simple_index([], 3, ("id",), KeyDialect.INDEX_OF) is None
    assert infer_simple_index(simple(50, 4), 3, (), KeyDialect.INDEX_OF) is None


def test_keys_that_are_all_alike_prove_nothing() -> None:
    bucket = bucket_of_hash(java_list_hash(["a"]), 4)
    assert infer([(bucket, pa.chunked_array([["a"] * 50]))]) is None


def complex_key(i: int) -> tuple[str, list[str]]:
    values = [f"{i * 7919}", f"name {i * i}", f"{i % 5}"]
    names = ("id", "name", "kind")
    return ",".join(f"{n}:{v}" for n, v in zip(names, values, strict=True)), values


@pytest.mark.parametrize(
    ("chosen", "fields"),
    [((0,), ("id",)), ((1,), ("name",)), ((0, 2), ("id", "kind")), ((0, 1, 2), None)],
)
def test_the_hash_fields_are_a_subset_of_the_key(
    chosen: tuple[int, ...], fields: tuple[str, ...] | None
) -> None:
    keys, values = zip(*map(complex_key, range(500)), strict=True)
    samples = placed(list(keys), [[v[i] for i in chosen] for v in values], 7)
    assert infer(samples, "id", "name", "kind") == SimpleBucketIndex(7, fields)


def test_hash_fields_that_fit_alike_prove_none() -> None:
    """A new key may well differ: here the name repeats the id, tomorrow it need not."""
    keys = [f"id:{i},name:{i}" for i in range(200)]
    samples = placed(keys, [[str(i)] for i in range(200)], 4)
    assert infer(samples, "id", "name") is None


def test_with_one_bucket_the_hash_fields_make_no_difference() -> None:
    keys = [f"id:{i},name:{i}" for i in range(200)]
    samples = placed(keys, [[str(i)] for i in range(200)], 1)
    assert infer(samples, "id", "name") == SimpleBucketIndex(1)


def test_a_key_that_no_hash_field_can_be_read_from_proves_nothing() -> None:
    keys = pa.chunked_array([[f"id:{i},other:{i}:x" for i in range(50)]])
    assert infer([(0, keys)], "id") is None


def test_num_buckets_by_hand() -> None:
    hashes, buckets = np.array([4, 9, 14], np.int32), np.array([4, 4, 4])
    assert infer_num_buckets(hashes, buckets, 4) == 5
    assert infer_num_buckets(hashes, buckets, 5) is None
    assert infer_num_buckets(np.array([-1], np.int32), np.array([1]), 0x3FFFFFFF) == 0x7FFFFFFE
    assert infer_num_buckets(np.array([], np.int32), np.array([], np.int64), 0) is None


def test_largest_bucket_id() -> None:
    ids = ["00000003-aa-0", "00000011-bb", "00000000-0000-0000-0000-000000000000-0"]
    assert largest_bucket_id(ids) == 11
    assert largest_bucket_id([]) is None
    assert largest_bucket_id([*ids, "d2b6f626-1ad8-4c4f-84b0-f9f06e6013ae-0"]) is None
