"""Counts what tests cost, in seconds of a processor: theirs, and of processes they waited for.

Seconds of a clock tell how busy the machine is; these tell how much there is to do. Which files
cost more than they may (CONTRIBUTING.md) is printed at the end of a run.
"""

from __future__ import annotations

import gc
import resource
import time
from collections import Counter
from collections.abc import Generator

import pytest

UNIT_BUDGET_S = 520
"""What the tests that need no JVM may cost together."""

FILE_BUDGET_S = 30
"""What the tests of one file may cost."""

OWN_BUDGETS_S = {
    "tests/reliability/works/test_crashes.py": 45,
    "tests/stores/test_hdfs.py": 120,
    "tests/stores/test_writers.py": 180,
}
"""What the tests of some files may cost: those that prove most, and cannot be cheaper."""

_NAMED = 8
_costs: Counter[str] = Counter()


class _Meter:
    """Tells what was spent since it was last asked."""

    def __init__(self) -> None:
        self._before = 0.0

    def read_s(self) -> float:
        now = _spent_s()
        spent, self._before = now - self._before, now
        return spent


_meter = _Meter()


def _spent_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def pytest_collection_finish() -> None:
    gc.freeze()  # the tests themselves are a million objects, and none of them is garbage
    _meter.read_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what came since the phase before this one ended; xdist sends it to the main process."""
    report = yield
    report.cost_s = _meter.read_s()  # type: ignore[attr-defined]
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _costs[report.nodeid.partition("::")[0]] += getattr(report, "cost_s", 0.0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    dear = [f"{path} {cost:.0f}" for path, cost in _costs.most_common(_NAMED) if cost >= 1]
    terminalreporter.write_line(
        f"processor seconds: {_costs.total():.0f} in {len(_costs)} files; most in {', '.join(dear)}"
    )
    unit = [path for path in _costs if not path.startswith(("tests/interop", "tests/spark"))]
    budgets = {path: OWN_BUDGETS_S.get(path, FILE_BUDGET_S) for path, _ in _costs.most_common()}
    costs = {"the unit loop": sum(_costs[path] for path in unit), **_costs}
    for what, budget_s in {"the unit loop": UNIT_BUDGET_S, **budgets}.items():
        if costs[what] > budget_s:
            terminalreporter.write_line(
                f"{what} costs {costs[what]:.0f} s, and may cost {budget_s} s: see CONTRIBUTING.md",
                yellow=True,
            )
