"""Every crash and every failure a piece of work can meet, one at a time.

Runs the work on copies of a table in memory, with a fault at its first operation, its second,
and so on until it ends without meeting it. What has to hold afterwards is the caller's to say.

The processes are simulated: number 1 works an hour after number 0, and so on, each with
chance of its own. So the same work leaves the same bytes, and what two faults left can be
compared: `Looks` looks at each state once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count

from bucketfmt.api import Table
from bucketfmt.errors import BucketfmtError, CommitUnknownError
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore, Killed
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.simulated_machine import SimulatedMachine
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.write.commit.open import WriterConfig

__all__ = [
    "CRASHES",
    "FAILURES",
    "Aftermath",
    "Ending",
    "Looks",
    "SimulatedProcess",
    "strike",
    "strike_everywhere",
]

CRASHES = (Fault.KILL_BEFORE, Fault.KILL_AFTER, Fault.KILL_TORN)
FAILURES = (Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.FAIL_LATE)

_FIRST_PROCESS_S = 1_700_000_000.0
_HOUR_S = 3_600.0
_DEFAULT = WriterConfig()


class Ending(Enum):
    """What whoever did the work knows of it."""

    DONE = "returned"
    REFUSED = "raised, so that nothing was done"
    UNKNOWN = "died, or raised that it is not known"


@dataclass(frozen=True)
class Aftermath:
    """What one fault left.

    Attributes:
        store: The files, to be looked at by somebody else.
        plan: Which operation was struck, and how.
        operation: It, as text.
        error: What the work raised; None if it returned.
        value: What it returned.
    """

    store: MemoryStore
    plan: FaultPlan
    operation: str
    error: BaseException | None
    value: object = None

    @property
    def ending(self) -> Ending:
        """What is known of the work."""
        if self.error is None:
            return Ending.DONE
        if isinstance(self.error, Killed | CommitUnknownError):
            return Ending.UNKNOWN
        return Ending.REFUSED

    def __str__(self) -> str:
        lasting = " from there on" if self.plan.lasting else ""
        how = f"{self.plan.at}: {self.operation} {self.plan.fault.value}{lasting}"
        return f"{how}; {type(self.error).__name__ if self.error else 'returned'}: {self.error}"


class Looks:
    """Looks at what faults left, at the same state once.

    A process killed after one operation leaves what one killed before the next does.

    Attributes:
        points: How many aftermaths there were.
        states: How many of them differed, in a file or in what was known of the work.
    """

    def __init__(self, look: Callable[[Aftermath], None]) -> None:
        self._look = look
        self._seen: set[object] = set()
        self.points = 0

    @property
    def states(self) -> int:
        """How many were looked at."""
        return len(self._seen)

    def __call__(self, aftermath: Aftermath) -> None:
        """Look, unless that was looked at before."""
        self.points += 1
        state = aftermath.ending, aftermath.store.state
        if state not in self._seen:
            self._look(aftermath)
            self._seen.add(state)


class SimulatedProcess:
    """One run of a program, an hour after the one before, with chance of its own.

    Attributes:
        store: How it sees the files.
    """

    def __init__(
        self,
        files: MemoryStore,
        number: int,
        writer: WriterConfig = _DEFAULT,
        plan: FaultPlan | None = None,
        *,
        store: FaultyStore | None = None,
        chance: int | None = None,
    ) -> None:
        """Begin a process.

        Args:
            files: It changes them.
            number: Which process it is: tells its time and chance.
            writer: How it writes; on a machine that is simulated.
            plan: What befalls it.
            store: How it sees the files, if not so.
            chance: That of another process.
        """
        seed = number if chance is None else chance
        machine = SimulatedMachine(seed, _FIRST_PROCESS_S + number * _HOUR_S)
        files.now = machine.now
        self.store = store or FaultyStore(files, plan)
        self._writer = replace(writer, machine=machine.machine)

    def open(self) -> Table:
        """Return the table."""
        config = load_config(self.store, DEFAULT_LIMITS)
        return Table(self.store, config, DEFAULT_LIMITS, None, self._writer)


def strike(
    files: MemoryStore,
    act: Callable[[Table], object],
    plan: FaultPlan,
    *,
    process: int = 1,
    writer: WriterConfig = _DEFAULT,
) -> Aftermath | None:
    """Return what is left after one fault; None if the work ended before it.

    Args:
        files: What the work begins with; they are copied.
        act: The work. It may raise `BucketfmtError`, and anything else it raises is raised here.
        plan: The fault. Opening the table counts too.
        process: Number of the process that does the work.
        writer: How it writes.
    """
    store = files.copy()
    running = SimulatedProcess(store, process, writer, plan)
    error: BaseException | None = None
    value = None
    try:
        value = act(running.open())
    except (BucketfmtError, Killed) as raised:
        error = raised
    struck = running.store.struck
    if struck is None:
        if error is not None:
            raise error
        return None
    running.store.deliver()
    return Aftermath(store, plan, f"{struck.verb} {struck.path}", error, value)


def strike_everywhere(
    files: MemoryStore,
    act: Callable[[Table], object],
    faults: Iterable[Fault],
    *,
    verbs: frozenset[str] | None = None,
    lasting: bool = False,
    process: int = 1,
    writer: WriterConfig = _DEFAULT,
) -> Iterator[Aftermath]:
    """Yield what is left after a fault at each operation of some work, as `strike` does.

    Args:
        files: What the work begins with.
        act: The work.
        faults: The kinds of fault; each strikes every operation.
        verbs: Strike only these operations; all by default.
        lasting: The fault lasts from its first operation on.
        process: Number of the process that does the work.
        writer: How it writes.
    """
    for fault in faults:
        for at in count(1):
            plan = FaultPlan(at, fault, verbs, lasting)
            aftermath = strike(files, act, plan, process=process, writer=writer)
            if aftermath is None:
                break
            yield aftermath
