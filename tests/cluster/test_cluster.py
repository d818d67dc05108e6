"""Executors that die and tasks that run twice, on a cluster of several processes.

No row is lost, none doubled, and no bucket has a second file group.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import bucketfmt as bf
from tests.spark.driver import drive
from tests.spark.faults.sitecustomize import STALL_S
from tests.write.models import Model, assert_reads_as, create_table, rows

pytestmark = pytest.mark.cluster

KINDS = {
    "cow": ("COPY_ON_WRITE", bf.SimpleBucketIndex(4)),
    "mor": ("MERGE_ON_READ", bf.SimpleBucketIndex(4)),
    "ring": ("MERGE_ON_READ", bf.ConsistentHashingIndex(4)),
}
EXECUTORS = {
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.cores.max": "4",
    "spark.executor.instances": "4",
    "spark.deploy.maxExecutorRetries": "-1",
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.minTaskRuntime": "1s",
}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "4",
}


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> bf.Table:
    table_type, index = KINDS[request.param]
    return create_table(str(tmp_path / "t"), index, table_type)


@pytest.fixture
def faults(tmp_path: Path) -> Path:
    folder = tmp_path / "faults"
    folder.mkdir()
    return folder


def written(table: bf.Table) -> Model:
    """What the two steps of these tests leave."""
    model = Model()
    model.upsert(rows(range(300), ts=1, price=1.0))
    model.upsert(rows(range(200, 400), ts=2, price=2.0))
    return model


def steps(table: bf.Table) -> list[list[object]]:
    first = [table.uri, "upsert", 0, 300, 1]
    return [first, [table.uri, "upsert", 200, 400, 2]]


def assert_sound(table: bf.Table, told: list[list[str]]) -> None:
    assert_reads_as(table.uri, written(table))
    assert [len(files) for files in told] == [12, 12]
    groups = bf.open(table.uri).inspect.file_groups().to_pylist()
    buckets = [(group["partition_path"], group["bucket_id"]) for group in groups]
    assert len(buckets) == len(set(buckets)) == 12
    assert not bf.open(table.uri).timeline.pending.instants
    root = Path(table.uri)
    found = {str(path.relative_to(root)) for path in root.glob("??/*") if path.is_file()}
    named = {file for files in told for file in files}
    assert {path for path in found if "partition_metadata" not in path} == named, "strays"


def test_executors_that_are_killed(master: str, table: bf.Table, faults: Path) -> None:
    for struck in ("raise", "kill-executor"):
        (faults / struck).touch()
    code, told = drive(master, steps(table), faults, EXECUTORS)
    assert code == 0
    assert (faults / "kill-executor.struck").exists()
    assert_sound(table, told)


def test_tasks_that_run_twice(master: str, table: bf.Table, faults: Path) -> None:
    (faults / "stall").touch()
    begun = time.monotonic()
    code, told = drive(master, steps(table), faults, {**EXECUTORS, **SPECULATION})
    assert code == 0
    assert (faults / "stall.struck").exists()
    assert_sound(table, told)
    # The attempt that stalls may wake up when all is over.
    time.sleep(max(0.0, STALL_S + 1 - (time.monotonic() - begun)))
    assert_sound(table, told)


def test_executors_that_are_taken_away(master: str, table: bf.Table, faults: Path) -> None:
    """By dynamic allocation: between two writes, and from a write that still needs their rows."""
    first, second = steps(table)
    (faults / "raise").touch()
    code, told = drive(master, [first, ["", "idle"], second], faults, {**EXECUTORS, **DYNAMIC})
    assert code == 0
    assert (faults / "raise.struck").exists()
    assert_sound(table, told)


def test_a_driver_that_is_killed(master: str, table: bf.Table, faults: Path) -> None:
    first, second = steps(table)
    code, before = drive(master, [first], faults, EXECUTORS)
    assert code == 0
    (faults / "kill-driver").touch()
    code, _ = drive(master, [second], faults, EXECUTORS)
    assert code == -9
    (dead,) = bf.open(table.uri).timeline.pending.instants
    os.utime(Path(table.uri, ".hoodie/.heartbeat", dead.requested_time), (0, 0))
    code, told = drive(master, [second], faults, EXECUTORS)
    assert code == 0
    assert_sound(table, [*before, *told])
