"""Archiving: the timeline gets short, and nothing else changes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.names.instants import State
from bucketfmt.format.names.layout import METADATA_TABLE
from bucketfmt.format.timeline.archived_timeline import ArchivedInstant
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.plans import CleanerPlan, CompactionPlan
from bucketfmt.format.timeline.service_metadata import (
    CleanMetadata,
    RollbackMetadata,
    SavepointMetadata,
    decode_restore_metadata,
)
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.progress import Progress
from bucketfmt.storage.folder_store import FolderStore
from bucketfmt.storage.store import FileInfo
from bucketfmt.storage.stores.local_store import LocalStore
from bucketfmt.testing.faulty_store import Fault
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.history import load_archived_instants, load_history
from bucketfmt.timeline.load import load_commit_metadata, load_timeline
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.timeline.timeline import Instant
from bucketfmt.timeline.transitions import put_completed, put_inflight
from tests.write.crashes import crashes, is_as, open_on
from tests.write.models import NO_SERVICES, SCHEMA, Model, assert_reads_as, create_table, rows

pytestmark = pytest.mark.rotated

Copy = Callable[[str, str], Path]
VERSIONS = (6, 8, 9)


def make(
    folder: Path, version: int = 9, table_type: str = "COPY_ON_WRITE", writes: int = 8
) -> tuple[bf.Table, Model]:
    table = create_table(
        str(folder), bf.SimpleBucketIndex(1), table_type, table_version=version, writer=NO_SERVICES
    )
    model = Model()
    for ts in range(writes):
        write(table, model, ts)
    return table, model


def write(table: bf.Table, model: Model, ts: int, key: str | None = None) -> bf.CommitResult:
    given = rows(range(3 + ts % 7), ts=ts, price=float(ts))
    model.upsert(given)
    if key is None:
        return table.upsert(given)
    return table.upsert(given, idempotency_key=key)


def test_an_archival_reads_the_newest_file_of_the_history_once(tmp_path: Path) -> None:
    """For what one that died left on the timeline; the file was read again for what is due."""
    table, model = make(tmp_path / "t", 6)
    assert table.archive(min_commits=4, max_commits=4)
    for ts in range(8, 12):
        write(table, model, ts)
    store = RecordingStore(table.store)
    watched = bf.Table(store, table.config, table.limits, None, NO_SERVICES)
    assert len(watched.archive(min_commits=4, max_commits=4)) == 4
    folder = f"{table.config.history_path}/"
    assert [path for path in store.paths("read") if path.startswith(folder)] == [
        f"{folder}.commits_.archive.1_1-0-1"
    ]
    assert_reads_as(table.uri, model)


def names(instants: tuple[Instant, ...]) -> list[tuple[str, str]]:
    return [(i.requested_time, i.action) for i in instants]


def archived(table: bf.Table) -> list[ArchivedInstant]:
    return list(load_archived_instants(table.store, table.config))


@pytest.mark.rotated(0)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", VERSIONS)
def test_all_reads_as_before(tmp_path: Path, version: int, table_type: str) -> None:
    table, model = make(tmp_path / "t", version, table_type)
    before = table.timeline.completed.instants
    middle = before[2].completion_time if version > 6 else before[2].requested_time
    changes = table.changes(middle).to_arrow().sort_by("id")
    contents = [load_commit_metadata(table.store, table.config, i) for i in before[:5]]

    done = table.archive(min_commits=3, max_commits=5)

    assert names(done) == names(before[:5])
    assert names(table.timeline.instants) == names(before[5:])
    assert names(load_history(table.store, table.config)) == names(before[:5])
    assert table.changes(middle).to_arrow().sort_by("id").equals(changes)
    assert_reads_as(table.uri, model)
    completed = [e for e in archived(table) if e.state is State.COMPLETED]
    for entry, instant, content in zip(completed, before, contents, strict=False):
        assert entry.completion_time is not None
        if version > 6:
            assert entry.completion_time == instant.completion_time
            assert entry.metadata == content
        assert isinstance(entry.metadata, CommitMetadata)
        assert entry.metadata.operation_type == content.operation_type
        paths = [s.path for own in content.partition_to_write_stats.values() for s in own]
        stats = entry.metadata.partition_to_write_stats
        assert [s.path for own in stats.values() for s in own] == paths
        assert entry.metadata.extra_metadata["schema"] == content.extra_metadata["schema"]
    folder = Path(table.uri, table.config.timeline_path)
    assert not [p for i in before[:5] for p in folder.glob(f"{i.requested_time}*")]

    assert table.archive(min_commits=3, max_commits=5) == ()
    for ts in range(20, 30):
        write(table, model, ts)
        table.archive(min_commits=2, max_commits=2)
        assert len(table.timeline.writes.instants) == 2
    assert_reads_as(table.uri, model)
    assert len(load_history(table.store, table.config)) == 16


@pytest.mark.parametrize("version", VERSIONS)
def test_services_are_archived_with_their_plans(tmp_path: Path, version: int) -> None:
    table, model = make(tmp_path / "t", version, "MERGE_ON_READ", writes=3)
    compaction = table.compact()
    assert compaction is not None
    for ts in (10, 11):
        write(table, model, ts)
    table.compact()
    cleaned = table.clean(retain=1, dry_run=False)
    dropped = table.delete_partitions(["eu"])
    model.drop("eu")
    table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False)
    taken_back = table.rollback(table.upsert(rows(range(9), ts=15)).instant)
    for ts in (20, 21, 22):
        write(table, model, ts)
    table.archive(min_commits=1, max_commits=2)
    entries = archived(table)
    plans = {e.requested_time: e.plan for e in entries if e.plan is not None}
    assert isinstance(plans[compaction.instant], CompactionPlan)
    assert isinstance(plans[cleaned.instants[0]], CleanerPlan)
    held = {(e.requested_time, e.action): e.metadata for e in entries if e.state is State.COMPLETED}
    done = held[compaction.instant, "commit"]
    assert isinstance(done, CommitMetadata)
    assert (done.operation_type, done.compacted) == ("COMPACT", True)
    assert isinstance(held[cleaned.instants[0], "clean"], CleanMetadata)
    rollback = held[taken_back.rollback_instant or "", "rollback"]
    assert isinstance(rollback, RollbackMetadata)
    assert rollback.commits_rollback == [taken_back.instant]
    replaced = held[dropped.instant, "replacecommit"]
    assert isinstance(replaced, CommitMetadata)
    assert list(replaced.partition_to_replace_file_ids) == ["eu"]
    assert_reads_as(table.uri, model)


@pytest.mark.parametrize("version", [6, 9])
def test_a_replacement_stays_until_what_it_hides_is_gone(tmp_path: Path, version: int) -> None:
    table, model = make(tmp_path / "t", version, writes=2)
    dropped = table.delete_partitions(["us"])
    model.drop("us")
    for ts in range(10, 15):
        write(table, model, ts)
    assert [i.requested_time for i in table.archive(min_commits=1, max_commits=1)] < [
        dropped.instant
    ]
    assert dropped.instant in [i.requested_time for i in table.timeline.instants]
    assert_reads_as(table.uri, model)
    table.clean(retain=1, dry_run=False)
    gone = [i.requested_time for i in table.archive(min_commits=1, max_commits=1)]
    assert dropped.instant in gone
    assert_reads_as(table.uri, model)


@pytest.mark.rule("TL-28")
@pytest.mark.parametrize("version", [6, 9])
def test_a_replacement_stays_while_the_clean_of_what_it_hides_is_pending(
    tmp_path: Path, version: int
) -> None:
    """The metadata table lists the files until the clean completes, also those that are gone."""
    table, model = make(tmp_path / "t", version, writes=2)
    table.metadata_table.init()
    dropped = table.delete_partitions(["us"])
    model.drop("us")
    for ts in range(10, 15):
        write(table, model, ts)

    def stop_after_the_last(progress: Progress) -> None:
        if progress.done == progress.total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.clean(retain=1, dry_run=False, progress=stop_after_the_last)
    assert len(table.timeline.pending.of("clean").instants) == 1
    compact_metadata_table(table, model)
    table.archive(min_commits=1, max_commits=1)
    assert dropped.instant in [i.requested_time for i in table.timeline.instants]
    assert_reads_as(table.uri, model)
    table.clean(retain=1, dry_run=False)
    compact_metadata_table(table, model)
    gone = [i.requested_time for i in table.archive(min_commits=1, max_commits=1)]
    assert dropped.instant in gone
    assert_reads_as(table.uri, model)
    assert table.check("full").findings == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_archived_while_somebody_makes_the_metadata_table_anew(
    tmp_path: Path, version: int
) -> None:
    table, model = make(tmp_path / "t", version)
    table.metadata_table.init("files")
    before = table.timeline.instants
    table.store.delete_tree(".hoodie/metadata")  # as a rebuild does, once the table was read
    assert table.archive(min_commits=3, max_commits=5, dry_run=True) == ()
    assert table.timeline.instants == before
    table.metadata_table.rebuild()
    write(table, model, 9)
    assert_reads_as(table.uri, model)
    assert table.check("full").findings == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_metadata_table_of_another_process_needs_is_not_archived(
    tmp_path: Path, version: int
) -> None:
    table, model = make(tmp_path / "t", version)
    other = bf.open(table.uri, writer=NO_SERVICES)
    assert table.archive(min_commits=3, max_commits=5, dry_run=True)
    other.metadata_table.init("files")
    first = write(other, model, 9)
    for ts in range(10, 16):
        write(other, model, ts)
    planned = table.archive(min_commits=3, max_commits=5, dry_run=True)
    assert planned == table.archive(min_commits=3, max_commits=5)
    assert first.instant in {i.requested_time for i in table.timeline.instants}
    assert_reads_as(table.uri, model)
    assert bf.open(table.uri).check("full").findings == ()


@pytest.mark.rule("TL-30")
@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_metadata_table_needs_once_the_table_is_restored_is_not_archived(
    tmp_path: Path, version: int
) -> None:
    """Hudi takes its compactions since the savepoint back, and reads the log blocks below them."""
    table, model = make(tmp_path / "t", version)
    table.metadata_table.init("files")
    compact_metadata_table(table, model)
    after = write(table, model, 40)
    table.savepoint(write(table, model, 41).instant)
    for ts in range(42, 54):
        write(table, model, ts)
    below = FolderStore(table.store, METADATA_TABLE)
    timeline = load_timeline(below, load_config(below, DEFAULT_LIMITS), DEFAULT_LIMITS)
    before, last = (i.requested_time for i in timeline.completed.of("commit").instants)
    assert before < after.instant < last, "the metadata table was compacted before and since"
    archived = table.archive(min_commits=1, max_commits=1)
    assert archived
    assert all(instant.requested_time <= before for instant in archived)
    table.delete_savepoint(table.timeline.of("savepoint").instants[0].requested_time)
    gone = {i.requested_time for i in table.archive(min_commits=1, max_commits=1)}
    assert after.instant in gone
    assert_reads_as(table.uri, model)
    assert table.check("full").findings == ()


def compact_metadata_table(table: bf.Table, model: Model) -> None:
    """Write until the metadata table has been compacted again, as archiving waits for that."""
    for ts in range(20, 32):
        write(table, model, ts)


def test_a_savepoint_stays_and_what_follows_it(tmp_path: Path) -> None:
    table, model = make(tmp_path / "t")
    saved = table.timeline.instants[2]
    content = SavepointMetadata(
        savepointed_by="me", savepointed_at=1, comments="", partition_metadata={}
    )
    put_inflight(table.store, table.config, saved.requested_time, "savepoint")
    clock = table._transactions.clock
    put_completed(
        table.store, table.config, table.timeline, clock, saved.requested_time, "savepoint", content
    )
    assert len(table.archive(min_commits=1, max_commits=1)) == 2
    assert table.timeline.instants[0].requested_time == saved.requested_time
    assert_reads_as(table.uri, model)


def test_the_columns_stay_known(tmp_path: Path) -> None:
    table, model = make(tmp_path / "t", 9, "MERGE_ON_READ", writes=3)
    table.compact()
    assert len(table.archive(min_commits=1, max_commits=1)) == 2  # the compaction states no columns
    assert_reads_as(table.uri, model)
    assert table.schema == SCHEMA


@pytest.mark.parametrize("version", VERSIONS)
def test_an_idempotency_key_is_found_in_the_archive(tmp_path: Path, version: int) -> None:
    table, model = make(tmp_path / "t", version, writes=1)
    first = write(table, model, 50, key="load 1")
    for ts in range(60, 66):
        write(table, model, ts)
    table.archive(min_commits=1, max_commits=1)
    assert first.instant not in [i.requested_time for i in table.timeline.instants]
    for again in (table, bf.open(table.uri, writer=NO_SERVICES)):
        result = again.upsert(rows(range(99), ts=99), idempotency_key="load 1")
        assert (result.repeated, result.instant) == (True, first.instant)
        assert result.files == first.files
        assert result.rows_inserted == first.rows_inserted
    assert not write(table, model, 70, key="load 2").repeated
    assert_reads_as(table.uri, model)


def test_files_of_history_are_merged_by_tens(tmp_path: Path) -> None:
    table, model = make(tmp_path / "t", writes=1)
    for ts in range(1, 26):
        write(table, model, ts)
        table.archive(min_commits=1, max_commits=1)
    history = Path(table.uri, table.config.history_path)
    layers = sorted(path.name.rpartition("_")[2] for path in history.glob("*.parquet"))
    assert layers.count("1.parquet") == 2
    assert len(list(history.glob("manifest_*"))) == 3
    found = load_history(table.store, table.config)
    assert len(found) == 25
    assert len(archived(table)) == 25
    assert names(found) == sorted(names(found))
    assert_reads_as(table.uri, model)


def test_a_listing_without_the_newest_manifest_costs_no_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest file of history was deleted, and the table could not be read any more."""
    table, model = make(tmp_path / "t")
    list_whole = LocalStore.list

    def list_late(store: LocalStore, path: str) -> list[FileInfo]:
        listed = list_whole(store, path)
        newest = max((i.name for i in listed if i.name.startswith("manifest_")), default="")
        return [info for info in listed if info.name != newest]

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "list", list_late)
        moved = table.archive(min_commits=2, max_commits=3)
    assert moved
    assert names(tuple(load_history(table.store, table.config))) == names(moved)
    assert_reads_as(table.uri, model)


def test_keeping_nothing_is_a_mistake(tmp_path: Path) -> None:
    table, _ = make(tmp_path / "t", writes=1)
    for low, high in ((0, 1), (3, 2)):
        with pytest.raises(ValueError, match="min_commits"):
            table.archive(min_commits=low, max_commits=high)


@pytest.mark.rotated(0, among="crashes at each write", one_of=6)
@pytest.mark.parametrize("fault", [Fault.KILL_AFTER, Fault.FAIL_LATE])
@pytest.mark.parametrize("version", [6, 9])
def test_a_crash_at_every_write(tmp_path: Path, version: int, fault: Fault) -> None:
    table, model = make(tmp_path / "t", version, "MERGE_ON_READ", writes=4)
    every = names(table.timeline.instants)
    views = {time: table.scan(as_of=time).count() for time, _ in every}
    points = 0
    for again, broken in crashes(table, lambda t: t.archive(min_commits=2, max_commits=2), fault):
        points += 1
        for view in (1, 2):
            assert is_as(again, model), broken.struck
            active = names(again.timeline.completed.instants)
            history = names(load_history(again.store, again.config))
            assert sorted({*active, *history}) == every, broken.struck
            assert not again.timeline.pending.instants
            for time, count in views.items():
                assert again.scan(as_of=time).count() == count, broken.struck
            if view == 1:
                broken.deliver()
                again.archive(min_commits=2, max_commits=2)
        assert active == every[2:]
        assert history == every[:2]
        assert len({(e.requested_time, e.state) for e in archived(again)}) == len(archived(again))
    assert points >= 7


class Forgetful(MemoryStore):
    """A store over a network that creates files of the history, and answers that they exist."""

    failures_are_final = False

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        return super().put_if_absent(path, data) and "archive" not in path


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_that_is_lost_is_no_other_writer(tmp_path: Path, version: int) -> None:
    table, model = make(tmp_path / "t", version)
    again = open_on(Forgetful(MemoryStore.of_folder(table.uri).files))
    moved = again.archive(min_commits=2, max_commits=3)
    assert len(moved) > 3
    assert {i.requested_time for i in archived(again)} == {i.requested_time for i in moved}
    assert is_as(again, model)


@pytest.mark.rule("TL-31")
@pytest.mark.parametrize(
    ("version", "kind"),
    [(6, "COPY_ON_WRITE"), (8, "MERGE_ON_READ"), (9, "COPY_ON_WRITE"), (9, "MERGE_ON_READ")],
)
def test_files_that_came_after_their_rollback_count_at_no_time(
    tmp_path: Path, version: int, kind: str
) -> None:
    """Before the start of the timeline all is committed: the rows came back, in both readers."""
    table, model = make(tmp_path / "t", version, kind, writes=2)
    folder = Path(table.uri)
    before = {*folder.rglob("*")}
    stalled = bf.open(table.uri, writer=NO_SERVICES).start_write("upsert", SCHEMA)
    list(stalled.task.write(rows(range(30), ts=90, price=90.0), "0-0-0"))
    came = {p: p.read_bytes() for p in {*folder.rglob("*")} - before if ".hoodie" not in p.parts}
    assert came
    for path in (folder / ".hoodie/.heartbeat").iterdir():
        path.unlink()
    table.rollback(stalled.instant)
    for path, data in came.items():
        assert not path.exists()
        path.write_bytes(data)
    for ts in range(3, 11):
        write(table, model, ts)
    planned = table.archive(min_commits=2, max_commits=3, dry_run=True)
    assert table.archive(min_commits=2, max_commits=3) == planned
    assert table.timeline.writes.instants[0].requested_time < stalled.instant
    fresh = bf.open(table.uri)
    assert {(r["region"], r["id"]): r for r in fresh.scan().to_arrow().to_pylist()} == model.rows
    assert {finding.id for finding in fresh.check("full").findings} == {"T002"}
    for path in came:
        path.unlink()
    assert table.archive(min_commits=2, max_commits=3)
    assert len(table.timeline.writes.instants) == 2
    assert_reads_as(table.uri, model)


def restored_planned(folder: Path) -> tuple[bf.Table, pa.Table, str, set[str]]:
    """Return a table that Hudi restored, with five writes since.

    And its rows; the compaction that was planned, and taken back; the log files that are named
    after it, without the folder's checksums.
    """
    table = bf.open(str(folder), writer=NO_SERVICES)
    for ts in range(100, 105):
        given = table.scan().to_arrow()
        ordering = given.schema.get_field_index("ts")
        given = given.set_column(ordering, "ts", pa.array([ts] * len(given), given["ts"].type))
        table.upsert(given)
    (path,) = folder.glob(".hoodie/*.restore")
    plan = min(decode_restore_metadata(path.read_bytes()).instants_to_rollback)
    left = {p.relative_to(folder).as_posix() for p in folder.glob(f"*/.*_{plan}.log.*")}
    return table, given.sort_by("id"), plan, {p for p in left if not p.endswith(".crc")}


def read_sorted(folder: Path) -> pa.Table:
    return bf.open(str(folder)).scan().to_arrow().sort_by("id")


@pytest.mark.rule("TL-31")
def test_log_files_that_a_restore_by_hudi_left_stay_until_a_clean(golden_copy: Copy) -> None:
    """Once the timeline began after the plan, they were the newest slices, and all rows gone."""
    folder = golden_copy("0.15.0", "restored_planned_mor")
    table, expected, plan, left = restored_planned(folder)
    assert len(left) == 12
    table.archive(min_commits=2, max_commits=3)
    assert table.timeline.writes.instants[0].requested_time < plan
    assert read_sorted(folder).equals(expected)
    findings = table.check("full").findings
    assert {f.paths[0] for f in findings} == left
    assert all("`clean()` deletes it" in f.fix for f in findings)

    planned = table.clean(retain=1)
    done = table.clean(retain=1, dry_run=False)
    assert set(done.files) == set(planned.files) == left
    assert len(done.instants) == 1
    assert table.archive(min_commits=2, max_commits=3)
    assert table.timeline.writes.instants[0].requested_time > plan
    assert read_sorted(folder).equals(expected)
    assert table.check("full").findings == ()
    table.compact()
    assert read_sorted(folder).equals(expected)


@pytest.mark.parametrize("state", ["committed", "pending", "damaged"])
def test_log_files_that_may_count_are_not_cleaned(golden_copy: Copy, state: str) -> None:
    """As a writer that still has the plan logs to its slice. The slice stays as a whole."""
    folder = golden_copy("0.15.0", "restored_planned_mor")
    table, _, _, left = restored_planned(folder)
    first, last = min(left), table.timeline.writes.instants[-1]
    logged = {
        p for p in folder.glob("ap/.*.log.*") if last.requested_time.encode() in p.read_bytes()
    }
    added = folder / first.replace(".log.1_", ".log.3_")
    added.write_bytes(min(logged).read_bytes()[: -9 if state == "damaged" else None])
    if state == "pending":
        (folder / ".hoodie" / last.file_name).unlink()
        (folder / ".hoodie/.heartbeat").mkdir(exist_ok=True)
        (folder / ".hoodie/.heartbeat" / last.requested_time).touch()
    done = table.clean(retain=1, dry_run=False)
    slice_of_it = {path for path in left if path.startswith(first.partition(".log.")[0])}
    assert len(slice_of_it) == 2
    assert set(done.files) == left - slice_of_it
    assert added.exists()


@pytest.mark.rule("SLICE-3")
def test_what_others_archived_past_such_log_files_is_read_and_compacted(golden_copy: Copy) -> None:
    """As Hudi archives, and as Hudi 1.x reads. All rows were gone, and a clean deleted them."""
    folder = golden_copy("0.15.0", "restored_planned_mor")
    table, expected, plan, left = restored_planned(folder)
    for path in folder.glob(".hoodie/2*"):
        if path.name < plan:
            path.unlink()
    assert table.timeline.writes.instants[0].requested_time > plan
    assert read_sorted(folder).equals(expected)
    table.upsert(expected)
    assert read_sorted(folder).equals(expected)
    assert table.compact() is not None
    assert read_sorted(folder).equals(expected)
    table.upsert(expected)
    assert left <= set(table.clean(retain=1, dry_run=False).files)
    assert read_sorted(folder).equals(expected)
    assert table.check("full").findings == ()


@pytest.mark.rule("TL-26")
def test_log_files_behind_a_restore_keep_their_instants(tmp_path: Path) -> None:
    """Hudi 1.2 reads logs of archived instants as pending ones where an older instant is active."""
    table, model = make(tmp_path / "t", table_type="MERGE_ON_READ", writes=2)
    point = table.savepoint()
    write(table, Model(), ts=2)
    table.restore(point)
    table.delete_savepoint(point)
    logged = [write(table, model, ts).instant for ts in range(3, 6)]
    table.compact()
    newest = [write(table, model, ts).instant for ts in range(6, 8)]
    archived = [i.requested_time for i in table.archive(min_commits=1, max_commits=1)]
    assert archived
    assert not {*logged, *newest} & set(archived), "their log files are there"
    table.clean(retain=1, dry_run=False)
    archived = [i.requested_time for i in table.archive(min_commits=1, max_commits=1)]
    assert set(logged) <= set(archived)
    assert newest[-1] not in archived
    assert_reads_as(tmp_path / "t", model)
    assert table.check("full").findings == ()


def test_heartbeats_of_instants_that_never_came_are_removed(tmp_path: Path) -> None:
    """Those of writers that died right after; not of one that has just begun."""
    table, _ = make(tmp_path / "t")
    folder = tmp_path / "t/.hoodie/.heartbeat"
    folder.mkdir(exist_ok=True)
    newest = table.timeline.instants[-1].requested_time
    dead, pending, begun = "20200101000000000", newest, "20990101000000000"
    for name in (dead, pending, begun):
        (folder / name).write_bytes(b"")
    for name in (dead, pending):
        os.utime(folder / name, (1_700_000_000, 1_700_000_000))
    table.archive(min_commits=2, max_commits=3)
    assert sorted(path.name for path in folder.iterdir()) == sorted([pending, begun])
