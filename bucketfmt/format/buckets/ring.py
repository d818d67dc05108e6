"""The ring of a partition with a consistent hashing index: lookup, and how it is resized.

Pure. The ring is a sequence of nodes in strictly ascending order of their values. A node owns the
hash values above the value of the previous node, up to and including its own value; the first node
also owns the values above the last node. Every node is one file group, `<prefix>-0`.
Sources: `ConsistentBucketIdentifier`, `HoodieConsistentHashingMetadata`.
"""

from __future__ import annotations

import hashlib
import uuid
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from bucketfmt.errors import CorruptError
from bucketfmt.format.keys.hashing import HASH_VALUE_MASK
from bucketfmt.format.names.names import format_consistent_file_id

__all__ = [
    "HashingNode",
    "apply_children",
    "check_ring",
    "find_former_value",
    "find_middle",
    "find_node",
    "find_node_indexes",
    "initial_ring",
    "merge_nodes",
    "split_node",
]

_Integers = npt.NDArray[np.integer[Any]]


class HashingNode(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One bucket: the largest hash value it owns, and the file group it stands for.

    The fields in their order are Hudi's JSON object (`ConsistentHashingNode`).
    """

    value: Annotated[int, msgspec.Meta(ge=0, le=HASH_VALUE_MASK)]
    file_id_prefix: str | None  # None only in children tagged DELETE
    tag: Literal["NORMAL", "REPLACE", "DELETE"] = "NORMAL"  # REPLACE, DELETE: child nodes

    @property
    def file_id(self) -> str:
        """The id of the file group; of a child tagged DELETE, no file group's."""
        return format_consistent_file_id(self.file_id_prefix or "")


def check_ring(nodes: Sequence[HashingNode]) -> None:
    """Check that the nodes are a ring: at least one, strictly ascending, each with a file group.

    Raises:
        CorruptError: the nodes are not a ring.
    """
    if not nodes:
        raise CorruptError("a hashing ring needs at least one node")
    previous = -1
    for node in nodes:
        if not previous < node.value <= HASH_VALUE_MASK:
            raise CorruptError(
                f"hashing nodes ascend strictly within 0..{HASH_VALUE_MASK}, "
                f"but {node.value} follows {previous}"
            )
        if not node.file_id_prefix:
            raise CorruptError(f"hashing node {node.value} has no file id prefix")
        previous = node.value


def find_node(nodes: Sequence[HashingNode], hash_value: int) -> HashingNode:
    """Return the node that owns a hash. Only the low 31 bits of `hash_value` count.

    Raises:
        ValueError: there are no nodes.
    """
    if not nodes:
        raise ValueError("a hashing ring needs at least one node")
    index = bisect_left(nodes, hash_value & HASH_VALUE_MASK, key=lambda node: node.value)
    return nodes[index % len(nodes)]


def find_node_indexes(values: _Integers, hashes: _Integers) -> npt.NDArray[np.intp]:
    """Return for every hash the index of the node that owns it.

    `values` are the node values in ring order. `hashes` are 32-bit hashes, signed or not; only
    their low 31 bits count.

    Raises:
        ValueError: there are no nodes.
    """
    if len(values) == 0:
        raise ValueError("a hashing ring needs at least one node")
    places = hashes.astype(np.uint32, copy=False) & np.uint32(HASH_VALUE_MASK)
    indexes: npt.NDArray[np.intp] = np.searchsorted(values.astype(np.uint32, copy=False), places)
    indexes[indexes == len(values)] = 0
    return indexes


def initial_ring(partition_path: str, num_buckets: int) -> tuple[HashingNode, ...]:
    """Return the ring every writer gives a partition at first: equal ranges, derived names.

    Raises:
        ValueError: `num_buckets` is less than one, or so large that nodes would coincide.
    """
    if num_buckets < 1:
        raise ValueError(f"num_buckets must be at least 1, not {num_buckets}")
    step = (HASH_VALUE_MASK + num_buckets - 1) // num_buckets
    if step * (num_buckets - 1) >= HASH_VALUE_MASK:
        raise ValueError(f"{num_buckets} buckets do not fit on a ring; some would coincide")
    path = partition_path.encode()
    nodes, previous = [], 0
    for index in range(1, num_buckets + 1):
        value = min(step * index, HASH_VALUE_MASK)
        name = previous.to_bytes(8, "big") + value.to_bytes(8, "big") + path
        nodes.append(HashingNode(value, _name_based_uuid(name)))
        previous = value
    return tuple(nodes)


def find_former_value(nodes: Sequence[HashingNode], value: int) -> int:
    """Return the value of the node before the node of a value; of the first node: the last.

    Raises:
        ValueError: no node has that value.
    """
    return nodes[_position_of(nodes, value) - 1].value


def find_middle(former: int, value: int) -> int | None:
    """Return the value that halves the range of a node; None if the range is too narrow.

    Args:
        former: The value of the node before. The range begins above `former`, and may go over the
            end of the ring.
        value: The value of the node, at which the range ends.
    """
    total = former + value + (0 if former < value else HASH_VALUE_MASK + 1)
    middle = (total >> 1) & HASH_VALUE_MASK
    return None if middle in {former, value} else middle


def split_node(
    nodes: Sequence[HashingNode], value: int, new_prefixes: tuple[str, str]
) -> tuple[HashingNode, HashingNode] | None:
    """Return the two children that halve the range of a node; None if the range is too narrow.

    Both are new file groups: the first prefix gets the lower half.

    Raises:
        ValueError: no node has that value.
    """
    middle = find_middle(find_former_value(nodes, value), value)
    if middle is None:
        return None
    lower, upper = new_prefixes
    return HashingNode(middle, lower, "REPLACE"), HashingNode(value, upper, "REPLACE")


def merge_nodes(
    nodes: Sequence[HashingNode], values: Sequence[int], new_prefix: str
) -> tuple[HashingNode, ...]:
    """Return the children that merge neighbouring nodes into the last of them.

    `values` name the nodes in ring order, which may go on from the last node to the first.

    Raises:
        ValueError: the values are fewer than two, not nodes of the ring, or not neighbours.
    """
    positions = [_position_of(nodes, value) for value in values]
    if len(positions) < 2 or len(set(positions)) != len(positions):
        raise ValueError(f"merging takes at least two different nodes, not {list(values)}")
    for first, second in pairwise(positions):
        if second != (first + 1) % len(nodes):
            raise ValueError(f"the nodes {list(values)} are not neighbours on the ring")
    deleted = [HashingNode(value, None, "DELETE") for value in values[:-1]]
    return (*deleted, HashingNode(values[-1], new_prefix, "REPLACE"))


def apply_children(
    nodes: Sequence[HashingNode], children: Iterable[HashingNode]
) -> tuple[HashingNode, ...]:
    """Return the ring with the children of a resize in place, all tagged NORMAL.

    Raises:
        CorruptError: a child's tag is not REPLACE or DELETE, a node to delete does not exist, or no
            ring is left.
    """
    ring = {node.value: node for node in nodes}
    for child in children:
        if child.tag == "REPLACE":
            ring[child.value] = HashingNode(child.value, child.file_id_prefix)
        elif child.tag != "DELETE":
            raise CorruptError(f"child node {child.value} is tagged {child.tag}")
        elif ring.pop(child.value, None) is None:
            raise CorruptError(
                f"child node {child.value} is to be deleted, but the ring has no such node"
            )
    result = tuple(HashingNode(value, ring[value].file_id_prefix) for value in sorted(ring))
    check_ring(result)
    return result


def _position_of(nodes: Sequence[HashingNode], value: int) -> int:
    position = bisect_left(nodes, value, key=lambda node: node.value)
    if position == len(nodes) or nodes[position].value != value:
        raise ValueError(f"the ring has no node {value}")
    return position


def _name_based_uuid(name: bytes) -> str:
    """`UUID.nameUUIDFromBytes`: version 3, but of the bare bytes, with no namespace."""
    digest = hashlib.md5(name, usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))
