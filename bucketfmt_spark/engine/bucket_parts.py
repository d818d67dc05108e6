"""The parts of large buckets, which several tasks join side by side. Pure.

A bucket is divided by further bits of the hash that placed its rows, so that equal keys of all
sides are in one part. Each part reads the whole bucket and keeps its rows: a bucket has parts only
where cores would have nothing to do otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import bucketfmt as bf

__all__ = ["BucketParts", "bucket_size"]

_PART_BYTES = 32 << 20  # what is smaller is not divided
_PARTS_MAX = 8  # each reads the whole bucket, so that more save little time

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BucketParts:
    """The parts of all buckets, numbered from 0 bucket by bucket. Pickles.

    Attributes:
        buckets: The buckets.
        counts: For each bucket the number of its parts; 1 for a bucket that is not divided.
    """

    buckets: bf.CommonBuckets
    counts: _Numbers

    @classmethod
    def plan(cls, groups: bf.BucketGroups, parallelism: int) -> BucketParts:
        """Return the parts for a number of tasks that run at a time.

        The tasks are dealt to buckets by their bytes, by largest remainders. So a table of equal
        buckets has no parts if it has as many buckets as there are cores.
        """
        number = groups.buckets.num_buckets
        sizes = np.array([bucket_size(groups, bucket) for bucket in range(number)], np.float64)
        quotas = sizes * parallelism / max(sizes.sum(), 1.0)
        counts = np.floor(quotas).astype(np.int64)
        left = max(parallelism - int(counts.sum()), 0)
        counts[np.argsort(counts - quotas, kind="stable")[:left]] += 1
        most = np.clip(sizes // _PART_BYTES, 1, _PARTS_MAX).astype(np.int64)
        return cls(groups.buckets, np.clip(counts, 1, most))

    def __len__(self) -> int:
        return int(self.counts.sum())

    def numbers_of(self, bucket: int) -> range:
        """Return the numbers of the parts of a bucket."""
        first = int(self._starts[bucket])
        return range(first, first + int(self.counts[bucket]))

    def bucket_of(self, number: int) -> int:
        """Return the bucket of a part."""
        return int(np.searchsorted(self._starts, number, "right")) - 1

    def assign_rows(self, values: Sequence[pa.Array]) -> _Numbers:
        """Return the part of each row, by the values of the hash fields.

        Raises:
            SchemaError, KeyEncodingError: as `bucketfmt.CommonBuckets.assign_rows`.
        """
        buckets = self.buckets.assign_rows(values)
        found, counts = self._starts[buckets], self.counts[buckets]
        for count in np.unique(self.counts[self.counts > 1]).tolist():
            parts = self.buckets.assign_parts(values, count)
            found = np.where(counts == count, found + parts, found)
        return np.asarray(found)

    def own_rows(self, batches: Iterable[pa.RecordBatch], number: int) -> Iterator[pa.RecordBatch]:
        """Yield those rows of a bucket that are in one of its parts."""
        numbers = self.numbers_of(self.bucket_of(number))
        for batch in batches:
            if len(numbers) == 1:
                yield batch
                continue
            values = [batch.column(name) for name in self.buckets.columns.fields]
            parts = self.buckets.assign_parts(values, len(numbers))
            yield batch.filter(pa.array(parts == number - numbers.start))

    @cached_property
    def _starts(self) -> _Numbers:
        return np.asarray(np.cumsum(self.counts) - self.counts)


def bucket_size(groups: bf.BucketGroups, bucket: int) -> int:
    """Return the bytes of the files of a bucket, of all scans."""
    return sum(task.size for side in groups.tasks for _, task in side[bucket])
