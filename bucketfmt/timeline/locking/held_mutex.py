"""A mutex that tells which thread holds it, for errors of those that wait. Sleeps."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from bucketfmt.process import fork_safe

__all__ = ["HeldMutex", "Holder"]


@dataclass(frozen=True)
class Holder:
    """The thread of this process that took a mutex, and when, by a clock that never goes back."""

    thread: str
    taken: float

    @classmethod
    def this_thread(cls, now: float) -> Holder:
        """Return the calling thread, which takes the mutex now."""
        return cls(threading.current_thread().name, now)

    def describe_time(self, now: float) -> str:
        """Return for how long the thread has had the mutex."""
        return f"{max(0.0, now - self.taken):.0f} s"


class HeldMutex:
    """A lock between threads that is held for long, and tells who took it, as far as they say so.

    A thread that is interrupted (Ctrl-C) while it acquires the mutex may have it, without the call
    having returned: whoever calls `acquire` calls `release` in any case.

    Attributes:
        holder: The last thread that said so; None before the first.
    """

    __slots__ = ("__weakref__", "_lock", "holder")

    def __init__(self) -> None:
        """Set up; nobody holds it."""
        self._lock: Any = fork_safe(threading.RLock())  # which tells whether this thread has it
        self.holder: Holder | None = None

    def is_own(self) -> bool:
        """Whether this thread holds the mutex."""
        return bool(self._lock._is_owned())

    def acquire(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` seconds for the mutex; return whether this thread takes it now.

        A thread that has the mutex does not get it again.
        """
        if self.is_own():
            return False
        if timeout_s <= 0:
            return bool(self._lock.acquire(blocking=False))
        return bool(self._lock.acquire(timeout=min(timeout_s, threading.TIMEOUT_MAX)))

    def release(self) -> None:
        """Free the mutex if this thread has it."""
        if self.is_own():
            self._lock.release()
