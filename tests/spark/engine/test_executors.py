"""Executors that cannot do the work are found before they are given any."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import bucketfmt as bf
import bucketfmt_spark as bs
from bucketfmt_spark.engine import executors
from bucketfmt_spark.engine.tasks import PackedTasks, pack_by_size

_WITHOUT_THE_PACKAGE = """
import sys
sys.modules["bucketfmt_spark"] = None  # importing it fails
from pyspark import cloudpickle
import pyarrow
probe = cloudpickle.loads(sys.stdin.buffer.read())
print([batch.column(0).to_pylist() for batch in probe(iter([pyarrow.record_batch({"id": [0]})]))])
"""


def test_executors_without_the_package_can_still_say_so() -> None:
    sent = cloudpickle.dumps(executors._make_probe())
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_THE_PACKAGE], input=sent, capture_output=True, check=True
    )
    assert b"none (import of bucketfmt_spark halted" in done.stdout


def test_another_release_on_executors_is_told_on_the_driver(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    executors._CHECKED.pop(spark, None)
    monkeypatch.setattr(bf, "__version__", "999")
    with pytest.raises(bs.ExecutorError, match=r"driver has bucketfmt 999 and executors have 0\."):
        executors.check_executors(spark)
    monkeypatch.undo()
    executors.check_executors(spark)
    assert spark in executors._CHECKED


def test_a_python_without_the_package_on_executors_is_told_on_the_driver(
    spark: SparkSession,
    golden: Callable[[str, str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    executors._CHECKED.pop(spark, None)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "bare/bin/python"))
    with pytest.raises(
        bs.ExecutorError, match="the Python of executors has no module pyarrow; install"
    ):
        bs.read(spark, golden("1.2.0", "cow"))
    monkeypatch.undo()
    assert bs.read(spark, golden("1.2.0", "cow")).count() > 0


def test_small_pieces_are_read_together_and_large_ones_alone() -> None:
    mib = 1 << 20
    assert pack_by_size([], 2) == []
    assert pack_by_size([200 * mib, mib, 300 * mib, mib], 2) == [[2], [0], [1, 3]]
    assert [len(group) for group in pack_by_size([1000] * 8, 4)] == [2, 2, 2, 2]
    spread = pack_by_size([10 * mib] * 64, 1)
    assert sorted(n for group in spread for n in group) == list(range(64))
    assert max(len(group) * 14 * mib for group in spread) <= 128 * mib
    assert pack_by_size([70 * mib] * 3, 1) == [[0], [1], [2]]
    unequal = [len(group) for group in pack_by_size([4 * mib + n for n in range(16)], 2)]
    assert unequal == [8, 8], "no third task for what two leave"


def test_payloads_come_back_task_by_task() -> None:
    tasks = [[b"a", b""], [], [b"xyz"], [b"q", b"r", b"s"]]
    packed = PackedTasks.of(tasks)
    assert len(packed) == 4
    assert [packed[number] for number in range(4)] == tasks
    assert len(PackedTasks.of([])) == 0
