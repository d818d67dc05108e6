"""When instants completed, archived ones too: history is read as far back as somebody asks.

I/O only by the function given. History has every instant that a table ever had, and those that are
asked about are mostly its last ones.
"""

from __future__ import annotations

from typing import Protocol

from bucketfmt.timeline.timeline import Instant, Timeline

__all__ = ["CompletionTimes"]

_READS_MAX = 8  # then all is read: each read goes through the manifest again


class LoadHistory(Protocol):
    """Returns the archived instants of a range of requested times, as `load_history`."""

    def __call__(self, *, since: str, until: str) -> tuple[Instant, ...]: ...


class CompletionTimes:
    """The timeline of a table with archived instants. Safe to use from several threads."""

    def __init__(self, timeline: Timeline, load: LoadHistory) -> None:
        """Set up; nothing is read yet."""
        self._load = load
        self._reads = 0
        self._known = "~", timeline  # the time since which history is known; "~" is after all

    def is_completed(self, time: str) -> bool:
        """Return whether files written at this time are committed.

        An instant that is not on the active timeline may be archived though an earlier one is
        active: that of a write that took long, or one that initialised a partition of a metadata
        table. Errors as of `since`.
        """
        timeline = self._known[1]
        if timeline.is_completed(time) or timeline.writes.contains(time):
            return timeline.is_completed(time)
        return self.since(time).is_completed(time)

    def since(self, time: str) -> Timeline:
        """Return the timeline with the archived instants that were requested at `time` or later.

        Earlier ones may be among them.

        Raises:
            CorruptError: a file of the history does not decode.
            NotFoundError: a file that the manifest names does not exist.
            StorageError: the store failed.
        """
        since, timeline = self._known
        if time >= since:
            return timeline
        self._reads += 1
        oldest = time if self._reads <= _READS_MAX else ""
        found = self._load(since=oldest, until=since)
        earlier = [instant for instant in found if instant.requested_time < since]
        timeline = timeline.with_history((*earlier, *timeline.history))
        self._known = oldest, timeline
        return timeline
