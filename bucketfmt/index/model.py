"""The index engines as values: how a table maps a record key to a file group.

Pure. Source: HoodieIndex.IndexType, HoodieIndex.BucketIndexEngineType.
"""

from __future__ import annotations

from dataclasses import dataclass

from bucketfmt.arguments import check_int, check_names, check_text

__all__ = [
    "BloomIndex",
    "BucketIndex",
    "ConsistentHashingIndex",
    "Index",
    "PartitionBucketIndex",
    "RecordIndex",
    "SimpleBucketIndex",
]


def _settle(index: BucketIndex, count: str) -> None:
    """Check the fields of a new value: integers are stored as int, hash fields as a tuple.

    Args:
        index: The value.
        count: The field with the number of buckets.

    Raises:
        TypeError: a field of another type.
        ValueError: a number of buckets that bucket ids cannot count.
    """
    for name in (count, "min_buckets", "max_buckets"):
        value = getattr(index, name, None)
        if value is not None or name == count:
            object.__setattr__(index, name, check_int(name, value))
    number = getattr(index, count)
    if not 1 <= number <= 99_999_999:
        raise ValueError(f"{count} is 1 to 99,999,999 (a bucket id has eight digits), not {number}")
    if index.hash_fields is not None:
        fields = tuple(check_names("hash_fields", index.hash_fields))
        object.__setattr__(index, "hash_fields", fields)


@dataclass(frozen=True, slots=True)
class SimpleBucketIndex:
    """A fixed number of buckets in every partition.

    `hash_fields` None means all record key fields, as Hudi has it when
    `hoodie.bucket.index.hash.field` is not set. As the values below, raises TypeError for a field
    of another type.
    """

    num_buckets: int
    hash_fields: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _settle(self, "num_buckets")


@dataclass(frozen=True, slots=True)
class PartitionBucketIndex:
    """A fixed number of buckets by partition: regex rules, first match wins (Hudi 1.1+, RFC-89).

    `rules` is Hudi's expression text, `regex,number;regex,number`; a partition that no
    rule matches has `default` buckets.
    """

    default: int
    rules: str
    hash_fields: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _settle(self, "default")
        check_text("rules", self.rules)


@dataclass(frozen=True, slots=True)
class ConsistentHashingIndex:
    """A ring of buckets by partition that is split and merged as it grows (RFC-42, MOR only).

    `num_buckets` is the initial number; the ring in force stands in the table's hashing
    metadata. Without `min_buckets` and `max_buckets` Hudi never resizes.
    """

    num_buckets: int
    min_buckets: int | None = None
    max_buckets: int | None = None
    hash_fields: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _settle(self, "num_buckets")


@dataclass(frozen=True, slots=True)
class RecordIndex:
    """Locations kept key by key in the metadata table. File ids say nothing about keys."""


@dataclass(frozen=True, slots=True)
class BloomIndex:
    """Bloom filters and key ranges in base file footers. File ids say nothing about keys."""


BucketIndex = SimpleBucketIndex | PartitionBucketIndex | ConsistentHashingIndex
Index = BucketIndex | RecordIndex | BloomIndex
