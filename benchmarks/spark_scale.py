"""A table of 10^8 rows on this machine, by Spark: what a run over 10^10 rows is reckoned from."""

from __future__ import annotations

import os
from pathlib import Path

from .measure import Result, Timing
from .spark_sessions import run_job

__all__ = ["measure_spark_scale"]

_ROWS_VARIABLE = "BENCHMARKS_SPARK_SCALE_ROWS"
_ROWS = 100_000_000


def measure_spark_scale(data: Path) -> list[Result]:
    """Make the table, change it, read it, and join it."""
    num_rows = int(os.environ.get(_ROWS_VARIABLE, _ROWS))
    found = run_job("benchmarks.spark_scale_job", data / "spark_scale", num_rows)
    num_bytes = found.pop("bytes")
    timings = [Timing(work, [wall], [cpu]) for work, (wall, cpu, *_) in found.items()]
    peaks = [
        max(column) for column in zip(*(peaks for _, _, *peaks in found.values()), strict=True)
    ]
    note = (
        f"64 buckets, copy-on-write, zstd, {num_bytes / 1e9:.2f} GB of base files; local[2], Spark "
        f"3.5.9. Peaks: {peaks[0]} MB for the Python driver, {peaks[1]} MB for the JVM, which may "
        f"take 3 GB of heap and makes the rows, {peaks[2]} MB for a Python worker. Each result was "
        f"compared with what was written. Set {_ROWS_VARIABLE} for another number of rows than "
        f"{_ROWS:,}."
    )
    title = f"Spark: a table of {num_rows:,} rows"
    return [Result(title, timings, [], num_rows / 1e6, "M rows", [note])]
