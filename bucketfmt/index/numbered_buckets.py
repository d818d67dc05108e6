"""The engines whose buckets are numbered: one number for a table, or a number by partition.

Pure. Source: HoodieSimpleBucketIndex, PartitionBucketIndexUtils; RFC-29 for several file groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bucketfmt.arguments import check_int, check_text
from bucketfmt.errors import CorruptError
from bucketfmt.format.buckets.index_settings import (
    GROUP_BYTES,
    GROUP_BYTES_MAX,
    MULTIPLE_FILE_GROUPS,
)
from bucketfmt.format.buckets.partition_rules import PartitionBucketRules
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.format.names.names import find_bucket_id
from bucketfmt.index.layout import BucketLayout, FixedBuckets, GrowingBuckets
from bucketfmt.index.model import (
    NOTHING_STORED,
    BucketIndex,
    Index,
    StoredBuckets,
    check_bucket_number,
)
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "MultiGroupBucketIndex",
    "NumberedBucketIndex",
    "PartitionBucketIndex",
    "SimpleBucketIndex",
]


class NumberedBucketIndex(BucketIndex):
    """An index whose buckets are numbered from 0 in each partition, and never move."""

    __slots__ = ()

    has_numbered_buckets: ClassVar[bool] = True

    _layout: ClassVar[type[FixedBuckets]] = FixedBuckets

    def unproved_layout(
        self,
        partition_path: str,
        hash_fields: tuple[str, ...],
        dialect: KeyDialect,
        limits: Limits = DEFAULT_LIMITS,
        stored: StoredBuckets = NOTHING_STORED,
    ) -> BucketLayout:
        """Return as many buckets as `num_buckets_of` says. As `BucketIndex.unproved_layout`."""
        num_buckets = self.num_buckets_of(partition_path, limits)
        return self._layout(num_buckets, self.hash_fields or hash_fields, dialect)

    def conflict_unit(self, file_id: str) -> int | str:
        """Return the bucket id: two writes may bring one new key to different file groups."""
        bucket_id = find_bucket_id(file_id)
        return file_id if bucket_id is None else bucket_id


class _OneNumber(NumberedBucketIndex):
    """Every partition has the same number of buckets."""

    __slots__ = ()

    num_buckets: int

    @property
    def number_of_all(self) -> int:
        """How many buckets every partition has."""
        return self.num_buckets

    def num_buckets_of(self, partition_path: str, limits: Limits = DEFAULT_LIMITS) -> int:
        """Return the number that every partition has."""
        return self.num_buckets


@dataclass(frozen=True, slots=True)
class SimpleBucketIndex(_OneNumber):
    """A fixed number of buckets in every partition.

    `hash_fields` None means all record key fields, as Hudi has it when
    `hoodie.bucket.index.hash.field` is not set. As the values below, raises TypeError for a field
    of another type.
    """

    num_buckets: int
    hash_fields: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        self._settle("num_buckets")

    @property
    def text(self) -> str:
        """The index as `parse_index` takes it: `simple:16:id`."""
        fields = f":{','.join(self.hash_fields)}" if self.hash_fields else ""
        return f"simple:{self.num_buckets}{fields}"

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


@dataclass(frozen=True, slots=True)
class PartitionBucketIndex(NumberedBucketIndex):
    """A fixed number of buckets by partition: regex rules, first match wins (Hudi 1.1+, RFC-89).

    `rules` is Hudi's expression text, `regex,number;regex,number`; a partition that no
    rule matches has `default` buckets.
    """

    default: int
    rules: str
    hash_fields: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        self._settle("default")
        check_text("rules", self.rules)

    @property
    def text(self) -> str:
        """The index as `parse_index` takes it: `partition:4:us,8`."""
        return f"partition:{self.default}:{self.rules}"

    def num_buckets_of(self, partition_path: str, limits: Limits = DEFAULT_LIMITS) -> int:
        """Return the number of the first rule that matches, or the default."""
        return self.hashing_config.num_buckets_for(partition_path, limits)

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
            ValueError: the version, a malformed rule, or the number of a rule.
            LimitError, UnsupportedError: a rule, as `num_buckets_of` says.
        """
        if table_version < 9:
            raise ValueError("bucket rules by partition take table version 9 (Hudi 1.1)")
        try:
            numbers = self.hashing_config.numbers()
        except CorruptError as error:  # what a table states is damaged, and what is given is wrong
            raise ValueError(f"rules={self.rules!r}: {error.message}") from None
        for number in numbers:
            check_bucket_number("the number of a rule", number)

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


@dataclass(frozen=True, slots=True)
class MultiGroupBucketIndex(_OneNumber):
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

    _layout: ClassVar[type[FixedBuckets]] = GrowingBuckets

    num_buckets: int
    group_bytes: int = 125_829_120
    hash_fields: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        self._settle("num_buckets")
        size = check_int("group_bytes", self.group_bytes)
        if not 1 <= size <= GROUP_BYTES_MAX:
            raise ValueError(f"group_bytes is 1 to {GROUP_BYTES_MAX:,}, not {size}")
        object.__setattr__(self, "group_bytes", size)

    @property
    def text(self) -> str:
        """The index as `parse_index` takes it: `multigroup:4:125829120`."""
        return f"multigroup:{self.num_buckets}:{self.group_bytes}"

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
