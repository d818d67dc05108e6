"""Processes that are killed amid work on a record index: a sample of `python -m soak kills`."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.processes.kills import KINDS, play_kills
from soak.processes.rounds import Kind
from tests.rotation import seed


@pytest.mark.filterwarnings("ignore:the metadata table is")
@pytest.mark.rotated(0, among="kills", one_of=10)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_killed_process_leaves_no_wrong_row(tmp_path: Path, kind: Kind) -> None:
    _, wrong = play_kills(str(tmp_path / "t"), kind, seed(), kills=2, lease_s=5)
    assert wrong is None, wrong
