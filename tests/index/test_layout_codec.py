"""Layouts as they are sent to other processes."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError
from bucketfmt.format.buckets.ring import HashingNode, initial_ring
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.index.layout import BucketLayout, FixedBuckets, RingBuckets
from bucketfmt.index.layout_codec import decode_layout, encode_layout

FIELDS = st.lists(st.sampled_from(["id", "ts", "größe"]), min_size=1, unique=True).map(tuple)
DIALECTS = st.sampled_from(KeyDialect)
LAYOUTS: st.SearchStrategy[BucketLayout] = st.one_of(
    st.builds(FixedBuckets, st.integers(1, 99_999_999), FIELDS, DIALECTS),
    st.builds(
        lambda path, n, *hashed: RingBuckets(initial_ring(path, n), *hashed),
        st.sampled_from(["", "p", "a/b"]),
        st.integers(1, 9),
        FIELDS,
        DIALECTS,
    ),
)


@given(LAYOUTS)
def test_a_layout_survives(layout: BucketLayout) -> None:
    assert decode_layout(encode_layout(layout)) == layout


@given(st.binary(max_size=60) | LAYOUTS.map(encode_layout).map(lambda data: data[:-3] + b"\xc1"))
def test_other_bytes_are_damage(data: bytes) -> None:
    try:
        decode_layout(data)
    except CorruptError:
        return
    assert encode_layout(decode_layout(data)) == msgspec.msgpack.encode(
        msgspec.msgpack.decode(data)
    )


def test_no_buckets_are_damage() -> None:
    sent = encode_layout(FixedBuckets(1, ("id",), KeyDialect.INDEX_OF))
    with pytest.raises(CorruptError, match="0 buckets"):
        decode_layout(sent.replace(b"\x01", b"\x00", 1))


def test_some_nodes_assign_the_keys_between_them_as_the_ring_does() -> None:
    ring = initial_ring("p", 8)
    whole = RingBuckets(ring, ("id",), KeyDialect.INDEX_OF)
    half = ring[3].value - (ring[3].value - ring[2].value) // 2
    nodes = (ring[2], HashingNode(half, "11111111-2222-3333-4444-555555555555"), ring[3])
    part = decode_layout(encode_layout(RingBuckets(nodes, ("id",), KeyDialect.INDEX_OF)))
    keys = pa.array([f"key-{i}" for i in range(500)])
    for old, new in zip(whole.assign(keys), part.assign(keys), strict=True):
        assert (old == ring[3].value) == (new in (half, ring[3].value))
