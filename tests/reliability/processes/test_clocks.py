"""Processes whose clocks differ, stopped for long: a sample of `python -m soak clocks`."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.processes.clocks import KINDS, play_clocks
from soak.processes.rounds import Kind
from tests.rotation import seed


@pytest.mark.rotated(0, among="clocks", one_of=12)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_processes_whose_clocks_differ_lose_no_row(tmp_path: Path, kind: Kind) -> None:
    counts, wrong = play_clocks(str(tmp_path / "t"), kind, seed(), seconds=6)
    assert wrong is None, wrong
    assert counts["works"] > 0
    assert counts["stops"] > 0
