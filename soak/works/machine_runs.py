"""Runs the machines of all kinds of tables, several at a time, and keeps the figures as JSON."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from soak.figures import keep_figures
from soak.works.machine import MACHINES

__all__ = ["MachineRun", "run_machine", "run_machines"]


class MachineRun(NamedTuple):
    """What came of one machine.

    Attributes:
        kind: Of table.
        runs: Tables begun.
        steps: What was done to them all, and looked at.
        deaths: How many of the steps a process died in.
        bad: What is wrong, with the steps that lead there; empty if nothing is.
    """

    kind: str
    runs: int
    steps: int
    deaths: int
    bad: str = ""


def run_machine(kind: str, runs: int, steps: int, *, repeatable: bool = False) -> MachineRun:
    """Run the machine of one kind of table.

    Args:
        kind: Of table.
        runs: How many tables to begin.
        steps: How much to do to each, at most.
        repeatable: Do the same each time.
    """
    warnings.simplefilter("ignore", RuntimeWarning)  # locks that could not be given back
    machine = MACHINES[kind]
    machine.steps = machine.deaths = machine.begun = 0
    chosen = settings(
        max_examples=runs,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        derandomize=repeatable,
        phases=[Phase.generate],  # to make a failure shorter takes minutes, and tells little more
        suppress_health_check=list(HealthCheck),
    )
    bad = ""
    try:
        run_state_machine_as_test(machine, settings=chosen)
    except Exception as error:
        bad = "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
    return MachineRun(kind, machine.begun, machine.steps, machine.deaths, bad)


def run_machines(kinds: Sequence[str], runs: int, steps: int, *, workers: int, save: bool) -> int:
    """Run machines, print what came of them, and return 1 if anything is bad."""
    done: list[MachineRun] = []
    with ProcessPoolExecutor(workers) as pool:
        pending = [pool.submit(run_machine, kind, runs, steps) for kind in kinds]
        for future in as_completed(pending):
            run = future.result()
            done.append(run)
            print(f"{run.kind}: {run.runs:,} tables, {run.steps:,} steps, {run.deaths:,} deaths")
            if run.bad:
                print(run.bad, file=sys.stderr)
    if save:
        rows = [
            {
                "table": run.kind,
                "tables": run.runs,
                "steps": run.steps,
                "deaths": run.deaths,
                "bad": int(bool(run.bad)),
            }
            for run in sorted(done)
        ]
        keep_figures(rows, "machine")
    return int(any(run.bad for run in done))
