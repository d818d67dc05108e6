"""Tasks that fail and drivers that die leave no row lost, none doubled, no second file group.

The rest of the matrix wants a cluster: tests/cluster.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import bucketfmt as bf
from tests.spark.driver import drive
from tests.write.models import Model, assert_reads_as, create_table, rows


def files_of(table: bf.Table) -> set[str]:
    root = Path(table.uri)
    return {str(path.relative_to(root)) for path in root.glob("*/*.parquet")}


def assert_next_write_recovers(table: bf.Table, model: Model, ts: int) -> None:
    """A driver died before it committed: its files are there, its rows are not read."""
    before = files_of(table)
    (dead,) = table.timeline.pending.instants
    assert len({file for file in before if dead.requested_time in file}) == 12
    assert table.scan().count() == len(model.rows)
    # Two minutes later:
    os.utime(Path(table.uri, ".hoodie/.heartbeat", dead.requested_time), (0, 0))
    given = rows(range(150, 210), ts=ts, price=float(ts))
    result = table.upsert(given)
    model.upsert(given)
    assert_reads_as(table.uri, model)
    stayed = {file for file in before if dead.requested_time not in file}
    assert files_of(table) == stayed | set(result.files)
    assert not table.timeline.pending.instants


def make(folder: Path) -> tuple[bf.Table, Path]:
    """Return a table, and a folder for the faults."""
    faults = folder / "faults"
    faults.mkdir()
    table = create_table(str(folder / "t"), bf.SimpleBucketIndex(4))
    return table, faults


def tasks_are_run_again_and_the_session_dies(table: bf.Table, faults: Path) -> None:
    (faults / "raise").touch()
    steps = [
        [table.uri, "upsert", 0, 200, 1],
        ["", "fault", "raise"],
        [table.uri, "save", 100, 300, 2],
        ["", "fault", "kill-session"],
        [table.uri, "save", 0, 300, 3],
    ]
    code, told = drive("local[2,4]", steps, faults)
    assert code != 0
    assert {path.name for path in faults.iterdir()} == {"raise.struck", "kill-session.struck"}
    assert [len(files) for files in told] == [12, 12]
    committed = {file for files in told for file in files}
    assert committed < files_of(table)
    assert len(files_of(table)) == 36, "of tasks that raised there is nothing"
    model = Model()
    model.upsert(rows(range(200), ts=1, price=1.0))
    model.upsert(rows(range(100, 300), ts=2, price=2.0))
    assert_next_write_recovers(table, model, 4)


def the_driver_dies(table: bf.Table, faults: Path) -> None:
    model = Model()
    model.upsert(given := rows(range(200), ts=1, price=1.0))
    table.upsert(given)
    (faults / "kill-driver").touch()
    code, told = drive("local[2,4]", [[table.uri, "upsert", 0, 300, 5]], faults)
    assert code == -9
    assert told == []
    assert_next_write_recovers(table, model, 6)


def the_session_is_stopped(table: bf.Table, faults: Path) -> None:
    """Nothing is committed, and the next write need not wait for a dead one."""
    code, told = drive("local[2,4]", [[table.uri, "stop", 0, 300, 1]], faults)
    assert (code, told) == (0, [["SessionError"]])
    table = bf.open(table.uri)
    assert not table.timeline.completed.writes.instants
    table.upsert(given := rows(range(20), ts=2, price=2.0))
    model = Model()
    model.upsert(given)
    assert_reads_as(table.uri, model)


@pytest.mark.rotated(among="plays, and tests with a JVM of their own")
@pytest.mark.parametrize(
    "play",
    [tasks_are_run_again_and_the_session_dies, the_driver_dies, the_session_is_stopped],
    ids=lambda play: play.__name__,
)
def test_no_row_is_lost_or_doubled(tmp_path: Path, play: Callable[[bf.Table, Path], None]) -> None:
    play(*make(tmp_path))
