"""Which file groups are divided anew when a table gets another number of buckets.

Pure. A hash goes to bucket `hash mod N`. So the rows of the buckets that are congruent modulo the
greatest common divisor of the old and the new number go to the new buckets of the same residue, and
to no others: each residue of each partition is a step of its own. From N to k * N buckets a step
divides one bucket, and from k * N to N it joins k. Source: RFC-29 (multiple rehash).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bucketfmt.index.layout import BucketLayout
from bucketfmt.snapshot.files import FileSlice

__all__ = ["RehashPreview", "RehashStep", "plan_rehash", "preview_rehash"]


@dataclass(frozen=True, slots=True)
class RehashStep:
    """File groups whose rows go to new file groups, and nowhere else.

    Attributes:
        partition_path: The partition.
        slices: What is read of the file groups, in the order of their buckets.
        buckets: The new buckets that may take rows.
    """

    partition_path: str
    slices: tuple[FileSlice, ...]
    buckets: tuple[int, ...]


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
    """

    before: int
    after: int
    partitions: int = 0
    file_groups: int = 0
    bytes: int = 0
    steps: int = 0


def plan_rehash(
    slices: Iterable[FileSlice], layout: BucketLayout, before: int, after: int
) -> list[RehashStep]:
    """Return the steps that divide these file slices anew, by partition and residue.

    Args:
        slices: What is read of each file group of the table.
        layout: Of `before` buckets; each of the file groups is in one of them.
        before: The number of buckets now.
        after: The number of buckets then.
    """
    divisor = math.gcd(before, after)
    found: dict[tuple[str, int], list[tuple[int, FileSlice]]] = defaultdict(list)
    for file_slice in slices:
        bucket = layout.bucket_of(file_slice.file_id)
        if bucket is not None:
            found[file_slice.partition_path, bucket % divisor].append((bucket, file_slice))
    return [
        RehashStep(
            path,
            tuple(own for _, own in sorted(numbered, key=lambda pair: (pair[0], pair[1].file_id))),
            tuple(range(residue, after, divisor)),
        )
        for (path, residue), numbered in sorted(found.items())
    ]


def preview_rehash(steps: Sequence[RehashStep], before: int, after: int) -> RehashPreview:
    """Return the steps in numbers."""
    slices = [file_slice for step in steps for file_slice in step.slices]
    return RehashPreview(
        before,
        after,
        len({step.partition_path for step in steps}),
        len(slices),
        sum(file.size or 0 for file_slice in slices for file in file_slice.files),
        len(steps),
    )
