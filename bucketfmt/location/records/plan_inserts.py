"""Which file groups take new keys of a table without buckets: small file groups, and new ones.

Pure. Hudi's settings are read from hoodie.properties, with Hudi's defaults. Source:
UpsertPartitioner, SparkUpsertDeltaCommitPartitioner, AverageRecordSizeEstimator.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bucketfmt.errors import CorruptError
from bucketfmt.format.names.names import BaseFileName
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.data_files.written_files import CommitRecord

__all__ = ["InsertSizing", "find_small_groups", "plan_inserts"]


@dataclass(frozen=True)
class InsertSizing:
    """How large file groups become. The attributes are Hudi's settings of these names.

    Attributes:
        small_file_limit: A base file with fewer bytes takes more rows
            (`hoodie.parquet.small.file.limit`).
        max_file_size: Bytes of a base file, about (`hoodie.parquet.max.file.size`).
        record_size_estimate: Bytes of a row where no commit tells
            (`hoodie.copyonwrite.record.size.estimate`).
        insert_split_size: Rows of a new file group where they do not follow from
            `max_file_size` (`hoodie.copyonwrite.insert.split.size`).
        insert_auto_split: Whether they follow (`hoodie.copyonwrite.insert.auto.split`).
        candidates_limit: How many small file groups of a partition take rows, in a merge-on-read
            table (`hoodie.merge.small.file.group.candidates.limit`).
        max_commits: How many commits tell the size of a row
            (`hoodie.record.size.estimator.max.commits`).
        estimation_threshold: Files with fewer bytes than this part of `small_file_limit` do not
            (`hoodie.record.size.estimation.threshold`).
    """

    small_file_limit: int = 104_857_600
    max_file_size: int = 125_829_120
    record_size_estimate: int = 1024
    insert_split_size: int = 500_000
    insert_auto_split: bool = True
    candidates_limit: int = 1
    max_commits: int = 5
    estimation_threshold: float = 1.0

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> InsertSizing:
        """Return the settings that the properties state.

        Raises:
            CorruptError: a setting is not a number, or is too small.
        """
        default = cls()
        auto_split = properties.get("hoodie.copyonwrite.insert.auto.split", "true")
        return cls(
            _number(properties, "hoodie.parquet.small.file.limit", default.small_file_limit, 0),
            _number(properties, "hoodie.parquet.max.file.size", default.max_file_size),
            _number(
                properties, "hoodie.copyonwrite.record.size.estimate", default.record_size_estimate
            ),
            _number(properties, "hoodie.copyonwrite.insert.split.size", default.insert_split_size),
            auto_split.strip().lower() == "true",
            _number(
                properties,
                "hoodie.merge.small.file.group.candidates.limit",
                default.candidates_limit,
                0,
            ),
            _number(properties, "hoodie.record.size.estimator.max.commits", default.max_commits, 0),
            _fraction(
                properties, "hoodie.record.size.estimation.threshold", default.estimation_threshold
            ),
        )

    def estimate_row_bytes(self, commits: Sequence[CommitRecord]) -> int:
        """Return the bytes that a row takes in a base file, by the newest commits.

        Args:
            commits: Oldest first.
        """
        threshold = self.estimation_threshold * self.small_file_limit
        num_bytes = num_rows = 0
        newest = [commit for commit in reversed(commits) if not commit.replaced]
        for commit in newest[: self.max_commits]:
            for _, _, _, name, _, size, rows, _ in commit.files:
                if isinstance(name, BaseFileName) and size > threshold and rows > 0:
                    num_bytes, num_rows = num_bytes + size, num_rows + rows
        return max(1, num_bytes // num_rows) if num_rows else self.record_size_estimate

    def rows_of_new_group(self, row_bytes: int) -> int:
        """Return how many rows a new file group takes."""
        if not self.insert_auto_split:
            return self.insert_split_size
        return -(-self.max_file_size // row_bytes)

    def room_of(self, size: int, row_bytes: int) -> int:
        """Return how many rows more a base file of some size takes."""
        return max(0, (self.max_file_size - size) // row_bytes)


def find_small_groups(
    slices: Iterable[FileSlice],
    sizing: InsertSizing,
    *,
    has_logs: bool,
    planned: Collection[str] = (),
) -> list[FileSlice]:
    """Return the file groups that take new keys, in the order in which they are filled.

    The record index tells of a key in a log file only once the key is in a base file too, for
    readers that know base files only. So new keys go to base files.

    Args:
        slices: Of one partition.
        sizing: Tells which are small.
        has_logs: Whether the table is merge-on-read. File groups with a log do not take new keys
            then, because their base file is not written before the compaction.
        planned: The ids of file groups that a pending compaction or clustering rewrites.
    """
    small = [
        (file_slice.base_file.size, file_slice)
        for file_slice in slices
        if file_slice.base_file is not None
        and not file_slice.log_files
        and file_slice.file_id not in planned
        and file_slice.base_file.size is not None
        and file_slice.base_file.size < sizing.small_file_limit
    ]
    if has_logs:
        small.sort(key=lambda found: found[0])
        small = small[: sizing.candidates_limit]
    return [file_slice for _, file_slice in small]


def plan_inserts(
    counts: Sequence[int],
    small_groups: Sequence[FileSlice],
    sizing: InsertSizing,
    row_bytes: int,
) -> list[FileSlice | int]:
    """Return which file group takes each of several sets of new keys of one partition.

    A set is not divided. Sets are put one after the other, and a set goes to the file group into
    whose share the middle of the set falls.

    Args:
        counts: How many rows each set has.
        small_groups: The `find_small_groups`, each with a base file.
        sizing: How many rows file groups take.
        row_bytes: Bytes of a row, about.

    Returns:
        For each set a small file group, or the number, from 0, of a new file group.
    """
    total, left = sum(counts), sum(counts)
    groups: list[FileSlice | int] = []
    shares: list[int] = []
    for group in small_groups:
        base_size = group.base_file.size if group.base_file else 0
        room = min(sizing.room_of(base_size or 0, row_bytes), left)
        if room:
            groups.append(group)
            shares.append(room)
            left -= room
    size = sizing.rows_of_new_group(row_bytes)
    for number in range(-(-left // size)):
        groups.append(number)
        shares.append(min(size, left - number * size))
    if not total:
        return [groups[0] if groups else 0 for _ in counts]
    ends = np.cumsum(counts)
    middles = ends - np.asarray(counts) / 2
    found = np.searchsorted(np.cumsum(shares), middles, side="right")
    return [groups[min(place, len(groups) - 1)] for place in found.tolist()]


def _number(properties: Mapping[str, str], name: str, default: int, least: int = 1) -> int:
    text = properties.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) >= least):
        raise CorruptError(f"{name}: {text!r} is not a number from {least} on")
    return int(text)


def _fraction(properties: Mapping[str, str], name: str, default: float) -> float:
    text = properties.get(name, "").strip()
    try:
        found = float(text) if text else default
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise CorruptError(f"{name}: {text!r} is not a number from 0 on")
    return found
