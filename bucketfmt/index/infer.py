"""What file ids and keys prove about an index that the table does not record.

Hudi keeps neither N nor the hash field of a bucket index. But a key in bucket b has
hash = b (mod N), so N divides every (hash - b): the greatest common divisor of many
keys leaves few candidates, and only a single one counts as proof. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa

from bucketfmt.errors import KeyEncodingError
from bucketfmt.format.keys.hashing_kernels import java_list_hashes
from bucketfmt.format.keys.record_key_kernels import hash_value_columns
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.format.names.names import find_bucket_id
from bucketfmt.index.layout import BucketLayout
from bucketfmt.index.numbered_buckets import SimpleBucketIndex

__all__ = [
    "KEYS_MIN",
    "LIKELY_BUCKETS",
    "Evidence",
    "find_fitting_hash_fields",
    "infer_hash_fields",
    "infer_num_buckets",
    "infer_simple_index",
    "largest_bucket_id",
]

KEYS_MIN = 16
"""Fewer keys prove nothing worth relying on."""

LIKELY_BUCKETS = 100_000
"""Partitions have fewer buckets, unless keys prove otherwise. One random UUID in 43 begins with
eight digits, and passes for a bucket's file id; one in 43,000 with five zeros before them."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What keys and the buckets they were found in say about the number of buckets N.

    N divides every (hash - bucket id), and is larger than every bucket id. Evidence of several
    samples is added up with `+`.

    Attributes:
        divisor: The greatest common divisor of all (hash - bucket id); 0 where all are 0.
        num_keys: How many keys there are.
        largest_bucket: The largest bucket id that a key was found in; -1 without keys.
        differences: Distinct values of (hash - bucket id), `KEYS_MIN` of each sample at most.
    """

    divisor: int = 0
    num_keys: int = 0
    largest_bucket: int = -1
    differences: frozenset[int] = frozenset()

    @classmethod
    def of(cls, hashes: np.ndarray, bucket_ids: np.ndarray) -> Evidence:
        """Return the evidence of keys.

        Args:
            hashes: int32 list hashes of the keys' hash values.
            bucket_ids: The bucket each key was found in, same length.
        """
        if not len(hashes):
            return cls()
        differences = np.abs((hashes.astype(np.int64) & 0x7FFFFFFF) - bucket_ids)
        some = np.unique(differences)[:KEYS_MIN].tolist()
        divisor = int(np.gcd.reduce(differences))
        return cls(divisor, len(hashes), int(bucket_ids.max()), frozenset(some))

    def __add__(self, other: Evidence) -> Evidence:
        return Evidence(
            int(np.gcd(self.divisor, other.divisor)),
            self.num_keys + other.num_keys,
            max(self.largest_bucket, other.largest_bucket),
            self.differences | other.differences,
        )

    def proves(self, num_buckets: int) -> bool:
        """Whether the keys fit `num_buckets`, and no multiple of that number."""
        is_large_enough = self.largest_bucket < num_buckets
        return self.num_keys >= KEYS_MIN and self.divisor == num_buckets and is_large_enough

    @property
    def is_scant(self) -> bool:
        """Whether the keys are so few, or so alike, that they may fit multiples of N by chance."""
        return len(self.differences) < KEYS_MIN


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
    divisor = Evidence.of(hashes, bucket_ids).divisor
    fitting = [n for n in _divisors(divisor) if n > largest_bucket]
    return fitting[0] if len(fitting) == 1 else None


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def infer_simple_index(
    samples: Sequence[tuple[int, pa.ChunkedArray]],
    largest_bucket: int,
    record_key_fields: Sequence[str],
    dialect: KeyDialect,
) -> SimpleBucketIndex | None:
    """Return the only simple bucket index that fits the sampled keys, or None.

    `samples` holds (bucket id, record keys found in it). Hash fields may be all key fields, as
    is Hudi's default, or any of them. With one bucket, the fields make no difference.
    """
    if sum(len(keys) for _, keys in samples) < KEYS_MIN:
        return None
    keys = pa.chunked_array([chunk for _, column in samples for chunk in column.chunks])
    buckets = np.concatenate([np.full(len(column), bucket) for bucket, column in samples])
    fitting: list[SimpleBucketIndex] = []
    for hash_fields in _candidates(record_key_fields):
        try:
            hashes = java_list_hashes(hash_value_columns(keys, hash_fields, dialect))
        except KeyEncodingError:
            continue
        num_buckets = infer_num_buckets(hashes, buckets, largest_bucket)
        if num_buckets is not None:
            is_default = len(hash_fields) == len(record_key_fields)
            fitting.append(SimpleBucketIndex(num_buckets, None if is_default else hash_fields))
    is_one = len(fitting) == 1 or (fitting and all(index.num_buckets == 1 for index in fitting))
    return fitting[0] if is_one else None


def infer_hash_fields(
    samples: Sequence[tuple[BucketLayout, int, pa.ChunkedArray]], record_key_fields: Sequence[str]
) -> tuple[str, ...] | None:
    """Return the only hash fields under which the sampled keys are where they were found.

    `samples` holds (layout of the partition, bucket id, record keys found in it); which hash
    fields that layout has does not count. None where no hash fields fit, or several do.
    """
    if sum(len(keys) for _, _, keys in samples) < KEYS_MIN:
        return None
    fitting = find_fitting_hash_fields(samples, record_key_fields)
    return fitting[0] if len(fitting) == 1 else None


def find_fitting_hash_fields(
    samples: Sequence[tuple[BucketLayout, int, pa.ChunkedArray]], record_key_fields: Sequence[str]
) -> list[tuple[str, ...]]:
    """Return all hash fields under which the sampled keys are where they were found.

    Arguments as of `infer_hash_fields`.
    """
    return [
        hash_fields
        for hash_fields in _candidates(record_key_fields)
        if all(
            _are_in_bucket(keys, bucket, layout.hashed_by(hash_fields, layout.dialect))
            for layout, bucket, keys in samples
        )
    ]


def _are_in_bucket(keys: pa.ChunkedArray, bucket_id: int, layout: BucketLayout) -> bool:
    try:
        assigned = layout.assign(keys)
    except KeyEncodingError:
        return False
    return bool((assigned == bucket_id).all())


def _candidates(record_key_fields: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield all key fields, as is Hudi's default, and then fewer and fewer of them."""
    for size in range(len(record_key_fields), 0, -1):
        yield from combinations(record_key_fields, size)
