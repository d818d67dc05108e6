"""Rollback: the rows are as before, the files are as Hudi leaves them, whatever crash comes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bucketfmt as bf
from bucketfmt.format.log.log_block import BlockType, HeaderKey, LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.names.instants import State
from bucketfmt.format.names.layout import heartbeat_path
from bucketfmt.format.names.names import LogFileName, find_data_file_name
from bucketfmt.format.timeline.plans import (
    InstantInfo,
    RollbackPlan,
    RollbackRequest,
    decode_rollback_plan,
    encode_rollback_plan,
)
from bucketfmt.format.timeline.service_metadata import decode_rollback_metadata
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.open import open_store
from bucketfmt.testing.faulty_store import Fault
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.transitions import put_requested
from bucketfmt.write.commit.transaction import Transaction
from tests.write.crashes import crashes, is_as, open_on
from tests.write.models import NO_SERVICES, Model, assert_reads_as, create_table, rows

pytestmark = pytest.mark.rotated

VERSIONS = (6, 8, 9)
KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ", "ring")
HUDI_OF = {6: "0.15.0", 8: "1.0.2", 9: "1.2.0"}
# A kill before a write is one after the write before it.


def make(folder: Path, version: int, kind: str, buckets: int = 2) -> tuple[bf.Table, Model]:
    """A table with one write."""
    table = create_table(
        str(folder / "t"),
        bf.ConsistentHashingIndex(buckets) if kind == "ring" else bf.SimpleBucketIndex(buckets),
        "COPY_ON_WRITE" if kind == "COPY_ON_WRITE" else "MERGE_ON_READ",
        table_version=version,
    )
    model = Model()
    table.upsert(rows(range(40), ts=1))
    model.upsert(rows(range(40), ts=1))
    return table, model


@pytest.fixture(params=[(v, k) for v in VERSIONS for k in KINDS], ids=str)
def started(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[bf.Table, Model]:
    return make(tmp_path, *request.param)


def data_files(root: str | Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in Path(root).rglob("*")
        if path.is_file()
        and ".hoodie" not in path.relative_to(root).parts
        and not path.name.endswith(".crc")
    }


def rollback_files(root: str | Path, timeline_path: str) -> tuple[str, bytes, bytes]:
    """Requested time, plan and metadata of the one rollback a table has."""
    folder = Path(root, timeline_path)
    (done,) = (p for p in folder.iterdir() if p.name.endswith(".rollback"))
    instant = re.split(r"[_.]", done.name)[0]
    assert (folder / f"{instant}.rollback.inflight").read_bytes() == b""
    return instant, (folder / f"{instant}.rollback.requested").read_bytes(), done.read_bytes()


def command_blocks(root: str | Path) -> dict[str, LogBlock]:
    found = {}
    for path, data in data_files(root).items():
        if not isinstance(find_data_file_name(path.rpartition("/")[2]), LogFileName):
            continue
        for block in decode_log_file(data, DEFAULT_LIMITS):
            if isinstance(block, LogBlock) and block.block_type == BlockType.COMMAND:
                found[path] = block
    return found


def check_as_hudi_writes(table: bf.Table) -> None:
    """What a rollback of a write left, in our table as in those of Hudi's own."""
    root, config = table.store.uri, table.config
    instant, plan_bytes, metadata_bytes = rollback_files(root, config.timeline_path)
    plan = decode_rollback_plan(plan_bytes)
    metadata = decode_rollback_metadata(metadata_bytes)
    target = plan.instant_to_rollback
    assert target is not None
    assert plan.version == metadata.version == 1
    assert metadata.start_rollback_time == instant > target.commit_time
    assert metadata.instants_rollback == [target]
    assert metadata.commits_rollback == [target.commit_time]
    assert not [i for i in table.timeline.instants if i.requested_time == target.commit_time]
    deleted, cancelled = {}, {}
    for request in plan.rollback_requests:
        assert bool(request.files_to_be_deleted) != bool(request.log_blocks_to_be_deleted)
        for path in request.files_to_be_deleted:
            parsed = find_data_file_name(path.rpartition("/")[2])
            assert parsed is not None
            assert parsed.instant == target.commit_time
            assert path.endswith(f"/{request.partition_path}/{parsed}")
            assert request.file_id == parsed.file_id
            assert request.latest_base_instant == target.commit_time
            deleted[path] = request.partition_path
        for logged, size in request.log_blocks_to_be_deleted.items():
            parsed = find_data_file_name(logged.rpartition("/")[2])
            assert isinstance(parsed, LogFileName)
            assert (request.file_id, request.latest_base_instant) == (
                parsed.file_id,
                parsed.instant,
            )
            assert size > 0
            cancelled[request.partition_path, parsed.file_id] = logged, size, parsed.version
    own = dict(metadata.partition_metadata)
    assert {f: p for p, m in own.items() for f in m.success_delete_files} == deleted
    assert metadata.total_files_deleted == len(deleted)
    assert all(m.partition_path == p and not m.failed_delete_files for p, m in own.items())
    blocks = command_blocks(root)
    if config.table_version == 6 and config.table_type == "MERGE_ON_READ":
        assert len(blocks) == len(cancelled) == sum(len(m.rollback_log_files) for m in own.values())
    else:
        assert not cancelled
        assert not blocks
    for path, block in blocks.items():
        partition, _, file_name = path.rpartition("/")
        parsed = find_data_file_name(file_name)
        assert isinstance(parsed, LogFileName)
        logged, size, version = cancelled[partition, parsed.file_id]
        assert own[partition].log_files_from_failed_commit[logged] == size
        (listed,) = (
            value
            for key, value in own[partition].rollback_log_files.items()
            if key.endswith(f"/{path}")
        )
        assert listed == Path(root, path).stat().st_size == 105
        assert parsed.write_token == "1-0-1"
        assert parsed.version == version + 1
        assert block.header == {
            HeaderKey.INSTANT_TIME: instant,
            HeaderKey.COMMAND_BLOCK_TYPE: "0",
            HeaderKey.TARGET_INSTANT_TIME: target.commit_time,
        }
        assert bytes(block.content) == b""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["rolledback", "rolledback_mor"])
def test_rollbacks_of_hudi(golden: Callable[[str, str], Path], version: int, name: str) -> None:
    check_as_hudi_writes(bf.open(golden(HUDI_OF[version], name)))


def test_a_completed_write_is_taken_back(started: tuple[bf.Table, Model]) -> None:
    table, model = started
    before = data_files(table.uri)
    done = table.upsert(rows(range(20, 60), ts=2, price=2.0))
    preview = table.rollback(done.instant, dry_run=True)
    result = table.rollback(done.instant)
    assert (result.instant, result.action) == (done.instant, done.action)
    assert result.rollback_instant is not None
    assert preview.rollback_instant is None
    assert (preview.files_deleted, preview.log_files_cancelled) == (
        result.files_deleted,
        result.log_files_cancelled,
    )
    assert sorted((*result.files_deleted, *result.log_files_cancelled)) == sorted(done.files)
    assert_reads_as(table.uri, model)
    check_as_hudi_writes(table)
    after = data_files(table.uri)
    if table.config.table_version == 6 and table.config.table_type == "MERGE_ON_READ":
        assert set(result.log_files_cancelled) == {f for f in done.files if ".log." in f}
        assert after.keys() == before.keys() | set(result.log_files_cancelled) | (
            command_blocks(table.uri).keys()
        )
    else:
        assert not result.log_files_cancelled
        assert after == before
    assert not table.timeline.pending.instants
    assert not list(Path(table.uri, ".hoodie/.temp").rglob("*.marker.*"))
    following = rows(range(30, 70), ts=3, price=3.0)
    table.upsert(following)
    model.upsert(following)
    assert_reads_as(table.uri, model)


@pytest.mark.parametrize("harm", ["emptied", "moved away"])
def test_a_write_whose_file_was_harmed_is_taken_back(
    started: tuple[bf.Table, Model], harm: str
) -> None:
    """Until version 6 the blocks alone tell what it logged, and archived it would come back."""
    table, model = started
    before = data_files(table.uri)
    done = table.upsert(rows(range(20, 60), ts=2, price=2.0))
    instant = next(i for i in table.timeline.instants if i.requested_time == done.instant)
    file = Path(table.uri, table.config.timeline_path, instant.file_name)
    if harm == "emptied":
        file.write_bytes(b"")
    else:
        file.rename(Path(table.uri).parent / "away")
    table = bf.open(table.uri, writer=NO_SERVICES)
    planned = table.rollback(done.instant, dry_run=True)
    result = table.rollback(done.instant)
    assert planned.files_deleted == result.files_deleted
    assert planned.log_files_cancelled == result.log_files_cancelled
    assert sorted((*result.files_deleted, *result.log_files_cancelled)) == sorted(done.files)
    is_cancelled = table.config.table_version == 6 and table.config.table_type == "MERGE_ON_READ"
    assert is_cancelled == bool(result.log_files_cancelled)
    if not is_cancelled:
        assert data_files(table.uri) == before
    assert_reads_as(table.uri, model)
    assert not table.check("full").findings
    for ts in range(3, 9):
        given = rows([0], ts=ts)
        table.upsert(given)
        model.upsert(given)
    table.archive(min_commits=2, max_commits=3)
    assert table.timeline.instants[0].requested_time > done.instant
    assert_reads_as(table.uri, model)


def test_log_files_with_rows_of_later_writes_are_not_deleted(tmp_path: Path) -> None:
    """Until version 6 they bear the instant of the write that made the file slice."""
    table, model = make(tmp_path, 6, "MERGE_ON_READ")
    harmed = table.upsert(rows(range(40, 43), ts=2).set_column(4, "region", [["new"] * 3]))
    (instant,) = (i for i in table.timeline.instants if i.requested_time == harmed.instant)
    given = rows(range(40, 42), ts=3, price=3.0).set_column(4, "region", [["new"] * 2])
    later = table.upsert(given)
    assert any(harmed.instant in path and ".log." in path for path in later.files)
    file = Path(table.uri, table.config.timeline_path, instant.file_name)
    away = file.rename(tmp_path / "away")
    before = data_files(table.uri)
    table = bf.open(table.uri, writer=NO_SERVICES)
    for take_back in (
        lambda: table.rollback(harmed.instant, dry_run=True),
        lambda: table.rollback(harmed.instant),
        lambda: table.upsert(rows([0], ts=4)),
    ):
        with pytest.raises(bf.ConflictError, match=f"{later.instant}, which came after it, has"):
            take_back()
    assert data_files(table.uri) == before
    assert not table.timeline.of("rollback").instants
    away.rename(file)
    assert table.lookup(["key-000041"]).column("ts").to_pylist() == [3]
    file.rename(away)
    table.rollback(later.instant)
    table.rollback(harmed.instant)
    assert_reads_as(table.uri, model)
    assert not table.check("full").findings


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS[:2])
def test_a_write_moved_away_that_others_have_built_on_is_kept(
    tmp_path: Path, version: int, kind: str
) -> None:
    """Its rows are in base files that were made since; those in its own files alone would go."""
    table, model = make(tmp_path, version, kind)
    given = rows(range(20, 60), ts=2, price=2.0)
    harmed = table.upsert(given)
    model.upsert(given)
    (instant,) = (i for i in table.timeline.instants if i.requested_time == harmed.instant)
    if kind == "COPY_ON_WRITE":
        later = table.upsert(rows([41], ts=3, price=3.0))
    else:
        compacted = table.compact()
        assert compacted is not None
        later = compacted
    file = Path(table.uri, table.config.timeline_path, instant.file_name)
    away = file.rename(tmp_path / "away")
    before = data_files(table.uri)
    table = bf.open(table.uri, writer=NO_SERVICES)
    for take_back in (
        lambda: table.rollback(harmed.instant, dry_run=True),
        lambda: table.rollback(harmed.instant),
        lambda: table.upsert(rows([0], ts=4)),
    ):
        with pytest.raises(bf.ConflictError, match=f"{later.instant}, which came after it, has"):
            take_back()
    assert data_files(table.uri) == before
    assert not table.timeline.of("rollback").instants
    table.rollback(later.instant)
    away.rename(file)
    assert_reads_as(table.uri, model)
    table.rollback(harmed.instant)
    model = Model()
    model.upsert(rows(range(40), ts=1))
    assert_reads_as(table.uri, model)
    assert not table.check("full").findings


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS[:2])
def test_a_write_moved_away_is_taken_back_beside_writes_to_others(
    tmp_path: Path, version: int, kind: str
) -> None:
    table, model = make(tmp_path, version, kind)
    new = rows(range(60, 70), ts=2)
    column = new.schema.get_field_index("region")
    harmed = table.upsert(new.set_column(column, "region", [["new"] * 10]))
    (instant,) = (i for i in table.timeline.instants if i.requested_time == harmed.instant)
    given = rows(range(20, 60), ts=3, price=3.0)
    table.upsert(given)
    model.upsert(given)
    Path(table.uri, table.config.timeline_path, instant.file_name).rename(tmp_path / "away")
    table = bf.open(table.uri, writer=NO_SERVICES)
    given = rows([0], ts=4)
    table.upsert(given)
    model.upsert(given)
    assert not table.timeline.contains(harmed.instant)
    assert_reads_as(table.uri, model)
    assert not table.check("full").findings


def test_of_a_writer_that_died_before_its_first_marker_no_log_file_is_read(
    tmp_path: Path,
) -> None:
    """Its heartbeat, which a writer removes when it is done, tells that it announced its files."""
    table, model = make(tmp_path, 6, "MERGE_ON_READ")
    given = rows(range(20, 60), ts=2, price=2.0)
    assert any(".log." in path for path in table.upsert(given).files)
    model.upsert(given)
    died = "20990101000000000"
    for state in ("requested", "inflight"):
        name = f"{died}.deltacommit.{state}"
        Path(table.uri, table.config.timeline_path, name).write_bytes(b"")
    heartbeat = Path(table.uri, heartbeat_path(died))
    for is_there in (True, False):
        heartbeat.parent.mkdir(parents=True, exist_ok=True)
        if is_there:
            heartbeat.write_bytes(b"")
            os.utime(heartbeat, (0, 0))
        else:
            heartbeat.unlink()
        store = RecordingStore(open_store(table.uri))
        assert open_on(store).rollback(died, dry_run=True).files_deleted == ()
        assert any(".log." in path for path in store.paths("read")) != is_there
    table.rollback(died)
    assert_reads_as(table.uri, model)


def test_writes_are_taken_back_one_by_one(started: tuple[bf.Table, Model]) -> None:
    table, model = started
    first = table.timeline.instants[0].requested_time
    second = table.upsert(rows(range(20, 60), ts=2, price=2.0)).instant
    third = table.delete(rows(range(10), ts=9).select(["id", "region"])).instant
    with pytest.raises(bf.ConflictError, match="not the newest"):
        table.rollback(second)
    table.rollback(third)
    table.rollback(second)
    assert_reads_as(table.uri, model)
    table.rollback(first)
    assert table.scan().to_arrow().num_rows == 0
    table.upsert(rows(range(5), ts=1))
    model = Model()
    model.upsert(rows(range(5), ts=1))
    assert_reads_as(table.uri, model)
    with pytest.raises(ValueError, match="no write"):
        table.rollback(first)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS[:2])
def test_what_was_replaced_comes_back(tmp_path: Path, version: int, kind: str) -> None:
    table, model = make(tmp_path, version, kind)
    for act in (
        lambda: table.insert_overwrite(rows(range(3, 9), ts=5), table=True),
        lambda: table.insert_overwrite(rows([3, 6], ts=5)),
        lambda: table.delete_partitions(["us", "eu"]),
    ):
        done = act()
        assert table.scan().count() < len(model.rows)
        result = table.rollback(done.instant)
        assert (result.action, result.files_deleted) == ("replacecommit", tuple(sorted(done.files)))
        assert_reads_as(table.uri, model)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_compaction_is_taken_back(tmp_path: Path, version: int) -> None:
    table, model = make(tmp_path, version, "MERGE_ON_READ")
    given = rows(range(20, 60), ts=2, price=2.0)
    logged = table.upsert(given)
    model.upsert(given)
    before = data_files(table.uri)
    compacted = table.compact()
    assert compacted is not None
    with pytest.raises(bf.ConflictError, match="not the newest"):
        table.rollback(logged.instant)
    result = table.rollback(compacted.instant)
    assert sorted(result.files_deleted) == sorted(compacted.files)
    assert data_files(table.uri) == before
    assert_reads_as(table.uri, model)
    again = table.compact()
    assert again is not None
    assert_reads_as(table.uri, model)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_compaction_is_about_to_rewrite(tmp_path: Path, version: int) -> None:
    table, _ = make(tmp_path, version, "MERGE_ON_READ")
    done = table.upsert(rows(range(20, 60), ts=2, price=2.0))
    pending = None
    for again, _ in crashes(table, lambda t: t.compact(), Fault.KILL_AFTER):
        compactions = again.timeline.pending.of("compaction").instants
        if compactions and compactions[0].state is State.INFLIGHT:
            pending = again
            break
    assert pending is not None
    with pytest.raises(bf.ConflictError, match="about to rewrite"):
        pending.rollback(done.instant)
    compaction = pending.timeline.pending.of("compaction").instants[0].requested_time
    if version == 6:
        with pytest.raises(bf.ConflictError, match="compact the table"):
            pending.rollback(compaction)
    else:
        pending.rollback(compaction)
        pending.rollback(done.instant)
        assert pending.scan().count() == 40


def test_what_a_clean_has_deleted_from_under_it(tmp_path: Path) -> None:
    table, _ = make(tmp_path, 9, "COPY_ON_WRITE")
    done = table.upsert(rows(range(20, 60), ts=2, price=2.0))
    table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False)
    before = data_files(table.uri)
    with pytest.raises(bf.ConflictError, match="a clean has deleted"):
        table.rollback(done.instant)
    assert data_files(table.uri) == before
    overwritten = table.insert_overwrite(rows([3, 6], ts=5))
    table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False)
    with pytest.raises(bf.ConflictError, match="a clean has deleted"):
        table.rollback(overwritten.instant)


def test_the_only_write_that_is_not_archived_stays(started: tuple[bf.Table, Model]) -> None:
    """Without it nothing tells that the files of archived writes are committed."""
    table, model = started
    for ts in (2, 3):
        table.upsert(rows(range(30, 34), ts))
        model.upsert(rows(range(30, 34), ts))
    assert table.archive(min_commits=1, max_commits=1)
    (only,) = table.timeline.writes.completed.instants
    with pytest.raises(bf.ConflictError, match="is the only write that is not archived"):
        table.rollback(only.requested_time)
    assert_reads_as(table.uri, model)


def test_nor_while_an_archival_is_half_done(started: tuple[bf.Table, Model]) -> None:
    """It died before it removed what it had archived; the next one does."""
    table, model = started
    for ts in (2, 3):
        table.upsert(rows(range(30, 34), ts))
        model.upsert(rows(range(30, 34), ts))
    folder = Path(table.uri, table.config.timeline_path)
    kept = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert table.archive(min_commits=1, max_commits=1)
    for path, data in kept.items():
        path.write_bytes(data)
    with pytest.raises(bf.ConflictError, match="is the only write that is not archived"):
        table.rollback(table.timeline.writes.completed.instants[-1].requested_time)
    table.archive(min_commits=1, max_commits=1)
    assert_reads_as(table.uri, model)


def test_the_only_write_of_all_is_taken_back(started: tuple[bf.Table, Model]) -> None:
    table, _ = started
    (only,) = table.timeline.writes.completed.instants
    table.rollback(only.requested_time)
    assert_reads_as(table.uri, Model())


def test_a_savepointed_write_stays(started: tuple[bf.Table, Model]) -> None:
    table, _ = started
    done = table.upsert(rows(range(20, 60), ts=2, price=2.0))
    table.savepoint()
    with pytest.raises(bf.ConflictError, match="savepointed"):
        table.rollback(done.instant)
    table.delete_savepoint(done.instant)
    table.rollback(done.instant)


def test_a_writer_at_work_is_not_disturbed(started: tuple[bf.Table, Model]) -> None:
    table, _ = started
    done = table.upsert(rows(range(20, 60), ts=2, price=2.0))
    transaction = table._transactions.begin("commit")
    with transaction.aborted_on_error():
        other = bf.open(table.uri)
        for instant in (done.instant, transaction.instant):
            with pytest.raises(bf.ConflictError, match="at work"):
                other.rollback(instant)
        assert len(table.timeline.pending.instants) == 1
        transaction._abort()
    table.rollback(done.instant)


def test_a_writer_that_stands_on_what_is_taken_back(
    started: tuple[bf.Table, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi rolls back next to writers at work: what these publish then would stand on nothing."""
    table, model = started
    done = table.upsert(rows(range(20, 60), ts=2, price=2.0))
    rolled_back: list[str] = []
    monkeypatch.setattr(
        "bucketfmt.write.undo.rollback_planner.RollbackPlanner.check_writers_dead",
        lambda self, timeline: None,
    )

    writer = bf.open(table.uri)
    publish = Transaction.publish

    def publish_late(self: Transaction, *given: Any, **named: Any) -> bf.CommitResult:
        if not rolled_back:
            rolled_back.append(self.instant)
            table.rollback(done.instant)
        return publish(self, *given, **named)

    monkeypatch.setattr(Transaction, "publish", publish_late)
    given = rows(range(30, 35), ts=3, price=3.0)
    with pytest.raises(bf.ConflictError, match="was rolled back"):
        writer.upsert(given, retries=0)
    assert rolled_back
    assert_reads_as(table.uri, model)
    writer.upsert(given)
    model.upsert(given)
    assert_reads_as(table.uri, model)


def test_a_preview_writes_nothing(started: tuple[bf.Table, Model]) -> None:
    table, _ = started
    done = table.upsert(rows(range(20, 60), ts=2, price=2.0))
    store = RecordingStore(open_store(table.uri))
    assert open_on(store).rollback(done.instant, dry_run=True).files_deleted is not None
    assert not store.writes


@pytest.mark.rule("WRITE-10")
@pytest.mark.rotated(0, among="crashes at each write", one_of=6)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_crash_points(tmp_path: Path, version: int, kind: str) -> None:
    """In every state it may leave; tests/reliability comes to them in other ways too."""
    table, before = make(tmp_path, version, kind, buckets=1)
    given = rows(range(20, 60), ts=2, price=2.0)
    done = table.upsert(given)
    after = Model()
    after.rows = dict(before.rows)
    after.upsert(given)
    more = rows(range(5), ts=3, price=3.0)
    cancelled = len(table.rollback(done.instant, dry_run=True).log_files_cancelled)
    points = 0
    for again, broken in crashes(table, lambda t: t.rollback(done.instant), Fault.KILL_AFTER):
        points += 1
        begun = bool(again.timeline.of("rollback").instants)
        rows_now = again.scan().count()
        assert rows_now in (len(before.rows), len(after.rows)), broken.struck
        image = MemoryStore(again.store.files)  # type: ignore[attr-defined]
        # Either the next write finishes it, or the same call does.
        again.upsert(more)
        model = Model()
        model.rows = dict(before.rows if begun else after.rows)
        model.upsert(more)
        assert is_as(again, model), broken.struck
        assert not again.timeline.pending.instants
        if begun:
            assert len(again.timeline.completed.of("rollback").instants) == 1
            assert len(command_blocks_in(again)) == cancelled
        same = open_on(image)
        if rollbacks := same.timeline.completed.of("rollback").instants:
            assert len(rollbacks) == 1
        else:
            assert same.rollback(done.instant).rollback_instant is not None
        assert is_as(same, before), broken.struck
        assert not same.timeline.pending.instants
        assert len(command_blocks_in(same)) == cancelled
    assert points >= 8


@pytest.mark.rotated(0, among="failures at each write", one_of=6)
@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.KILL_AFTER])
@pytest.mark.parametrize(("version", "kind"), [(6, "COPY_ON_WRITE"), (8, "ring"), (9, KINDS[1])])
def test_a_rollback_that_is_tried_again_takes_nothing_more_back(
    tmp_path: Path, version: int, kind: str, fault: Fault
) -> None:
    """No instant is given: the newest completed write is another once the first is taken back."""
    table, before = make(tmp_path, version, kind, buckets=1)
    done = table.upsert(rows(range(20, 60), ts=2, price=2.0))
    heard: list[Exception] = []

    def try_rollback(again: bf.Table) -> None:
        try:
            again.rollback()
        except bf.BucketfmtError as error:
            heard.append(error)

    begun = 0
    for again, broken in crashes(table, try_rollback, fault):
        rollbacks = again.timeline.of("rollback")
        error = heard.pop() if heard else None
        if rollbacks.completed.instants:
            if fault is not Fault.KILL_AFTER and error is not None:
                assert isinstance(error, bf.CommitUnknownError), broken.struck
                assert f"rollback({done.instant!r})" in str(error)
                with pytest.raises(ValueError, match="no write"):
                    again.rollback(done.instant)
        else:
            begun += bool(rollbacks.instants)
            if isinstance(error, bf.CommitUnknownError):
                assert done.instant in str(error)
            elif fault is not Fault.KILL_AFTER:
                assert isinstance(error, bf.StorageError), broken.struck
                assert done.instant in again.timeline.completed.requested_times, broken.struck
            assert again.rollback(dry_run=True).instant == done.instant
            assert again.rollback().instant == done.instant
        assert is_as(again, before), broken.struck
    assert begun > 2


def command_blocks_in(table: bf.Table) -> list[str]:
    found = []
    for path, data in table.store.files.items():  # type: ignore[attr-defined]
        if ".log." in path and b"\0\0\0\3\0\0\0\x01" + b"0" in data:
            found.append(path)
    return found


@pytest.mark.parametrize(
    "request_of",
    [
        lambda t: RollbackRequest(
            partition_path=".hoodie", files_to_be_deleted=["/x/.hoodie/hoodie.properties"]
        ),
        lambda t: RollbackRequest(partition_path="us", files_to_be_deleted=["/x/us/../../a"]),
        lambda t: RollbackRequest(
            partition_path="../up", files_to_be_deleted=[f"/x/a-0_0-0-0_{t}.parquet"]
        ),
        lambda t: RollbackRequest(
            partition_path="us", files_to_be_deleted=["/x/us/a-0_0-0-0_20200101000000000.parquet"]
        ),
        lambda t: RollbackRequest(
            partition_path="us",
            file_id="../../a",
            latest_base_instant=t,
            log_blocks_to_be_deleted={"a": 1},
        ),
    ],
)
def test_a_plan_that_wants_other_files(
    tmp_path: Path, request_of: Callable[[str], RollbackRequest]
) -> None:
    table, _ = make(tmp_path, 6, "MERGE_ON_READ")
    target = table.timeline.instants[0]
    plan = RollbackPlan(
        instant_to_rollback=InstantInfo(commit_time=target.requested_time, action=target.action),
        rollback_requests=[request_of(target.requested_time)],
    )
    assert decode_rollback_plan(encode_rollback_plan(plan)) == plan
    put_requested(table.store, table.config, "20990101000000000", "rollback", plan)
    before = data_files(table.uri)
    for act in (
        lambda: table.rollback(target.requested_time),
        lambda: table.upsert(rows([1], ts=4)),
    ):
        with pytest.raises((bf.CorruptError, bf.UnsafePathError)):
            act()
    assert data_files(table.uri) == before
