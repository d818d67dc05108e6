"""Cleaning: files that no reader of the retained commits needs are deleted.

I/O: the plan goes on the timeline under the table lock, the files are deleted, and what was
deleted is recorded. A clean that was not completed, Hudi's or one from here, is completed first.
Source: CleanPlanActionExecutor, CleanActionExecutor, CleanerUtils.

The temporary files that writers leave on a local disk or HDFS when they are killed are deleted
too. Hudi deletes what the markers of a write name and its commit does not; no marker names these
files. So are log files that a restore by Hudi left of a compaction that was planned.

Where Hudi also removes the folder of a partition that has no file groups left, it stays here: a
writer may be about to put files there.

The lock is held for planning only, as in Hudi. What a clean under way deletes can no longer be
savepointed from here; what Hudi savepoints before a clean left by a crash goes on is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain

from bucketfmt.errors import ConflictError, CorruptError
from bucketfmt.format.names.instants import State
from bucketfmt.format.names.layout import LEASE, METADATA_FOLDER
from bucketfmt.format.names.names import FileGroupId
from bucketfmt.format.names.paths import is_temporary_name, join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.plans import CleanerPlan, CompactionPlan
from bucketfmt.format.timeline.service_metadata import (
    SavepointMetadata,
)
from bucketfmt.location.directory_files import find_outdated_directories
from bucketfmt.progress import ProgressCallback, Steps
from bucketfmt.snapshot.data_files.file_slices import TimelineView
from bucketfmt.snapshot.data_files.files import DataFile
from bucketfmt.snapshot.newest import on_newest
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.store import FileInfo
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.timeline.load import (
    load_compaction_plan,
    load_instant_content,
    load_pending_clusterings,
    load_replaced_file_groups,
    load_requested_content,
    requested_name,
)
from bucketfmt.timeline.locking.heartbeat import Heartbeat
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.timeline.transitions import put_inflight
from bucketfmt.write.commit.transactions import Transactions
from bucketfmt.write.services.left_logs import load_left_logs
from bucketfmt.write.services.plan_clean import (
    CleanBasis,
    Retention,
    cleaned,
    earliest_retained,
    find_compacted_names,
    find_savepointed_names,
    is_idle,
    parse_clean_plan,
    plan_clean,
)
from bucketfmt.write.services.ring_cleaning import OutdatedRing, delete_rings, load_outdated_rings

__all__ = ["CleanResult", "Cleaner"]

_LEFT_AFTER_S = 3600.0  # a writer has a temporary file while it writes one file


@dataclass(frozen=True, slots=True)
class CleanResult:
    """What was deleted, or would be.

    Attributes:
        files: Paths relative to the table.
        bytes: Their sizes together, of those that were there.
        earliest_retained: The earliest instant that can still be read; None where nothing tells.
        instants: Requested times of the cleans completed; () for a dry run.
    """

    files: tuple[str, ...] = ()
    bytes: int = 0
    earliest_retained: str | None = None
    instants: tuple[str, ...] = ()


class Cleaner:
    """Cleans one table."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        transactions: Transactions,
        progress: ProgressCallback | None = None,
    ) -> None:
        """Set up.

        Args:
            snapshot: Returns the table as it is now.
            transactions: How the table is written to.
            progress: Told how many files are deleted.
        """
        self._progress = progress
        self._snapshot = snapshot
        self._owner = transactions

    def preview(self, retention: Retention, partitions: Sequence[str] | None = None) -> CleanResult:
        """Return what `run` would delete now. Writes nothing."""
        return on_newest(self._snapshot, partial(self._preview, retention, partitions))

    def _preview(
        self, retention: Retention, partitions: Sequence[str] | None, snapshot: Snapshot
    ) -> CleanResult:
        config, limits = snapshot.state.config, self._owner.limits
        plans = [plan for _, plan in self._pending(snapshot.state.timeline, config)]
        plan = self._plan(snapshot, retention, partitions)
        found: dict[str, None] = {}
        for own in (*plans, *([plan] if plan else [])):
            for partition_path, names in parse_clean_plan(own, limits).items():
                found.update((join_path(partition_path, name), None) for name in names)
        sizes = [self._owner.store.info(path) for path in found]
        there = [info for info in sizes if info is not None]
        earliest = earliest_retained(plan or (plans[-1] if plans else None))
        rings, _ = load_outdated_rings(snapshot.state)
        outdated: list[FileInfo | OutdatedRing] = [*there, *rings]
        outdated += find_outdated_directories(snapshot)
        outdated += self._find_left(
            snapshot.state, partitions, self._owner.heartbeats.seems_expired
        )
        files = tuple(each.path for each in outdated)
        size = sum(each.size for each in outdated)
        return CleanResult(files, size, earliest)

    def run(self, retention: Retention, partitions: Sequence[str] | None = None) -> CleanResult:
        """Complete the cleans that are pending, then plan one and execute it.

        A clean that a process of this package is executing, as its heartbeat tells, is left to that
        process.

        Args:
            retention: What to keep.
            partitions: Partition paths to plan for; None: all.

        Raises:
            UnsupportedError: the table is of a kind that is not written.
            CorruptError: a plan is damaged, or names what no clean would delete.
            LockTimeoutError: the table lock could not be acquired.
        """
        owner = self._owner
        results = self._complete_pending()
        plan_now = partial(self._plan, retention=retention, partitions=partitions)
        on_newest(self._snapshot, plan_now)  # lists the partitions while others may write
        with owner.recovered() as table:
            snapshot = self._snapshot()
            plan = plan_now(snapshot)
            rings, marked = load_outdated_rings(snapshot.state)
            table.check_held()
            delete_rings(table.store, rings, marked)
            directories = find_outdated_directories(snapshot)
            left = self._find_left(snapshot.state, partitions, owner.heartbeats.is_expired)
            table.check_held()
            for file in (*directories, *left):
                table.store.delete(file.path)
            if plan is not None:
                requested, heartbeat = table.request_alive("clean", plan)
        if plan is not None:
            results.append(self._execute(table.config, requested, plan, heartbeat))
        outdated: list[FileInfo | OutdatedRing] = [*rings, *directories, *left]
        return CleanResult(
            (
                *(path for result in results for path in result.files),
                *(each.path for each in outdated),
            ),
            sum(result.bytes for result in results) + sum(each.size for each in outdated),
            next((r.earliest_retained for r in reversed(results) if r.earliest_retained), None),
            tuple(instant for result in results for instant in result.instants),
        )

    # -- plan

    def _complete_pending(self) -> list[CleanResult]:
        """Execute what is pending and not being executed."""
        if not self._snapshot().state.timeline.pending.of("clean").instants:
            return []
        owner, taken = self._owner, []
        with ExitStack() as alive:
            with owner.recovered() as table:
                config = table.config
                pending = self._pending(table.timeline, config)
                plans = [parse_clean_plan(plan, owner.limits) for _, plan in pending]
                paths = sorted({path for plan in plans for path in plan})
                kept = _load_savepointed_names(self._snapshot().state, paths)
                for instant, plan in pending:
                    if owner.heartbeats.is_expired(instant.requested_time):
                        heartbeat = owner.heartbeats.start(instant.requested_time)
                        alive.callback(heartbeat.stop)
                        taken.append((instant, plan, heartbeat))
            return [self._execute(config, *each, kept) for each in taken]

    def _pending(
        self, timeline: Timeline, config: TableConfig
    ) -> list[tuple[Instant, CleanerPlan]]:
        store, limits = self._owner.store, self._owner.limits
        found = []
        for instant in timeline.pending.of("clean").instants:
            plan = load_requested_content(store, config, instant, limits)
            if plan is None and instant.state is State.REQUESTED:
                continue  # Hudi died as it made the file, and removes it
            if not isinstance(plan, CleanerPlan):
                path = join_path(config.timeline_path, requested_name(instant, config))
                raise CorruptError("a clean without a plan; roll it back with Hudi", path=path)
            found.append((instant, plan))
        return found

    def _plan(
        self, snapshot: Snapshot, retention: Retention, partitions: Sequence[str] | None = None
    ) -> CleanerPlan | None:
        """Return the plan for what is there now; None if there is nothing to delete."""
        state = snapshot.state
        state.config.check_writable()
        if is_idle(state.timeline, retention):
            return None
        return plan_clean(_load_basis(state, partitions), retention)

    def _find_left(
        self,
        state: TableState,
        partitions: Sequence[str] | None,
        is_expired: Callable[[str], bool],
    ) -> list[FileInfo]:
        """Return the temporary files that no writer will give their own name to.

        They are older than an hour, and no writer is at work, as heartbeats tell. They are among
        the data files, the instants, and beside the lease of the lock.
        """
        store = state.store
        if not store.writes_beside:
            return []
        folders = [*(state.lister.partitions if partitions is None else partitions)]
        folders += sorted({state.config.timeline_path, METADATA_FOLDER, LEASE.rpartition("/")[0]})
        names = map_in_threads(store.list_names, folders, waiting_count(store))
        paths = [
            join_path(folder, name)
            for folder, found in zip(folders, names, strict=True)
            for name in found
            if is_temporary_name(name)
        ]
        if not paths or any(
            not is_expired(instant.requested_time) for instant in state.timeline.pending.instants
        ):
            return []
        before = self._owner.machine.now() - _LEFT_AFTER_S
        infos = [info for info in map(store.info, paths) if info is not None]
        files = [info for info in infos if not info.is_dir]
        return [info for info in files if info.modified is not None and info.modified < before]

    # -- execute

    def _execute(
        self,
        config: TableConfig,
        instant: Instant,
        plan: CleanerPlan,
        heartbeat: Heartbeat,
        kept: Collection[str] = (),
    ) -> CleanResult:
        """Delete what a plan says but for the names `kept`, and complete the clean.

        The heartbeat ends with the clean, and with an error, after which any process may go on.
        """
        try:
            return self._delete_planned(config, instant, plan, kept)
        finally:
            heartbeat.stop()

    def _delete_planned(
        self,
        config: TableConfig,
        instant: Instant,
        plan: CleanerPlan,
        kept: Collection[str],
    ) -> CleanResult:
        owner, began = self._owner, self._owner.machine.monotonic()
        to_delete = {
            path: [name for name in names if name not in kept]
            for path, names in parse_clean_plan(plan, owner.limits).items()
        }
        if instant.state is State.REQUESTED:
            with suppress(ConflictError):  # another process is at it too: that does no harm
                put_inflight(owner.store, config, instant.requested_time, "clean", plan)
        deleted, size = [], 0
        steps = Steps(self._progress, "deleting", sum(map(len, to_delete.values())))
        for partition_path, names in to_delete.items():
            for name in names:
                path = join_path(partition_path, name)
                info = owner.store.info(path)
                owner.store.delete(path)
                deleted.append(path)
                size += info.size if info is not None else 0
                steps.step()
        seconds = owner.machine.monotonic() - began
        metadata = cleaned(instant.requested_time, plan, to_delete, seconds)
        with owner.locked() as table:
            if instant.requested_time not in {
                i.requested_time for i in table.timeline.completed.of("clean").instants
            }:
                table.publish(instant, metadata)
        return CleanResult(tuple(deleted), size, earliest_retained(plan), (instant.requested_time,))


def _load_basis(state: TableState, partitions: Sequence[str] | None) -> CleanBasis:
    """Return what a clean of these partitions, or of all, is planned from."""
    store, config, timeline, limits = state.store, state.config, state.timeline, state.limits
    replaced = load_replaced_file_groups(store, config, timeline, limits)
    clustering = load_pending_clusterings(store, config, timeline, limits)
    paths = state.lister.partitions if partitions is None else partitions
    state.lister.prepare(paths)
    needed = _load_savepointed_names(state, paths)
    needed |= find_compacted_names(_load_compactions(state))
    groups = {
        (path, file_id): files
        for path in paths
        for file_id, files in sorted(state.lister.files(path).items())
    }
    compacting = {group: i.requested_time for group, i in state.pending_compactions.items()}
    sliced = {
        group: files
        for group, files in groups.items()
        if group not in replaced and group not in clustering
    }
    return CleanBasis(
        root=store.uri,
        view=_load_view(state, sliced),
        groups=groups,
        replaced=replaced,
        clustering=clustering,
        compacting=compacting,
        needed=needed,
        left_logs=load_left_logs(state, chain.from_iterable(sliced.values())),
    )


def _load_view(state: TableState, groups: Mapping[FileGroupId, Sequence[DataFile]]) -> TimelineView:
    """Return the timeline, with its history if it needs that to tell when a file was completed."""
    timeline = state.timeline
    times = {file.name.instant for files in groups.values() for file in files}
    asked = [t for t in times if timeline.is_completed(t) and timeline.needs_history(t)]
    archived = state.archived_since(min(asked)) if asked else ()
    return TimelineView(timeline, state.config.table_version, archived)


def _load_savepointed_names(state: TableState, partitions: Sequence[str]) -> set[str]:
    """Return the names of files that savepoints need: in these partitions at least.

    A savepoint states the files that were there when it was made. What was requested before the
    savepointed write may complete later, a resize above all: the moment is read with its files
    then, and a restore of table version 6 leaves them in place.
    """
    savepoints, read = [], set()
    for instant in state.timeline.completed.of("savepoint").instants:
        content = load_instant_content(state.store, state.config, instant, state.limits)
        if not isinstance(content, SavepointMetadata):
            path = join_path(state.config.timeline_path, instant.file_name)
            raise CorruptError("a savepoint that tells no files; delete it", path=path)
        savepoints.append(content)
        slices = Snapshot(state, as_of=instant.requested_time).slices_of(partitions)
        read |= {str(file.name) for own in slices for file in own.files}
    return find_savepointed_names(savepoints) | read


def _load_compactions(state: TableState) -> list[CompactionPlan]:
    return [
        load_compaction_plan(state.store, state.config, instant, state.limits)
        for instant in state.timeline.pending.of("compaction", "logcompaction").instants
    ]
