"""Whatever may be done to a table, in whatever order: a few tables of every twelfth kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import bucketfmt as bf
from bucketfmt.testing.faulty_store import Fault
from soak.works.machine import MACHINES, Crash
from soak.works.machine_runs import run_machine
from tests.rotation import seed, thin

TABLES, STEPS = 2, 25


def test_tables_are_what_their_models_are() -> None:
    kinds = thin(list(MACHINES), seed(), 12)
    runs = [run_machine(kind, TABLES, STEPS, repeatable=True) for kind in kinds]
    for run in runs:
        assert not run.bad, f"{run.kind}: {run.bad}"
        assert run.runs >= TABLES
        assert run.steps > TABLES * STEPS / 2
    # In few tables of one kind it may be that none dies.
    assert sum(run.deaths for run in runs) > 0


@pytest.mark.parametrize("kind", ["6-cow-simple", "8-mor-ring"])
def test_a_delete_that_finds_nothing_is_no_write_to_roll_back(kind: str) -> None:
    """Also where its process dies, before or after it found that out."""
    row = {"id": "k1", "v": 1, "ts": 1, "p": "b"}
    absent = [{**row, "id": "nowhere"}]
    crashes: list[Crash] = [None, *((at, Fault.KILL_AFTER) for at in range(1, 15))]
    deaths = []
    for crash in crashes:
        machine = MACHINES[kind]()
        machine.begin(is_ordered=True)
        machine.write("upsert", [row], None)
        known, died = list(machine.model.commits), machine.deaths
        machine.delete(absent, crash)
        deaths.append(machine.deaths - died)
        assert machine.model.commits == known
        machine.roll_back(None)
        machine.reads_as_the_model()
        assert list(machine.model.rows) == [("a", "k0")]
        machine.teardown()
    assert deaths[0] == 0
    assert deaths[1] == 1
    assert deaths[-1] == 0, "the last is to strike after the delete has ended"


def test_a_commit_that_the_timeline_does_not_have_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a write returns is compared with what it added."""

    def tell_otherwise(table: bf.Table, keys: Any, **options: Any) -> bf.CommitResult:
        result = delete(table, keys, **options)
        return replace(result, committed=not result.committed)

    delete = bf.Table.delete
    monkeypatch.setattr(bf.Table, "delete", tell_otherwise)
    for key in ("k0", "nowhere"):
        machine = MACHINES["9-cow-simple"]()
        machine.begin(is_ordered=False)
        with pytest.raises(AssertionError, match="the write told of"):
            machine.delete([{"id": key, "v": 0, "ts": 0, "p": "a"}], None)


def test_what_is_wrong_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deletes that delete nothing."""

    def delete_others(table: bf.Table, keys: Any = None, **options: Any) -> bf.CommitResult:
        return delete(table, filter=[("id", "=", "no such key")])

    delete = bf.Table.delete
    monkeypatch.setattr(bf.Table, "delete", delete_others)
    run = run_machine("9-cow-simple", 50, STEPS, repeatable=True)
    assert "unexpected rows [(" in run.bad
    assert "delete" in run.bad
