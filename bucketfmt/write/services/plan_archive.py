"""Which instants an archival moves out of the active timeline.

Pure. Source: TimelineArchiverV1, TimelineArchiverV2, ArchivalUtils, ClusteringUtils.

What an instant decides has to be decided without it afterwards. So no instant is archived that is
newer than a pending or savepointed one, that hides file groups whose files are still there or
are named by commits that stay, or that alone states the table's columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from bucketfmt.arguments import check_int
from bucketfmt.format.names.names import FileGroupId
from bucketfmt.snapshot.data_files.written_files import CommitRecord
from bucketfmt.snapshot.schema import find_stating_commit
from bucketfmt.timeline.timeline import Instant, Timeline

__all__ = [
    "ArchiveBasis",
    "ArchivePolicy",
    "find_oldest_staying",
    "plan_archive",
]

_ACCOMPANYING = ("clean", "rollback")
_STAYING = ("restore", "indexing")  # Hudi archives none of them either


@dataclass(frozen=True, slots=True)
class ArchivePolicy:
    """How many commits to keep in the active timeline.

    Attributes:
        min_commits: So many are left: `hoodie.keep.min.commits`.
        max_commits: Nothing is done up to so many: `hoodie.keep.max.commits`.

    Raises:
        TypeError: an argument is not an integer.
        ValueError: no commit would be left, or `max_commits` is less than `min_commits`.
    """

    min_commits: int = 20
    max_commits: int = 30

    def __post_init__(self) -> None:
        check_int("min_commits", self.min_commits)
        check_int("max_commits", self.max_commits)
        if not 1 <= self.min_commits <= self.max_commits:
            raise ValueError("1 <= min_commits <= max_commits is what archiving needs")


@dataclass(frozen=True, slots=True)
class ArchiveBasis:
    """What an archival is planned from: the table at one moment.

    Attributes:
        timeline: The active timeline.
        commits: Its completed writes, by requested time.
        still_listed: Replaced file groups whose files are still there.
        before: Instants from this requested time on stay.
    """

    timeline: Timeline
    commits: Sequence[CommitRecord]
    still_listed: Collection[FileGroupId] = ()
    before: str = "~"

    def without(self, instants: Collection[Instant]) -> ArchiveBasis:
        """Return the basis once these instants have left the active timeline."""
        gone = {i.requested_time for i in instants}
        commits = [c for c in self.commits if c.requested_time not in gone]
        return replace(self, timeline=self.timeline.without(instants), commits=commits)


def find_oldest_staying(timeline: Timeline) -> str | None:
    """Return the requested time of the oldest completed instant that is never archived."""
    found = timeline.completed.of(*_STAYING).first
    return None if found is None else found.requested_time


def plan_archive(basis: ArchiveBasis, kept: ArchivePolicy) -> tuple[Instant, ...]:
    """Return the instants to move into the history, oldest first."""
    timeline = basis.timeline
    commits = timeline.writes.completed.instants
    if len(commits) <= kept.max_commits:
        return ()
    bound = min([basis.before, *_find_needed(basis), *_find_bounds(timeline)])
    bound = min(bound, commits[-kept.min_commits].requested_time)
    bound = _find_replacing(basis.commits, bound)
    chosen = [i for i in commits if i.requested_time < bound]
    if not chosen:
        return ()
    others = [
        instant
        for instant in timeline.completed.of(*_ACCOMPANYING).instants
        if instant.requested_time < chosen[-1].requested_time
    ]
    return tuple(sorted([*chosen, *others], key=lambda i: (i.requested_time, i.action)))


def _find_bounds(timeline: Timeline) -> Iterator[str]:
    """Yield the requested times from which on the pending and savepointed instants stay."""
    pending = next((i for i in timeline.pending.instants if i.action != "savepoint"), None)
    if pending is not None:
        # The commit before it too: what was pending when readers began is not committed.
        before = [
            i.requested_time
            for i in timeline.writes.completed.instants
            if i.requested_time < pending.requested_time
        ]
        yield before[-1] if before else pending.requested_time
    for savepoint in timeline.of("savepoint").instants:
        yield savepoint.requested_time


def _find_replacing(commits: Sequence[CommitRecord], bound: str) -> str:
    """Return from when on commits stay, so that a replaced file group is not named without it.

    A change of buckets is requested before, and completed after, writes to the file groups that it
    replaces. Without it, a write that stays would state that such a file group is read.

    Args:
        commits: By requested time.
        bound: From when on commits stay for other reasons.
    """
    replaced = {group for commit in commits for group in commit.replaced}
    if not replaced:
        return bound
    last_named = {
        (path, file_id): commit.requested_time
        for commit in commits
        for path, file_id, *_ in commit.files
        if (path, file_id) in replaced
    }
    for commit in reversed(commits):
        if commit.requested_time < bound and any(
            last_named.get(group, "") >= bound for group in commit.replaced
        ):
            bound = commit.requested_time
    return bound


def _find_needed(basis: ArchiveBasis) -> list[str]:
    """Return the requested times of the commits that say what no other file would."""
    hiding = (c for c in basis.commits if any(g in basis.still_listed for g in c.replaced))
    with_ids = [commit for commit in basis.commits if commit.latest_schema]
    found = [next(hiding, None), find_stating_commit(basis.commits), *with_ids[-1:]]
    return [commit.requested_time for commit in found if commit is not None]
