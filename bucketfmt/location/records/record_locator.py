"""Locates keys by the record index, and packs new keys into file groups as Hudi does.

I/O: reads the record index, and lists the partitions that it names. No data file is opened.
Source: SparkMetadataTableRecordIndex, HoodieIndexUtils.tagGlobalLocationBackToRecords,
UpsertPartitioner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import CorruptError
from bucketfmt.format.keys.hashing_kernels import java_string_hashes
from bucketfmt.location.located import NAMED_PARTITIONS, Located, Settled, keys_by_partition
from bucketfmt.location.records.plan_inserts import InsertSizing, find_small_groups, plan_inserts
from bucketfmt.location.records.record_locations import RecordLocations
from bucketfmt.location.routes import GroupRef
from bucketfmt.process import cached_property
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.timeline.load import load_pending_clusterings

__all__ = ["RecordLocator"]

_NUM_SETS = 256
"""Into how many sets the new keys of a partition are divided: each goes to one file group."""

_FILE_ID_ENDING = "-0"  # of the first file group that a Hudi task writes under one UUID


class RecordLocator:
    """Locates keys by the record index. Safe to use from several threads.

    The number of a route below `_NUM_SETS` is a set of keys, by their hash; a number from there on
    is a file group, by its place among those of the partition.
    """

    def __init__(self, snapshot: Snapshot, records: RecordLocations, *, moves_keys: bool) -> None:
        """Set up.

        Args:
            snapshot: The table.
            records: Its record index, as of the same timeline.
            moves_keys: See `LateRoutes`; for global keys only.
        """
        self._snapshot = snapshot
        self._records = records
        self.has_global_keys = records.is_global
        self.moves_keys = moves_keys and records.is_global
        self._file_ids: dict[str, pa.Array] = {}

    @property
    def late(self) -> RecordLocator:
        """The locator itself: routes of rows as they come are sets of keys."""
        return self

    # -- reading

    def locate(
        self,
        record_keys: pa.ChunkedArray,
        partition_paths: pa.ChunkedArray | None,
        partitions: Sequence[str] | None = None,
    ) -> Iterator[Located]:
        """Yield the file slice of each key. As `Locator.locate`.

        Global keys without a partition are yielded once, those that the index does not have without
        a partition.

        Raises:
            ConflictError: at the end, as `RecordLocations.check_as_of_state`.
        """
        yield from self._locate(record_keys, partition_paths, partitions)
        self._records.check_as_of_state()

    def _locate(
        self,
        record_keys: pa.ChunkedArray,
        partition_paths: pa.ChunkedArray | None,
        partitions: Sequence[str] | None,
    ) -> Iterator[Located]:
        if not self.has_global_keys:
            every = self._snapshot.partitions
            for path, own, rows in keys_by_partition(
                every, record_keys, partition_paths, partitions
            ):
                yield self._located(path, rows, self._records.find(own, path)["file_id"])
            return
        if partition_paths is not None and partitions is not None:
            raise ValueError(NAMED_PARTITIONS)
        found = self._records.find(record_keys)
        paths, file_ids = found["partition_path"], found["file_id"]
        asked = paths if partition_paths is None else partition_paths
        is_found = pc.fill_null(pc.equal(paths, asked), False)
        if partitions is not None:
            is_found = pc.and_(is_found, pc.is_in(paths, pa.array(partitions, pa.string())))
            asked = pc.if_else(is_found, asked, None)
        file_ids = pc.if_else(is_found, file_ids, None)
        in_none = np.flatnonzero(asked.is_null().to_numpy())
        if len(in_none):
            yield Located(None, in_none, np.full(len(in_none), -1), {})
        in_some = np.flatnonzero(asked.is_valid().to_numpy())
        if len(in_some):
            some = pa.array(in_some)
            for path, own, rows in keys_by_partition((), file_ids.take(some), asked.take(some)):
                yield self._located(path, in_some[rows], own)

    def candidates(
        self, record_keys: pa.ChunkedArray, partition_paths: pa.ChunkedArray | None
    ) -> Iterator[tuple[FileSlice, pa.Array]]:
        """Yield the file slices that have keys, each with its keys."""
        for one in self.locate(record_keys, partition_paths):
            for place, slices in one.slices.items():
                own = record_keys.take(pa.array(one.rows[one.places == place]))
                yield from ((file_slice, pc.unique(own)) for file_slice in slices)

    def _located(self, path: str, rows: np.ndarray, file_ids: pa.ChunkedArray) -> Located:
        places = self._places(path, file_ids)
        ids = self._ids(path)
        wanted = {ids[place].as_py(): place for place in np.unique(places[places >= 0]).tolist()}
        slices = {
            wanted[own.file_id]: [own]
            for own in self._snapshot.slices_where(path, wanted.__contains__)
        }
        for file_id, place in wanted.items():
            if place not in slices:
                raise _lost(path, file_id)
        return Located(path, rows, places, slices)

    def _ids(self, path: str) -> pa.Array:
        """Return the file groups of a partition in order."""
        found = self._file_ids.get(path)
        if found is None:
            found = pa.array(sorted(self._snapshot.file_ids(path)), pa.string())
            self._file_ids[path] = found
        return found

    def _places(self, path: str, file_ids: pa.ChunkedArray) -> np.ndarray:
        """Return the places of file groups in `_ids`; -1 for null.

        Raises:
            CorruptError: the partition has no such file group.
        """
        places = pc.index_in(file_ids, self._ids(path))
        is_lost = pc.and_(places.is_null(), file_ids.is_valid())
        if pc.any(is_lost).as_py():
            raise _lost(path, file_ids.filter(is_lost)[0].as_py())
        return np.asarray(pc.fill_null(places, -1).to_numpy(), np.int64)

    # -- writing

    def prepare(self, partition_paths: Sequence[str]) -> None:
        """Do nothing: routes need no I/O."""

    def route(self, partition_path: str, record_keys: pa.ChunkedArray) -> np.ndarray:
        """Return the set of each key, by its hash."""
        return _sets_of(record_keys)

    def routing(self, partition_path: str) -> None:
        """Return None: the sets of keys are the same in every table."""

    def settle(
        self, record_keys: pa.ChunkedArray, partition_paths: pa.ChunkedArray | None
    ) -> Settled:
        """Return the file groups of keys, and the sets of new keys. As `LateRoutes.settle`."""
        numbers = _sets_of(record_keys)
        if partition_paths is None:
            found = self._records.find(record_keys)
            paths, file_ids = found["partition_path"], found["file_id"]
        else:
            paths, file_ids = partition_paths, self._find(record_keys, partition_paths)
            paths = pc.if_else(file_ids.is_valid(), paths, None)
        stored = np.flatnonzero(file_ids.is_valid().to_numpy())
        if len(stored):
            some = pa.array(stored)
            for path, own, rows in keys_by_partition((), file_ids.take(some), paths.take(some)):
                numbers[stored[rows]] = self._places(path, own) + _NUM_SETS
        return Settled(paths.cast(pa.string()).combine_chunks(), numbers)

    def place_new(
        self, record_keys: pa.ChunkedArray, partition_paths: pa.ChunkedArray
    ) -> np.ndarray:
        """Return the sets of keys. As `LateRoutes.place_new`."""
        return _sets_of(record_keys)

    def _find(
        self, record_keys: pa.ChunkedArray, partition_paths: pa.ChunkedArray
    ) -> pa.ChunkedArray:
        """Return the file id of each key in its partition."""
        file_ids: list[pa.ChunkedArray] = []
        order: list[np.ndarray] = []
        for path, own, rows in keys_by_partition((), record_keys, partition_paths):
            file_ids.append(self._records.find(own, path)["file_id"])
            order.append(rows)
        chunks = [chunk for column in file_ids for chunk in column.chunks]
        places = np.argsort(np.concatenate(order)) if order else np.arange(0)
        return pa.chunked_array(chunks, pa.string()).take(pa.array(places))

    def targets(
        self, partition_path: str, counts: Mapping[int, int]
    ) -> Mapping[int, Sequence[GroupRef]]:
        """Return the file groups of the stored keys, and where the sets of new keys go."""
        sets = [number for number in counts if number < _NUM_SETS]
        found = self._pack(
            partition_path, {n: counts[n] for n in sets}, self._small(partition_path)
        )
        takers = {own[0].file_id: own[0] for own in found.values()}
        ids = self._ids(partition_path)
        for number in counts:
            if number >= _NUM_SETS:
                file_id = ids[number - _NUM_SETS].as_py()
                found[number] = [takers.get(file_id) or GroupRef(partition_path, file_id, None)]
        return found

    def first_targets(
        self, partition_path: str, counts: Mapping[int, int]
    ) -> Mapping[int, Sequence[GroupRef]]:
        """Return new file groups."""
        return self._pack(partition_path, counts, [])

    def _pack(
        self, path: str, counts: Mapping[int, int], small: Sequence[FileSlice]
    ) -> dict[int, Sequence[GroupRef]]:
        if not counts:
            return {}
        planned = plan_inserts(list(counts.values()), small, self._sizing, self._row_bytes)
        return {
            number: [
                GroupRef(path, None, None, group, True)
                if isinstance(group, int)
                else GroupRef(path, group.file_id, None, 0, True)
            ]
            for number, group in zip(counts, planned, strict=True)
        }

    def _small(self, path: str) -> list[FileSlice]:
        state = self._snapshot.state
        planned = {
            file_id
            for partition, file_id in (*state.pending_compactions, *self._pending_clusterings)
            if partition == path
        }
        return find_small_groups(
            self._snapshot.slices(path),
            self._sizing,
            has_logs=state.config.table_type == "MERGE_ON_READ",
            planned=planned,
        )

    @cached_property
    def _pending_clusterings(self) -> Iterable[tuple[str, str]]:
        state = self._snapshot.state
        return load_pending_clusterings(state.store, state.config, state.timeline, state.limits)

    @cached_property
    def _sizing(self) -> InsertSizing:
        return InsertSizing.from_properties(self._snapshot.state.config.properties)

    @cached_property
    def _row_bytes(self) -> int:
        return self._sizing.estimate_row_bytes(self._snapshot.commits)

    def pointed_at(self, group: GroupRef, number: int) -> GroupRef | None:
        """Return None: no file group is resized."""
        return None

    def slice_of(self, group: GroupRef) -> FileSlice | None:
        """Return what a file group holds. As `Locator.slice_of`."""
        if group.file_id is None:
            return None
        found = self._snapshot.slices_where(group.partition_path, group.file_id.__eq__)
        return found[0] if found else None

    def stored(self, group: GroupRef) -> Sequence[FileSlice]:
        """Return what the file group holds. As `Locator.stored`."""
        found = self.slice_of(group)
        return () if found is None else (found,)

    def new_file_id(
        self, group: GroupRef, uuid: str, *, is_shared: bool, overwriting: str | None = None
    ) -> str:
        """Return the UUID, with the ending of Hudi's file ids."""
        return uuid + _FILE_ID_ENDING

    def put_metadata(self, partition_paths: Iterable[str]) -> None:
        """Nothing has to be there before the first file of a partition."""


def _lost(path: str, file_id: str) -> CorruptError:
    return CorruptError(
        f"the record index names file group {file_id}, which the table does not have; rebuild the "
        "index",
        partition=path,
    )


def _sets_of(record_keys: pa.ChunkedArray) -> np.ndarray:
    hashes = java_string_hashes(record_keys.combine_chunks()).astype(np.int64)
    return (hashes ^ (hashes >> 16)) & (_NUM_SETS - 1)
