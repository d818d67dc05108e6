"""The consistent hashing ring: lookup and resizing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError
from bucketfmt.format.buckets.hashing_metadata import decode_hashing_metadata
from bucketfmt.format.buckets.ring import (
    HashingNode,
    apply_children,
    check_ring,
    find_node,
    find_node_indexes,
    initial_ring,
    merge_nodes,
    split_node,
)
from bucketfmt.format.keys.hashing_kernels import xxhash32s
from bucketfmt.format.keys.record_key_kernels import hash_value_columns
from bucketfmt.format.keys.record_keys import KeyDialect, extract_hash_values

MAX = 2147483647

INITIAL_RINGS = [
    ("", 1, "2147483647:360d2334-1249-37e5-9698-814cf4b62672"),
    (
        "a",
        4,
        "536870912:f439e116-a7cf-347c-a0cd-96483dc293d3 "
        "1073741824:e03e1a02-a964-35b8-bb02-36eb32ce0988 "
        "1610612736:dd3d8bfd-d4c2-32c5-89ba-6dcfc1e068cc "
        "2147483647:c84344ba-dac4-3262-9acf-05e4249447cb",
    ),
    (
        "2024/01/01",
        3,
        "715827883:ef51d3fc-322c-366e-a8a8-390d533323d3 "
        "1431655766:54be9a33-fcbc-39d3-854a-4c3dc7334c4a "
        "2147483647:556f4ec6-de37-330c-aee5-5fab26f5e828",
    ),
    (
        "p=ü",
        2,
        "1073741824:88d5d7f9-bc72-3447-9808-e9fb7d611168 "
        "2147483647:968f9e83-8f9e-3066-9ed6-22b4880d32a8",
    ),
]


def ring(*values: int) -> tuple[HashingNode, ...]:
    return tuple(HashingNode(value, f"p{value}") for value in values)


FOUR = initial_ring("a", 4)

RINGS = st.sets(st.integers(0, MAX), min_size=1, max_size=12).map(lambda v: ring(*sorted(v)))


@pytest.mark.parametrize(("partition_path", "num_buckets", "nodes"), INITIAL_RINGS)
def test_initial_ring(partition_path: str, num_buckets: int, nodes: str) -> None:
    made = initial_ring(partition_path, num_buckets)
    assert " ".join(f"{node.value}:{node.file_id_prefix}" for node in made) == nodes
    assert {node.tag for node in made} == {"NORMAL"}
    check_ring(made)


@pytest.mark.parametrize("num_buckets", [0, -1, 70_000, 2**31])
def test_initial_ring_refuses_what_is_no_ring(num_buckets: int) -> None:
    with pytest.raises(ValueError, match="bucket"):
        initial_ring("a", num_buckets)


@pytest.mark.parametrize(
    ("hash_value", "value"),
    [
        (0, 536870912),
        (1, 536870912),
        (536870912, 536870912),
        (536870913, 1073741824),
        (2147483646, MAX),
        (MAX, MAX),
        (2**32 - 1, MAX),  # unsigned xxHash: the sign bit does not count
        (2**31, 536870912),
        (-1, MAX),
    ],
)
def test_find_node(hash_value: int, value: int) -> None:
    assert find_node(FOUR, hash_value).value == value


@pytest.mark.parametrize(
    ("key", "fields", "value"),
    [
        ("key0", "id", 1610612736),
        ("key1", "id", 536870912),
        ("key2", "id", 2147483647),
        ("key10", "id", 2147483647),
        ("id:1,k2:x", "id,k2", 1073741824),
        ("id:1,k2:__null__", "id,k2", 1610612736),
        ("id:1,k2:__null__", "k2", 536870912),
        ("id:1,k2:__empty__", "id,k2", 1073741824),
    ],
)
def test_the_node_of_a_key_in_hudi(key: str, fields: str, value: int) -> None:
    hash_fields = fields.split(",")
    hashes = xxhash32s(hash_value_columns(pa.array([key]), hash_fields, KeyDialect.INDEX_OF))
    assert find_node(FOUR, int(hashes[0])).value == value
    values = extract_hash_values(key, hash_fields, KeyDialect.INDEX_OF)
    assert xxhash32s([pa.array([values])]).tolist() == hashes.tolist()


@given(RINGS, st.lists(st.integers(0, 2**32 - 1), max_size=20))
def test_lookups_agree_and_wrap(nodes: tuple[HashingNode, ...], hashes: list[int]) -> None:
    values = np.array([node.value for node in nodes])
    for array in (np.array(hashes, np.uint32), np.array(hashes, np.uint32).view(np.int32)):
        found = find_node_indexes(values, array).tolist()
        assert [nodes[index] for index in found] == [find_node(nodes, h) for h in hashes]
    for hash_value in hashes:
        above = [node for node in nodes if node.value >= hash_value & MAX]
        assert find_node(nodes, hash_value) == (above or nodes)[0]


def test_an_empty_ring_owns_nothing() -> None:
    with pytest.raises(ValueError, match="at least one"):
        find_node((), 1)
    with pytest.raises(ValueError, match="at least one"):
        find_node_indexes(np.array([], np.int64), np.array([1], np.uint32))


@pytest.mark.parametrize(
    ("value", "middle"),
    [(536870912, 268435455), (1073741824, 805306368), (1610612736, 1342177280), (MAX, 1879048191)],
)
def test_split_node(value: int, middle: int) -> None:
    assert split_node(FOUR, value, ("x", "y")) == (
        HashingNode(middle, "x", "REPLACE"),
        HashingNode(value, "y", "REPLACE"),
    )


def test_split_of_a_single_node_and_of_one_too_narrow() -> None:
    children = split_node(ring(MAX), MAX, ("x", "y"))
    assert children is not None
    assert [child.value for child in children] == [1073741823, MAX]
    assert split_node(ring(5, 6, 9), 6, ("x", "y")) is None
    with pytest.raises(ValueError, match="no node 7"):
        split_node(ring(5, 6, 9), 7, ("x", "y"))


@pytest.mark.parametrize(
    ("values", "children"),
    [
        (
            [1073741824, 1610612736],
            [(1073741824, None, "DELETE"), (1610612736, "new", "REPLACE")],
        ),
        ([MAX, 536870912], [(MAX, None, "DELETE"), (536870912, "new", "REPLACE")]),
    ],
)
def test_merge_nodes(values: list[int], children: list[tuple[int, str | None, str]]) -> None:
    merged = merge_nodes(FOUR, values, "new")
    assert [(child.value, child.file_id_prefix, child.tag) for child in merged] == children


@pytest.mark.parametrize(
    "values",
    [[], [536870912], [536870912, 1610612736], [1073741824, 536870912], [536870912] * 2, [1, 2]],
)
def test_merge_nodes_refuses_what_are_no_neighbours(values: list[int]) -> None:
    with pytest.raises(ValueError, match="node"):
        merge_nodes(FOUR, values, "new")


def test_apply_children() -> None:
    merged = apply_children(FOUR, merge_nodes(FOUR, [MAX, 536870912], "new"))
    assert [node.value for node in merged] == [536870912, 1073741824, 1610612736]
    assert merged[0] == HashingNode(536870912, "new", "NORMAL")
    assert find_node(merged, MAX).file_id_prefix == "new"  # lookups wrap now


@given(RINGS, st.data())
def test_a_split_only_moves_keys_of_the_split_node(
    nodes: tuple[HashingNode, ...], data: st.DataObject
) -> None:
    node = data.draw(st.sampled_from(nodes))
    children = split_node(nodes, node.value, ("lower", "upper"))
    if children is None:
        return
    after = apply_children(nodes, children)
    assert len(after) == len(nodes) + 1
    for hash_value in data.draw(st.lists(st.integers(0, MAX), max_size=20)):
        before, now = find_node(nodes, hash_value), find_node(after, hash_value)
        is_child = now.file_id_prefix in {"lower", "upper"}
        assert is_child if before == node else now == before


@pytest.mark.parametrize(
    ("children", "message"),
    [
        ([HashingNode(5, "x")], "tagged NORMAL"),
        ([HashingNode(5, None, "DELETE")], "has no such node"),
        ([HashingNode(5, None, "REPLACE")], "no file id prefix"),
        ([HashingNode(node.value, None, "DELETE") for node in FOUR], "at least one"),
    ],
)
def test_children_that_leave_no_ring_are_corrupt(children: list[HashingNode], message: str) -> None:
    with pytest.raises(CorruptError, match=message):
        apply_children(FOUR, children)


@pytest.mark.rule("RING-3")
@pytest.mark.parametrize(
    "nodes", [(), ring(5, 5), ring(6, 5), ring(-1, 5), ring(5, MAX + 1), (HashingNode(5, ""),)]
)
def test_check_ring(nodes: tuple[HashingNode, ...]) -> None:
    with pytest.raises(CorruptError):
        check_ring(nodes)


@pytest.mark.rule("RING-1", "RING-2")
@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
@pytest.mark.parametrize("name", ["ch_init", "ch_split"])
def test_hudi_put_every_key_into_the_node_found_here(
    version: str,
    name: str,
    golden: Callable[[str, str], Path],
    golden_expected: Callable[..., pa.Table],
) -> None:
    folder = golden(version, name) / ".hoodie/.bucket_index/consistent_hashing_metadata"
    rows = golden_expected(version, name)
    for partition_path in ("us", "eu", "ap"):
        newest = max((folder / partition_path).glob("*.hashing_meta"))
        nodes = decode_hashing_metadata(newest.read_bytes()).nodes
        here = rows.filter(pc.equal(rows["_hoodie_partition_path"], partition_path))
        values = hash_value_columns(here["_hoodie_record_key"], ["id"], KeyDialect.INDEX_OF)
        found = find_node_indexes(np.array([node.value for node in nodes]), xxhash32s(values))
        assert len(found) > 90
        prefixes = pc.utf8_slice_codeunits(here["_hoodie_file_name"], 0, 36).to_pylist()
        assert [nodes[index].file_id_prefix for index in found] == prefixes
