"""What the tests of every version assert of what was struck."""

from __future__ import annotations

from soak.crashes import RECOVERIES_SAMPLED, strike_piece
from soak.strikes import count_points, strike_work
from soak.works import Kind, Work

__all__ = ["check_recovery", "check_work", "names_of"]


def names_of(parameter: Kind | Work) -> str:
    return parameter.name if isinstance(parameter, Work) else str(parameter)


def check_work(kind: Kind, work: Work) -> None:
    """All the faults there are were made, and nothing came of them."""
    tally = strike_work(kind, work)
    assert not tally.bad, tally.bad[0]
    assert tally.points == count_points(kind, work)
    assert 5 <= tally.states <= tally.points.crashes


def check_recovery(version: int) -> None:
    """Who recovers from a crash is struck in turn."""
    (piece,) = (piece for piece in RECOVERIES_SAMPLED if piece.kind.startswith(f"{version}-"))
    tally = strike_piece(piece)
    assert not tally.bad, tally.bad[0]
    assert tally.points.crashes > 100
    assert tally.points.errors > 150
