"""Locates keys where a bucket has several file groups, and divides new keys among them.

A key is in the base file of its file group, whatever its log says (spec GRP-3). I/O: reads the
footers of the base files of buckets, and the key columns of those whose key range and bloom filter
do not rule out a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import BucketfmtError, CorruptError, UnsupportedError
from bucketfmt.location.file_groups.key_facts import KeyFacts, base_file_of
from bucketfmt.location.file_groups.plan_groups import place_new_keys
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.location.located import Located, Settled, keys_by_partition
from bucketfmt.location.locator import BucketLocator, place_slices
from bucketfmt.location.records.plan_inserts import InsertSizing
from bucketfmt.location.routes import GroupRef
from bucketfmt.process import cached_property
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.snapshot.data_files.base_files import open_base_file
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.streams import map_in_threads, waiting_count

__all__ = ["GroupLocator"]

_NEW_GROUPS_MAX = 1 << 24  # that a write begins in a bucket
_ROWS_MIN = 100  # fewer do not tell how many bytes a row takes


class _Group(NamedTuple):
    """A file group of a bucket that keys fall to.

    Attributes:
        place: In its partition, in the order of file ids.
        bucket_id: Its bucket.
        file_slice: What it holds.
        rows: The places of the keys of the bucket, ascending.
    """

    place: int
    bucket_id: int
    file_slice: FileSlice
    rows: np.ndarray


class _Examined(NamedTuple):
    """A base file that was looked into for keys.

    Attributes:
        rows: The places of the keys that it has, ascending.
        facts: What its footer says.
    """

    rows: np.ndarray
    facts: KeyFacts


class GroupLocator(BucketLocator):
    """Locates keys by their bucket and base files. Safe to use from several threads.

    Rows are gathered by bucket. Once it is settled which file group has a key, the number of its
    route is twice the place of the file group in its partition, and one more for new keys that the
    file group takes. The numbers after these are of new file groups.
    """

    def __init__(self, snapshot: Snapshot, index_finder: IndexFinder, group_bytes: int) -> None:
        """Set up.

        Args:
            snapshot: The table.
            index_finder: Its index.
            group_bytes: How large a file group becomes.

        Raises:
            UnsupportedError: the base files do not have the record keys.
        """
        super().__init__(snapshot, index_finder)
        if not snapshot.state.config.populate_meta_fields:
            raise UnsupportedError(
                "several file groups in a bucket of a table without Hudi's own columns "
                "(hoodie.populate.meta.fields), whose base files do not tell their keys"
            )
        self._group_bytes = group_bytes
        self._facts = index_finder.key_facts
        self.late = self

    # -- reading

    def locate(
        self,
        record_keys: pa.ChunkedArray,
        partition_paths: pa.ChunkedArray | None,
        partitions: Sequence[str] | None = None,
    ) -> Iterator[Located]:
        """Yield the file slices of a key's bucket whose footers do not rule it out."""
        for one in super().locate(record_keys, partition_paths, partitions):
            keys = record_keys.take(pa.array(one.rows)).combine_chunks()
            in_bucket = _rows_by_bucket(one.places)
            slices = [(s, in_bucket[b]) for b, own in one.slices.items() for s in own]
            slices = [(s, rows) for s, rows in slices if len(rows)]
            held = [
                rows[self._may_hold(file_slice, facts, keys.take(pa.array(rows)))]
                for (file_slice, rows), facts in zip(
                    slices, self._load_facts([s for s, _ in slices]), strict=True
                )
            ]
            nowhere = np.setdiff1d(np.arange(len(keys)), np.concatenate([*held, []]))
            rows = np.concatenate([nowhere, *held]).astype(np.int64)
            numbers = np.repeat(np.arange(-1, len(held)), [len(nowhere), *map(len, held)])
            order = np.argsort(rows, kind="stable")
            rows, numbers = rows[order], numbers[order]
            by_number = {number: [s] for number, (s, _) in enumerate(slices)}
            yield Located(one.partition_path, one.rows[rows], numbers, by_number, one.places[rows])

    def candidates(
        self, record_keys: pa.ChunkedArray, partition_paths: pa.ChunkedArray | None
    ) -> Iterator[tuple[FileSlice, pa.Array]]:
        """Yield the file slices of the keys' buckets whose footers do not rule the keys out."""
        found = list(super().candidates(record_keys, partition_paths))
        for (file_slice, keys), facts in zip(
            found, self._load_facts([file_slice for file_slice, _ in found]), strict=True
        ):
            kept = keys.filter(pa.array(self._may_hold(file_slice, facts, keys)))
            if len(kept):
                yield file_slice, kept

    def _load_facts(self, slices: Sequence[FileSlice]) -> list[KeyFacts | None]:
        """Return the facts of the base file of each slice; None for a slice without base file."""
        state = self._snapshot.state

        def load(file_slice: FileSlice) -> KeyFacts | None:
            if file_slice.base_file is None:
                return None
            return self._facts.load(state.store, file_slice.base_file, state.limits)

        with state.read_here():
            return map_in_threads(load, slices, waiting_count(state.store))

    def _may_hold(
        self, file_slice: FileSlice, facts: KeyFacts | None, keys: pa.Array
    ) -> np.ndarray:
        if facts is None:  # as another writer begins file groups
            return np.ones(len(keys), np.bool_)
        try:
            return facts.keys.may_hold(keys)
        except BucketfmtError as error:
            raise error.within(path=base_file_of(file_slice).path) from None

    # -- writing

    has_global_keys = False
    moves_keys = False

    def settle(
        self, record_keys: pa.ChunkedArray, partition_paths: pa.ChunkedArray | None
    ) -> Settled:
        """Return the file groups that have keys, or take them. As `LateRoutes.settle`.

        All rows of a bucket are to be given at once.

        Raises:
            CorruptError: a key is in two file groups; a base file is missing or damaged.
        """
        if partition_paths is None:
            raise ValueError("keys of buckets are settled in their partitions")
        numbers = np.empty(len(record_keys), np.int64)
        is_stored = np.zeros(len(record_keys), np.bool_)
        for path, own, rows in keys_by_partition((), record_keys, partition_paths):
            keys, in_bucket = own.combine_chunks(), _rows_by_bucket(self.route(path, own))
            groups = self._groups(path, in_bucket)
            examined = self._examine(keys, groups)
            found = _merge_found(keys, groups, examined)
            is_stored[rows] = found >= 0
            numbers[rows] = self._with_new(path, keys, in_bucket, groups, examined, found)
        paths = pc.if_else(pa.array(is_stored), partition_paths, None)
        return Settled(paths.cast(pa.string()).combine_chunks(), numbers)

    def place_new(
        self, record_keys: pa.ChunkedArray, partition_paths: pa.ChunkedArray
    ) -> np.ndarray:
        """Return the numbers of new file groups. As `LateRoutes.place_new`."""
        numbers = np.empty(len(record_keys), np.int64)
        for path, own, rows in keys_by_partition((), record_keys, partition_paths):
            keys, in_bucket = own.combine_chunks(), _rows_by_bucket(self.route(path, own))
            nowhere = np.full(len(keys), -1, np.int64)
            numbers[rows] = self._with_new(path, keys, in_bucket, [], [], nowhere)
        return numbers

    def _groups(self, path: str, in_bucket: Mapping[int, np.ndarray]) -> list[_Group]:
        layout = self.routing(path)
        found = []
        for place, file_slice in enumerate(self._snapshot.slices(path)):
            bucket_id = layout.bucket_of(file_slice.file_id)
            if bucket_id is None:
                place_slices([file_slice], layout)  # which refuses it
            elif bucket_id in in_bucket:
                found.append(_Group(place, bucket_id, file_slice, in_bucket[bucket_id]))
        return found

    def _examine(self, keys: pa.Array, groups: Sequence[_Group]) -> list[_Examined]:
        """Look for keys in the base files of file groups, side by side."""
        state = self._snapshot.state

        def examine(group: _Group) -> _Examined:
            file = base_file_of(group.file_slice)
            facts, rows, own = self._facts.find(file), group.rows, keys.take(pa.array(group.rows))
            if facts is not None:
                rows = rows[self._may_hold(group.file_slice, facts, own)]
            if facts is not None and not len(rows):
                return _Examined(rows, facts)
            with open_base_file(state.store, file, state.limits) as opened:
                if facts is None:
                    facts = self._facts.keep(file, opened)
                    rows = rows[facts.keys.may_hold(own)]
                own = keys.take(pa.array(rows))
                is_there = np.zeros(len(rows), np.bool_)
                for number in opened.find_row_groups_of_keys(own):
                    stored = opened.read([RECORD_KEY], [number], use_threads=False)
                    is_there |= pc.is_in(own, stored.column(RECORD_KEY)).to_numpy(False)
            return _Examined(rows[is_there], facts)

        return map_in_threads(examine, groups, waiting_count(state.store))

    def _with_new(
        self,
        path: str,
        keys: pa.Array,
        in_bucket: Mapping[int, np.ndarray],
        groups: Sequence[_Group],
        examined: Sequence[_Examined],
        found: np.ndarray,
    ) -> np.ndarray:
        """Return the number of the route of each key.

        Args:
            path: The partition.
            keys: The keys.
            in_bucket: The places of the keys of each bucket.
            groups: The file groups of these buckets.
            examined: What was found in each.
            found: The place of the file group of each key in its partition; -1 for a new key.
        """
        row_bytes = self._row_bytes([each.facts for each in examined])
        planned = self._snapshot.state.pending_compactions
        numbers, begun = 2 * found, 2 * len(self._snapshot.slices(path))
        for bucket_id, rows in in_bucket.items():
            new = rows[found[rows] < 0]
            own = [group for group in groups if group.bucket_id == bucket_id]
            sizes = [
                None
                if (path, group.file_slice.file_id) in planned
                else base_file_of(group.file_slice).size
                for group in own
            ]
            taker, ordinals = place_new_keys(
                keys.take(pa.array(new)), sizes, self._group_bytes, row_bytes
            )
            numbers[new] = begun + bucket_id * _NEW_GROUPS_MAX + ordinals - 1
            if taker is not None:
                numbers[new[ordinals == 0]] = 2 * own[taker].place + 1
        return numbers

    def _row_bytes(self, facts: Sequence[KeyFacts]) -> int:
        num_rows = sum(each.num_rows for each in facts)
        if num_rows >= _ROWS_MIN:
            return max(1, sum(each.data_bytes for each in facts) // num_rows)
        return self._estimated_row_bytes

    @cached_property
    def _estimated_row_bytes(self) -> int:
        sizing = InsertSizing.from_properties(self._snapshot.state.config.properties)
        return sizing.estimate_row_bytes(self._snapshot.commits)

    def targets(
        self, partition_path: str, counts: Mapping[int, int]
    ) -> Mapping[int, Sequence[GroupRef]]:
        """Return the file groups of settled routes. As `Locator.targets`."""
        slices = self._snapshot.slices(partition_path)
        layout, found = self.routing(partition_path), {}
        for number in counts:
            place, takes_new_keys = number // 2, bool(number | 1 in counts)
            if place < len(slices):
                file_id = slices[place].file_id
                bucket_id = layout.bucket_of(file_id)
                group = GroupRef(partition_path, file_id, bucket_id, 0, takes_new_keys)
            else:
                bucket_id, ordinal = divmod(number - 2 * len(slices), _NEW_GROUPS_MAX)
                group = GroupRef(partition_path, None, bucket_id, ordinal, True)
            found[number] = [group]
        return found

    def first_targets(
        self, partition_path: str, counts: Mapping[int, int]
    ) -> Mapping[int, Sequence[GroupRef]]:
        """Return the new file groups of settled routes."""
        return self.targets(partition_path, counts)


def _merge_found(
    keys: pa.Array, groups: Sequence[_Group], examined: Sequence[_Examined]
) -> np.ndarray:
    """Return the place of the file group that has each key; -1 for a new key.

    Raises:
        CorruptError: two file groups have a key.
    """
    found = np.full(len(keys), -1, np.int64)
    for group, each in zip(groups, examined, strict=True):
        twice = each.rows[found[each.rows] >= 0]
        if len(twice):
            other = next(g for g in groups if g.place == found[twice[0]])
            raise CorruptError(
                f"key {keys[twice[0]]} is in two file groups of its bucket, "
                f"{other.file_slice.file_id} and {group.file_slice.file_id}: a scan returns both "
                "rows; run check()",
                partition=group.file_slice.partition_path,
                bucket=group.bucket_id,
            )
        found[each.rows] = group.place
    return found


def _rows_by_bucket(bucket_ids: np.ndarray) -> dict[int, np.ndarray]:
    """Return the places of the keys of each bucket, ascending."""
    if not len(bucket_ids):
        return {}
    order = np.argsort(bucket_ids, kind="stable")
    ids, starts = np.unique(bucket_ids[order], return_index=True)
    return dict(zip(ids.tolist(), np.split(order, starts[1:]), strict=True))
