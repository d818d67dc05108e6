"""A writer that dies anywhere: the table and its metadata table agree after the next write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.testing.faulty_store import Fault
from bucketfmt.write.metadata import metadata_services
from bucketfmt.write.metadata.initialise import KEPT_PARTITIONS
from tests.write.crashes import crashes
from tests.write.metadata_records import assert_in_step

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("ts", pa.int64())])


def rows(*keys: int, ts: int) -> pa.Table:
    given = [{"id": f"{key}", "part": "ab"[key % 2], "ts": ts} for key in keys]
    return pa.Table.from_pylist(given, SCHEMA)


def make(path: Path, version: int, kind: str) -> bf.Table:
    table = bf.create(
        path,
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(1),
        table_type=kind,  # type: ignore[arg-type]
        table_version=version,
    )
    table.upsert(rows(0, 1, 2, ts=1))
    names = [name for name in KEPT_PARTITIONS if version >= 8 or name != "partition_stats"]
    table.metadata_table.init(*names)
    table.upsert(rows(2, 3, ts=2))
    return table


def _upsert(table: bf.Table) -> object:
    return table.upsert(rows(1, 4, ts=3))


def _roll_back(table: bf.Table) -> object:
    return table.rollback(table.timeline.writes.completed.instants[-1].requested_time)


def _clean(table: bf.Table) -> object:
    return table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False)


def _compact(table: bf.Table) -> object:
    return table.compact()


def read(table: bf.Table) -> set[tuple[object, ...]]:
    return {tuple(row.values()) for row in table.scan().to_arrow().to_pylist()}


@pytest.mark.filterwarnings("ignore:the metadata table is made anew")
@pytest.mark.rotated(0)
@pytest.mark.parametrize(
    ("version", "kind", "act"),
    [
        (6, "MERGE_ON_READ", _upsert),
        (9, "COPY_ON_WRITE", _upsert),
        (6, "COPY_ON_WRITE", _roll_back),
        (9, "MERGE_ON_READ", _roll_back),
        (9, "COPY_ON_WRITE", _clean),
        (8, "MERGE_ON_READ", _compact),
    ],
)
def test_killed_anywhere_both_agree_after_the_next_write(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    kind: str,
    act: Callable[[bf.Table], object],
) -> None:
    table = make(tmp_path / "t", version, kind)
    monkeypatch.setattr(metadata_services, "_DELTA_COMMITS", 1)
    before = read(table)
    listed = set(table.metadata_table.list())
    struck = set()
    for left, broken in crashes(table, act, Fault.KILL_AFTER):
        struck.add(broken.struck.path if broken.struck else "")
        found = read(left)  # by the metadata table, where that is in step
        assert act is not _upsert or found - before <= {("1", "b", 3), ("4", "a", 3)}
        left.upsert(rows(5, ts=9))
        if act is _clean:
            act(left)  # the rest of a clean is done by the next clean
        assert_in_step(left)
        assert read(left) >= {("5", "b", 9)}
        assert {each.name for each in left.metadata_table.list()} == {e.name for e in listed}
    assert any(path.startswith(".hoodie/metadata/files/") for path in struck)
    assert len(struck) > 10
