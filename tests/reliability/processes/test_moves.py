"""Processes that move keys of a record index, beside others: a sample of `python -m soak moves`."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.processes.moves import KINDS, Kind, play_moves
from tests.rotation import seed


@pytest.mark.rotated(0, among="moves", one_of=6)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_processes_beside_one_another_lose_no_row(tmp_path: Path, kind: Kind) -> None:
    counts, wrong = play_moves(str(tmp_path / "t"), kind, seed(), seconds=4)
    assert wrong is None, wrong
    assert counts["works"] > 0
    assert counts["reads"] > 0
