"""What a join or an aggregate of a task takes in memory, by the bytes that Arrow has allocated.

Each case runs in a process of its own, because Arrow tells the most that a process has taken.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt_spark.joining.bucket_grouping import plan_grouping
from bucketfmt_spark.joining.bucket_join import JoinTerms, plan_join
from bucketfmt_spark.joining.bucket_rows import spill_folder

_MEMORY_BYTES = 32 << 20
_BATCH_ROWS = 10_000
_AGGREGATES = {
    "one": {"a": ("v", "sum")},
    "many": {"a": ("v", "sum"), "b": ("v", "avg"), "c": ("v", "stddev"), "d": ("v", "max")},
}


@pytest.mark.parametrize(
    ("key", "num_rows", "aggregates"),
    [("string", 160_000, "one"), ("string", 900_000, "many"), ("int64", 900_000, "one")],
)
def test_an_aggregate_stays_in_its_memory(
    tmp_path: Path, key: str, num_rows: int, aggregates: str
) -> None:
    found = run_child("aggregate", tmp_path, key, num_rows, aggregates)
    assert found["rows"] == num_rows
    assert found["peak"] <= 1.5 * _MEMORY_BYTES


@pytest.mark.parametrize(
    ("key", "num_rows"), [("string", 110_000), ("string", 200_000), ("int64", 170_000)]
)
def test_a_join_stays_in_its_memory(tmp_path: Path, key: str, num_rows: int) -> None:
    found = run_child("join", tmp_path, key, num_rows, "one")
    assert found["rows"] == num_rows
    assert found["peak"] <= 1.5 * _MEMORY_BYTES


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_a_task_leaves_no_memory_to_its_worker(tmp_path: Path) -> None:
    found = run_child("group at once", tmp_path, "string", 900_000, "one")
    assert found["peak"] >= 90 << 20
    assert found["left"] <= 45 << 20


def run_child(work: str, folder: Path, key: str, num_rows: int, aggregates: str) -> dict[str, int]:
    arguments = [work, str(folder), key, str(num_rows), aggregates]
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.engine.test_memory", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, int] = json.loads(done.stdout)
    return found


def batches(schema: pa.Schema, num_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield rows that all have another key, in no order."""
    for start in range(0, num_rows, _BATCH_ROWS):
        numbers = np.arange(start, min(num_rows, start + _BATCH_ROWS))
        keys = pa.array(numbers * 2_654_435_761 % 4_294_967_296)
        if pa.types.is_string(schema.field("id").type):
            keys = pa.array([f"key-{key:013d}" for key in keys.to_pylist()])
        yield pa.RecordBatch.from_arrays([keys, pa.array(numbers)], schema=schema)


def child(work: str, folder: Path, key: str, num_rows: int, aggregates: str) -> dict[str, int]:
    """Do the work of a task with one bucket; return its rows and bytes."""
    schema = pa.schema([("id", getattr(pa, key)()), ("v", pa.int64())])
    index = bf.SimpleBucketIndex(1)
    table = bf.create(folder / "t", schema=schema, record_key=["id"], index=index)
    buckets = bf.group_buckets(table.scan()).buckets
    grouping = plan_grouping(schema, ["id"], _AGGREGATES[aggregates])
    rows, limit = 0, _MEMORY_BYTES if work != "group at once" else 1 << 30
    grouping.group(grouping.columns.empty_table())  # imports modules
    before = resident_bytes()
    with spill_folder() as parts:
        if work == "join":
            small = schema.remove(1)
            terms = JoinTerms("inner", "pyarrow", limit)
            plan = plan_join(schema, small, buckets, terms)
            left, right = plan.collect(parts)
            left.add(batches(schema, num_rows))
            right.add(batch.select(["id"]) for batch in batches(schema, num_rows))
            rows = sum(batch.num_rows for batch in plan.rows(left, right))
            del left, right
        else:
            collected = grouping.collect(buckets, limit, parts)
            names = grouping.columns.names
            collected.add(batch.select(names) for batch in batches(schema, num_rows))
            rows = sum(batch.num_rows for batch in grouping.groups(collected))
            del collected
    peak = pa.default_memory_pool().max_memory()
    return {"rows": rows, "peak": peak, "left": resident_bytes() - before}


def resident_bytes() -> int:
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) << 10


if __name__ == "__main__":
    told = sys.argv[1:]
    print(json.dumps(child(told[0], Path(told[1]), told[2], int(told[3]), told[4])))
