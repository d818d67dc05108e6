"""Processes that count up rows of one table, one of which is killed: no count is lost."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

import bucketfmt as bf
from tests.reliability.processes.counting_process import (
    COUNTERS,
    ROUNDS_OF_THE_KILLED,
    count_up,
    start_process,
)

PROCESSES, ROUNDS = 3, 5
_PATIENCE_S = 180


@pytest.mark.rotated(0, among="several processes", one_of=4)
@pytest.mark.parametrize(
    ("version", "table_type", "lock", "dies_after"),
    [
        (6, "COPY_ON_WRITE", "filesystem", "commit"),
        (6, "MERGE_ON_READ", "filesystem", "file"),
        (9, "MERGE_ON_READ", "storage", "file"),
    ],
)
def test_the_sum_is_what_was_acknowledged(
    tmp_path: Path, version: int, table_type: str, lock: str, dies_after: str
) -> None:
    """One is killed once it has written a file; or once it has published, with the lock held."""
    writer = bf.WriterConfig(lock=lock)  # type: ignore[arg-type]
    table = bf.create(
        str(tmp_path / "t"),
        schema=COUNTERS.schema,
        record_key=["id"],
        partition_by=["p"],
        index=bf.SimpleBucketIndex(1),
        table_type=table_type,  # type: ignore[arg-type]
        table_version=version,
        writer=writer,
    )
    table.upsert(COUNTERS)
    logs = [tmp_path / f"told-{number}" for number in range(PROCESSES)]
    processes = [
        start_process(table.uri, lock, number, ROUNDS, log, *([dies_after] if number == 0 else []))
        for number, log in enumerate(logs)
    ]
    killed, *others = processes
    assert killed.wait(_PATIENCE_S) == -signal.SIGKILL
    if dies_after == "commit":
        # Hudi's lock file does not expire: whoever knows that its owner is dead removes it.
        Path(table.uri, ".hoodie/lock").unlink()
    assert [process.wait(_PATIENCE_S) for process in others] == [0] * len(others)

    told = [log.read_text().split() for log in logs]
    assert [len(names) for names in told] == [ROUNDS_OF_THE_KILLED] + [ROUNDS] * len(others)
    acknowledged = Counter(name for names in told for name in names)
    if dies_after == "commit":
        acknowledged[COUNTERS["id"][ROUNDS_OF_THE_KILLED].as_py()] += 1  # done, and no one told
    assert read(table.uri) == acknowledged

    pending = bf.open(table.uri).timeline.writes.pending.instants
    assert len(pending) == (dies_after == "file")
    long_ago = time.time() - 3600
    for heartbeat in Path(table.uri, ".hoodie/.heartbeat").iterdir():
        os.utime(heartbeat, (long_ago, long_ago))
    count_up(bf.open(table.uri, writer=writer), "x")
    acknowledged["x"] += 1
    assert read(table.uri) == acknowledged
    assert not bf.open(table.uri).timeline.pending.instants
    report = bf.open(table.uri).check(depth="full")
    assert report.status == "clean", report.findings


def read(uri: str) -> dict[str, int]:
    rows = bf.open(uri).scan().to_arrow().to_pylist()
    return {row["id"]: row["count"] for row in rows}
