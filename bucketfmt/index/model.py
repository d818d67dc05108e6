"""The index engines as values: how a table maps a record key to a file group.

Pure. What readers and writers have to know of an engine is a property or a method of its value,
so that nothing else asks which engine a value is. Source: HoodieIndex.IndexType,
HoodieIndex.BucketIndexEngineType, HoodieIndexConfig.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from bucketfmt.arguments import check_bool, check_int, check_names, check_text
from bucketfmt.errors import UnsupportedError
from bucketfmt.format.buckets.extendible_directory import DirectoryBucket, initial_directory
from bucketfmt.format.buckets.index_settings import (
    EXTENDIBLE_HASHING,
    GROUP_BYTES,
    GROUP_BYTES_MAX,
    MULTIPLE_FILE_GROUPS,
    PARTITIONED_RECORD_INDEX,
    VIRTUAL_LOG_HASHING,
)
from bucketfmt.format.buckets.partition_rules import PartitionBucketRules
from bucketfmt.format.buckets.ring import HashingNode, initial_ring
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.format.names.names import find_bucket_id
from bucketfmt.index.layout import (
    BucketLayout,
    DirectoryBuckets,
    FixedBuckets,
    GrowingBuckets,
    RingBuckets,
)
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "BloomIndex",
    "BucketIndex",
    "ConsistentHashingIndex",
    "ExtendibleHashingIndex",
    "Index",
    "MultiGroupBucketIndex",
    "PartitionBucketIndex",
    "RecordIndex",
    "SimpleBucketIndex",
    "as_bucket_index",
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
    _check_number(count, getattr(index, count))
    if index.hash_fields is not None:
        fields = tuple(check_names("hash_fields", index.hash_fields))
        object.__setattr__(index, "hash_fields", fields)


def _check_number(name: str, number: int) -> None:
    if not 1 <= number <= 99_999_999:
        raise ValueError(f"{name} is 1 to 99,999,999 (a bucket id has eight digits), not {number}")


class Index:
    """How a table maps a record key to a file group: one of the values below."""

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
        >>> bf.RecordIndex().text
        'record index'
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


def as_bucket_index(index: Index | None) -> BucketIndex | None:
    """Return an index that hashes keys to buckets; None for any other index."""
    return index if isinstance(index, BucketIndex) else None


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
            f"a resize of a table with {self}; it is for consistent and extendible hashing, and a "
            "rehash for a simple bucket index"
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
        ring: Sequence[HashingNode] | None = None,
        directory: Sequence[DirectoryBucket] | None = None,
    ) -> BucketLayout:
        """Return the layout of a partition if the index is right, which nothing here proves.

        `location.layouts` returns layouts that are proved: use these to find or to store keys.

        Args:
            partition_path: The partition, which may be new.
            hash_fields: The hashed fields, for an index that does not state them.
            dialect: How the values of these fields are found in a record key.
            limits: Bounds on rules.
            ring: The nodes that the hashing metadata of the partition hold; None for a partition
                without hashing metadata.
            directory: The same of the buckets of a directory.

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
class SimpleBucketIndex(BucketIndex):
    """A fixed number of buckets in every partition.

    `hash_fields` None means all record key fields, as Hudi has it when
    `hoodie.bucket.index.hash.field` is not set. As the values below, raises TypeError for a field
    of another type.
    """

    has_numbered_buckets: ClassVar[bool] = True

    num_buckets: int
    hash_fields: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _settle(self, "num_buckets")

    @property
    def number_of_all(self) -> int:
        """How many buckets every partition has."""
        return self.num_buckets

    @property
    def text(self) -> str:
        """The index as `parse_index` takes it: `simple:16:id`."""
        fields = f":{','.join(self.hash_fields)}" if self.hash_fields else ""
        return f"simple:{self.num_buckets}{fields}"

    def num_buckets_of(self, partition_path: str, limits: Limits = DEFAULT_LIMITS) -> int:
        """Return the number that every partition has."""
        return self.num_buckets

    def unproved_layout(
        self,
        partition_path: str,
        hash_fields: tuple[str, ...],
        dialect: KeyDialect,
        limits: Limits = DEFAULT_LIMITS,
        ring: Sequence[HashingNode] | None = None,
        directory: Sequence[DirectoryBucket] | None = None,
    ) -> BucketLayout:
        """Return the fixed buckets. As `BucketIndex.unproved_layout`."""
        return FixedBuckets(self.num_buckets, self.hash_fields or hash_fields, dialect)

    def properties(self, record_key_fields: Sequence[str]) -> dict[str, str]:
        """Return the engine, the hash fields and the number."""
        return self._properties("SIMPLE", self.num_buckets, record_key_fields)

    def agrees_with(self, other: Index) -> bool:
        """Whether the numbers are equal, and the hash fields where both state them."""
        return (
            isinstance(other, SimpleBucketIndex)
            and self._same_fields(other)
            and self.num_buckets == other.num_buckets
        )

    def conflict_unit(self, file_id: str) -> int | str:
        """Return the bucket id, since two new file groups of a bucket are a conflict too."""
        return _numbered_unit(file_id)


@dataclass(frozen=True, slots=True)
class PartitionBucketIndex(BucketIndex):
    """A fixed number of buckets by partition: regex rules, first match wins (Hudi 1.1+, RFC-89).

    `rules` is Hudi's expression text, `regex,number;regex,number`; a partition that no
    rule matches has `default` buckets.
    """

    has_numbered_buckets: ClassVar[bool] = True

    default: int
    rules: str
    hash_fields: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _settle(self, "default")
        check_text("rules", self.rules)

    @property
    def text(self) -> str:
        """The index as `parse_index` takes it: `partition:4:us,8`."""
        return f"partition:{self.default}:{self.rules}"

    def num_buckets_of(self, partition_path: str, limits: Limits = DEFAULT_LIMITS) -> int:
        """Return the number of the first rule that matches, or the default."""
        return self.hashing_config.num_buckets_for(partition_path, limits)

    def unproved_layout(
        self,
        partition_path: str,
        hash_fields: tuple[str, ...],
        dialect: KeyDialect,
        limits: Limits = DEFAULT_LIMITS,
        ring: Sequence[HashingNode] | None = None,
        directory: Sequence[DirectoryBucket] | None = None,
    ) -> BucketLayout:
        """Return the fixed buckets that the rules give. As `BucketIndex.unproved_layout`."""
        num_buckets = self.num_buckets_of(partition_path, limits)
        return FixedBuckets(num_buckets, self.hash_fields or hash_fields, dialect)

    def properties(self, record_key_fields: Sequence[str]) -> dict[str, str]:
        """Return the engine, the hash fields, the default and the rules."""
        return {
            **self._properties("SIMPLE", self.default, record_key_fields),
            "hoodie.bucket.index.partition.expressions": self.rules,
            "hoodie.bucket.index.partition.rule.type": "regex",
        }

    def check_creatable(self, table_type: str, table_version: int) -> None:
        """Refuse versions before 9, and rules that are malformed.

        Raises:
            ValueError: the version, or the number of a rule.
            CorruptError, LimitError, UnsupportedError: a rule, as `num_buckets_of` says.
        """
        if table_version < 9:
            raise ValueError("bucket rules by partition take table version 9 (Hudi 1.1)")
        for number in self.hashing_config.numbers():
            _check_number("the number of a rule", number)

    @property
    def hashing_config(self) -> PartitionBucketRules:
        """The rules as the first `.hashing_config` of a table states them."""
        return PartitionBucketRules(self.rules, self.default)

    def agrees_with(self, other: Index) -> bool:
        """Whether the rules are equal, and the hash fields where both state them."""
        return (
            isinstance(other, PartitionBucketIndex)
            and self._same_fields(other)
            and (self.default, self.rules) == (other.default, other.rules)
        )

    def conflict_unit(self, file_id: str) -> int | str:
        """Return the bucket id, since two new file groups of a bucket are a conflict too."""
        return _numbered_unit(file_id)


@dataclass(frozen=True, slots=True)
class ConsistentHashingIndex(BucketIndex):
    """A ring of buckets by partition that is split and merged as it grows (RFC-42, MOR only).

    `num_buckets` is the initial number; the ring in force stands in the table's hashing
    metadata. Without `min_buckets` and `max_buckets` Hudi never resizes.

    With `virtual_logs` rows are written once while a resize is pending, and not twice (RFC-42's
    virtual log files). Such a table is for bucketfmt alone: create states an engine that writers
    of Hudi do not know, and readers of Hudi fail while a resize is pending.
    """

    has_rings: ClassVar[bool] = True
    keeps_file_ids: ClassVar[bool] = True
    begins_with_log: ClassVar[bool] = True

    num_buckets: int
    min_buckets: int | None = None
    max_buckets: int | None = None
    hash_fields: tuple[str, ...] | None = None
    virtual_logs: bool = False

    def __post_init__(self) -> None:
        _settle(self, "num_buckets")
        check_bool("virtual_logs", self.virtual_logs)

    def agrees_with(self, other: Index) -> bool:
        """Whether both have virtual logs, or neither; numbers and hash fields may differ."""
        return isinstance(other, ConsistentHashingIndex) and self.virtual_logs == other.virtual_logs

    @property
    def text(self) -> str:
        """The index as `parse_index` takes it: `consistent:4`."""
        return f"consistent:{self.num_buckets}{':virtual-logs' * self.virtual_logs}"

    def num_buckets_of(self, partition_path: str, limits: Limits = DEFAULT_LIMITS) -> int:
        """Return the initial number."""
        return self.num_buckets

    def unproved_layout(
        self,
        partition_path: str,
        hash_fields: tuple[str, ...],
        dialect: KeyDialect,
        limits: Limits = DEFAULT_LIMITS,
        ring: Sequence[HashingNode] | None = None,
        directory: Sequence[DirectoryBucket] | None = None,
    ) -> BucketLayout:
        """Return the ring; that of a new partition follows from its path and the number."""
        nodes = initial_ring(partition_path, self.num_buckets) if ring is None else tuple(ring)
        return RingBuckets(nodes, self.hash_fields or hash_fields, dialect)

    @property
    def has_virtual_logs(self) -> bool:
        """As `virtual_logs`."""
        return self.virtual_logs

    def resize_bounds(self, limits: Limits = DEFAULT_LIMITS) -> tuple[int, int]:
        """Return the bounds that are given; by default the initial number, and any number.

        By default Hudi has the initial number for both, and so never resizes.
        """
        most = min(self.max_buckets or limits.ring_nodes_max, limits.ring_nodes_max)
        return self.min_buckets or self.num_buckets, most

    def properties(self, record_key_fields: Sequence[str]) -> dict[str, str]:
        """Return the engine, the hash fields and the numbers that are given."""
        engine = VIRTUAL_LOG_HASHING if self.virtual_logs else "CONSISTENT_HASHING"
        found = self._properties(engine, self.num_buckets, record_key_fields)
        for name, number in (("min", self.min_buckets), ("max", self.max_buckets)):
            if number is not None:
                found[f"hoodie.bucket.index.{name}.num.buckets"] = str(number)
        return found

    def check_creatable(self, table_type: str, table_version: int) -> None:
        """Refuse copy-on-write tables, as Hudi does.

        Raises:
            ValueError: the table type.
        """
        if table_type != "MERGE_ON_READ":
            raise ValueError('consistent hashing takes table_type="MERGE_ON_READ"')


@dataclass(frozen=True, slots=True)
class ExtendibleHashingIndex(BucketIndex):
    """A directory of buckets by partition, of which a split touches one. Not an index of Hudi.

    Hudi reads such a table, and only bucketfmt may write it: create states an engine that writers
    of Hudi do not know. `num_buckets` is the number that a partition begins with, a power of two;
    the directory in force stands in the table's hashing metadata (RFC-29, RFC-42).
    """

    has_directories: ClassVar[bool] = True
    keeps_file_ids: ClassVar[bool] = True

    num_buckets: int
    hash_fields: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _settle(self, "num_buckets")
        if self.num_buckets & (self.num_buckets - 1):
            raise ValueError(f"num_buckets is a power of two, not {self.num_buckets}")

    @property
    def text(self) -> str:
        """The index as `parse_index` takes it: `extendible:2`."""
        return f"extendible:{self.num_buckets}"

    def num_buckets_of(self, partition_path: str, limits: Limits = DEFAULT_LIMITS) -> int:
        """Return the initial number.

        Raises:
            LimitError: a directory of that many entries is too large.
        """
        limits.check("directory_depth_max", self.num_buckets.bit_length() - 1)
        return self.num_buckets

    def unproved_layout(
        self,
        partition_path: str,
        hash_fields: tuple[str, ...],
        dialect: KeyDialect,
        limits: Limits = DEFAULT_LIMITS,
        ring: Sequence[HashingNode] | None = None,
        directory: Sequence[DirectoryBucket] | None = None,
    ) -> BucketLayout:
        """Return the directory; that of a new partition follows from its path and the number."""
        number = self.num_buckets_of(partition_path, limits)
        buckets = directory or initial_directory(partition_path, number)
        return DirectoryBuckets(tuple(buckets), self.hash_fields or hash_fields, dialect)

    def resize_bounds(self, limits: Limits = DEFAULT_LIMITS) -> tuple[int, int]:
        """Return the initial number, and that of the largest directory."""
        return self.num_buckets, 1 << limits.directory_depth_max

    def properties(self, record_key_fields: Sequence[str]) -> dict[str, str]:
        """Return the engine, the hash fields and the number."""
        return self._properties(EXTENDIBLE_HASHING, self.num_buckets, record_key_fields)

    def check_creatable(self, table_type: str, table_version: int) -> None:
        """Refuse too large a directory.

        Raises:
            LimitError: the number.
        """
        self.num_buckets_of("")


@dataclass(frozen=True, slots=True)
class MultiGroupBucketIndex(BucketIndex):
    """A fixed number of buckets, each of which grows by file groups. Not an index of Hudi.

    New keys of a bucket go to its smallest file group, until that is as large as `group_bytes`, and
    then to a new one. Key ranges and bloom filters in the footers of base files tell which file
    group of its bucket has a key. Hudi reads such a table, and only bucketfmt may write it: create
    states an engine that writers of Hudi do not know. Source: RFC-29, multiple file groups per
    bucket.

    Attributes:
        num_buckets: The number of buckets in every partition.
        group_bytes: About how large a base file becomes, in bytes, as Hudi's
            `hoodie.parquet.max.file.size` has it.
        hash_fields: As those of `SimpleBucketIndex`.
    """

    has_numbered_buckets: ClassVar[bool] = True

    num_buckets: int
    group_bytes: int = 125_829_120
    hash_fields: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _settle(self, "num_buckets")
        size = check_int("group_bytes", self.group_bytes)
        if not 1 <= size <= GROUP_BYTES_MAX:
            raise ValueError(f"group_bytes is 1 to {GROUP_BYTES_MAX:,}, not {size}")
        object.__setattr__(self, "group_bytes", size)

    @property
    def number_of_all(self) -> int:
        """How many buckets every partition has."""
        return self.num_buckets

    @property
    def text(self) -> str:
        """The index as `parse_index` takes it: `multigroup:4:125829120`."""
        return f"multigroup:{self.num_buckets}:{self.group_bytes}"

    def num_buckets_of(self, partition_path: str, limits: Limits = DEFAULT_LIMITS) -> int:
        """Return the number that every partition has."""
        return self.num_buckets

    def unproved_layout(
        self,
        partition_path: str,
        hash_fields: tuple[str, ...],
        dialect: KeyDialect,
        limits: Limits = DEFAULT_LIMITS,
        ring: Sequence[HashingNode] | None = None,
        directory: Sequence[DirectoryBucket] | None = None,
    ) -> BucketLayout:
        """Return the fixed buckets. As `BucketIndex.unproved_layout`."""
        return GrowingBuckets(self.num_buckets, self.hash_fields or hash_fields, dialect)

    def properties(self, record_key_fields: Sequence[str]) -> dict[str, str]:
        """Return the engine, the hash fields, the number and the size of a file group."""
        found = self._properties(MULTIPLE_FILE_GROUPS, self.num_buckets, record_key_fields)
        return {**found, GROUP_BYTES: str(self.group_bytes)}

    def agrees_with(self, other: Index) -> bool:
        """Whether the numbers and sizes are equal, and the hash fields where both state them."""
        return (
            isinstance(other, MultiGroupBucketIndex)
            and self._same_fields(other)
            and (self.num_buckets, self.group_bytes) == (other.num_buckets, other.group_bytes)
        )

    def conflict_unit(self, file_id: str) -> int | str:
        """Return the bucket id: two writes may bring one new key to different file groups."""
        return _numbered_unit(file_id)


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


def _numbered_unit(file_id: str) -> int | str:
    bucket_id = find_bucket_id(file_id)
    return file_id if bucket_id is None else bucket_id
