"""What readers and writers are told by layouts and by indexes, engine by engine."""

from __future__ import annotations

import math
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError
from bucketfmt.format.buckets.index_settings import IndexSettings
from bucketfmt.format.buckets.partition_rules import PartitionBucketRules
from bucketfmt.format.buckets.ring import HashingNode, initial_ring
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.format.names.names import (
    find_bucket_id,
    format_bucket_file_id,
    format_consistent_file_id,
    format_nbcc_file_id,
)
from bucketfmt.index.layout import BucketLayout, FixedBuckets, RingBuckets
from bucketfmt.index.model import (
    BloomIndex,
    BucketIndex,
    Index,
    RecordIndex,
    StoredBuckets,
    as_bucket_index,
)
from bucketfmt.index.numbered_buckets import PartitionBucketIndex, SimpleBucketIndex
from bucketfmt.index.resolve import find_declared_index
from bucketfmt.index.stored_buckets import ConsistentHashingIndex

RULES = "us|eu,3;\\d+,7"
INDEXES: list[BucketIndex] = [
    SimpleBucketIndex(4),
    SimpleBucketIndex(1, ("a",)),
    PartitionBucketIndex(5, RULES),
    ConsistentHashingIndex(6, 2, 16, ("b", "a")),
    ConsistentHashingIndex(1),
]
UUIDS = st.uuids().map(str)
PATHS = st.sampled_from(["", "us", "2024/01", "elsewhere"])


def layout_of(index: BucketIndex, path: str) -> BucketLayout:
    return index.unproved_layout(path, ("id",), KeyDialect.INDEX_OF)


@given(st.sampled_from(INDEXES), PATHS)
def test_the_layout_is_what_the_index_says(index: BucketIndex, path: str) -> None:
    fields = index.hash_fields or ("id",)
    expected: BucketLayout
    if isinstance(index, ConsistentHashingIndex):
        nodes = initial_ring(path, index.num_buckets)
        expected = RingBuckets(nodes, fields, KeyDialect.INDEX_OF)
    else:
        number = index.num_buckets if isinstance(index, SimpleBucketIndex) else 5
        if isinstance(index, PartitionBucketIndex):
            number = PartitionBucketRules(RULES, 5).num_buckets_for(path)
        expected = FixedBuckets(number, fields, KeyDialect.INDEX_OF)
        assert expected.number_to_prove == number
    layout = layout_of(index, path)
    assert layout == expected
    assert len(layout.bucket_ids) == index.num_buckets_of(path)
    assert (layout.number_to_prove is None) is index.has_rings


def test_a_ring_in_the_table_is_the_layout() -> None:
    ring = (HashingNode(7, "x"), HashingNode(900, "y"))
    layout = ConsistentHashingIndex(64).unproved_layout(
        "p", ("id",), KeyDialect.INDEX_OF, stored=StoredBuckets(ring)
    )
    assert layout == RingBuckets(ring, ("id",), KeyDialect.INDEX_OF)
    assert layout.bucket_ids == (7, 900)


@given(st.sampled_from(INDEXES), PATHS, UUIDS, st.booleans())
def test_a_new_file_group_is_in_its_bucket(
    index: BucketIndex, path: str, uuid: str, is_shared: bool
) -> None:
    layout = layout_of(index, path)
    for bucket_id in layout.bucket_ids:
        file_id = layout.new_file_id(bucket_id, uuid, is_shared=is_shared)
        assert layout.bucket_of(file_id) == bucket_id
        if isinstance(layout, RingBuckets):
            (node,) = (node for node in layout.nodes if node.value == bucket_id)
            assert file_id == format_consistent_file_id(node.file_id_prefix or "")
        elif is_shared:
            assert file_id == format_nbcc_file_id(bucket_id)
        else:
            assert file_id == format_bucket_file_id(bucket_id, uuid)


def test_a_node_without_a_file_id_is_damage() -> None:
    layout = RingBuckets((HashingNode(5, None),), ("id",), KeyDialect.INDEX_OF)
    with pytest.raises(CorruptError, match="node 5 of the hashing metadata has no file id prefix"):
        layout.new_file_id(5, str(UUID(int=0)))


@given(
    st.sampled_from(INDEXES),
    PATHS,
    st.lists(st.tuples(st.integers(0, 9), UUIDS), max_size=12),
    st.sets(st.integers(0, 9), max_size=4),
)
def test_groups_are_by_bucket_and_those_of_none_may_hold_anything(
    index: BucketIndex, path: str, named: list[tuple[int, str]], asked: set[int]
) -> None:
    layout = layout_of(index, path)
    ids = list(layout.bucket_ids)
    file_ids = [
        layout.new_file_id(ids[number], uuid) if number < len(ids) else uuid
        for number, uuid in named
    ]
    groups = layout.groups(file_ids)
    of_none = {file_id for file_id in file_ids if layout.bucket_of(file_id) is None}
    assert groups == {
        bucket_id: [file_id for file_id in file_ids if layout.bucket_of(file_id) == bucket_id]
        for bucket_id in dict.fromkeys(map(layout.bucket_of, file_ids))
        if bucket_id is not None
    }
    wanted = {ids[number] for number in asked if number < len(ids)}
    assert layout.may_hold(file_ids, wanted) == of_none | {
        file_id for file_id in file_ids if layout.bucket_of(file_id) in wanted
    }
    for bucket_id in ids:
        own = groups.get(bucket_id, [])
        assert list(layout.write_targets(bucket_id, own)) == (own or [None])


@given(st.integers(1, 60), st.integers(1, 60))
def test_fixed_buckets_meet_at_the_greatest_common_divisor(one: int, other: int) -> None:
    layouts = [FixedBuckets(number, ("id",), KeyDialect.INDEX_OF) for number in (one, other)]
    met = layouts[0].meet(layouts[1])
    assert met is not None
    assert len(met.bucket_ids) == math.gcd(one, other)
    ring = RingBuckets(initial_ring("p", one), ("id",), KeyDialect.INDEX_OF)
    assert ring.meet(layouts[0]) is None
    assert layouts[0].meet(ring) is None


@given(UUIDS, st.integers(0, 99_999_999))
def test_the_unit_of_conflict_is_the_bucket_where_file_ids_tell_it(uuid: str, number: int) -> None:
    """As `BucketIndexConcurrentFileWritesConflictResolutionStrategy` has it."""
    for file_id in (f"{uuid}-0", format_bucket_file_id(number, uuid)):
        bucket_id = find_bucket_id(file_id)
        for index in (SimpleBucketIndex(4), PartitionBucketIndex(4, RULES)):
            assert index.conflict_unit(file_id) == (file_id if bucket_id is None else bucket_id)
        for other in (ConsistentHashingIndex(4), RecordIndex(), BloomIndex()):
            assert other.conflict_unit(file_id) == file_id


@pytest.mark.parametrize("index", INDEXES, ids=repr)
def test_properties_state_the_index(index: BucketIndex) -> None:
    settings = IndexSettings.from_properties(index.properties(("a", "b")))
    found = find_declared_index(settings, None, has_hashing_metadata=False)
    assert found.index == index.with_hash_fields(index.hash_fields or ("a", "b"))
    assert index.agrees_with(found.index)


ALL: list[Index] = [
    *INDEXES,
    SimpleBucketIndex(4, ("a",)),
    SimpleBucketIndex(4, ("b",)),
    PartitionBucketIndex(5, "us,3"),
    ConsistentHashingIndex(99, hash_fields=("z",)),
    RecordIndex(),
    BloomIndex(),
]


@pytest.mark.parametrize("one", ALL, ids=repr)
def test_what_may_be_said_of_one_table(one: Index) -> None:
    def agree(other: Index) -> bool:
        if isinstance(one, ConsistentHashingIndex):  # the ring is in the table
            return isinstance(other, ConsistentHashingIndex)
        if type(one) is not type(other):
            return False
        fields = [getattr(index, "hash_fields", None) for index in (one, other)]
        without = [as_bucket_index(index) for index in (one, other)]
        if without[0] is None or without[1] is None:
            return True
        same = without[0].with_hash_fields(None) == without[1].with_hash_fields(None)
        return same and (None in fields or fields[0] == fields[1])

    assert [one.agrees_with(other) for other in ALL] == [agree(other) for other in ALL]
