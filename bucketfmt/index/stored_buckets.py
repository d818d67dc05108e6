"""The engines whose buckets the table stores in its hashing metadata: rings and directories.

Pure. Source: HoodieConsistentBucketIndex; RFC-42, and RFC-29 for extendible hashing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bucketfmt.arguments import check_bool
from bucketfmt.format.buckets.extendible_directory import initial_directory
from bucketfmt.format.buckets.index_settings import EXTENDIBLE_HASHING, VIRTUAL_LOG_HASHING
from bucketfmt.format.buckets.ring import initial_ring
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.index.layout import BucketLayout, DirectoryBuckets, RingBuckets
from bucketfmt.index.model import NOTHING_STORED, BucketIndex, Index, StoredBuckets
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = ["ConsistentHashingIndex", "ExtendibleHashingIndex"]


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
        self._settle("num_buckets")
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
        stored: StoredBuckets = NOTHING_STORED,
    ) -> BucketLayout:
        """Return the ring; that of a new partition follows from its path and the number."""
        ring = stored.ring
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

    num_buckets: int
    hash_fields: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        self._settle("num_buckets")
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
        stored: StoredBuckets = NOTHING_STORED,
    ) -> BucketLayout:
        """Return the directory; that of a new partition follows from its path and the number."""
        number = self.num_buckets_of(partition_path, limits)
        buckets = stored.directory or initial_directory(partition_path, number)
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
