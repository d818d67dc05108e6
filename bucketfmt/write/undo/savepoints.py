"""Savepoints, and restoring a table to one.

I/O, under the table lock but for previews. A savepoint keeps the files a table consists
of from being cleaned; a restore takes back everything that came after it, newest first. Source:
`SavepointActionExecutor`, `SavepointHelpers`, `RestorePlanActionExecutor`,
`BaseRestoreActionExecutor`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from bucketfmt.errors import ConflictError, CorruptError
from bucketfmt.format.names.instants import State, format_instant_file_name
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.plans import InstantInfo, RestorePlan
from bucketfmt.format.timeline.service_metadata import (
    CleanMetadata,
    RestoreMetadata,
    RollbackMetadata,
    SavepointMetadata,
    SavepointPartitionMetadata,
)
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.timeline.history import load_history
from bucketfmt.timeline.load import load_instant_content
from bucketfmt.timeline.markers import delete_markers
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.undo.plan_rollback import RollbackResult, is_after, parse_rollback_plan
from bucketfmt.write.undo.rollback import Rollbacks
from bucketfmt.write.undo.rollback_planner import RollbackPlanner

__all__ = [
    "RestoreResult",
    "delete_savepoint",
    "preview_restore",
    "preview_savepoint",
    "put_savepoint",
    "restore",
]


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


def put_savepoint(
    rollbacks: Rollbacks, requested_time: str | None, user: str, comments: str
) -> str:
    """Savepoint a completed write, or the newest; return its instant. Twice is once.

    Raises:
        ValueError: no such write is completed, or a clean has deleted files of it, or is about to.
        ConflictError: a restore is pending.
        CorruptError: a file of it is gone.
    """
    table = rollbacks.table
    instant, files = _find_files(rollbacks.planner, table.load_timeline(), requested_time)
    if files is None:
        return instant
    partitions = {
        path: SavepointPartitionMetadata(partition_path=path, savepoint_data_file=names)
        for path, names in files.items()
    }
    metadata = SavepointMetadata(
        savepointed_by=user,
        savepointed_at=int(table.machine.now() * 1000),
        comments=comments,
        partition_metadata=partitions,
    )
    pending = _find_savepoint(table.timeline, instant)
    if pending is None:
        pending = table.begin(instant, "savepoint")
        table.load_timeline()
    table.publish(pending, metadata)
    return instant


def preview_savepoint(planner: RollbackPlanner, requested_time: str | None) -> str:
    """Return the instant that `put_savepoint` would savepoint. Errors as of it."""
    return _find_files(planner, planner.load_timeline(), requested_time)[0]


def _find_files(
    planner: RollbackPlanner, timeline: Timeline, requested_time: str | None
) -> tuple[str, dict[str, list[str]] | None]:
    """Return the instant to savepoint and its files; None for files where that is done already."""
    planner.check_no_restore(timeline)
    instant = _find_completed_write(timeline, requested_time)
    known = _find_savepoint(timeline, instant)
    if known is not None and known.is_completed:
        return instant, None
    retained = _first_retained(planner, timeline)
    if instant < retained and not _is_newest(timeline, instant):
        raise ValueError(
            f"{instant} cannot be savepointed: a clean may have deleted its files; {retained} is "
            "the first that can"
        )
    files = _files_at(planner, timeline, instant)
    for path, name in planner.load_doomed(timeline):
        if name in files.get(path, ()):
            raise ValueError(
                f"{instant} cannot be savepointed: a clean that was begun deletes "
                f"{join_path(path, name)}. Savepoint a later write"
            )
    return instant, files


def _files_at(planner: RollbackPlanner, timeline: Timeline, instant: str) -> dict[str, list[str]]:
    """Return the names of the files that the table needs to be restored to an instant.

    A restore leaves what was completed by then, and of compactions what was requested by then.
    """
    state = TableState(planner.store, planner.config, timeline, planner.limits)
    snapshots = [Snapshot(state, as_of=instant)]
    if timeline.layout > 1:
        snapshots.append(Snapshot(state, completed_until=timeline.completion_time(instant)))
    found: dict[str, list[str]] = {}
    for snapshot in snapshots:
        for file_slice in snapshot.slices_of(snapshot.partitions):
            names = found.setdefault(file_slice.partition_path, [])
            for file in file_slice.files:
                file.check_exists()
                if str(file.name) not in names:
                    names.append(str(file.name))
    return found


def delete_savepoint(rollbacks: Rollbacks, requested_time: str) -> None:
    """Give up a savepoint: its files may be cleaned, and its commit be rolled back.

    Raises:
        ValueError: there is none.
        ConflictError: a restore is pending.
    """
    table = rollbacks.table
    timeline = table.load_timeline()
    rollbacks.planner.check_no_restore(timeline)
    known = _find_savepoint(timeline, requested_time)
    if known is None:
        raise ValueError(f"no savepoint {requested_time!r}")
    folder = table.config.timeline_path
    if known.is_completed:
        table.store.delete(join_path(folder, known.file_name))
    inflight = format_instant_file_name(
        requested_time, "savepoint", State.INFLIGHT, None, timeline.layout
    )
    table.store.delete(join_path(folder, inflight))


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
                own = planner.plan(timeline, instant, in_restore=True)
                parsed = parse_rollback_plan(own, planner.config, planner.limits)
                results.append(parsed.result(None))
    return RestoreResult(savepoint, None, tuple(results))


def _find_plan(
    planner: RollbackPlanner, timeline: Timeline, savepoint: str
) -> tuple[Instant | None, RestorePlan]:
    """Return the plan of a restore, and the restore if it was begun."""
    begun = _load_begun(planner, timeline)
    if begun is None:
        return None, _plan_restore(planner, timeline, savepoint)
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
        plan = planner.plan(timeline, found[0], in_restore=True)
        rollback = table.request("rollback", plan)
        planned = planner.parse(rollback, plan)
    metadata = rollbacks.execute(rollback, planned)
    return rollback, metadata, planned.result(rollback.requested_time)


def _plan_restore(planner: RollbackPlanner, timeline: Timeline, savepoint: str) -> RestorePlan:
    config = planner.config
    known = _find_savepoint(timeline, savepoint)
    if known is None or not known.is_completed:
        raise ValueError(f"no savepoint {savepoint!r}; a table is restored to savepoints only")
    planner.check_writers_dead(timeline)
    target = next(i for i in timeline.writes.instants if i.requested_time == savepoint)
    clusterings, others = [], []
    for instant in timeline.writes.instants:
        if not instant.is_completed and planner.is_clustering(instant):
            if instant.requested_time > savepoint:
                clusterings.append(instant)
        elif is_after(config, instant, target):
            others.append(instant)
    for other in timeline.completed.of("savepoint").instants:
        if any(other.requested_time == i.requested_time for i in others):
            raise ConflictError(
                f"there is a later savepoint, {other.requested_time}; delete it first"
            )
    _check_not_archived(planner, timeline, target)
    _check_files_kept(planner, timeline, known)
    ordered = [
        *sorted(clusterings, key=lambda i: i.requested_time, reverse=True),
        *sorted(others, key=partial(_age, config), reverse=True),
    ]
    return RestorePlan(
        instants_to_rollback=[
            InstantInfo(commit_time=i.requested_time, action=i.action) for i in ordered
        ],
        savepoint_to_restore_timestamp=savepoint,
    )


def _age(config: TableConfig, instant: Instant) -> tuple[str, str]:
    """Order by completion time, what is pending being the newest; in layout 1 by requested time,
    since log files named after a compaction go before it does.
    """
    requested = instant.requested_time
    return (instant.completion_time or "9") if config.timeline_layout > 1 else "", requested


def _check_not_archived(planner: RollbackPlanner, timeline: Timeline, target: Instant) -> None:
    history = load_history(
        planner.store, planner.config, planner.limits, since=target.requested_time
    )
    for instant in Timeline(history, timeline.layout).writes.instants:
        is_archived = not timeline.writes.contains(instant.requested_time)
        if is_archived and is_after(planner.config, instant, target):
            raise ConflictError(
                f"{instant.action} {instant.requested_time}, which came after the savepoint, was "
                "archived: it cannot be rolled back. Copy the rows as of the savepoint instead"
            )


def _check_files_kept(planner: RollbackPlanner, timeline: Timeline, savepoint: Instant) -> None:
    metadata = load_instant_content(planner.store, planner.config, savepoint, planner.limits)
    if not isinstance(metadata, SavepointMetadata):
        raise CorruptError(
            "a savepoint without its files; restore to another", path=savepoint.file_name
        )
    state = TableState(planner.store, planner.config, timeline, planner.limits)
    for path, partition in metadata.partition_metadata.items():
        listed = {
            file.path.rpartition("/")[2]
            for files in state.listed_files(path).values()
            for file in files
        }
        for name in partition.savepoint_data_file:
            if name not in listed:
                raise CorruptError(
                    "the savepoint needs this file, and it is gone; restore to another",
                    path=join_path(path, name),
                )


def _load_begun(planner: RollbackPlanner, timeline: Timeline) -> tuple[Instant, RestorePlan] | None:
    for instant in timeline.pending.of("restore").instants:
        name = format_instant_file_name(
            instant.requested_time, "restore", State.REQUESTED, None, timeline.layout
        )
        requested = Instant(instant.requested_time, "restore", State.REQUESTED, None, name)
        plan = load_instant_content(planner.store, planner.config, requested, planner.limits)
        if not isinstance(plan, RestorePlan):
            raise CorruptError("a restore without a plan; restore the table with Hudi", path=name)
        return instant, plan
    return None


def _find_completed_write(timeline: Timeline, requested_time: str | None) -> str:
    writes = timeline.commits.completed.instants
    if requested_time is None:
        if not writes:
            raise ValueError("the table has no completed write to savepoint")
        newest = max(writes, key=lambda i: (i.completion_time or "", i.requested_time))
        return newest.requested_time
    if not any(instant.requested_time == requested_time for instant in writes):
        raise ValueError(
            f"no completed write {requested_time!r} on the active timeline; inspect.commits() "
            "lists them"
        )
    return requested_time


def _find_savepoint(timeline: Timeline, requested_time: str) -> Instant | None:
    for instant in timeline.of("savepoint").instants:
        if instant.requested_time == requested_time:
            return instant
    return None


def _is_newest(timeline: Timeline, requested_time: str) -> bool:
    """Whether nothing came after a write, so that the table still is as it left it.

    After a restore that is so, although the clean before it retained only what is taken back.
    """
    written = timeline.writes.completed.instants
    newest = max(written, key=lambda i: (i.completion_time or i.requested_time, i.requested_time))
    return newest.requested_time == requested_time == max(i.requested_time for i in written)


def _first_retained(planner: RollbackPlanner, timeline: Timeline) -> str:
    """Return the first write that no clean has deleted files of. Source: getLastCommitRetained."""
    clean = timeline.completed.of("clean").last
    if clean is None:
        return ""
    content = load_instant_content(planner.store, planner.config, clean, planner.limits)
    if isinstance(content, CleanMetadata) and content.earliest_commit_to_retain:
        return content.earliest_commit_to_retain
    writes = [i.requested_time for i in timeline.writes.completed.instants]
    return max((t for t in writes if t <= clean.requested_time), default=clean.requested_time)
