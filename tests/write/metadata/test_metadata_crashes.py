"""A writer that dies anywhere: the table and its metadata table agree after the next write."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.testing.faulty_store import Fault
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.write.metadata import initialise, metadata_services
from bucketfmt.write.metadata.initialise import KEPT_PARTITIONS
from bucketfmt.write.properties.metadata_table import drop_metadata_table
from tests.write.crashes import crashes
from tests.write.metadata.metadata_records import assert_in_step

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("ts", pa.int64())])


def rows(*keys: int, ts: int) -> pa.Table:
    given = [{"id": f"{key}", "part": "abc"[key // 8 * 2 or key % 2], "ts": ts} for key in keys]
    return pa.Table.from_pylist(given, SCHEMA)


BUCKETS = bf.SimpleBucketIndex(1)
NON_BLOCKING = bf.WriterConfig(
    lock="process", heartbeat_interval_s=100_000.0, services=None, concurrency="non_blocking"
)
KEYS, KEYS_BY_PARTITION = bf.RecordIndex(), bf.RecordIndex(partitioned=True)
MOVING_KEYS = bf.RecordIndex(update_partition_path=True)


def make(path: Path, version: int, kind: str, index: bf.Index) -> bf.Table:
    table = bf.create(
        path,
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        index=index,
        table_type=kind,  # type: ignore[arg-type]
        table_version=version,
    )
    table.upsert(rows(0, 1, 2, ts=1))
    names = [name for name in KEPT_PARTITIONS if version >= 8 or name != "partition_stats"]
    if index is BUCKETS:
        table.metadata_table.init(*names)
    table.upsert(rows(2, 3, ts=2))
    return table


def _upsert(table: bf.Table) -> object:
    return table.upsert(rows(1, 4, 8, ts=3))  # the last begins a partition


def _move(table: bf.Table) -> object:
    """Move a key to a partition that is there, and another key to a new partition."""
    moved = [{"id": "1", "part": "a", "ts": 3}, {"id": "3", "part": "c", "ts": 3}]
    return table.upsert(pa.Table.from_pylist(moved, SCHEMA))


def _roll_back(table: bf.Table) -> object:
    return table.rollback(table.timeline.writes.completed.instants[-1].requested_time)


def _clean(table: bf.Table) -> object:
    return table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False)


def _overtake(table: bf.Table) -> object:
    """Publish rows after a delete that was begun later, of one of their keys."""
    config = load_config(table.store, DEFAULT_LIMITS)
    opened = bf.Table(table.store, config, DEFAULT_LIMITS, None, NON_BLOCKING)
    with opened.start_write("upsert", SCHEMA) as started:
        receipts = list(started.task.write(rows(1, 7, ts=1000), "0-0-0"))
        opened.delete(rows(1, ts=2))
        return started.publish(receipts)


def _compact(table: bf.Table) -> object:
    return table.compact()


def _rebuild_keys(table: bf.Table) -> object:
    return table.metadata_table.rebuild("record_index")


def _rebuild(table: bf.Table) -> object:
    return table.metadata_table.rebuild()


def _restore(table: bf.Table) -> object:
    return table.restore(table.timeline.completed.of("savepoint").instants[-1].requested_time)


def read(table: bf.Table) -> set[tuple[object, ...]]:
    return {tuple(row.values()) for row in table.scan().to_arrow().to_pylist()}


@pytest.mark.filterwarnings("ignore:the metadata table is made anew")
@pytest.mark.rotated(0, among="crashes at each write", one_of=6)
@pytest.mark.parametrize(
    ("version", "kind", "act", "index"),
    [
        (6, "MERGE_ON_READ", _upsert, BUCKETS),
        (9, "COPY_ON_WRITE", _upsert, BUCKETS),
        (6, "COPY_ON_WRITE", _roll_back, BUCKETS),
        (9, "MERGE_ON_READ", _roll_back, BUCKETS),
        (9, "COPY_ON_WRITE", _clean, BUCKETS),
        (8, "MERGE_ON_READ", _compact, BUCKETS),
        (8, "MERGE_ON_READ", _overtake, BUCKETS),
        (9, "MERGE_ON_READ", _overtake, BUCKETS),
        (6, "COPY_ON_WRITE", _upsert, KEYS),
        (6, "MERGE_ON_READ", _upsert, KEYS),
        (9, "COPY_ON_WRITE", _upsert, KEYS),
        (9, "MERGE_ON_READ", _upsert, KEYS_BY_PARTITION),
        (9, "COPY_ON_WRITE", _roll_back, KEYS_BY_PARTITION),
        (9, "MERGE_ON_READ", _move, MOVING_KEYS),
        (8, "COPY_ON_WRITE", _move, MOVING_KEYS),
    ],
)
def test_killed_anywhere_both_agree_after_the_next_write(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    kind: str,
    act: Callable[[bf.Table], object],
    index: bf.Index,
) -> None:
    monkeypatch.setattr(initialise, "_GROUPS_OF_TABLE", (2, 2))  # each costs files, and time
    table = make(tmp_path / "t", version, kind, index)
    if act is not _overtake:  # after a compaction nothing is overruled
        monkeypatch.setattr(metadata_services, "_DELTA_COMMITS", 1)
    before = read(table)
    listed = set(table.metadata_table.list())
    struck = set()
    for left, broken in crashes(table, act, Fault.KILL_AFTER):
        struck.add(broken.struck.path if broken.struck else "")
        found = read(left)  # by the metadata table, where that is in step
        assert act is not _upsert or found - before <= {("1", "b", 3), ("4", "a", 3), ("8", "c", 3)}
        if act is _move:
            moved = {("1", "a", 3), ("3", "c", 3)}
            assert found in (before, {row for row in before if row[0] not in "13"} | moved)
        left.upsert(rows(5, ts=9))
        if act is _clean:
            act(left)  # the rest of a clean is done by the next clean
        assert_in_step(left)
        assert read(left) >= {("5", "b", 9)}
        assert {each.name for each in left.metadata_table.list()} == {e.name for e in listed}
        if index is not BUCKETS:
            left.upsert(rows(1, 8, ts=10))
            found = left.scan(["id"]).to_arrow()["id"].to_pylist()
            assert len(found) == len(set(found))
    assert any(path.startswith(".hoodie/metadata/files/") for path in struck)
    assert len(struck) > 10


@pytest.mark.filterwarnings("ignore:the metadata table is made anew")
@pytest.mark.rotated(0, among="crashes while partitions are made anew", one_of=3)
@pytest.mark.parametrize(
    ("version", "act", "index"),
    [
        (9, _rebuild_keys, KEYS),
        (6, _rebuild, KEYS),
        (8, _rebuild, BUCKETS),
        (9, _restore, KEYS),
        (6, _restore, BUCKETS),
    ],
)
def test_killed_while_partitions_are_made_anew_the_next_write_makes_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    act: Callable[[bf.Table], object],
    index: bf.Index,
) -> None:
    """The partitions were not listed any more, and a table without buckets could not be written."""
    monkeypatch.setattr(initialise, "_GROUPS_OF_TABLE", (2, 2))
    table = make(tmp_path / "t", version, "COPY_ON_WRITE", index)
    if act is _restore:
        table.savepoint()
        table.upsert(rows(1, ts=3))
    listed = table.metadata_table.list()
    struck = set()
    for left, broken in crashes(table, act, Fault.KILL_AFTER):
        struck.add(broken.struck.path if broken.struck else "")
        if act is _restore and left.timeline.pending.of("restore").instants:
            _restore(left)
        left.upsert(rows(5, ts=9))
        assert left.metadata_table.list() == listed
        assert not left.config.metadata_partitions_unfinished
        assert_in_step(left)
        keys = left.scan(["id"]).to_arrow()["id"].to_pylist()
        assert sorted(keys) == ["0", "1", "2", "3", "5"]
    assert ".hoodie/hoodie.properties" in struck


@pytest.mark.filterwarnings("ignore:the metadata table is")
@pytest.mark.parametrize("gone", ["last instant", "torn"])
@pytest.mark.parametrize(("version", "index"), [(6, KEYS), (8, BUCKETS), (9, KEYS)])
def test_killed_while_the_metadata_table_is_removed_the_next_write_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, index: bf.Index, gone: str
) -> None:
    """What was left of its timeline lacked instants: keys could not be looked up nor written."""
    monkeypatch.setattr(initialise, "_GROUPS_OF_TABLE", (2, 2))
    table = make(tmp_path / "t", version, "COPY_ON_WRITE", index)
    listed = table.metadata_table.list()
    before = MemoryStore.of_folder(table.uri).files
    names = [each.name for each in listed]
    drop_metadata_table(table.store, DEFAULT_LIMITS, 0.0, lambda: None, names)
    files = sorted(path for path in before if path.startswith(".hoodie/metadata/"))
    is_done = re.compile(r"\.hoodie/metadata/\.hoodie/.*\.deltacommit").fullmatch
    last = [path for path in files if is_done(path)][-1]
    left = files[1::2] if gone == "torn" else [path for path in files if path != last]
    for path in left:
        table.store.replace(path, before[path])
    after = bf.open(table.uri)
    after.upsert(rows(5, ts=9))
    assert after.metadata_table.list() == listed
    assert_in_step(after)
    keys = after.scan(["id"]).to_arrow()["id"].to_pylist()
    assert sorted(keys) == ["0", "1", "2", "3", "5"]
    assert after.lookup(["2", "5"]).num_rows == 2


def test_partitions_that_a_dead_writer_was_making_anew_can_be_dropped(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 9, "COPY_ON_WRITE", KEYS)
    for left, _ in crashes(table, _rebuild_keys, Fault.KILL_AFTER):
        if not left.config.metadata_partitions_unfinished:
            continue
        assert left.resolved_index.index == KEYS
        left.metadata_table.drop("record_index")
        assert left.config.metadata_partitions == ("files",)
        assert not load_config(left.store, DEFAULT_LIMITS).metadata_partitions_unfinished
        break


@pytest.mark.filterwarnings("ignore:the metadata table is")
@pytest.mark.rotated(0, among="crashes in rollbacks of records in base files", one_of=3)
@pytest.mark.parametrize(("version", "index"), [(6, KEYS), (9, KEYS), (8, BUCKETS)])
def test_killed_in_a_rollback_of_records_in_base_files_the_next_write_makes_the_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, index: bf.Index
) -> None:
    """The metadata table was gone, and a table without buckets could not be written."""
    monkeypatch.setattr(initialise, "_GROUPS_OF_TABLE", (2, 2))
    table = make(tmp_path / "t", version, "MERGE_ON_READ", index)
    listed = table.metadata_table.list()
    table.metadata_table.rebuild()
    for left, _ in crashes(table, _roll_back, Fault.KILL_AFTER):
        left.upsert(rows(5, ts=9))
        assert left.metadata_table.list() == listed
        assert_in_step(left)
        keys = sorted(left.scan(["id"]).to_arrow()["id"].to_pylist())
        assert keys in (["0", "1", "2", "5"], ["0", "1", "2", "3", "5"])
