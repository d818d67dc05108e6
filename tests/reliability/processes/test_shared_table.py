"""One `Table` shared by threads, forks and processes: a sample of `python -m soak threads`."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.processes.threads import Trial, run_trial, sample_trials
from tests.rotation import seed, thin


@pytest.mark.parametrize("trial", thin(sample_trials(seed()), seed(), 6), ids=" | ".join)
def test_nothing_acknowledged_is_lost(
    trial: Trial, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    root, options = str(tmp_path), {}
    if trial.place == "S3":
        root, options = "s3://tables", request.getfixturevalue("s3_options")
    outcome = run_trial(trial, root, options, rounds=1)
    assert not outcome.bad, "\n".join(outcome.bad)
    is_refused = trial.lock == "process" and trial.concurrency in ("fork", "pool", "spawn")
    wanted = {"fork": 2}.get(trial.concurrency, 0) if is_refused else 6
    assert outcome.acknowledged == wanted
