"""The ring that ranges of hash values tell."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError
from bucketfmt.format.buckets.ring import HashingNode, check_ring, find_node
from bucketfmt.format.keys.hashing import HASH_VALUE_MASK
from bucketfmt.repair.plan_ring import HashRange, find_range_of_others, leads_to, plan_ring

HASHES = st.lists(st.integers(1, HASH_VALUE_MASK), unique=True, max_size=24).map(sorted)


@given(HASHES, st.integers(0, 5), st.randoms(), st.booleans())
def test_each_node_owns_the_keys_of_its_file_group(
    hashes: list[int], empty: int, random: Random, is_over_end: bool
) -> None:
    cuts = sorted({0, len(hashes), *random.choices(range(len(hashes) + 1), k=6)})
    held = [
        HashRange(f"p{number}", hashes[start], hashes[end - 1])
        for number, (start, end) in enumerate(pairwise(cuts))
    ]
    if is_over_end and len(held) > 2:
        first, *between, last = held
        joined = HashRange("p0", first.low, last.high)
        assert find_range_of_others([*between, joined]) == ("p0", between[0].low, between[-1].high)
        held = [HashRange("p0", last.low, first.high), *between]
    ranges = [*held, *(HashRange(f"empty{number}") for number in range(empty))]
    random.shuffle(ranges)
    if not ranges:
        return
    nodes = plan_ring(ranges)
    check_ring(nodes)
    assert sorted(node.file_id_prefix or "" for node in nodes) == sorted(r.prefix for r in ranges)
    assert (nodes[-1].value == HASH_VALUE_MASK) == all((r.low or 0) <= (r.high or 0) for r in held)
    for own in held:
        for value in (own.low, own.high):
            assert find_node(nodes, value or 0).file_id_prefix == own.prefix


def test_boundaries_are_in_the_middle() -> None:
    nodes = plan_ring([HashRange("b", 300, 400), HashRange("a", 0, 99), HashRange("c", 401, 401)])
    assert [(node.value, node.file_id_prefix) for node in nodes] == [
        (199, "a"),
        (400, "b"),
        (HASH_VALUE_MASK, "c"),
    ]


def test_file_groups_without_keys_share_the_ring() -> None:
    nodes = plan_ring([HashRange(prefix) for prefix in "dcba"])
    quarter = (HASH_VALUE_MASK + 1) // 4
    assert [node.value for node in nodes] == [quarter * n - 1 for n in range(1, 5)]


def test_file_groups_whose_keys_lie_among_one_another_are_on_no_ring() -> None:
    with pytest.raises(CorruptError, match="a-0 and b-0 lie among one another"):
        plan_ring([HashRange("a", 1, 10), HashRange("b", 10, 20)])


def test_a_file_group_without_room() -> None:
    with pytest.raises(CorruptError, match="leave no room for file group b-0"):
        plan_ring([HashRange("a", 0, HASH_VALUE_MASK), HashRange("b")])


def test_whether_a_ring_leads_to_all_keys() -> None:
    nodes = (HashingNode(100, "a"), HashingNode(HASH_VALUE_MASK, "b"))
    assert leads_to(nodes, [HashRange("a", 1, 100), HashRange("b")])
    assert leads_to(nodes, [])
    assert not leads_to(nodes, [HashRange("a", 1, 101)])
    assert not leads_to(nodes, [HashRange("c")])
