"""A commit that appeared once its writer had lost the table lock: what has not seen it.

Pure. `settle_late_commit` decides by it, under the lock again, whether the commit stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bucketfmt.errors import ConflictError
from bucketfmt.timeline.timeline import COMMIT_ACTIONS, Instant, Timeline

__all__ = ["find_before", "find_later", "find_since"]


def find_since(before: Timeline, now: Timeline, requested_time: str) -> list[Instant]:
    """Return what came onto the timeline, or went on, since; without one instant.

    Args:
        before: The timeline as it was.
        now: The timeline.
        requested_time: Of the instant to leave out.
    """
    known = {instant.file_name for instant in before.instants}
    return [
        instant
        for instant in now.instants
        if instant.file_name not in known and instant.requested_time != requested_time
    ]


def find_before(
    since: Iterable[Instant], appeared_at: float | None, time_of: Callable[[Instant], float | None]
) -> list[Instant]:
    """Return what was there when a commit appeared that it came beside.

    A plan that was there lacks the commit. Who was requested after the commit appeared lists the
    timeline later, and compares itself. All are returned where the store does not tell.

    Args:
        since: What came beside the commit.
        appeared_at: When the completed file of the commit appeared, in seconds; None where the
            store does not tell.
        time_of: When a file of an instant appeared; likewise.
    """
    if appeared_at is None:
        return list(since)
    # A write that is pending will compare itself.
    others = (i for i in since if i.is_completed or i.action not in COMMIT_ACTIONS)
    return [i for i in others if (at := time_of(i)) is None or at <= appeared_at]


def find_later(unseen: Iterable[Instant], done: Instant) -> ConflictError | None:
    """Return that others are later than a late commit, whose name had its completion time before.

    They have not seen it: a compaction since has left its log files out, which belong to the slice
    before; and whoever asks for changes since what others completed does not get its rows.

    Args:
        unseen: What has not seen it.
        done: The commit, completed; in layout 1 it states no completion time.
    """
    ended = done.completion_time
    if ended is None:
        return None
    for instant in unseen:
        if ended < max(instant.requested_time, instant.completion_time or ""):
            return ConflictError(
                f"{instant.action} {instant.requested_time} came while {done.requested_time} was "
                "published and its lock was lost. Nothing is published; reload the table and retry"
            )
    return None
