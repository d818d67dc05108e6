"""Heartbeats: files that say the writer of a pending instant is alive.

Does I/O, runs a thread per instant. Source: `HoodieHeartbeatClient`,
`HoodieHeartbeatUtils`. Where writers clean up failed writes lazily
(`hoodie.clean.failed.writes.policy=LAZY`, the default with several writers), a pending
instant without a recent heartbeat is rolled back by whoever comes next. The file is
empty; the time it was last written is the heartbeat.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from weakref import WeakValueDictionary

from bucketfmt.errors import BucketfmtError, ConflictError
from bucketfmt.format.names.layout import HEARTBEAT_FOLDER, heartbeat_path
from bucketfmt.process import this_process
from bucketfmt.storage.store import FileInfo, Store
from bucketfmt.timeline.locking.renewal import Renewal, Repeating
from bucketfmt.timeline.locking.store_time import is_older, seems_older

__all__ = ["Heartbeat", "Heartbeats", "check_beating", "is_kept_up"]


def check_beating(store: Store, requested_time: str) -> None:
    """Refuse to go on with an instant that has ended.

    Called by tasks that write files of the instant. An abandoned attempt of a task may still run
    when the instant is published or rolled back, and nobody would remove the files that the attempt
    writes then.

    Raises:
        ConflictError: the instant has no heartbeat any more, or this process has missed too many of
            those that it was to write.
        StorageError: the store failed.
    """
    own = _kept_up.get((store.uri, requested_time))
    if own is not None and own.is_kept_up():
        return  # this process knows when the instant ends: no need to ask the store
    # Where it was missed, a file may be that of somebody who has begun the instant again.
    if own is not None and own.was_missed():
        raise _ended(requested_time)
    if store.info(heartbeat_path(requested_time)) is None:
        raise _ended(requested_time)


def is_kept_up(store: Store, requested_time: str) -> bool:
    """Return whether this process began the instant, which has not ended, and keeps it alive."""
    own = _kept_up.get((store.uri, requested_time))
    return own is not None and own.is_kept_up()


# The heartbeats that this process keeps up, by table and instant.
_kept_up: WeakValueDictionary[tuple[str, str], Heartbeat] = WeakValueDictionary()


def _ended(requested_time: str) -> ConflictError:
    return ConflictError(
        f"the write of {requested_time} has ended, published or taken back, while it was still "
        "being worked on; if no commit of that instant is there, write again"
    )


class Heartbeats:
    """Starts the heartbeats of a table's instants, and knows which instants have one.

    Keeps nothing in memory: the store tells whether a writer is alive, for writers in other
    processes and in other threads alike. Safe to use from several threads, and in a forked child.
    """

    def __init__(
        self,
        store: Store,
        *,
        interval_s: float = 60.0,
        misses_max: int = 2,
        now: Callable[[], float] = time.time,
        repeat: Callable[[Callable[[], bool], float], Repeating] = Renewal,
    ) -> None:
        """Set up the heartbeats of a table.

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
            raise ValueError(
                "the interval of heartbeats and the number of tolerated misses must "
                "be greater than 0"
            )
        self._store = store
        self._interval_s = interval_s
        self._tolerance_s = interval_s * misses_max
        self._now = now
        self._repeat = repeat

    def start(self, requested_time: str) -> Heartbeat:
        """Write the first heartbeat of an instant and keep on, until it is stopped.

        Hudi rolls back an instant without heartbeat: start before the instant is on the timeline.

        Raises:
            StorageError: the store failed; a heartbeat file may be left, which does no harm.
        """
        return self._begin(requested_time, is_joined=False)

    def join(self, requested_time: str) -> Heartbeat | None:
        """Continue the heartbeat of an instant that another writer began.

        The heartbeat continues until `stop`, at the end of the instant, or `abandon`, before the
        end.

        Returns:
            The heartbeat; None if the heartbeat is expired.

        Raises:
            ConflictError: the instant has no heartbeat, because the instant has ended.
            StorageError: the store failed.
        """
        if self._is_old(self._find(requested_time)):
            return None
        return self._begin(requested_time, is_joined=True)

    def revive(self, requested_time: str) -> Heartbeat:
        """Continue a heartbeat even if the heartbeat is expired. As `join` otherwise.

        The caller holds the table lock and has seen that nobody rolls the instant back.
        """
        self._find(requested_time)
        return self._begin(requested_time, is_joined=True)

    def discard(self, requested_time: str) -> None:
        """Remove the heartbeat that the dead writer of an instant has left.

        Raises:
            StorageError: the store failed.
        """
        self._store.delete(heartbeat_path(requested_time))

    def discard_unknown(self, known: Collection[str]) -> None:
        """Remove expired heartbeats of instants that never came, or are long done with.

        A writer that dies right after its first heartbeat leaves one. The caller holds the table
        lock.

        Args:
            known: The requested times of the active timeline.

        Raises:
            StorageError: the store failed.
        """
        for entry in self._store.list(HEARTBEAT_FOLDER):
            if not entry.is_dir and entry.name not in known and self._is_old(entry):
                self._store.delete(entry.path)

    def is_expired(self, requested_time: str) -> bool:
        """Return whether the writer of an instant counts as dead, or never had heartbeats.

        Raises:
            StorageError: the store failed.
        """
        info = self._store.info(heartbeat_path(requested_time))
        return info is None or self._is_old(info)

    def seems_expired(self, requested_time: str) -> bool:
        """As `is_expired`, by the clock of this process alone: nothing is written for it."""
        info = self._store.info(heartbeat_path(requested_time))
        return info is None or seems_older(info, self._tolerance_s, self._now)

    def _find(self, requested_time: str) -> FileInfo:
        info = self._store.info(heartbeat_path(requested_time))
        if info is None:
            raise _ended(requested_time)
        return info

    def _is_old(self, info: FileInfo) -> bool:
        return is_older(self._store, info, self._tolerance_s, self._now)

    def _begin(self, requested_time: str, *, is_joined: bool) -> Heartbeat:
        beat = Heartbeat(
            self._store, requested_time, self._tolerance_s, self._now, is_joined=is_joined
        )
        beat.begin(self._repeat, self._interval_s)
        if not is_joined:  # the end of an instant that others began is known to them
            _kept_up[self._store.uri, requested_time] = beat
        return beat


class Heartbeat:
    """The heartbeat of one instant, kept up by one writer. Used by that writer alone.

    In a forked child the heartbeat is lost: the parent owns the heartbeat and keeps it up.
    """

    def __init__(
        self,
        store: Store,
        requested_time: str,
        tolerance_s: float,
        now: Callable[[], float],
        *,
        is_joined: bool,
    ) -> None:
        """Set up; see `Heartbeats.start` and `Heartbeats.join`."""
        self._store = store
        self._path = heartbeat_path(requested_time)
        self._tolerance_s = tolerance_s
        self._now = now
        self._is_joined = is_joined
        self._process = this_process()
        self._renewal: Repeating | None = None
        self._last: float | None = None

    def begin(
        self, repeat: Callable[[Callable[[], bool], float], Repeating], interval_s: float
    ) -> None:
        """Write the heartbeat file, and begin to repeat that."""
        self._beat()
        self._renewal = repeat(self._beat_again, interval_s)

    def is_lost(self) -> bool:
        """Return whether it has missed too many, so that others may be rolling the instant back:
        the instant must not be published any more.
        """
        if self._process != this_process():
            return True
        return self._last is not None and self._now() - self._last > self._tolerance_s

    def is_kept_up(self) -> bool:
        """Return whether this process keeps it up: it has neither ended nor is it lost."""
        return self._renewal is not None and not self.is_lost()

    def was_missed(self) -> bool:
        """Return whether this process has missed too many that it was to write."""
        is_own = self._renewal is not None and self._process == this_process()
        return is_own and self.is_lost()

    def stop(self) -> None:
        """End the heartbeat at the end of the instant: remove its file. A second call does nothing.

        A file that cannot be removed is left: nobody reads the file after the instant ended.
        """
        if self._end():
            with suppress(BucketfmtError):
                self._store.delete(self._path)

    @contextmanager
    def stopped_on_error(self) -> Iterator[None]:
        """Stop the heartbeat where the body raises."""
        try:
            yield
        except BaseException:
            self.stop()
            raise

    def abandon(self) -> None:
        """End the heartbeat and leave its file, which expires after some time."""
        self._end()

    def _end(self) -> bool:
        """Return whether this process kept up the heartbeat."""
        renewal = self._renewal
        if renewal is None or self._process != this_process():
            return False
        self._renewal = None
        renewal.stop()
        return True

    def _beat_again(self) -> bool:
        """Write the heartbeat file, unless another writer has ended an instant that was joined."""
        if self._is_joined and self._store.info(self._path) is None:
            return False
        return self._beat()

    def _beat(self) -> bool:
        beaten = self._now()  # before the file's own time, so that others give up later than we
        if self.is_lost():
            return False  # too late to revive it
        self._store.replace(self._path, b"")
        if self.is_lost():
            return False  # the file was there too late: others may have seen that it was old
        self._last = beaten
        return True
