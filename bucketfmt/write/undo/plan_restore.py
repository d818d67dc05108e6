"""What a restore takes back, and whether the table can be restored at all.

Pure. Source: `RestorePlanActionExecutor`, `RestoreInstantComparatorFactory`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from bucketfmt.errors import ConflictError, CorruptError
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.plans import InstantInfo, RestorePlan
from bucketfmt.format.timeline.service_metadata import SavepointMetadata
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.undo.rollback_conflicts import find_after, is_after

__all__ = ["RestoreBasis", "find_restorable", "plan_restore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreBasis:
    """What a restore is planned from: the table at one moment.

    Attributes:
        config: The table's properties.
        timeline: The active timeline.
        clusterings: Requested times of the pending clusterings.
        history: The archived instants from the savepoint on.
        savepoint: The savepoint to restore to, of `find_restorable`.
        files: What the savepoint needs.
        listed: Names of the files that are there, by partition path, for the partitions of `files`.
    """

    config: TableConfig
    timeline: Timeline
    clusterings: Collection[str]
    history: Sequence[Instant]
    savepoint: Instant
    files: SavepointMetadata
    listed: Mapping[str, Collection[str]]


def find_restorable(timeline: Timeline, requested_time: str) -> Instant:
    """Return the completed savepoint of a write.

    Raises:
        ValueError: there is no such savepoint.
    """
    for instant in timeline.completed.of("savepoint").instants:
        if instant.requested_time == requested_time:
            return instant
    raise ValueError(f"no savepoint {requested_time!r}; a table is restored to savepoints only")


def plan_restore(basis: RestoreBasis) -> RestorePlan:
    """Return the instants to roll back, newest first.

    Raises:
        ConflictError: there is a later savepoint, or an instant to roll back was archived.
        CorruptError: a file that the savepoint needs is gone.
    """
    time, config, timeline = basis.savepoint.requested_time, basis.config, basis.timeline
    target = next((i for i in timeline.writes.instants if i.requested_time == time), None)
    if target is None:
        raise ConflictError(
            f"there is no write {time} for its savepoint any more: it had been rolled back before, "
            "and came late; delete the savepoint"
        )
    taken_back = find_after(config, timeline, target, basis.clusterings)
    _check_last_savepoint(timeline, taken_back)
    _check_not_archived(basis, target)
    _check_files_kept(basis)
    ordered = sorted(taken_back, key=partial(_age, basis), reverse=True)
    return RestorePlan(
        instants_to_rollback=[
            InstantInfo(commit_time=i.requested_time, action=i.action) for i in ordered
        ],
        savepoint_to_restore_timestamp=time,
    )


def _is_pending_clustering(basis: RestoreBasis, instant: Instant) -> bool:
    return not instant.is_completed and instant.requested_time in basis.clusterings


def _age(basis: RestoreBasis, instant: Instant) -> tuple[bool, str, str]:
    """Order by completion time, what is pending being the newest, and pending clusterings first of
    all. In layout 1 by requested time: what rolls a log file back that is named after a compaction
    or a clustering is another such file, which goes with that compaction or clustering.
    """
    requested = instant.requested_time
    if basis.config.timeline_layout == 1:
        return False, "", requested
    return _is_pending_clustering(basis, instant), instant.completion_time or "9", requested


def _check_last_savepoint(timeline: Timeline, taken_back: Sequence[Instant]) -> None:
    times = {instant.requested_time for instant in taken_back}
    for savepoint in timeline.completed.of("savepoint").instants:
        if savepoint.requested_time in times:
            raise ConflictError(
                f"there is a later savepoint, {savepoint.requested_time}; delete it first"
            )


def _check_not_archived(basis: RestoreBasis, target: Instant) -> None:
    writes = basis.timeline.writes
    for instant in Timeline(tuple(basis.history), basis.timeline.layout).writes.instants:
        is_archived = not writes.contains(instant.requested_time)
        if is_archived and is_after(basis.config, instant, target):
            raise ConflictError(
                f"{instant.action} {instant.requested_time}, which came after the savepoint, was "
                "archived: it cannot be rolled back. Copy the rows as of the savepoint instead"
            )


def _check_files_kept(basis: RestoreBasis) -> None:
    for path, partition in basis.files.partition_metadata.items():
        for name in partition.savepoint_data_file:
            if name not in basis.listed.get(path, ()):
                raise CorruptError(
                    "the savepoint needs this file, and it is gone; restore to another",
                    path=join_path(path, name),
                )
