"""Takes a few of the cases of a test marked `rotated`: others with each commit.

`soak.covering` says what they cover. `pytest --every-case` takes all cases; so does `make soak`.
A case that is named on the command line (`pytest 'tests/x.py::test_y[case]'`) is always taken.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

import pytest
from hypothesis import settings

from soak.covering import cover

_ROOT = Path(__file__).parents[1]
_ALL = sys.maxsize

Drawn = TypeVar("Drawn")


class _Group(NamedTuple):
    """Cases of which some are chosen that cover the values of all."""

    own: str
    names: tuple[str, ...]
    strength: int
    among: str
    one_of: int


@cache
def seed() -> str:
    """The seed of this run: TESTS_SEED, or the commit; the same in all processes of a run."""
    if given := os.environ.get("TESTS_SEED"):
        return given
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    try:
        found = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):  # sources without their history
        return "0"
    return found.stdout.strip()


def examples(number: int) -> int:
    """How many examples to try of a property where others try a hundred."""
    return max(1, number * settings().max_examples // 100)


def thin(cases: Sequence[Drawn], drawn: str, one_of: int) -> list[Drawn]:
    """Return one of so many cases: which ones, the seed says."""
    return list(cases[Random(drawn).randrange(min(one_of, len(cases))) :: one_of])


def pytest_configure(config: pytest.Config) -> None:
    # A busy machine is no failure.
    settings.register_profile("some", deadline=None, max_examples=25)
    settings.register_profile("many", deadline=None, max_examples=500)
    settings.load_profile("many" if config.getoption("--every-case") else "some")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-case",
        action="store_true",
        help="take all cases of the tests marked `rotated`, and more examples of each property",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--every-case") or any("[" in argument for argument in config.args):
        return
    groups: dict[_Group, dict[tuple[str, ...], pytest.Item]] = {}
    for item in items:
        marker = item.get_closest_marker("rotated")
        if marker is not None:
            names, case = zip(*_values_of(item), strict=True)
            own, strength = item.nodeid.split("::")[0], 1
            if marker.args:
                own, (strength,) = item.nodeid.split("[")[0], marker.args
            if "each" in marker.kwargs:
                own += f" {dict(zip(names, case, strict=True))[marker.kwargs['each'] + '0']}"
            among = marker.kwargs.get("among", "")
            one_of = marker.kwargs.get("one_of", _ALL if among else 1)
            groups.setdefault(_Group(own, names, strength, among, one_of), {})[case] = item
    covering: dict[tuple[object, ...], list[pytest.Item]] = {}
    for group, cases in groups.items():
        share = (group.among or group, group.one_of)
        chosen = cover(list(cases), f"{seed()} {group.own}", group.strength)
        covering.setdefault(share, []).extend(cases[case] for case in chosen)
    taken: set[pytest.Item] = set()
    for (sharing, one_of), found in covering.items():
        drawn = sharing.own if isinstance(sharing, _Group) else sharing
        taken.update(thin(found, f"{seed()} {drawn}", one_of))
    left_out = {item for cases in groups.values() for item in cases.values()} - taken
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _values_of(item: pytest.Item) -> list[tuple[str, str]]:
    """Return the axes of a test with its values: its function, and its parameters, unpacked."""
    assert isinstance(item, pytest.Function)
    values = [("", item.nodeid.split("[")[0])]
    if hasattr(item, "callspec"):
        for name, value in item.callspec.params.items():
            parts = value if isinstance(value, tuple) else (value,)
            values += [(f"{name}{at}", str(part)) for at, part in enumerate(parts)]
    return sorted(values)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not terminalreporter.config.getoption("--every-case"):
        told = f"rotated cases: chosen by TESTS_SEED={seed()}; all with --every-case"
        terminalreporter.write_line(told)
