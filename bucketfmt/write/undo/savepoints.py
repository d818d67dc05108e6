"""Savepoints keep the files of the table as it was after a write from being cleaned.

I/O, under the table lock but for previews. Source: `SavepointActionExecutor`, `SavepointHelpers`.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from bucketfmt.errors import ConflictError
from bucketfmt.format.buckets.index_settings import has_virtual_logs
from bucketfmt.format.names.instants import State, format_instant_file_name
from bucketfmt.format.timeline.instant_content import InstantContent
from bucketfmt.format.timeline.service_metadata import (
    SavepointMetadata,
    SavepointPartitionMetadata,
)
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.timeline.load import load_instant_content
from bucketfmt.timeline.timeline import Timeline
from bucketfmt.timeline.transitions import delete_instant_file
from bucketfmt.write.services.pending_cleans import load_doomed
from bucketfmt.write.undo.lone_rows import check_savepoint_stands_alone
from bucketfmt.write.undo.plan_savepoint import (
    check_not_cleaned,
    find_completed_write,
    find_savepoint,
    plan_savepoint,
)
from bucketfmt.write.undo.recovery import remove_late_commits
from bucketfmt.write.undo.rollback import Rollbacks
from bucketfmt.write.undo.rollback_conflicts import check_no_restore, find_after, find_target
from bucketfmt.write.undo.rollback_planner import RollbackPlanner

__all__ = ["delete_savepoint", "preview_savepoint", "put_savepoint"]


def put_savepoint(
    rollbacks: Rollbacks, requested_time: str | None, user: str, comments: str
) -> str:
    """Savepoint a completed write, or the newest; return its instant. Twice is once.

    Raises:
        ValueError: no such write is completed, or a clean has deleted files of it, or is about to.
        ConflictError: a restore is pending, or would lose rows with a resize.
        CorruptError: a file of it is gone.
    """
    table = rollbacks.table
    remove_late_commits(rollbacks)
    instant, partitions = _plan(rollbacks.planner, table.load_timeline(), requested_time)
    if partitions is None:
        return instant
    metadata = SavepointMetadata(
        savepointed_by=user,
        savepointed_at=int(table.machine.now() * 1000),
        comments=comments,
        partition_metadata=partitions,
    )
    pending = find_savepoint(table.timeline, instant)
    if pending is None:
        pending = table.begin(instant, "savepoint")
        table.load_timeline()
    try:
        table.publish(pending, metadata)
    except ConflictError:  # what is pending would hold cleaning and archival back
        delete_instant_file(table.store, table.config, pending.file_name)
        raise
    return instant


def preview_savepoint(planner: RollbackPlanner, requested_time: str | None) -> str:
    """Return the instant that `put_savepoint` would savepoint. Errors as of it."""
    return _plan(planner, planner.load_timeline(), requested_time)[0]


def _plan(
    planner: RollbackPlanner, timeline: Timeline, requested_time: str | None
) -> tuple[str, dict[str, SavepointPartitionMetadata] | None]:
    """Return the instant to savepoint and its files; None for files where that is done already."""
    check_no_restore(timeline)
    instant = find_completed_write(planner.config, timeline, requested_time)
    known = find_savepoint(timeline, instant)
    if known is not None and known.is_completed:
        return instant, None
    target = find_target(timeline, instant)
    after = find_after(planner.config, timeline, target, planner.load_clusterings(timeline))
    check_not_cleaned(timeline, instant, after, _load_last_clean(planner, timeline))
    state = planner.state(timeline)
    if has_virtual_logs(planner.config.properties):
        check_savepoint_stands_alone(timeline, state.commits, instant)
    doomed = load_doomed(planner.store, planner.config, timeline, planner.limits)
    # Readers see the first once the table is restored to the instant.
    restored = state.without(after)
    slices = [*_slices_of(Snapshot(restored)), *_load_past(state, instant, doomed)]
    return instant, plan_savepoint(instant, slices, doomed)


def _load_last_clean(planner: RollbackPlanner, timeline: Timeline) -> InstantContent | None:
    clean = timeline.completed.of("clean").last
    if clean is None:
        return None
    return load_instant_content(planner.store, planner.config, clean, planner.limits)


def _load_past(
    state: TableState, instant: str, doomed: AbstractSet[tuple[str, str]]
) -> list[FileSlice]:
    """Return the file slices that readers see as of an instant, but for those that are cleaned.

    They are others than those that a restore needs where the write has been overtaken.
    """

    def is_kept(own: FileSlice) -> bool:
        names = ((own.partition_path, str(file.name)) for file in own.files)
        return all(file.size is not None for file in own.files) and doomed.isdisjoint(names)

    return list(filter(is_kept, _slices_of(Snapshot(state, as_of=instant))))


def _slices_of(snapshot: Snapshot) -> list[FileSlice]:
    return snapshot.slices_of(snapshot.partitions)


def delete_savepoint(rollbacks: Rollbacks, requested_time: str) -> None:
    """Give up a savepoint: its files may be cleaned, and its commit be rolled back.

    Raises:
        ValueError: there is none.
        ConflictError: a restore is pending.
    """
    table = rollbacks.table
    timeline = table.load_timeline()
    check_no_restore(timeline)
    known = find_savepoint(timeline, requested_time)
    if known is None:
        raise ValueError(f"no savepoint {requested_time!r}")
    if known.is_completed:
        delete_instant_file(table.store, table.config, known.file_name)
    inflight = format_instant_file_name(
        requested_time, "savepoint", State.INFLIGHT, None, timeline.layout
    )
    delete_instant_file(table.store, table.config, inflight)
