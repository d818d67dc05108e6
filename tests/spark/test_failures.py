"""Tasks that fail and drivers that die leave no row lost, none doubled, no second file group.

The rest of the matrix wants a cluster: tests/cluster.
"""

from __future__ import annotations

import os
from pathlib import Path

import bucketfmt as bf
from tests.spark.driver import drive
from tests.write.models import SCHEMA, Model, assert_reads_as, rows


def test_a_task_is_run_again_and_a_driver_dies(tmp_path: Path) -> None:
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
    code, told = drive("local[2,4]", [[table.uri, "upsert", 0, 200, 1]], faults)
    assert code == 0
    assert (faults / "raise.struck").exists()
    assert [len(files) for files in told] == [12]
    model = Model()
    model.upsert(rows(range(200), ts=1, price=1.0))
    assert_reads_as(table.uri, model)
    assert len(list(Path(table.uri).glob("*/*.parquet"))) == 12

    (faults / "kill-driver").touch()
    code, told = drive("local[2,4]", [[table.uri, "upsert", 100, 300, 2]], faults)
    assert code == -9
    assert told == []
    assert len(list(Path(table.uri).glob("*/*.parquet"))) == 24
    again = bf.open(table.uri)
    (dead,) = again.timeline.pending.instants
    assert again.scan().count() == 200
    # Two minutes later:
    os.utime(Path(table.uri, ".hoodie/.heartbeat", dead.requested_time), (0, 0))
    given = rows(range(150, 210), ts=3, price=3.0)
    again.upsert(given)
    model.upsert(given)
    assert_reads_as(table.uri, model)
    assert len(list(Path(table.uri).glob("*/*.parquet"))) == 24
    assert not again.timeline.pending.instants
