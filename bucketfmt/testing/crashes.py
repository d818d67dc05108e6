"""Every crash and every failure that a piece of work can meet, one at a time.

Runs the work on copies of a table in memory, with a fault at its first operation, its second
operation, and so on until the work ends before the fault. The caller asserts what has to hold.

The processes are simulated: process 1 works an hour after process 0, and so on, each with a
random seed of its own. So the same work leaves the same bytes, and the states after two faults
can be compared: `Looks` examines each state once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count
from typing import TypeVar

from bucketfmt.api.table import Table
from bucketfmt.errors import BucketfmtError, CommitUnknownError
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.store import WRITE_VERBS
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore, Killed
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import Operation
from bucketfmt.testing.simulated_machine import SimulatedMachine
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.write.commit.writer_config import WriterConfig

__all__ = [
    "CRASHES",
    "FAILURES",
    "Aftermath",
    "Ending",
    "Looks",
    "SimulatedProcess",
    "kill_everywhere",
    "strike",
    "strike_everywhere",
]

CRASHES = (Fault.KILL_BEFORE, Fault.KILL_AFTER, Fault.KILL_TORN)
FAILURES = (Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.FAIL_LATE)

_T = TypeVar("_T")

_FIRST_PROCESS_S = 1_700_000_000.0
_HOUR_S = 3_600.0
_DEFAULT = WriterConfig()


class Ending(Enum):
    """What the process that did the work knows about its outcome."""

    DONE = "returned"
    REFUSED = "raised, so that nothing was done"
    UNKNOWN = "died, or raised that it is not known"


@dataclass(frozen=True)
class Aftermath:
    """The state after one fault.

    Attributes:
        store: The files.
        plan: Which operation was struck, and how.
        operation: The operation as text.
        error: The exception of the work; None if the work returned.
        value: The return value of the work.
    """

    store: MemoryStore
    plan: FaultPlan
    operation: str
    error: BaseException | None
    value: object = None

    @property
    def ending(self) -> Ending:
        """What the process knows about the outcome of the work."""
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
    """Calls a function for each aftermath, and once only for aftermaths that are equal.

    A kill after one operation leaves the same files as a kill before the next operation.

    Attributes:
        points: Number of aftermaths.
        states: Number of different aftermaths, by their files and by their ending.
    """

    def __init__(self, look: Callable[[Aftermath], None]) -> None:
        self._look = look
        self._seen: set[object] = set()
        self.points = 0

    @property
    def states(self) -> int:
        """Number of different aftermaths."""
        return len(self._seen)

    def __call__(self, aftermath: Aftermath) -> None:
        """Call the function, unless it was called for an equal aftermath."""
        self.points += 1
        state = aftermath.ending, aftermath.store.state
        if state not in self._seen:
            self._look(aftermath)
            self._seen.add(state)


class SimulatedProcess:
    """One run of a program, an hour after the run before, with a random seed of its own.

    Attributes:
        store: The store through which the process sees the files.
        machine: What it runs on, with a clock of its own.
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
        time: float | None = None,
    ) -> None:
        """Begin a process.

        Args:
            files: The files that the process changes.
            number: Number of the process: determines its time and its random seed.
            writer: The writer's configuration; its machine is replaced by a simulated machine.
            plan: The fault that strikes the process.
            store: The store to use, in place of `files` with the fault.
            chance: The random seed; by default the number.
            time: When it begins, in seconds since the epoch; by default the number tells.
        """
        seed = number if chance is None else chance
        begins = _FIRST_PROCESS_S + number * _HOUR_S if time is None else time
        self.machine = SimulatedMachine(seed, begins)
        files.now = self.machine.now
        self.store = store or FaultyStore(files, plan)
        self._writer = replace(writer, machine=self.machine.machine)

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
    """Return the state after one fault; None if the work ended before the fault.

    Args:
        files: The files at the beginning; they are copied.
        act: The work. A `BucketfmtError` of the work is returned, any other exception is raised.
        plan: The fault. The operations that open the table count too.
        process: Number of the process that does the work.
        writer: The writer's configuration.
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
    numbers: Sequence[int] | None = None,
) -> Iterator[Aftermath]:
    """Yield the state after a fault at each operation of some work, as `strike` returns it.

    Args:
        files: The files at the beginning.
        act: The work.
        faults: The kinds of fault; each strikes every operation.
        verbs: Strike only these operations; all by default.
        lasting: Whether the fault also strikes all later operations.
        process: Number of the process that does the work.
        writer: The writer's configuration.
        numbers: Numbers of the operations to strike, ascending, from 1; all by default.
    """
    for fault in faults:
        for at in count(1) if numbers is None else numbers:
            plan = FaultPlan(at, fault, verbs, lasting)
            aftermath = strike(files, act, plan, process=process, writer=writer)
            if aftermath is None:
                break
            yield aftermath


def kill_everywhere(
    files: MemoryStore,
    act: Callable[[Table], object],
    *,
    process: int = 1,
    writer: WriterConfig = _DEFAULT,
) -> list[Aftermath]:
    """Return the state after each kill of `CRASHES` at each operation of some work, done once.

    A kill leaves the files as they are between two operations of the work, or amid an operation:
    nothing that the work does afterwards has an effect. So the states are those that
    `strike_everywhere` finds by doing the work again for each kill.

    Args:
        files: The files at the beginning; they are copied.
        act: The work.
        process: Number of the process that does the work.
        writer: The writer's configuration.
    """
    running = _MortalStore(files.copy())
    act(SimulatedProcess(running.files, process, writer, store=running).open())
    return running.left


class _MortalStore(FaultyStore):
    """Keeps the files as a kill before, amid and after each operation would leave them.

    Attributes:
        files: The files.
        left: What the kills would leave.
    """

    def __init__(self, files: MemoryStore) -> None:
        super().__init__(files)
        self.files = files
        self.left: list[Aftermath] = []

    def _do(
        self,
        verb: str,
        path: str,
        act: Callable[[], _T],
        tear: Callable[[], None] = lambda: None,
    ) -> _T:
        operation = Operation(verb, path)
        self._count(operation)
        self._keep(operation, Fault.KILL_BEFORE)
        if verb in WRITE_VERBS:
            whole = self._store
            self._store = self._keep(operation, Fault.KILL_TORN)
            tear()
            self._store = whole
        try:
            return act()
        finally:
            self._keep(operation, Fault.KILL_AFTER)

    def _keep(self, operation: Operation, fault: Fault) -> MemoryStore:
        store, plan = self.files.copy(), FaultPlan(len(self.operations), fault)
        text = f"{operation.verb} {operation.path}"
        self.left.append(Aftermath(store, plan, text, Killed(f"{text} {fault.value}")))
        return store
