"""A machine that behaves the same each time, for tests that run a writer again and again.

Does no I/O and starts no thread. Two writers on machines of equal seed and time write the same
bytes under the same names, so that their files can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from bucketfmt.timeline.locking.held_mutex import HeldMutex
from bucketfmt.timeline.machine import Machine

__all__ = ["ByHand", "SimulatedMachine"]

_START_S = 1_700_000_000.0


class ByHand:
    """A function that a writer wants repeated in the background; the test calls it instead.

    Attributes:
        call: The function; returns whether to repeat it.
        interval_s: The interval in seconds.
        stopped: Whether the writer has stopped it.
    """

    def __init__(self, call: Callable[[], bool], interval_s: float) -> None:
        self.call = call
        self.interval_s = interval_s
        self.stopped = False

    def stop(self) -> None:
        """See `Repeating.stop`."""
        self.stopped = True


class SimulatedMachine:
    """A machine whose clock advances by sleeping only, and whose random numbers follow a seed.

    Attributes:
        time: The time of its clocks, in seconds since the epoch. May be set.
        repeated: The functions that were started in the background, in order.
    """

    def __init__(self, seed: int = 0, time: float = _START_S) -> None:
        self.time = time
        self.repeated: list[ByHand] = []
        self._random = Random(seed)  # noqa: S311  (chooses names, keeps no secret)

    @property
    def machine(self) -> Machine:
        """The machine for `WriterConfig(machine=...)`."""
        return Machine(
            now=self.now,
            monotonic=self.now,
            sleep=self.sleep,
            acquire=self.acquire,
            randbits=self._random.getrandbits,
            repeat=self.repeat,
            processors=1,
        )

    def now(self) -> float:
        """Return the time."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Advance the clock."""
        self.time += seconds

    def acquire(self, mutex: HeldMutex, timeout_s: float) -> bool:
        """Acquire a mutex. Its holder does not run meanwhile, so waiting ends in a timeout."""
        if mutex.acquire(0):
            return True
        self.sleep(timeout_s)
        return False

    def repeat(self, call: Callable[[], bool], interval_s: float) -> ByHand:
        """Record a function for the background, which only the test calls."""
        begun = ByHand(call, interval_s)
        self.repeated.append(begun)
        return begun
