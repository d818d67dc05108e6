"""Many small file groups: read by a scan, and checked by one process and by several.

The rows are few, so that nearly all time is that of opening files. pyarrow opens the same files as
a dataset, in C++.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

import bucketfmt as bf
from benchmarks.measure import Figure, Result, Timing, cpu_ratio, cpu_seconds, ratio
from bucketfmt.format.keys.hashing_kernels import bucket_ids

__all__ = ["measure_small_files"]

_GROUPS = 5_000
_REPETITIONS = 3
_US, _DATASET = "bucketfmt", "pyarrow, the same files as a dataset"
_ONE = "one process"
_SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])
_ONE_THREAD = (
    "One thread reads all files, and pyarrow opens them on two processors: a second thread would "
    "mostly wait for the first, in Python."
)
_STARTED = "Each process loads Python and the timeline before it opens files."


def measure_small_files(_data: Path) -> list[Result]:
    """Scan and check a table of one row to a file group."""
    with tempfile.TemporaryDirectory(prefix="bucketfmt-bench-") as temporary:
        path = Path(temporary, "table")
        index = bf.SimpleBucketIndex(_GROUPS)
        bf.create(path, schema=_SCHEMA, record_key=["id"], index=index).upsert(_rows())
        return [_measure_scan(path), _measure_check(path)]


def _rows() -> pa.Table:
    """Return a row for each bucket."""
    keys = pa.array([f"k{number}" for number in range(20 * _GROUPS)])
    _, first = np.unique(bucket_ids([keys], _GROUPS), return_index=True)
    return pa.table({"id": keys.take(pa.array(first)), "v": first.astype(np.int64)}, _SCHEMA)


def _measure_scan(path: Path) -> Result:
    files = sorted(map(str, path.glob("*.parquet")))
    peers: dict[str, Callable[[], int]] = {
        _US: lambda: bf.open(path).scan().to_arrow().num_rows,
        _DATASET: lambda: ds.dataset(files).to_table().num_rows,
    }
    timings = [Timing(name, [], []) for name in peers]
    for _ in range(_REPETITIONS):
        for timing in timings:
            if _time(timing, peers[timing.peer]) != _GROUPS:
                raise SystemExit(f"{timing.peer} does not read {_GROUPS} rows")
    title = f"Scan of {_GROUPS:,} file groups of a row"
    figures = [
        Figure(
            f"{title}: {what} by that of {_DATASET}",
            times(timings, _US, _DATASET),
            "x",
            1.5,
            cause=_ONE_THREAD,
        )
        for what, times in (("CPU time", cpu_ratio), ("time", ratio))
    ]
    return Result(title, timings, figures, _GROUPS / 1e3, "k files")


def _measure_check(path: Path) -> Result:
    processors = len(os.sched_getaffinity(0))
    several = f"{processors} processes"
    timings = [Timing(_ONE, [], []), Timing(several, [], [])]
    for _ in range(_REPETITIONS):
        for timing, processes in zip(timings, (1, processors), strict=True):
            _time(timing, partial(_check, path, processes))
    title = f"check --depth full of {_GROUPS:,} file groups of a row"
    told = f"{title}: {several} against one, on {processors} processors"
    times = ratio(timings, _ONE, several)
    figures = [Figure(told, times, "times as fast", at_least=1.5, cause=_STARTED)]
    return Result(title, timings, figures, _GROUPS / 1e3, "k files")


def _check(path: Path, processes: int) -> None:
    report = bf.check_table(path, depth="full", processes=processes)
    if report.status != "clean" or report.checked["keys"] != _GROUPS:
        raise SystemExit(f"the table is not clean: {report}")


def _time(timing: Timing, act: Callable[[], int | None]) -> int | None:
    wall, cpu = time.perf_counter(), cpu_seconds()
    result = act()
    timing.walls.append(time.perf_counter() - wall)
    timing.cpus.append(cpu_seconds() - cpu)
    return result
