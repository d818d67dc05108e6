"""Runs functions on executors, and checks that executors can import bucketfmt.

The check comes before the first job: DataFrames are lazy, so a missing package would otherwise
show in the middle of the user's job, as an error of Spark's.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary
from zipimport import zipimporter

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

import bucketfmt as bf
from bucketfmt_spark.engine.named_jobs import named_job, request_counter

__all__ = [
    "ExecutorError",
    "SessionError",
    "check_executors",
    "map_batches",
    "parallelism",
    "shuffle_partitions",
]

_MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")

_SHUFFLE_PARTITIONS = 200
_CHECKED: WeakKeyDictionary[SparkSession, bool] = WeakKeyDictionary()


class ExecutorError(bf.BucketfmtError):
    """Executors have no bucketfmt, or another release of it than the driver."""


class SessionError(bf.BucketfmtError):
    """The session of Spark ended while a job was running."""


def check_executors(spark: SparkSession) -> None:
    """Check in a task on each core, once for a session, that executors can import bucketfmt.

    Raises:
        ExecutorError: an executor has no bucketfmt, or another release than the driver.
    """
    if spark in _CHECKED:
        return
    tasks = parallelism(spark)
    probe = spark.range(0, tasks, 1, tasks).mapInArrow(_make_probe(), "version string")
    try:
        with named_job(spark, "check of executors", ""):
            found = probe.collect()
    except Exception as error:
        missing = _MISSING.search(str(error))
        if missing is None:
            raise
        raise ExecutorError(
            f"the Python of executors has no module {missing[1]}; install bucketfmt[spark] there, "
            "and set PYSPARK_PYTHON to that Python"
        ) from error
    others = sorted({row.version for row in found} - {bf.__version__})
    if others:
        raise ExecutorError(_differing(bf.__version__, ", ".join(others)))
    _CHECKED[spark] = True


def _differing(driver: str, executors: str) -> str:
    return (
        f"the driver has bucketfmt {driver} and executors have {executors}; install one release on "
        "all of them, or send it with the job: spark.addArtifacts(...) or --py-files"
    )


def map_batches(
    df: DataFrame,
    run: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: st.StructType | str,
    name: str = "bucketfmt",
) -> DataFrame:
    """Return `df.mapInArrow(run, schema)`, whose tasks have the release of the driver.

    `explain()` shows the name. The requests of tasks are counted.

    An executor may start after `check_executors`, so that each task compares releases and raises an
    ExecutorError. Tasks also drop the import caches of zip files: before each task Spark 3.5
    invalidates the caches of importlib, for which Python before 3.12 reads the directory of every
    zip file on the path again. Spark puts its own jar, which has thousands of entries, on the path.
    That takes 0.1 s, unless these caches are dropped. After each task Spark runs the garbage
    collector, which takes 0.06 s for what was imported, unless that is left alone.
    """
    version, counter = bf.__version__, request_counter(df.sparkSession)

    def run_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from bucketfmt import __version__  # noqa: PLC0415  (that of the executor)

        if __version__ != version:
            raise ExecutorError(_differing(version, __version__))
        made_before = bf.requests_made()
        yield from run(batches)
        if counter is not None:
            counter.add(bf.requests_made() - made_before)
        if not gc.get_freeze_count():
            gc.collect()
            gc.freeze()
        for path, finder in list(sys.path_importer_cache.items()):
            if isinstance(finder, zipimporter):
                del sys.path_importer_cache[path]

    run_task.__name__ = name
    return df.mapInArrow(run_task, schema)


def _make_probe() -> Any:
    # Made here, it is sent as code and not as a name of a module that may be missing.
    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow  # noqa: PLC0415

        try:
            import bucketfmt_spark  # noqa: F401, PLC0415
            from bucketfmt import __version__  # noqa: PLC0415

            version = __version__
        except ImportError as error:
            version = f"none ({error})"
        for _ in batches:
            yield pyarrow.RecordBatch.from_pydict({"version": [version]})

    return probe


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks the session's cluster runs at a time, as far as the session knows."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        stated = spark.conf.get("spark.sql.leafNodeDefaultParallelism", None)
        stated = stated or spark.conf.get("spark.default.parallelism", None)
        return int(stated) if stated else shuffle_partitions(spark)
    return int(spark.sparkContext.defaultParallelism)


def shuffle_partitions(spark: SparkSession) -> int:
    """Return how many tasks the session wants after an exchange: `spark.sql.shuffle.partitions`.

    Platforms that choose the number themselves say `auto`; then the number is Spark's default.
    """
    stated = str(spark.conf.get("spark.sql.shuffle.partitions"))  # a default is checked by Spark
    return int(stated) if stated.isdecimal() else _SHUFFLE_PARTITIONS
