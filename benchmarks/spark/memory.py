"""Peak memory of the Python process of a Spark task that has one bucket.

usage: python -m benchmarks.spark.memory MILLIONS...
       python -m benchmarks.spark.memory --child STEP FOLDER ROWS

The first prints the table of docs/how-to/spark-memory.md, for buckets of so many million rows.
Each step runs in a process of its own the function that a task runs, without Spark: a worker of
Spark's has imported some 60 MB more.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import bucketfmt as bf
from bucketfmt_spark.joining.bucket_grouping import plan_grouping
from bucketfmt_spark.joining.bucket_join import JoinTerms, plan_join
from bucketfmt_spark.joining.bucket_rows import read_bucket, spill_folder

_MEMORY_BYTES = 512 << 20
_MIB = 1 << 20
_TOKEN = "0-0-0"
_BATCH_ROWS = 10_000  # as Spark's batches
_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("qty", pa.int32()),
        ("ts", pa.int64()),
    ]
)


def main(arguments: list[str]) -> None:
    """Run a step, or all steps for each number of rows."""
    if arguments[:1] == ["--child"]:
        step, folder, rows = arguments[1:]
        _STEPS[step](Path(folder), int(rows))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)
        return
    told = [step for step in _STEPS if step != "prepare"]
    print("| rows of the bucket | parquet | " + " | ".join(told) + " |")
    print("|---|---|" + "---|" * len(told))
    for millions in arguments:
        folder = Path(tempfile.mkdtemp(prefix="bucketfmt-memory-"))
        rows = int(float(millions) * 1_000_000)
        peaks = {step: _run_child(step, folder, rows) for step in _STEPS}
        stored = max(path.stat().st_size for path in (folder / "cow").glob("*.parquet"))
        figures = " | ".join(f"{peaks[step] // _MIB} MB" for step in told)
        print(f"| {millions} M | {stored // _MIB} MB | {figures} |", flush=True)
        shutil.rmtree(folder)


def _run_child(step: str, folder: Path, rows: int) -> int:
    command = [sys.executable, "-m", "benchmarks.spark.memory", "--child", step, str(folder)]
    done = subprocess.run([*command, str(rows)], stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout)


def _rows(count: int, every: int, ts: int) -> pa.RecordBatchReader:
    """Return every so many of the rows, in no order of their keys."""

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, count, every * _BATCH_ROWS):
            numbers = np.arange(start, min(count, start + every * _BATCH_ROWS), every)
            mixed = numbers * 2_654_435_761 % 4_294_967_296
            columns = [
                pa.array([f"key-{number:010d}" for number in numbers.tolist()]),
                pa.array([f"name {number}" for number in mixed.tolist()]),
                pa.array(mixed / 7.0),
                pa.array((numbers % 100).astype(np.int32)),
                pa.array(np.full(len(numbers), ts, np.int64)),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)

    return pa.RecordBatchReader.from_batches(_SCHEMA, batches())


def _open(path: Path) -> bf.Table:
    return bf.open(path, writer=bf.WriterConfig(services=None))


def _create(path: Path, **given: str) -> bf.Table:
    index = bf.SimpleBucketIndex(1)
    bf.create(path, schema=_SCHEMA, record_key=["id"], ordering=["ts"], index=index, **given)  # type: ignore[arg-type]
    return _open(path)


def _write_rows(table: bf.Table, rows: pa.RecordBatchReader) -> None:
    with table.start_write("upsert", _SCHEMA) as started:
        started.publish(list(started.task.write(rows, _TOKEN)))


def _write(folder: Path, rows: int) -> None:
    _write_rows(_create(folder / "cow"), _rows(rows, 1, 1))


def _upsert(folder: Path, rows: int) -> None:
    _write_rows(_open(folder / "cow"), _rows(rows, 10, 2))


def _prepare(folder: Path, rows: int) -> None:
    table = _create(folder / "mor", table_type="MERGE_ON_READ")
    table.insert(_rows(rows, 1, 1))
    table.upsert(_rows(rows, 10, 2))


def _compact(folder: Path, rows: int) -> None:
    started = _open(folder / "mor").start_compaction()
    if started is None:
        raise RuntimeError("there is nothing to compact")
    with started:
        task = started.task
        started.publish([task.compact(payload, _TOKEN) for payload in started.payloads])


def _join(folder: Path, rows: int) -> None:
    scan = _open(folder / "cow").scan()
    groups = bf.group_buckets(scan, scan)
    buckets, reader = groups.buckets, scan.task_reader()
    schemas = scan.schema, scan.schema
    plan = plan_join(*schemas, buckets, JoinTerms("inner", "pyarrow", _MEMORY_BYTES, suffix="_2"))
    with spill_folder() as parts:
        sides = plan.collect(parts)
        for side, tasks in zip(sides, groups.tasks, strict=True):
            payloads = [task.payload for _, task in tasks[0]]
            side.add(read_bucket(reader, payloads, side.schema, buckets, 0))
        found = sum(batch.num_rows for batch in plan.rows(*sides))
    if found != rows:
        raise RuntimeError(f"{found} rows of {rows} are joined")


def _aggregate(folder: Path, rows: int) -> None:
    scan = _open(folder / "cow").scan()
    groups = bf.group_buckets(scan)
    plan = plan_grouping(scan.schema, ["id"], {"qty": ("qty", "sum"), "ts": ("ts", "max")})
    reader = scan.task_reader().of_columns(plan.columns.names)
    with spill_folder() as parts:
        collected = plan.collect(groups.buckets, _MEMORY_BYTES, parts)
        payloads = [task.payload for _, task in groups.tasks[0][0]]
        collected.add(read_bucket(reader, payloads, plan.columns, groups.buckets, 0))
        found = sum(batch.num_rows for batch in plan.groups(collected))
    if found != rows:
        raise RuntimeError(f"{found} groups of {rows} are found")


_STEPS: dict[str, Callable[[Path, int], None]] = {
    "write": _write,
    "upsert": _upsert,
    "prepare": _prepare,
    "compact": _compact,
    "join": _join,
    "aggregate": _aggregate,
}
"""By the name: what runs in a process of its own; `prepare` is not told."""


if __name__ == "__main__":
    main(sys.argv[1:])
