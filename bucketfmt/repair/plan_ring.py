"""The ring that the keys of the file groups of a partition tell. Pure.

A node owns the hash values above that of the node before, so file groups of a ring hold ranges of
hash values that do not overlap; the range of the first node may begin above the last one and go
over the end of the ring. Where between two ranges the lost ring had its node, nothing tells, and no
stored key depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bucketfmt.errors import CorruptError
from bucketfmt.format.buckets.ring import HashingNode, find_node
from bucketfmt.format.keys.hashing import HASH_VALUE_MASK

__all__ = ["HashRange", "find_range_of_others", "leads_to", "plan_ring"]


@dataclass(frozen=True)
class HashRange:
    """The hash values of the keys of a file group.

    Attributes:
        prefix: The file id prefix of the file group.
        low, high: The first and the last; None where the file group has no keys. A range that goes
            over the end of the ring begins with a larger value than it ends with.
    """

    prefix: str
    low: int | None = None
    high: int | None = None


@dataclass
class _Node:
    """A node as it is planned: above `last`, up to its value, it has no keys."""

    prefix: str
    last: int
    value: int


_Held = tuple[int, int, str]  # of a file group with keys: low, high, prefix


def _held(ranges: Sequence[HashRange]) -> list[_Held]:
    return sorted(
        (own.low, own.high, own.prefix)
        for own in ranges
        if own.low is not None and own.high is not None
    )


def find_range_of_others(ranges: Sequence[HashRange]) -> tuple[str, int, int] | None:
    """Return which file group may go over the end of the ring, and what the others hold.

    Args:
        ranges: Of all file groups, each from the least to the greatest hash value.

    Returns:
        The prefix of the file group that has the least and the greatest of all hash values, and the
        least and the greatest of the others; None if there is no such file group.
    """
    held = _held(ranges)
    if len(held) < 2:
        return None
    (_, high, prefix), *others = held
    greatest = max(other[1] for other in others)
    return (prefix, others[0][0], greatest) if high > greatest else None


def leads_to(nodes: Sequence[HashingNode], ranges: Sequence[HashRange]) -> bool:
    """Whether nodes that do not go over the end of the ring own the keys of all file groups."""
    known = {node.file_id_prefix for node in nodes}
    return all(
        own.prefix in known
        and all(
            value is None or find_node(nodes, value).file_id_prefix == own.prefix
            for value in (own.low, own.high)
        )
        for own in ranges
    )


def plan_ring(ranges: Sequence[HashRange]) -> tuple[HashingNode, ...]:
    """Return a ring whose nodes own the keys of their file groups.

    Between two ranges the boundary is in the middle. File groups without keys get the widest ranges
    that have none, or halves of these.

    Args:
        ranges: Of all live file groups of a partition, at least one.

    Raises:
        CorruptError: keys of two file groups lie among one another, or leave no room.
    """
    held = _held(ranges)
    end = HASH_VALUE_MASK + 1
    over_end = next((own for own in held if own[0] > own[1]), None)
    if over_end is not None:
        end, high, prefix = over_end
        held = [(0, high, prefix), *(own for own in held if own is not over_end)]
    nodes: list[_Node] = []
    if held and over_end is None:
        nodes.append(_Node("", -1, held[0][0] - 1))  # of nobody so far
    for (_, high, prefix), (low, _, other) in pairwise(held):
        _check_apart(high, low, prefix, other)
        nodes.append(_Node(prefix, high, (high + low - 1) // 2))
    for _, high, prefix in held[-1:]:
        if over_end is None:
            nodes.append(_Node(prefix, high, HASH_VALUE_MASK))
        else:
            _check_apart(high, end, prefix, over_end[2])
            nodes.append(_Node(prefix, high, (high + end - 1) // 2))
    for prefix in sorted(own.prefix for own in ranges if own.low is None):
        _add_to_widest_range(nodes, prefix)
    nodes.sort(key=lambda node: node.value)
    return tuple(HashingNode(node.value, node.prefix) for node in nodes if node.prefix)


def _check_apart(high: int, low: int, prefix: str, other: str) -> None:
    if low <= high:
        raise CorruptError(
            f"keys of the file groups {prefix}-0 and {other}-0 lie among one another, so that no "
            "ring leads to both; repair_buckets() moves the rows of the partition to a new ring"
        )


def _add_to_widest_range(nodes: list[_Node], prefix: str) -> None:
    """Add a node for the upper half of the widest range without keys, or for one of nobody."""
    if not nodes:
        nodes.append(_Node("", -1, HASH_VALUE_MASK))
    widest = max(nodes, key=lambda node: node.value - node.last)
    if widest.value == widest.last:
        raise CorruptError(f"the hash values of the keys leave no room for file group {prefix}-0")
    if not widest.prefix:
        widest.prefix = prefix
        return
    lower = max(0, (widest.last + widest.value) // 2)
    nodes.append(_Node(prefix, lower, widest.value))
    widest.value = lower
