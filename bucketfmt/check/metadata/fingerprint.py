"""Sets of keys in short, so that two sets are compared without holding either. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa

from bucketfmt.format.keys.hashing_kernels import xxhash64s

__all__ = ["SHOWN", "Fingerprint", "few"]

SHOWN = 3
"""How many keys a finding names."""


@dataclass(frozen=True)
class Fingerprint:
    """A set of keys, in short.

    Attributes:
        count: How many keys.
        digest: The sum of their 64-bit hashes, modulo 2^64.
    """

    count: int = 0
    digest: int = 0

    @classmethod
    def of(cls, keys: pa.Array) -> Fingerprint:
        """Return the fingerprint of distinct keys."""
        hashes = xxhash64s(keys, 0)
        return cls(len(keys), int(hashes.sum(dtype=np.uint64)))

    def __add__(self, other: Fingerprint) -> Fingerprint:
        return Fingerprint(self.count + other.count, (self.digest + other.digest) % (1 << 64))


def few(keys: Collection[str]) -> str:
    """Return some of these keys, for people."""
    shown = ", ".join(repr(key[:80]) for key in islice(keys, SHOWN))
    return shown + (", ..." if len(keys) > SHOWN else "")
