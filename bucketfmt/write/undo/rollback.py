"""Rollback: a write that failed, or the newest that was completed, is taken back.

I/O, all of it under the table lock, which the caller holds. The plan goes on the timeline first,
then the instant is unpublished, its files are deleted, its pending instants removed, and the
rollback is completed: whoever comes after a crash finds the plan and does the same again. Source:
`BaseRollbackPlanActionExecutor`, `BaseRollbackActionExecutor`, `RollbackHelper`,
`RollbackHelperV1`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bucketfmt.errors import CommitUnknownError, ConflictError, StorageError
from bucketfmt.format.log.log_block import encode_rollback_block
from bucketfmt.format.names.instants import (
    InstantFile,
    State,
    comparable_action,
    find_instant_file,
    format_instant_file_name,
)
from bucketfmt.format.names.layout import UNKNOWN_WRITE_TOKEN
from bucketfmt.format.names.names import (
    IoType,
    LogFileName,
    MarkerName,
    find_data_file_name,
)
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.timeline.instant_content import InstantContent
from bucketfmt.format.timeline.plans import CompactionPlan, InstantInfo
from bucketfmt.format.timeline.service_metadata import RollbackMetadata, RollbackPartitionMetadata
from bucketfmt.location.directory_files import delete_directories
from bucketfmt.location.hashing_files import delete_ring, delete_ring_markers
from bucketfmt.location.rule_files import delete_rules
from bucketfmt.storage.store import Store
from bucketfmt.timeline.load import load_requested_content, load_timeline
from bucketfmt.timeline.markers import delete_markers, load_markers, put_marker
from bucketfmt.timeline.timeline import REPLACING_ACTIONS, Instant, Timeline
from bucketfmt.timeline.transitions import delete_instant_file
from bucketfmt.write.commit.locked_table import LatePlanError, LockedTable
from bucketfmt.write.undo.index_taken_back import take_back_index
from bucketfmt.write.undo.plan_rollback import PlannedRollback, RollbackResult
from bucketfmt.write.undo.rollback_planner import RollbackPlanner

__all__ = ["Rollbacks"]

_STATES_TO_REMOVE = (State.INFLIGHT, State.REQUESTED)
_NAMES_MAX = 100


@dataclass(frozen=True)
class _Cancelled:
    """A log file with the command block that takes back what was logged to a slice.

    Attributes:
        partition_path: Of the slice.
        name: Of the log file.
        size: Of the log file.
        logged: The log files that are taken back, with their sizes.
    """

    partition_path: str
    name: str
    size: int
    logged: Mapping[str, int]


class Rollbacks:
    """Takes instants of one table back. Made for as long as the table lock is held.

    Attributes:
        table: The table.
        planner: Reads what there is to take back.
    """

    def __init__(self, table: LockedTable) -> None:
        self.table = table
        self._store, self._config = table.store, table.config
        self.planner = RollbackPlanner(
            table.store, table.config, table.limits, table.heartbeats.is_expired
        )

    def roll_back(self, requested_time: str) -> RollbackResult:
        """Take one write back; if that was begun by someone before, finish it.

        Args:
            requested_time: The write's.

        Raises:
            ValueError: no write of that time is on the active timeline.
            ConflictError: others stand on it, or its writer is at work.
            CommitUnknownError: the store failed after the rollback was begun.
        """
        timeline = self.table.load_timeline()
        begun = self.planner.find_begun(timeline, requested_time)
        if begun is None:
            begun = self.begin(timeline, self.planner.find_allowed(timeline, requested_time))
        rollback, planned = begun
        try:
            self.finish(rollback, planned)
        except StorageError as error:
            raise CommitUnknownError(
                f"the rollback of {requested_time} was begun, and the store failed: {error}. The "
                f"next write finishes it, or rollback({requested_time!r})"
            ) from error
        return planned.result(rollback.requested_time)

    def take_back(self, timeline: Timeline, target: Instant) -> RollbackResult:
        """Take an instant back that may be taken back."""
        rollback, planned = self.begin(timeline, target)
        self.finish(rollback, planned)
        return planned.result(rollback.requested_time)

    def begin(
        self, timeline: Timeline, target: Instant, *, in_restore: bool = False
    ) -> tuple[Instant, PlannedRollback]:
        """Put a rollback on the timeline, where whoever comes after a crash finds it.

        The heartbeat of the target goes before the files are listed. Its writer may have stood
        still, and be no more dead than it looks: it puts the file that it was about to put, then
        finds no heartbeat and deletes the file. What it put before is found by the listing.
        """
        has_died = self.planner.has_died(target)
        if not target.is_completed:
            self.table.heartbeats.discard(target.requested_time)
        plan = self.planner.plan(timeline, target, has_died=has_died, in_restore=in_restore)
        rollback = self.table.request("rollback", plan)
        return rollback, self.planner.parse(timeline, rollback, plan)

    def finish(self, rollback: Instant, planned: PlannedRollback) -> None:
        """Do what a plan says, or the rest of it, and complete the rollback.

        Raises:
            ConflictError: the lock was lost, or its target is savepointed.
        """
        metadata = self.execute(rollback, planned)
        self._remove_late(planned.target)
        self.table.load_timeline()
        self.table.publish(rollback, metadata)
        self._remove_late(planned.target)
        delete_markers(self._store, rollback.requested_time)

    def execute(self, rollback: Instant, planned: PlannedRollback) -> RollbackMetadata:
        """Do what a plan says, or the rest of it; the rollback is left inflight."""
        began = self.table.machine.monotonic()
        target = planned.target
        files = self._instant_files(target.commit_time)
        if any((f.action, f.state) == ("savepoint", State.COMPLETED) for f in files):
            raise ConflictError(f"{target.commit_time} is savepointed; delete the savepoint first")
        if rollback.state is State.REQUESTED:
            self.table.begin(rollback.requested_time, "rollback")
        own = [f for f in files if _is_same(f.action, target.action)]
        if any(file.state is State.COMPLETED for file in own):
            self.table.prepare_removal(target.commit_time, is_completed=True)
        # Hudi leaves a ring marked as committed behind, whose file groups are gone.
        ringed = self._find_ringed(planned)
        self.table.check_held()
        for path in ringed:
            delete_ring_markers(self._store, path, target.commit_time)
        for file in own:
            if file.state is State.COMPLETED:
                delete_instant_file(self._store, self._config, file.name)
        if target.action in REPLACING_ACTIONS:
            delete_rules(self._store, target.commit_time)
            delete_directories(self._store, target.commit_time)
            take_back_index(self.table, target.commit_time)
        for path in ringed:
            delete_ring(self._store, path, target.commit_time)
        self.table.check_held()
        for path, name in planned.files:
            self._store.delete(join_path(path, name))
        cancelled = self._cancel_blocks(rollback.requested_time, planned, is_done=not own)
        self.table.prepare_removal(target.commit_time)
        for state in _STATES_TO_REMOVE:
            for file in own:
                if file.state is state:
                    delete_instant_file(self._store, self._config, file.name)
        delete_markers(self._store, target.commit_time)
        self.table.heartbeats.discard(target.commit_time)
        took_ms = int((self.table.machine.monotonic() - began) * 1000)
        return self._metadata(rollback.requested_time, planned, cancelled, took_ms)

    def remove_late(self, late: Instant) -> None:
        """Take a completed commit off the timeline that a rollback has taken back before.

        What the metadata table had of it went with the rollback.

        Raises:
            ConflictError: the lock was lost.
            StorageError: the store failed.
        """
        self.table.check_held()
        delete_instant_file(self._store, self._config, late.file_name)
        self.table.load_timeline()

    def withdraw_late(self, late: LatePlanError) -> None:
        """Take a plan off the timeline that appeared once its planner had lost the lock.

        Where somebody has begun to execute it, or in table version 6 has named log files after a
        planned compaction, the plan was there in time, and stays. A clustering is rolled back:
        writers may have written rows to its new file groups too.

        Args:
            late: As it was raised; it tells of this table, or of its metadata table.

        Raises:
            ConflictError: the lock was lost again.
            StorageError: the store failed.
        """
        store, config, limits = late.table.store, late.table.config, self.table.limits
        timeline, time = load_timeline(store, config, limits), late.instant.requested_time
        for instant in timeline.pending.of(late.instant.action).instants:
            if instant.requested_time != time or instant.state is not State.REQUESTED:
                continue
            if instant.action == "clustering":
                self.take_back(timeline, instant)
            elif not _names_logs(
                store, load_requested_content(store, config, instant, limits), time
            ):
                self.table.check_held()
                delete_instant_file(store, config, instant.file_name)

    def withdraw_namesake(self, requested: Instant) -> None:
        """Take a failed write off the timeline that never began, and has the time of another.

        Its writer had lost the lock before its file was there (`LockedTable.request`), and died. A
        rollback would go by the time, and take the other instant back.

        Raises:
            ConflictError: the lock was lost.
            StorageError: the store failed.
        """
        self.table.check_held()
        delete_instant_file(self._store, self._config, requested.file_name)

    def withdraw(self, rollback: Instant) -> None:
        """Remove a rollback that was requested and has done nothing yet, or is done with."""
        for state in _STATES_TO_REMOVE:
            name = format_instant_file_name(
                rollback.requested_time, "rollback", state, None, self._config.timeline_layout
            )
            delete_instant_file(self._store, self._config, name)
        delete_markers(self._store, rollback.requested_time)

    def _instant_files(self, requested_time: str) -> list[InstantFile]:
        names = (entry.name for entry in self._store.list(self._config.timeline_path))
        found = (find_instant_file(name, self._config.timeline_layout) for name in names)
        return [f for f in found if f is not None and f.requested_time == requested_time]

    def _remove_late(self, target: InstantInfo) -> None:
        """Remove the completed file of the target that has appeared while its files were removed.

        Its writer stood still, and had lost the lock. What appears from now on is a late commit to
        whoever writes next.
        """
        for file in self._instant_files(target.commit_time):
            if _is_same(file.action, target.action) and file.state is State.COMPLETED:
                self.table.check_held()
                delete_instant_file(self._store, self._config, file.name)

    def _find_ringed(self, planned: PlannedRollback) -> list[str]:
        """Return the partitions to which the target may have given a ring."""
        if planned.target.action not in REPLACING_ACTIONS:
            return []
        resized = self.planner.find_resized_partitions(planned.target.commit_time)
        return sorted(resized.union(path for path, _ in planned.files))

    def _cancel_blocks(
        self, rollback_instant: str, planned: PlannedRollback, *, is_done: bool
    ) -> list[_Cancelled]:
        """Add a command block to each slice that the target logged to.

        Once the target has left the timeline, all were added: what is not there any more went with
        its slice, as a restore takes back what had begun the slice.
        """
        block = encode_rollback_block(rollback_instant, planned.target.commit_time)
        announced = load_markers(self._store, rollback_instant, self.table.limits)
        done = []
        for path, any_name, logged in planned.slices:
            name = _find_announced(announced, path, any_name)
            known = None if name is None else self._store.info(join_path(path, str(name)))
            if name is not None and known is not None:  # by whoever began this rollback
                done.append(_Cancelled(path, str(name), known.size, logged))
            elif not is_done:
                name = self._put_command_block(rollback_instant, path, any_name, block)
                done.append(_Cancelled(path, str(name), len(block), logged))
        return done

    def _put_command_block(
        self, rollback_instant: str, path: str, any_name: LogFileName, block: bytes
    ) -> LogFileName:
        group = any_name.file_id, any_name.instant
        versions = [0]
        for entry in self._store.list(path):
            found = find_data_file_name(entry.name)
            if isinstance(found, LogFileName) and (found.file_id, found.instant) == group:
                versions.append(found.version)
        first = max(versions) + 1
        for version in range(first, first + _NAMES_MAX):
            name = LogFileName(*group, version, UNKNOWN_WRITE_TOKEN)
            put_marker(self._store, rollback_instant, MarkerName(path, str(name), IoType.APPEND))
            if self._store.put_if_absent(join_path(path, str(name)), block):
                return name
        raise ConflictError(f"other writers keep adding log files to {group[0]}", partition=path)

    def _metadata(
        self,
        rollback_instant: str,
        planned: PlannedRollback,
        cancelled: Sequence[_Cancelled],
        took_ms: int,
    ) -> RollbackMetadata:
        root = self._store.uri
        paths = {path for path, _ in planned.files} | {each.partition_path for each in cancelled}
        partitions = {
            path: RollbackPartitionMetadata(
                partition_path=path,
                success_delete_files=[
                    f"{root}/{join_path(path, name)}" for p, name in planned.files if p == path
                ],
                failed_delete_files=[],
                rollback_log_files={
                    f"{root}/{join_path(path, each.name)}": each.size
                    for each in cancelled
                    if each.partition_path == path
                },
                log_files_from_failed_commit={
                    name: size
                    for each in cancelled
                    for name, size in each.logged.items()
                    if each.partition_path == path
                },
            )
            for path in sorted(paths)
        }
        return RollbackMetadata(
            start_rollback_time=rollback_instant,
            time_taken_in_millis=took_ms,
            total_files_deleted=len(planned.files),
            commits_rollback=[planned.target.commit_time],
            partition_metadata=partitions,
            instants_rollback=[planned.target],
        )


def _names_logs(store: Store, plan: InstantContent | None, time: str) -> bool:
    """Whether log files of the slices of a planned compaction are named after the compaction."""
    operations = plan.operations if isinstance(plan, CompactionPlan) else []
    paths = {operation.partition_path or "" for operation in operations}
    names = (find_data_file_name(entry.name) for path in paths for entry in store.list(path))
    return any(isinstance(name, LogFileName) and name.instant == time for name in names)


def _is_same(action: str, other: str) -> bool:
    """Whether files of these actions, at one requested time, are one instant's."""
    return comparable_action(action, 2) == comparable_action(other, 2)


def _find_announced(
    announced: Iterable[MarkerName], path: str, any_name: LogFileName
) -> LogFileName | None:
    for marker in announced:
        found = find_data_file_name(marker.data_file_name)
        if marker.partition_path != path or not isinstance(found, LogFileName):
            continue
        if (found.file_id, found.instant) == (any_name.file_id, any_name.instant):
            return found
    return None
