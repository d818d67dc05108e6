"""The published figures are those of the sweeps that were saved."""

from __future__ import annotations

import json

from soak.corruption import RESULTS
from soak.judge import GOOD
from soak.regions import ROW_DATA
from soak.report import PAGE, format_report


def test_the_page_shows_the_saved_figures() -> None:
    page = PAGE.read_text()
    assert format_report(page) == page


def test_the_saved_figures_keep_the_promises() -> None:
    good = {outcome.value for outcome in GOOD}
    for row in json.loads((RESULTS / "corruption.json").read_text()):
        log_rows = (row["file"], row["region"], row["damage"]) == ("log file", ROW_DATA, "flip")
        assert row["outcome"] in (good | {"silently different rows"} if log_rows else good)
