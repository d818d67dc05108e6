"""The layout by which rows are written while a resize of a ring is pending.

Pure. Source: SparkConsistentBucketDuplicateUpdateStrategy, ConsistentHashingUpdateStrategyUtils.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from bucketfmt.errors import CorruptError
from bucketfmt.format.buckets.child_nodes import RingChange
from bucketfmt.format.buckets.ring import HashingNode
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.index.layout import BucketLayout

__all__ = ["ResizingRing"]


@dataclass(frozen=True, slots=True)
class ResizingRing(BucketLayout):
    """A ring, and the ring that a pending resize will make of it, for writing.

    A bucket is a range of hashes between neighbouring nodes of either ring, so that a bucket is a
    part of one node of each. Its rows go to the file group of the ring in force, which readers
    see. Where the resize rewrites this file group, the rows go to the file group of the coming
    node as well, which has only them until the resize is completed; or there alone.

    Attributes:
        now: The ring in force.
        change: The resize.
        coming: The ring once the resize is completed.
        has_virtual_logs: Rows go to the file groups of coming nodes alone, and virtual logs of the
            file groups that readers see point to the rows.

    Raises:
        CorruptError: the resize rewrites a file group and leaves its node on the ring.
        UnsupportedError: the layout is no ring.
    """

    now: BucketLayout
    change: RingChange
    coming: BucketLayout
    has_virtual_logs: bool = False
    _ranges: BucketLayout = field(init=False, repr=False, compare=False)
    _file_ids: Mapping[int, tuple[str, str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        values = sorted({*self.now.bucket_ids, *self.coming.bucket_ids})
        ranges = self.now.with_nodes([HashingNode(value, None) for value in values])
        object.__setattr__(self, "_ranges", ranges)
        owners = (_file_ids_at(values, ring) for ring in (self.now, self.coming))
        file_ids = dict(zip(values, zip(*owners, strict=True), strict=True))
        object.__setattr__(self, "_file_ids", file_ids)
        for value, (now, coming) in file_ids.items():
            if now == coming and now in self.change.file_ids:
                raise CorruptError(
                    f"the clustering of {self.change.instant} rewrites file group {now} and leaves "
                    "its node on the ring; roll the clustering back",
                    partition=self.change.partition_path,
                    bucket=value,
                )

    @property
    def hash_fields(self) -> tuple[str, ...]:
        """Those of the ring in force."""
        return self.now.hash_fields

    @property
    def dialect(self) -> KeyDialect:
        """That of the ring in force."""
        return self.now.dialect

    @property
    def bucket_ids(self) -> Sequence[int]:
        """The values of the nodes of both rings."""
        return self._ranges.bucket_ids

    def hash_rows(self, values: Sequence[pa.Array]) -> np.ndarray:
        """Return the hash of each row of hash values. As `BucketLayout.hash_rows`."""
        return self._ranges.hash_rows(values)

    def buckets_of_hashes(self, hashes: np.ndarray) -> np.ndarray:
        """Return the largest hash of the range of each hash, int32."""
        return self._ranges.buckets_of_hashes(hashes)

    def divide_further(self, hashes: np.ndarray, num_parts: int) -> np.ndarray:
        """Return the parts as the ring in force makes them."""
        return self.now.divide_further(hashes, num_parts)

    def bucket_of(self, file_id: str) -> int | None:
        """Return the value of the node that has the file group, on either ring."""
        found = self.now.bucket_of(file_id)
        return self.coming.bucket_of(file_id) if found is None else found

    def groups(self, file_ids: Iterable[str]) -> dict[int, list[str]]:
        """Return the file group of each range, of those that readers see."""
        given = set(file_ids)
        return {value: [now] for value, (now, _) in self._file_ids.items() if now in given}

    def write_targets(self, bucket_id: int, groups: Sequence[str]) -> Sequence[str]:
        """Return the file group that readers see, and that of the coming node if there is one."""
        now, coming = self._file_ids[bucket_id]
        is_written_twice = now in self.change.file_ids and not self.has_virtual_logs
        return (now, coming) if is_written_twice else (now,)

    def pointed_at(self, bucket_id: int) -> str | None:
        """Return the file group of the coming node, if rows go there alone."""
        now, coming = self._file_ids[bucket_id]
        return coming if now in self.change.file_ids and self.has_virtual_logs else None

    def resize_of(self, file_id: str) -> str | None:
        """Return the resize for file groups of coming nodes."""
        return None if self.now.bucket_of(file_id) is not None else self.change.instant

    def new_file_id(self, bucket_id: int, uuid: str, *, is_shared: bool = False) -> str:
        """Return the file group that readers see of a range."""
        return self._file_ids[bucket_id][0]

    @property
    def number_to_prove(self) -> None:
        """None, as for the ring in force."""

    def hashed_by(self, hash_fields: tuple[str, ...], dialect: KeyDialect) -> ResizingRing:
        """Return the same nodes."""
        now, coming = (ring.hashed_by(hash_fields, dialect) for ring in (self.now, self.coming))
        return ResizingRing(now, self.change, coming, self.has_virtual_logs)

    def meet(self, other: BucketLayout) -> BucketLayout | None:
        """Return the ring of the nodes that stand in both rings, and in the other layout."""
        shared = self.now.meet(self.coming)
        return None if shared is None else shared.meet(other)


def _file_ids_at(values: Sequence[int], ring: BucketLayout) -> list[str]:
    """Return the file group that has each hash."""
    buckets = ring.buckets_of_hashes(np.array(values, np.int64)).tolist()
    names = {bucket: ring.new_file_id(bucket, "") for bucket in set(buckets)}
    return [names[bucket] for bucket in buckets]
