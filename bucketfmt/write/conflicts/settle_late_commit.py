"""A commit that appeared once its writer had lost the table lock: whether it stands.

I/O. Whoever publishes without the lock comes here, and who finds that somebody did. So of two
commits in conflict the one whose writer comes first is taken back. To take it back is to delete its
completed file: it is inflight again, and if this process ends here, the next writer rolls it back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

from bucketfmt.errors import ConflictError, LockLostError
from bucketfmt.format.names.instants import State, find_instant_file, format_instant_file_name
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.snapshot.overtaken import find_what_may_be_archived
from bucketfmt.storage.store import Store
from bucketfmt.timeline.load import load_timeline, requested_name
from bucketfmt.timeline.locking.lock import TableLock
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.timeline.transitions import delete_instant_file
from bucketfmt.write.commit.locked_table import LockableTable
from bucketfmt.write.commit.started_work import PendingInstant
from bucketfmt.write.conflicts.lost_lock import find_before, find_later, find_since
from bucketfmt.write.conflicts.resolve_conflicts import ProposedCommit, resolve_conflicts

__all__ = ["check_not_rolled_back", "settle_late_commit"]

_Times = Callable[[Instant], float | None]  # in seconds; None where the store does not tell
_ROLLED_BACK = (
    "another writer rolled {} back while this process stood still. Nothing is published; reload "
    "the table and retry"
)


def settle_late_commit(
    pending: PendingInstant,
    config: TableConfig,
    commit: ProposedCommit,
    lost: LockLostError,
    held: TableLock | None = None,
) -> Instant:
    """Decide, under the lock, whether a commit stands that others need not have seen.

    Args:
        pending: The instant of the commit, as its writer keeps it.
        config: The table's properties.
        commit: What was published.
        lost: What is raised where nobody can tell.
        held: The lock, if it has been held since before the commit appeared: nobody can have built
            on the commit then.

    Returns:
        The completed instant, which stands.

    Raises:
        ConflictError: another commit is in conflict, or somebody took this one back. Nothing is
            published any more.
        LockLostError: `lost`: whether it stands is not known, or others have built on it.
        LockTimeoutError: the table lock could not be acquired.
        CorruptError: a file of the timeline does not decode.
        StorageError: the store failed.
    """
    table, time = pending.table, pending.instant
    store, limits, before = table.store, table.limits, commit.before
    with table.locks.taken() if held is None else nullcontext(held) as lock:
        now = load_timeline(store, config, limits)
        done = _find_own(config, commit, now)
        if done is None and find_what_may_be_archived(before, now) is not None:
            raise lost  # taken back, or archived
        if done is None:
            raise ConflictError(
                f"another writer took {time} back after the table lock was lost. "
                "Nothing is published; reload the table and retry"
            )
        check_not_rolled_back(table, config, commit, now)
        since = find_since(before, now, time)
        appeared, begun = _load_times(store, config)
        uncompared = find_before(since, appeared(done), begun)
        if not uncompared:
            return done  # the lock was lost later: whoever came since has seen the commit
        unseen = find_before(since, appeared(done), appeared)
        conflict = find_later(unseen, done) or _find_late_conflict(table, config, commit, now)
        if conflict is None:
            return done
        is_built_on = held is None and (
            len(uncompared) < len(since)
            or pending.is_built_on(before, now, config, commit.metadata, by_instant=True)
        )
        if is_built_on or not lock.holds():
            raise lost
        delete_instant_file(store, config, done.file_name)
        raise conflict


def check_not_rolled_back(
    table: LockableTable, config: TableConfig, commit: ProposedCommit, now: Timeline
) -> None:
    """Remove this commit where another writer has rolled it back before it appeared.

    Its files are gone, whoever built on it: readers fail on it, and the next writer would
    remove it, so that it goes without the lock too.

    Args:
        table: The table.
        config: Its properties.
        commit: The commit, which may have been published.
        now: The timeline.

    Raises:
        ConflictError: it was rolled back.
        CorruptError: a rollback of the timeline does not decode.
        StorageError: the store failed.
    """
    done = _find_own(config, commit, now)
    if done is not None and table.late_commits.find(config, now, [done]):
        delete_instant_file(table.store, config, done.file_name)
        raise ConflictError(_ROLLED_BACK.format(done.requested_time))


def _find_own(config: TableConfig, commit: ProposedCommit, now: Timeline) -> Instant | None:
    """Return the commit as completed."""
    for instant in now.completed.of(commit.instant.action).instants:
        if instant.requested_time == commit.instant.requested_time:
            # As `put_completed` returns it.
            time = instant.completion_time if config.timeline_layout == 2 else None
            return replace(instant, completion_time=time)
    return None


def _load_times(store: Store, config: TableConfig) -> tuple[_Times, _Times]:
    """Return what tells when a completed instant appeared, or the plan of a pending one.

    And what tells when the first file of an instant appeared.
    """
    listed = store.list(config.timeline_path)
    modified = {entry.name: entry.modified for entry in listed}
    first: dict[str, float] = {}
    for entry in listed:
        file = find_instant_file(entry.name, config.timeline_layout)
        if file is not None and file.state is not State.COMPLETED and entry.modified is not None:
            known = first.get(file.requested_time, entry.modified)
            first[file.requested_time] = min(known, entry.modified)

    def appeared(instant: Instant) -> float | None:
        is_done = instant.is_completed
        return modified.get(instant.file_name if is_done else requested_name(instant, config))

    return appeared, lambda instant: first.get(instant.requested_time)


def _find_late_conflict(
    table: LockableTable, config: TableConfig, commit: ProposedCommit, now: Timeline
) -> ConflictError | None:
    """Return why this commit, which is published, may not stand; None if it may."""
    time, action = commit.instant.requested_time, commit.instant.action
    name = format_instant_file_name(time, action, State.INFLIGHT, None, config.timeline_layout)
    if table.store.info(join_path(config.timeline_path, name)) is None:
        return ConflictError(_ROLLED_BACK.format(time))
    try:
        settled = resolve_conflicts(table.store, config, table.limits, commit, now)
    except ConflictError as conflict:
        return conflict
    if settled == commit.metadata:
        return None
    return ConflictError(
        f"another writer changed the columns while {time} was published. Nothing is "
        "published; reload the table and retry"
    )
