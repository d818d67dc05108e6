"""Results as text: tables of peers, and the targets."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure, Result, Timing, cpu_ratio, ratio

__all__ = ["encode_run", "format_figures", "format_results", "write_report"]

Run = Mapping[str, Any]
"""One benchmark of one run, as its JSON file has it."""

_PREAMBLE = """# Speed and memory

`make bench` (`python -m benchmarks`) writes this page; do not edit it.
`python -m benchmarks NAME...` runs some benchmarks again and keeps the figures of the others. The
peers of a table ran in turns in one run, on the same data, with the files in the page cache. Their
results are compared before they are timed.

Times are the median of the repetitions. CPU is user and system time of all threads. "x" is the
median, over the rounds, of the peer's time divided by that of the first line: more than 1 is
slower. Where other work shares the machine, the CPU column is more reliable than the wall clock.

Apache Hudi 1.2.0 wrote the tables (`benchmarks/make_data.py`): 2 M rows of 11 columns
(Hudi's five and six of the user's), record keys of 32 characters, 16 buckets, snappy; `_5x` has
five times the rows. `benchmarks/wide_table.py` makes `wide`, a table of 20,000 file groups.
"""


def encode_run(
    name: str, results: Sequence[Result], environment: Mapping[str, str], measured: str, load: str
) -> Run:
    """Return one benchmark as the content of its JSON file."""
    return {
        "benchmark": name,
        "measured": measured,
        "load": load,
        "environment": environment,
        "results": [asdict(result) for result in results],
    }


def format_results(results: Sequence[Result]) -> str:
    """Return the tables of peers as markdown."""
    return "\n\n".join(_format_result(result) for result in results)


def _format_result(result: Result) -> str:
    has_amount = result.amount is not None
    has_peaks = any(timing.peaks for timing in result.timings)
    header = ["", "wall s", "best s", "CPU s", "x wall", "x CPU"]
    header += [f"{result.unit}/s"] if has_amount else []
    header += ["peak MB"] if has_peaks else []
    rows = []
    for timing in result.timings:
        cells = [
            timing.peer,
            f"{timing.wall:.3f}",
            f"{min(timing.walls):.3f}",
            f"{timing.cpu:.3f}",
            f"{_times(timing, result.timings[0]):.2f}",
            f"{_cpu_times(timing, result.timings[0]):.2f}",
        ]
        cells += [f"{(result.amount or 0) / timing.wall:.2f}"] if has_amount else []
        cells += [f"{max(timing.peaks) / 1e6:.0f}"] if has_peaks else []
        rows.append(cells)
    notes = "".join(f"\n\n{note}" for note in result.notes)
    return f"### {result.title}\n\n{_table(header, rows)}{notes}"


def _times(timing: Timing, first: Timing) -> float:
    if len(timing.walls) == len(first.walls):
        return ratio([timing, first], timing.peer, first.peer)
    return timing.wall / first.wall


def _cpu_times(timing: Timing, first: Timing) -> float:
    if len(timing.cpus) == len(first.cpus) and all(first.cpus):
        return cpu_ratio([timing, first], timing.peer, first.peer)
    return timing.cpu / first.cpu


def format_figures(figures: Iterable[Figure]) -> str:
    """Return the table of the targets, and after it the cause of each missed target."""
    figures = list(figures)
    if not figures:
        return "These benchmarks have no targets."
    rows = []
    for figure in figures:
        verdict = "met" if figure.is_met else f"**missed** by {_distance(figure):.0%}"
        bound = f"<= {figure.at_most:g}" if figure.at_least is None else f">= {figure.at_least:g}"
        rows.append([figure.name, f"{figure.value:.3g}", bound, figure.unit, verdict])
    missed: dict[str, list[str]] = {}
    for figure in figures:
        if not figure.is_met:
            missed.setdefault(figure.cause, []).append(figure.name)
    causes = [f"- {'; '.join(names)}. {cause}" for cause, names in missed.items()]
    table = _table(["figure", "measured", "target", "", ""], rows)
    return table + ("\n\nReasons for the missed targets:\n\n" + "\n".join(causes) if causes else "")


def _distance(figure: Figure) -> float:
    if figure.at_most is not None:
        return figure.value / figure.at_most - 1
    return 1 - figure.value / (figure.at_least or 1)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(3, *map(len, column)) for column in zip(header, *rows, strict=True)]
    alignment = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [header, alignment, *rows]
    return "\n".join(
        "| " + " | ".join(_aligned(cell, widths, at) for at, cell in enumerate(line)) + " |"
        for line in lines
    )


def _aligned(cell: str, widths: Sequence[int], at: int) -> str:
    return cell.rjust(widths[at]) if at else cell.ljust(widths[at])


def write_report(path: Path, runs: Sequence[Run]) -> None:
    """Write the page of all results, from the JSON of each benchmark's newest run."""
    results = {run["benchmark"]: [_decode_result(raw) for raw in run["results"]] for run in runs}
    figures = [figure for own in results.values() for result in own for figure in result.figures]
    met = sum(figure.is_met for figure in figures)
    parts = [_PREAMBLE, _format_environments(runs), "## Targets"]
    parts += [f"{met} of {len(figures)} targets are met.", format_figures(figures)]
    for name, own in results.items():
        parts += [f"## {name}", format_results(own)]
    path.write_text("\n\n".join(part.strip() for part in parts) + "\n")


def _decode_result(raw: Mapping[str, Any]) -> Result:
    return Result(
        **{
            **raw,
            "timings": [Timing(**timing) for timing in raw["timings"]],
            "figures": [Figure(**figure) for figure in raw["figures"]],
        }
    )


def _format_environments(runs: Sequence[Run]) -> str:
    """Return each machine that runs were made on, and which."""
    by_machine: dict[str, list[Run]] = {}
    for run in runs:
        by_machine.setdefault(json.dumps(run["environment"]), []).append(run)
    parts = ["## Measured on"]
    for machine, own in by_machine.items():
        facts = [f"- {key}: {value}" for key, value in json.loads(machine).items()]
        loads = statistics.median(float(run["load"]) for run in own)
        days = sorted({run["measured"][:10] for run in own})
        facts.append(f"- on: {', '.join(days)}; load average {loads:.1f} (median)")
        if len(by_machine) > 1:
            facts.append(f"- what: {', '.join(run['benchmark'] for run in own)}")
        parts.append("\n".join(facts))
    return "\n\n".join(parts)
