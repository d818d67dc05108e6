"""Rows that only the file groups to come of a resize have, where the table has virtual logs.

Pure. Whoever takes such a resize back loses the rows, and a restore takes back each resize that was
completed after the savepoint. Spec: VLOG-6.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from bucketfmt.errors import ConflictError
from bucketfmt.format.names.names import LogFileName
from bucketfmt.snapshot.data_files.written_files import CommitRecord
from bucketfmt.timeline.timeline import REPLACING_ACTIONS, Timeline

__all__ = ["check_no_lone_rows", "check_savepoint_stands_alone"]


def check_no_lone_rows(commits: Iterable[CommitRecord], resize: str) -> None:
    """Refuse to take a resize back whose new file groups alone have rows.

    Args:
        commits: The completed writes of a table with virtual logs.
        resize: The requested time of the resize.

    Raises:
        ConflictError: a write has put rows there.
    """
    writes = _find_lone_writes(commits, {resize})
    if writes:
        raise ConflictError(
            f"the resize of {resize} cannot be rolled back: the rows of {_format(writes)} are only "
            "in its new file groups, since the table has virtual logs. Execute the resize "
            "(resize() does), and undo it by another one; or roll these writes back first"
        )


def check_savepoint_stands_alone(
    timeline: Timeline, commits: Iterable[CommitRecord], requested_time: str
) -> None:
    """Refuse a savepoint of rows that a restore would lose with a resize.

    Args:
        timeline: The active timeline.
        commits: The completed writes of a table with virtual logs.
        requested_time: The write that is to be savepointed.

    Raises:
        ConflictError: rows of the write, or of one before it, are only in new file groups of a
            resize that was not completed then.
    """
    end = timeline.completion_time(requested_time) or requested_time
    by_requests = timeline.layout == 1  # so does a restore go, which leaves what was requested
    resizes = {
        instant.requested_time
        for instant in timeline.of(*REPLACING_ACTIONS).instants
        if not instant.is_completed or not (by_requests or (instant.completion_time or "") <= end)
    }
    writes = _find_lone_writes((c for c in commits if c.completion_time <= end), resizes)
    if writes:
        raise ConflictError(
            f"{requested_time} cannot be savepointed: the rows of {_format(writes)} are only in "
            "the new file groups of a resize that was pending then, since the table has virtual "
            "logs. Execute the resize (resize() does), and savepoint a later write"
        )


def _find_lone_writes(commits: Iterable[CommitRecord], resizes: Collection[str]) -> list[str]:
    """Return the requested times of writes that logged to new file groups of these resizes."""
    return [
        commit.requested_time
        for commit in commits
        if commit.requested_time not in resizes
        and any(isinstance(f[3], LogFileName) and f[3].instant in resizes for f in commit.files)
    ]


def _format(writes: Sequence[str]) -> str:
    more = f" and {len(writes) - 1} later writes" if len(writes) > 1 else ""
    return f"write {writes[0]}{more}"
