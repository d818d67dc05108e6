"""What is to be taken back, and what stands in the way: read from the timeline and the store.

Does I/O, read only; the decisions are in `plan_rollback`. Source: `BaseRollbackPlanActionExecutor`,
`BaseHoodieTableServiceClient.getPendingRollbackInfos`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

import msgspec

from bucketfmt.errors import (
    ConflictError,
    CorruptError,
)
from bucketfmt.format.buckets.index_settings import has_virtual_logs
from bucketfmt.format.names.instants import State
from bucketfmt.format.names.layout import heartbeat_path
from bucketfmt.format.names.names import MarkerName, find_data_file_name
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.instant_content import InstantContent
from bucketfmt.format.timeline.plans import CompactionPlan, RollbackPlan
from bucketfmt.limits import Limits
from bucketfmt.snapshot.data_files.committed_logs import without_never_committed
from bucketfmt.snapshot.listing import StoreLister, visit_partitions
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.store import FileInfo, Store
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.timeline.history import load_history
from bucketfmt.timeline.load import (
    load_clustering_plan,
    load_commit_metadata,
    load_pending_clusterings,
    load_pending_compactions,
    load_requested_content,
    load_resized_partitions,
    load_timeline,
    requested_name,
)
from bucketfmt.timeline.markers import load_markers
from bucketfmt.timeline.timeline import REPLACING_ACTIONS, Instant, Timeline
from bucketfmt.write.services.pending_cleans import load_doomed
from bucketfmt.write.undo.lone_rows import check_no_lone_rows
from bucketfmt.write.undo.plan_rollback import (
    Listing,
    PlannedRollback,
    RollbackResult,
    parse_rollback_plan,
    plan_rollback,
)
from bucketfmt.write.undo.plan_savepoint import find_completed_write
from bucketfmt.write.undo.rollback_conflicts import (
    check_basis_kept,
    check_newest,
    check_no_restore,
    check_not_built_on,
    check_not_last,
    find_target,
)
from bucketfmt.write.undo.untold_logs import load_untold_logs

__all__ = ["RollbackPlanner"]

_EXECUTED_AGAIN = ("compaction", "logcompaction", "clustering")


class RollbackPlanner:
    """Plans rollbacks of one table, and finds those that were begun.

    Attributes:
        store: The table's files.
        config: The table's properties.
        limits: Bounds on what is read.
    """

    def __init__(
        self,
        store: Store,
        config: TableConfig,
        limits: Limits,
        is_expired: Callable[[str], bool],
    ) -> None:
        """Set up; see the attributes. `is_expired` is that of `Heartbeats`, or `seems_expired`."""
        self.store = store
        self.config = config
        self.limits = limits
        self._is_expired = is_expired

    def load_timeline(self) -> Timeline:
        """Return the timeline as it stands."""
        return load_timeline(self.store, self.config, self.limits)

    def state(self, timeline: Timeline) -> TableState:
        """Return the table as a timeline has it, listed by folders."""
        return TableState(self.store, self.config, timeline, self.limits, StoreLister(self.store))

    # -- what was begun

    def load_begun(self, timeline: Timeline) -> list[tuple[Instant, RollbackPlan]]:
        """Return the rollbacks that were begun and not completed, newest first, with their plans.

        One is left out that was requested without a plan: Hudi died as it made the file. It has
        taken nothing back, and whoever rolls the same write back makes another.

        Raises:
            CorruptError: a plan does not decode.
        """
        begun = reversed(timeline.pending.of("rollback").instants)
        plans = ((instant, self._load_plan(instant)) for instant in begun)
        return [(instant, plan) for instant, plan in plans if plan is not None]

    def _load_plan(self, rollback: Instant) -> RollbackPlan | None:
        plan = self._load_requested(rollback)
        if plan is None and rollback.state is State.REQUESTED:
            return None
        if not isinstance(plan, RollbackPlan) or plan.instant_to_rollback is None:
            raise CorruptError(
                f"the rollback {rollback.requested_time} has no plan; if its file is empty, remove "
                "it",
                path=join_path(self.config.timeline_path, rollback.file_name),
            )
        return plan

    def find_begun(
        self, timeline: Timeline, target_time: str
    ) -> tuple[Instant, PlannedRollback] | None:
        """Return the rollback of one write that was begun and not completed; None if none was.

        Raises:
            CorruptError: the plan of a rollback is damaged.
        """
        for rollback, plan in self.load_begun(timeline):
            planned = self.parse(timeline, rollback, plan)
            if planned.target.commit_time == target_time:
                return rollback, planned
        return None

    def find_next_target(self, timeline: Timeline) -> str:
        """Return the requested time of the write that is taken back where the caller names none.

        That of a rollback that was begun and not completed, so that one that failed and is tried
        again takes nothing more back; without such a rollback, the newest completed write.

        Raises:
            ValueError: the table has no completed write.
            ConflictError: a restore was begun, and has to be finished first.
            CorruptError: the plan of a rollback is damaged.
        """
        begun = self.load_begun(timeline)
        if not begun:
            return find_completed_write(self.config, timeline, None)
        check_no_restore(timeline)
        return self.parse(timeline, *begun[0]).target.commit_time

    def parse(self, timeline: Timeline, rollback: Instant, plan: RollbackPlan) -> PlannedRollback:
        """Return a plan in paths relative to the table. Does no I/O.

        Raises:
            CorruptError: it wants files gone that are not the target's.
        """
        resizes = _resizes(timeline) if self.config.table_version >= 8 else ()
        try:
            return parse_rollback_plan(plan, self.config, self.limits, resizes)
        except CorruptError as error:
            raise error.within(
                path=join_path(self.config.timeline_path, rollback.file_name)
            ) from None

    def came_late(self, rollback: Instant, target: Instant) -> bool:
        """Whether a completed target was pending when its rollback was planned.

        Its writer stood still, and files of it may be gone. False where the store does not tell.
        """
        names = requested_name(rollback, self.config), target.file_name
        planned, completed = (
            self.store.info(join_path(self.config.timeline_path, name)) for name in names
        )
        if planned is None or completed is None:
            return False
        if planned.modified is None or completed.modified is None:
            return False
        return planned.modified < completed.modified

    # -- what may be taken back

    def check_allowed(self, timeline: Timeline, target: Instant) -> None:
        """Refuse what would take rows from under others.

        Raises:
            ConflictError: a restore is pending; a writer is at work; others stand on the write;
                rows of others are in the new file groups of a resize alone.
        """
        check_no_restore(timeline)
        if has_virtual_logs(self.config.properties) and self.is_resize(target):
            check_no_lone_rows(self.state(timeline).commits, target.requested_time)
        if not target.is_completed:
            self._check_dead(target)
            if target.action == "compaction" and self.config.table_version < 8:
                raise ConflictError(
                    f"compaction {target.requested_time} is planned, and log files may be named "
                    "after it: compact the table, which executes it"
                )
            return
        self.check_writers_dead(timeline)
        check_not_last(timeline, load_history(self.store, self.config, self.limits), target)
        metadata = load_commit_metadata(self.store, self.config, target, self.limits)
        planned = {
            **load_pending_compactions(self.store, self.config, timeline, self.limits),
            **load_pending_clusterings(self.store, self.config, timeline, self.limits),
        }
        check_newest(self.config, timeline, target, metadata, planned)
        check_basis_kept(
            target,
            metadata,
            self._load_compaction(timeline, target),
            self._list(target, metadata, (), ()),
            load_doomed(self.store, self.config, timeline, self.limits),
        )

    def check_writers_dead(self, timeline: Timeline) -> None:
        """Refuse to change what writers at work stand on.

        Raises:
            ConflictError: one is at work.
        """
        for instant in timeline.commits.pending.instants:
            if not self.is_clustering(instant):
                self._check_dead(instant)

    def is_clustering(self, instant: Instant) -> bool:
        """Return whether a pending instant rewrites file groups, and is executed again as such."""
        if instant.action != "replacecommit":
            return instant.action == "clustering"
        return load_clustering_plan(self.store, self.config, instant, self.limits) is not None

    def load_clusterings(self, timeline: Timeline) -> set[str]:
        """Return the requested times of the pending clusterings."""
        pending = timeline.writes.pending.instants
        return {i.requested_time for i in pending if self.is_clustering(i)}

    def is_resize(self, instant: Instant) -> bool:
        """Return whether an instant, completed or not, changes rings by its plan."""
        is_clustering = instant.action in REPLACING_ACTIONS
        return is_clustering and bool(self.find_resized_partitions(instant.requested_time))

    def is_dead(self, instant: Instant) -> bool:
        """Return whether the writer of a pending instant has to be taken for dead."""
        return self._is_expired(instant.requested_time)

    def _check_dead(self, instant: Instant) -> None:
        if not self.is_dead(instant):
            raise ConflictError(
                f"the writer of {instant.action} {instant.requested_time} is at work, or died a "
                "short while ago; try again when it is done"
            )

    # -- planning

    def preview(self, requested_time: str) -> RollbackResult:
        """Return what `Rollbacks.roll_back` would do now. Writes nothing; errors as of it."""
        timeline = self.load_timeline()
        begun = self.find_begun(timeline, requested_time)
        if begun is not None:
            return begun[1].result(None)
        target = self.find_allowed(timeline, requested_time)
        plan = self.plan(timeline, target, has_died=self.has_died(target))
        resizes = _resizes(timeline)
        return parse_rollback_plan(plan, self.config, self.limits, resizes).result(None)

    def find_allowed(self, timeline: Timeline, requested_time: str) -> Instant:
        """Return one write, if to take it back takes no rows from under others.

        Raises:
            ValueError: no write of that time is on the active timeline.
            ConflictError: see `check_allowed`.
        """
        target = find_target(timeline, requested_time)
        self.check_allowed(timeline, target)
        return target

    def has_died(self, target: Instant) -> bool:
        """Return whether the heartbeat of a pending instant is there: its writer died at work.

        The writer of a completed one has removed it. Hudi's have none where they clean up eagerly.
        """
        if target.is_completed:
            return False
        return self.store.info(heartbeat_path(target.requested_time)) is not None

    def plan(
        self, timeline: Timeline, target: Instant, *, has_died: bool, in_restore: bool = False
    ) -> RollbackPlan:
        """Return what to do to take an instant back. See `plan_rollback`.

        Args:
            timeline: As it stands.
            target: The instant.
            has_died: As the function of this name told, while the heartbeat was there.
            in_restore: As `plan_rollback` has it.

        Raises:
            NotFoundError: another writer took it back meanwhile.
            ConflictError: it was completed once, and others have built on its files since.
            CorruptError: a marker, or a log file that may be the target's, is damaged.
        """
        metadata = CommitMetadata()
        if target.is_completed:
            metadata = load_commit_metadata(self.store, self.config, target, self.limits)
        markers: Collection[MarkerName] = load_markers(
            self.store, target.requested_time, self.limits
        )
        resized = self.find_resized_partitions(target.requested_time)
        # Writers log to the file groups of a resize that nobody has begun to execute.
        is_begun = target.state is not State.REQUESTED or bool(markers) or bool(resized)
        is_listed = is_begun or self._is_logged_to(target)
        listed = self._list(target, metadata, markers, resized) if is_listed else {}
        if not markers and not has_died:
            markers = self._load_untold(timeline, target, listed, in_restore=in_restore)
        return plan_rollback(
            self.store.uri,
            self.config,
            target,
            metadata,
            markers,
            listed,
            _resizes(timeline),
            in_restore=in_restore,
        )

    def _list(
        self,
        target: Instant,
        metadata: CommitMetadata,
        markers: Iterable[MarkerName],
        resized: Iterable[str],
    ) -> Listing:
        """List the partitions an instant may have written to; all where nothing tells them.

        The file of a completed write tells none where it is empty: it was cut, or its writer died.
        """
        paths = {
            *metadata.partition_to_write_stats,
            *metadata.partition_to_replace_file_ids,
            *(marker.partition_path for marker in markers),
            *resized,
        }
        if not paths or (not target.is_completed and self._is_logged_to(target)):
            found: dict[str, Sequence[FileInfo]] = {}
            visit_partitions(self.store, found.__setitem__)
        else:
            folders = map_in_threads(self.store.list, sorted(paths), waiting_count(self.store))
            found = dict(zip(sorted(paths), folders, strict=True))
        return {
            path: {
                entry.name: entry.size
                for entry in found[path]
                if not entry.is_dir and find_data_file_name(entry.name) is not None
            }
            for path in sorted(found)
        }

    def _load_untold(
        self, timeline: Timeline, target: Instant, listed: Listing, *, in_restore: bool
    ) -> list[MarkerName]:
        """Return what a write logged of which neither markers nor its instant's file tell.

        It was completed, and its file was emptied or moved away. In a restore, those that have
        built on it are taken back too.
        """
        if target.is_completed:
            found = self.store.info(join_path(self.config.timeline_path, target.file_name))
            if found is None or found.size:
                return []
        elif target.state is not State.INFLIGHT or target.action in _EXECUTED_AGAIN:
            return []
        others = () if in_restore else timeline.writes.completed.instants
        completed = {other.requested_time for other in others}
        logs: list[MarkerName] = []
        if target.action == "deltacommit" and self.config.table_version < 8:
            logs = load_untold_logs(
                self.store, listed, target.requested_time, completed, self.limits
            )
        if not in_restore:
            check_not_built_on(target, logs, listed, completed)
        return logs

    def _is_logged_to(self, target: Instant) -> bool:
        """Whether writers log to the file slices of an instant that nobody has begun to execute."""
        return target.action == "compaction" and self.config.table_version < 8

    def find_resized_partitions(self, requested_time: str) -> frozenset[str]:
        """Return the partitions whose rings an instant changes. As `load_resized_partitions`."""
        return load_resized_partitions(self.store, self.config, requested_time, self.limits)

    def _load_compaction(self, timeline: Timeline, target: Instant) -> CompactionPlan | None:
        """Return what a completed compaction did of its plan; None for any other write."""
        if target.action != "commit" or self.config.table_type != "MERGE_ON_READ":
            return None
        plan = self._load_requested(replace(target, action="compaction"))
        if not isinstance(plan, CompactionPlan):
            return None
        left = without_never_committed(Snapshot(self.state(timeline)), plan.operations)
        return msgspec.structs.replace(plan, operations=left)

    def _load_requested(self, instant: Instant) -> InstantContent | None:
        """Return what the requested file of an instant holds; None if it is empty or not there."""
        name = requested_name(instant, self.config)
        if self.store.info(join_path(self.config.timeline_path, name)) is None:
            return None
        return load_requested_content(self.store, self.config, instant, self.limits)


def _resizes(timeline: Timeline) -> frozenset[str]:
    """Return the requested times of the clusterings that writes may have copied rows for."""
    found = timeline.of(*REPLACING_ACTIONS).instants
    return frozenset(instant.requested_time for instant in found)
