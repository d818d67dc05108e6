"""Restoring a table to a savepoint: everything that came after the savepoint is taken back.

I/O, under the table lock but for previews. The newest write is taken back first. Source:
`RestorePlanActionExecutor`, `BaseRestoreActionExecutor`.
"""

from __future__ import annotations

from dataclasses import dataclass

from bucketfmt.errors import ConflictError, CorruptError
from bucketfmt.format.names.instants import State
from bucketfmt.format.timeline.plans import InstantInfo, RestorePlan
from bucketfmt.format.timeline.service_metadata import (
    RestoreMetadata,
    RollbackMetadata,
    SavepointMetadata,
)
from bucketfmt.snapshot.listing import StoreLister
from bucketfmt.timeline.history import load_history
from bucketfmt.timeline.load import (
    load_instant_content,
    load_requested_content,
    requested_name,
)
from bucketfmt.timeline.markers import delete_markers
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.undo.plan_restore import RestoreBasis, find_restorable, plan_restore
from bucketfmt.write.undo.plan_rollback import RollbackResult
from bucketfmt.write.undo.rollback import Rollbacks
from bucketfmt.write.undo.rollback_planner import RollbackPlanner

__all__ = ["RestoreResult", "preview_restore", "restore"]


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """A table that was restored, or would be.

    Attributes:
        savepoint: The instant it is restored to.
        restore_instant: The restore's requested time; None where it was only planned.
        rollbacks: What was taken back, newest first.
    """

    savepoint: str
    restore_instant: str | None
    rollbacks: tuple[RollbackResult, ...]


def restore(rollbacks: Rollbacks, savepoint: str) -> RestoreResult:
    """Take back everything after a savepoint; if that was begun by someone before, finish it.

    Args:
        rollbacks: Of the table.
        savepoint: Its instant.

    Raises:
        ValueError: there is no such savepoint.
        ConflictError: there is a later savepoint; a writer is at work; another restore is pending;
            what came after was archived.
        CorruptError: files of the savepoint are gone.
    """
    table = rollbacks.table
    begun, plan = _find_plan(rollbacks.planner, table.load_timeline(), savepoint)
    if begun is None:
        begun = table.request("restore", plan)
    return _finish(rollbacks, begun, plan, savepoint)


def preview_restore(planner: RollbackPlanner, savepoint: str) -> RestoreResult:
    """Return what `restore` would do. Writes nothing; errors as of it."""
    timeline = planner.load_timeline()
    _, plan = _find_plan(planner, timeline, savepoint)
    results = []
    for target in plan.instants_to_rollback:
        for instant in timeline.writes.instants:
            if (instant.requested_time, instant.action) == (target.commit_time, target.action):
                has_died = planner.has_died(instant)
                own = planner.plan(timeline, instant, has_died=has_died, in_restore=True)
                parsed = planner.parse(timeline, instant, own)
                results.append(parsed.result(None))
    return RestoreResult(savepoint, None, tuple(results))


def _find_plan(
    planner: RollbackPlanner, timeline: Timeline, savepoint: str
) -> tuple[Instant | None, RestorePlan]:
    """Return the plan of a restore, and the restore if it was begun."""
    begun = _load_begun(planner, timeline)
    if begun is None:
        return None, plan_restore(_load_basis(planner, timeline, savepoint))
    instant, plan = begun
    if plan.savepoint_to_restore_timestamp != savepoint:
        raise ConflictError(
            f"a restore to {plan.savepoint_to_restore_timestamp} was begun; finish that first"
        )
    return instant, plan


def _finish(
    rollbacks: Rollbacks, instant: Instant, plan: RestorePlan, savepoint: str
) -> RestoreResult:
    table = rollbacks.table
    began = table.machine.monotonic()
    if instant.state is State.REQUESTED:
        table.begin(instant.requested_time, "restore")
    done: dict[str, list[RollbackMetadata]] = {}
    results: list[RollbackResult] = []
    requested: list[Instant] = []
    for target in plan.instants_to_rollback:
        rolled_back = _take_back(rollbacks, target)
        if rolled_back is not None:
            rollback, metadata, result = rolled_back
            done[target.commit_time] = [metadata]
            results.append(result)
            requested.append(rollback)
    metadata_of_all = RestoreMetadata(
        start_restore_time=instant.requested_time,
        time_taken_in_millis=int((table.machine.monotonic() - began) * 1000),
        instants_to_rollback=[target.commit_time for target in plan.instants_to_rollback],
        hoodie_restore_metadata=done,
        restore_instant_info=plan.instants_to_rollback,
    )
    table.load_timeline()
    table.publish(instant, metadata_of_all)
    # They were there for a crash; the restore tells what they did. After a crash right here the
    # next write finds nothing left to do for them, and completes them.
    for rollback in requested:
        rollbacks.withdraw(rollback)
    delete_markers(table.store, instant.requested_time)
    return RestoreResult(savepoint, instant.requested_time, tuple(results))


def _take_back(
    rollbacks: Rollbacks, target: InstantInfo
) -> tuple[Instant, RollbackMetadata, RollbackResult] | None:
    """Take one instant back, its rollback left inflight; None if someone else has, completely."""
    planner, table = rollbacks.planner, rollbacks.table
    timeline = table.load_timeline()
    begun = planner.find_begun(timeline, target.commit_time)
    if begun is not None:
        rollback, planned = begun
    else:
        found = [
            i
            for i in timeline.writes.instants
            if (i.requested_time, i.action) == (target.commit_time, target.action)
        ]
        if not found:
            return None
        rollback, planned = rollbacks.begin(timeline, found[0], in_restore=True)
    metadata = rollbacks.execute(rollback, planned)
    return rollback, metadata, planned.result(rollback.requested_time)


def _load_basis(planner: RollbackPlanner, timeline: Timeline, savepoint: str) -> RestoreBasis:
    store, config, limits = planner.store, planner.config, planner.limits
    target = find_restorable(timeline, savepoint)
    planner.check_writers_dead(timeline)
    history = load_history(store, config, limits, since=savepoint)
    files = load_instant_content(store, config, target, limits)
    if not isinstance(files, SavepointMetadata):
        raise CorruptError(
            "a savepoint without its files; restore to another", path=target.file_name
        )
    lister = StoreLister(store)
    return RestoreBasis(
        config=config,
        timeline=timeline,
        clusterings=planner.load_clusterings(timeline),
        history=history,
        savepoint=target,
        files=files,
        listed={
            path: {
                file.path.rpartition("/")[2] for own in lister.files(path).values() for file in own
            }
            for path in files.partition_metadata
        },
    )


def _load_begun(planner: RollbackPlanner, timeline: Timeline) -> tuple[Instant, RestorePlan] | None:
    for instant in timeline.pending.of("restore").instants:
        plan = load_requested_content(planner.store, planner.config, instant, planner.limits)
        if not isinstance(plan, RestorePlan):
            name = requested_name(instant, planner.config)
            raise CorruptError("a restore without a plan; restore the table with Hudi", path=name)
        return instant, plan
    return None
