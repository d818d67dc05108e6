"""Which file groups are divided anew when partitions get another number of buckets.

Pure. A hash goes to bucket `hash mod N`. So the rows of the buckets that are congruent modulo the
greatest common divisor of the old and the new number go to the new buckets of the same residue, and
to no others: each residue of each partition is a step of its own. From N to k * N buckets a step
divides one bucket, and from k * N to N it joins k. Source: RFC-29 (multiple rehash).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bucketfmt.index.layout import BucketLayout
from bucketfmt.resize.growth import Duration
from bucketfmt.resize.plan_rewrite import RewriteStep, measure_steps
from bucketfmt.snapshot.data_files.files import FileSlice

__all__ = ["RehashPreview", "plan_rehash", "preview_rehash"]


@dataclass(frozen=True, slots=True)
class RehashPreview:
    """What `Table.rehash` would do.

    Attributes:
        before: The number of buckets now.
        after: The number of buckets then.
        partitions: How many partitions have file groups.
        file_groups: How many file groups would be read and hidden.
        bytes: The sizes of their files together, which is about what is written too.
        steps: In how many independent pieces.
        duration: How long it is expected to take; None if there is nothing to do.
    """

    before: int
    after: int
    partitions: int = 0
    file_groups: int = 0
    bytes: int = 0
    steps: int = 0
    duration: Duration | None = None


def plan_rehash(
    slices: Iterable[FileSlice],
    before: Callable[[str], BucketLayout],
    after: Callable[[str], BucketLayout],
) -> list[RewriteStep]:
    """Return the steps that divide these file slices anew, by partition and residue.

    Args:
        slices: What is read of each file group of the partitions that change.
        before: Returns the numbered buckets of a partition now. Each file group is in one of them.
        after: Returns the numbered buckets of a partition then.
    """
    found: dict[tuple[str, int], list[tuple[int, FileSlice]]] = defaultdict(list)
    for file_slice in slices:
        path = file_slice.partition_path
        layout = before(path)
        bucket = layout.bucket_of(file_slice.file_id)
        if bucket is not None:
            divisor = math.gcd(len(layout.bucket_ids), len(after(path).bucket_ids))
            found[path, bucket % divisor].append((bucket, file_slice))
    steps = []
    for (path, residue), numbered in sorted(found.items()):
        ordered = sorted(numbered, key=lambda pair: (pair[0], pair[1].file_id))
        layout = after(path)
        number = len(layout.bucket_ids)
        divisor = math.gcd(len(before(path).bucket_ids), number)
        buckets = tuple(range(residue, number, divisor))
        steps.append(RewriteStep(path, tuple(own for _, own in ordered), layout, buckets))
    return steps


def preview_rehash(steps: Sequence[RewriteStep], before: int, after: int) -> RehashPreview:
    """Return the steps in numbers."""
    partitions = len({step.partition_path for step in steps})
    return RehashPreview(before, after, partitions, *measure_steps(steps), len(steps))
