"""bucketfmt_spark beside Spark's native writer and Hudi's, all in one Spark 3.5 session.

CPU is that of the driver, the JVM and the Python workers together, and the figures are ratios of
it: wall clocks on a shared machine say little.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import Figure, Result, Timing
from benchmarks.spark.sessions import run_job

__all__ = ["measure_spark_writing"]

_ROWS, _REPETITIONS = 3_000_000, 2
_NOTE = (
    "8 buckets, snappy, local[2], Spark 3.5.9 with Hudi's bundle. CPU is of the driver, the JVM "
    "and the Python workers. Files of bucketfmt and of Hudi have Hudi's five columns and key "
    "filters, which Spark's do not."
)
_BUCKET_BY = (
    "write.bucketBy moves no rows: each of its four tasks writes a file to each bucket. A file "
    "to a bucket, as bucketfmt writes, takes repartition(8, key) before. Both have sortBy(key)."
)
_CAUSE = (
    "Rows go from the JVM to Python as Arrow, and are written with Hudi's five columns and a bloom "
    "filter of the keys, which Spark's files do not have."
)
_BY_HUDI = (
    f"{_CAUSE} Of the CPU of a write, some two fifths are the scan and the exchange, as of "
    "bucketBy's, and nearly half the Python tasks: most of that parquet, and the filters of keys."
)
_FIXED = (
    "Spark's share is a fixed one: the exchange, and eight Python tasks; the core takes 1.3 s to "
    "upsert 200,000 rows into a million outside Spark."
)
_FIXED_PARTS = (
    "Both have Spark's share: the exchange, and the tasks of eight buckets, which take as long "
    "where they write little."
)


def measure_spark_writing(data: Path) -> list[Result]:
    """Write rows, and upsert a fifth of them."""
    job = "benchmarks.spark.writing_job"
    found = run_job(job, data / "spark_writing", _ROWS, _REPETITIONS)
    writes, upserts, few = (_timings(timings) for timings in found.values())
    return [
        Result(
            f"Spark: {_ROWS:,} new rows",
            writes,
            [
                _figure(f"Spark: CPU of a write, by {name}", (peer, writes[-1]), cause, at_most)
                for peer, name, cause, at_most in (
                    (writes[0], "write.parquet's", _CAUSE, 1.15),
                    (writes[1], "write.bucketBy's", _BY_HUDI, 1.1),
                    (writes[2], "write.bucketBy's of a file to a bucket", _BY_HUDI, 1.1),
                )
            ],
            _ROWS / 1e6,
            "M rows",
            [_NOTE, _BUCKET_BY],
        ),
        Result(
            f"Spark: {_ROWS // 5:,} rows upserted, all of keys among {_ROWS:,}",
            upserts,
            [_figure("Spark: CPU of Hudi's upsert, by ours", upserts[::-1], _FIXED, at_least=5)],
            _ROWS / 5e6,
            "M rows",
        ),
        Result(
            f"Spark: {_ROWS // 100:,} rows upserted, of keys all over {_ROWS:,}",
            few,
            [
                _figure(
                    "Spark: CPU of an upsert of 1 % on merge-on-read, by copy-on-write's",
                    few,
                    _FIXED_PARTS,
                    at_most=0.5,
                )
            ],
            _ROWS / 1e8,
            "M rows",
        ),
    ]


def _timings(found: dict[str, list[list[float]]]) -> list[Timing]:
    return [
        Timing(peer, [wall for wall, _ in own], [cpu for _, cpu in own])
        for peer, own in found.items()
    ]


def _figure(
    name: str,
    pair: Sequence[Timing],
    cause: str,
    at_most: float | None = None,
    at_least: float | None = None,
) -> Figure:
    """Return the CPU of the second by the first's: the median over the rounds."""
    first, second = pair
    ratios = [b / a for a, b in zip(first.cpus, second.cpus, strict=True)]
    return Figure(name, statistics.median(ratios), "x", at_most, at_least, cause)
