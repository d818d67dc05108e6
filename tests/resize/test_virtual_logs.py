"""Writes while a resize is pending, where rows go to the buckets to come alone (RFC-42)."""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.errors import BucketfmtError
from bucketfmt.format.log.log_block import BlockType, LogBlock, encode_log_block
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.log.virtual_log import decode_virtual_log, is_virtual_log
from bucketfmt.testing.crashes import SimulatedProcess
from bucketfmt.testing.interleavings import interleave_everywhere
from bucketfmt.testing.memory_store import MemoryStore
from tests.resize import test_dual_write as dual
from tests.resize.pending import find_copies, schedule_resize
from tests.resize.test_dual_write import (
    US,
    execute,
    kill_an_upsert_everywhere,
    of_partition,
    update_without_price,
    write,
)
from tests.write.metadata.metadata_records import assert_in_step
from tests.write.models import SCHEMA, Model, Row, assert_reads_as, rows

VERSIONS = (6, 8, 9)
_MAY_BE_TOLD = (bf.ConflictError, bf.LockTimeoutError)
filled = partial(dual.filled, virtual_logs=True)


def virtual_logs(table: bf.Table, partition: str = "us") -> list[tuple[Path, LogBlock]]:
    """Return the virtual logs of a partition."""
    folder = Path(table.uri.removeprefix("file://")) / partition
    found = []
    for path in sorted(folder.glob(".*.log.*")):
        for block in decode_log_file(path.read_bytes()):
            if isinstance(block, LogBlock) and is_virtual_log(block):
                found.append((path, block))
    return found


def all_rows(table: bf.Table, **of: str) -> list[Row]:
    found = table.scan(**of).to_arrow().to_pylist()
    return sorted(found, key=lambda row: (row["region"], row["id"]))


def in_order(model: Model) -> list[Row]:
    return [model.rows[key] for key in sorted(model.rows)]


@pytest.mark.rule("VLOG-1", "VLOG-2", "VLOG-3", "VLOG-5")
@pytest.mark.rotated(0)
@pytest.mark.parametrize("version", VERSIONS)
def test_readers_see_the_newest_rows_at_every_step(tmp_path: Path, version: int) -> None:
    table, model = filled(tmp_path / "t", version)
    resize = schedule_resize(table, split=[0], merge=[1, 2])
    models = {}
    for ts in (10, 11):
        write(table, model, ts)
        assert_reads_as(table.uri, model)
        newest = table.timeline.completed.of("deltacommit").last
        assert newest is not None
        models[newest.requested_time] = copy.deepcopy(model)
    found = virtual_logs(table)
    assert {path.name.partition("_")[0] for path, _ in found} == {
        f".{s.file_id}" for s in table._snapshot().slices("us")
    }
    pointed = [file.name for _, block in found for file in decode_virtual_log(block).files]
    assert sorted(map(str, pointed)) == sorted(map(str, find_copies(table, resize)))
    keys = [row["id"] for row in of_partition(model)]
    looked_up = table.lookup(keys).to_pylist()
    assert sorted(looked_up, key=lambda row: str(row["id"])) == of_partition(model)
    changed = table.changes(since=resize).to_arrow().to_pylist()
    assert {r["id"]: r for r in changed}.items() <= {r["id"]: r for r in in_order(model)}.items()
    assert changed
    for instant, then in models.items():
        assert all_rows(table, as_of=instant) == in_order(then)
    execute(table, model)
    for instant, then in models.items():
        assert all_rows(bf.open(table.uri), as_of=instant) == in_order(then)
    write(table, model, 12)
    assert_reads_as(table.uri, model)
    assert len(virtual_logs(table)) == len(found)


def test_results_count_rows_once_and_rows_are_stored_once(tmp_path: Path) -> None:
    table, _ = filled(tmp_path / "t")
    schedule_resize(table, split=[0, 1, 2])
    done = table.upsert(rows(range(0, 90, 3), 9))
    assert done.rows_updated + done.rows_inserted == 30
    stored = [
        block
        for path in done.files
        for block in decode_log_file((tmp_path / "t" / path).read_bytes())
        if isinstance(block, LogBlock) and block.block_type is BlockType.AVRO_DATA
    ]
    assert len(stored) == len(done.files) - 3
    assert table.delete(rows(range(0, 9, 3), 9).select(["id", "region"])).rows_deleted == 3


@pytest.mark.rule("VLOG-6")
@pytest.mark.rotated(0)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_resize_with_rows_of_others_is_not_rolled_back(tmp_path: Path, version: int) -> None:
    table, model = filled(tmp_path / "t", version)
    resize = schedule_resize(table, split=[0], merge=[1, 2])
    given = rows(range(0, 60, 3), 9)
    done = table.upsert(given)
    for undo in (lambda: table.rollback(resize), table.savepoint):
        with pytest.raises(bf.ConflictError, match=rf"{done.instant} .*resize\(\) does"):
            undo()
    assert resize in [i.requested_time for i in table.timeline.pending.instants]
    table.rollback(done.instant)
    assert_reads_as(table.uri, model)
    table.upsert(given)
    model.upsert(given)
    execute(table, model)
    with pytest.raises(bf.ConflictError, match="cannot be rolled back"):
        table.rollback(resize)
    assert_reads_as(table.uri, model)


def test_a_resize_without_rows_of_others_is_rolled_back(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    resize = schedule_resize(table, split=[0])
    table.savepoint()
    table.rollback(table.upsert(rows([0], 9)).instant)
    table.rollback(resize)
    assert_reads_as(table.uri, model)
    write(table, model, 10)
    assert virtual_logs(table) == []


def test_a_savepoint_from_before_is_restored(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    savepoint = table.savepoint()
    before = copy.deepcopy(model)
    schedule_resize(table, split=[0])
    write(table, model, 10)
    with pytest.raises(bf.ConflictError, match="cannot be savepointed"):
        table.savepoint()
    execute(table, model)
    write(table, model, 11)
    table.restore(savepoint)
    assert_reads_as(table.uri, before)


def test_a_savepoint_of_a_write_before_the_end_of_a_resize_is_refused(tmp_path: Path) -> None:
    """A restore would take the resize back."""
    table, model = filled(tmp_path / "t")
    schedule_resize(table, split=[0, 1, 2])
    given = rows(range(0, 60, 3), 9)
    done = table.upsert(given)
    model.upsert(given)
    execute(table, model)
    with pytest.raises(bf.ConflictError, match="pending then"):
        table.savepoint(done.instant)
    table.savepoint()


def test_a_slice_that_is_rewritten_takes_the_rows_as_well(tmp_path: Path) -> None:
    """A row over a delete from before the plan has to go to a base file."""
    table, model = filled(tmp_path / "t")
    table.upsert(rows([0], 20))
    table.delete(rows([0], 20).select(["id", "region"]))
    model.delete(["key-000000"])
    schedule_resize(table, split=[0, 1, 2])
    given = rows(range(0, 9, 3), 5)
    done = table.upsert(given)
    model.upsert(given)
    assert any(path.endswith(".parquet") for path in done.files)
    assert done.rows_inserted + done.rows_updated == 3
    assert_reads_as(table.uri, model)
    write(table, model, 21)
    assert_reads_as(table.uri, model)
    execute(table, model)


def test_rows_that_lack_columns_and_late_rows_of_deleted_keys(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    schedule_resize(table, merge=[0, 1, 2])
    update_without_price(table, model)
    table.upsert(rows([0], 20))
    table.delete(rows([0], 20).select(["id", "region"]))
    model.delete(["key-000000"])
    with pytest.raises(bf.UnsupportedError, match=r"deleted while the resize of .* is pending"):
        table.upsert(rows([0], 5))
    execute(table, model)


@pytest.mark.rotated(0, among="resizes", one_of=3)
@pytest.mark.parametrize("version", [6, 9])
def test_the_metadata_table_is_in_step(tmp_path: Path, version: int) -> None:
    table, model = filled(tmp_path / "t", version)
    table.metadata_table.init("files", "column_stats")
    table = bf.open(table.uri)
    schedule_resize(table, split=[0], merge=[1, 2])
    write(table, model, 9)
    table.rollback(table.upsert(rows(range(0, 60, 3), 20)).instant)
    table = bf.open(table.uri)
    newest = table.scan(filter=[*US, ("ts", ">=", 9)]).to_arrow().to_pylist()
    expected = [row for row in of_partition(model) if (row["ts"] or 0) >= 9]
    assert sorted(newest, key=lambda row: str(row["id"])) == expected
    execute(table, model)
    assert_in_step(table)
    write(table, model, 30)
    assert_in_step(table)
    assert_reads_as(table.uri, model)


def test_statistics_are_read_of_the_files_pointed_to(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    schedule_resize(table, split=[0], merge=[1, 2])
    write(table, model, 9)
    table.metadata_table.init("files", "column_stats", "record_index")
    table = bf.open(table.uri)
    newest = table.scan(filter=[*US, ("ts", ">=", 9)]).to_arrow().to_pylist()
    expected = [row for row in of_partition(model) if (row["ts"] or 0) >= 9]
    assert sorted(newest, key=lambda row: str(row["id"])) == expected
    assert_reads_as(table.uri, model)


def test_services_leave_the_logs_alone(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    resize = schedule_resize(table, split=[0])
    write(table, model, 10)
    copies, logs = find_copies(table, resize), virtual_logs(table)
    table.compact()
    table.clean(retain=1, dry_run=False)
    assert find_copies(table, resize) == copies != []
    assert [path for path, _ in virtual_logs(table)] == [path for path, _ in logs]
    assert_reads_as(table.uri, model)
    execute(table, model)
    for ts in (11, 12):
        write(table, model, ts)
        table.compact()
    table.clean(retain=1, dry_run=False)
    assert_reads_as(table.uri, model)


@pytest.mark.rotated(0, among="resizes", one_of=3)
@pytest.mark.parametrize("version", [6, 9])
def test_a_writer_that_dies_leaves_all_of_its_rows_or_none(tmp_path: Path, version: int) -> None:
    table, model = filled(tmp_path / "t", version, buckets=1)
    schedule_resize(table, split=[0])
    write(table, model, 15)
    kill_an_upsert_everywhere(table, model)


@pytest.mark.rotated(0, among="resizes", one_of=3)
@pytest.mark.parametrize("version", [6, 9])
def test_a_write_amid_a_resize_keeps_its_rows(tmp_path: Path, version: int) -> None:
    """At each operation of a resize, from its plan to its end."""
    writer = bf.WriterConfig(
        lock="filesystem" if version == 6 else "storage",
        lock_timeout_s=5.0,  # less than the lease of a lock
        lock_expire_minutes=10,
        services=None,
    )
    table, model = filled(tmp_path / "t", version, buckets=1)
    given, later = rows(range(0, 30, 3), 20), rows(range(3, 60, 12), 21)
    seen = set()
    for met in interleave_everywhere(
        MemoryStore.of_folder(table.uri),
        lambda t: t.resize(max_file_size=1, max_buckets=2, partitions=["us"]),
        lambda t: t.upsert(given),
        process=2,
        writer=writer,
    ):
        for outcome in (met.first, met.second):
            assert outcome.error is None or isinstance(outcome.error, _MAY_BE_TOLD), met
        state = met.store.state, met.second.error is None
        if state in seen:
            continue
        seen.add(state)
        now = copy.deepcopy(model)
        if met.second.error is None:
            now.upsert(given)
        store = met.store.copy()
        table = SimulatedProcess(store, 3, writer).open()
        assert all_rows(table) == in_order(now), met
        table.upsert(later)
        now.upsert(later)
        table.resize(max_file_size=1, max_buckets=2, partitions=["us"])
        assert all_rows(table) == in_order(now), met
    assert len(seen) > 3


def test_tasks_that_share_a_write_write_to_one_file_group_each_its_own_file(tmp_path: Path) -> None:
    """File groups that are merged go to one task, whose files have one write token."""
    table, model = filled(tmp_path / "t", buckets=4)
    resize = schedule_resize(table, split=[0], merge=[1, 2])
    given = rows(range(0, 90, 3), 9)
    ranks = table.pinned().assign(given)["rank"].to_numpy()
    with table.start_write("upsert", SCHEMA) as started:
        receipts = [
            receipt
            for attempt in (1, 2)
            for task in range(2)
            for receipt in started.task.write(
                given.filter(pa.array(ranks % 2 == task)), f"{task}-0-{attempt}"
            )
        ]
        started.publish(receipts)
    model.upsert(given)
    assert_reads_as(table.uri, model)
    copies = find_copies(table, resize)
    assert {name.write_token for name in copies} == {"0-0-2", "1-0-2"}
    assert len(copies) == 4
    execute(table, model)


@pytest.mark.rule("VLOG-4", "VLOG-5")
def test_damage_is_told(tmp_path: Path) -> None:
    table, _ = filled(tmp_path / "t")
    schedule_resize(table, split=[0, 1, 2])
    table.upsert(rows(range(0, 60, 3), 9))
    table.upsert(rows(range(0, 60, 3), 10))
    (path, block), (_, other), *_ = virtual_logs(table)
    first, second = (decode_virtual_log(each).files[0] for each in (block, other))
    pointed = path.parent / str(first.name)
    sound = pointed.read_bytes()
    of_another = (path.parent / str(second.name)).read_bytes()

    def fails(reason: str) -> None:
        with pytest.raises(BucketfmtError, match=reason) as caught:
            bf.open(table.uri).scan().to_arrow()
        assert str(first.name) in str(caught.value)
        assert bf.open(table.uri).check(depth="full").status == "findings"

    for damaged, reason in (
        (sound[:-20], "restore the file"),
        (sound + encode_log_block(BlockType.DELETE, {0: "1"}), "where a virtual log says"),
    ):
        pointed.write_bytes(damaged)
        fails(reason)
    path.write_bytes(
        path.read_bytes().replace(str(first.size).encode(), str(len(of_another)).encode())
    )
    pointed.write_bytes(of_another)
    fails("not of the write of")
    pointed.unlink()
    with pytest.raises(BucketfmtError, match=str(first.name)):
        bf.open(table.uri).scan().to_arrow()


@pytest.mark.rule("VLOG-7")
def test_only_tables_that_say_so_have_virtual_logs(tmp_path: Path) -> None:
    index = bf.ConsistentHashingIndex(3, virtual_logs=True)
    table, model = filled(tmp_path / "t")
    assert table.config.properties["hoodie.index.bucket.engine"] == (
        "CONSISTENT_HASHING_VIRTUAL_LOGS"
    )
    assert bf.open(table.uri, index=index).index == table.index
    plain, _ = dual.filled(tmp_path / "plain")
    for uri, other in ((table.uri, bf.ConsistentHashingIndex(3)), (plain.uri, index)):
        with pytest.raises(ValueError, match="contradicts the table"):
            bf.open(uri, index=other).upsert(rows([0], 9))
    schedule_resize(plain, split=[0, 1, 2])
    write(plain, model, 9)
    assert virtual_logs(plain) == []
    assert_reads_as(plain.uri, model)


def test_an_index_that_only_the_caller_states_has_none(tmp_path: Path) -> None:
    """Others may write to the table who know nothing of virtual logs."""
    table, _ = filled(tmp_path / "t")
    properties = tmp_path / "t/.hoodie/hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if "index" not in line]
    properties.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match="contradicts the table"):
        bf.open(table.uri, index=bf.ConsistentHashingIndex(3, virtual_logs=True)).upsert(
            rows([0], 9)
        )
