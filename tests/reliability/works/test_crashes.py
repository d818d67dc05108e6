"""Whatever befalls a writer, at whichever operation: a sample of `python -m soak crashes --all`."""

from __future__ import annotations

import pytest

from soak.works.crashes import (
    RECOVERIES_SAMPLED,
    Piece,
    sample_pieces,
    sample_recovery,
    strike_piece,
)
from soak.works.strikes import FAULTS, Share, count_points
from soak.works.works import KINDS, WORKS
from tests.rotation import seed, thin

pytestmark = pytest.mark.filterwarnings("ignore:the table lock could not be given back")


def choose(seed: str) -> list[Piece]:
    """Return the pieces of a run: a quarter of a sample, and what costs as much as the quarter.

    That is a piece with a metadata table, or a piece of which who comes next is struck.
    """
    *plain, with_metadata = sample_pieces(seed)
    return [*thin(plain, seed, 4), *thin([with_metadata, sample_recovery(seed)], f"{seed} dear", 2)]


PIECES = choose(seed())
SHARE = Share(most=16, seed=seed())


def test_every_kind_work_and_sort_of_fault_comes_with_some_commit() -> None:
    chosen = {piece for number in range(40) for piece in choose(str(number))}
    kinds, works, _, sorts = (set(names) for names in zip(*chosen, strict=True))
    assert kinds == {str(kind) for kind in KINDS}
    assert works == {work.name for work in WORKS}
    assert sorts == {*FAULTS, ""}
    assert set(RECOVERIES_SAMPLED) < chosen


@pytest.mark.parametrize(
    "piece", [p for p in PIECES if not p.stride], ids=lambda p: f"{p[0]}-{p[1]}-{p[3]}"
)
def test_every_fault_at_every_operation(piece: Piece) -> None:
    tally = strike_piece(piece, SHARE)
    assert not tally.bad, tally.bad[0]
    assert tally.points == count_points(*piece.find(), (piece.faults,), SHARE)
    assert 2 <= tally.states <= tally.points.crashes + tally.points.errors


@pytest.mark.parametrize("piece", [p for p in PIECES if p.stride], ids=lambda piece: piece.kind)
def test_who_recovers_is_struck_too(piece: Piece) -> None:
    tally = strike_piece(piece, SHARE)
    assert not tally.bad, tally.bad[0]
    assert tally.points.crashes > 60
    assert tally.points.errors > 30, "four sorts of failure, each at eight operations at least"
