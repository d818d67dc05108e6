"""Writes while a resize of a ring is pending: rows go to the buckets now, and to those to come."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.log.log_block import LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.testing.crashes import Aftermath, Looks, SimulatedProcess, kill_everywhere
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.load import load_commit_metadata
from tests.resize.pending import find_copies, schedule_resize
from tests.write.metadata.metadata_records import assert_in_step
from tests.write.models import SCHEMA, Model, Row, assert_reads_as, create_table, made_once, rows

VERSIONS = (6, 8, 9)
US = [("region", "=", "us")]


@made_once
def filled(
    path: Path, version: int = 9, *, buckets: int = 3, virtual_logs: bool = False
) -> tuple[bf.Table, Model]:
    """Return a table with base files and logs, and its model."""
    table, model = (
        create_table(
            path,
            bf.ConsistentHashingIndex(buckets, virtual_logs=virtual_logs),
            "MERGE_ON_READ",
            table_version=version,
        ),
        Model(),
    )
    for given in (rows(range(0, 120, 3), 1), rows(range(30, 90, 3), 2, 3.0)):
        table.upsert(given)
        model.upsert(given)
        if table.timeline.completed.of("commit").last is None:
            table.compact()
    return table, model


def of_partition(model: Model, region: str = "us") -> list[Row]:
    return [row for (own, _), row in sorted(model.rows.items()) if own == region]


def execute(table: bf.Table, model: Model) -> None:
    """Execute the resize; the rows stay as they are."""
    assert table.resize() is not None
    assert_reads_as(table.uri, model)


def write(table: bf.Table, model: Model, ts: int) -> None:
    """Update, insert and delete."""
    given = rows([*range(ts, 60, 3), *range(300 + ts, 340)], ts, 7.0)
    table.upsert(given)
    model.upsert(given)
    gone = rows(range(ts, 50, 7), ts)
    table.delete(gone.select(["id", "region"]))
    model.delete(gone.column("id").to_pylist())


def update_without_price(table: bf.Table, model: Model) -> None:
    """Rows that lack the column keep its stored values."""
    given = rows(range(0, 60, 3), 9).drop_columns(["price"])
    table.upsert(given, missing="keep")
    model.upsert(
        pa.Table.from_pylist(
            [{**model.rows[r["region"], r["id"]], **r} for r in given.to_pylist()], SCHEMA
        )
    )
    assert_reads_as(table.uri, model)


def kill_an_upsert_everywhere(table: bf.Table, model: Model) -> None:
    """After each death all rows of the upsert are read, or none: now and after the resize."""
    given, later = rows(range(0, 30, 3), 20), rows(range(3, 60, 12), 21)
    after = copy.deepcopy(model)
    after.upsert(given)

    def look(aftermath: Aftermath) -> None:
        seen = SimulatedProcess(aftermath.store, 2).open()
        found = {row["id"]: row for row in seen.scan(filter=US).to_arrow().to_pylist()}
        now = copy.deepcopy(after if found["key-000000"]["ts"] == 20 else model)
        assert [found[key] for key in sorted(found)] == of_partition(now), aftermath
        seen.upsert(later)
        now.upsert(later)
        seen.resize()
        found = {row["id"]: row for row in seen.scan(filter=US).to_arrow().to_pylist()}
        assert [found[key] for key in sorted(found)] == of_partition(now), aftermath

    looks = Looks(look)
    for aftermath in kill_everywhere(MemoryStore.of_folder(table.uri), lambda t: t.upsert(given)):
        looks(aftermath)
    assert looks.states > 15


@pytest.mark.rule("RING-26", "RING-28")
@pytest.mark.rotated(0)
@pytest.mark.parametrize("version", VERSIONS)
def test_rows_go_to_the_buckets_to_come_as_well(tmp_path: Path, version: int) -> None:
    table, model = filled(tmp_path / "t", version)
    instant = schedule_resize(table, split=[0], merge=[1, 2])
    for ts in (10, 11):
        write(table, model, ts)
        assert_reads_as(table.uri, model)
    copies = find_copies(table, instant)
    assert {name.version for name in copies} == {1, 2, 3, 4}
    for name in copies:
        for block in decode_log_file((tmp_path / "t" / "us" / str(name)).read_bytes()):
            assert isinstance(block, LogBlock)
            assert block.instant_time > instant
    execute(table, model)
    write(table, model, 12)
    assert_reads_as(table.uri, model)


@pytest.mark.parametrize("version", VERSIONS)
def test_copies_of_a_write_under_way_are_not_seen_and_may_go(tmp_path: Path, version: int) -> None:
    """A resize that is completed shows the log files of writes that are not."""
    table, model = filled(tmp_path / "t", version)
    schedule_resize(table, split=[0, 1, 2])
    given = rows(range(300, 330), 9)
    started = table.start_write("upsert", given.schema)
    list(started.task.write(given, "0-0-0"))
    assert table.resize() is not None
    scan = bf.open(table.uri).scan()
    plan = scan.plan()  # has listed the copies
    assert any(len(s.log_files) for s in plan.slices if s.partition_path == "us")
    assert_reads_as(table.uri, model)
    started.__exit__(None, None, None)  # takes the copies back
    assert sorted(scan.to_arrow()["id"].to_pylist()) == sorted(key for _, key in model.rows)
    assert_reads_as(table.uri, model)


def test_a_record_index_does_not_name_old_file_groups(tmp_path: Path) -> None:
    """Rows written meanwhile are in file groups that the commit of the resize does not name."""
    table, model = filled(tmp_path / "t")
    table.metadata_table.init("files", "record_index")
    schedule_resize(table, split=[0], merge=[1, 2])
    write(table, model, 10)
    with pytest.warns(UserWarning, match="record_index of the metadata table cannot be kept"):
        assert table.resize() is not None
    assert bf.open(table.uri).config.metadata_partitions == ("files",)
    assert_reads_as(table.uri, model)


@pytest.mark.rule("RING-31")
@pytest.mark.rotated(2)
@pytest.mark.parametrize("version", [6, 9])
def test_a_write_that_is_rolled_back_leaves_no_copies(tmp_path: Path, version: int) -> None:
    table, model = filled(tmp_path / "t", version)
    instant = schedule_resize(table, split=[0, 1, 2])
    write(table, model, 10)
    copies = find_copies(table, instant)
    done = table.upsert(rows(range(0, 200, 3), 20))
    assert len(find_copies(table, instant)) > len(copies)
    table.rollback(done.instant)
    assert_reads_as(table.uri, model)
    if version >= 8:
        assert find_copies(bf.open(table.uri), instant) == copies
    write(table, model, 21)
    execute(table, model)


def test_results_count_rows_once(tmp_path: Path) -> None:
    table, _ = filled(tmp_path / "t", 6)
    schedule_resize(table, split=[0, 1, 2])
    done = table.upsert(rows(range(0, 90, 3), 9))
    assert done.rows_updated + done.rows_inserted == 30
    assert table.delete(rows(range(0, 9, 3), 9).select(["id", "region"])).rows_deleted == 3


@pytest.mark.rule("RING-29")
@pytest.mark.parametrize("version", [6, 9])
def test_both_copies_have_a_stat(tmp_path: Path, version: int) -> None:
    table, _ = filled(tmp_path / "t", version)
    resize = schedule_resize(table, merge=[0, 1, 2])
    table.upsert(rows([3], 8))
    done = table.upsert(rows([0, 3], 9))
    state = table._snapshot().state
    metadata = load_commit_metadata(
        state.store, table.config, state.timeline.completed.instants[-1]
    )
    stats = {stat.file_id: stat for stat in metadata.partition_to_write_stats["us"]}
    (child,) = state.pending_ring_changes["us"].child_file_ids
    copy_of = stats.pop(child)
    assert (copy_of.num_update_writes, copy_of.num_writes, copy_of.num_inserts) == (2, 2, 0)
    assert sum(stat.num_writes for stat in stats.values()) == 2
    assert copy_of.prev_commit == (resize if version == 6 else done.instant)
    assert (copy_of.base_file, copy_of.log_version) == ("", 2)
    assert copy_of.log_files == [(copy_of.path or "").rpartition("/")[2]]


def test_other_buckets_and_partitions_are_written_once(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    instant = schedule_resize(table, split=[0])
    place = table.locate(rows(range(0, 90, 3), 1).column("id"), partitions=["us"]).to_pylist()
    nodes = sorted({found["bucket_id"] for found in place})
    given = rows(
        [int(found["record_key"][4:]) for found in place if found["bucket_id"] != nodes[0]], 9
    )
    for own in (given, rows(range(1, 90, 3), 9)):
        table.upsert(own)
        model.upsert(own)
    assert find_copies(table, instant) == []
    assert_reads_as(table.uri, model)


def test_late_rows_of_keys_deleted_meanwhile_are_refused(tmp_path: Path) -> None:
    """The copy would be hidden by the delete before it, which cannot be rewritten yet."""
    table, model = filled(tmp_path / "t")
    schedule_resize(table, split=[0, 1, 2])
    table.upsert(rows([0], 20))
    model.upsert(rows([0], 20))
    table.delete(rows([0], 20).select(["id", "region"]))
    model.delete(["key-000000"])
    with pytest.raises(bf.UnsupportedError, match=r"deleted while the resize of .* is pending"):
        table.upsert(rows([0], 5))
    given = rows([0], 21)
    table.upsert(given)
    model.upsert(given)
    assert_reads_as(table.uri, model)
    execute(table, model)


def test_rows_lacking_columns_keep_values_of_merged_buckets(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    schedule_resize(table, merge=[0, 1, 2])
    update_without_price(table, model)
    execute(table, model)


@pytest.mark.rotated(0)
@pytest.mark.parametrize("version", [6, 9])
def test_the_metadata_table_has_both_copies(tmp_path: Path, version: int) -> None:
    table, model = filled(tmp_path / "t", version)
    table.metadata_table.init("files", "column_stats")
    table = bf.open(table.uri)
    schedule_resize(table, split=[0], merge=[1, 2])
    write(table, model, 9)
    table.rollback(table.upsert(rows(range(0, 60, 3), 20)).instant)
    table = bf.open(table.uri)
    execute(table, model)
    assert_in_step(table)
    write(table, model, 30)
    assert_in_step(table)
    assert_reads_as(table.uri, model)


@pytest.mark.rotated(0)
@pytest.mark.parametrize(
    ("version", "is_executed"), [(6, False), (8, False), (9, False), (8, True), (9, True)]
)
def test_the_metadata_table_loses_the_copies_with_the_resize(
    tmp_path: Path, version: int, is_executed: bool
) -> None:
    """The copies are of other instants than that which is rolled back."""
    table, model = filled(tmp_path / "t", version)
    table.metadata_table.init("files", "column_stats", "record_index")
    table = bf.open(table.uri)
    resize = schedule_resize(table, split=[0], merge=[1, 2])
    write(table, model, 9)
    if is_executed:
        execute(table, model)
    bf.open(table.uri).rollback(resize)
    assert_in_step(table)
    assert_reads_as(table.uri, model)
    write(table, model, 30)
    assert_in_step(table)
    assert_reads_as(table.uri, model)


def test_a_metadata_table_that_is_made_meanwhile_has_the_copies(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    schedule_resize(table, split=[0], merge=[1, 2])
    write(table, model, 9)
    table.metadata_table.init("files", "column_stats")
    table = bf.open(table.uri)
    assert_reads_as(table.uri, model)
    execute(table, model)
    assert_in_step(table)


def test_a_compaction_leaves_the_copies_alone(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    instant = schedule_resize(table, split=[0])
    write(table, model, 10)
    copies = find_copies(table, instant)
    assert table.compact() is not None
    table.clean(retain=1, dry_run=False)
    assert find_copies(table, instant) == copies != []
    assert_reads_as(table.uri, model)


@pytest.mark.rotated(0, among="resizes", one_of=3)
@pytest.mark.parametrize("version", [6, 9])
def test_a_writer_that_dies_leaves_both_copies_or_neither(tmp_path: Path, version: int) -> None:
    table, model = filled(tmp_path / "t", version, buckets=1)
    schedule_resize(table, split=[0])
    kill_an_upsert_everywhere(table, model)


def test_a_restore_takes_the_resize_and_its_copies_back(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    savepoint, before = table.savepoint(), copy.deepcopy(model)
    schedule_resize(table, split=[0])
    write(table, model, 10)
    execute(table, model)
    table.restore(savepoint)
    assert_reads_as(table.uri, before)


@pytest.mark.rule("RING-31")
def test_a_write_is_routed_anew_where_a_resize_comes_or_goes(tmp_path: Path) -> None:
    """It looked at the ring before the resize was planned, or was taken back."""
    table, model = filled(tmp_path / "t", 9)
    resizes: list[str] = []

    def racing(change: Callable[[], object], given: pa.Table) -> None:
        begin, calls = table._transactions.begin, []

        def begun(action: str) -> object:
            transaction = begin(action)
            if not calls:
                calls.append(action)
                change()
            return transaction

        with mock.patch.object(table._transactions, "begin", begun):
            table.upsert(given)
        model.upsert(given)
        assert_reads_as(table.uri, model)

    def schedule() -> None:
        resizes.append(schedule_resize(bf.open(table.uri), split=[0, 1, 2]))

    racing(schedule, rows(range(0, 30, 3), 9))
    assert find_copies(table, resizes[0])
    with table.start_write("upsert", SCHEMA) as started:
        receipts = list(started.task.write(rows([0], 30), "0-0-1"))
        bf.open(table.uri).rollback(resizes[0])
        with pytest.raises(bf.ConflictError, match="rolled back"):
            started.publish(receipts)
    assert find_copies(bf.open(table.uri), resizes[0]) == []
    assert_reads_as(table.uri, model)


def test_tasks_that_share_a_write_have_whole_buckets_of_both_rings(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t", buckets=4)
    schedule_resize(table, split=[0], merge=[1, 2])
    given = rows(range(0, 90, 3), 9)
    ranks = table.pinned().assign(given)["rank"].to_numpy()
    assert len(set(ranks)) == 3
    with table.start_write("upsert", SCHEMA) as started:
        receipts = [
            receipt
            for task in range(2)
            for receipt in started.task.write(
                given.filter(pa.array(ranks % 2 == task)), f"{task}-0-1"
            )
        ]
        started.publish(receipts)
    model.upsert(given)
    assert_reads_as(table.uri, model)
    execute(table, model)


@pytest.mark.rule("RING-30")
@pytest.mark.rotated(2)
@pytest.mark.parametrize("version", [6, 8])
def test_copies_of_a_pending_write_are_not_read(tmp_path: Path, version: int) -> None:
    """Hudi may complete a resize while a writer that knows of the resize is at work."""
    table, model = filled(tmp_path / "t", version)
    schedule_resize(table, split=[0, 1, 2])
    write(table, model, 9)
    with table.start_write("upsert", SCHEMA) as started:
        receipts = list(started.task.write(rows(range(0, 60, 3), 30), "0-0-1"))
        assert len(receipts) > 4
        execute(bf.open(table.uri), model)
        compacted = bf.open(table.uri).compact()
        if version >= 8 and compacted is not None:
            groups = {path.rpartition("/")[2].partition("_")[0] for path in compacted.files}
            copied = {json.loads(receipt)["fileId"] for receipt in receipts}
            assert not groups & copied  # what the pending write copied belongs to these slices
        with pytest.raises(bf.ConflictError):
            started.publish(receipts)
    assert_reads_as(table.uri, model)
