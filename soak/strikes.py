"""Strikes what is done to a table, everywhere, and looks at what is left.

After every fault the table reads as before or as after, whoever writes next succeeds and takes
away what the dead left, and the check finds nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace

import bucketfmt as bf
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
from soak.works import NEXT, Kind, Row, Work, make, read_rows, rows

__all__ = ["FAULTS", "Points", "Tally", "count_points", "strike_recovery", "strike_work"]

_WORKER, _FOLLOWER, _THIRD = 2, 3, 4

FAULTS = ("crashes", "errors")
"""Kills, and failures of an operation or of all from one on."""


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


@dataclass(frozen=True)
class _Expected:
    before: list[Row]
    between: list[list[Row]]
    after: list[Row]


def count_points(kind: Kind, work: Work, faults: Collection[str] = FAULTS) -> Points:
    """Return how many faults `strike_work` has to make, by doing the work without a fault.

    Where failures are not final, as over a network, a work has other writes: markers are deleted
    one by one.
    """
    operations, writes = _count_operations(kind, work, Fault.FAIL_BEFORE)
    errors = 0
    if "errors" in faults:
        _, late_writes = _count_operations(kind, work, Fault.FAIL_LATE)
        errors = 2 * operations + writes + late_writes
    return Points(2 * operations + writes if "crashes" in faults else 0, errors)


def _count_operations(kind: Kind, work: Work, fault: Fault) -> tuple[int, int]:
    """Return how many operations, and how many writes, a work has that meets no such fault."""
    never = FaultPlan(sys.maxsize, fault)
    process = SimulatedProcess(make(kind, work), _WORKER, kind.writer, never)
    work.act(process.open())
    operations = process.store.operations
    return len(operations), sum(operation.verb in WRITE_VERBS for operation in operations)


def strike_work(kind: Kind, work: Work, faults: Collection[str] = FAULTS) -> Tally:
    """Strike one work on one kind of table, at every operation with every fault of these sorts."""
    base = make(kind, work)
    expected = _expect(base, kind, work)
    return _strike(
        base,
        work.act,
        kind,
        _WORKER,
        lambda aftermath: _check(aftermath, kind, work, expected),
        faults,
    )


def strike_recovery(kind: Kind, work: Work, stride: int = 1) -> Tally:
    """Kill the work, and then strike whoever writes next: who comes third takes back both.

    Args:
        kind: Of table.
        work: To be killed after each write.
        stride: Take every so many of the states that leaves.
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
) -> Tally:
    bad: list[str] = []

    def look(aftermath: Aftermath) -> None:
        try:
            check(aftermath)
        except (_WrongError, bf.BucketfmtError) as error:
            bad.append(f"{kind}: {aftermath}: {type(error).__name__}: {error}")

    def strike(fault: Fault, *, writes: bool = False, lasting: bool = False) -> Iterator[Aftermath]:
        verbs = WRITE_VERBS if writes else None
        return strike_everywhere(
            base, act, [fault], verbs=verbs, lasting=lasting, process=process, writer=kind.writer
        )

    looks = Looks(look)
    if "crashes" in faults:
        for aftermath in kill_everywhere(base, act, process=process, writer=kind.writer):
            looks(aftermath)
    crashes = looks.points
    if "errors" in faults:
        for aftermath in strike(Fault.FAIL_BEFORE):
            looks(aftermath)
        # A read that fails has no effect: it fails as if before.
        for aftermath in strike(Fault.FAIL_AFTER, writes=True):
            looks(aftermath)
        for aftermath in strike(Fault.FAIL_BEFORE, lasting=True):
            looks(aftermath)
        for aftermath in strike(Fault.FAIL_LATE, writes=True):
            looks(aftermath)
    return Tally(Points(crashes, looks.points - crashes), looks.states, bad)


def _expect(base: MemoryStore, kind: Kind, work: Work) -> _Expected:
    between = []
    if work.is_stepwise:
        table = SimulatedProcess(base.copy(), _WORKER, kind.writer).open()
        for instant in table.timeline.writes.completed.instants:
            scan = table.scan(as_of=instant.requested_time)
            between.append(sorted(tuple(row.values()) for row in scan.to_arrow().to_pylist()))
    after = read_rows(_done(base, kind, work, _WORKER))
    return _Expected(read_rows(base), between, after)  # type: ignore[arg-type]


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
        wrong = [f for f in table.check(depth="quick").findings if f.id.startswith("M")]
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
