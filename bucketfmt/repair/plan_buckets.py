"""Which file groups hold rows of other buckets than their own, and are rewritten together. Pure.

File groups are joined by the buckets whose keys they hold: rows of one key are brought together
wherever they are, and file groups that share no bucket with others are left alone.
Source: HoodieBucketIndex, whose writers fail on a second file group of a bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from bucketfmt.format.buckets.hashing_metadata import HashingMetadata
from bucketfmt.format.buckets.ring import initial_ring
from bucketfmt.index.layout import BucketLayout
from bucketfmt.resize.plan_rewrite import RewriteStep
from bucketfmt.snapshot.data_files.files import FileSlice

__all__ = ["BucketRepair", "HeldBuckets", "plan_bucket_repairs", "renew_nodes"]

_SHOWN = 3


class HeldBuckets(NamedTuple):
    """A file slice, and the buckets that its keys belong to, ascending."""

    file_slice: FileSlice
    buckets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BucketRepair:
    """File groups that are rewritten together, or would be.

    Attributes:
        partition_path: The partition.
        buckets: The buckets that their rows go to; each gets one new file group.
        file_ids: The file groups that are read and hidden.
        bytes: The sizes of their files together.
        cause: What is wrong with them.
    """

    partition_path: str
    buckets: tuple[int, ...]
    file_ids: tuple[str, ...]
    bytes: int
    cause: str


def plan_bucket_repairs(
    partition_path: str, layout: BucketLayout, held: Sequence[HeldBuckets]
) -> Iterator[tuple[BucketRepair, RewriteStep]]:
    """Yield which file groups of a partition are rewritten together; none where all is in place.

    Args:
        partition_path: The partition.
        layout: Its buckets, each of which has one file group.
        held: Each file group of the partition.
    """
    for own in _joined(layout, held):
        cause = "; ".join(_causes(layout, own))
        if not cause:
            continue
        ordered = sorted(own, key=lambda each: each.file_slice.file_id)
        slices = tuple(each.file_slice for each in ordered)
        buckets = tuple(sorted({bucket for each in own for bucket in each.buckets}))
        file_ids = tuple(each.file_id for each in slices)
        size = sum(each.size for each in slices)
        yield (
            BucketRepair(partition_path, buckets, file_ids, size, cause),
            RewriteStep(partition_path, slices, layout, buckets),
        )


def renew_nodes(
    ring: HashingMetadata,
    layout: BucketLayout,
    steps: Sequence[RewriteStep],
    instant: str,
    is_replaced: Callable[[str], bool],
) -> tuple[HashingMetadata, list[RewriteStep]]:
    """Return the ring that a partition gets, and the steps as they write to its file groups.

    The ranges of the nodes stay. Nodes whose file groups are hidden, or get rows, have other file
    groups from then on, since a file group that was hidden stays hidden.

    Args:
        ring: That by which `steps` were planned.
        layout: The same.
        steps: Of one partition.
        instant: The requested time of the commit.
        is_replaced: Whether a commit has hidden a file group before, as a resize those of the first
            ring, which takes the place of a lost one.
    """
    hidden = {each.file_id for step in steps for each in step.slices}
    written = {bucket for step in steps for bucket in step.buckets}
    empty: dict[int, str] = {}
    nodes = []
    for node in ring.nodes:
        is_kept = node.value not in written and node.file_id not in hidden
        if is_kept and not is_replaced(node.file_id):
            nodes.append(node)
            continue
        if node.file_id not in hidden:
            empty[node.value] = node.file_id
        (named,) = initial_ring(f"{instant}/{ring.partition_path}/{node.value}", 1)
        nodes.append(msgspec.structs.replace(node, file_id_prefix=named.file_id_prefix))
    new = msgspec.structs.replace(ring, instant=instant, seq_no=ring.seq_no + 1, nodes=tuple(nodes))
    moved = [
        replace(
            step,
            layout=layout.with_nodes(nodes),
            empty_groups=tuple(empty[own] for own in step.buckets if own in empty),
        )
        for step in steps
    ]
    return new, moved


def _joined(layout: BucketLayout, held: Sequence[HeldBuckets]) -> list[list[HeldBuckets]]:
    """Return the file groups that hold keys of one bucket, or are named after it, together."""
    leader: dict[int, int] = {}

    def find(bucket: int) -> int:
        while (above := leader.setdefault(bucket, bucket)) != bucket:
            leader[bucket] = leader[above]
            bucket = leader[bucket]
        return bucket

    touched = []
    for each in held:
        named = layout.bucket_of(each.file_slice.file_id)
        buckets = each.buckets if named is None else (named, *each.buckets)
        for bucket in buckets[1:]:
            leader[find(bucket)] = find(buckets[0])
        touched.append(buckets)
    found: dict[int, list[HeldBuckets]] = {}
    alone = []
    for each, buckets in zip(held, touched, strict=True):
        if buckets:
            found.setdefault(find(buckets[0]), []).append(each)
        else:
            alone.append([each])
    return [*found.values(), *alone]


def _causes(layout: BucketLayout, own: Sequence[HeldBuckets]) -> Iterator[str]:
    """Yield what is wrong with file groups that are joined; nothing if one has its bucket alone."""
    for bucket, file_ids in layout.groups(each.file_slice.file_id for each in own).items():
        if len(file_ids) > 1:
            yield f"bucket {bucket} has {len(file_ids)} file groups"
    for file_slice, buckets in own:
        named = layout.bucket_of(file_slice.file_id)
        if named is None:
            yield f"file group {file_slice.file_id} is in no bucket"
        elif others := [bucket for bucket in buckets if bucket != named]:
            shown = ", ".join(map(str, others[:_SHOWN])) + ", ..." * (len(others) > _SHOWN)
            yield f"file group {file_slice.file_id} has keys of other buckets ({shown})"
