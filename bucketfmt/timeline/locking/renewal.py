"""Calls a function repeatedly in the background while a writer works.

Runs a thread. For leases and heartbeats, which expire unless they are renewed. Counterpart of
Hudi's `LockProviderHeartbeatManager` and its timers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import MethodType
from typing import Protocol
from weakref import WeakMethod

from bucketfmt.errors import BucketfmtError

__all__ = ["Renewal", "Repeating"]


class Repeating(Protocol):
    """A function that is called repeatedly."""

    def stop(self) -> None:
        """Return when no call is under way and none will follow."""


class Renewal:
    """Calls a function every so many seconds, until it returns False or `stop` is called.

    A failing store does not end the calls: the next call may succeed. The owner of a lease checks
    when the last call succeeded. The calls end, too, once nobody has the owner of a method any
    more: an interrupt (Ctrl-C) may come before anybody was told that it had begun.
    """

    def __init__(self, renew: Callable[[], bool], interval_s: float) -> None:
        """Start; the first call is after one interval."""
        is_method = isinstance(renew, MethodType)
        self._find: Callable[[], Callable[[], bool] | None] = (
            WeakMethod(renew) if is_method else lambda: renew
        )
        self._interval_s = interval_s
        self._stopped = threading.Event()
        # A daemon: a process that ends without stopping it must not be kept alive by it.
        self._thread = threading.Thread(target=self._run, name="bucketfmt-renewal", daemon=True)
        try:
            self._thread.start()
        except BaseException:  # interrupted while the thread began: nobody could stop it later
            self._stopped.set()
            raise

    def stop(self) -> None:
        """Return when no call is under way and none will follow."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            try:
                if not self._renew():
                    return
            except BucketfmtError:  # noqa: PERF203  (minutes apart)
                continue

    def _renew(self) -> bool:
        renew = self._find()
        return renew is not None and renew()
