"""A table of 10^8 rows on Spark, made, changed, read and joined: run by spark_scale.py.

usage: python -m benchmarks.spark.scale_job FOLDER ROWS

Runs in the environment of tests/interop/setup.sh. Rows are made on the fly and are nowhere but in
the tables. Prints JSON: {work: [wall, CPU, peak MB of the driver, of the JVM, of a worker]}, and
under "bytes" those of the table before it was changed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import functions as sf

import bucketfmt as bf
import bucketfmt_spark as bs
from benchmarks.spark.writing_job import make_rows, make_session, measured
from bucketfmt_spark.engine.spark_types import arrow_of

BUCKETS, SMALLER = 64, 10
_PAGE = os.sysconf("SC_PAGE_SIZE")
_EVERY_S = 0.2


class Peaks:
    """The largest resident memory of the driver, of its JVM and of any of its Python workers."""

    def __init__(self) -> None:
        self._found = {"driver": 0, "jvm": 0, "worker": 0}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Peaks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    @property
    def megabytes(self) -> list[int]:
        return [bytes_ >> 20 for bytes_ in self._found.values()]

    def _watch(self) -> None:
        while not self._stopped.wait(_EVERY_S):
            for kind, taken in _resident():
                self._found[kind] = max(self._found[kind], taken)


def _resident() -> list[tuple[str, int]]:
    """Return the kind and the resident bytes of this process and of those below it."""
    found, below = [], {os.getpid()}
    for entry in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            name, _, rest = (entry / "stat").read_text().rpartition(")")
            taken = int((entry / "statm").read_text().split()[1]) * _PAGE
        except OSError:
            continue
        pid, parent = int(entry.name), int(rest.split()[1])
        if pid == os.getpid() or parent in below:
            below.add(pid)
            kind = "jvm" if name.endswith("java") else "worker"
            found.append(("driver" if pid == os.getpid() else kind, taken))
    return found


def main(folder: Path, num_rows: int) -> None:
    spark = make_session(folder)
    schema = arrow_of(make_rows(spark, 0, 1, 1).schema)
    large, small = (
        bf.create(
            folder / name,
            schema=schema,
            record_key=["id"],
            ordering=["ts"],
            index=bf.SimpleBucketIndex(BUCKETS),
            name=name,
        )
        for name in ("large", "small")
    )
    every = sf.pmod(sf.hash(sf.col("id")), sf.lit(100)) == 0
    found: dict[str, list[float]] = {}

    def do(work: str, run: Callable[[], Any]) -> Any:
        with Peaks() as peaks:
            found[work] = [*measured(run), *peaks.megabytes]
        print(work, found[work], file=sys.stderr, flush=True)

    def add(frame: Any) -> list[int]:
        return list(frame.agg(sf.count("*"), sf.sum("ts")).collect()[0])

    def check(told: list[int], wanted: list[int], what: str) -> None:
        if told != wanted:
            raise SystemExit(f"{what}: {told} instead of {wanted}")

    rows, changes = make_rows(spark, 0, num_rows, 1), make_rows(spark, 0, num_rows, 2).where(every)
    num_changed = changes.count()
    do("bulk_insert", lambda: bs.write(rows, large.uri, "bulk_insert"))
    num_bytes = sum(path.stat().st_size for path in (folder / "large").glob("*.parquet"))
    do("upsert of 1 %", lambda: bs.write(changes, large.uri, "upsert"))
    bs.write(make_rows(spark, 0, num_rows // SMALLER, 1), small.uri, "bulk_insert")

    whole, joined = [num_rows, num_rows + num_changed], []
    read = bs.read(spark, large.uri, ["id", "ts"])
    do("read, two columns", lambda: check(add(read), whole, "rows"))
    sums = bs.aggregate(spark, large, ["id"], {"ts": ("ts", "sum")})
    do("aggregate by key", lambda: check(add(sums), whole, "groups"))
    both = bs.join(spark, large, small, columns=["id", "ts"], suffix="_2")
    do("join with a tenth", lambda: joined.extend(add(both)))
    check(joined[:1], [num_rows // SMALLER], "joined rows")
    hudis = spark.read.format("hudi").load(large.uri)
    do("read by Hudi, two columns", lambda: check(add(hudis), whole, "rows that Hudi reads"))
    print(json.dumps({**found, "bytes": num_bytes}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
