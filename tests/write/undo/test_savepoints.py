"""Savepoints, and tables restored to them: as Hudi writes them, whatever crash comes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.names.names import BaseFileName, find_data_file_name
from bucketfmt.format.timeline.plans import decode_restore_plan
from bucketfmt.format.timeline.service_metadata import (
    SavepointMetadata,
    decode_restore_metadata,
    decode_savepoint_metadata,
)
from bucketfmt.storage.open import open_store
from bucketfmt.testing.faulty_store import Fault
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.write.services.compaction import Compactor
from tests.rotation import examples
from tests.write.crashes import crashes, is_as, open_on
from tests.write.models import NO_SERVICES, SCHEMA, Model, assert_reads_as, rows
from tests.write.undo.test_rollback import HUDI_OF, KINDS, VERSIONS, data_files, make

pytestmark = pytest.mark.rotated


@pytest.fixture(params=[(v, k) for v in VERSIONS for k in KINDS], ids=str)
def started(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[bf.Table, Model]:
    table, model = make(tmp_path, *request.param)
    given = rows(range(20, 50), ts=2, price=2.0)
    table.upsert(given)
    model.upsert(given)
    return table, model


def write_on(table: bf.Table) -> list[str]:
    """Write in all ways; return the instants, oldest first."""
    results = [
        table.upsert(rows(range(10, 60), ts=3, price=3.0)),
        table.delete(rows(range(5), ts=9).select(["id", "region"])),
    ]
    if not isinstance(table.index, bf.ConsistentHashingIndex):
        results.append(table.insert_overwrite(rows([3, 6, 9], ts=4)))
        results.append(table.delete_partitions(["eu"]))
    if table.config.table_type == "MERGE_ON_READ":
        compacted = table.compact()
        assert compacted is not None
        results.append(compacted)
    results.append(table.upsert(rows(range(10, 70, 3), ts=5, price=5.0)))
    return [result.instant for result in results]


def rows_by_key(table: bf.Table) -> list[dict[str, object]]:
    found = table.scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: (row["region"], row["id"]))


def timeline_file(table: bf.Table, action: str) -> tuple[str, bytes]:
    """Requested time and content of the one completed instant of an action."""
    (path,) = Path(table.uri, table.config.timeline_path).glob(f"*.{action}")
    return re.split(r"[_.]", path.name)[0], path.read_bytes()


def check_savepoint(table: bf.Table) -> SavepointMetadata:
    """A savepoint of the table before what came after it, ours or Hudi's own."""
    instant, content = timeline_file(table, "savepoint")
    inflight = Path(table.uri, table.config.timeline_path, f"{instant}.savepoint.inflight")
    assert inflight.read_bytes() == b""
    metadata = decode_savepoint_metadata(content)
    assert metadata.version == 1
    assert metadata.partition_metadata.keys() == {"us", "eu", "ap"}
    for path, partition in metadata.partition_metadata.items():
        assert partition.partition_path == path
        names = [find_data_file_name(name) for name in partition.savepoint_data_file]
        assert None not in names
        bases = [name for name in names if isinstance(name, BaseFileName)]
        assert len({name.file_id for name in names if name}) == 2
        if not isinstance(table.index, bf.ConsistentHashingIndex):
            assert len(bases) == 2
        if table.config.table_type == "COPY_ON_WRITE":
            assert len(names) == 2
        elif bases:
            assert len(names) == 4
        assert all(Path(table.uri, path, name).exists() for name in partition.savepoint_data_file)
    return metadata


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["savepointed", "savepointed_mor", "restored", "restored_mor"])
def test_savepoints_of_hudi(golden: Callable[[str, str], Path], version: int, name: str) -> None:
    table = bf.open(golden(HUDI_OF[version], name), index=bf.SimpleBucketIndex(2))
    check_savepoint(table)


def check_restore(table: bf.Table, version: int, merge_on_read: bool) -> list[str]:
    """A restore that took deltacommits or commits back; return them, newest first."""
    instant, content = timeline_file(table, "restore")
    metadata = decode_restore_metadata(content)
    folder = Path(table.uri, table.config.timeline_path)
    assert (folder / f"{instant}.restore.inflight").read_bytes() == b""
    plan = decode_restore_plan((folder / f"{instant}.restore.requested").read_bytes())
    assert (plan.version, metadata.version) == (2, 1)
    point, _ = timeline_file(table, "savepoint")
    assert plan.savepoint_to_restore_timestamp == point
    assert metadata.start_restore_time == instant
    assert metadata.restore_instant_info == plan.instants_to_rollback
    order = [i.commit_time for i in plan.instants_to_rollback]
    assert metadata.instants_to_rollback == order
    assert metadata.hoodie_restore_metadata.keys() == set(order)
    assert not table.timeline.of("rollback").instants
    for target, rollbacks in metadata.hoodie_restore_metadata.items():
        (own,) = rollbacks
        assert own.commits_rollback == [target]
        assert own.start_rollback_time > instant
        assert [i.commit_time for i in own.instants_rollback] == [target]
        deleted = [f for p in own.partition_metadata.values() for f in p.success_delete_files]
        assert own.total_files_deleted == len(deleted)
        assert all(target in path.rpartition("/")[2] for path in deleted)
        for path, partition in own.partition_metadata.items():
            assert partition.partition_path == path
            if version > 6 or not merge_on_read:
                assert not partition.rollback_log_files
                assert not partition.log_files_from_failed_commit
            assert len(partition.rollback_log_files) == len(partition.log_files_from_failed_commit)
            assert set(partition.rollback_log_files.values()) <= {105}
    return order


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["restored", "restored_mor"])
def test_restores_of_hudi(golden: Callable[[str, str], Path], version: int, name: str) -> None:
    table = bf.open(golden(HUDI_OF[version], name))
    assert len(check_restore(table, version, name == "restored_mor")) == 2


def test_a_table_is_restored(started: tuple[bf.Table, Model]) -> None:
    table, model = started
    point = table.savepoint(user="me", comments="before the night run")
    metadata = check_savepoint(table)
    assert (metadata.savepointed_by, metadata.comments) == ("me", "before the night run")
    assert metadata.savepointed_at > 1_700_000_000_000
    assert table.savepoint() == table.savepoint(point) == point
    before = data_files(table.uri)
    written = write_on(table)
    preview = table.restore(point, dry_run=True)
    result = table.restore(point)
    assert (result.savepoint, preview.savepoint) == (point, point)
    assert preview.restore_instant is None
    assert [r.instant for r in result.rollbacks] == written[::-1]
    assert [r.instant for r in preview.rollbacks] == written[::-1]
    assert_reads_as(table.uri, model)
    merge_on_read = table.config.table_type == "MERGE_ON_READ"
    assert check_restore(table, table.config.table_version, merge_on_read) == written[::-1]
    after = data_files(table.uri)
    if table.config.table_version == 6 and merge_on_read:
        assert before.items() <= after.items()
        added = after.keys() - before.keys()
        assert all(".log." in path for path in added)
    else:
        assert after == before
    assert not table.timeline.pending.instants
    assert not list(Path(table.uri, ".hoodie/.temp").rglob("*.marker.*"))
    following = rows(range(30, 70), ts=3, price=3.0)
    table.upsert(following)
    model.upsert(following)
    assert_reads_as(table.uri, model)
    if merge_on_read:
        table.compact()
        assert_reads_as(table.uri, model)
    # The savepoint is still there, and there is something to take back again.
    table.restore(point)
    table.delete_savepoint(point)
    assert not table.timeline.of("savepoint").instants
    with pytest.raises(ValueError, match="no savepoint"):
        table.restore(point)


def test_writes_amid_a_compaction_are_in_the_savepoint_after_it(tmp_path: Path) -> None:
    """A restore to the compaction, which was completed last, took acknowledged writes back."""
    table, model = make(tmp_path, 9, "MERGE_ON_READ")
    table.upsert(rows(range(20, 50), ts=2, price=2.0))
    model.upsert(rows(range(20, 50), ts=2, price=2.0))
    started = table.start_compaction()
    assert started is not None
    with started:
        amid = table.upsert(rows(range(40, 60), ts=3, price=3.0))
        model.upsert(rows(range(40, 60), ts=3, price=3.0))
        receipts = [started.task.compact(p, f"{n}-0-0") for n, p in enumerate(started.payloads)]
        started.publish(receipts)
    assert table.savepoint() == amid.instant
    write_on(table)
    table.restore(amid.instant)
    assert_reads_as(table.uri, model)


@pytest.mark.parametrize("version", VERSIONS)
def test_log_files_of_a_planned_compaction_go_with_it(tmp_path: Path, version: int) -> None:
    """In version 6 they bear its time. They would hide rows once the timeline began after it."""
    table, model, point = start_compacting(tmp_path, version)
    before = data_files(table.uri).keys()
    table.upsert(rows(range(10, 40), ts=3, price=3.0))
    table.restore(point)
    added = data_files(table.uri).keys() - before
    assert all(version == 6 and path.endswith("_1-0-1") for path in added), "command blocks alone"
    table.delete_savepoint(point)
    assert_reads_as(table.uri, model)
    for ts in range(4, 10):  # to one bucket of many
        given = rows([10], ts=ts, price=float(ts))
        table.upsert(given)
        model.upsert(given)
    archived = table.archive(min_commits=1, max_commits=1)
    assert point in {instant.requested_time for instant in archived}
    assert_reads_as(table.uri, model)
    assert bf.open(table.uri).check("full").findings == ()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_newest", [True, False], ids=["the newest write", "an earlier one"])
def test_a_savepoint_amid_a_planned_compaction_is_restored_again(
    tmp_path: Path, version: int, is_newest: bool
) -> None:
    """A restore takes the plan back; in version 6 all files go that bear its time."""
    table, model, before = start_compacting(tmp_path, version)
    table.delete_savepoint(before)
    planned = table.timeline.pending.of("compaction").instants[0].requested_time
    amid = table.upsert(rows(range(10, 40), ts=3, price=3.0))
    if is_newest:
        table.rollback(amid.instant)
    point = table.savepoint(None if is_newest else before)
    assert point == before < planned
    _, content = timeline_file(table, "savepoint")
    kept = decode_savepoint_metadata(content).partition_metadata.values()
    assert not any(planned in name for own in kept for name in own.savepoint_data_file)
    for ts in (4, 5):
        table.upsert(rows(range(15, 45), ts=ts, price=4.0))
        table.restore(point)
        assert_reads_as(table.uri, model)
    assert bf.open(table.uri).check("full").findings == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_log_files_of_a_compaction_go_with_it_wherever_it_died(
    tmp_path: Path, version: int
) -> None:
    table, model, point = start_compacting(tmp_path, version)
    before = data_files(table.uri).keys()
    table.upsert(rows(range(10, 40), ts=3, price=3.0))
    for left, faulty in crashes(table, lambda own: own.compact(), Fault.KILL_AFTER):
        left.restore(point)
        assert is_as(left, model), faulty.struck
        added = data_paths(left) - before
        assert all(version == 6 and path.endswith("_1-0-1") for path in added), faulty.struck


def data_paths(table: bf.Table) -> set[str]:
    """Return the data files of a table of three partitions, whoever wrote them."""
    return {
        f"{partition}/{entry.name}"
        for partition in ("us", "eu", "ap")
        for entry in table.store.list(partition)
        if find_data_file_name(entry.name)
    }


def start_compacting(folder: Path, version: int) -> tuple[bf.Table, Model, str]:
    """Return a table with a planned compaction, its rows, and a savepoint of them."""
    table, model = make(folder, version, "MERGE_ON_READ")
    table = bf.open(table.uri, index=table.index, writer=NO_SERVICES)
    given = rows(range(20, 50), ts=2, price=2.0)
    table.upsert(given)
    model.upsert(given)
    point = table.savepoint()
    assert Compactor(table._snapshot, table._transactions).schedule() is not None
    return table, model, point


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_writes_that_overtook_another_are_in_the_savepoint(
    tmp_path: Path, version: int, kind: str
) -> None:
    """In version 6 a restore takes back what was requested after the savepoint."""
    table, model = make(tmp_path, version, kind)
    early, late = rows([90], ts=2, price=2.0), rows([93], ts=2, price=3.0)
    assert len({*table.locate(pa.concat_tables([early, late]))["bucket_id"].to_pylist()}) == 2
    with table.start_write("upsert", SCHEMA) as started:
        receipts = list(started.task.write(early, "0-0-0"))
        table.upsert(late)
        started.publish(receipts)
    for given in (early, late):
        model.upsert(given)
    table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False)
    point = table.savepoint()
    table.upsert(rows(range(80, 100), ts=3, price=4.0))
    table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False)
    table.restore(point)
    assert_reads_as(table.uri, model)


def test_a_clean_keeps_what_a_savepoint_needs(started: tuple[bf.Table, Model]) -> None:
    table, model = started
    point = table.savepoint()
    write_on(table)
    table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False)
    table.restore(point)
    assert_reads_as(table.uri, model)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS[:2])
def test_an_earlier_write_is_savepointed(tmp_path: Path, version: int, kind: str) -> None:
    table, model = make(tmp_path, version, kind)
    first = table.timeline.instants[0].requested_time
    write_on(table)
    assert table.savepoint(first) == first
    table.restore(first)
    assert_reads_as(table.uri, model)


def test_what_cannot_be(started: tuple[bf.Table, Model]) -> None:
    table, _ = started
    with pytest.raises(ValueError, match="no completed write"):
        table.savepoint("20200101000000000")
    with pytest.raises(ValueError, match="no savepoint"):
        table.delete_savepoint("20200101000000000")
    with pytest.raises(ValueError, match="no savepoint"):
        table.restore(table.timeline.instants[0].requested_time)
    first = table.savepoint()
    table.upsert(rows(range(3), ts=7))
    later = table.savepoint()
    with pytest.raises(bf.ConflictError, match="later savepoint"):
        table.restore(first)
    transaction = table._transactions.begin("commit")
    with transaction.aborted_on_error():
        with pytest.raises(bf.ConflictError, match="at work"):
            bf.open(table.uri).restore(later)
        transaction._abort()
    table.restore(later)
    partition = savepoint_content(table, later).partition_metadata["us"]
    Path(table.uri, "us", partition.savepoint_data_file[0]).unlink()
    with pytest.raises(bf.CorruptError, match="it is gone"):
        table.restore(later)


def savepoint_content(table: bf.Table, instant: str) -> SavepointMetadata:
    (path,) = Path(table.uri, table.config.timeline_path).glob(f"{instant}*.savepoint")
    return decode_savepoint_metadata(path.read_bytes())


def test_nothing_to_savepoint(tmp_path: Path) -> None:
    table, _ = make(tmp_path, 9, "COPY_ON_WRITE")
    table.rollback(table.timeline.instants[0].requested_time)
    with pytest.raises(ValueError, match="no completed write"):
        table.savepoint()


def test_what_a_clean_has_deleted_is_not_savepointed(tmp_path: Path) -> None:
    table, _ = make(tmp_path, 9, "COPY_ON_WRITE")
    first = table.timeline.instants[0].requested_time
    for ts in range(2, 5):
        table.upsert(rows(range(40), ts=ts))
    table.clean(retain=1, dry_run=False)
    with pytest.raises(ValueError, match="cannot be savepointed"):
        table.savepoint(first)


@pytest.mark.rotated(0)
@pytest.mark.parametrize("version", [6, 8, 9])
def test_what_was_restored_over_a_clean_is_savepointed_again(tmp_path: Path, version: int) -> None:
    table, model = make(tmp_path, version, "MERGE_ON_READ")
    saved = table.savepoint()
    for ts in range(2, 5):
        table.upsert(rows(range(40), ts=ts))
        table.compact()
    assert table.clean(retain=1, dry_run=False).files
    table.restore(saved)
    table.delete_savepoint(saved)
    assert table.savepoint() == saved
    table.upsert(rows(range(40), ts=9))
    table.restore(saved)
    assert_reads_as(table.uri, model)


def test_a_preview_writes_nothing(started: tuple[bf.Table, Model]) -> None:
    table, _ = started
    store = RecordingStore(open_store(table.uri))
    planned = open_on(store).savepoint(dry_run=True)
    assert not store.writes
    point = table.savepoint()
    assert planned == point
    write_on(table)
    assert open_on(store).restore(point, dry_run=True).rollbacks
    assert not store.writes


@pytest.mark.rotated(0, among="crashes at each write", one_of=6)
@pytest.mark.parametrize("version", VERSIONS)
def test_crash_points_of_savepoints(tmp_path: Path, version: int) -> None:
    table, model = make(tmp_path, version, "MERGE_ON_READ")
    points = 0

    def act(t: bf.Table) -> None:
        t.delete_savepoint(t.savepoint())

    for again, broken in crashes(table, act, Fault.KILL_AFTER):
        points += 1
        assert is_as(again, model), broken.struck
        point = again.savepoint()
        assert [i.requested_time for i in again.timeline.completed.of("savepoint").instants] == [
            point
        ]
        again.delete_savepoint(point)
        assert not again.timeline.of("savepoint").instants
        assert is_as(again, model), broken.struck
    assert points == 4


@pytest.mark.rotated(0, among="crashes at each write", one_of=6)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_crash_points_of_restores(tmp_path: Path, version: int, kind: str) -> None:
    table, model = make(tmp_path, version, kind, buckets=1)
    point = table.savepoint()
    between = [rows_by_key(table)]
    for given in (rows(range(20, 50), ts=2, price=2.0), rows(range(30, 60), ts=3, price=3.0)):
        table.upsert(given)
        between.append(rows_by_key(table))
    more = rows(range(5), ts=4, price=4.0)
    points = 0
    for again, broken in crashes(table, lambda t: t.restore(point), Fault.KILL_AFTER):
        points += 1
        # In between, it is as it was after one of the writes.
        assert rows_by_key(again) in between, broken.struck
        restores = again.timeline.of("restore").instants
        if restores and not restores[0].is_completed:
            with pytest.raises(bf.ConflictError, match="Call restore"):
                again.upsert(more, retries=0)
        elif restores:
            late = open_on(MemoryStore(again.store.files))  # type: ignore[attr-defined]
            late.upsert(more)
            expected = Model()
            expected.rows = dict(model.rows)
            expected.upsert(more)
            assert is_as(late, expected), broken.struck
            assert not late.timeline.pending.instants
        again.restore(point)
        assert is_as(again, model), broken.struck
        again.upsert(more)
        assert not again.timeline.pending.instants
        expected = Model()
        expected.rows = dict(model.rows)
        expected.upsert(more)
        assert is_as(again, expected), broken.struck
        assert again.check("full").findings == (), broken.struck
    assert points >= 16


@pytest.mark.filterwarnings("ignore:the metadata table is")
@pytest.mark.rotated(0, among="crashes at each write", one_of=6)
@pytest.mark.parametrize("version", VERSIONS)
def test_log_files_of_what_a_dead_restore_took_back_stay_gone(tmp_path: Path, version: int) -> None:
    """Command blocks were added anew to slices that the restore had deleted since."""
    table, _ = make(tmp_path, version, "MERGE_ON_READ", buckets=1)
    table.metadata_table.init("column_stats")
    point = table.savepoint()
    expected = {tuple(row.items()) for row in rows_by_key(table)}
    table.upsert(rows(range(10), ts=2, price=2.0))
    table.compact()
    table.upsert(rows(range(20), ts=3, price=3.0))
    table.upsert(rows(range(5), ts=4, price=4.0))
    for again, broken in crashes(
        table, lambda t: t.restore(point), Fault.KILL_AFTER, most=examples(64)
    ):
        late = open_on(MemoryStore(again.store.files))  # type: ignore[attr-defined]
        restores = again.timeline.of("restore").instants
        if restores and restores[0].is_completed:
            late.upsert(rows(range(5), ts=5, price=5.0))
        else:
            late.restore(point)
            assert {tuple(row.items()) for row in rows_by_key(late)} == expected, broken.struck
        assert late.check("full").findings == (), broken.struck
