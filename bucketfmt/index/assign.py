"""Keys to buckets within one partition, whole columns at a time.

Pure. Source: BucketIdentifier, ConsistentBucketIdentifier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from bucketfmt.format.buckets.ring import HashingNode, find_node_indexes
from bucketfmt.format.keys.hashing_kernels import bucket_ids, xxhash32s
from bucketfmt.format.keys.record_key_kernels import hash_value_columns
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.format.names.names import find_bucket_id, format_consistent_file_id

__all__ = ["Buckets", "FixedBuckets", "RingBuckets"]

_HASH_VALUE_MASK = 0x7FFFFFFF


@dataclass(frozen=True)
class FixedBuckets:
    """A partition with `num_buckets` buckets, numbered from 0."""

    num_buckets: int
    hash_fields: tuple[str, ...]
    dialect: KeyDialect

    def assign(self, record_keys: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Return the bucket id of each key, int32.

        Raises:
            KeyEncodingError: a key on which Hudi itself never returns.
        """
        return self.assign_values(hash_value_columns(record_keys, self.hash_fields, self.dialect))

    def assign_values(self, values: Sequence[pa.Array]) -> np.ndarray:
        """Return the bucket id of each row of hash values, int32; one column a hash field."""
        return bucket_ids(values, self.num_buckets)

    @property
    def bucket_ids(self) -> Sequence[int]:
        """Every bucket there is."""
        return range(self.num_buckets)

    def bucket_of(self, file_id: str) -> int | None:
        """Return the bucket a file group holds; None when its id is that of no bucket here."""
        bucket_id = find_bucket_id(file_id)
        return bucket_id if bucket_id is not None and bucket_id < self.num_buckets else None


@dataclass(frozen=True)
class RingBuckets:
    """A partition on a consistent hashing ring. A bucket's id is its node's ring value."""

    nodes: tuple[HashingNode, ...]
    hash_fields: tuple[str, ...]
    dialect: KeyDialect
    _values: np.ndarray = field(init=False, repr=False, compare=False)
    _bucket_of: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_values", np.array([n.value for n in self.nodes], np.int64))
        by_file_id = {
            format_consistent_file_id(node.file_id_prefix): node.value
            for node in self.nodes
            if node.file_id_prefix is not None
        }
        object.__setattr__(self, "_bucket_of", by_file_id)

    def assign(self, record_keys: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Return the ring value of the node that owns each key, int32.

        Raises:
            KeyEncodingError: a key on which Hudi itself never returns.
        """
        return self.assign_values(hash_value_columns(record_keys, self.hash_fields, self.dialect))

    def assign_values(self, values: Sequence[pa.Array]) -> np.ndarray:
        """Return the ring value for each row of hash values, int32; one column a hash field."""
        hashes = xxhash32s(values) & np.uint32(_HASH_VALUE_MASK)
        return self._values[find_node_indexes(self._values, hashes)].astype(np.int32)

    @property
    def bucket_ids(self) -> Sequence[int]:
        """The ring value of every node."""
        return [node.value for node in self.nodes]

    def bucket_of(self, file_id: str) -> int | None:
        """Return the ring value of the node a file group belongs to; None when off the ring."""
        return self._bucket_of.get(file_id)


Buckets = FixedBuckets | RingBuckets
