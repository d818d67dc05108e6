"""Sessions of Spark, peers that are timed in one of them, and jobs in the environment of Hudi."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measure import Timing, cpu_seconds
from tests.interop.engines.hudi import ROOT, find_python

__all__ = ["cpu_by", "drain", "open_session", "race_in_session", "run_job", "timed"]

_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "3g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.autoBroadcastJoinThreshold": "-1",  # these sides are to stand for large ones
    "spark.sql.session.timeZone": "UTC",
}


@contextmanager
def open_session(warehouse: Path) -> Iterator[Any]:
    """Return a session on two cores that keeps its own tables in `warehouse`."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    for key, value in {**_SETTINGS, "spark.sql.warehouse.dir": str(warehouse)}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def run_job(module: str, folder: Path, *arguments: int) -> dict[str, Any]:
    """Run a module where Spark has Hudi's bundle, and return the JSON of its last line.

    The job writes below `folder`, its first argument, which is empty before and gone afterwards.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    python = str(find_python())
    done = subprocess.run(
        [python, "-m", module, str(folder), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": python},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    shutil.rmtree(folder)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def drain(frame: Any) -> None:
    """Compute all rows of a DataFrame."""
    frame.write.format("noop").mode("overwrite").save()


def cpu_by(timing: Timing, to: Timing) -> float:
    """Return the CPU of one peer by another's, both the median of their rounds."""
    return timing.cpu / to.cpu


def race_in_session(peers: Mapping[str, Callable[[], Any]], repetitions: int) -> list[Timing]:
    """Return how long each peer takes, in rounds in which each has its turn.

    A round before is not timed: in it every peer must return the same.
    """
    found = {name: run() for name, run in peers.items()}
    if len(set(found.values())) != 1:
        raise SystemExit(f"the peers disagree: {found}")
    timings = {name: Timing(name, [], []) for name in peers}
    order = list(peers)
    for turn in range(repetitions):
        start = turn % len(order)
        for name in (*order[start:], *order[:start]):
            timed(timings[name], peers[name])
    return list(timings.values())


def timed(timing: Timing, run: Callable[[], Any]) -> Any:
    """Return what `run` returns, and add the seconds that it took to a timing."""
    gc.collect()
    wall, cpu = time.perf_counter(), cpu_seconds()
    found = run()
    timing.walls.append(time.perf_counter() - wall)
    timing.cpus.append(cpu_seconds() - cpu)
    return found
