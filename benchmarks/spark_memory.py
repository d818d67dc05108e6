"""Peak memory of the Python process of a Spark task that has one bucket.

usage: python -m benchmarks.spark_memory MILLIONS...
       python -m benchmarks.spark_memory --child STEP FOLDER ROWS

The first prints the table of docs/how-to/spark-memory.md, for buckets of so many million rows.

Each step runs in a session of its own with one core. The JVM is not counted: its heap has the size
that the settings give it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_MEMORY_BYTES = 512 << 20
_STEPS = ("write", "upsert", "compact", "join")
_MIB = 1 << 20
_COLUMNS = """concat('key-', lpad(id, 10, '0')) AS id, concat('name ', hash(id)) AS name,
    hash(id) / 7.0D AS price, cast(pmod(id, 100) AS int) AS qty, cast({ts} AS bigint) AS ts"""


def main(arguments: list[str]) -> None:
    """Run a step, or all steps for each number of rows."""
    if arguments[:1] == ["--child"]:
        step, folder, rows = arguments[1:]
        print(json.dumps(run_step(step, Path(folder), int(rows))))
        return
    sizes = [float(text) for text in arguments]
    print("| rows of the bucket | parquet | " + " | ".join(_STEPS) + " |")
    print("|---|---|" + "---|" * len(_STEPS))
    for millions in sizes:
        folder = Path(tempfile.mkdtemp(prefix="bucketfmt-memory-"))
        peaks = [_run_child(step, folder, int(millions * 1_000_000)) for step in _STEPS]
        stored = max(path.stat().st_size for path in (folder / "cow").glob("*.parquet"))
        told = " | ".join(f"{peak // _MIB} MB" for peak in peaks)
        print(f"| {millions:g} M | {stored // _MIB} MB | {told} |", flush=True)
        shutil.rmtree(folder)


def _run_child(step: str, folder: Path, rows: int) -> int:
    command = [sys.executable, "-m", "benchmarks.spark_memory", "--child", step, str(folder)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [*command, str(rows)], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found["peak_bytes"]


def run_step(step: str, folder: Path, rows: int) -> dict[str, int]:
    """Run a step; return the peak of the largest Python process of Spark's."""
    from pyspark.sql import SparkSession

    import bucketfmt as bf
    import bucketfmt_spark as bs

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "1g").config("spark.driver.host", "127.0.0.1")
    spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    cow, mor = str(folder / "cow"), str(folder / "mor")

    def made(every: int, ts: int) -> Any:
        return spark.range(0, rows, every, 1).selectExpr(*_split(_COLUMNS.format(ts=ts)))

    def create(uri: str, table_type: Any) -> None:
        index, schema = bf.SimpleBucketIndex(1), made(1, 1).schema
        bs.create(
            spark,
            uri,
            schema,
            record_key=["id"],
            index=index,
            table_type=table_type,
            ordering=["ts"],
        )

    steps: dict[str, Callable[[], object]] = {
        "write": lambda: bs.write(made(1, 1), cow),
        "upsert": lambda: bs.write(made(10, 2), cow),
        "compact": lambda: bs.compact(spark, mor),
        "join": lambda: (
            bs.join(spark, cow, cow, suffix="_2", engine="pyarrow", memory_bytes=_MEMORY_BYTES)
            .selectExpr("count(*)", "sum(price_2)")
            .collect()
        ),
    }
    if step == "write":
        create(cow, "COPY_ON_WRITE")
    if step == "compact":
        # In this process: written in tasks they would count.
        create(mor, "MERGE_ON_READ")
        table = bf.open(mor, writer=bf.WriterConfig(services=None))
        whole = bf.open(cow).scan().to_batches()
        table.insert(_stream(whole))
        table.upsert(made(10, 3).toArrow())
    with _watched() as peaks:
        steps[step]()
    spark.stop()
    return {"peak_bytes": max(peaks.values())}


def _stream(batches: Iterator[Any]) -> Any:
    import pyarrow as pa

    first = next(batches)

    def chained() -> Iterator[Any]:
        yield first
        yield from batches

    return pa.RecordBatchReader.from_batches(first.schema, chained())


def _split(columns: str) -> list[str]:
    """Return the expressions of a list of columns: ` AS name` ends each."""
    found, rest = [], columns
    while rest:
        head, _, tail = rest.partition(" AS ")
        name, _, rest = tail.partition(",")
        found.append(f"{head.strip()} AS {name.strip()}")
    return found


@contextmanager
def _watched() -> Iterator[dict[int, int]]:
    """Yield the peak resident bytes of each Python process of Spark's below this process."""
    peaks: dict[int, int] = {0: 0}
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            for status in Path("/proc").glob("[0-9]*/status"):
                try:
                    if b"pyspark.daemon" not in (status.parent / "cmdline").read_bytes():
                        continue
                    if str(os.getpid()) not in _ancestors(int(status.parent.name)):
                        continue
                    text = status.read_text()
                except OSError:
                    continue
                peak = next(line for line in text.splitlines() if line.startswith("VmHWM"))
                peaks[int(status.parent.name)] = int(peak.split()[1]) << 10

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peaks
    finally:
        ended.set()
        watcher.join()


def _ancestors(pid: int) -> list[str]:
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(str(pid))
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
