"""A heartbeat that begins before the timeline is known: a request less in a row. I/O."""

from __future__ import annotations

from bucketfmt.timeline.clock import InstantClock
from bucketfmt.timeline.locking.heartbeat import Heartbeat, Heartbeats
from bucketfmt.timeline.timeline import Timeline

__all__ = ["EarlyHeartbeat"]


class EarlyHeartbeat:
    """A heartbeat that begins while the timeline is still being listed, under the table lock.

    The time of the instant is taken once the lock is held, as always. Whether the time is later
    than all others is known with the listing.
    """

    def __init__(self, clock: InstantClock, heartbeats: Heartbeats) -> None:
        """Set up; nothing begins yet."""
        self._clock, self._heartbeats = clock, heartbeats
        self._begun: tuple[str, Heartbeat] | None = None

    def begin(self) -> None:
        """Take a time, and write the first heartbeat.

        Raises:
            StorageError: the store failed; a heartbeat file may be left, which does no harm.
        """
        time = self._clock.next_time(())
        self._begun = time, self._heartbeats.start(time)

    def take(self, timeline: Timeline) -> tuple[str, Heartbeat] | None:
        """Return the time and the heartbeat, once; None if the timeline has a time as late."""
        begun, self._begun = self._begun, None
        if begun is not None and begun[0] <= timeline.latest_time:
            _end_unused(*begun, timeline)
            return None
        return begun

    def drop(self) -> None:
        """End the heartbeat unless it was taken."""
        begun, self._begun = self._begun, None
        if begun is not None:
            _end_unused(*begun, None)


def _end_unused(time: str, heartbeat: Heartbeat, timeline: Timeline | None) -> None:
    if timeline is not None and time in timeline.requested_times:
        heartbeat.abandon()  # the file is that of another writer's instant too
    else:
        heartbeat.stop()
