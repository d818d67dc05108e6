"""Archiving: the oldest instants leave the active timeline, so that it stays quick to read.

`plan_archive` is pure; `Archiver` does I/O, all of it under the table lock. Source:
TimelineArchiverV1, TimelineArchiverV2, ArchivalUtils, ClusteringUtils.

What an instant decides has to be decided without it afterwards. So none is archived that is
newer than one that is pending or savepointed, that hides file groups whose files are still there,
or that alone states the table's columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bucketfmt.arguments import check_int
from bucketfmt.snapshot.schema import find_stating_commit
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.timeline.history import load_history
from bucketfmt.timeline.history_writer import compact_history, delete_active, put_archived
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.commit.transaction import Transactions

__all__ = ["Archiver", "Kept", "plan_archive"]

_ACCOMPANYING = ("clean", "rollback")


@dataclass(frozen=True, slots=True)
class Kept:
    """How many commits to keep in the active timeline.

    Attributes:
        min_commits: So many are left: `hoodie.keep.min.commits`.
        max_commits: Nothing is done up to so many: `hoodie.keep.max.commits`.
    """

    min_commits: int = 20
    max_commits: int = 30

    def __post_init__(self) -> None:
        check_int("min_commits", self.min_commits)
        check_int("max_commits", self.max_commits)
        if not 1 <= self.min_commits <= self.max_commits:
            raise ValueError("1 <= min_commits <= max_commits is what archiving needs")


def plan_archive(timeline: Timeline, kept: Kept, needed: Iterable[str] = ()) -> tuple[Instant, ...]:
    """Return the instants to archive, oldest first.

    Args:
        timeline: The active timeline.
        kept: How many to keep.
        needed: Requested times of instants that have to stay for reasons of their own, and with
            them all that are newer.
    """
    commits = timeline.writes.completed.instants
    if len(commits) <= kept.max_commits:
        return ()
    bounds = [*needed]
    pending = next((i for i in timeline.pending.instants if i.action != "savepoint"), None)
    if pending is not None:
        # The commit before it too: what was pending when readers began is not committed.
        before = [i.requested_time for i in commits if i.requested_time < pending.requested_time]
        bounds.append(before[-1] if before else pending.requested_time)
    bounds += [i.requested_time for i in timeline.of("savepoint").instants]
    bound = min(bounds, default="~")
    chosen = [i for i in commits[: len(commits) - kept.min_commits] if i.requested_time < bound]
    if not chosen:
        return ()
    others = [
        instant
        for instant in timeline.completed.of(*_ACCOMPANYING).instants
        if instant.requested_time < chosen[-1].requested_time
    ]
    return tuple(sorted([*chosen, *others], key=lambda i: (i.requested_time, i.action)))


class Archiver:
    """Archives instants of one table."""

    def __init__(self, snapshot: Callable[[], Snapshot], transactions: Transactions) -> None:
        """Set up.

        Args:
            snapshot: Returns the table as it is now.
            transactions: How the table is written to.
        """
        self._snapshot = snapshot
        self._owner = transactions

    def preview(self, kept: Kept) -> tuple[Instant, ...]:
        """Return what `run` would archive now. Writes nothing."""
        state = self._snapshot().state
        left = self._find_left(state)
        others = tuple(i for i in state.timeline.instants if i not in left)
        timeline = Timeline(others, state.timeline.layout)
        return (*left, *plan_archive(timeline, kept, _find_needed(state)))

    def run(self, kept: Kept) -> tuple[Instant, ...]:
        """Archive what `plan_archive` says, and return it.

        Raises:
            UnsupportedError: the table has a metadata table.
            CorruptError: an instant, or the history, is damaged.
            LockTimeoutError: the table lock could not be acquired.
        """
        owner = self._owner
        with owner.recovered() as (config, _):
            state = self._snapshot().state
            left = self._find_left(state)
            if left:  # an earlier run was cut off between the two
                delete_active(owner.store, config, left)
                state = self._snapshot().state
            planned = plan_archive(state.timeline, kept, _find_needed(state))
            put_archived(owner.store, config, planned, owner.limits)
            delete_active(owner.store, config, planned)
            compact_history(owner.store, config, owner.limits)
        return (*left, *planned)

    def _find_left(self, state: TableState) -> tuple[Instant, ...]:
        """Return the oldest commits of the active timeline as far as they are in the history."""
        first = state.timeline.completed.first
        if first is None:
            return ()
        history = load_history(state.store, state.config, state.limits, since=first.requested_time)
        known = {(i.requested_time, i.action) for i in history if i.is_completed}
        return tuple(
            i for i in state.timeline.completed.instants if (i.requested_time, i.action) in known
        )


def _find_needed(state: TableState) -> list[str]:
    """Return the instants that tell what nothing else would."""
    needed = []
    for commit in state.commits:
        hidden = (state.listed_files(path).get(file_id) for path, file_id in commit.replaced)
        if any(hidden):
            needed.append(commit.requested_time)
            break
    with_ids = [commit for commit in state.commits if commit.latest_schema]
    stating = [find_stating_commit(state.commits), *with_ids[-1:]]
    return [*needed, *(commit.requested_time for commit in stating if commit is not None)]
