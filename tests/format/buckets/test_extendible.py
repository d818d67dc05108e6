"""Extendible directories: look-up, split and merge, and the files that hold them."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, LimitError
from bucketfmt.format.buckets.extendible_directory import (
    HASH_BITS,
    DirectoryBucket,
    buddy_of,
    directory_entries,
    global_depth_of,
    initial_directory,
    merge_bucket,
    split_bucket,
)
from bucketfmt.format.buckets.extendible_metadata import (
    ExtendibleMetadata,
    decode_extendible_metadata,
    encode_extendible_metadata,
    initial_extendible_metadata,
)
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.index.layout import DirectoryBuckets
from bucketfmt.limits import Limits

Buckets = tuple[DirectoryBucket, ...]


def prefix(number: int) -> str:
    return f"e{number:07x}-0000-4000-8000-000000000000"


@st.composite
def resizes(draw: st.DrawFn) -> tuple[Buckets, dict[tuple[int, int], str]]:
    """A directory after some splits and merges, and {(bucket id, depth): prefix} as a dict kept."""
    buckets = initial_directory("p", draw(st.sampled_from([1, 2, 8])))
    model = {(b.bucket_id, b.local_depth): b.file_id_prefix for b in buckets}
    for step in range(draw(st.integers(0, 12))):
        number, depth = draw(st.sampled_from(sorted(model)))
        buddy = (number ^ (1 << depth >> 1), depth)
        if draw(st.booleans()) and depth and buddy in model:
            assert buddy_of(buckets, number) is not None
            buckets = merge_bucket(buckets, number, prefix(step))
            del model[number, depth], model[buddy]
            model[min(number, buddy[0]), depth - 1] = prefix(step)
        else:
            halves = split_bucket(buckets, number, (prefix(step), prefix(step + 100)))
            assert halves is not None
            buckets = halves
            del model[number, depth]
            model[number, depth + 1] = prefix(step)
            model[number + (1 << depth), depth + 1] = prefix(step + 100)
    return buckets, model


@given(resizes(), st.lists(st.integers(0, 2**31 - 1), min_size=1))
def test_each_hash_has_the_bucket_whose_low_bits_it_has(
    resized: tuple[Buckets, dict[tuple[int, int], str]], hashes: list[int]
) -> None:
    buckets, model = resized
    assert {(b.bucket_id, b.local_depth): b.file_id_prefix for b in buckets} == model
    assert len(directory_entries(buckets)) == 1 << global_depth_of(buckets)
    layout = DirectoryBuckets(buckets, ("id",), KeyDialect.INDEX_OF)
    assert tuple(layout.bucket_ids) == tuple(b.bucket_id for b in buckets)
    for kind in (np.uint32, np.int64):
        own = layout.buckets_of_hashes(np.array(hashes, kind)).tolist()
        expected = [next(n for n, d in model if h % (1 << d) == n) for h in hashes]
        assert own == expected
    assert [layout.bucket_of(layout.new_file_id(n, "")) for n in own] == own
    metadata = ExtendibleMetadata(
        0, "p", "20260101000000000", 1, 3, global_depth_of(buckets), buckets
    )
    assert decode_extendible_metadata(encode_extendible_metadata(metadata)) == metadata


@given(resizes(), resizes(), st.lists(st.text(min_size=1), min_size=1, max_size=20))
def test_directories_meet_at_the_buckets_that_neither_divides(
    one: tuple[Buckets, object], other: tuple[Buckets, object], keys: list[str]
) -> None:
    first, second = (DirectoryBuckets(b, ("id",), KeyDialect.INDEX_OF) for b, _ in (one, other))
    common = first.meet(second)
    assert isinstance(common, DirectoryBuckets)
    entries = [directory_entries(b) for b in (one[0], other[0])]
    entries.append(directory_entries(common.buckets, is_whole=False))
    size = max(map(len, entries))
    of_first, of_second, of_both = (np.tile(e, size // len(e)) for e in entries)
    for own in (of_first, of_second):
        assert all(len(set(of_both[own == bucket])) == 1 for bucket in set(own.tolist()))
    shallower = np.minimum(_depths(first, size), _depths(second, size))
    assert (_depths(common, size) == shallower).all()
    column = pa.array(keys)
    assert common.buckets_of_hashes(first.assign(column)).tolist() == common.assign(column).tolist()


def _depths(layout: DirectoryBuckets, size: int) -> np.ndarray:
    """Return the local depth behind each entry of a directory of that size."""
    depth_of = {b.bucket_id: b.local_depth for b in layout.buckets}
    entries = directory_entries(layout.buckets, is_whole=False)
    return np.array([depth_of[int(n)] for n in np.tile(entries, size // len(entries))])


def test_the_first_directory_follows_from_path_and_number() -> None:
    buckets = initial_directory("p", 4)
    assert [(b.bucket_id, b.local_depth) for b in buckets] == [(0, 2), (1, 2), (2, 2), (3, 2)]
    assert buckets == initial_directory("p", 4) != initial_directory("q", 4)
    assert {b.file_id_prefix for b in buckets}.isdisjoint(
        b.file_id_prefix for b in initial_directory("p", 8)
    )
    for number in (0, 3, -2, 1 << 32):
        with pytest.raises(ValueError, match="begins with"):
            initial_directory("p", number)


def test_what_cannot_be_split_or_merged() -> None:
    deepest = [DirectoryBucket(0, HASH_BITS, prefix(0))]
    deepest += [DirectoryBucket(1 << n, n + 1, prefix(n + 1)) for n in range(HASH_BITS)]
    assert split_bucket(deepest, 0, (prefix(90), prefix(91))) is None
    with pytest.raises(ValueError, match="no buddy"):
        merge_bucket(deepest, 1, prefix(90))
    with pytest.raises(ValueError, match="no bucket 7"):
        split_bucket(deepest, 7, (prefix(90), prefix(91)))


EXAMPLE = encode_extendible_metadata(initial_extendible_metadata("a", 2))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (EXAMPLE, b"{" * 100_000, "hashing metadata"),
        (b'"version" : 0', b'"version" : 0, "version" : 0', "given twice"),
        (b'"bucketId" : 0', b'"bucketId" : 0, "bucketId" : 0', "given twice"),
        (b'"globalDepth" : 1', b'"globalDepth" : 2', "global depth is 2"),
        (b'"bucketId" : 1', b'"bucketId" : 0', "ids ascend"),
        (b'"bucketId" : 1', b'"bucketId" : 2', "ids ascend"),
        (b'"localDepth" : 1', b'"localDepth" : 32', "localDepth"),
        (b'"localDepth" : 1', b'"localDepth" : 0', "ids ascend"),
        (b'"fileIdPrefix" : "e', b'"fileIdPrefix" : "../', "fileIdPrefix"),
        (b'"00000000000000"', b'"../../x"', "instant"),
    ],
)
def test_what_is_no_directory_is_corrupt(old: bytes, new: bytes, message: str) -> None:
    data = EXAMPLE.replace(old, new)
    assert data != EXAMPLE
    with pytest.raises(CorruptError, match=message):
        decode_extendible_metadata(data)


def test_limits_hold() -> None:
    with pytest.raises(LimitError, match="directory_depth_max"):
        decode_extendible_metadata(EXAMPLE, Limits(directory_depth_max=0))
    with pytest.raises(LimitError, match="hashing_metadata_bytes_max"):
        decode_extendible_metadata(EXAMPLE, Limits(hashing_metadata_bytes_max=100))
    document = json.loads(EXAMPLE)
    document["buckets"] = [
        {"bucketId": 0, "localDepth": 31, "fileIdPrefix": prefix(0)},
        *(
            {"bucketId": 1 << n, "localDepth": n + 1, "fileIdPrefix": prefix(n + 1)}
            for n in range(31)
        ),
    ]
    document["globalDepth"] = 31  # 32 buckets that ask for 2^31 entries
    with pytest.raises(LimitError, match="directory_depth_max"):
        decode_extendible_metadata(json.dumps(document).encode())


@given(st.binary() | st.lists(st.sampled_from(EXAMPLE.split(b" "))).map(b" ".join))
def test_any_bytes_decode_or_raise(data: bytes) -> None:
    decode: Callable[[bytes], ExtendibleMetadata] = decode_extendible_metadata
    try:
        assert msgspec.structs.asdict(decode(data))
    except BucketfmtError:
        return
