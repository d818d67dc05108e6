"""Whatever may be done to a table, in whatever order: a few tables of each kind."""

from __future__ import annotations

from typing import Any

import pytest

import bucketfmt as bf
from soak.machine import MACHINES
from soak.machine_runs import run_machine

TABLES, STEPS = 3, 30


@pytest.mark.parametrize("kind", MACHINES)
def test_a_table_is_what_its_model_is(kind: str) -> None:
    run = run_machine(kind, TABLES, STEPS, repeatable=True)
    assert not run.bad, run.bad
    assert run.runs >= TABLES
    assert run.steps > TABLES * STEPS / 2
    assert run.deaths > 0


def test_what_is_wrong_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deletes that delete nothing."""

    def delete_others(table: bf.Table, keys: Any = None, **options: Any) -> bf.CommitResult:
        return delete(table, filter=[("id", "=", "no such key")])

    delete = bf.Table.delete
    monkeypatch.setattr(bf.Table, "delete", delete_others)
    run = run_machine("9-cow-simple", 50, STEPS, repeatable=True)
    assert "too many" in run.bad
    assert "delete" in run.bad
