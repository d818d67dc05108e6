"""Announces the data files that one process writes for an instant, by markers.

I/O. A marker is on the store before its data file is. The markers of many files are put together;
over a network, while the files are being made. Source: DirectWriteMarkers, and
TimelineServerBasedWriteMarkers, whose server is here the process itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count

from bucketfmt.format.names.names import MarkerName
from bucketfmt.storage.store import Store
from bucketfmt.storage.streams import beside
from bucketfmt.timeline.locking.heartbeat import is_kept_up
from bucketfmt.timeline.markers import put_marker, put_marker_file, put_markers_together

__all__ = ["Announcer"]

_TOGETHER_MIN = 3  # fewer cost no more requests as direct markers, which nobody has to read


class Announcer:
    """Announces files of one instant. Safe to use from several threads.

    Attributes:
        store: The table's files.
        requested_time: Of the instant.
    """

    def __init__(self, store: Store, requested_time: str) -> None:
        """Set up; nothing is announced yet."""
        self.store = store
        self.requested_time = requested_time
        self._together: frozenset[MarkerName] = frozenset()
        self._wait: Callable[[], int] | None = None  # until these are announced
        self._others: set[MarkerName] = set()
        self._numbers = count()  # of the files of markers after those

    @contextmanager
    def together(self, markers: Sequence[MarkerName]) -> Iterator[None]:
        """Announce files by a few requests: on a disk before the body, else while it makes them.

        To be used where no other process writes files of the instant; again for further files,
        not before the body is left. As `early`, only the process that keeps the instant alive does
        so. On a disk, a marker for each file would be two or three waits for the disk for each.

        Raises:
            StorageError: the store failed.
        """
        # Hudi looks for no direct markers of an instant that has files of markers.
        are_direct = self._wait is None and (self._others or len(markers) < _TOGETHER_MIN)
        if are_direct or not is_kept_up(self.store, self.requested_time):
            yield
            return
        if self._wait is None:
            put = partial(put_markers_together, self.store, self.requested_time, markers)
        else:
            put = partial(self._put_more, self._wait(), markers)
        with beside(self.store, put) as wait:
            self._together |= frozenset(markers)
            self._wait = wait
            yield

    @contextmanager
    def early(self, marker: MarkerName) -> Iterator[None]:
        """Announce a file over a network while the body makes it.

        Only the process that keeps the instant alive does so early, since it ends the instant after
        the body: files of other processes are announced right before they are put, once it is known
        that the instant has not ended.

        Raises:
            StorageError: the store failed.
        """
        is_early = not self.store.failures_are_final and is_kept_up(self.store, self.requested_time)
        if self._wait is not None or not is_early:
            yield
            return
        with beside(self.store, partial(self.announce, marker)):
            yield

    def announce(self, marker: MarkerName) -> None:
        """Return once a file is announced: a second call does nothing.

        Raises:
            StorageError: the store failed; the marker may exist, which does no harm.
        """
        if marker in self._others:
            return
        if self._wait is None:
            put_marker(self.store, self.requested_time, marker)
        else:
            first = self._wait()
            if marker in self._together:
                return
            self._put_more(first, (marker,))
        self._others.add(marker)

    def _put_more(self, first: int, markers: Collection[MarkerName]) -> int:
        """Put one more file of markers after the first ones; return what `_wait` does."""
        number = first + next(self._numbers)
        put_marker_file(self.store, self.requested_time, number, markers)
        return first
