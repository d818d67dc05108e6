"""bucketfmt_spark where buckets are small and many, and where one is much larger than the others.

CPU is that of the driver, the JVM and the Python workers together.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import bucketfmt as bf
from benchmarks.measure import Figure, Result, Timing
from benchmarks.spark.sessions import drain, open_session, timed

__all__ = ["measure_spark_buckets"]

_SMALL_BUCKETS = 10_000
_SMALL_ROWS = 100 * _SMALL_BUCKETS
_SMALL_MOST_S = 60
_BUCKETS = 16
_LARGE_ROWS = 3_000_000
_SKEW = 100
_REPETITIONS = 3
_LAST = pa.array(list("@ABCDEFGHIJKLMNO"))  # of codes 0 to 15, modulo 16
_NOTE = "CPU is of the driver, the JVM and the Python workers; local[2]; broadcast joins are off."


def measure_spark_buckets(data: Path) -> list[Result]:
    """Measure on two cores; the tables are written below `data`, and removed."""
    folder = data / "spark_buckets"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with open_session(folder / "warehouse") as spark:
        results = [_measure_small(spark, folder), _measure_large(spark, folder)]
    shutil.rmtree(folder)
    return results


def _measure_small(spark: Any, folder: Path) -> Result:
    """Measure a write, a join and an aggregate of 10,000 buckets of 100 rows."""
    from pyspark.sql import functions as sf

    import bucketfmt_spark as bs

    numbers = sf.col("id")
    rows = spark.range(0, _SMALL_ROWS, 1, 4).select(
        sf.format_string("key-%09d", numbers).alias("key"),
        (numbers % 1000).alias("value"),
    )
    paths = [str(folder / name) for name in ("left", "right")]
    for path in paths:
        index = bf.SimpleBucketIndex(_SMALL_BUCKETS)
        bs.create(spark, path, rows.schema, record_key=["key"], index=index)
    write, join, aggregate = (Timing(name, [], []) for name in ("write", "join", "aggregate"))
    for path in paths:
        timed(write, partial(bs.write, rows, path, "bulk_insert"))

    def joined() -> Any:
        frame = bs.join(spark, *paths, suffix="_2")
        return frame.agg(sf.count("*"), sf.sum("value"), sf.sum("value_2")).collect()[0]

    def grouped() -> Any:
        frame = bs.aggregate(spark, paths[0], ["key"], {"total": ("value", "sum")})
        return frame.agg(sf.count("*"), sf.sum("total")).collect()[0]

    total = _SMALL_ROWS * 999 // 2
    _check(timed(join, joined), _SMALL_ROWS, total, total)
    _check(timed(aggregate, grouped), _SMALL_ROWS, total)
    timings = [write, join, aggregate]
    figures = [
        Figure(
            f"Spark: {timing.peer} of {_SMALL_BUCKETS:,} buckets of 100 rows",
            timing.wall,
            "s",
            at_most=_SMALL_MOST_S,
        )
        for timing in timings
    ]
    title = f"Spark: {_SMALL_BUCKETS:,} buckets of 100 rows"
    return Result(title, timings, figures, _SMALL_ROWS / 1e6, "M rows", [_NOTE])


def _measure_large(spark: Any, folder: Path) -> Result:
    """Measure what is done with a bucket that has 100 times the rows of each other bucket."""
    from pyspark.sql import functions as sf

    import bucketfmt_spark as bs

    share = _LARGE_ROWS // (_BUCKETS + _SKEW - 1)
    tables = {
        "equal buckets": [_LARGE_ROWS // _BUCKETS] * _BUCKETS,
        f"one of {_SKEW} times the rows": [_SKEW * share, *[share] * (_BUCKETS - 1)],
    }
    timings, figures = [], []
    for kind, counts in tables.items():
        table = _make_table(folder / f"rows_{counts[0]}", counts)
        rows, seats = sum(counts), sum(n % 5 + 1 for n in range(sum(counts)))

        def read(table: bf.Table = table) -> None:
            drain(bs.read(spark, table))

        def joined(table: bf.Table = table) -> Any:
            frame = bs.join(spark, table.scan(["id", "fare"]), table.scan(["id", "seats"]))
            return frame.agg(sf.count("*"), sf.sum("seats")).collect()[0]

        def grouped(table: bf.Table = table) -> Any:
            frame = bs.aggregate(spark, table, ["id"], {"n": ("seats", "sum")})
            return frame.agg(sf.count("*"), sf.sum("n")).collect()[0]

        runs: dict[str, Callable[[], Any]] = {
            "read": read,
            "join": joined,
            "aggregate": grouped,
        }
        for what, run in runs.items():
            tasks, found = _count_tasks(spark, run)
            if found is not None:
                _check(found, rows, seats)
            timing = Timing(f"{what}, {kind}: {tasks} tasks", [], [])
            for _ in range(_REPETITIONS):
                timed(timing, run)
            timings.append(timing)
            if counts[0] != counts[1]:
                name = f"Spark: tasks to {what} where one bucket of {_BUCKETS} has most rows"
                figures.append(Figure(name, tasks, "", at_least=2))
    title = f"Spark: {_LARGE_ROWS:,} rows in {_BUCKETS} buckets, equal and unequal"
    return Result(title, timings, figures, _LARGE_ROWS / 1e6, "M rows", [_NOTE])


def _make_table(path: Path, counts: list[int]) -> bf.Table:
    """Make a table with so many rows in each bucket, with seats of 1 to 5 in turn."""
    rows = sum(counts)
    numbers, random = np.arange(rows), np.random.default_rng(7)
    columns = {
        "id": pa.array(numbers).cast(pa.string()),
        "fare": random.random(rows),
        "tip": random.random(rows),
        "seats": pa.array(numbers % 5 + 1),
        "made": pa.array(random.integers(0, 1 << 40, rows)),
    }
    table = bf.create(
        path,
        schema=pa.table(columns).schema,
        record_key=["id"],
        index=bf.SimpleBucketIndex(len(counts)),
    )
    # A bucket is 31 + 31 * hash(start) + code(last character), modulo 16.
    wanted = np.repeat(np.arange(len(counts)), counts)
    found = table.pinned().assign(pa.table(columns))["rank"].to_numpy()
    last = _LAST.take(pa.array((wanted - 31 - 31 * (found - 31)) % len(counts)))
    columns["id"] = pc.binary_join_element_wise(columns["id"], last, "")
    table.bulk_insert(pa.table(columns))
    return bf.open(path)


def _count_tasks(spark: Any, run: Callable[[], Any]) -> tuple[int, Any]:
    """Return the tasks of the largest stage of what `run` does, and what it returns."""
    context = spark.sparkContext
    group, tracker = uuid.uuid4().hex, context.statusTracker()
    context.setJobGroup(group, "counted")
    found = run()
    context.setLocalProperty("spark.jobGroup.id", None)
    stages = [
        tracker.getStageInfo(stage)
        for job in tracker.getJobIdsForGroup(group)
        for stage in tracker.getJobInfo(job).stageIds
    ]
    return max(stage.numTasks for stage in stages if stage is not None), found


def _check(found: Any, *expected: int) -> None:
    if tuple(found) != expected:
        raise SystemExit(f"found {tuple(found)}, and should have found {expected}")
