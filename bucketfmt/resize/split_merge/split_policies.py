"""Where the range of a node is divided: in the middle, or so that each part has as many rows.

Pure. Source of the first: `ConsistentBucketIdentifier.splitBucket`, whose authors wish for the
second ("distribute records evenly using statistics").
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bucketfmt.format.buckets.ring import find_middle
from bucketfmt.format.keys.hashing import HASH_VALUE_MASK

__all__ = ["EvenSplit", "MiddleSplit", "SplitPolicy", "parse_split_policy"]

_PARTS_MAX = 1 << 16  # child nodes of one group of a plan


class SplitPolicy(ABC):
    """How a node that is too large is divided. A value."""

    __slots__ = ()

    needs_hashes: ClassVar[bool]
    """Whether the hash values of the node's keys are needed."""

    @abstractmethod
    def num_parts(self, size: int, max_file_size: int) -> int:
        """Return into how many parts a file slice of `size` bytes is to be divided; at least 2."""

    @abstractmethod
    def find_values(
        self, former: int, value: int, num_parts: int, hashes: npt.NDArray[np.uint32] | None
    ) -> tuple[int, ...]:
        """Return the values of the nodes that are new on the ring, in ring order.

        Args:
            former: The value of the node before; that of the last node, for the first node.
            value: The value of the node. The node of this value stays on the ring.
            num_parts: How many parts are wanted.
            hashes: The hash values of the keys of the node, where the policy needs them.

        Returns:
            At most one fewer than the parts; none where the node cannot be divided.
        """


@dataclass(frozen=True, slots=True)
class MiddleSplit(SplitPolicy):
    """Halves the range of a node, as Hudi does. No key is read for the plan."""

    needs_hashes: ClassVar[bool] = False

    def num_parts(self, size: int, max_file_size: int) -> int:
        """Two."""
        return 2

    def find_values(
        self, former: int, value: int, num_parts: int, hashes: npt.NDArray[np.uint32] | None
    ) -> tuple[int, ...]:
        """Return the middle of the range."""
        middle = find_middle(former, value)
        return () if middle is None else (middle,)


@dataclass(frozen=True, slots=True)
class EvenSplit(SplitPolicy):
    """Divides a node into parts of as many rows each, however skewed the hash values are.

    The keys of the node are read for the plan. A node is divided into as many parts as bring each
    part to between one and one and a half times the largest file size, in one rewrite.
    """

    needs_hashes: ClassVar[bool] = True

    def num_parts(self, size: int, max_file_size: int) -> int:
        """Return how many files of the largest size the node would fill."""
        return max(2, min(size // max_file_size, _PARTS_MAX))

    def find_values(
        self, former: int, value: int, num_parts: int, hashes: npt.NDArray[np.uint32] | None
    ) -> tuple[int, ...]:
        """Return the hash values that end the parts but the last."""
        if hashes is None or len(hashes) < 2:
            return ()
        first = (former + 1) & HASH_VALUE_MASK  # of the range, which may go over the ring's end
        offsets = (hashes.astype(np.int64) - first) & HASH_VALUE_MASK
        distinct, counts = np.unique(offsets, return_counts=True)
        until = np.cumsum(counts)[:-1]  # how many rows end at each offset but the last
        if len(until) == 0:
            return ()
        wanted = np.arange(1, num_parts) * (len(hashes) / num_parts)
        after = np.minimum(np.searchsorted(until, wanted), len(until) - 1)
        before = np.maximum(after - 1, 0)
        is_nearer = wanted - until[before] < until[after] - wanted
        chosen = np.unique(np.where(is_nearer, before, after))
        return tuple(int((first + offset) & HASH_VALUE_MASK) for offset in distinct[chosen])


_POLICIES: dict[str, SplitPolicy] = {"middle": MiddleSplit(), "even": EvenSplit()}


def parse_split_policy(name: str) -> SplitPolicy:
    """Return the policy called `middle` or `even`.

    Raises:
        ValueError: no policy has this name.
    """
    if name not in _POLICIES:
        raise ValueError(f"a split policy is one of {', '.join(_POLICIES)}, not {name!r}")
    return _POLICIES[name]
