"""Heartbeats: files that say the writer of a pending instant is alive.

Does I/O, runs a thread per instant. Source: `HoodieHeartbeatClient`,
`HoodieHeartbeatUtils`. Where writers clean up failed writes lazily
(`hoodie.clean.failed.writes.policy=LAZY`, the default with several writers), a pending
instant without a recent heartbeat is rolled back by whoever comes next. The file is
empty; the time it was last written is the heartbeat.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from bucketfmt.errors import BucketfmtError, ConflictError
from bucketfmt.format.paths import join_path
from bucketfmt.storage.store import FileInfo, Store
from bucketfmt.timeline.renewal import Renewal, Repeating

__all__ = ["Heartbeats", "check_beating"]

_FOLDER = ".hoodie/.heartbeat"


def check_beating(store: Store, requested_time: str) -> None:
    """Refuse to go on with an instant that has ended.

    For whoever writes its files: an attempt of a task that everybody has given up may still be
    running when the instant is published or taken back, and what it writes then, nobody removes.

    Raises:
        ConflictError: nothing beats for it any more.
        StorageError: the store failed.
    """
    if store.info(join_path(_FOLDER, requested_time)) is None:
        raise _ended(requested_time)


def _ended(requested_time: str) -> ConflictError:
    return ConflictError(
        f"the write of {requested_time} has ended, published or taken back, while it was still "
        "being worked on; if no commit of that instant is there, write again"
    )


class Heartbeats:
    """Keeps the heartbeats of one writer's instants going, and knows those of others."""

    def __init__(
        self,
        store: Store,
        *,
        interval_s: float = 60.0,
        misses_max: int = 2,
        now: Callable[[], float] = time.time,
        repeat: Callable[[Callable[[], bool], float], Repeating] = Renewal,
    ) -> None:
        """Set up the heartbeats of a table; none beats yet.

        Args:
            store: The table's files.
            interval_s: `hoodie.client.heartbeat.interval_in_ms`, in seconds.
            misses_max: `hoodie.client.heartbeat.tolerable.misses`: a heartbeat is expired
                when it is older than so many intervals. The same for all writers.
            now: Returns seconds since the epoch.
            repeat: Calls a function every so many seconds.

        Raises:
            ValueError: the interval or the number of misses is not positive.
        """
        if interval_s <= 0 or misses_max <= 0:
            raise ValueError("heartbeats need an interval and a number of misses above 0")
        self._store = store
        self._interval_s = interval_s
        self._tolerance_s = interval_s * misses_max
        self._now = now
        self._repeat = repeat
        self._last: dict[str, float] = {}  # of those that beat here
        self._renewals: dict[str, Repeating] = {}

    def start(self, requested_time: str) -> None:
        """Write the first heartbeat of an instant and keep on, until it is stopped.

        Hudi rolls back what has no heartbeat: start before the instant is on the timeline.

        Raises:
            ValueError: it beats already.
            StorageError: the store failed; a heartbeat may be left, which hurts no one.
        """
        if requested_time in self._renewals:
            raise ValueError(f"the heartbeat of {requested_time} is started already")
        self._keep_on(requested_time, self._beat)

    def join(self, requested_time: str, *, revive: bool = False) -> bool:
        """Keep on with the heartbeat of an instant that another process has begun.

        Until it is stopped, with the instant, or abandoned, without.

        Args:
            requested_time: The instant.
            revive: Even if it has missed too many. For who holds the table lock and has seen
                that nobody rolls the instant back.

        Returns:
            Whether it beats here now: it does not if it has missed too many.

        Raises:
            ConflictError: it has none: the instant has ended.
            StorageError: the store failed.
        """
        info = self._store.info(join_path(_FOLDER, requested_time))
        if info is None:
            raise _ended(requested_time)
        if not revive and self._is_old(info):
            return False
        self._keep_on(requested_time, self._beat_if_there)
        return True

    def stop(self, requested_time: str) -> None:
        """End the heartbeat of an instant and remove its file; nothing happens if none beats.

        A file that cannot be removed is left: nothing looks at it once the instant ended.
        """
        renewal = self._renewals.pop(requested_time, None)
        if renewal is None:
            return
        renewal.stop()
        del self._last[requested_time]
        try:
            self._store.delete(join_path(_FOLDER, requested_time))
        except BucketfmtError:
            return

    def discard(self, requested_time: str) -> None:
        """Remove the heartbeat that the dead writer of an instant has left.

        Raises:
            StorageError: the store failed.
        """
        self._store.delete(join_path(_FOLDER, requested_time))

    def abandon(self, requested_time: str) -> None:
        """End the heartbeat of an instant and leave its file: others find it expired in time."""
        renewal = self._renewals.pop(requested_time, None)
        if renewal is not None:
            renewal.stop()

    def is_lost(self, requested_time: str) -> bool:
        """Return whether an instant that beats here has missed too many, so that others may
        be rolling it back: it must not be published any more.
        """
        last = self._last.get(requested_time)
        return last is not None and self._now() - last > self._tolerance_s

    def is_expired(self, requested_time: str) -> bool:
        """Return whether an instant's writer has to be taken for dead, or never had heartbeats.

        Raises:
            StorageError: the store failed.
        """
        if requested_time in self._last:
            return self.is_lost(requested_time)
        info = self._store.info(join_path(_FOLDER, requested_time))
        return info is None or self._is_old(info)

    def _is_old(self, info: FileInfo) -> bool:
        # Where the store tells no times, a writer is never taken for dead.
        return info.modified is not None and self._now() - info.modified > self._tolerance_s

    def _keep_on(self, requested_time: str, beat: Callable[[str], bool]) -> None:
        self._beat(requested_time)
        self._renewals[requested_time] = self._repeat(
            lambda: beat(requested_time), self._interval_s
        )

    def _beat_if_there(self, requested_time: str) -> bool:
        """Beat, but not for an instant that another process has ended."""
        if self._store.info(join_path(_FOLDER, requested_time)) is None:
            return False
        return self._beat(requested_time)

    def _beat(self, requested_time: str) -> bool:
        beaten = self._now()  # before the file's own time, so that others give up later than we
        if self.is_lost(requested_time):
            return False  # too late to revive it
        self._store.replace(join_path(_FOLDER, requested_time), b"")
        self._last[requested_time] = beaten
        return True
