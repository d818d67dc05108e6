"""A mutex that tells which thread holds it, for errors of those that wait. Sleeps."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from bucketfmt.process import Mutex

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


class HeldMutex(Mutex):
    """A mutex that tells who took it last, as far as they say so.

    Attributes:
        holder: The last thread that said so; None before the first.
    """

    __slots__ = ("holder",)

    def __init__(self) -> None:
        """Set up; nobody holds it."""
        super().__init__()
        self.holder: Holder | None = None
