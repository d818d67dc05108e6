"""What a writer uses of its machine: clocks, random numbers, and background threads.

No I/O of its own. A test replaces the machine to run a writer that behaves the same in each run:
`bucketfmt.testing.SimulatedMachine`.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from bucketfmt.timeline.locking.held_mutex import HeldMutex
from bucketfmt.timeline.locking.renewal import Renewal, Repeating

__all__ = ["Machine"]


def _randbits(number: int) -> int:
    return secrets.randbits(number)  # which does not pickle itself, and writers do


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine.

    Attributes:
        now: Returns seconds since the epoch.
        monotonic: Returns seconds of a clock that is never set.
        sleep: Waits for that many seconds.
        acquire: Takes a mutex of this process, waiting at most that many seconds for it.
        randbits: Returns a number of that many random bits.
        repeat: Calls a function every so many seconds until it returns False.
        processors: How many files to work on at a time; None for as many as there are processors.
    """

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    acquire: Callable[[HeldMutex, float], bool] = HeldMutex.acquire
    randbits: Callable[[int], int] = _randbits
    repeat: Callable[[Callable[[], bool], float], Repeating] = Renewal
    processors: int | None = None

    def random(self) -> float:
        """Return a number from 0 up to 1."""
        return self.randbits(53) / (1 << 53)

    def new_uuid(self) -> str:
        """Return a random UUID."""
        return str(uuid.UUID(int=self.randbits(128), version=4))

    def new_attempt(self) -> int:
        """Return the last number of a write token, which no other attempt has: 31 bits."""
        return self.randbits(31)
