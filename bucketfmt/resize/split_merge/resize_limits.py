"""What a resize aims at and how much of it one schedule takes, and what it would do, in numbers.

Pure. The same for rings and for directories.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from bucketfmt.resize.growth import Duration
from bucketfmt.resize.split_merge.split_policies import MiddleSplit, SplitPolicy

__all__ = ["ResizeLimits", "ResizePreview"]

_MIB = 1 << 20
_MIDDLE = MiddleSplit()


class _Measured(Protocol):
    """File slices of a partition that are rewritten together."""

    @property
    def partition_path(self) -> str: ...

    @property
    def size(self) -> int: ...


_Group = TypeVar("_Group", bound=_Measured)


@dataclass(frozen=True, slots=True)
class ResizeLimits:
    """What a resize aims at, and how much one schedule may take.

    Attributes:
        min_buckets: A partition keeps at least so many buckets; None as the index states it.
        max_buckets: A partition gets at most so many buckets; None as the index states it.
        max_file_size: Bytes of a base file, as writers of the table have it
            (`hoodie.parquet.max.file.size`).
        split_threshold: File slices larger than so many times `max_file_size` are split
            (`hoodie.bucket.index.split.threshold`).
        merge_threshold: File slices of at most so many times `max_file_size` are merged
            (`hoodie.bucket.index.merge.threshold`).
        split: Where a node is divided.
        sort_by: Columns by which rows are sorted; then the other file slices are sorted as well.
        max_bytes: Bytes of file slices that one schedule rewrites; one group at least.
        max_groups: Groups of one schedule (`hoodie.clustering.plan.strategy.max.num.groups`).
        max_partitions: Partitions of one schedule.
    """

    min_buckets: int | None = None
    max_buckets: int | None = None
    max_file_size: int = 120 * _MIB
    split_threshold: float = 2.0
    merge_threshold: float = 0.2
    split: SplitPolicy = _MIDDLE
    sort_by: tuple[str, ...] = ()
    max_bytes: int = 2048 * _MIB
    max_groups: int | None = None
    max_partitions: int | None = None

    def within(self, bounds: tuple[int, int]) -> ResizeLimits:
        """Return the limits with these bounds on the buckets where none are given.

        Raises:
            ValueError: the bounds contradict one another.
        """
        least = bounds[0] if self.min_buckets is None else self.min_buckets
        most = bounds[1] if self.max_buckets is None else self.max_buckets
        if not 1 <= least <= most:
            raise ValueError(
                f"at least {least} and at most {most} buckets; give min_buckets= and max_buckets= "
                "that do not contradict one another"
            )
        return replace(self, min_buckets=least, max_buckets=most)

    @property
    def split_size(self) -> int:
        """File slices that are larger are split."""
        return int(self.max_file_size * self.split_threshold)

    @property
    def merge_size(self) -> int:
        """File slices that are not larger are merged."""
        return int(self.max_file_size * self.merge_threshold)

    def take(self, groups: Iterable[_Group]) -> list[_Group]:
        """Return the groups that one schedule may take: from the first, up to the limits.

        Args:
            groups: Partition by partition, the more important first.
        """
        found: list[_Group] = []
        paths: set[str] = set()
        bytes_left = self.max_bytes
        for group in groups:
            bytes_left -= group.size
            paths.add(group.partition_path)
            is_too_much = (
                bytes_left < 0
                or (self.max_groups is not None and len(found) >= self.max_groups)
                or (self.max_partitions is not None and len(paths) > self.max_partitions)
            )
            if found and is_too_much:
                break
            found.append(group)
        return found


@dataclass(frozen=True, slots=True)
class ResizePreview:
    """What `Table.resize` would do.

    Attributes:
        pending: The clustering that it would execute, as it was planned; None if it would plan one.
        partitions: How many partitions would get another ring.
        splits: How many buckets would be divided.
        merges: How many groups of neighbours would become one bucket each.
        sorts: How many buckets would only be sorted.
        file_groups: How many file groups would be read and hidden.
        new_file_groups: How many file groups would take their rows, at most.
        bytes: The sizes of the files to read together, which is about what is written too.
        duration: How long it is expected to take; None if there is nothing to do.
    """

    pending: str | None = None
    partitions: int = 0
    splits: int = 0
    merges: int = 0
    sorts: int = 0
    file_groups: int = 0
    new_file_groups: int = 0
    bytes: int = 0
    duration: Duration | None = None
