"""Tasks that fail and drivers that die leave no row lost, none doubled, no second file group.

The rest of the matrix wants a cluster: tests/cluster.
"""

from __future__ import annotations

import os
from pathlib import Path

import bucketfmt as bf
from tests.spark.driver import drive
from tests.write.models import SCHEMA, Model, assert_reads_as, rows


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


def test_tasks_are_run_again_and_drivers_die(tmp_path: Path) -> None:
    table = bf.create(
        str(tmp_path / "t"),
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(4),
    )
    faults = tmp_path / "faults"
    faults.mkdir()
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

    (faults / "kill-session.struck").unlink()
    (faults / "kill-driver").touch()
    code, told = drive("local[2,4]", [[table.uri, "upsert", 0, 300, 5]], faults)
    assert code == -9
    assert told == []
    assert_next_write_recovers(table, model, 6)
