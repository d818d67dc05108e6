"""The figures that runs print, and keep for docs/reliability.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["RESULTS", "keep_figures", "tell_figures"]

RESULTS = Path(__file__).parent / "results"


def tell_figures(rows: Sequence[Mapping[str, str | int]], name: str, *, save: bool) -> int:
    """Print figures, keep them if they are to be saved, and return 1 if any `bad` is not 0."""
    for row in rows:
        print(", ".join(f"{field} {value}" for field, value in row.items()))
    if save:
        keep_figures(rows, name)
    return int(any(row["bad"] for row in rows))


def keep_figures(rows: Sequence[Mapping[str, str | int]], name: str) -> None:
    """Keep the figures of a run, for the report."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
