"""Moves rows to partitions of given numbers: the exchange of a write."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

__all__ = ["place"]

_SEED = 42  # of Spark's hash()


def place(df: DataFrame, number: Column, num_partitions: int) -> DataFrame:
    """Return the same rows, each in the partition of its `number`. One exchange.

    Args:
        df: The rows.
        number: An integer from 0 to `num_partitions` - 1.
        num_partitions: The number of partitions.
    """
    if hasattr(df, "repartitionById"):  # Spark 4.1
        return df.repartitionById(num_partitions, number.cast("int"))
    # Before, partitions are chosen by a hash: of a number that has the wanted one.
    salts = sf.array(*[sf.lit(salt) for salt in find_salts(num_partitions).tolist()])
    return df.repartition(num_partitions, sf.element_at(salts, number.cast("int") + 1))


def find_salts(num_partitions: int) -> npt.NDArray[np.int32]:
    """Return for each partition an integer whose Spark hash, modulo their number, is its number."""
    found = np.full(num_partitions, -1, np.int32)
    start = 0
    while (found < 0).any():
        candidates = np.arange(start, start + 8 * num_partitions, dtype=np.int32)
        numbers = murmur3_ints(candidates).astype(np.int64) % num_partitions
        found[numbers[::-1]] = candidates[::-1]  # the smallest stays
        start += 8 * num_partitions
    return found


def murmur3_ints(values: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return Spark's `hash` of each integer: Murmur3 x86 32, seed 42."""
    mixed = values.astype(np.uint32) * np.uint32(0xCC9E2D51)
    mixed = _rotate(mixed, 15) * np.uint32(0x1B873593)
    result = _rotate(np.uint32(_SEED) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    result ^= np.uint32(4)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        result = (result ^ (result >> np.uint32(shift))) * np.uint32(factor)
    found: npt.NDArray[np.int32] = (result ^ (result >> np.uint32(16))).view(np.int32)
    return found


def _rotate(values: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    found: npt.NDArray[np.uint32] = (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))
    return found
