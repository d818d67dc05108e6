"""Two writers on one table, the second at work during the first.

The second writer does all of its work before operation 1 of the first, then before operation 2,
and so on, so that the two meet in every possible state. They are two processes whose
clocks agree, or two threads that share one `Table`. A thread that waits for a thread that does not
continue ends in `LockTimeoutError`, and the waiting takes no real time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

from bucketfmt.api.table import Table
from bucketfmt.errors import BucketfmtError
from bucketfmt.testing.crashes import SimulatedProcess
from bucketfmt.testing.faulty_store import Fault, FaultyStore
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import Operation
from bucketfmt.write.commit.open import WriterConfig

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
) -> Iterator[Interleaving]:
    """Yield the state after two pieces of work, for each operation of the first.

    Args:
        files: The files at the beginning; they are copied.
        first: The work that is interrupted. It may raise `BucketfmtError`.
        second: The work that is done meanwhile, from opening the table to its end. It may raise
            `BucketfmtError`.
        process: Number of the process that does the first work.
        writer: The configuration of both writers.
        shared: Whether the two are threads that share one `Table`, which is opened before; else
            they are processes, and each opens the table.
    """
    for at in count(1):
        store = files.copy()
        if shared:
            met = _interleave_threads(store, at, first, second, process, writer)
            if met is None:
                return
            yield met
            continue
        meanwhile = SimulatedProcess(store, process, writer, chance=process + _SECOND)
        interrupted = _InterruptedStore(
            store,
            at,
            lambda p=meanwhile: _run(lambda: second(p.open())),  # type: ignore[misc]
        )
        interrupting = SimulatedProcess(store, process, writer, store=interrupted)
        outcome = _run(lambda p=interrupting: first(p.open()))  # type: ignore[misc]
        if interrupted.outcome is None:
            return
        yield Interleaving(store, interrupted.operations[at - 1], outcome, interrupted.outcome)


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


class _InterruptedStore(FaultyStore):
    """Calls a function before one operation."""

    def __init__(self, store: MemoryStore, at: int, interrupt: Callable[[], Outcome]) -> None:
        super().__init__(store)
        self._at = at
        self._interrupt = interrupt
        self._is_interrupted = False
        self.outcome: Outcome | None = None

    def _count(self, operation: Operation) -> Fault | None:
        fault = super()._count(operation)
        if not self._is_interrupted and len(self.operations) == self._at:
            self._is_interrupted = True  # what the other does on this store is not counted
            self.outcome = self._interrupt()
        return fault


def _run(act: Callable[[], object]) -> Outcome:
    try:
        return Outcome(None, act())
    except BucketfmtError as error:
        return Outcome(error)
