"""Whatever befalls a writer, at whichever operation: a sample of `python -m soak crashes --all`."""

from __future__ import annotations

import pytest

from soak.crashes import Piece, sample_pieces, sample_recovery, strike_piece
from soak.strikes import count_points
from tests.rotation import seed, thin

pytestmark = pytest.mark.filterwarnings("ignore:the table lock could not be given back")


def choose(seed: str) -> list[Piece]:
    """Return the pieces of a run: half of a sample, and the piece with a metadata table."""
    *plain, with_metadata = sample_pieces(seed)
    return [*thin(plain, seed, 2), with_metadata]


def test_every_kind_work_and_sort_of_fault_comes_with_some_commit() -> None:
    sampled, chosen = (
        {value for number in range(20) for piece in draw(str(number)) for value in piece}
        for draw in (sample_pieces, choose)
    )
    assert chosen == sampled


@pytest.mark.parametrize("piece", choose(seed()), ids=lambda p: f"{p[0]}-{p[1]}-{p[3]}")
def test_every_fault_at_every_operation(piece: Piece) -> None:
    tally = strike_piece(piece)
    assert not tally.bad, tally.bad[0]
    assert tally.points == count_points(*piece.find(), (piece.faults,))
    assert 2 <= tally.states <= tally.points.crashes + tally.points.errors


@pytest.mark.parametrize("piece", [sample_recovery(seed())], ids=lambda piece: piece.kind)
def test_who_recovers_is_struck_too(piece: Piece) -> None:
    tally = strike_piece(piece)
    assert not tally.bad, tally.bad[0]
    assert tally.points.crashes > 100
    assert tally.points.errors > 100
