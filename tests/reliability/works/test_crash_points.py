"""How many faults the tests make, and that what they make of the faults can be trusted."""

from __future__ import annotations

import pytest

import bucketfmt as bf
from bucketfmt.testing.crashes import SimulatedProcess
from soak.works.crashes import plan_pieces, sample_pieces
from soak.works.strikes import FAULTS, count_points, strike_work
from soak.works.works import KINDS, WORKS, Work, make, rows
from tests.reliability.works.test_crashes import SHARE, choose
from tests.rotation import seed

pytestmark = pytest.mark.filterwarnings("ignore:the table lock could not be given back")


def test_the_tests_make_hundreds() -> None:
    """The tests of the pieces assert that they make as many as are counted here."""
    points = [count_points(*piece.find(), (piece.faults,), SHARE) for piece in choose(seed())]
    assert sum(point.crashes + point.errors for point in points) >= 300


@pytest.mark.parametrize("drawn", ["0", "another", seed()])
def test_every_kind_work_and_sort_of_fault_is_sampled_and_the_soak_has_all(drawn: str) -> None:
    pieces = sample_pieces(drawn)
    plain = {str(kind) for kind in KINDS if not kind.metadata}
    assert {piece.kind for piece in pieces[:-1]} == plain
    assert pieces[-1].kind in {str(kind) for kind in KINDS if kind.metadata}
    of_plain = {piece.work for piece in plan_pieces() if piece.kind in plain}
    assert {piece.work for piece in pieces[:-1]} == of_plain
    assert {piece.faults for piece in pieces} == set(FAULTS)
    assert sum(not piece.stride and not piece.faults for piece in plan_pieces()) == sum(
        work.is_possible(kind) for kind in KINDS for work in WORKS
    )
    assert {(piece.kind, piece.work) for piece in plan_pieces()} == {
        (str(kind), work.name) for kind in KINDS for work in WORKS if work.is_possible(kind)
    }


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.name)
def test_the_same_bytes_each_time(work: Work) -> None:
    """Otherwise a state would hardly be met twice."""
    kind = next(kind for kind in (*KINDS[8::-1], *KINDS) if work.is_possible(kind))
    base, states = make(kind, work), []
    for _ in range(2):
        store = base.copy()
        work.act(SimulatedProcess(store, 2, kind.writer).open())
        states.append(store.state)
    assert states[0] == states[1]


def test_the_write_that_is_to_record_the_index_does() -> None:
    (work,) = (work for work in WORKS if work.name == "upsert that records the index")
    for kind in filter(work.is_possible, KINDS):
        table = SimulatedProcess(make(kind, work), 2, kind.writer).open()
        assert not table.resolved_index.is_recorded
        work.act(table)
        assert table.resolved_index.is_recorded


def _forgets_a_file(table: bf.Table) -> None:
    """A write that begins with taking rows away, and ends with putting them back."""
    (*_, path) = table.inspect.files().column("path").to_pylist()
    data = table.store.read(path, 1 << 30)
    table.store.delete(path)
    table.upsert(rows(("new", 1, "c")))
    table.store.put_if_absent(path, data)


def _lies(table: bf.Table) -> None:
    """A write that says it was done whatever happened."""
    try:
        table.upsert(rows(("new", 1, "c")))
    except bf.StorageError:
        return


def _does_half(table: bf.Table) -> None:
    """Two commits for one."""
    table.upsert(rows(("new", 1, "c")))
    table.upsert(rows(("new", 1, "d")))


@pytest.mark.parametrize(
    ("act", "sort", "said"),
    [
        (_forgets_a_file, "crashes", "does not exist"),
        (_lies, "errors", "is lost"),
        (_does_half, "crashes", "half done"),
    ],
)
def test_what_is_not_safe_is_found_out(act: object, sort: str, said: str) -> None:
    tally = strike_work(KINDS[3], Work("unsafe", act), (sort,))  # type: ignore[arg-type]
    assert any(said in text for text in tally.bad), tally.bad
