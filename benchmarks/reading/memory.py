"""Peak memory of reading a whole table as a stream, each reader in a process of its own.

usage: python -m benchmarks.reading.memory READER TABLE    prints rows, seconds, peak bytes
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import Figure, Result, Timing

__all__ = ["measure_memory", "peak_bytes"]

_BOUND_MB = 600
_REPETITIONS = 3
_TABLES = {
    "cow": "COW",
    "mor": "MOR, 10 % updates",
    "log_only": "log-only",
}


def _with_bucketfmt(path: Path) -> Iterator[int]:
    import bucketfmt as bf

    return (batch.num_rows for batch in bf.open(path).scan().to_batches())


def _with_pyarrow(path: Path) -> Iterator[int]:
    """The base files alone, as a dataset."""
    import pyarrow.dataset as ds

    files = ds.dataset(sorted(map(str, path.glob("*.parquet"))), format="parquet")
    names = [name for name in files.schema.names if not name.startswith("_hoodie")]
    return (batch.num_rows for batch in files.to_batches(columns=names))


def _with_hudi_rs(path: Path) -> Iterator[int]:
    from hudi import HudiReadOptions, HudiTableBuilder

    options = HudiReadOptions().with_projection(["id", "name", "price", "qty", "day", "ts"])
    table = HudiTableBuilder.from_base_uri(str(path)).build()
    return (batch.num_rows for batch in table.read_stream(options))


_BASE_FILES = "pyarrow.dataset, base files alone"
_READERS: dict[str, Callable[[Path], Iterator[int]]] = {
    "bucketfmt": _with_bucketfmt,
    _BASE_FILES: _with_pyarrow,
    "hudi-rs": _with_hudi_rs,
}


def peak_bytes() -> int:
    """Return the most memory this process held, libraries and all."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would count what the parent held when it forked
        line = next(line for line in status.read_text().splitlines() if "VmHWM" in line)
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure_memory(data: Path) -> list[Result]:
    """A full streaming read of each table, and of five times the table."""
    results = []
    for table, kind in _TABLES.items():
        for name, rows in ((table, 2.0), (f"{table}_5x", 10.0)):
            title = f"Peak memory of a stream, {kind}, {rows:.0f} M rows"
            results.append(_measure_stream(title, data / name, rows))
    return results


def _measure_stream(title: str, path: Path, million_rows: float) -> Result:
    readers = [r for r in _READERS if r != _BASE_FILES or any(path.glob("*.parquet"))]
    timings = [Timing(reader, [], [], []) for reader in readers]
    for turn in range(_REPETITIONS):
        for timing in timings[: 1 if turn else None]:  # once is enough for the peers
            found = _run(timing.peer, path)
            if found["rows"] != million_rows * 1e6:
                raise SystemExit(f"{timing.peer} reads {found['rows']} rows of {path}")
            timing.walls.append(found["wall"])
            timing.cpus.append(found["cpu"])
            timing.peaks.append(int(found["peak"]))
    worst = max(timings[0].peaks) / 1e6
    figure = Figure(title, worst, "MB", at_most=_BOUND_MB)
    return Result(title, timings, [figure], million_rows, "M rows")


def _run(reader: str, path: Path) -> dict[str, float]:
    """Read the table in a process of its own and return what it reports."""
    command = [sys.executable, "-m", "benchmarks.reading.memory", reader, str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _report(reader: str, path: Path) -> None:
    started, used = time.perf_counter(), time.process_time()
    rows = sum(_READERS[reader](path))
    wall = time.perf_counter() - started
    cpu = time.process_time() - used
    found = {"rows": rows, "wall": wall, "cpu": cpu, "peak": peak_bytes()}
    print(json.dumps(found))


if __name__ == "__main__":
    _report(sys.argv[1], Path(sys.argv[2]))
