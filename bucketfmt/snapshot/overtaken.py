"""What takes files away from under those who read them: rollbacks, cleans and archivals.

Pure. A reader, or a writer that rewrites what is there, stands on a timeline; files it names
may be gone by the time they are opened, though nothing is damaged.
"""

from __future__ import annotations

from bucketfmt.timeline.timeline import Instant, Timeline, count_shared

__all__ = [
    "find_completed_since",
    "find_given_up",
    "find_rolled_back",
    "find_undoing",
    "find_what_may_be_archived",
    "find_what_overtook",
]


def find_rolled_back(before: Timeline, now: Timeline) -> Instant | None:
    """Return a completed write that was on a timeline and was taken back since; None if none was.

    Args:
        before: The timeline that was read.
        now: The timeline as it is.
    """
    completed, after = before.writes.completed.instants, now.writes.completed.instants
    shared = count_shared(completed, after)
    there = {(each.requested_time, each.action) for each in after[shared:]}
    for instant in completed[shared:]:
        time = instant.requested_time
        if (time, instant.action) not in there and not now.is_before_start(time):
            return instant
    return None


def find_undoing(before: Timeline, now: Timeline) -> Instant | None:
    """Return a rollback or restore that was begun after a timeline was read; None if none was.

    What it takes back may have been completed after that, too.

    Args:
        before: The timeline that was read.
        now: The timeline as it is.
    """
    known = before.requested_times
    undoing = now.of("rollback", "restore").instants
    return next((i for i in undoing if i.requested_time not in known), None)


def find_given_up(before: Timeline, now: Timeline) -> Instant | None:
    """Return what was pending when a timeline was read and left it since; None if nothing did.

    Its plan is gone, which whoever read the timeline may ask for.

    Args:
        before: The timeline that was read.
        now: The timeline as it is.
    """
    known = now.requested_times
    return next((i for i in before.pending.instants if i.requested_time not in known), None)


def find_completed_since(before: Timeline, now: Timeline) -> Instant | None:
    """Return a write that was completed after a timeline was read; None if none was.

    Args:
        before: The timeline that was read.
        now: The timeline as it is.
    """
    known = before.completed.requested_times
    completed = now.writes.completed.instants
    return next((i for i in completed if i.requested_time not in known), None)


def find_what_may_be_archived(before: Timeline, now: Timeline) -> str | None:
    """Return the earliest time of a write that completed after a timeline was read and is archived.

    None where there is none for sure: archival takes the oldest instants, so those that began
    after the timeline was read go after all that are on it.

    Args:
        before: The timeline that was read.
        now: The timeline as it is, with an instant that is no savepoint.
    """
    times = [
        time
        for time in [instant.requested_time for instant in before.writes.pending.instants]
        if now.is_before_start(time) and time not in now.requested_times
    ]
    newest = before.last.requested_time if before.last else ""
    if now.is_before_start(newest):
        times.append(newest)
    return min(times, default=None)


def find_what_overtook(before: Timeline, now: Timeline) -> str | None:
    """Return what may have deleted files since a timeline was read, in words; None if nothing.

    A timeline is not listed at one moment. Where instants are archived meanwhile, it may lack one
    that replaced a file group, and have an older one that wrote to the group.
    """
    rolled_back = find_rolled_back(before, now)
    if rolled_back is not None:
        return f"{rolled_back.action} {rolled_back.requested_time} was rolled back"
    known = {(clean.requested_time, clean.state) for clean in before.of("clean").instants}
    for clean in now.of("clean").instants:
        if (clean.requested_time, clean.state) not in known:
            return f"clean {clean.requested_time} deleted files"
    for write in before.writes.completed.instants:
        time = write.requested_time
        if now.is_before_start(time) and time not in now.requested_times:  # no savepoint keeps it
            return f"{write.action} {time} was archived"
    return None
