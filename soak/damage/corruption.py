"""Sweeps every file of the tiny tables, and keeps the figures as JSON."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from soak.damage.judge import Outcome
from soak.damage.regions import ROW_DATA, kind_of
from soak.damage.sweep import Sweep, Task, run_sweep
from soak.damage.tables import TABLES, files_to_damage, read_files, table_files
from soak.figures import keep_figures
from soak.progress import Progress

__all__ = ["print_bad", "save_figures", "sweep_peers", "sweep_tables"]

READERS = ("bucketfmt", "hudi-rs")


def sweep_tables(
    damages: Sequence[str],
    tables: Iterable[str] = TABLES,
    *,
    workers: int,
    seed: int = 0,
    stride: int = 1,
    only: str = "",
) -> list[Sweep]:
    """Sweep all files, several at a time.

    Files that the reading never opens are only cut: what they hold is no matter, and what size
    they have may be.
    """
    tasks = [
        Task(table, path, damage, seed, stride)
        for table in tables
        for path in files_to_damage(table)
        for damage in damages
        if only in path and (path in read_files(table) or damage == "cut")
    ]
    return _run(tasks, workers)


def sweep_peers(tables: Iterable[str], *, workers: int) -> list[Sweep]:
    """Flip a bit of every byte of every log file, and cut it to every length, for all readers."""
    tasks = [
        Task(table, path, damage, reader=reader)
        for table in tables
        for path in sorted(read_files(table))
        if kind_of(path) == "log file"
        for damage in ("flip", "cut")
        for reader in READERS
    ]
    return _run(tasks, workers)


def _run(tasks: list[Task], workers: int) -> list[Sweep]:
    tasks.sort(key=lambda task: -len(table_files(task.table)[task.path]))
    started, sweeps, progress = time.monotonic(), [], Progress()
    with ThreadPoolExecutor(workers) as pool:
        for sweep in pool.map(run_sweep, tasks):
            sweeps.append(sweep)
            progress.tell(
                f"{len(sweeps)} of {len(tasks)} files swept, "
                f"{sum(sum(s.counts.values()) for s in sweeps)} cases, "
                f"{sum(len(s.bad) for s in sweeps)} bad, {time.monotonic() - started:.0f} s"
            )
    progress.end()
    return sweeps


def print_bad(sweeps: Iterable[Sweep]) -> int:
    """Print all that must not be; return 1 if there is any.

    Silently different values of rows are counted only: Hudi's formats have no checksum over
    them in log files.
    """
    found = 0
    for bad in (bad for sweep in sweeps for bad in sweep.bad):
        if bad.region == ROW_DATA and bad.outcome is Outcome.SILENT:
            continue
        found = 1
        task = bad.task
        print(f"{task.table} {task.path}: {bad.what} ({bad.region}): {bad.outcome.value}")
        print(f"    {bad.detail}")
    return found


def save_figures(sweeps: Iterable[Sweep], name: str) -> None:
    """Write the counts, by reader, kind of file, region, damage and outcome."""
    counts: Counter[tuple[str, ...]] = Counter()
    for sweep in sweeps:
        task = sweep.task
        for (region, outcome), number in sweep.counts.items():
            key = task.reader, kind_of(task.path), region, task.damage, outcome.value
            counts[key] += number
    fields = ("reader", "file", "region", "damage", "outcome")
    rows = [
        {**dict(zip(fields, key, strict=True)), "cases": n} for key, n in sorted(counts.items())
    ]
    keep_figures(rows, name)
