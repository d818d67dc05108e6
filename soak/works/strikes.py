"""Strikes what is done to a table, everywhere, and looks at what is left.

After every fault the table reads as before or as after, whoever writes next succeeds and takes
away what the dead left, and the check finds nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import bucketfmt as bf
from bucketfmt.format.names.layout import FILE_LOCK, LEASE
from bucketfmt.storage.store import WRITE_VERBS
from bucketfmt.testing.crashes import (
    Aftermath,
    Ending,
    Looks,
    SimulatedProcess,
    kill_everywhere,
    strike_everywhere,
)
from bucketfmt.testing.faulty_store import Fault, FaultPlan
from bucketfmt.testing.memory_store import MemoryStore
from soak.covering import spread
from soak.works.works import NEXT, Kind, Row, Work, make, read_rows, rows

__all__ = [
    "ALL",
    "FAULTS",
    "Points",
    "Share",
    "Tally",
    "count_points",
    "strike_recovery",
    "strike_work",
]

_WORKER, _FOLLOWER, _THIRD = 2, 3, 4

FAULTS = ("crashes", "errors")
"""Kills, and failures of an operation or of all from one on."""


@dataclass(frozen=True)
class Share:
    """How many faults of a kind, and how many states after kills, are taken of all.

    Attributes:
        most: The largest number; None for all.
        seed: Another seed takes others.
    """

    most: int | None = None
    seed: str = ""

    def numbers(self, of: int, drawn: str) -> range:
        """Return which ones of so many are taken, from 1."""
        return spread(of, self.most, f"{self.seed} {drawn}")


ALL = Share()


@dataclass(frozen=True)
class Points:
    """How many faults there are.

    Attributes:
        crashes: Kills.
        errors: Failures of an operation, or of all from one on.
    """

    crashes: int = 0
    errors: int = 0


@dataclass(frozen=True)
class Tally:
    """What came of striking.

    Attributes:
        points: Faults.
        states: How many different states they left, each of which was looked at.
        bad: What is wrong with those where something is.
    """

    points: Points
    states: int
    bad: list[str] = field(default_factory=list)


class _Failures(NamedTuple):
    fault: Fault
    writes: bool = False
    lasting: bool = False


_EACH = _Failures(Fault.FAIL_BEFORE)
_EACH_WRITE = _Failures(Fault.FAIL_AFTER, writes=True)  # a read that fails has no effect
_FAILURES = (
    _EACH,
    _EACH_WRITE,
    _Failures(Fault.FAIL_BEFORE, lasting=True),
    _Failures(Fault.FAIL_LATE, writes=True),
)


@dataclass(frozen=True)
class _Expected:
    before: list[Row]
    between: list[list[Row]]
    after: list[Row]


def count_points(
    kind: Kind, work: Work, faults: Collection[str] = FAULTS, share: Share = ALL
) -> Points:
    """Return how many faults `strike_work` has to make, by doing the work without a fault."""
    base = make(kind, work)
    counted = _count_struck(base, work.act, kind, _WORKER)
    crashes = 2 * counted[_EACH] + counted[_EACH_WRITE]
    errors = sum(len(share.numbers(of, str(sort))) for sort, of in counted.items())
    return Points(crashes if "crashes" in faults else 0, errors if "errors" in faults else 0)


def _count_struck(
    base: MemoryStore, act: Callable[[bf.Table], object], kind: Kind, process: int
) -> dict[_Failures, int]:
    """Return how many failures of each sort a work can meet, by doing it without one.

    Where failures are not final, as over a network, a work has other writes: markers are deleted
    one by one.
    """
    counted = {}
    for late in (False, True):
        never = FaultPlan(sys.maxsize, Fault.FAIL_LATE if late else Fault.FAIL_BEFORE)
        running = SimulatedProcess(base.copy(), process, kind.writer, never)
        act(running.open())
        operations = running.store.operations
        writes = [operation for operation in operations if operation.verb in WRITE_VERBS]
        for sort in _FAILURES:
            if late is (sort.fault is Fault.FAIL_LATE):
                counted[sort] = len(writes if sort.writes else operations)
    return counted


def strike_work(
    kind: Kind, work: Work, faults: Collection[str] = FAULTS, share: Share = ALL
) -> Tally:
    """Strike one work on one kind of table, at every operation with every fault of these sorts.

    Raises:
        ValueError: the work changes nothing of the table, so that striking it proves nothing.
    """
    base = make(kind, work)
    expected = _expect(base, kind, work)
    return _strike(
        base,
        work.act,
        kind,
        _WORKER,
        lambda aftermath: _check(aftermath, kind, work, expected),
        faults,
        share,
    )


def strike_recovery(kind: Kind, work: Work, stride: int = 1, share: Share = ALL) -> Tally:
    """Kill the work, and then strike whoever writes next: who comes third takes back both.

    Args:
        kind: Of table.
        work: To be killed after each write.
        stride: Take every so many of the states that leaves.
        share: How many faults strike who writes next.
    """
    base = make(kind, work)
    done = read_rows(_done(base, kind, work, _WORKER))
    left = Looks(lambda aftermath: None)
    dead = []
    for aftermath in kill_everywhere(base, work.act, process=_WORKER, writer=kind.writer):
        known = left.states
        left(aftermath)
        if left.states > known and aftermath.plan.fault is not Fault.KILL_TORN:
            dead.append(aftermath.store)
    crashes = errors = states = 0
    bad: list[str] = []
    following = replace(work, name="the next write", act=_write_next)
    for store in dead[stride // 2 :: stride]:
        written = read_rows(_done(store, kind, following, _FOLLOWER))
        # What is stepwise is completed first, and written to then.
        expected = _Expected(read_rows(store), [done], written)
        tally = _strike(
            store,
            _write_next,
            kind,
            _FOLLOWER,
            lambda aftermath, e=expected: _check(aftermath, kind, following, e, _THIRD),  # type: ignore[misc]
            share=share,
        )
        crashes += tally.points.crashes
        errors += tally.points.errors
        states += tally.states
        bad += tally.bad
    return Tally(Points(crashes, errors), states, bad)


def _strike(
    base: MemoryStore,
    act: Callable[[bf.Table], object],
    kind: Kind,
    process: int,
    check: Callable[[Aftermath], None],
    faults: Collection[str] = FAULTS,
    share: Share = ALL,
) -> Tally:
    bad: list[str] = []

    def look(aftermath: Aftermath) -> None:
        try:
            check(aftermath)
        except (_WrongError, bf.BucketfmtError) as error:
            bad.append(f"{kind}: {aftermath}: {type(error).__name__}: {error}")

    def strike(sort: _Failures) -> Iterator[Aftermath]:
        return strike_everywhere(
            base,
            act,
            [sort.fault],
            verbs=WRITE_VERBS if sort.writes else None,
            lasting=sort.lasting,
            process=process,
            writer=kind.writer,
            numbers=share.numbers(counted[sort], str(sort)),
        )

    looks, crashes = Looks(look), 0
    if "crashes" in faults:
        killed = kill_everywhere(base, act, process=process, writer=kind.writer)
        crashes = len(killed)
        states = list({aftermath.store.state: aftermath for aftermath in killed}.values())
        for number in share.numbers(len(states), "crashes"):
            looks(states[number - 1])
    kills = looks.points
    if "errors" in faults:
        counted = _count_struck(base, act, kind, process)
        for sort in _FAILURES:
            for aftermath in strike(sort):
                looks(aftermath)
    return Tally(Points(crashes, looks.points - kills), looks.states, bad)


def _expect(base: MemoryStore, kind: Kind, work: Work) -> _Expected:
    between = []
    if work.is_stepwise:
        table = SimulatedProcess(base.copy(), _WORKER, kind.writer).open()
        for instant in table.timeline.writes.completed.instants:
            scan = table.scan(as_of=instant.requested_time)
            between.append(sorted(tuple(row.values()) for row in scan.to_arrow().to_pylist()))
    done = _done(base, kind, work, _WORKER)
    if _without_locks(done) == _without_locks(base):
        raise ValueError(f"{work.name} changes nothing of {kind}")
    after = read_rows(done)
    return _Expected(read_rows(base), between, after)  # type: ignore[arg-type]


def _without_locks(store: MemoryStore) -> dict[str, bytes]:
    return {path: data for path, data in store.files.items() if path not in (FILE_LOCK, LEASE)}


def _done(base: MemoryStore, kind: Kind, work: Work, process: int) -> MemoryStore:
    """Return what work leaves that nothing befalls."""
    store = base.copy()
    work.act(SimulatedProcess(store, process, kind.writer).open())
    return store


class _WrongError(Exception):
    """A table is not as it must be."""


def _check(
    aftermath: Aftermath, kind: Kind, work: Work, expected: _Expected, process: int = _FOLLOWER
) -> None:
    store = aftermath.store.copy()
    now = read_rows(store)
    before, after = expected.before, expected.after
    if aftermath.ending is Ending.DONE:
        _require(now == after, "what was acknowledged is lost")
    elif aftermath.ending is Ending.UNKNOWN or work.is_stepwise:
        _require(now in (before, *expected.between, after), f"half done: {now}")
    else:
        _require(now == before, "what was refused is there")

    table = SimulatedProcess(store, process, kind.writer).open()
    if kind.metadata:
        found = table.check(depth="quick").findings
        # That a partition is not made to its end is told, but misleads nobody: it is not read.
        wrong = [f for f in found if f.id.startswith("M") and f.severity != "info"]
        _require(not wrong, f"readers of the metadata table are misled: {wrong}")
    if table.timeline.pending.of("restore").instants:
        try:
            _write_next(table)
        except bf.ConflictError:
            work.act(table)
            now = after
        else:
            raise _WrongError("a table that is being restored was written to")
    _write_next(table)
    then = read_rows(store)
    may_stand = [now]
    if work.is_stepwise and now != after:
        may_stand = [before, after]
    _require(then in map(_with_next, may_stand), f"the next write went wrong: {then}")
    if work.resume is not None:
        work.resume(table)
        _require(read_rows(store) == then, "rows changed when it was done again")
    report = table.check(depth="full")
    findings = [
        finding
        for finding in report.findings
        if finding.severity != "info" and finding.paths != (work.may_leave,)
    ]
    _require(not findings, f"the check finds {findings}")
    pending = table.timeline.pending.instants
    _require(not pending, f"still pending: {pending}")


def _require(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise _WrongError(otherwise)


def _write_next(table: bf.Table) -> object:
    return table.upsert(rows(*NEXT))


def _with_next(found: list[Row]) -> list[Row]:
    wanted = {(row[0], row[2]): row for row in (*found, *NEXT)}
    return sorted(wanted.values())
