"""Where the keys of a table live, and where rows are written.

I/O: the locator by buckets lists partitions and reads index files; it opens no data file of a
partition whose index is proved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import ConflictError, CorruptError, IndexUnknownError, NotFoundError
from bucketfmt.index.layout import BucketLayout
from bucketfmt.index.resizing import ResizingRing
from bucketfmt.location.directory_files import load_directory, put_initial_directory
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.location.hashing_files import load_hashing_metadata, put_initial_ring
from bucketfmt.location.located import LateRoutes, Located, keys_by_partition
from bucketfmt.location.routes import GroupRef
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.streams import map_in_threads, waiting_count

__all__ = [
    "BucketLocator",
    "Locator",
    "place_slices",
]


class Locator(Protocol):
    """Answers where the keys of one snapshot live, and where rows are written.

    A key may live in one of several file groups, and a row may be written to several.
    """

    @property
    def late(self) -> LateRoutes | None:
        """What tells which file groups have the keys of a route; None where the route tells."""

    def locate(
        self,
        record_keys: pa.ChunkedArray,
        partition_paths: pa.ChunkedArray | None,
        partitions: Sequence[str] | None = None,
    ) -> Iterator[Located]:
        """Yield the file slices that may hold each key; no other file slice holds the key.

        Args:
            record_keys: The keys.
            partition_paths: The partition of each; None for keys that may be in any partition.
            partitions: The partitions to look into, for keys without a partition; all by default.

        Raises:
            IndexUnknownError: the index does not tell where keys of a partition live.
            CorruptError: the file groups contradict the index.
            ValueError: both `partition_paths` and `partitions` are given.
        """

    def candidates(
        self, record_keys: pa.ChunkedArray, partition_paths: pa.ChunkedArray | None
    ) -> Iterator[tuple[FileSlice, pa.Array]]:
        """Yield the file slices to look into for keys, each with the keys that it may hold.

        All file slices are yielded where nothing tells which of them hold the keys.
        """

    def prepare(self, partition_paths: Sequence[str]) -> None:
        """Read for many partitions at a time what `route` and `targets` need one by one.

        Raises:
            IndexUnknownError: as `route`.
            StorageError: the store failed.
        """

    def route(self, partition_path: str, record_keys: pa.ChunkedArray) -> np.ndarray:
        """Return the number of the `Route` of each key, integers from 0.

        Raises:
            IndexUnknownError: the index does not tell where keys of the partition live.
            KeyEncodingError: a key on which Hudi itself never returns.
        """

    def routing(self, partition_path: str) -> object:
        """Return what decides the routes of keys: with an equal value they are the same."""

    def targets(
        self, partition_path: str, counts: Mapping[int, int]
    ) -> Mapping[int, Sequence[GroupRef]]:
        """Return the file groups that take the rows of each route: each takes all of them.

        Args:
            partition_path: The partition.
            counts: How many rows each route of the partition has, by the number of the route.

        Raises:
            IndexUnknownError, CorruptError: as `locate`.
        """

    def first_targets(
        self, partition_path: str, counts: Mapping[int, int]
    ) -> Mapping[int, Sequence[GroupRef]]:
        """Return the `targets` in an empty partition."""

    def pointed_at(self, group: GroupRef, number: int) -> GroupRef | None:
        """Return the file group that takes the rows of a route in the place of a target.

        The target is given a virtual log, which points to the rows. None where the target takes the
        rows itself.

        Args:
            group: A target of the route.
            number: The number of the route.
        """

    def slice_of(self, group: GroupRef) -> FileSlice | None:
        """Return what a file group holds; None for a file group that the write begins.

        Of a file group that takes copies these are the copies, which readers do not see yet.
        """

    def stored(self, group: GroupRef) -> Sequence[FileSlice]:
        """Return the slices that readers see and that may hold keys of the rows for a group."""

    def new_file_id(
        self, group: GroupRef, uuid: str, *, is_shared: bool, overwriting: str | None = None
    ) -> str:
        """Return the file id of a group that a write begins. As `BucketLayout.new_file_id`.

        Args:
            group: The group.
            uuid: A random UUID.
            is_shared: The same id for every writer.
            overwriting: The requested time of the write, if the write hides the file groups of the
                partition.
        """

    def put_metadata(self, partition_paths: Iterable[str]) -> None:
        """Write down what has to be there before the first file of a new partition.

        Raises:
            ConflictError: another writer has written something else, by which rows would have
                other routes.
        """


class BucketLocator:
    """Locates keys by hashing. Safe to use from several threads: those that race find alike."""

    late: LateRoutes | None = None

    def __init__(
        self,
        snapshot: Snapshot,
        index_finder: IndexFinder,
        why_unknown: ConflictError | IndexUnknownError | None = None,
    ) -> None:
        """Set up.

        Args:
            snapshot: The table.
            index_finder: Finds its index.
            why_unknown: Raised where a layout is asked for; look-ups read all file groups then.
        """
        self._snapshot = snapshot
        self._index_finder = index_finder
        self._why_unknown = why_unknown
        self._layouts: dict[str, BucketLayout] = {}
        self._routings: dict[str, BucketLayout] = {}
        self._placed: dict[str, Mapping[int, Sequence[FileSlice]]] = {}

    def layout(self, partition_path: str) -> BucketLayout:
        """Return the layout of a partition, which may be new. As `IndexFinder.layout`."""
        if self._why_unknown is not None:
            raise self._why_unknown
        found = self._layouts.get(partition_path)
        if found is None:
            found = self._index_finder.layout(self._snapshot, partition_path)
            self._layouts[partition_path] = found
        return found

    def locate(
        self,
        record_keys: pa.ChunkedArray,
        partition_paths: pa.ChunkedArray | None,
        partitions: Sequence[str] | None = None,
    ) -> Iterator[Located]:
        """Yield the file slices of each key's bucket. As `Locator.locate`."""
        # Listing all partitions is for keys that may be in any.
        is_anywhere = partition_paths is None and partitions is None
        every = self._snapshot.partitions if is_anywhere else ()
        found = [*keys_by_partition(every, record_keys, partition_paths, partitions)]
        self._snapshot.state.lister.prepare([path for path, *_ in found])
        for path, own, rows in found:
            layout = self.layout(path)
            bucket_ids = layout.assign(own)
            slices = place_slices(self._slices(path, bucket_ids), layout)
            yield Located(path, rows, bucket_ids, slices, bucket_ids)

    def candidates(
        self, record_keys: pa.ChunkedArray, partition_paths: pa.ChunkedArray | None
    ) -> Iterator[tuple[FileSlice, pa.Array]]:
        """Yield the file slices of the keys' buckets, and those of no bucket."""
        every = self._snapshot.partitions if partition_paths is None else ()
        found = [*keys_by_partition(every, record_keys, partition_paths)]
        self._snapshot.state.lister.prepare([path for path, *_ in found])
        hashed: _HashedKeys | None = None
        for path, own, _ in found:
            # Keys that may be in any partition are hashed once, not in each.
            if hashed is None or hashed.given is not own:
                hashed = _HashedKeys(own)
            yield from self._candidates(path, hashed)

    def _candidates(self, path: str, keys: _HashedKeys) -> Iterator[tuple[FileSlice, pa.Array]]:
        record_keys = keys.record_keys
        try:
            layout = self.layout(path)
        except (ConflictError, IndexUnknownError):  # a conflict: the index is being made anew
            yield from ((found, record_keys) for found in self._snapshot.slices(path))
            return
        bucket_ids = keys.assign(layout)
        slices = self._slices(path, bucket_ids)
        buckets_of = _buckets_of(slices, layout)
        for file_slice in slices:
            own = buckets_of.get(file_slice.file_id)
            yield file_slice, record_keys if own is None else keys.of_buckets(own)

    def _slices(self, partition_path: str, bucket_ids: np.ndarray) -> list[FileSlice]:
        """Return the slices that may hold keys of these buckets."""
        asked = pc.unique(pa.array(bucket_ids)).to_pylist()
        file_ids = self._snapshot.file_ids(partition_path)
        wanted = self.layout(partition_path).may_hold(file_ids, asked)
        return self._snapshot.slices_where(partition_path, wanted.__contains__)

    def prepare(self, partition_paths: Sequence[str]) -> None:
        """List partitions, and make their layouts, side by side."""
        state = self._snapshot.state
        state.lister.prepare(partition_paths)
        map_in_threads(self.routing, partition_paths, waiting_count(state.store))

    def route(self, partition_path: str, record_keys: pa.ChunkedArray) -> np.ndarray:
        """Return the bucket id of each key; during a resize, that of the buckets of both rings."""
        return self.routing(partition_path).assign(record_keys)

    def routing(self, partition_path: str) -> BucketLayout:
        """Return the layout by which rows are written: during a resize, of both rings."""
        found = self._routings.get(partition_path)
        if found is None:
            found = self.layout(partition_path)
            resolved = self._index_finder.resolve(self._snapshot)
            index = resolved.bucket_index
            if index is not None and index.has_rings:
                # Unless the table itself states so, others write who know nothing of it.
                has_virtual_logs = index.has_virtual_logs and resolved.is_recorded
                found = self._resizing(partition_path, found, has_virtual_logs)
            self._routings[partition_path] = found
        return found

    def _resizing(
        self, partition_path: str, layout: BucketLayout, has_virtual_logs: bool
    ) -> BucketLayout:
        state = self._snapshot.state
        try:
            change = state.pending_ring_changes.get(partition_path)
        except NotFoundError as error:
            raise ConflictError(
                "a clustering was rolled back while its plan was read; reload the table and retry"
            ) from error
        if change is None:
            return layout
        ring = load_hashing_metadata(state, partition_path)
        if ring is None:
            raise CorruptError(
                f"the clustering of {change.instant} resizes the ring of a partition that has "
                "none; roll the clustering back",
                partition=partition_path,
            )
        coming = layout.with_nodes(change.apply(ring).nodes)
        return ResizingRing(layout, change, coming, has_virtual_logs)

    def targets(
        self, partition_path: str, counts: Mapping[int, int]
    ) -> Mapping[int, Sequence[GroupRef]]:
        """Return the file groups that take the rows of buckets. As `Locator.targets`."""
        found = self._slices_by_bucket(partition_path)
        return {
            bucket_id: self._targets(
                partition_path, bucket_id, [own.file_id for own in found.get(bucket_id, ())]
            )
            for bucket_id in counts
        }

    def first_targets(
        self, partition_path: str, counts: Mapping[int, int]
    ) -> Mapping[int, Sequence[GroupRef]]:
        """Return the file groups that take the rows of buckets without file groups."""
        return {bucket_id: self._targets(partition_path, bucket_id, []) for bucket_id in counts}

    def _targets(self, path: str, bucket_id: int, file_ids: Sequence[str]) -> Sequence[GroupRef]:
        layout = self.routing(path)
        return [
            GroupRef(path, file_id, bucket_id)
            if file_id is None
            else GroupRef(
                path, file_id, layout.bucket_of(file_id), resize=layout.resize_of(file_id)
            )
            for file_id in layout.write_targets(bucket_id, file_ids)
        ]

    def pointed_at(self, group: GroupRef, number: int) -> GroupRef | None:
        """Return the file group of the node to come. As `Locator.pointed_at`."""
        layout, path = self.routing(group.partition_path), group.partition_path
        file_id = None if group.resize is not None else layout.pointed_at(number)
        if file_id is None:
            return None
        bucket_id = layout.bucket_of(file_id)
        return GroupRef(path, file_id, bucket_id, resize=layout.resize_of(file_id))

    def slice_of(self, group: GroupRef) -> FileSlice | None:
        """Return what a file group holds. As `Locator.slice_of`."""
        if group.file_id is None or group.bucket_id is None:
            return None
        if group.resize is not None:
            return self._snapshot.copies(group.partition_path, group.file_id, group.resize)
        own = self._slices_by_bucket(group.partition_path).get(group.bucket_id, ())
        return next((found for found in own if found.file_id == group.file_id), None)

    def stored(self, group: GroupRef) -> Sequence[FileSlice]:
        """Return the slices with keys of the rows for a group. As `Locator.stored`."""
        if group.resize is None:
            found = self.slice_of(group)
            return () if found is None else (found,)
        by_bucket = self._slices_by_bucket(group.partition_path)
        layout = self.routing(group.partition_path)
        split = {
            file_slice.file_id: file_slice
            for bucket_id, slices in by_bucket.items()
            if group.file_id in layout.write_targets(bucket_id, ())
            for file_slice in slices
        }
        return tuple(split.values())

    def _slices_by_bucket(self, partition_path: str) -> Mapping[int, Sequence[FileSlice]]:
        found = self._placed.get(partition_path)
        if found is None:
            slices = self._snapshot.slices(partition_path)
            found = place_slices(slices, self.routing(partition_path))
            self._placed[partition_path] = found
        return found

    def new_file_id(
        self, group: GroupRef, uuid: str, *, is_shared: bool, overwriting: str | None = None
    ) -> str:
        """Return the file id of a new group of a bucket. As `Locator.new_file_id`."""
        layout = self.routing(group.partition_path)
        if overwriting is not None:
            layout = layout.overwritten(group.partition_path, overwriting)
        return layout.new_file_id(group.bucket_id or 0, uuid, is_shared=is_shared)

    def put_metadata(self, partition_paths: Iterable[str]) -> None:
        """Write down the rings or directories of new partitions, as Hudi does before a first write.

        Those of a new partition follow from the partition's path and the number of buckets.

        Raises:
            ConflictError: the partition has another ring than the ring that rows were routed by:
                another writer wrote a ring of another number of buckets meanwhile.
        """
        index, state = self._index_finder.resolve(self._snapshot).bucket_index, self._snapshot.state
        if index is not None and index.has_directories:
            for partition_path in sorted(set(partition_paths)):
                if load_directory(self._snapshot, partition_path) is None:
                    num_buckets = index.num_buckets_of(partition_path)
                    put_initial_directory(state.store, partition_path, num_buckets)
        if index is None or not index.has_rings:
            return
        for partition_path in sorted(set(partition_paths)):
            found = load_hashing_metadata(state, partition_path)
            if found is None:
                num_buckets = index.num_buckets_of(partition_path)
                if put_initial_ring(state.store, partition_path, num_buckets):
                    continue
                found = load_hashing_metadata(state, partition_path)
            bucket_ids = self.layout(partition_path).bucket_ids
            if found is not None and list(bucket_ids) != [node.value for node in found.nodes]:
                raise ConflictError(
                    f"another writer has given partition {partition_path!r} another ring of "
                    "buckets; write again"
                )


def place_slices(slices: Sequence[FileSlice], layout: BucketLayout) -> dict[int, list[FileSlice]]:
    """Return the slices by the buckets whose keys they may hold.

    Raises:
        CorruptError: a bucket has two file groups, and the layout has one for each.
        IndexUnknownError: a file group is in no bucket.
    """
    buckets_of = _buckets_of(slices, layout)
    found: dict[int, list[FileSlice]] = {}
    for file_slice in slices:
        own = buckets_of.get(file_slice.file_id)
        if own is None:
            raise IndexUnknownError(
                f"file group {file_slice.file_id} is in no bucket of the index, so hashing does "
                "not tell whether it holds a key: lookup() looks into it. Pass the index= it was "
                "written with, or run check(), which says how it got there and how to mend that",
                partition=file_slice.partition_path,
            )
        for bucket_id in own:
            others = found.setdefault(bucket_id, [])
            if others and not layout.has_several_groups:
                raise CorruptError(
                    f"two file groups in one bucket, {others[0].file_id} and "
                    f"{file_slice.file_id}: a scan returns the rows of both; run check()",
                    partition=file_slice.partition_path,
                    bucket=bucket_id,
                )
            others.append(file_slice)
    return found


class _HashedKeys:
    """Record keys, each once, and their buckets by the layout that was asked for last.

    Attributes:
        given: The keys, as they were given.
        record_keys: Each of them once.
    """

    def __init__(self, given: pa.ChunkedArray) -> None:
        self.given = given
        self.record_keys: pa.Array = pc.unique(given)
        self._layout: BucketLayout | None = None
        self._bucket_ids = np.zeros(0, np.int32)
        self._of_buckets: dict[tuple[int, ...], pa.Array] = {}

    def assign(self, layout: BucketLayout) -> np.ndarray:
        """Return the bucket id of each of `record_keys`. As `BucketLayout.assign`."""
        if layout != self._layout:
            self._layout, self._bucket_ids = layout, layout.assign(self.record_keys)
            self._of_buckets = {}
        return self._bucket_ids

    def of_buckets(self, wanted: Sequence[int]) -> pa.Array:
        """Return those of `record_keys` that are in buckets of the layout that was asked for last.

        Many partitions have the same buckets: the keys of a bucket are found once.
        """
        key = tuple(wanted)
        found = self._of_buckets.get(key)
        if found is None:
            is_in = pa.array(np.isin(self._bucket_ids, wanted))
            found = self._of_buckets[key] = self.record_keys.filter(is_in)
        return found


def _buckets_of(slices: Sequence[FileSlice], layout: BucketLayout) -> dict[str, list[int]]:
    """Return the buckets whose keys each file group may hold; without groups of no bucket."""
    found: dict[str, list[int]] = {}
    for bucket_id, file_ids in layout.groups(s.file_id for s in slices).items():
        for file_id in file_ids:
            found.setdefault(file_id, []).append(bucket_id)
    return found
