"""Commits that appeared once they had been rolled back: their writers stood still meanwhile.

I/O, read only. The files of such a commit are gone, so that readers fail on it, and nobody can
stand on it: its completed file has to go too.
"""

from __future__ import annotations

from collections.abc import Sequence

from bucketfmt.format.names.instants import State, format_instant_file_name
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.service_metadata import RollbackMetadata
from bucketfmt.format.timeline.write_operation import SERVICE_OPERATIONS
from bucketfmt.limits import Limits
from bucketfmt.storage.store import Store
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.timeline.load import load_commit_metadata, load_instant_content
from bucketfmt.timeline.timeline import Instant, Timeline

__all__ = ["find_late_commits"]


def find_late_commits(
    store: Store,
    config: TableConfig,
    limits: Limits,
    timeline: Timeline,
    completed: Sequence[Instant],
) -> list[Instant]:
    """Return those commits that a completed rollback took back while they were pending.

    A rollback removes all files of its instant from the timeline. Compactions and clusterings are
    no such commits: they are begun again under the same requested time.

    Args:
        store: The table's files.
        config: The table's properties.
        limits: Bounds on what is read.
        timeline: The timeline, as it is under the table lock.
        completed: The completed commits that are asked for, in the order of the timeline.

    Raises:
        CorruptError: a completed rollback does not decode.
        StorageError: the store failed.
    """
    rollbacks = timeline.completed.of("rollback").instants
    if not completed or not rollbacks:
        return []

    def load_targets(rollback: Instant) -> list[str]:
        content = load_instant_content(store, config, rollback, limits)
        return [*content.commits_rollback] if isinstance(content, RollbackMetadata) else []

    first = completed[0].requested_time
    later = [rollback for rollback in rollbacks if rollback.requested_time > first]
    targets = {t for own in map_in_threads(load_targets, later, waiting_count(store)) for t in own}
    return [
        instant
        for instant in completed
        if instant.requested_time in targets
        and not _has_begun(store, config, instant)
        and not _is_service(load_commit_metadata(store, config, instant, limits))
    ]


def _has_begun(store: Store, config: TableConfig, instant: Instant) -> bool:
    """Whether the timeline has a requested or inflight file of a completed instant."""
    names = [
        format_instant_file_name(
            instant.requested_time, instant.action, state, None, config.timeline_layout
        )
        for state in (State.REQUESTED, State.INFLIGHT)
    ]
    return any(store.info(join_path(config.timeline_path, name)) is not None for name in names)


def _is_service(metadata: CommitMetadata) -> bool:
    """Whether it is of a table service, which is begun again by its plan after a rollback."""
    return metadata.operation_type in SERVICE_OPERATIONS
