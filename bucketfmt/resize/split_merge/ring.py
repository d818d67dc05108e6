"""Resize of consistent hashing rings: nodes are split and merged while others read and write.

I/O. `RingResizer` schedules and begins under the table lock, and `StartedResize` executes. The plan
is a clustering plan as Hudi makes and executes it. A resize that was begun and not completed, by
Hudi or here, is executed again from its plan: writers that know of the plan write their rows to the
old file groups and to the new ones, so that nothing of what they write is lost. Source:
BaseConsistentHashingBucketClusteringPlanStrategy, ScheduleClusteringActionExecutor.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from bucketfmt.choices import Codec
from bucketfmt.errors import (
    ConflictError,
    UnsupportedError,
)
from bucketfmt.format.buckets.child_nodes import RingChange, find_ring_changes
from bucketfmt.format.names.instants import State
from bucketfmt.format.names.names import FileGroupId
from bucketfmt.format.timeline.plans import ClusteringPlan, RequestedReplaceMetadata
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.index.model import Index, as_bucket_index
from bucketfmt.location.hashing_files import load_hashing_metadata
from bucketfmt.progress import ProgressCallback
from bucketfmt.resize.bucket_service import BucketService
from bucketfmt.resize.split_merge.plan_ring import (
    RingGroup,
    RingOfPartition,
    plan_resize,
    preview_resize,
    to_clustering_plan,
)
from bucketfmt.resize.split_merge.resize_limits import ResizeLimits, ResizePreview
from bucketfmt.resize.split_merge.started_resize import (
    StartedResize,
    load_new_rings,
    load_slices,
)
from bucketfmt.slices.merged_keys import merged_keys
from bucketfmt.snapshot.data_files.committed_logs import without_uncommitted_logs
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.timeline.load import (
    load_clustering_plan,
    load_pending_clusterings,
    load_resized_partitions,
)
from bucketfmt.timeline.timeline import REPLACING_ACTIONS, Instant, Timeline
from bucketfmt.write.commit.locked_table import LockedTable
from bucketfmt.write.commit.result import CommitResult
from bucketfmt.write.commit.started_work import PendingInstant
from bucketfmt.write.files.earlier_attempt import remove_earlier_attempt
from bucketfmt.write.rows.basis import Basis

__all__ = ["RingResizer"]

_T = TypeVar("_T")
_Planned = tuple[list[RingGroup], dict[FileGroupId, Sequence[int]]]

_WRITERS_TRIES, _WRITERS_PAUSE_S = 120, 0.25
"""How often, and after which pause, to look whether no write is under way."""


class RingResizer(BucketService):
    """Resizes the rings of one table."""

    def preview(
        self, limits: ResizeLimits, partitions: Sequence[str] | None = None
    ) -> ResizePreview:
        """Return what `run` would do now. Reads only, and no keys; errors as of `schedule`."""

        def plan(basis: Basis) -> ResizePreview:
            state = basis.snapshot.state
            pending = _find_pending(state, state.timeline, self._owner.heartbeats.seems_expired)
            if pending is None:
                return preview_resize(_plan(basis, limits, partitions, state.pending_compactions))
            instant, planned, changes = pending
            slices = load_slices(basis.snapshot, planned)
            return _preview_plan(changes, slices, instant.requested_time)

        return self._planned(plan)

    def schedule(self, limits: ResizeLimits, partitions: Sequence[str] | None = None) -> str | None:
        """Put a resize on the timeline; return its instant, or None if there is none to make.

        Args:
            limits: What to aim at.
            partitions: Only these; by default all that no clustering is pending for.

        Raises:
            ConflictError: writes are under way all the time: a resize begins between them, as
                writers that know of it write to the new file groups too; or one of `partitions` is
                being resized.
            UnsupportedError: the table has no rings, or is of a kind that is not written.
            CorruptError: a ring is damaged, or a file slice is on no node.
            LimitError: more buckets than a ring may have (`Limits.ring_nodes_max`).
            LockTimeoutError: the table lock could not be acquired.
        """

        def plan(basis: Basis) -> _Planned:
            groups = _plan(  # lists and reads, while others may write
                basis, limits, partitions, self._find_left_compactions(basis.snapshot.state)
            )
            return groups, _find_split_values(basis, groups, limits)

        groups, values = self._planned(plan)
        if not groups:
            return None
        owner = self._owner
        for tries_left in reversed(range(_WRITERS_TRIES)):
            with owner.recovered() as table:
                pending = table.timeline.pending
                writers = pending.of("deltacommit").instants
                # File groups of a compaction that lasts longer are left out, as by Hudi.
                awaited = tries_left and any(
                    self._is_executed(instant) for instant in pending.of("compaction").instants
                )
                if not writers and not awaited:
                    return self._request(table, groups, values, limits, partitions)
            if not tries_left:
                raise ConflictError(
                    f"deltacommit {writers[0].requested_time} is under way, and its writer does "
                    "not know of a resize; try again when it is done"
                )
            owner.machine.sleep(_WRITERS_PAUSE_S)
        raise AssertionError("the last try returns or raises")

    def _request(
        self,
        table: LockedTable,
        groups: Iterable[RingGroup],
        values: Mapping[FileGroupId, Sequence[int]],
        limits: ResizeLimits,
        partitions: Sequence[str] | None,
    ) -> str | None:
        """Plan again under the lock: what begins from here on sees the plan, and it all before."""
        rings = {group.partition_path: group.metadata for group in groups}
        groups = [
            group
            for group in self._planned(
                lambda basis: _plan(
                    basis, limits, partitions, basis.snapshot.state.pending_compactions
                )
            )
            if rings.get(group.partition_path) == group.metadata
        ]
        plan = to_clustering_plan(
            groups, values, limits, table.store.uri, self._owner.machine.new_uuid
        )
        if plan is None:
            return None
        content = RequestedReplaceMetadata(
            operation_type=WriteOperation.CLUSTER.operation_type, clustering_plan=plan
        )
        return table.request("clustering", content).requested_time

    def begin(self, codec: Codec | None = None) -> StartedResize | None:
        """Take on the oldest pending resize that nobody is at; None if none is pending.

        What is left of an earlier attempt at it is removed. A heartbeat tells others of this
        package that it is being executed, until it is published or abandoned.

        Raises:
            UnsupportedError: the plan is of a kind that is not executed here.
            CorruptError: the plan is damaged, or a file that it names is missing.
            LockTimeoutError: the table lock could not be acquired.
        """
        owner = self._owner
        with owner.recovered() as table:
            found = _find_pending(table, table.timeline, owner.heartbeats.is_expired)
            if found is None:
                return None
            instant, plan, changes = found
            time = instant.requested_time
            self._planned(lambda basis: load_new_rings(basis.snapshot.state, changes))
            heartbeat = owner.heartbeats.start(time)
            with heartbeat.stopped_on_error():
                if instant.state is State.REQUESTED:
                    table.begin(time, "clustering")
                else:
                    remove_earlier_attempt(table, time, changes)
        with heartbeat.stopped_on_error():
            pending = PendingInstant(owner, instant, heartbeat)
            return StartedResize(pending, self._planned, plan, changes, codec)

    def start(
        self,
        limits: ResizeLimits,
        partitions: Sequence[str] | None = None,
        codec: Codec | None = None,
    ) -> StartedResize | None:
        """Begin the oldest pending resize; if there is none, schedule one and begin it.

        Returns:
            None where no bucket is too large or too small, and no resize is pending.

        Raises:
            ConflictError: a resize is being executed, as its heartbeat tells, and there is no other
                to make; or as `schedule`.
        """

        def find_pending(basis: Basis) -> bool:  # refuses before anything is written
            state = basis.snapshot.state
            found = _find_pending(state, state.timeline, self._owner.heartbeats.seems_expired)
            return found is not None

        is_pending = self._planned(find_pending)
        started = self.begin(codec) if is_pending else None
        if started is None and self.schedule(limits, partitions) is not None:
            started = self.begin(codec)  # None: another process was faster
        if started is None:
            self._check_none_is_executed()
        return started

    def run(
        self,
        limits: ResizeLimits,
        partitions: Sequence[str] | None = None,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
    ) -> CommitResult | None:
        """Execute the oldest pending resize; if there is none, schedule one and execute it."""
        started = self.start(limits, partitions, codec)
        if started is None:
            return None
        with started:
            return started.run_in_threads(progress)

    def _planned(self, plan: Callable[[Basis], _T], index: Index | None = None) -> _T:
        """Return what is planned on the table as it is now. As `BucketService._planned`.

        Raises:
            UnsupportedError: the table has no rings, or is copy-on-write.
        """

        def plan_on_rings(basis: Basis) -> _T:
            _bounds(basis)
            if basis.snapshot.state.config.table_type != "MERGE_ON_READ":
                raise UnsupportedError(
                    "a resize of a copy-on-write table: consistent hashing takes a merge-on-read "
                    "table"
                )
            return plan(basis)

        return super()._planned(plan_on_rings, index)

    def _check_none_is_executed(self) -> None:
        state = self._snapshot().state
        for instant in state.timeline.pending.of(*REPLACING_ACTIONS).instants:
            time = instant.requested_time
            if self._is_executed(instant) and load_resized_partitions(
                state.store, state.config, time, state.limits
            ):
                raise ConflictError(
                    f"resize {time} is being executed, as its heartbeat tells; wait for it, or for "
                    "two minutes if its process is dead"
                )

    def _find_left_compactions(self, state: TableState) -> set[FileGroupId]:
        """Return the file groups of pending compactions that nobody executes."""
        pending = state.pending_compactions
        left = {instant for instant in set(pending.values()) if not self._is_executed(instant)}
        return {group for group, instant in pending.items() if instant in left}


def _find_pending(
    table: TableState | LockedTable, timeline: Timeline, is_expired: Callable[[str], bool]
) -> tuple[Instant, ClusteringPlan, dict[str, RingChange]] | None:
    """Return the oldest pending resize that nobody is at; None if there is none."""
    for instant in timeline.pending.of(*REPLACING_ACTIONS).instants:
        time = instant.requested_time
        if instant.state is not State.REQUESTED and not is_expired(time):
            continue
        plan = load_clustering_plan(table.store, table.config, instant, table.limits)
        changes = {} if plan is None else find_ring_changes(plan, time, table.limits)
        if plan is not None and changes:
            return instant, plan, changes
    return None


def _plan(
    basis: Basis,
    limits: ResizeLimits,
    partitions: Sequence[str] | None,
    compacted: Container[FileGroupId],
) -> list[RingGroup]:
    """Return what to split and merge, but for the file groups that a compaction is to rewrite."""
    snapshot = basis.snapshot
    state = snapshot.state
    limits = limits.within(_bounds(basis))
    state.limits.check("ring_nodes_max", limits.max_buckets or 0)
    if state.timeline.pending.of("logcompaction").instants:
        raise ConflictError("a log compaction is pending; let Hudi finish it, then try again")
    clusterings = load_pending_clusterings(state.store, state.config, state.timeline, state.limits)
    resized = {path: instant for (path, _), instant in clusterings.items()}
    unknown = sorted({*limits.sort_by} - {*basis.schema.data.names})
    if unknown:
        raise ValueError(f"the table has no column {unknown[0]!r} to sort rows by")
    paths = sorted(snapshot.partitions if partitions is None else partitions)
    if partitions is not None:
        for path in paths:
            if path not in snapshot.partitions:
                raise ValueError(f"the table has no partition {path!r}")
            if path in resized:
                raise ConflictError(
                    f"the partition is in the plan of {resized[path].requested_time} already; "
                    "have that executed (by resize(), or Hudi), or roll it back",
                    partition=path,
                )

    def load(path: str) -> RingOfPartition | None:
        basis.finder.layout(snapshot, path)  # proves it
        metadata = load_hashing_metadata(state, path)
        if metadata is None:
            return None
        slices = [
            without_uncommitted_logs(snapshot, file_slice)
            for file_slice in snapshot.slices(path)
            if (path, file_slice.file_id) not in compacted
        ]
        return RingOfPartition(metadata, tuple(slices))

    free = [path for path in paths if path not in resized]
    rings = map_in_threads(load, free, waiting_count(state.store))
    return plan_resize([ring for ring in rings if ring is not None], limits)


def _bounds(basis: Basis) -> tuple[int, int]:
    index, limits = as_bucket_index(basis.index), basis.snapshot.state.limits
    if index is None:
        raise UnsupportedError(f"a resize of a table with {basis.index.text}, which has no buckets")
    return index.resize_bounds(limits)


def _find_split_values(
    basis: Basis, groups: Iterable[RingGroup], limits: ResizeLimits
) -> dict[FileGroupId, Sequence[int]]:
    """Return where the policy divides each node that is to be split; reads keys if it needs to."""
    policy, snapshot = limits.split, basis.snapshot

    def find(group: RingGroup) -> tuple[FileGroupId, Sequence[int]]:
        hashes = None
        if policy.needs_hashes:
            layout = basis.finder.layout(snapshot, group.partition_path)
            read = [layout.hash_keys(keys) for keys in merged_keys(snapshot, group.slices[0])]
            hashes = np.concatenate([np.empty(0, np.uint32), *read])
        (value,) = group.values
        values = policy.find_values(group.former_value, value, group.num_parts, hashes)
        return group.file_group, values

    splits = [group for group in groups if group.kind == "split"]
    return dict(map_in_threads(find, splits, waiting_count(snapshot.state.store)))


def _preview_plan(
    changes: Mapping[str, RingChange], slices: Iterable[FileSlice], instant: str
) -> ResizePreview:
    """Return a plan that is pending in numbers."""
    groups = [group for change in changes.values() for group in change.groups]
    sizes = [(len(group.file_ids), len(group.new_nodes)) for group in groups]
    return ResizePreview(
        pending=instant,
        partitions=len(changes),
        splits=sum(after > before for before, after in sizes),
        merges=sum(after < before for before, after in sizes),
        sorts=sum(after == before for before, after in sizes),
        file_groups=sum(before for before, _ in sizes),
        new_file_groups=sum(after for _, after in sizes),
        bytes=sum(file_slice.size for file_slice in slices),
    )
