"""The published figures are those of the sweeps that were saved."""

from __future__ import annotations

import json

import pytest

from soak.damage.judge import GOOD
from soak.damage.regions import ROW_DATA
from soak.figures import RESULTS
from soak.report import PAGE, format_report
from soak.works.works import KINDS


def test_the_page_shows_the_saved_figures() -> None:
    page = PAGE.read_text()
    assert format_report(page) == page


@pytest.mark.parametrize("name", ["crashes", "interleavings", "threads", "indexes", "machine"])
def test_nothing_is_bad_where_writers_die_fail_or_meet(name: str) -> None:
    rows = json.loads((RESULTS / f"{name}.json").read_text())
    assert rows
    assert not [row for row in rows if row["bad"]]


def test_how_often_writers_were_struck() -> None:
    rows = json.loads((RESULTS / "crashes.json").read_text())
    # Tables with these are newer than the figures.
    newer = ("metadata", "directory", "groups", "virtual")
    older = {str(kind) for kind in KINDS if not any(name in str(kind) for name in newer)}
    assert {row["table"] for row in rows} >= older
    assert sum(row["crashes"] for row in rows) >= 50_000
    assert sum(row["errors"] for row in rows) >= 50_000


def test_the_saved_figures_keep_the_promises() -> None:
    good = {outcome.value for outcome in GOOD}
    for row in json.loads((RESULTS / "corruption.json").read_text()):
        log_rows = (row["file"], row["region"], row["damage"]) == ("log file", ROW_DATA, "flip")
        assert row["outcome"] in (good | {"silently different rows"} if log_rows else good)
