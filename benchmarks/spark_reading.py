"""bucketfmt_spark beside Spark's own reading, joining and grouping of the same files.

CPU is that of the driver, the JVM and the Python workers together, and the figures are ratios of
it: wall clocks on a shared machine say little.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import bucketfmt as bf

from .measure import Figure, Result, Timing

__all__ = ["measure_spark_reading"]

_ROWS = 3_000_000
_NOTE = (
    "Tables that bucketfmt wrote, zstd. Spark reads their base files by spark.read.parquet. CPU "
    "is of the driver, the JVM and the Python workers; local[2]; broadcast joins are off."
)
_REPETITIONS = 5
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


def measure_spark_reading(data: Path) -> list[Result]:
    """Measure on two cores; the tables are written to `data` if they are not there."""
    trips, riders, visits = _make_tables(data / "spark")
    with _session() as spark:
        return [
            _measure_read(spark, trips),
            _measure_join(spark, trips, riders),
            _measure_aggregate(spark, visits),
        ]


def _make_tables(folder: Path) -> list[bf.Table]:
    numbers = np.arange(_ROWS)
    random = np.random.default_rng(7)
    ids = pa.array(numbers).cast(pa.string())
    ids = pc.binary_join_element_wise("trip", ids, "-")
    trips = pa.table(
        {
            "id": ids,
            "fare": random.random(_ROWS),
            "city": pa.array(random.integers(0, 500, _ROWS)).cast(pa.string()),
            "seats": pa.array(random.integers(1, 6, _ROWS), pa.int32()),
            "made": pa.array(
                1_700_000_000_000_000 + numbers * 1_000_000, pa.timestamp("us", "UTC")
            ),
        }
    )
    half = _ROWS // 2
    chosen = pa.array(random.permutation(_ROWS)[:half])
    riders = pa.table({"id": ids.take(chosen), "tip": random.random(half), "rider": chosen})
    visited = pa.array(random.integers(0, _ROWS // 3, half))
    visits = pa.table(
        {"id": ids.take(visited), "n": pa.array(numbers[:half]), "spent": random.random(half)}
    )
    return [
        _make(folder / "trips", trips, ["id"], bf.SimpleBucketIndex(16)),
        _make(folder / "riders", riders, ["id"], bf.SimpleBucketIndex(8)),
        _make(folder / "visits", visits, ["id", "n"], bf.SimpleBucketIndex(8, ("id",))),
    ]


def _make(path: Path, rows: pa.Table, record_key: list[str], index: bf.Index) -> bf.Table:
    done = path.with_suffix(".done")
    if not done.exists():
        table = bf.create(path, schema=rows.schema, record_key=record_key, index=index)
        table.bulk_insert(rows)
        done.touch()
    return bf.open(path)


@contextmanager
def _session() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def _native(spark: Any, table: bf.Table, columns: list[str]) -> Any:
    files = [
        os.path.join(table.uri, path) for path in table.inspect.files().column("path").to_pylist()
    ]
    return spark.read.parquet(*files).select(*columns)


def _measure_read(spark: Any, trips: bf.Table) -> Result:
    import bucketfmt_spark as bs

    names = trips.schema.names
    timings = _race(
        {
            "spark.read.parquet": lambda: _drain(_native(spark, trips, names)),
            "bucketfmt_spark.read": lambda: _drain(bs.read(spark, trips.uri)),
        }
    )
    figure = Figure(
        "Spark: CPU of reading a COW table, by spark.read.parquet's",
        _ratio(timings[1], timings[0]),
        "x",
        at_most=1.5,
    )
    title = f"Spark: read {_ROWS:,} rows, 5 columns, of copy-on-write"
    return Result(title, timings, [figure], _ROWS / 1e6, "M rows", [_NOTE])


def _measure_join(spark: Any, trips: bf.Table, riders: bf.Table) -> Result:
    from pyspark.sql import functions as sf

    import bucketfmt_spark as bs

    sides = trips.scan(["id", "fare"]), riders.scan(["id", "tip"])

    def total(joined: Any) -> Any:
        row = joined.agg(sf.count("*"), sf.sum("fare"), sf.sum("tip")).collect()[0]
        return row[0], round(row[1], 3), round(row[2], 3)

    def native() -> Any:
        left = _native(spark, trips, ["id", "fare"]).hint("merge")
        return total(left.join(_native(spark, riders, ["id", "tip"]), "id"))

    peers: dict[str, Callable[[], Any]] = {"Spark, sort-merge": native}
    for engine in ("pyarrow", "polars", "duckdb"):
        peers[f"bucketfmt_spark.join, {engine}"] = lambda engine=engine: total(
            bs.join(spark, *sides, columns=["fare", "tip"], engine=engine)
        )
    timings = _race(peers)
    plan = bs.join(spark, *sides)._jdf.queryExecution().executedPlan().toString()
    best = min(timings[1:], key=lambda timing: timing.cpu)  # which one is in the figure's name
    figures = [
        Figure(
            f"Spark: CPU of sort-merge join, by the join of buckets ({best.peer.split()[-1]})",
            _ratio(timings[0], best),
            "x",
            at_least=4,
        ),
        Figure("Spark: exchanges in the join of buckets", plan.count("Exchange"), "", at_most=0),
    ]
    title = f"Spark: join {_ROWS:,} rows in 16 buckets with {_ROWS // 2:,} in 8"
    return Result(title, timings, figures, _ROWS * 1.5 / 1e6, "M rows", [_NOTE])


def _measure_aggregate(spark: Any, visits: bf.Table) -> Result:
    from pyspark.sql import functions as sf

    import bucketfmt_spark as bs

    scan = visits.scan(["id", "spent"])

    def total(groups: Any) -> Any:
        row = groups.agg(sf.count("*"), sf.sum("n"), sf.sum("total")).collect()[0]
        return row[0], row[1], round(row[2], 3)

    def native() -> Any:
        rows = _native(spark, visits, ["id", "spent"]).groupBy("id")
        return total(rows.agg(sf.count("*").alias("n"), sf.sum("spent").alias("total")))

    aggs = {"n": ("*", "count"), "total": ("spent", "sum")}
    timings = _race(
        {
            "Spark, groupBy": native,
            "bucketfmt_spark.aggregate": lambda: total(bs.aggregate(spark, scan, ["id"], aggs)),
        }
    )
    figure = Figure(
        "Spark: CPU of groupBy, by the aggregate of buckets",
        _ratio(timings[0], timings[1]),
        "x",
        at_least=1.3,
    )
    title = f"Spark: group {_ROWS // 2:,} rows by key, 8 buckets"
    return Result(title, timings, [figure], _ROWS / 2e6, "M rows", [_NOTE])


def _drain(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _ratio(timing: Timing, to: Timing) -> float:
    return timing.cpu / to.cpu


def _race(peers: dict[str, Callable[[], Any]]) -> list[Timing]:
    found = {name: run() for name, run in peers.items()}  # untimed, and compared
    if len(set(found.values())) != 1:
        raise SystemExit(f"the peers disagree: {found}")
    timings = {name: Timing(name, [], []) for name in peers}
    order = list(peers)
    for turn in range(_REPETITIONS):
        start = turn % len(order)
        for name in (*order[start:], *order[:start]):
            gc.collect()
            wall, cpu = time.perf_counter(), _cpu_seconds()
            peers[name]()
            timings[name].walls.append(time.perf_counter() - wall)
            timings[name].cpus.append(_cpu_seconds() - cpu)
    return list(timings.values())


def _cpu_seconds() -> float:
    """User and system time of this process and of all it started, ended ones too."""
    import psutil

    own = psutil.Process()
    total = 0.0
    for process in (own, *own.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
