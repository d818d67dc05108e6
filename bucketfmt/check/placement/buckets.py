"""File groups against buckets: one for each, with the right names, and even.

Pure: file slices in, findings out. B001 to B004, B010; P001 where rules give the number.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bucketfmt.check.files.committed_files import WriteLedger
from bucketfmt.check.report import Finding
from bucketfmt.format.names.names import find_bucket_id
from bucketfmt.index.skew import measure_skew
from bucketfmt.snapshot.data_files.files import FileSlice

__all__ = [
    "DuplicateGroups",
    "find_duplicate_groups",
    "find_foreign_groups",
    "find_groups_beyond",
    "find_numbers",
    "find_skew",
    "is_bucket_shaped",
]

_MIB = 1024 * 1024
_UNEVEN = 4.0  # largest bucket by the median one
_TINY_BUCKETS_MIN = 16
_TINY_BYTES = 2 * _MIB  # of the mean bucket, in a partition that is no toy:
_TOY_BYTES = 64 * _MIB
_CHANCE = 10_000  # less than one in so many random file ids begins with five zeros, three digits
_SMALL_BUCKET = 1_000

NumberedSlice = tuple[int | None, FileSlice]
"""A slice after the bucket id that its file id begins with; None where it begins with none."""


def is_bucket_shaped(file_id: str) -> bool:
    """Return whether a file id is surely that of a bucket: random ones begin so by no chance."""
    bucket_id = find_bucket_id(file_id)
    return bucket_id is not None and bucket_id < _SMALL_BUCKET


@dataclass(frozen=True)
class DuplicateGroups:
    """Several live file groups of one bucket.

    Attributes:
        slices: All of them.
        strays: Those among them that no commit names, if that leaves one or none.
    """

    bucket: int
    slices: tuple[FileSlice, ...]
    strays: tuple[FileSlice, ...]

    def finding(self, shared_keys: int | None = None) -> Finding:
        """Return B001, or B002 where all but one were left by a retried task."""
        first = self.slices[0]
        groups = ", ".join(
            f"{s.file_id} ({s.size} bytes, instant {s.base_instant})" for s in self.slices
        )
        evidence = f"{len(self.slices)} file groups: {groups}"
        if shared_keys is not None:
            evidence += f"; {shared_keys} keys are in more than one"
        wrong = self.strays or self.slices
        if self.strays:
            evidence += f"; no commit names {', '.join(s.file_id for s in self.strays)}"
        return Finding.of(
            "B002" if self.strays else "B001",
            evidence,
            partition=first.partition_path,
            bucket=self.bucket,
            file_groups=[(s.partition_path, s.file_id) for s in self.slices],
            paths=[file.path for s in wrong for file in s.files],
            instants=[s.base_instant for s in self.slices],
            severity="error",
            data_loss=True,
        )


def find_numbers(slices: Iterable[FileSlice]) -> list[NumberedSlice]:
    """Return each slice with the bucket id that its file id begins with."""
    return [(find_bucket_id(file_slice.file_id), file_slice) for file_slice in slices]


def find_duplicate_groups(
    slices: Sequence[NumberedSlice], ledger: WriteLedger
) -> Iterator[DuplicateGroups]:
    """Yield the buckets that have more than one live file group."""
    counts = Counter(bucket_id for bucket_id, _ in slices)
    of_bucket: Mapping[int, list[FileSlice]] = defaultdict(list)
    for bucket_id, file_slice in slices:
        if bucket_id is not None and counts[bucket_id] > 1:
            of_bucket[bucket_id].append(file_slice)
    for bucket_id, groups in sorted(of_bucket.items()):
        strays = [s for s in groups if all(ledger.is_stray(file) for file in s.files)]
        told = len(groups) - len(strays) == 1
        yield DuplicateGroups(bucket_id, tuple(groups), tuple(strays) if told else ())


def find_foreign_groups(
    slices: Iterable[NumberedSlice], is_bucket_table: bool, groups_of_table: int
) -> Iterator[Finding]:
    """Yield B003 for file groups whose ids another kind of index made.

    `groups_of_table` tells how many random ids there are that may look like a bucket's.
    """
    if is_bucket_table:
        foreign = [s for bucket_id, s in slices if bucket_id is None]
        evidence = "begins with no bucket number, as all others do"
    else:
        foreign = [
            s for bucket_id, s in slices if bucket_id is not None and bucket_id < _SMALL_BUCKET
        ]
        evidence = "is that of a bucket, in a table that has none"
        if len(foreign) * _CHANCE <= groups_of_table:
            return
    for file_slice in foreign:
        yield Finding.of(
            "B003",
            f"file id {file_slice.file_id} {evidence}",
            partition=file_slice.partition_path,
            slices=[file_slice],
        )


def find_groups_beyond(
    slices: Iterable[NumberedSlice], num_buckets: int, by_rules: bool
) -> Iterator[Finding]:
    """Yield B004 for file groups whose bucket number is `num_buckets` or more.

    P001 where the partition's rule gave the number.
    """
    for bucket_id, file_slice in slices:
        if bucket_id is not None and bucket_id >= num_buckets:
            origin = "by the partition's rule" if by_rules else "stated for the table"
            yield Finding.of(
                "P001" if by_rules else "B004",
                f"file group {file_slice.file_id} is bucket {bucket_id} of {num_buckets} {origin}",
                partition=file_slice.partition_path,
                bucket=bucket_id,
                slices=[file_slice],
            )


def find_skew(partition_path: str, slices: Sequence[FileSlice]) -> Iterator[Finding]:
    """Yield B010 where a bucket is far too large, or (info) nearly all are far too small."""
    sizes = [file_slice.size for file_slice in slices]
    if len(sizes) < 2:
        return
    skew = measure_skew(sizes)
    figures = (
        f"{len(sizes)} buckets, {skew.total_bytes} bytes; largest {max(sizes)}, largest / median "
        f"{skew.largest_to_median:.1f}, Gini {skew.gini:.2f}; suggested number of buckets "
        f"{skew.suggested_buckets}"
    )
    largest = slices[sizes.index(max(sizes))]
    if largest.size > 2 * skew.target_bytes and skew.largest_to_median > _UNEVEN:
        yield Finding.of(
            "B010",
            figures,
            partition=partition_path,
            bucket=find_bucket_id(largest.file_id),
            slices=[largest],
        )
    elif (
        len(sizes) >= _TINY_BUCKETS_MIN
        and skew.total_bytes >= _TOY_BYTES
        and skew.total_bytes / len(sizes) < _TINY_BYTES
    ):
        yield Finding.of("B010", f"tiny: {figures}", partition=partition_path, severity="info")
