"""How even the buckets of a partition are, and how many there should be. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Skew", "measure_skew"]

_TARGET_BYTES = 120 * 1024 * 1024  # hoodie.parquet.max.file.size


@dataclass(frozen=True)
class Skew:
    """Figures over the buckets of one partition.

    Attributes:
        total_bytes: Sum of all buckets.
        largest_to_median: 1.0 where all are alike.
        gini: 0 where all are alike, towards 1 where one bucket holds everything.
        suggested_buckets: The power of two with which an even bucket comes nearest below
            `target_bytes`, so that a later doubling splits every bucket in two.
        target_bytes: Hudi's default size of a base file.
    """

    total_bytes: int
    largest_to_median: float
    gini: float
    suggested_buckets: int
    target_bytes: int = _TARGET_BYTES


def measure_skew(sizes: Sequence[int], target_bytes: int = _TARGET_BYTES) -> Skew:
    """Return the skew of bucket sizes in bytes."""
    ordered = np.sort(np.asarray(sizes, dtype=np.float64))
    total = float(ordered.sum())
    if not total:
        return Skew(0, 1.0, 0.0, 1, target_bytes)
    median = float(np.median(ordered))
    ranks = np.arange(1, len(ordered) + 1)
    gini = float(
        2 * (ranks * ordered).sum() / (len(ordered) * total) - (len(ordered) + 1) / len(ordered)
    )
    suggested = 1
    while total / suggested > target_bytes:
        suggested *= 2
    largest_to_median = float(ordered[-1] / median) if median else float("inf")
    return Skew(int(total), largest_to_median, max(gini, 0.0), suggested, target_bytes)
