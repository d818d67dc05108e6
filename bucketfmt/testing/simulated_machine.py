"""A machine that is the same each time: for tests that run a writer again and again.

Does no I/O and starts no thread. Two writers on machines of one seed and time write the same
bytes under the same names, so that what they leave can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from bucketfmt.process import Mutex
from bucketfmt.timeline.machine import Machine

__all__ = ["ByHand", "SimulatedMachine"]

_START_S = 1_700_000_000.0


class ByHand:
    """What a writer would do in the background, and does when it is called instead.

    Attributes:
        call: What is repeated; returns whether it is to be.
        interval_s: After how many seconds.
        stopped: Whether the writer has ended it.
    """

    def __init__(self, call: Callable[[], bool], interval_s: float) -> None:
        self.call = call
        self.interval_s = interval_s
        self.stopped = False

    def stop(self) -> None:
        """See `Repeating.stop`."""
        self.stopped = True


class SimulatedMachine:
    """Its clock stands still but for sleeping, and its chance is that of a seed.

    Attributes:
        time: What its clocks say, in seconds since the epoch. May be set.
        repeated: What was begun in the background, in order.
    """

    def __init__(self, seed: int = 0, time: float = _START_S) -> None:
        self.time = time
        self.repeated: list[ByHand] = []
        self._random = Random(seed)  # noqa: S311  (chooses names, keeps no secret)

    @property
    def machine(self) -> Machine:
        """What a writer takes: `WriterConfig(machine=...)`."""
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
        """Let time pass."""
        self.time += seconds

    def acquire(self, mutex: Mutex, timeout_s: float) -> bool:
        """Take a mutex. Who has it does not go on meanwhile: then the time passes in vain."""
        if mutex.acquire(0):
            return True
        self.sleep(timeout_s)
        return False

    def repeat(self, call: Callable[[], bool], interval_s: float) -> ByHand:
        """Begin something in the background, where nothing happens by itself."""
        begun = ByHand(call, interval_s)
        self.repeated.append(begun)
        return begun
