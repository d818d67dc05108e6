"""Every length and count set to 0, -1, 2^31-1, 2^31, 2^63-1, size+1 and the like.

In a process of its own under a memory limit, which also asks after each case how much was
allocated. Here a spread of the cases; `python -m soak lengths` runs all.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from soak.damage.lengths import FORGERS

_ROOT = Path(__file__).parents[3]


@pytest.mark.rotated(0, among="every byte", one_of=4)
def test_no_length_is_believed() -> None:
    command = [sys.executable, "-m", "soak", "lengths", "--cases", "25"]
    run = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert [line.partition(":")[0] for line in run.stdout.splitlines()] == list(FORGERS)
