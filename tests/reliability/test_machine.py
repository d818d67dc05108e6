"""Whatever may be done to a table, in whatever order: a few tables of each kind."""

from __future__ import annotations

from typing import Any

import pytest

import bucketfmt as bf
from soak.machine import MACHINES
from soak.machine_runs import run_machine

TABLES, STEPS = 3, 30


def test_tables_are_what_their_models_are() -> None:
    runs = [run_machine(kind, TABLES, STEPS, repeatable=True) for kind in MACHINES]
    for run in runs:
        assert not run.bad, f"{run.kind}: {run.bad}"
        assert run.runs >= TABLES
        assert run.steps > TABLES * STEPS / 2
    # In few tables of one kind it may be that none dies.
    assert sum(run.deaths for run in runs) >= len(runs)


def test_what_is_wrong_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deletes that delete nothing."""

    def delete_others(table: bf.Table, keys: Any = None, **options: Any) -> bf.CommitResult:
        return delete(table, filter=[("id", "=", "no such key")])

    delete = bf.Table.delete
    monkeypatch.setattr(bf.Table, "delete", delete_others)
    run = run_machine("9-cow-simple", 50, STEPS, repeatable=True)
    assert "too many" in run.bad
    assert "delete" in run.bad
