"""Which files a clean deletes.

Pure. Source: CleanPlanner.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bucketfmt.arguments import check_choice, check_int
from bucketfmt.snapshot.files import DataFile, FileSlice
from bucketfmt.timeline.timeline import Instant, Timeline

__all__ = ["CleanPolicy", "Retention", "find_earliest_retained", "is_protected", "plan_clean"]

CleanPolicy = Literal["KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"]
"""`hoodie.cleaner.policy`."""

_RETAINED: Mapping[str, int] = {"KEEP_LATEST_COMMITS": 10, "KEEP_LATEST_FILE_VERSIONS": 3}


@dataclass(frozen=True, slots=True)
class Retention:
    """What to keep.

    Attributes:
        policy: By commits: what was read at one of the last commits can be read again. By
            versions: of each file group so many file slices.
        retain: How many; None for Hudi's default, 10 commits or 3 versions.

    Raises:
        TypeError: `retain` is not an integer.
        ValueError: `retain` is not positive, or an unknown policy.
    """

    policy: CleanPolicy = "KEEP_LATEST_COMMITS"
    retain: int | None = None

    def __post_init__(self) -> None:
        check_choice("policy", self.policy, _RETAINED)
        if self.retain is not None:
            check_int("retain", self.retain, 1)

    @property
    def number(self) -> int:
        """How many commits or versions."""
        return _RETAINED[self.policy] if self.retain is None else self.retain


def find_earliest_retained(timeline: Timeline, commits: int) -> Instant | None:
    """Return the earliest of the last commits, none of them after one that is pending.

    None: there are no more than so many, or none before the pending one.
    """
    completed = timeline.writes.completed.instants
    if len(completed) <= commits:
        return None
    earliest = completed[-commits]
    pending = timeline.writes.pending.first
    if pending is not None and earliest.requested_time > pending.requested_time:
        before = [i for i in completed if i.requested_time < pending.requested_time]
        return before[-1] if before else None
    return earliest


def plan_clean(
    history: Sequence[FileSlice],
    retention: Retention,
    earliest: Instant | None,
    protected: Collection[str],
    completion_time: Callable[[str], str],
) -> list[DataFile]:
    """Return the files of one file group to delete; never one of its newest slice.

    Where Hudi goes by requested times alone, a slice also has to have been there when the
    earliest commit completed: a compaction may be executed long after it was scheduled, and
    readers need the slice before it until then.

    Args:
        history: All its slices, oldest first.
        retention: What to keep.
        earliest: `find_earliest_retained`, where commits are kept.
        protected: Names of files; a slice with one of them is kept whole.
        completion_time: Returns when an instant completed.
    """
    if retention.policy == "KEEP_LATEST_FILE_VERSIONS":
        old = history[: -retention.number]
    elif earliest is None:
        return []
    else:
        time = earliest.completion_time or earliest.requested_time
        before = [
            file_slice
            for file_slice in history
            if file_slice.base_instant < earliest.requested_time
            and completion_time(file_slice.base_instant) <= time
        ]
        # The newest of these is what a reader of the earliest commit sees.
        old = [s for s in before[:-1] if s is not history[-1]]
    return [file for s in old if not is_protected(s.files, protected) for file in s.files]


def is_protected(files: Iterable[DataFile], protected: Collection[str]) -> bool:
    """Whether one of these files is among the names `protected`."""
    return any(str(file.name) in protected for file in files)
