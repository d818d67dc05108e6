"""Which buckets of extendible directories are split or merged, by the sizes of their slices.

Pure. A bucket that is too large is divided by as many further bits of the hash as bring its parts
below the bound, if hashes are even; two buddies that are both small become one, and may go on to be
merged with their buddy. No other bucket is touched. Source: spec EXT-10 to EXT-12.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Literal

import msgspec

from bucketfmt.format.buckets.extendible_directory import (
    DirectoryBucket,
    derive_directory_prefix,
    global_depth_of,
)
from bucketfmt.format.buckets.extendible_metadata import ExtendibleMetadata
from bucketfmt.format.names.names import format_consistent_file_id
from bucketfmt.resize.split_merge.resize_limits import ResizeLimits, ResizePreview
from bucketfmt.snapshot.data_files.files import FileSlice

__all__ = [
    "DirectoryGroup",
    "DirectoryOfPartition",
    "plan_directories",
    "preview_directories",
    "resized_metadata",
]


@dataclass(frozen=True, slots=True)
class DirectoryOfPartition:
    """A partition that may be resized.

    Attributes:
        metadata: In force.
        slices: What is read of the bucket's file group, by bucket id.
        busy: Buckets that a pending service has, which stay as they are.
    """

    metadata: ExtendibleMetadata
    slices: Mapping[int, FileSlice]
    busy: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class DirectoryGroup:
    """Buckets that are rewritten together, and what becomes of them.

    Attributes:
        kind: What happens.
        metadata: Of the partition.
        buckets: The buckets that go, by their ids.
        slices: What is read of them; a bucket without a file group has none.
        new_ids: The ids of the new buckets, in ascending order.
        new_depth: The local depth of the new buckets.
    """

    kind: Literal["split", "merge"]
    metadata: ExtendibleMetadata
    buckets: tuple[DirectoryBucket, ...]
    slices: tuple[FileSlice, ...]
    new_ids: tuple[int, ...]
    new_depth: int

    @property
    def partition_path(self) -> str:
        """The partition."""
        return self.metadata.partition_path

    @property
    def size(self) -> int:
        """Bytes of the slices."""
        return sum(file_slice.size for file_slice in self.slices)

    @property
    def file_ids(self) -> tuple[str, ...]:
        """The file groups of the buckets that go, whether or not they have files."""
        return tuple(format_consistent_file_id(bucket.file_id_prefix) for bucket in self.buckets)

    def new_buckets(self, instant: str) -> tuple[DirectoryBucket, ...]:
        """Return the new buckets, the same for the same slices.

        Other slices go to other file groups: what was written of a group before its slices changed
        is told from what counts.

        Args:
            instant: The requested time of the resize.
        """
        files = "/".join(str(file.name) for own in self.slices for file in own.files)
        found = []
        for number in self.new_ids:
            name = f"{instant}/{self.partition_path}/{number}/{self.new_depth}/{files}"
            prefix = derive_directory_prefix(name.encode())
            found.append(DirectoryBucket(number, self.new_depth, prefix))
        return tuple(found)


def plan_directories(
    directories: Iterable[DirectoryOfPartition], limits: ResizeLimits, depth_max: int
) -> list[DirectoryGroup]:
    """Return what to rewrite, partition by partition, as far as one resize may take it.

    Args:
        directories: In the order of their paths.
        limits: What to aim at, within bounds.
        depth_max: The largest global depth.
    """
    return limits.take(
        group
        for directory in directories
        for group in _plan_partition(directory, limits, depth_max)
    )


def preview_directories(groups: Sequence[DirectoryGroup]) -> ResizePreview:
    """Return the groups in numbers."""
    kinds = [group.kind for group in groups]
    return ResizePreview(
        partitions=len({group.partition_path for group in groups}),
        splits=kinds.count("split"),
        merges=kinds.count("merge"),
        file_groups=sum(len(group.slices) for group in groups),
        new_file_groups=sum(len(group.new_ids) for group in groups),
        bytes=sum(group.size for group in groups),
    )


def resized_metadata(groups: Iterable[DirectoryGroup], instant: str) -> list[ExtendibleMetadata]:
    """Return the new directory of each partition of the groups.

    Args:
        groups: Of `plan_directories`.
        instant: The requested time of the resize.
    """
    by_path: dict[str, list[DirectoryGroup]] = defaultdict(list)
    for group in groups:
        by_path[group.partition_path].append(group)
    found = []
    for path in sorted(by_path):
        own = by_path[path]
        metadata = own[0].metadata
        buckets = {bucket.bucket_id: bucket for bucket in metadata.buckets}
        for group in own:
            for bucket in group.buckets:
                del buckets[bucket.bucket_id]
        for group in own:
            buckets.update((bucket.bucket_id, bucket) for bucket in group.new_buckets(instant))
        ordered = tuple(buckets[number] for number in sorted(buckets))
        found.append(
            msgspec.structs.replace(
                metadata,
                instant=instant,
                seq_no=metadata.seq_no + 1,
                global_depth=global_depth_of(ordered),
                buckets=ordered,
            )
        )
    return found


def _plan_partition(
    directory: DirectoryOfPartition, limits: ResizeLimits, depth_max: int
) -> list[DirectoryGroup]:
    metadata = directory.metadata
    free = [b for b in metadata.buckets if b.bucket_id not in directory.busy]
    num_added, bits = _plan_splits(directory, free, limits, depth_max)
    splits = []
    for bucket in free:
        number, depth = bucket.bucket_id, bucket.local_depth
        if number in bits:
            ids = tuple(number + (part << depth) for part in range(1 << bits[number]))
            own = (directory.slices[number],)
            depth += bits[number]
            splits.append(DirectoryGroup("split", metadata, (bucket,), own, ids, depth))
    rest = [bucket for bucket in free if bucket.bucket_id not in bits]
    slots = len(metadata.buckets) + num_added - (limits.min_buckets or 1)
    return [*splits, *_plan_merges(directory, rest, limits.merge_size, slots)]


def _plan_splits(
    directory: DirectoryOfPartition,
    buckets: Iterable[DirectoryBucket],
    limits: ResizeLimits,
    depth_max: int,
) -> tuple[int, dict[int, int]]:
    """Return how many buckets are added, and by how many bits each bucket is divided.

    The bucket with the largest parts is divided further first, as long as the number of buckets
    allows it. Buckets that stay are left out.
    """
    slots = (limits.max_buckets or 0) - len(directory.metadata.buckets)
    num_added, bits = 0, dict[int, int]()
    largest = [
        (-directory.slices[bucket.bucket_id].size, bucket.bucket_id, bucket.local_depth)
        for bucket in buckets
        if bucket.bucket_id in directory.slices
    ]
    heapify(largest)
    while largest:
        size, number, depth = heappop(largest)
        parts = 1 << bits.get(number, 0)
        if -size <= limits.split_size:
            break
        if depth < depth_max and num_added + parts <= slots:
            num_added += parts
            bits[number] = bits.get(number, 0) + 1
            heappush(largest, (size // 2, number, depth + 1))
    return num_added, bits


def _plan_merges(
    directory: DirectoryOfPartition,
    buckets: Iterable[DirectoryBucket],
    merge_size: int,
    slots: int,
) -> list[DirectoryGroup]:
    """Return the merges of small buddies, from the deepest buckets up.

    Two buckets without a file group are left alone: nothing would be written.
    """
    members = {(b.local_depth, b.bucket_id): [b] for b in buckets}
    sizes = {
        place: own.size if (own := directory.slices.get(place[1])) is not None else 0
        for place in members
    }
    for depth in range(max((d for d, _ in members), default=0), 0, -1):
        for number in sorted(n for d, n in members if d == depth and n < 1 << (depth - 1)):
            low, high = (depth, number), (depth, number + (1 << (depth - 1)))
            if slots <= 0 or high not in members or max(sizes[low], sizes[high]) > merge_size:
                continue
            if not sizes[low] + sizes[high]:
                continue
            merged = depth - 1, number
            members[merged] = members.pop(low) + members.pop(high)
            sizes[merged] = sizes.pop(low) + sizes.pop(high)
            slots -= 1
    found = []
    for (depth, number), merged_buckets in sorted(members.items(), key=lambda item: item[0][1]):
        if len(merged_buckets) > 1:
            ordered = tuple(sorted(merged_buckets, key=lambda bucket: bucket.bucket_id))
            slices = [directory.slices.get(bucket.bucket_id) for bucket in ordered]
            found.append(
                DirectoryGroup(
                    "merge",
                    directory.metadata,
                    ordered,
                    tuple(each for each in slices if each is not None),
                    (number,),
                    depth,
                )
            )
    return found
