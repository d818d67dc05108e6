"""The layout of a partition: which keys each of its buckets has, and which file groups.

Pure. Whole columns of keys at a time. A layout here is a statement: `location.layouts` proves a
layout for its partition before keys are looked for, or stored, by the layout.
Source: BucketIdentifier, ConsistentBucketIdentifier.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.buckets.extendible_directory import (
    DirectoryBucket,
    directory_entries,
    overwritten_directory,
)
from bucketfmt.format.buckets.ring import HashingNode, find_node_indexes
from bucketfmt.format.keys.hashing import HASH_VALUE_MASK
from bucketfmt.format.keys.hashing_kernels import (
    buckets_of_list_hashes,
    java_list_hashes,
    xxhash32s,
)
from bucketfmt.format.keys.record_key_kernels import hash_value_columns
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.format.names.names import (
    find_bucket_id,
    find_consistent_prefix,
    format_bucket_file_id,
    format_consistent_file_id,
    format_nbcc_file_id,
)

__all__ = ["BucketLayout", "DirectoryBuckets", "FixedBuckets", "GrowingBuckets", "RingBuckets"]


class BucketLayout(ABC):
    """How the keys of one partition are divided into buckets. A value: equal layouts divide alike.

    A file group may hold keys of several buckets, and a bucket may have several file groups.
    Readers go by `groups` and `may_hold`, writers by `write_targets` and `new_file_id`.
    """

    __slots__ = ()

    has_several_groups: ClassVar[bool] = False
    """Whether a bucket may have several file groups; in other layouts a second one is damage."""

    @property
    @abstractmethod
    def hash_fields(self) -> tuple[str, ...]:
        """The fields of the record key that are hashed."""

    @property
    @abstractmethod
    def dialect(self) -> KeyDialect:
        """How the values of these fields are found in a record key."""

    @property
    @abstractmethod
    def bucket_ids(self) -> Sequence[int]:
        """The id of every bucket, in ascending order."""

    @abstractmethod
    def hash_rows(self, values: Sequence[pa.Array]) -> np.ndarray:
        """Return the hash of each row of hash values, 0..2^31-1; one column a hash field."""

    @abstractmethod
    def buckets_of_hashes(self, hashes: np.ndarray) -> np.ndarray:
        """Return the bucket id of each hash, int32. A bucket has the hash that is its own id."""

    @abstractmethod
    def divide_further(self, hashes: np.ndarray, num_parts: int) -> np.ndarray:
        """Return the part, from 0, of each hash if each bucket is divided into `num_parts`."""

    @abstractmethod
    def bucket_of(self, file_id: str) -> int | None:
        """Return the bucket that a file group is named after; None for a group of no bucket."""

    @abstractmethod
    def new_file_id(self, bucket_id: int, uuid: str, *, is_shared: bool = False) -> str:
        """Return the id of the first file group of a bucket.

        Args:
            bucket_id: The bucket.
            uuid: A random UUID.
            is_shared: The same id for every writer, as non-blocking writers need it.

        Raises:
            CorruptError: the layout does not state the id that the group must have.
        """

    @property
    @abstractmethod
    def number_to_prove(self) -> int | None:
        """The number of buckets that keys have to prove; None where the table holds the layout."""

    @abstractmethod
    def hashed_by(self, hash_fields: tuple[str, ...], dialect: KeyDialect) -> BucketLayout:
        """Return the layout with the same buckets for keys that are hashed in another way."""

    @abstractmethod
    def meet(self, other: BucketLayout) -> BucketLayout | None:
        """Return the layout whose buckets are each made of whole buckets of both.

        Of several such layouts the one with most buckets; None where the hashes differ.
        """

    def rehashed(self, num_buckets: int) -> BucketLayout:
        """Return the layout that divides the same hashes into another number of buckets.

        Raises:
            UnsupportedError: buckets are not numbered.
        """
        raise UnsupportedError("another number of buckets where buckets are not numbered")

    def assign_values(self, values: Sequence[pa.Array]) -> np.ndarray:
        """Return the bucket id of each row of hash values, int32; one column a hash field."""
        return self.buckets_of_hashes(self.hash_rows(values))

    def with_nodes(self, nodes: Sequence[HashingNode]) -> BucketLayout:
        """Return the layout that divides the same hashes among other nodes of a ring.

        Raises:
            UnsupportedError: buckets are not ranges of a ring.
        """
        raise UnsupportedError("nodes of a ring where buckets are numbered")

    def with_buckets(self, buckets: Sequence[DirectoryBucket]) -> BucketLayout:
        """Return the layout that divides the same hashes among these buckets of a directory.

        Raises:
            UnsupportedError: the layout has no directory.
        """
        raise UnsupportedError("buckets of a directory where there is none")

    def hash_keys(self, record_keys: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Return the hash of each key, 0..2^31-1.

        Raises:
            KeyEncodingError: as `assign`.
        """
        return self.hash_rows(hash_value_columns(record_keys, self.hash_fields, self.dialect))

    def assign(self, record_keys: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Return the bucket id of each key, int32.

        Raises:
            KeyEncodingError: a key on which Hudi itself never returns.
        """
        return self.assign_values(hash_value_columns(record_keys, self.hash_fields, self.dialect))

    def overwritten(self, partition_path: str, instant: str) -> BucketLayout:
        """Return the layout of a partition all of whose file groups an overwrite hides.

        Other file groups than before where the layout states their ids, since a file group that is
        hidden stays hidden.

        Args:
            partition_path: The partition.
            instant: The requested time of the overwrite.
        """
        return self

    def groups(self, file_ids: Iterable[str]) -> dict[int, list[str]]:
        """Return which of these file groups may hold keys of each bucket, in the order given.

        Buckets without a file group are left out, and so are file groups of no bucket.
        """
        found: dict[int, list[str]] = {}
        for file_id in file_ids:
            bucket_id = self.bucket_of(file_id)
            if bucket_id is not None:
                found.setdefault(bucket_id, []).append(file_id)
        return found

    def may_hold(self, file_ids: Collection[str], buckets: Collection[int]) -> set[str]:
        """Return which of these file groups may hold keys of these buckets.

        A file group of no bucket may hold any key.
        """
        groups = self.groups(file_ids)
        of_no_bucket = set(file_ids).difference(*groups.values())
        return of_no_bucket.union(*(groups.get(bucket_id, ()) for bucket_id in buckets))

    def write_targets(self, bucket_id: int, groups: Sequence[str]) -> Sequence[str | None]:
        """Return the file groups that take the rows written to a bucket: each takes all of them.

        Args:
            bucket_id: The bucket.
            groups: The file groups of the bucket, which may be none.

        Returns:
            File ids, also of file groups that are to be begun; None stands for a file group whose
            id `new_file_id` makes.
        """
        return groups or (None,)

    def pointed_at(self, bucket_id: int) -> str | None:
        """Return the file group that takes the rows of a bucket in the place of its target.

        The log of the target is then given a virtual log, which points to the rows. None where the
        targets of `write_targets` take the rows themselves.
        """
        return None

    def resize_of(self, file_id: str) -> str | None:
        """Return the pending resize that a file group takes copies of rows for; None for none.

        A resize is named by its requested time.
        """
        return None


@dataclass(frozen=True, slots=True)
class FixedBuckets(BucketLayout):
    """A partition with `num_buckets` buckets, numbered from 0."""

    num_buckets: int
    hash_fields: tuple[str, ...]
    dialect: KeyDialect

    def hash_rows(self, values: Sequence[pa.Array]) -> np.ndarray:
        """Return Java's hash of the list of the values of each row. As `BucketLayout.hash_rows`."""
        hashes: np.ndarray = java_list_hashes(values) & np.int32(HASH_VALUE_MASK)
        return hashes

    def buckets_of_hashes(self, hashes: np.ndarray) -> np.ndarray:
        """Return each hash modulo the number of buckets, int32."""
        return buckets_of_list_hashes(hashes.astype(np.int32, copy=False), self.num_buckets)

    def divide_further(self, hashes: np.ndarray, num_parts: int) -> np.ndarray:
        """Return the parts as `num_parts` times as many buckets make them."""
        return hashes // self.num_buckets % num_parts

    @property
    def bucket_ids(self) -> Sequence[int]:
        """Every number of a bucket."""
        return range(self.num_buckets)

    def bucket_of(self, file_id: str) -> int | None:
        """Return the bucket whose number begins the file id; None for too large a number."""
        bucket_id = find_bucket_id(file_id)
        return bucket_id if bucket_id is not None and bucket_id < self.num_buckets else None

    def new_file_id(self, bucket_id: int, uuid: str, *, is_shared: bool = False) -> str:
        """Return the UUID, or zeros where the id is shared, with the bucket's number in front."""
        if is_shared:
            return format_nbcc_file_id(bucket_id)
        return format_bucket_file_id(bucket_id, uuid)

    @property
    def number_to_prove(self) -> int:
        """The number of buckets: file ids do not contradict a number that is too large."""
        return self.num_buckets

    def hashed_by(self, hash_fields: tuple[str, ...], dialect: KeyDialect) -> FixedBuckets:
        """Return the same number of buckets."""
        return replace(self, hash_fields=hash_fields, dialect=dialect)

    def rehashed(self, num_buckets: int) -> FixedBuckets:
        """Return the same hash fields with another number."""
        return replace(self, num_buckets=num_buckets)

    def meet(self, other: BucketLayout) -> BucketLayout | None:
        """Return the layout of the greatest common divisor of both numbers."""
        if not isinstance(other, FixedBuckets):
            return None
        return replace(self, num_buckets=math.gcd(self.num_buckets, other.num_buckets))


@dataclass(frozen=True, slots=True)
class GrowingBuckets(FixedBuckets):
    """Numbered buckets, each of which may have any number of file groups."""

    has_several_groups: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class RingBuckets(BucketLayout):
    """A partition on a consistent hashing ring. A bucket's id is its node's ring value."""

    nodes: tuple[HashingNode, ...]
    hash_fields: tuple[str, ...]
    dialect: KeyDialect
    _values: np.ndarray = field(init=False, repr=False, compare=False)
    _bucket_of: Mapping[str | None, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_values", np.array([n.value for n in self.nodes], np.int64))
        bucket_of = {node.file_id_prefix: node.value for node in self.nodes}
        object.__setattr__(self, "_bucket_of", bucket_of)

    def with_nodes(self, nodes: Sequence[HashingNode]) -> RingBuckets:
        """Return the same hash fields with other nodes."""
        return replace(self, nodes=tuple(nodes))

    def hash_rows(self, values: Sequence[pa.Array]) -> np.ndarray:
        """Return xxHash32 of the values of each row. As `BucketLayout.hash_rows`."""
        hashes: np.ndarray = xxhash32s(values) & np.uint32(HASH_VALUE_MASK)
        return hashes

    def buckets_of_hashes(self, hashes: np.ndarray) -> np.ndarray:
        """Return the value of each hash's node, int32."""
        return self._values[find_node_indexes(self._values, hashes)].astype(np.int32)

    def divide_further(self, hashes: np.ndarray, num_parts: int) -> np.ndarray:
        """Return the parts by the low bits, which no range of hashes shares."""
        return hashes % num_parts

    @property
    def bucket_ids(self) -> Sequence[int]:
        """The ring value of every node."""
        return tuple(node.value for node in self.nodes)

    def bucket_of(self, file_id: str) -> int | None:
        """Return the ring value of the node a file group belongs to; None when off the ring."""
        prefix = find_consistent_prefix(file_id)
        return None if prefix is None else self._bucket_of.get(prefix)

    def new_file_id(self, bucket_id: int, uuid: str, *, is_shared: bool = False) -> str:
        """Return the id that the ring states for the bucket's node.

        Raises:
            CorruptError: the node has no file id prefix.
        """
        prefix = next(node.file_id_prefix for node in self.nodes if node.value == bucket_id)
        if prefix is None:
            raise CorruptError(f"node {bucket_id} of the hashing metadata has no file id prefix")
        return format_consistent_file_id(prefix)

    @property
    def number_to_prove(self) -> None:
        """None: the table's hashing metadata hold the ring."""

    def hashed_by(self, hash_fields: tuple[str, ...], dialect: KeyDialect) -> RingBuckets:
        """Return the same nodes."""
        return RingBuckets(self.nodes, hash_fields, dialect)

    def meet(self, other: BucketLayout) -> BucketLayout | None:
        """Return the ring of the nodes that stand in both; there may be none."""
        if not isinstance(other, RingBuckets):
            return None
        shared = {node.value for node in other.nodes}
        return replace(self, nodes=tuple(node for node in self.nodes if node.value in shared))


@dataclass(frozen=True, slots=True)
class DirectoryBuckets(BucketLayout):
    """A partition with an extendible directory. The id of a bucket is its lowest entry.

    Buckets may be left out, as of a plan that is about some of them: -1 is assigned to their keys.

    Raises:
        CorruptError: two buckets have the same hashes.
    """

    buckets: tuple[DirectoryBucket, ...]
    hash_fields: tuple[str, ...]
    dialect: KeyDialect
    _entries: np.ndarray = field(init=False, repr=False, compare=False)
    _prefixes: Mapping[int, str] = field(init=False, repr=False, compare=False)
    _bucket_of: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_entries", directory_entries(self.buckets, is_whole=False))
        prefixes = {bucket.bucket_id: bucket.file_id_prefix for bucket in self.buckets}
        object.__setattr__(self, "_prefixes", prefixes)
        bucket_of = {prefix: number for number, prefix in prefixes.items()}
        object.__setattr__(self, "_bucket_of", bucket_of)

    def hash_rows(self, values: Sequence[pa.Array]) -> np.ndarray:
        """Return xxHash32 of the values of each row, as of rings: all its bits are good."""
        hashes: np.ndarray = xxhash32s(values) & np.uint32(HASH_VALUE_MASK)
        return hashes

    def buckets_of_hashes(self, hashes: np.ndarray) -> np.ndarray:
        """Return what the directory leads to, int32."""
        found: np.ndarray = self._entries[hashes & hashes.dtype.type(len(self._entries) - 1)]
        return found

    def divide_further(self, hashes: np.ndarray, num_parts: int) -> np.ndarray:
        """Return the parts by the bits that the directory does not use."""
        return hashes // len(self._entries) % num_parts

    @property
    def bucket_ids(self) -> Sequence[int]:
        """The lowest entry of every bucket."""
        return tuple(self._prefixes)

    def bucket_of(self, file_id: str) -> int | None:
        """Return the bucket that a file group belongs to; None outside of the directory."""
        prefix = find_consistent_prefix(file_id)
        return None if prefix is None else self._bucket_of.get(prefix)

    def new_file_id(self, bucket_id: int, uuid: str, *, is_shared: bool = False) -> str:
        """Return the id that the directory states for the bucket."""
        return format_consistent_file_id(self._prefixes[bucket_id])

    @property
    def number_to_prove(self) -> None:
        """None: the table's hashing metadata hold the directory."""

    def hashed_by(self, hash_fields: tuple[str, ...], dialect: KeyDialect) -> DirectoryBuckets:
        """Return the same directory."""
        return replace(self, hash_fields=hash_fields, dialect=dialect)

    def with_buckets(self, buckets: Sequence[DirectoryBucket]) -> DirectoryBuckets:
        """Return the same hash fields with other buckets."""
        return replace(self, buckets=tuple(buckets))

    def overwritten(self, partition_path: str, instant: str) -> DirectoryBuckets:
        """Return the same buckets with other file groups. As `BucketLayout.overwritten`."""
        return self.with_buckets(overwritten_directory(self.buckets, partition_path, instant))

    def meet(self, other: BucketLayout) -> BucketLayout | None:
        """Return the buckets of either that no bucket of the other is larger than."""
        if not isinstance(other, DirectoryBuckets):
            return None
        found: dict[int, DirectoryBucket] = {}
        for one, another in ((self, other), (other, self)):
            for bucket in one.buckets:
                rival = another._bucket_at(bucket.bucket_id)
                if rival.local_depth >= bucket.local_depth:
                    found.setdefault(bucket.bucket_id, bucket)
        return replace(self, buckets=tuple(found[number] for number in sorted(found)))

    def _bucket_at(self, hash_value: int) -> DirectoryBucket:
        number = int(self._entries[hash_value & (len(self._entries) - 1)])
        return self.buckets[bisect_left(self.buckets, number, key=lambda b: b.bucket_id)]
