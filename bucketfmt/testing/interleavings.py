"""Two writers on one table, the second at work during the first.

The second writer does all of its work before operation 1 of the first, then before operation 2,
and so on, so that the two meet in every possible state. They are two processes whose
clocks agree, or two threads that share one `Table`. A thread that waits for a thread that does not
continue ends in `LockTimeoutError`, and the waiting takes no real time.

Of two processes nothing is done twice that comes out the same: the second does its work once for
each state of the files, and not before an operation of the first that reads what the second leaves
as it is, since to do the work after that operation is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import NamedTuple

from bucketfmt.api.table import Table
from bucketfmt.errors import BucketfmtError, LockTimeoutError
from bucketfmt.storage.store import WRITE_VERBS
from bucketfmt.testing.crashes import SimulatedProcess
from bucketfmt.testing.faulty_store import Fault, FaultyStore
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import Operation
from bucketfmt.testing.simulated_machine import SimulatedMachine
from bucketfmt.timeline.locking.in_process_lock import InProcessLock
from bucketfmt.timeline.locking.lock import Waiting
from bucketfmt.write.commit.writer_config import WriterConfig

__all__ = ["Interleaving", "Outcome", "interleave_everywhere"]

_DEFAULT = WriterConfig()
_SECOND = 1_000  # tells the second's chance from that of any first


@dataclass(frozen=True)
class Outcome:
    """The outcome of one writer's work.

    Attributes:
        error: The exception of the work; None if the work returned.
        value: The return value of the work.
    """

    error: BucketfmtError | None
    value: object = None

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}" if self.error else "returned"


@dataclass(frozen=True)
class Interleaving:
    """The state after two writers.

    Attributes:
        store: The files.
        operation: The operation of the first writer before which the second worked.
        first: The outcome of the first.
        second: The outcome of the second.
    """

    store: MemoryStore
    operation: Operation
    first: Outcome
    second: Outcome

    def __str__(self) -> str:
        verb, path = self.operation
        return f"before {verb} {path}; the first {self.first}; the second {self.second}"


def interleave_everywhere(
    files: MemoryStore,
    first: Callable[[Table], object],
    second: Callable[[Table], object],
    *,
    process: int = 1,
    writer: WriterConfig = _DEFAULT,
    shared: bool = False,
    still_s: float = 0,
    numbers: Sequence[int] | None = None,
) -> Iterator[Interleaving]:
    """Yield the state after two pieces of work, for each operation of the first.

    Left out are operations of a process before which the second work comes to the same as before
    the next operation.

    Args:
        files: The files at the beginning; they are copied.
        first: The work that is interrupted. It may raise `BucketfmtError`.
        second: The work that is done meanwhile, from opening the table to its end. It may raise
            `BucketfmtError`.
        process: Number of the process that does the first work.
        writer: The configuration of both writers.
        shared: Whether the two are threads that share one `Table`, which is opened before; else
            they are processes, and each opens the table.
        still_s: For how long the first stands still before the second works; of processes. Beyond
            its lease it loses the lock.
        numbers: Numbers of the operations of the first before which the second works, ascending,
            from 1; all by default. Threads do not count the operations that open the table.
    """
    if not shared:
        yield from _interleave_processes(files, first, second, process, writer, still_s, numbers)
        return
    for at in count(1) if numbers is None else numbers:
        met = _interleave_threads(files.copy(), at, first, second, process, writer)
        if met is None:
            return
        yield met


def _interleave_processes(
    files: MemoryStore,
    first: Callable[[Table], object],
    second: Callable[[Table], object],
    process: int,
    writer: WriterConfig,
    still_s: float,
    numbers: Container[int] | None,
) -> Iterator[Interleaving]:
    """Yield the states after two processes that differ."""

    def meet(left: MemoryStore) -> Outcome:
        now, chance = left.now, process + _SECOND
        time = now() + still_s if still_s else None
        meanwhile = SimulatedProcess(left, process, writer, chance=chance, time=time)
        if not still_s:
            left.now = now
        return _run(lambda: second(meanwhile.open()))

    alone = _WatchedStore(files.copy(), meet, numbers)
    running = SimulatedProcess(alone.files, process, writer, store=alone)
    _run(lambda: first(running.open()))
    following = [*alone.meetings[1:], None]
    for (at, operation, found, left, outcome), after in zip(alone.meetings, following, strict=True):
        comes_next = after is not None and after.at == at + 1 and after.left is left
        if comes_next and _reads_alike(operation, found, left):
            continue
        store = files.copy()
        interrupted = _InterruptedStore(store, at, partial(_become, store, left, outcome))
        interrupting = SimulatedProcess(store, process, writer, store=interrupted)
        if still_s:
            goes_on = partial(_go_on, interrupting.machine, left)
            interrupted.after_interrupt = goes_on
        done = _run(lambda p=interrupting: first(p.open()))  # type: ignore[misc]
        yield Interleaving(store, operation, done, outcome)


def _go_on(machine: SimulatedMachine, left: MemoryStore) -> None:
    """Set the clock of who stood still to that of who worked meanwhile."""
    machine.time = left.now() + 1


def _become(store: MemoryStore, left: MemoryStore, outcome: Outcome) -> Outcome:
    store.become(left)
    return outcome


def _reads_alike(operation: Operation, one: MemoryStore, other: MemoryStore) -> bool:
    """Whether an operation changes nothing, and finds the same in both stores."""
    verb, path = operation
    if verb in WRITE_VERBS or one.info(path) != other.info(path):
        return False
    if verb == "list":
        return one.list(path) == other.list(path)
    return one.files.get(path) == other.files.get(path)


def _interleave_threads(
    store: MemoryStore,
    at: int,
    first: Callable[[Table], object],
    second: Callable[[Table], object],
    process: int,
    writer: WriterConfig,
) -> Interleaving | None:
    """Return the state after two threads; None if the first ended before that operation."""
    opening = SimulatedProcess(store, process, writer)
    opening.open()
    at += len(opening.store.operations)
    tables: list[Table] = []
    interrupted = _InterruptedStore(store, at, lambda: _run(lambda: second(tables[0])))
    tables.append(SimulatedProcess(store, process, writer, store=interrupted).open())
    outcome = _run(lambda: first(tables[0]))
    if interrupted.outcome is None:
        return None
    return Interleaving(store, interrupted.operations[at - 1], outcome, interrupted.outcome)


class _Meeting(NamedTuple):
    """The second work before one operation of the first.

    Attributes:
        at: Number of the operation, from 1.
        operation: The operation.
        found: The files before the operation: the same object while they do not change.
        left: The files after the second work: the same object where the work is the same.
        outcome: The outcome of the second work.
    """

    at: int
    operation: Operation
    found: MemoryStore
    left: MemoryStore
    outcome: Outcome


class _WatchedStore(FaultyStore):
    """Has the second work done before operations, on copies of the files.

    Attributes:
        files: The files.
        meetings: One for each of the operations with these numbers, in order.
    """

    def __init__(
        self,
        files: MemoryStore,
        meet: Callable[[MemoryStore], Outcome],
        numbers: Container[int] | None,
    ) -> None:
        super().__init__(files)
        self.files = files
        self.meetings: list[_Meeting] = []
        self._meet = meet
        self._numbers = numbers
        self._met: _Meeting | None = None  # before an operation after which no file changed
        self._was_locked = False

    def _count(self, operation: Operation) -> Fault | None:
        at = len(self.operations) + 1
        if self._numbers is None or at in self._numbers:
            is_locked, met = _is_locked(self.files), self._met
            found = self.files.copy() if met is None else met.found
            if met is not None and is_locked == self._was_locked:
                left, outcome = met.left, met.outcome
            else:
                left = found.copy()
                outcome = self._meet(left)
            self._was_locked = is_locked
            self._met = _Meeting(at, operation, found, left, outcome)
            self.meetings.append(self._met)
        if operation.verb in WRITE_VERBS:
            self._met = None
        return super()._count(operation)


def _is_locked(files: MemoryStore) -> bool:
    """Whether a table is locked in this process, which its files do not tell."""
    lock = InProcessLock(files.uri, Waiting(timeout_s=0))
    try:
        lock.acquire()
    except LockTimeoutError:
        return True
    lock.release()
    return False


class _InterruptedStore(FaultyStore):
    """Calls a function before one operation."""

    def __init__(self, store: MemoryStore, at: int, interrupt: Callable[[], Outcome]) -> None:
        super().__init__(store)
        self._at = at
        self._interrupt = interrupt
        self._is_interrupted = False
        self.after_interrupt: Callable[[], object] = lambda: None
        self.outcome: Outcome | None = None

    def _count(self, operation: Operation) -> Fault | None:
        fault = super()._count(operation)
        if not self._is_interrupted and len(self.operations) == self._at:
            self._is_interrupted = True  # what the other does on this store is not counted
            self.outcome = self._interrupt()
            self.after_interrupt()
        return fault


def _run(act: Callable[[], object]) -> Outcome:
    try:
        return Outcome(None, act())
    except BucketfmtError as error:
        return Outcome(error)
