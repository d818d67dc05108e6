"""Whatever befalls a writer, at whichever operation: a sample of `python -m soak crashes --all`."""

from __future__ import annotations

import pytest

from soak.crashes import Piece, sample_pieces, sample_recovery, strike_piece
from soak.strikes import count_points
from tests.rotation import seed

pytestmark = pytest.mark.filterwarnings("ignore:the table lock could not be given back")


@pytest.mark.parametrize("piece", sample_pieces(seed()), ids=lambda p: f"{p[0]}-{p[1]}-{p[3]}")
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
