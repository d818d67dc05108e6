"""The figures of docs/reliability.md, made from what the sweeps saved."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from soak.damage.judge import Outcome
from soak.figures import RESULTS

__all__ = ["PAGE", "format_report", "write_report"]

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"

_DAMAGES = {
    "flip": "one bit of a byte flipped",
    "every-bit": "one bit flipped",
    "cut": "cut short",
    "forge": "a length or count forged",
    "splice": "a part moved or removed",
    "repeat": "a part repeated",
}
_OUTCOMES = [outcome.value for outcome in Outcome]


def write_report() -> None:
    """Put the tables into the page, between their marks."""
    PAGE.write_text(format_report(PAGE.read_text()))


def format_report(page: str) -> str:
    """Return the page with its tables made anew from the saved figures."""
    page = _between(page, "corruption", _table("corruption", ("damage", "file", "region")))
    page = _between(page, "peers", _table("peers", ("damage", "region", "reader")))
    for name in (
        "crashes",
        "interleavings",
        "threads",
        "kills",
        "moves",
        "clocks",
        "indexes",
        "machine",
    ):
        page = _between(page, name, _sums(name))
    return page


def _between(page: str, name: str, table: str) -> str:
    before, mark, rest = page.partition(f"<!-- figures: {name} -->\n")
    _, end, after = rest.partition("<!-- end -->")
    if not mark or not end:
        raise ValueError(f"{PAGE} has no place for the figures {name}")
    return f"{before}{mark}\n{table}\n{end}{after}"


def _sums(name: str) -> str:
    """Return the sums by kind of table, and of all."""
    rows = json.loads((RESULTS / f"{name}.json").read_text())
    numbers = [field for field, value in rows[0].items() if isinstance(value, int)]
    sums: dict[str, Counter[str]] = {}
    for row in rows:
        for key in (row["table"], "all"):
            sums.setdefault(key, Counter()).update({field: row[field] for field in numbers})
    everything = sums.pop("all")
    lines = [" | ".join(["table", *numbers]), " | ".join(["---", *(["--:"] * len(numbers))])]
    for key, found in [*sorted(sums.items()), ("all", everything)]:
        lines.append(" | ".join([key, *(f"{found[field]:,}" for field in numbers)]))
    return "".join(f"| {line} |\n" for line in lines)


def _table(name: str, fields: Sequence[str]) -> str:
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for row in json.loads((RESULTS / f"{name}.json").read_text()):
        key = tuple(_DAMAGES.get(row[field], row[field]) for field in fields)
        counts.setdefault(key, Counter())[row["outcome"]] += row["cases"]
    header = [*fields, "cases", *_OUTCOMES]
    lines = [" | ".join(header), " | ".join(["---"] * len(fields) + ["--:"] * (1 + len(_OUTCOMES)))]
    for key, outcomes in sorted(counts.items()):
        numbers = [sum(outcomes.values()), *(outcomes[outcome] for outcome in _OUTCOMES)]
        lines.append(" | ".join([*key, *(f"{number:,}" for number in numbers)]))
    return "".join(f"| {line} |\n" for line in lines)
