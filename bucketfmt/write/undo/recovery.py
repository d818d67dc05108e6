"""Recovery: what dead writers left is removed before the next write begins.

I/O, under the table lock, which the caller holds. Source: `BaseHoodieTableServiceClient.
rollbackFailedWrites`, with Hudi's LAZY policy, as its writers have it where there are several:
a write without a recent heartbeat is rolled back. Compactions and clusterings are left, since
they are executed again from their plans. Readers see none of it: what is pending is invisible.
"""

from __future__ import annotations

from bucketfmt.errors import ConflictError, NotFoundError
from bucketfmt.timeline.timeline import COMMIT_ACTIONS, Instant, Timeline
from bucketfmt.write.undo.plan_rollback import PlannedRollback
from bucketfmt.write.undo.rollback import Rollbacks
from bucketfmt.write.undo.rollback_conflicts import check_no_restore

__all__ = ["recover", "remove_late_commits"]


def recover(rollbacks: Rollbacks) -> None:
    """Finish the rollbacks that were begun, and roll back the failed writes.

    Raises:
        ConflictError: a restore was begun, and has to be finished first.
        CorruptError: what is left of a failed write does not decode.
    """
    planner, table = rollbacks.planner, rollbacks.table
    timeline = table.timeline
    if not timeline.pending.instants:
        return
    check_no_restore(timeline)
    for rollback, plan in planner.load_begun(timeline):
        _finish_begun(rollbacks, timeline, rollback, planner.parse(timeline, rollback, plan))
        timeline = table.load_timeline()
    for instant in reversed(timeline.pending.of(*COMMIT_ACTIONS).instants):
        if planner.is_dead(instant) and not planner.is_clustering(instant):
            _take_back_dead(rollbacks, instant)


def remove_late_commits(rollbacks: Rollbacks) -> None:
    """Remove commits that appeared once they had been rolled back, and whose writer died then.

    Before anything is read that they name.

    Raises:
        ConflictError: the lock was lost.
        CorruptError: a completed rollback does not decode.
    """
    table = rollbacks.table
    timeline = table.timeline
    completed = timeline.writes.completed.instants
    for late in table.late_commits.find(table.config, timeline, completed):
        rollbacks.remove_late(late)


def _take_back_dead(rollbacks: Rollbacks, instant: Instant) -> None:
    """Roll a failed write back, unless its writer does.

    A writer that gives up does not hold the lock. It removes its files and its inflight file, then
    its heartbeat, its markers, and last its requested file.
    """
    table = rollbacks.table
    timeline = table.load_timeline()
    try:
        if timeline.is_pending(instant.requested_time):
            rollbacks.take_back(timeline, instant)
        elif instant in timeline.instants:  # it is another instant of its time that completed
            rollbacks.withdraw_namesake(instant)
    except NotFoundError:
        if table.load_timeline().is_pending(instant.requested_time):
            raise
    table.load_timeline()


def _finish_begun(
    rollbacks: Rollbacks, timeline: Timeline, rollback: Instant, planned: PlannedRollback
) -> None:
    """Finish a rollback, if that is still what is wanted."""
    planner = rollbacks.planner
    time = planned.target.commit_time
    target = next((i for i in timeline.writes.instants if i.requested_time == time), None)
    if target is not None and target.is_completed and not planner.came_late(rollback, target):
        # Nothing has been taken back yet, and others may have built on it meanwhile.
        try:
            planner.check_allowed(timeline, target)
        except ConflictError:
            rollbacks.withdraw(rollback)
            return
    elif (
        target is not None
        and not target.is_completed
        and (
            target.action in ("compaction", "logcompaction")
            # Of a resize nothing is lost without its plan: what is logged to the new file groups is
            # in the old ones too.
            or (planner.is_clustering(target) and not planner.find_resized_partitions(time))
        )
    ):
        return  # part of executing it again
    rollbacks.finish(rollback, planned)
