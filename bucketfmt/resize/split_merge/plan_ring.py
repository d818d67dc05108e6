"""Which nodes of consistent hashing rings are split, merged or sorted, by the sizes of slices.

Pure. The plan of a partition has splits first, then merges, then sorts. Source:
BaseConsistentHashingBucketClusteringPlanStrategy, PartitionAwareClusteringPlanStrategy,
FileSliceMetricUtils.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bucketfmt.errors import CorruptError
from bucketfmt.format.buckets.child_nodes import format_group_change
from bucketfmt.format.buckets.hashing_metadata import HashingMetadata
from bucketfmt.format.buckets.ring import HashingNode, find_former_value, merge_nodes
from bucketfmt.format.names.names import FileGroupId
from bucketfmt.format.timeline.plans import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringStrategy,
    SliceInfo,
)
from bucketfmt.resize.split_merge.resize_limits import ResizeLimits, ResizePreview
from bucketfmt.snapshot.data_files.files import FileSlice

__all__ = [
    "SORT_COLUMNS",
    "RingGroup",
    "RingOfPartition",
    "plan_resize",
    "preview_resize",
    "to_clustering_plan",
]

SORT_COLUMNS = "hoodie.clustering.plan.strategy.sort.columns"
"""The setting of a plan that names the columns by which rows are sorted, joined by commas."""

_EXECUTION = (
    "org.apache.hudi.client.clustering.run.strategy."
    "SparkConsistentBucketClusteringExecutionStrategy"
)
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class RingOfPartition:
    """A partition that may be resized.

    Attributes:
        metadata: In force.
        slices: What is read of the file groups that no pending service has.
    """

    metadata: HashingMetadata
    slices: tuple[FileSlice, ...]


@dataclass(frozen=True, slots=True)
class RingGroup:
    """File slices that are rewritten together, and what becomes of their nodes.

    Attributes:
        kind: What happens.
        metadata: Of the partition.
        slices: In ring order.
        values: The values of their nodes, in ring order.
        num_parts: How many new file groups there are to be.
    """

    kind: Literal["split", "merge", "sort"]
    metadata: HashingMetadata
    slices: tuple[FileSlice, ...]
    values: tuple[int, ...]
    num_parts: int = 1

    @property
    def partition_path(self) -> str:
        """The partition."""
        return self.metadata.partition_path

    @property
    def size(self) -> int:
        """Bytes of the slices."""
        return sum(file_slice.size for file_slice in self.slices)

    @property
    def file_group(self) -> FileGroupId:
        """The first file group, which stands for the group."""
        return self.partition_path, self.slices[0].file_id

    @property
    def former_value(self) -> int:
        """The value of the node before."""
        return find_former_value(self.metadata.nodes, self.values[0])

    def children(
        self, split_values: Sequence[int], new_prefix: Callable[[], str]
    ) -> tuple[HashingNode, ...]:
        """Return the child nodes.

        Args:
            split_values: Of a split: the values of the nodes that are new on the ring.
            new_prefix: Returns a new random UUID.
        """
        if self.kind == "merge":
            return merge_nodes(self.metadata.nodes, self.values, new_prefix())
        ends = (*split_values, self.values[-1])
        return tuple(HashingNode(value, new_prefix(), "REPLACE") for value in ends)


def plan_resize(rings: Iterable[RingOfPartition], limits: ResizeLimits) -> list[RingGroup]:
    """Return what to rewrite, partition by partition, as far as one schedule may take it.

    Args:
        rings: Partitions of which no clustering is pending, in the order of their paths.
        limits: What to aim at, within bounds.

    Raises:
        CorruptError: a file slice is on no node of its ring.
    """
    return limits.take(group for ring in rings for group in _plan_partition(ring, limits))


def preview_resize(groups: Iterable[RingGroup]) -> ResizePreview:
    """Return the groups in numbers."""
    groups = list(groups)
    kinds = [group.kind for group in groups]
    return ResizePreview(
        partitions=len({group.partition_path for group in groups}),
        splits=kinds.count("split"),
        merges=kinds.count("merge"),
        sorts=kinds.count("sort"),
        file_groups=sum(len(group.slices) for group in groups),
        new_file_groups=sum(group.num_parts for group in groups),
        bytes=sum(group.size for group in groups),
    )


def to_clustering_plan(
    groups: Iterable[RingGroup],
    split_values: Mapping[FileGroupId, Sequence[int]],
    limits: ResizeLimits,
    root: str,
    new_prefix: Callable[[], str],
) -> ClusteringPlan | None:
    """Return the plan as Hudi writes it; None where nothing is left to do.

    Args:
        groups: Of `plan_resize`.
        split_values: The new nodes of each split. A split without new nodes is left out.
        limits: As the groups were planned by.
        root: The table's URI: the plan's paths are absolute.
        new_prefix: Returns a new random UUID.
    """
    found = []
    for group in groups:
        values = split_values.get(group.file_group, ())
        if group.kind == "split" and not values:
            continue
        children = group.children(values, new_prefix)
        found.append(
            ClusteringGroup(
                slices=[_slice_info(file_slice, root) for file_slice in group.slices],
                metrics=_metrics(group.slices, limits.max_file_size),
                num_output_file_groups=sum(child.tag == "REPLACE" for child in children),
                extra_metadata=format_group_change(
                    group.partition_path, children, group.metadata.seq_no
                ),
            )
        )
    if not found:
        return None
    params = {SORT_COLUMNS: ",".join(limits.sort_by)} if limits.sort_by else {}
    return ClusteringPlan(
        input_groups=found,
        strategy=ClusteringStrategy(strategy_class_name=_EXECUTION, strategy_params=params),
        preserve_hoodie_metadata=True,
    )


def _plan_partition(ring: RingOfPartition, limits: ResizeLimits) -> list[RingGroup]:
    metadata = ring.metadata
    owners = {node.file_id: node.value for node in metadata.nodes}
    numbered = []
    for file_slice in ring.slices:
        value = owners.get(file_slice.file_id)
        if value is None:
            raise CorruptError(
                f"file group {file_slice.file_id} is on no node of the ring; run check()",
                partition=metadata.partition_path,
            )
        numbered.append((value, file_slice))
    numbered.sort(key=lambda pair: pair[0])
    splits, rest = _plan_splits(metadata, numbered, limits)
    # A split by keys may turn out to be impossible.
    num_added = 0 if limits.split.needs_hashes else len(splits)
    slots = len(metadata.nodes) - (limits.min_buckets or 1) + num_added
    merges, rest = _plan_merges(metadata, rest, limits.merge_size, slots)
    sorts = [RingGroup("sort", metadata, (own,), (value,)) for value, own in rest]
    return [*splits, *merges, *(sorts if limits.sort_by else ())]


_Numbered = list[tuple[int, FileSlice]]
"""File slices with the values of their nodes, in ring order."""


def _plan_splits(
    metadata: HashingMetadata, slices: _Numbered, limits: ResizeLimits
) -> tuple[list[RingGroup], _Numbered]:
    """Return the splits, and the slices that are not split."""
    found: list[RingGroup] = []
    rest: _Numbered = []
    slots = (limits.max_buckets or 0) - len(metadata.nodes)
    policy = limits.split
    for value, own in slices:
        if own.size <= limits.split_size or slots <= 0:
            rest.append((value, own))
            continue
        num_parts = min(policy.num_parts(own.size, limits.max_file_size), slots + 1)
        group = RingGroup("split", metadata, (own,), (value,), num_parts)
        if policy.needs_hashes or policy.find_values(group.former_value, value, num_parts, None):
            found.append(group)
            slots -= num_parts - 1
        else:
            rest.append((value, own))
    return found, rest


def _plan_merges(
    metadata: HashingMetadata, slices: _Numbered, merge_size: int, slots: int
) -> tuple[list[RingGroup], _Numbered]:
    """Return the merges, and the slices that are not merged.

    Each small slice in ring order takes in neighbours, first backward and then forward.
    """
    positions = {node.value: at for at, node in enumerate(metadata.nodes)}
    num_nodes, num_slices = len(positions), len(slices)
    places = [positions[value] for value, _ in slices]
    sizes = [own.size for _, own in slices]
    taken = [False] * num_slices
    found: list[RingGroup] = []
    for at in range(num_slices):
        if taken[at] or sizes[at] > merge_size:
            continue
        begin = end = at
        total = sizes[at]
        for step in (-1, 1):
            edge = at
            while slots > 0 and total <= merge_size:
                following = (edge + step) % num_slices
                is_neighbour = places[following] == (places[edge] + step) % num_nodes
                if (
                    taken[following]
                    or not is_neighbour
                    or sizes[following] > merge_size
                    or following in (begin, end)
                ):
                    break
                total += sizes[following]
                slots -= 1
                edge = following
                begin, end = (edge, end) if step < 0 else (begin, edge)
        if begin == end:
            continue
        members = [(begin + i) % num_slices for i in range((end - begin) % num_slices + 1)]
        for member in members:
            taken[member] = True
        found.append(
            RingGroup(
                "merge",
                metadata,
                tuple(slices[member][1] for member in members),
                tuple(slices[member][0] for member in members),
            )
        )
    return found, [own for own, is_taken in zip(slices, taken, strict=True) if not is_taken]


def _slice_info(file_slice: FileSlice, root: str) -> SliceInfo:
    base = file_slice.base_file
    return SliceInfo(
        data_file_path=f"{root}/{base.path}" if base else "",
        delta_file_paths=[f"{root}/{log.path}" for log in reversed(file_slice.log_files)],
        file_id=file_slice.file_id,
        partition_path=file_slice.partition_path,
        bootstrap_file_path="",
    )


def _metrics(slices: Sequence[FileSlice], max_file_size: int) -> dict[str, float]:
    logs = [file for file_slice in slices for file in file_slice.log_files]
    bases = [own.base_file.size or 0 if own.base_file else 0 for own in slices]
    log_bytes = sum(file.size or 0 for file in logs)
    read_mib = (sum(bases) + log_bytes) // _MIB
    write_mib = sum(size or max_file_size for size in bases) // _MIB
    return {
        "TOTAL_LOG_FILES": float(len(logs)),
        "TOTAL_LOG_FILES_SIZE": float(log_bytes),
        "TOTAL_IO_READ_MB": float(read_mib),
        "TOTAL_IO_WRITE_MB": float(write_mib),
        "TOTAL_IO_MB": float(read_mib + write_mib),
    }
