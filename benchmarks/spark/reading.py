"""bucketfmt_spark beside Spark's own reading, joining and grouping of the same rows.

The peers are the same files read by Spark, and tables that Spark wrote by `bucketBy`, which it
joins and groups without an exchange too. CPU is that of the driver, the JVM and the Python workers
together, and the figures are ratios of it: wall clocks on a shared machine say little.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import bucketfmt as bf
from benchmarks.measure import Figure, Result
from benchmarks.spark.sessions import cpu_by, drain, open_session, race_in_session

__all__ = ["measure_spark_reading"]

_ROWS = 3_000_000
_BUCKETS = 16
_GROUPS = _ROWS // 10
_SELECTED = 2_000
_START = 1_700_000_000_000_000  # of the times of the rows, in microseconds; a row a second
_NOTE = (
    "Tables that bucketfmt wrote, zstd. Spark reads their base files by spark.read.parquet. CPU "
    "is of the driver, the JVM and the Python workers; local[2]; broadcast joins are off."
)
_BUCKET_BY = (
    "bucketBy: a table of Spark's own, written by repartition(16, key), "
    "write.bucketBy(16, key).sortBy(key) with zstd; a bucket is one file."
)
_REPETITIONS = 5
_FILTERED = ["id", "fare", "made"]  # read where rows are selected


def measure_spark_reading(data: Path) -> list[Result]:
    """Measure on two cores; the tables are written to `data` if they are not there."""
    trips, riders, visits = _make_tables(data / "spark")
    warehouse = data / "spark" / "warehouse"
    shutil.rmtree(warehouse, ignore_errors=True)  # of an earlier session, which knew its tables
    with open_session(warehouse) as spark:
        for name, table in {"trips": trips, "riders": riders, "visits": visits}.items():
            rows = _native(spark, table, table.schema.names).repartition(_BUCKETS, "id")
            writer = rows.write.option("compression", "zstd").bucketBy(_BUCKETS, "id").sortBy("id")
            writer.saveAsTable(name)
        results = [
            _measure_read(spark, trips),
            _measure_join(spark, trips, riders),
            _measure_aggregate(spark, visits),
            _measure_range(spark, trips),
            _measure_key(spark, trips),
        ]
    shutil.rmtree(warehouse)
    return results


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
            "made": pa.array(_START + numbers * 1_000_000, pa.timestamp("us", "UTC")),
        }
    )
    half = _ROWS // 2
    chosen = pa.array(random.permutation(_ROWS)[:half])
    riders = pa.table({"id": ids.take(chosen), "tip": random.random(half), "rider": chosen})
    visited = pa.array(random.integers(0, _GROUPS, _ROWS))
    visits = pa.table(
        {"id": ids.take(visited), "n": pa.array(numbers), "spent": random.random(_ROWS)}
    )
    simple = bf.SimpleBucketIndex(_BUCKETS)
    return [
        _make(folder / "trips", trips, ["id"], simple),
        _make(folder / "riders_16", riders, ["id"], simple),
        _make(folder / "visits_16", visits, ["id", "n"], bf.SimpleBucketIndex(_BUCKETS, ("id",))),
    ]


def _make(path: Path, rows: pa.Table, record_key: list[str], index: bf.Index) -> bf.Table:
    done = path.with_suffix(".done")
    if not done.exists():
        table = bf.create(path, schema=rows.schema, record_key=record_key, index=index)
        table.bulk_insert(rows)
        done.touch()
    return bf.open(path)


def _native(spark: Any, table: bf.Table, columns: list[str]) -> Any:
    files = [
        os.path.join(table.uri, path) for path in table.inspect.files().column("path").to_pylist()
    ]
    return spark.read.parquet(*files).select(*columns)


def _measure_read(spark: Any, trips: bf.Table) -> Result:
    import bucketfmt_spark as bs

    names = trips.schema.names
    timings = race_in_session(
        {
            "spark.read.parquet": lambda: drain(_native(spark, trips, names)),
            "bucketfmt_spark.read": lambda: drain(bs.read(spark, trips.uri)),
        },
        _REPETITIONS,
    )
    figure = Figure(
        "Spark: CPU of reading a COW table, by spark.read.parquet's",
        cpu_by(timings[1], timings[0]),
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

    def bucketed() -> Any:
        left = spark.table("trips").select("id", "fare").hint("merge")
        return left.join(spark.table("riders").select("id", "tip"), "id")

    def ours(engine: Any) -> Any:
        return total(bs.join(spark, *sides, columns=["fare", "tip"], engine=engine))

    peers: dict[str, Callable[[], Any]] = {
        "Spark, sort-merge": native,
        "Spark, bucketBy": lambda: total(bucketed()),
    }
    for engine in ("pyarrow", "polars", "duckdb"):
        peers[f"bucketfmt_spark.join, {engine}"] = partial(ours, engine)
    timings = race_in_session(peers, _REPETITIONS)
    if _exchanges(bucketed()):
        raise SystemExit("Spark moves rows of its own tables; the peer is not what it should be")
    best = min(timings[2:], key=lambda timing: timing.cpu)  # which one is in the figure's name
    engine = best.peer.split()[-1]
    figures = [
        Figure(
            f"Spark: CPU of sort-merge join, by the join of buckets ({engine})",
            cpu_by(timings[0], best),
            "x",
            at_least=4,
        ),
        Figure(
            f"Spark: CPU of the join of buckets ({engine}), by that of bucketBy tables",
            cpu_by(best, timings[1]),
            "x",
            at_most=0.8,
        ),
        Figure(
            "Spark: exchanges in the join of buckets",
            _exchanges(bs.join(spark, *sides)),
            "",
            at_most=0,
        ),
    ]
    title = f"Spark: join {_ROWS:,} rows in {_BUCKETS} buckets with {_ROWS // 2:,}"
    return Result(title, timings, figures, _ROWS * 1.5 / 1e6, "M rows", [_NOTE, _BUCKET_BY])


def _exchanges(frame: Any) -> int:
    return int(frame._jdf.queryExecution().executedPlan().toString().count("Exchange"))


def _measure_aggregate(spark: Any, visits: bf.Table) -> Result:
    from pyspark.sql import functions as sf

    import bucketfmt_spark as bs

    scan = visits.scan(["id", "spent"])

    def total(groups: Any) -> Any:
        row = groups.agg(sf.count("*"), sf.sum("n"), sf.sum("total")).collect()[0]
        return row[0], row[1], round(row[2], 3)

    def grouped(rows: Any) -> Any:
        return rows.groupBy("id").agg(sf.count("*").alias("n"), sf.sum("spent").alias("total"))

    aggs = {"n": ("*", "count"), "total": ("spent", "sum")}
    timings = race_in_session(
        {
            "Spark, groupBy": lambda: total(grouped(_native(spark, visits, ["id", "spent"]))),
            "Spark, groupBy of bucketBy": lambda: total(grouped(spark.table("visits"))),
            "bucketfmt_spark.aggregate": lambda: total(bs.aggregate(spark, scan, ["id"], aggs)),
        },
        _REPETITIONS,
    )
    native, bucketed, ours = timings
    figures = [
        Figure(
            "Spark: CPU of groupBy, by the aggregate of buckets",
            cpu_by(native, ours),
            "x",
            at_least=1.3,
        ),
        Figure(
            "Spark: CPU of the aggregate of buckets, by groupBy's of a bucketBy table",
            cpu_by(ours, bucketed),
            "x",
            at_most=1.0,
        ),
    ]
    title = f"Spark: group {_ROWS:,} rows by {_GROUPS:,} keys, {_BUCKETS} buckets"
    return Result(title, timings, figures, _ROWS / 1e6, "M rows", [_NOTE, _BUCKET_BY])


def _measure_range(spark: Any, trips: bf.Table) -> Result:
    """Measure a filter on a column in whose order the rows of each file are."""
    begin = _ROWS // 3
    first, last = (_START + row * 1_000_000 for row in (begin, begin + _SELECTED))
    condition = f"made >= timestamp_micros({first}L) AND made < timestamp_micros({last}L)"
    given = [("made", ">=", _time(first)), ("made", "<", _time(last))]
    peers = _filtering(spark, trips, condition, given)
    timings = race_in_session(peers, _REPETITIONS)
    figure = Figure(
        "Spark: CPU of a selective filter on a sorted column, by spark.read.parquet's",
        cpu_by(timings[1], timings[0]),
        "x",
        at_most=1.5,
    )
    title = f"Spark: a range of times, {_SELECTED:,} of {_ROWS:,} rows"
    return Result(title, timings, [figure], notes=[_NOTE])


def _measure_key(spark: Any, trips: bf.Table) -> Result:
    """Measure a filter that selects one key, whose bucket is known by its hash."""
    key = f"id = 'trip-{_ROWS // 3}'"
    bucketed = spark.table("trips").select(*_FILTERED)
    peers = _filtering(spark, trips, key, key)
    peers["Spark, bucketBy"] = lambda: _total(bucketed.where(key))
    timings = race_in_session(peers, _REPETITIONS)
    return Result(f"Spark: one key of {_ROWS:,}", timings, notes=[_NOTE, _BUCKET_BY])


def _filtering(
    spark: Any, trips: bf.Table, condition: str, given: Any
) -> dict[str, Callable[[], Any]]:
    """Return the peers that select rows: by a condition of Spark's, and by a filter of ours."""
    import bucketfmt_spark as bs

    return {
        "spark.read.parquet": lambda: _total(_native(spark, trips, _FILTERED).where(condition)),
        "bucketfmt_spark.read": lambda: _total(bs.read(spark, trips.uri, _FILTERED, given)),
    }


def _total(frame: Any) -> Any:
    from pyspark.sql import functions as sf

    row = frame.agg(sf.count("*"), sf.sum("fare"), sf.max("made"), sf.max("id")).collect()[0]
    return row[0], round(row[1], 6), *row[2:]


def _time(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1e6, timezone.utc)
