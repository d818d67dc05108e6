"""What file ids and keys prove about an index that the table does not record.

Hudi keeps neither N nor the hash field of a bucket index. But a key in bucket b has
hash = b (mod N), so N divides every (hash - b): the greatest common divisor of many
keys leaves few candidates, and only a single one counts as proof. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import pyarrow as pa

from bucketfmt.errors import KeyEncodingError
from bucketfmt.format.hashing_kernels import java_list_hashes
from bucketfmt.format.names import find_bucket_id
from bucketfmt.format.record_key_kernels import hash_value_columns
from bucketfmt.format.record_keys import KeyDialect
from bucketfmt.index.model import SimpleBucketIndex

__all__ = ["infer_num_buckets", "infer_simple_index", "largest_bucket_id"]

_KEYS_MIN = 16
"""Fewer keys prove nothing worth relying on."""


def largest_bucket_id(file_ids: Iterable[str]) -> int | None:
    """Return the largest bucket id among file ids; None if any of them is not bucket-shaped."""
    largest: int | None = None
    for file_id in file_ids:
        bucket_id = find_bucket_id(file_id)
        if bucket_id is None:
            return None
        largest = bucket_id if largest is None else max(largest, bucket_id)
    return largest


def infer_num_buckets(
    hashes: np.ndarray, bucket_ids: np.ndarray, largest_bucket: int
) -> int | None:
    """Return the only N that fits every key, or None when none or several fit.

    Args:
        hashes: int32 list hashes of the keys' hash values.
        bucket_ids: The bucket each key was found in, same length.
        largest_bucket: The largest bucket id in the table; N is larger.
    """
    differences = (hashes.astype(np.int64) & 0x7FFFFFFF) - bucket_ids
    divisor = int(np.gcd.reduce(np.abs(differences))) if len(differences) else 0
    fitting = [n for n in _divisors(divisor) if n > largest_bucket]
    return fitting[0] if len(fitting) == 1 else None


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def infer_simple_index(
    samples: Sequence[tuple[int, pa.Array]],
    largest_bucket: int,
    record_key_fields: Sequence[str],
    dialect: KeyDialect,
) -> SimpleBucketIndex | None:
    """Return the simple bucket index that the sampled keys prove, or None.

    `samples` holds (bucket id, record keys found in it). All key fields are tried first as
    hash fields, as they are Hudi's default, then each subset in key order.
    """
    if sum(len(keys) for _, keys in samples) < _KEYS_MIN:
        return None
    keys = pa.chunked_array([keys for _, keys in samples])
    buckets = np.concatenate([np.full(len(keys), bucket) for bucket, keys in samples])
    count = len(record_key_fields)
    for size in (count, *range(1, count)):
        for hash_fields in combinations(record_key_fields, size):
            try:
                hashes = java_list_hashes(hash_value_columns(keys, hash_fields, dialect))
            except KeyEncodingError:
                continue
            num_buckets = infer_num_buckets(hashes, buckets, largest_bucket)
            if num_buckets is not None:
                return SimpleBucketIndex(num_buckets, None if size == count else hash_fields)
    return None
