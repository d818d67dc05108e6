from __future__ import annotations

import pytest

import bucketfmt as bf
from bucketfmt.errors import NotFoundError, StorageError
from bucketfmt.storage.store import WRITE_VERBS
from bucketfmt.testing.crashes import (
    CRASHES,
    FAILURES,
    Aftermath,
    Ending,
    Looks,
    SimulatedProcess,
    kill_everywhere,
    strike,
    strike_everywhere,
)
from bucketfmt.testing.faulty_store import Fault, FaultPlan, Killed
from bucketfmt.testing.memory_store import MemoryStore
from soak.works.works import KINDS, WORKS, Kind, Work, make, rows

FILES = make(KINDS[3], WORKS[0])


def put_two(table: bf.Table) -> str:
    table.store.replace("one", b"1")
    table.store.read("one", 9)
    table.store.replace("two", b"2")
    return "done"


def left(aftermath: Aftermath) -> set[str]:
    return aftermath.store.files.keys() - FILES.files.keys()


def test_a_fault_at_each_operation_until_the_end() -> None:
    """Opening the table is the first."""
    killed = list(strike_everywhere(FILES, put_two, [Fault.KILL_AFTER]))
    assert [left(aftermath) for aftermath in killed] == [set(), {"one"}, {"one"}, {"one", "two"}]
    assert [aftermath.plan.at for aftermath in killed] == [1, 2, 3, 4]
    assert killed[1].operation == "replace one"
    assert {aftermath.ending for aftermath in killed} == {Ending.UNKNOWN}
    assert all(isinstance(aftermath.error, Killed) for aftermath in killed)
    assert "replace one takes effect" in str(killed[1])


def test_a_failure_that_lasts() -> None:
    once, lasting = (
        list(strike_everywhere(FILES, _insist, [Fault.FAIL_BEFORE], lasting=lasting))
        for lasting in (False, True)
    )
    assert [left(aftermath) for aftermath in once] == [set(), {"one"}]
    assert [left(aftermath) for aftermath in lasting] == [set(), set()]
    assert once[1].ending is Ending.DONE
    assert once[1].value == "insisted"
    assert lasting[1].ending is Ending.REFUSED
    assert "from there on" in str(lasting[1])


def _insist(table: bf.Table) -> str:
    for _ in range(2):
        try:
            table.store.replace("one", b"1")
        except StorageError:
            continue
        return "insisted"
    raise StorageError("twice")


def test_what_takes_effect_late_has_by_the_time_it_is_looked_at() -> None:
    late = list(strike_everywhere(FILES, put_two, [Fault.FAIL_LATE], verbs=WRITE_VERBS))
    assert [left(aftermath) for aftermath in late] == [{"one"}, {"one", "two"}]


def test_errors_of_the_work_itself() -> None:
    def refuse(table: bf.Table) -> None:
        raise bf.CommitUnknownError("who knows")

    def fail(table: bf.Table) -> None:
        raise KeyError("a mistake")

    with pytest.raises(bf.CommitUnknownError):
        list(strike_everywhere(FILES, refuse, CRASHES))
    with pytest.raises(KeyError):
        list(strike_everywhere(FILES, fail, FAILURES))
    unknown = Aftermath(FILES, FaultPlan(1, Fault.FAIL_AFTER), "", bf.CommitUnknownError("?"))
    assert unknown.ending is Ending.UNKNOWN


def test_only_operations_of_some_numbers_are_struck() -> None:
    every = [str(a) for a in strike_everywhere(FILES, put_two, [Fault.FAIL_AFTER])]
    some = strike_everywhere(FILES, put_two, [Fault.FAIL_AFTER], numbers=range(2, 5, 2))
    assert [str(aftermath) for aftermath in some] == every[1::2]
    assert len(every) == 4


def test_what_was_struck_is_a_copy() -> None:
    before = FILES.state
    assert strike(FILES, put_two, FaultPlan(4, Fault.KILL_AFTER)) is not None
    assert strike(FILES, put_two, FaultPlan(5, Fault.KILL_AFTER)) is None
    assert FILES.state == before


def test_a_state_is_looked_at_once() -> None:
    """Killed after one write is killed before the next, unless something was read in between."""
    seen: list[Aftermath] = []
    looks = Looks(seen.append)
    for aftermath in strike_everywhere(FILES, put_two, [Fault.KILL_BEFORE, Fault.KILL_AFTER]):
        looks(aftermath)
    assert (looks.points, looks.states) == (8, 3)
    assert [left(aftermath) for aftermath in seen] == [set(), {"one"}, {"one", "two"}]
    for aftermath in strike_everywhere(FILES, put_two, [Fault.FAIL_BEFORE]):
        looks(aftermath)
    assert looks.states == 5, "the same files, and it is known what became of the work"


@pytest.mark.rotated(0, among="crashes at each write", one_of=6)
@pytest.mark.parametrize(
    ("kind", "work"),
    [(kind, work) for kind in KINDS for work in WORKS if work.is_possible(kind)],
    ids=lambda value: str(getattr(value, "name", value)),
)
def test_kills_of_one_run_leave_what_kills_of_many_runs_leave(kind: Kind, work: Work) -> None:
    files = make(kind, work)
    left: list[set[object]] = []
    points = []
    struck = [
        aftermath
        for fault in CRASHES
        for aftermath in strike_everywhere(
            files,
            work.act,
            [fault],
            verbs=WRITE_VERBS if fault is Fault.KILL_TORN else None,
            process=2,
            writer=kind.writer,
        )
    ]
    for aftermaths in (struck, kill_everywhere(files, work.act, process=2, writer=kind.writer)):
        left.append({(a.ending, a.operation, a.plan.fault, a.store.state) for a in aftermaths})
        points.append(len(aftermaths))
    assert left[0] == left[1]
    assert points[0] == points[1] > 10


def test_what_was_wrong_is_looked_at_again() -> None:
    def look(aftermath: Aftermath) -> None:
        raise NotFoundError("gone")

    looks = Looks(look)
    aftermath = next(strike_everywhere(FILES, put_two, [Fault.KILL_BEFORE]))
    with pytest.raises(NotFoundError):
        looks(aftermath)
    with pytest.raises(NotFoundError):
        looks(aftermath)
    assert (looks.points, looks.states) == (2, 0)


def test_processes_differ_in_time_and_chance() -> None:
    store = MemoryStore(FILES.files)
    results = [
        SimulatedProcess(store, number).open().upsert(rows(("k0", 1, "a"))) for number in (5, 6)
    ]
    first, second = (int(result.instant) for result in results)
    assert second - first == 10_000_000  # an hour
    again = SimulatedProcess(MemoryStore(FILES.files), 5).open().upsert(rows(("k0", 1, "a")))
    assert again == results[0]
