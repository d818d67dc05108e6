"""Indexes as values: how a table maps a record key to a file group.

Pure. What readers and writers have to know of an engine is a property or a method of its value,
so that nothing else asks which engine a value is. Source: HoodieIndex.IndexType,
HoodieIndex.BucketIndexEngineType, HoodieIndexConfig.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from bucketfmt.arguments import check_bool, check_int, check_names
from bucketfmt.errors import UnsupportedError
from bucketfmt.format.buckets.extendible_directory import DirectoryBucket
from bucketfmt.format.buckets.index_settings import PARTITIONED_RECORD_INDEX
from bucketfmt.format.buckets.partition_rules import PartitionBucketRules
from bucketfmt.format.buckets.ring import HashingNode
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.index.layout import BucketLayout
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "NOTHING_STORED",
    "BloomIndex",
    "BucketIndex",
    "Index",
    "RecordIndex",
    "StoredBuckets",
    "as_bucket_index",
    "check_bucket_number",
]


class Index:
    """How a table maps a record key to a file group."""

    __slots__ = ()

    keeps_locations: ClassVar[bool] = False
    """Whether the metadata table has the location of each key, so that no key is hashed."""

    keeps_file_ids: ClassVar[bool] = False
    """Whether a bucket has one file id for ever, so that a replaced bucket stays hidden."""

    begins_with_log: ClassVar[bool] = False
    """Whether the first file of a merge-on-read file group is a log file."""

    has_numbered_buckets: ClassVar[bool] = False
    """Whether buckets are numbered from 0, and the number of a bucket begins its file id."""

    @property
    def text(self) -> str:
        """The index as `parse_index` takes it, or words where there is no such text.

        Hash fields are those of a simple index only.

        >>> bf.SimpleBucketIndex(16, ("id",)).text
        'simple:16:id'
        >>> bf.BloomIndex().text
        'bloom index'
        """
        return f"{type(self).__name__[: -len('Index')].lower()} index"

    @property
    def hashing_config(self) -> PartitionBucketRules | None:
        """The rules that a new table writes down; None for an index without rules."""
        return None

    @property
    def group_bytes(self) -> int | None:
        """How large a file group becomes where buckets grow by file groups; else None.

        Base files then tell which file group of its bucket has a key.
        """
        return None

    def agrees_with(self, other: Index) -> bool:
        """Whether both values may be said of one table: they do not contradict each other."""
        return type(self) is type(other)

    @property
    def moves_keys(self) -> bool:
        """Whether a row of another partition than the stored one moves its key there."""
        return False

    def check_kept(self, *, is_global: bool) -> None:
        """Refuse another kind of record index than the table keeps.

        Args:
            is_global: Whether its keys are unique in the table; else in their partition.

        Raises:
            ValueError: the kind.
        """

    def check_creatable(self, table_type: str, table_version: int) -> None:
        """Refuse kinds of new tables that the index is not for.

        Raises:
            ValueError: the table type or the table version is such a kind.
            CorruptError, LimitError, UnsupportedError: as `num_buckets_of`.
        """

    def properties(self, record_key_fields: Sequence[str]) -> dict[str, str]:
        """Return how hoodie.properties state the index: what `find_declared_index` reads."""
        return {}

    def conflict_unit(self, file_id: str) -> int | str:
        """Return what two writes of one partition must not both change: here the file group.

        A number is the bucket id of the file group.
        """
        return file_id


def check_bucket_number(name: str, number: int) -> None:
    """Refuse a number of buckets that bucket ids cannot count.

    Raises:
        ValueError: the number; the message begins with the name.
    """
    if not 1 <= number <= 99_999_999:
        raise ValueError(f"{name} is 1 to 99,999,999 (a bucket id has eight digits), not {number}")


def as_bucket_index(index: Index | None) -> BucketIndex | None:
    """Return an index that hashes keys to buckets; None for any other index."""
    return index if isinstance(index, BucketIndex) else None


@dataclass(frozen=True)
class StoredBuckets:
    """The buckets that the hashing metadata of a partition hold.

    Attributes:
        ring: The nodes; None for a partition without the metadata of a ring.
        directory: The buckets of a directory; None for a partition without a directory.
    """

    ring: Sequence[HashingNode] | None = None
    directory: Sequence[DirectoryBucket] | None = None


NOTHING_STORED = StoredBuckets()
"""A partition without hashing metadata, which may be new."""


class BucketIndex(Index, ABC):
    """An index that hashes a key to a bucket of its partition."""

    __slots__ = ()

    has_rings: ClassVar[bool] = False
    """Whether the table holds a ring of buckets for each partition, in its hashing metadata."""

    has_directories: ClassVar[bool] = False
    """Whether the table holds a directory of buckets for each partition, in such metadata."""

    @property
    def has_virtual_logs(self) -> bool:
        """Whether rows are written once while a resize is pending, to the buckets to come."""
        return False

    def resize_bounds(self, limits: Limits = DEFAULT_LIMITS) -> tuple[int, int]:
        """Return how many buckets a partition keeps at least, and gets at most, when it is resized.

        Raises:
            UnsupportedError: the table does not hold the buckets of each partition.
        """
        raise UnsupportedError(
            f"resize is for consistent and extendible hashing, and this table has {self.text}; a "
            "simple bucket index gets another number of buckets by rehash"
        )

    @property
    @abstractmethod
    def hash_fields(self) -> tuple[str, ...] | None:
        """The hashed fields of the record key; None for all fields."""

    @abstractmethod
    def num_buckets_of(self, partition_path: str, limits: Limits = DEFAULT_LIMITS) -> int:
        """Return how many buckets a new partition gets.

        Raises:
            CorruptError: a rule is malformed.
            LimitError: the number, or the number of rules, is too large.
            UnsupportedError: a regex is not supported.
        """

    @abstractmethod
    def unproved_layout(
        self,
        partition_path: str,
        hash_fields: tuple[str, ...],
        dialect: KeyDialect,
        limits: Limits = DEFAULT_LIMITS,
        stored: StoredBuckets = NOTHING_STORED,
    ) -> BucketLayout:
        """Return the layout of a partition if the index is right, which nothing here proves.

        `location.layouts` returns layouts that are proved: use these to find or to store keys.

        Args:
            partition_path: The partition, which may be new.
            hash_fields: The hashed fields, for an index that does not state them.
            dialect: How the values of these fields are found in a record key.
            limits: Bounds on rules.
            stored: What the hashing metadata of the partition hold.

        Raises:
            CorruptError, LimitError, UnsupportedError: as `num_buckets_of`.
        """

    @abstractmethod
    def properties(self, record_key_fields: Sequence[str]) -> dict[str, str]:
        """Return how hoodie.properties state the index: what `find_declared_index` reads."""

    def with_hash_fields(self, hash_fields: tuple[str, ...] | None) -> BucketIndex:
        """Return the same index by other hash fields."""
        return replace(self, hash_fields=hash_fields)  # type: ignore[type-var]

    @property
    def number_of_all(self) -> int | None:
        """How many buckets every partition has; None where partitions differ."""
        return None

    def _settle(self, count: str) -> None:
        """Check the fields of a new value: integers are stored as int, hash fields as a tuple.

        Args:
            count: The field with the number of buckets.

        Raises:
            TypeError: a field of another type.
            ValueError: a number of buckets that bucket ids cannot count, or no hash fields.
        """
        for name in (count, "min_buckets", "max_buckets"):
            value = getattr(self, name, None)
            if value is not None or name == count:
                object.__setattr__(self, name, check_int(name, value))
        check_bucket_number(count, getattr(self, count))
        if self.hash_fields is not None:
            fields = tuple(check_names("hash_fields", self.hash_fields))
            if not fields:
                raise ValueError("hash_fields is empty: None hashes all fields of the key")
            object.__setattr__(self, "hash_fields", fields)

    def _same_fields(self, other: BucketIndex) -> bool:
        return (
            None in (self.hash_fields, other.hash_fields) or self.hash_fields == other.hash_fields
        )

    def _properties(
        self, engine: str, num_buckets: int, record_key_fields: Sequence[str]
    ) -> dict[str, str]:
        return {
            "hoodie.index.type": "BUCKET",
            "hoodie.index.bucket.engine": engine,
            "hoodie.bucket.index.hash.field": ",".join(self.hash_fields or record_key_fields),
            "hoodie.bucket.index.num.buckets": str(num_buckets),
        }


@dataclass(frozen=True, slots=True)
class RecordIndex(Index):
    """Locations kept key by key in the metadata table. File ids say nothing about keys.

    Attributes:
        update_partition_path: A row whose key is stored in another partition moves the key to the
            partition of the row. By default the row is stored where the key is, as Hudi has it
            unless `hoodie.record.index.update.partition.path` is set. Only for keys that are unique
            in the table.
        partitioned: Of a table that is created: keys are unique in their partition, and not in the
            table. It takes table version 9, and Hudi 1.1 or later. Of a record index that is there
            the metadata table tells.
    """

    keeps_locations: ClassVar[bool] = True

    update_partition_path: bool = False
    partitioned: bool = False

    def __post_init__(self) -> None:
        check_bool("update_partition_path", self.update_partition_path)
        check_bool("partitioned", self.partitioned)

    def check_creatable(self, table_type: str, table_version: int) -> None:
        """Refuse a partitioned index before version 9.

        Raises:
            ValueError: the version.
        """
        if self.partitioned and table_version < 9:
            raise ValueError("a partitioned record index takes table version 9 (Hudi 1.1)")

    @property
    def moves_keys(self) -> bool:
        """Whether a row of another partition than the stored one moves its key there."""
        return self.update_partition_path

    @property
    def text(self) -> str:
        """The index as `parse_index` takes it: `record`, `record:moving`, `record:partitioned`."""
        kinds = {"moving": self.update_partition_path, "partitioned": self.partitioned}
        return ":".join(["record", *(name for name, is_so in kinds.items() if is_so)])

    def check_kept(self, *, is_global: bool) -> None:
        """Refuse a partitioned index where keys are unique in the table.

        Raises:
            ValueError: the index.
        """
        if self.partitioned and is_global:
            raise ValueError(
                f"index={self}, but the record index of the table is of keys that are unique in "
                "the table; open the table without index="
            )

    def properties(self, record_key_fields: Sequence[str]) -> dict[str, str]:
        """Return the index type, and what becomes of keys that move."""
        moves = str(self.update_partition_path).lower()
        return {
            "hoodie.index.type": PARTITIONED_RECORD_INDEX if self.partitioned else "RECORD_INDEX",
            "hoodie.record.index.update.partition.path": moves,
        }


@dataclass(frozen=True, slots=True)
class BloomIndex(Index):
    """Bloom filters and key ranges in base file footers. File ids say nothing about keys."""
