"""Makes lost or damaged hashing metadata of partitions again, from the keys of their file groups.

I/O, under the table lock. Source: ConsistentBucketIndexUtils.loadMetadata tells which file counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np

from bucketfmt.errors import ConflictError, CorruptError, UnsupportedError
from bucketfmt.format.buckets.hashing_metadata import (
    HashingMetadata,
    decode_hashing_metadata,
    initial_hashing_metadata,
)
from bucketfmt.format.buckets.ring import HashingNode
from bucketfmt.format.keys.hashing import HASH_VALUE_MASK
from bucketfmt.format.keys.record_keys import dialect_for_table_version
from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.format.names.names import find_consistent_prefix
from bucketfmt.index.layout import BucketLayout
from bucketfmt.index.model import BucketIndex, as_bucket_index
from bucketfmt.location.hashing_files import (
    choose_hashing_instant,
    list_hashing_files,
    put_ring_marker,
    read_hashing_file,
    replace_ring,
    ring_path,
)
from bucketfmt.repair.plan_ring import HashRange, find_range_of_others, leads_to, plan_ring
from bucketfmt.resize.bucket_service import BucketService, choose_partitions
from bucketfmt.slices.merged_keys import stored_keys
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.store import FileInfo
from bucketfmt.storage.streams import map_in_threads, task_count
from bucketfmt.timeline.load import load_resizes
from bucketfmt.write.commit.locked_table import LockedTable

__all__ = ["RepairedRing", "RingRepairer"]


class RepairedRing(NamedTuple):
    """A ring that was made again, or would be.

    Attributes:
        partition_path: Of the partition.
        path: Of the file.
        cause: What was wrong.
        nodes: The number of nodes: one for each live file group; of a partition that was never
            resized, or has no file groups, those that a new partition has. Those that were there
            where the ring led to file groups that were replaced.
    """

    partition_path: str
    path: str
    cause: str
    nodes: int


@dataclass(frozen=True)
class _Fault:
    """A ring that cannot be used: the instant whose file is to hold it, why, and what precedes it.

    Attributes:
        instant: Of the file.
        cause: What is wrong.
        seq_no: Of the ring.
        has_markers: Whether any ring of the partition is marked, perhaps one that is lost.
        outlived: The ring, where nothing is wrong but that file groups of it were replaced.
    """

    instant: str
    cause: str
    seq_no: int
    has_markers: bool
    outlived: HashingMetadata | None = None


class _Repair(NamedTuple):
    """A ring to write, what is said of it, and whether any of its partition is marked."""

    metadata: HashingMetadata
    repaired: RepairedRing
    has_markers: bool


class RingRepairer(BucketService):
    """Repairs the rings of one table."""

    def preview(self, partitions: Sequence[str] | None = None) -> list[RepairedRing]:
        """Return what `run` would do now. Reads only; errors as of `run`."""
        return [each.repaired for each in self._plan(self._snapshot(), partitions)]

    def run(self, partitions: Sequence[str] | None = None) -> list[RepairedRing]:
        """Write the rings that are lost or damaged.

        Raises:
            ConflictError: a write or a resize is under way, or the lock was lost.
            CorruptError: keys of two file groups lie among one another, or a data file is damaged.
            UnsupportedError: the table has no rings.
            ValueError: the table has no such partition.
            LockTimeoutError: the table lock could not be acquired.
        """
        with self._owner.recovered() as table:
            _check_quiet(table)
            found = self._plan(self._snapshot(), partitions)
            for metadata, _, has_markers in found:
                table.check_held()
                # The marker is first: if the ring is not put, it tells.
                if _is_to_mark(table, metadata.instant, has_markers=has_markers):
                    put_ring_marker(table.store, metadata.partition_path, metadata.instant)
                replace_ring(table.store, metadata, table.limits, table.check_held)
        return [each.repaired for each in found]

    def _plan(self, snapshot: Snapshot, partitions: Sequence[str] | None) -> list[_Repair]:
        index = as_bucket_index(self._finder.resolve(snapshot).index)
        if index is None or not index.has_rings:
            raise UnsupportedError(
                "to repair rings of a table that has none; where all of them are lost, open the "
                "table with the index it was made with, such as index=ConsistentHashingIndex(4)"
            )
        paths = choose_partitions(snapshot, partitions, snapshot.dropped_partitions)
        state = snapshot.state
        resizes = load_resizes(state.store, state.config, state.timeline, state.limits)
        found = []
        for path in paths:
            live = snapshot.slices(path)
            fault = _find_fault(snapshot, path, live, resizes.get(path))
            if fault is not None:
                found.append(self._plan_one(snapshot, index, path, live, fault))
        return found

    def _plan_one(
        self,
        snapshot: Snapshot,
        index: BucketIndex,
        path: str,
        live: Sequence[FileSlice],
        fault: _Fault,
    ) -> _Repair:
        state = snapshot.state
        if fault.outlived is not None:
            return _repaired(fault, self._with_new_groups(snapshot, fault.outlived))
        layout = index.unproved_layout(
            path,
            state.config.record_key_fields,
            dialect_for_table_version(state.config.table_version),
            state.limits,
        )
        num_buckets = index.num_buckets_of(path, state.limits)
        ranges = _load_ranges(snapshot, layout, live)
        first = initial_hashing_metadata(path, num_buckets)
        if fault.instant == INIT_INSTANT and leads_to(first.nodes, ranges):
            return _repaired(fault, first)
        if not ranges:
            ranges = [HashRange(self._owner.machine.new_uuid()) for _ in range(num_buckets)]
        try:
            nodes = plan_ring(ranges)
        except CorruptError as error:
            raise error.within(partition=path) from None
        instant, seq_no = fault.instant, fault.seq_no
        if instant == INIT_INSTANT and nodes[-1].value != HASH_VALUE_MASK:
            # The first ring of a partition ends where the hash values do.
            instant, seq_no = _newest_write(snapshot), 1
        if instant == INIT_INSTANT:
            num_buckets = len(nodes)
        return _repaired(fault, HashingMetadata(0, path, instant, num_buckets, seq_no, nodes))

    def _with_new_groups(self, snapshot: Snapshot, ring: HashingMetadata) -> HashingMetadata:
        """Return a ring with new file groups in the place of those that were replaced."""
        nodes = tuple(
            HashingNode(node.value, self._owner.machine.new_uuid())
            if snapshot.is_replaced(ring.partition_path, node.file_id)
            else node
            for node in ring.nodes
        )
        return msgspec.structs.replace(ring, nodes=nodes)


def _repaired(fault: _Fault, metadata: HashingMetadata) -> _Repair:
    path, file = metadata.partition_path, ring_path(metadata)
    repaired = RepairedRing(path, file, fault.cause, len(metadata.nodes))
    return _Repair(metadata, repaired, fault.has_markers)


def _is_to_mark(table: LockedTable, instant: str, *, has_markers: bool) -> bool:
    """Return whether a ring has a marker, as resizes have it: from version 8 on at once.

    Beside a marked ring, Hudi 0.15 finds none while a resize has written its own. The timeline
    tells of a resize until the archival, which marks the ring. Where an older one is marked, the
    newest marker has to be that of the ring in force.
    """
    if instant == INIT_INSTANT:
        return False
    is_told = table.timeline.completed.of("replacecommit").contains(instant)
    return table.config.table_version >= 8 or has_markers or not is_told


def _newest_write(snapshot: Snapshot) -> str:
    newest = snapshot.state.timeline.writes.completed.last
    if newest is None:
        raise CorruptError("no write is on the timeline whose instant the ring could have")
    return newest.requested_time


def _check_quiet(table: LockedTable) -> None:
    """Refuse while others write: their keys are in files that no listing has yet."""
    pending = table.timeline.commits.pending.first
    if pending is not None:
        raise ConflictError(
            f"{pending.action} {pending.requested_time} is under way; repair the rings once it is "
            "completed or taken back"
        )


def _find_fault(
    snapshot: Snapshot, path: str, live: Sequence[FileSlice], resized: str | None
) -> _Fault | None:
    """Return what is wrong with the ring in force of a partition; None if it can be used.

    `resized` is its newest resize on the active timeline. Its ring has to be there, under its time:
    a rollback of the resize removes it again.
    """
    state = snapshot.state
    listed = list_hashing_files(state.store, path)
    files, marked = listed.by_instant(), listed.marked(state.lister.other_files(path))
    rings: dict[str, HashingMetadata] = {}
    faults = dict.fromkeys(marked.difference(files), "it is marked as committed, and missing")
    for instant, file in files.items():
        ring = _load_ring(state, file)
        if isinstance(ring, HashingMetadata):
            rings[instant] = ring
        else:
            faults[instant] = ring.message
    pending = state.timeline.pending.requested_times
    bases = {own.file_id for own in live if own.base_file is not None}
    known = {*rings, *faults} - pending
    chosen = choose_hashing_instant(
        state, known, marked, lambda i: i in faults or not rings[i].file_ids.isdisjoint(bases)
    )
    if resized is not None and (chosen is None or chosen < resized):
        cause = "that of the newest resize is missing"
        return _Fault(resized, cause, _next_seq_no(rings, resized), bool(marked))
    if chosen is None:
        # The first write to a partition makes its ring.
        return _Fault(INIT_INSTANT, "there is none", 0, bool(marked)) if live else None
    if chosen in faults:
        return _Fault(chosen, faults[chosen], _next_seq_no(rings, chosen), bool(marked))
    off = {each.file_id for each in live} - rings[chosen].file_ids
    if off:
        cause = f"it leads to {len(live) - len(off)} of {len(live)} live file groups"
        return _Fault(chosen, cause, _next_seq_no(rings, chosen), bool(marked))
    ring = rings[chosen]
    hidden = sum(snapshot.is_replaced(path, file_id) for file_id in ring.file_ids)
    if hidden:
        cause = f"it leads to {hidden} file groups that were replaced"
        return _Fault(chosen, cause, ring.seq_no, bool(marked), ring)
    return None


def _load_ring(state: TableState, file: FileInfo) -> HashingMetadata | CorruptError:
    try:
        return decode_hashing_metadata(read_hashing_file(state, file), state.limits)
    except CorruptError as error:
        return error


def _next_seq_no(rings: Mapping[str, HashingMetadata], instant: str) -> int:
    before = [ring.seq_no for time, ring in rings.items() if time < instant]
    return 0 if instant == INIT_INSTANT else max(before, default=0) + 1


def _load_ranges(
    snapshot: Snapshot, layout: BucketLayout, live: Sequence[FileSlice]
) -> list[HashRange]:
    """Return the ranges of the hash values of file groups, after reading their keys."""
    sizes = [file_slice.size for file_slice in live]
    load = partial(_load_range, snapshot, layout)
    ranges = map_in_threads(load, live, task_count(snapshot.state.store, sizes))
    others = find_range_of_others(ranges)
    if others is None:
        return ranges
    place = next(at for at, own in enumerate(ranges) if own.prefix == others[0])
    ranges[place] = _load_range(snapshot, layout, live[place], others[1:])
    return ranges


def _load_range(
    snapshot: Snapshot,
    layout: BucketLayout,
    file_slice: FileSlice,
    others: tuple[int, int] | None = None,
) -> HashRange:
    """Return the range of a file group: where it has no keys within that of others, around it."""
    prefix = find_consistent_prefix(file_slice.file_id)
    if prefix is None:
        raise CorruptError(
            f"file group {file_slice.file_id} is of another kind of index; take the write back "
            "that made it",
            partition=file_slice.partition_path,
        )
    *past, _ = snapshot.slice_history(file_slice.partition_path, file_slice.file_id)
    kept = [each for each in past if all(file.size is not None for file in each.files)]
    hashes = np.concatenate(
        [
            np.empty(0, np.uint32),
            *(
                layout.hash_keys(keys)
                for each in (*kept, file_slice)
                for keys in stored_keys(snapshot, each)
            ),
        ]
    )
    if not len(hashes):
        return HashRange(prefix)
    low, high = hashes.min(), hashes.max()
    if others is not None and not ((hashes >= others[0]) & (hashes <= others[1])).any():
        low, high = hashes[hashes > others[1]].min(), hashes[hashes < others[0]].max()
    return HashRange(prefix, int(low), int(high))
