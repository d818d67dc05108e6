"""What dead writers left, ours or Hudi's, is taken back by the next write; nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.names.instants import State
from bucketfmt.format.timeline.plans import RestorePlan
from bucketfmt.testing.faulty_store import Fault
from bucketfmt.timeline import markers
from bucketfmt.timeline.load import load_timeline
from bucketfmt.timeline.timeline import Instant
from bucketfmt.timeline.transitions import put_inflight, put_requested
from bucketfmt.write.undo.rollback_conflicts import find_target
from bucketfmt.write.undo.rollback_planner import RollbackPlanner
from tests.same_rows import canonical
from tests.write.crashes import crashes, is_as, open_on
from tests.write.models import Model, assert_reads_as, rows
from tests.write.undo.test_rollback import HUDI_OF, KINDS, VERSIONS, data_files, make

pytestmark = pytest.mark.rotated


def without_heartbeats(table: bf.Table) -> None:
    for path in Path(table.uri, ".hoodie/.heartbeat").iterdir():
        path.unlink()


def leave_pending(table: bf.Table, instant: str, action: str) -> None:
    """As a Hudi writer without heartbeats leaves it."""
    put_requested(table.store, table.config, instant, action)
    put_inflight(table.store, table.config, instant, action)


@pytest.mark.rotated(0, among="crashes at each write", one_of=6)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_crash_points_of_a_write(tmp_path: Path, version: int, kind: str) -> None:
    table, model = make(tmp_path, version, kind, buckets=1)
    given, more = rows(range(30, 50), ts=2, price=2.0), rows(range(45, 60), ts=3, price=3.0)
    points = 0
    for again, broken in crashes(table, lambda t: t.upsert(given, retries=0), Fault.KILL_AFTER):
        points += 1
        pending = again.timeline.pending.instants
        is_done = len(again.timeline.writes.completed.instants) == 2
        assert again.scan().count() == (50 if is_done else 40), broken.struck
        again.upsert(more)
        expected = Model()
        expected.rows = dict(model.rows)
        if is_done:
            expected.upsert(given)
        expected.upsert(more)
        assert is_as(again, expected), broken.struck
        assert not again.timeline.pending.instants
        rollbacks = again.timeline.completed.of("rollback").instants
        assert len(rollbacks) == len(pending), broken.struck
        if not is_done and version > 6:
            gone = {i.requested_time for i in pending}
            assert not [path for path in again.store.files if any(t in path for t in gone)]  # type: ignore[attr-defined]
    assert points >= 8


@pytest.mark.parametrize("version", VERSIONS)
def test_a_living_writer_is_left_alone(tmp_path: Path, version: int) -> None:
    table, model = make(tmp_path, version, "MERGE_ON_READ")
    transaction = table._transactions.begin("deltacommit")
    with transaction.aborted_on_error():
        more = rows(range(5), ts=3, price=3.0)
        bf.open(table.uri).upsert(more)
        model.upsert(more)
        assert [i.requested_time for i in table.timeline.pending.instants] == [transaction.instant]
        without_heartbeats(table)  # dead now, for all that others can know
        bf.open(table.uri).upsert(more)
        assert not table.timeline.pending.instants
    assert_reads_as(table.uri, model)


@pytest.mark.rule("WRITE-11")
@pytest.mark.parametrize("version", VERSIONS)
def test_no_log_is_published_behind_the_block_of_a_later_rollback(
    tmp_path: Path, version: int
) -> None:
    """In version 6, Hudi 0.15 read nothing behind the block, which is later than every commit."""
    table, model = make(tmp_path, version, "MERGE_ON_READ")
    given, lost = rows(range(30), ts=3, price=3.0), rows(range(30), ts=4, price=4.0)

    def roll_back_another() -> None:
        left = bf.open(table.uri).start_write("upsert", lost.schema).hand_over()
        list(left.write(lost, "0-0-0"))
        Path(table.uri, ".hoodie/.heartbeat", left.instant).unlink()
        bf.open(table.uri).rollback(left.instant)

    with table.start_write("upsert", given.schema) as started:
        roll_back_another()
        receipts = list(started.task.write(given, "0-0-0"))
        if version == 6:
            with pytest.raises(
                bf.ConflictError, match=r"completed rollback .* also changes bucket"
            ):
                started.publish(receipts)
        else:
            started.publish(receipts)
            model.upsert(given)
    assert_reads_as(table.uri, model)
    table.upsert(given)
    model.upsert(given)
    assert_reads_as(table.uri, model)
    if version == 6:
        rollback, commit = table.timeline.of("rollback").last, table.timeline.commits.last
        assert rollback is not None
        assert commit is not None
        assert rollback.requested_time < commit.requested_time


@pytest.mark.parametrize("moment", ["before it looks dead", "while its markers are read"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_writer_that_gives_up_meanwhile_is_no_dead_one(
    tmp_path: Path, version: int, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not hold the lock; a write of who did ended in an error, as its markers were gone."""
    table, model = make(tmp_path, version, "MERGE_ON_READ")
    given = rows(range(5), ts=3, price=3.0)
    is_dead, read_text, gave_up = RollbackPlanner.is_dead, markers._read_text, []

    def give_up() -> None:
        if not gave_up:
            gave_up.append(True)
            transaction._abort()

    def looks_dead(planner: RollbackPlanner, instant: Instant) -> bool:
        if moment == "before it looks dead":
            give_up()
        return bool(gave_up and is_dead(planner, instant)) or not gave_up

    def read_late(*args: Any) -> str:
        give_up()
        return read_text(*args)

    transaction = table._transactions.begin("deltacommit")
    markers.put_markers_together(table.store, transaction.instant, [])
    monkeypatch.setattr(RollbackPlanner, "is_dead", looks_dead)
    monkeypatch.setattr(markers, "_read_text", read_late)
    bf.open(table.uri).upsert(given)
    model.upsert(given)
    assert gave_up
    assert [i.action for i in table.timeline.instants].count("rollback") == 0
    assert_reads_as(table.uri, model)


@pytest.mark.rotated(0, among="crashes at each write", one_of=6)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_executed_again_is_left(tmp_path: Path, version: int) -> None:
    table, model = make(tmp_path, version, "MERGE_ON_READ")
    given = rows(range(20, 60), ts=2, price=2.0)
    table.upsert(given)
    model.upsert(given)
    more = rows(range(3), ts=4, price=4.0)
    model.upsert(more)
    states = set()
    for again, broken in crashes(table, lambda t: t.compact(), Fault.KILL_AFTER):
        pending = again.timeline.pending.of("compaction").instants
        states |= {i.state for i in pending}
        again.upsert(more)
        assert again.timeline.pending.of("compaction").instants == pending
        assert is_as(again, model), broken.struck
    assert states == {State.REQUESTED, State.INFLIGHT}


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_rollback_others_have_built_over(tmp_path: Path, version: int, kind: str) -> None:
    """It was requested, did nothing, and then its target was written over: it is withdrawn."""
    table, model = make(tmp_path, version, kind)
    given = rows(range(20, 60), ts=2, price=2.0)
    done = table.upsert(given)
    model.upsert(given)
    planner = table._transactions.rollback_planner(table.config)
    target = find_target(table.timeline, done.instant)
    plan = planner.plan(table.timeline, target, has_died=False)
    more = rows(range(3), ts=4, price=4.0)
    other = bf.open(table.uri)
    other.upsert(more)
    model.upsert(more)
    put_requested(table.store, table.config, "20990101000000000", "rollback", plan)
    table.upsert(more)
    assert not table.timeline.of("rollback").instants
    assert_reads_as(table.uri, model)


def test_a_restore_half_done_has_to_be_finished(tmp_path: Path) -> None:
    table, model = make(tmp_path, 9, "COPY_ON_WRITE")
    point = table.savepoint()
    plan = RestorePlan(instants_to_rollback=[], savepoint_to_restore_timestamp=point)
    put_requested(table.store, table.config, "20990101000000000", "restore", plan)
    for act in (
        lambda: table.upsert(rows([1], ts=5)),
        lambda: table.rollback(point),
        table.savepoint,
        lambda: table.delete_savepoint(point),
    ):
        with pytest.raises(bf.ConflictError, match="Call restore"):
            act()
    table.restore(point)
    assert_reads_as(table.uri, model)


@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
@pytest.mark.parametrize("action", ["commit", "deltacommit", "replacecommit"])
@pytest.mark.parametrize("version", VERSIONS)
def test_instants_without_files(tmp_path: Path, version: int, action: str, state: State) -> None:
    kind = "MERGE_ON_READ" if action == "deltacommit" else "COPY_ON_WRITE"
    table, model = make(tmp_path, version, kind)
    if action == "replacecommit":
        for point, _ in crashes(table, lambda t: t.delete_partitions(["us"]), Fault.KILL_AFTER):
            pending = point.timeline.pending.instants
            if pending and pending[0].state is state:
                break
        table = open_on(point.store)
    else:
        put_requested(table.store, table.config, "20200101000000000", action)
        if state is State.INFLIGHT:
            put_inflight(table.store, table.config, "20200101000000000", action)
    assert len(table.timeline.pending.instants) == 1
    more = rows(range(3), ts=4, price=4.0)
    table.upsert(more)
    model.upsert(more)
    assert is_as(table, model)
    assert not table.timeline.pending.instants
    assert len(table.timeline.completed.of("rollback").instants) == 1


@pytest.mark.parametrize("name", ["uncommitted", "uncommitted_mor"])
@pytest.mark.parametrize("version", VERSIONS)
def test_what_hudi_left(
    golden_copy: Callable[[str, str], Path],
    golden_expected: Callable[..., pa.Table],
    version: int,
    name: str,
) -> None:
    """Hudi's own failed write, with its markers and without a heartbeat."""
    folder = golden_copy(HUDI_OF[version], name)
    writer = bf.WriterConfig(metadata_table="drop")
    table = bf.open(folder, writer=writer, index=bf.SimpleBucketIndex(2))
    failed = [i.requested_time for i in table.timeline.pending.instants]
    assert len(failed) == 1
    left = {path for path in data_files(folder) if failed[0] in path}
    assert left or (version, name) == (6, "uncommitted_mor")
    before = table.scan().to_arrow()
    expected = golden_expected(HUDI_OF[version], name).select(before.column_names)
    assert canonical(before) == canonical(expected)
    given = before.slice(0, 3)
    table.upsert(given)
    assert not table.timeline.pending.instants
    assert not left & data_files(folder).keys()
    assert len(table.timeline.completed.of("rollback").instants) == 1
    again = bf.open(folder, index=bf.SimpleBucketIndex(2))
    assert canonical(again.scan().to_arrow()) == canonical(before)
    report = again.check(depth="full")
    assert report.status == "clean", report.findings
    assert not (folder / ".hoodie/.temp" / failed[0]).exists()
    assert len(load_timeline(again.store, again.config).completed.instants) == 4


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plan_that_hudi_had_not_begun_to_write_holds_nobody_up(
    tmp_path: Path, version: int
) -> None:
    """It makes the file first, and writes the plan into it."""
    table, model = make(tmp_path, version, "COPY_ON_WRITE", buckets=1)
    given = rows(range(30, 50), ts=2, price=2.0)
    failed = "20990101000000000"
    leave_pending(table, failed, "commit")
    for name in ("20990101000000001.rollback.requested", "20990101000000002.clean.requested"):
        assert table.store.put_if_absent(f"{table.config.timeline_path}/{name}", b"")
    assert bf.open(table.uri).check().status == "clean"
    table.upsert(given)
    model.upsert(given)
    assert_reads_as(table.uri, model)
    assert failed not in table.timeline.pending.requested_times
    table.upsert(given)
    table.clean(retain=1, dry_run=False)
    assert_reads_as(table.uri, model)
