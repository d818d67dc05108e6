"""The session of docs/first-minute.md runs, and prints what the page shows."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
SESSION = runpy.run_path(str(ROOT / "docs/first_minute.py"))
PAGE = SESSION["PAGE"].read_text()


def same_in_each_run(page: str) -> str:
    """Leave out instants, and sizes of what was written."""
    return re.sub(r"\b\d{17}\b", "INSTANT", re.sub(r"\d+\.\d KiB", "SIZE", page))


def test_the_session(tmp_path: Path) -> None:
    recorded = SESSION["record"](PAGE, tmp_path)
    assert same_in_each_run(recorded) == same_in_each_run(PAGE), "run `python docs/first_minute.py`"
    assert (tmp_path / "report.html").is_file()


def test_a_minute_of_typing() -> None:
    typed = [
        line for line in SESSION["commands"](PAGE) if not line.startswith(("pip", "curl", "tar"))
    ]
    words = [word for line in typed for word in re.findall(r"bucketfmt (\w+)", line)]
    assert words == ["check", "lookup", "buckets", "report", "upsert", "lookup"]
    assert sum(map(len, typed)) < 300


def test_the_picture_shows_the_session() -> None:
    assert SESSION["FIGURE"].read_text() == SESSION["draw"](PAGE)
    assert "http" not in SESSION["FIGURE"].read_text().replace("http://www.w3.org/2000/svg", "")
