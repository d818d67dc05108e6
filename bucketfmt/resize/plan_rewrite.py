"""What a change of buckets rewrites: file slices of a partition, and the buckets of their rows.

Pure. A step stands for itself: it may be executed anywhere, in any order, and again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.index.layout import BucketLayout
from bucketfmt.snapshot.data_files.files import FileSlice

__all__ = ["RewriteStep", "check_new_number", "measure_steps", "rescale_operation"]

_NEW_BUCKETS_MAX = 1 << 20
"""Of a partition: each is a file group of the commit, which is planned and named in memory."""


@dataclass(frozen=True, slots=True)
class RewriteStep:
    """File groups whose rows go to new file groups, and nowhere else.

    Attributes:
        partition_path: The partition.
        slices: What is read of the file groups.
        layout: The buckets of the partition from then on. A ring may lack nodes that border on
            none of `buckets`.
        buckets: The new buckets that may take rows; each gets one new file group.
        sort_by: Columns by which the rows of each file are sorted.
        empty_groups: File groups without files that go as well: whoever begins one of them
            meanwhile is in conflict with the commit.
    """

    partition_path: str
    slices: tuple[FileSlice, ...]
    layout: BucketLayout
    buckets: tuple[int, ...]
    sort_by: tuple[str, ...] = ()
    empty_groups: tuple[str, ...] = ()


def check_new_number(partition_path: str, num_buckets: int) -> None:
    """Refuse to give a partition with rows more buckets than one commit may make.

    Raises:
        ValueError: the number.
    """
    if num_buckets > _NEW_BUCKETS_MAX:
        partition = f"partition {partition_path!r}" if partition_path else "the table"
        raise ValueError(
            f"{partition} cannot get {num_buckets:,} buckets in one commit, which makes a file "
            f"group of each: give at most {_NEW_BUCKETS_MAX:,}"
        )


def rescale_operation(table_version: int) -> WriteOperation:
    """Return what the commit of a change of buckets says that it is.

    Releases before 1.1 fail on the type of the operation that they do not know.
    """
    if table_version >= 9:
        return WriteOperation.BUCKET_RESCALE
    return WriteOperation.INSERT_OVERWRITE_TABLE


def measure_steps(steps: Iterable[RewriteStep]) -> tuple[int, int]:
    """Return how many file groups are read, and the sizes of their files together."""
    slices = [file_slice for step in steps for file_slice in step.slices]
    return len(slices), sum(file.size or 0 for own in slices for file in own.files)
