"""File groups and buckets as columns, in the order of partitions and buckets. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["BucketGrid", "make_bucket_grid"]

Numbers = NDArray[np.int64]

_NO_BUCKET = 1 << 40  # comes last


@dataclass(frozen=True)
class BucketGrid:
    """The buckets of a table, partition by partition.

    Columns of `groups` have a value for each file group and each empty bucket; the other columns
    have one for each bucket. File groups that are in no bucket stand for themselves.

    Attributes:
        partitions: The paths, sorted.
        partition_of_group: The partition of each row of `groups`, as an index of `partitions`.
        groups: `ReportContents.file_groups`, sorted by partition and bucket.
        starts: The first bucket of each partition, and the number of all buckets.
        base_bytes: Of base files.
        log_bytes: Of log files.
        log_files: How many.
        rows: Of base files, as commits recorded them; -1 where no commit tells.
        num_groups: How many file groups a bucket has.
    """

    partitions: tuple[str, ...]
    partition_of_group: Numbers
    groups: pa.Table
    starts: Numbers
    base_bytes: Numbers
    log_bytes: Numbers
    log_files: Numbers
    rows: Numbers
    num_groups: Numbers

    @property
    def bytes(self) -> Numbers:
        """Of all files of each bucket."""
        return self.base_bytes + self.log_bytes

    def buckets_of(self, partition: int) -> slice:
        """Return the buckets of a partition."""
        return slice(int(self.starts[partition]), int(self.starts[partition + 1]))


def make_bucket_grid(file_groups: pa.Table) -> BucketGrid:
    """Return the buckets of `ReportContents.file_groups`."""
    paths = sorted(pc.unique(file_groups["partition_path"]).to_pylist())
    found = pc.index_in(file_groups["partition_path"], value_set=pa.array(paths, pa.string()))
    partition, bucket = found.to_numpy(), _numbers(file_groups, "bucket_id", _NO_BUCKET)
    order = np.lexsort((bucket, partition))
    partition, bucket = partition[order].astype(np.int64), bucket[order]
    groups = file_groups.take(pa.array(order)).combine_chunks()
    is_first = np.ones(len(partition), bool)
    is_first[1:] = (partition[1:] != partition[:-1]) | (bucket[1:] != bucket[:-1])
    is_first |= bucket == _NO_BUCKET
    first = np.flatnonzero(is_first)
    rows = _numbers(groups, "base_rows", -1)
    is_base = _numbers(groups, "base_size", -1) >= 0
    untold = _sums(is_base & (rows < 0), first) > 0
    has_group = pc.is_valid(groups["file_id"]).to_numpy()
    return BucketGrid(
        partitions=tuple(paths),
        partition_of_group=partition,
        groups=groups,
        starts=np.searchsorted(partition[first], np.arange(len(paths) + 1)).astype(np.int64),
        base_bytes=_sums(_numbers(groups, "base_size", 0), first),
        log_bytes=_sums(_numbers(groups, "log_size", 0), first),
        log_files=_sums(_numbers(groups, "log_files", 0), first),
        rows=np.where(untold, -1, _sums(np.maximum(rows, 0), first)),
        num_groups=_sums(has_group, first),
    )


def _numbers(table: pa.Table, name: str, otherwise: int) -> Numbers:
    column = pc.fill_null(table[name].cast(pa.int64()), otherwise)
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _sums(values: NDArray[np.generic], first: Numbers) -> Numbers:
    if not len(first):
        return np.zeros(0, np.int64)
    return np.add.reduceat(values.astype(np.int64), first)
