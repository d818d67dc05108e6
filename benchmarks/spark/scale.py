"""A table of 10^8 rows on this machine, by Spark, and what a run over 10^10 rows would need."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.measure import Figure, Result, Timing
from benchmarks.spark.sessions import run_job

__all__ = ["measure_spark_scale", "reckon_note"]

_ROWS_VARIABLE = "BENCHMARKS_SPARK_SCALE_ROWS"
_ROWS = 100_000_000
_BUCKETS = 64
_LARGE_ROWS = 10_000_000_000
_TOLD_MB = 512  # memory_bytes, which bounds joins and aggregates
_BOUNDED = ("aggregate by key", "join with a tenth")
_CAUSE = "A worker keeps what earlier tasks took, or the rows take more than is reckoned."


def measure_spark_scale(data: Path) -> list[Result]:
    """Make the table, change it, read it, and join it; reckon that for 10^10 rows."""
    num_rows = int(os.environ.get(_ROWS_VARIABLE, _ROWS))
    found = run_job("benchmarks.spark.scale_job", data / "spark_scale", num_rows)
    num_bytes = found.pop("bytes")
    timings = [Timing(work, [wall], [cpu]) for work, (wall, cpu, *_) in found.items()]
    peaks = [
        max(column) for column in zip(*(peaks for _, _, *peaks in found.values()), strict=True)
    ]
    note = (
        f"{_BUCKETS} buckets, copy-on-write, zstd, {num_bytes / 1e9:.2f} GB of base files; "
        f"local[2], Spark 3.5.9. Peaks: {peaks[0]} MB for the Python driver, {peaks[1]} MB for the "
        f"JVM, which may take 3 GB of heap and makes the rows, {peaks[2]} MB for a Python worker. "
        f"Each result was compared with what was written. Set {_ROWS_VARIABLE} for another number "
        f"of rows than {_ROWS:,}."
    )
    title = f"Spark: a table of {num_rows:,} rows"
    notes = [note, reckon_note(timings, num_rows, num_bytes)]
    return [Result(title, timings, _bounds(found), num_rows / 1e6, "M rows", notes)]


def reckon_note(timings: Sequence[Timing], num_rows: int, num_bytes: int) -> str:
    """Say what the same would need for 10^10 rows, where buckets stay as large as they are. Pure.

    Args:
        timings: Of each work.
        num_rows: The rows that were measured.
        num_bytes: The bytes of their base files.
    """
    scale = _LARGE_ROWS / num_rows
    hours = [f"{timing.peer} {timing.cpu * scale / 3600:.1f}" for timing in timings]
    return (
        f"{_LARGE_ROWS:,} rows in {_BUCKETS * scale:,.0f} buckets of the same size would need "
        f"{scale:g} times that, as tasks of buckets know nothing of one another. In core-hours: "
        f"{', '.join(hours)}; {num_bytes * scale / 1e9:,.0f} GB of base files. That was not run: "
        "docs/scale.md says what else changes."
    )


def _bounds(found: Mapping[str, Sequence[float]]) -> list[Figure]:
    """Return the peaks of Python workers that were told how much memory they have."""
    return [
        Figure(
            f"Spark: peak of a worker, {work}, told {_TOLD_MB} MB",
            found[work][4],
            "MB",
            at_most=1.5 * _TOLD_MB,
            cause=_CAUSE,
        )
        for work in _BOUNDED
    ]
