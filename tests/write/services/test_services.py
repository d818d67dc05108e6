"""Services that run by themselves: what is due, who does it, and that no commit fails by them."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bucketfmt as bf
import bucketfmt.cli.commands.services as commands
from bucketfmt.errors import StorageError
from bucketfmt.format.names.instants import State
from bucketfmt.format.names.names import BaseFileName, LogFileName
from bucketfmt.format.timeline.service_metadata import CleanMetadata
from bucketfmt.snapshot.data_files.written_files import CommitRecord
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.timeline.transitions import put_requested
from bucketfmt.write.services.cleaning import Cleaner
from bucketfmt.write.services.compaction import Compactor
from bucketfmt.write.services.plan_clean import Retention
from bucketfmt.write.services.plan_compaction import plan_compaction
from bucketfmt.write.services.plan_services import (
    Services,
    find_clean_partitions,
    find_compaction_partitions,
    find_retiring,
    may_be_due,
)
from tests.reliability.processes.test_forks import in_child
from tests.write.models import SCHEMA, Model, assert_reads_as, create_table, rows

SMALL = Services(
    compact_after=2, clean=Retention(retain=2), clean_after=2, archive=bf.ArchivePolicy(4, 6)
)


def make(
    folder: Path,
    kind: str = "MERGE_ON_READ",
    version: int = 9,
    services: Services | None = SMALL,
) -> bf.Table:
    return create_table(
        str(folder),
        bf.SimpleBucketIndex(1),
        kind,
        table_version=version,
        writer=bf.WriterConfig(services=services),
    )


def write(table: bf.Table, times: range, model: Model | None = None) -> None:
    for ts in times:
        given = rows(range(ts % 3, 9, 3), ts)  # of one partition
        table.upsert(given)
        if model is not None:
            model.upsert(given)


def actions(table: bf.Table) -> list[str]:
    return [instant.action for instant in table.timeline.instants]


def test_the_numbers_are_those_of_hudi() -> None:
    services = bf.WriterConfig().services
    assert services == Services()
    assert services is not None
    assert services.compact_after == 5  # hoodie.compact.inline.max.delta.commits
    assert services.clean is not None
    assert (services.clean.policy, services.clean.number) == ("KEEP_LATEST_COMMITS", 10)
    assert services.archive == bf.ArchivePolicy(20, 30)  # hoodie.keep.min.commits, max


def test_verbs_and_commands_have_the_numbers_of_the_services() -> None:
    services = Services()
    assert services.clean is not None
    assert services.archive is not None
    kept = {
        "min_commits": services.archive.min_commits,
        "max_commits": services.archive.max_commits,
    }
    numbers = {
        **kept,
        "compact_after": services.compact_after,
        "retain": services.clean.number,
        "clean_after": services.clean_after,
    }
    assert defaults_of(bf.Table.archive, *kept) == kept
    assert defaults_of(commands.archive, *kept) == kept
    assert defaults_of(commands.maintain, *numbers) == numbers


def defaults_of(function: Callable[..., object], *names: str) -> dict[str, object]:
    parameters = inspect.signature(function).parameters
    return {name: parameters[name].default for name in names}


@pytest.mark.rotated(0)
@pytest.mark.parametrize(
    ("kind", "version"), [("MERGE_ON_READ", 9), ("MERGE_ON_READ", 6), ("COPY_ON_WRITE", 9)]
)
def test_a_table_left_alone_does_not_grow(tmp_path: Path, kind: str, version: int) -> None:
    table, model = make(tmp_path / "t", kind, version), Model()
    write(table, range(1, 13), model)
    sizes = []
    for begin in (13, 19):
        write(table, range(begin, begin + 6), model)
        files = [path for path in tmp_path.rglob("*_*") if path.suffix != ".crc"]
        logs = [path for path in files if ".log." in path.name]
        per_slice = max([0, *table.inspect.file_groups()["log_files"].to_pylist()])
        sizes.append((len(files), len(table.timeline.instants)))
        assert len(logs) <= 9
        assert per_slice <= 2
    assert abs(sizes[0][0] - sizes[1][0]) <= 8
    assert abs(sizes[0][1] - sizes[1][1]) <= 4
    assert max(sizes)[1] <= 14
    assert "clean" in actions(table)
    assert ("commit" in actions(table)) or kind == "COPY_ON_WRITE"
    assert_reads_as(table.uri, model)
    assert [f for f in table.check(depth="full").findings if f.severity != "info"] == []
    assert not list(Path(table.uri, ".hoodie/.heartbeat").glob("*"))


def test_without_services_nothing_runs(tmp_path: Path) -> None:
    table = make(tmp_path / "t", services=None)
    write(table, range(1, 9))
    assert actions(table) == ["deltacommit"] * 8


def test_a_savepoint_and_its_files_stay(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    write(table, range(1, 4))
    saved, before = table.savepoint(), table.scan().to_arrow().sort_by("id")
    write(table, range(4, 14))
    assert table.scan(as_of=saved).to_arrow().sort_by("id").equals(before)
    assert saved in {instant.requested_time for instant in table.timeline.instants}


@pytest.mark.parametrize("error", [StorageError("no space"), KeyError("x")])
def test_a_commit_never_fails_by_a_service(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(Compactor, "run", fail)
    table, model = make(tmp_path / "t"), Model()
    with caplog.at_level(logging.WARNING, "bucketfmt"):
        write(table, range(1, 9), model)
    (told,) = caplog.messages
    assert table.uri in told
    assert f"failed after a commit, which stands: {type(error).__name__}: {error}" in told
    assert_reads_as(table.uri, model)
    with pytest.raises(type(error)):
        table.maintain()


class TestOthersAtWork:
    def test_a_plan_of_hudi_is_left_to_hudi(self, tmp_path: Path) -> None:
        table = make(tmp_path / "t", services=None)
        write(table, range(1, 7))
        snapshot = table._snapshot()
        plan = plan_compaction(snapshot.slices_of(snapshot.partitions), ())
        assert plan is not None
        time = table._transactions.clock.next_time([])
        put_requested(table.store, table.config, time, "compaction", _without_mark(plan))
        cleaning = Cleaner(table._snapshot, table._transactions)
        assert cleaning._plan(table._snapshot(), Retention(retain=1)) is None
        served = bf.open(table.uri, writer=bf.WriterConfig(services=SMALL))
        write(served, range(7, 10))
        assert served.maintain().compaction is None
        assert [i.requested_time for i in served.timeline.pending.instants] == [time]
        assert served.compact() is not None  # if asked to

    @pytest.mark.parametrize("version", [6, 8, 9])
    def test_a_compaction_whose_plan_hudi_never_wrote_holds_nobody_up(
        self, tmp_path: Path, version: int
    ) -> None:
        """It was left to Hudi, which cannot read it either: log files grew for ever."""
        table = make(tmp_path / "t", version=version, services=None)
        model = Model()
        write(table, range(1, 7), model)
        time = table._transactions.clock.next_time([])
        path = f"{table.config.timeline_path}/{time}.compaction.requested"
        table.store.put_if_absent(path, b"")
        assert table.preview_compaction().pending is None
        served = bf.open(table.uri, writer=bf.WriterConfig(services=SMALL))
        assert served.maintain(dry_run=True).compaction.file_groups > 0  # type: ignore[union-attr]
        write(served, range(7, 8), model)
        assert table.store.info(path) is None
        assert "commit" in actions(bf.open(table.uri))
        assert not bf.open(table.uri).timeline.pending.instants
        assert_reads_as(table.uri, model)

    def test_a_compaction_under_way_is_skipped_and_a_dead_one_taken_over(
        self, tmp_path: Path
    ) -> None:
        table = make(tmp_path / "t", services=None)
        write(table, range(1, 7))
        started = table.start_compaction()
        assert started is not None
        served = bf.open(table.uri, writer=bf.WriterConfig(services=SMALL))
        write(served, range(7, 10))
        assert served.timeline.pending.of("compaction").instants
        assert served.maintain().compaction is None
        started.abandon()  # as if its process had died
        done = served.maintain().compaction
        assert isinstance(done, bf.CommitResult)
        assert done.instant == started.instant

    def test_the_other_services_have_their_turn_beside_a_compaction(self, tmp_path: Path) -> None:
        """They waited for it, and a dry run raised its ConflictError."""
        table = make(tmp_path / "t", services=None)
        write(table, range(1, 4))
        table.compact()
        write(table, range(4, 7))
        table.compact()
        write(table, range(7, 13))
        started = table.start_compaction()
        assert started is not None
        wanted = Services(
            compact_after=2,
            clean=Retention(retain=1),
            clean_after=2,
            archive=bf.ArchivePolicy(4, 6),
        )
        planned = table.maintain(wanted, dry_run=True)
        assert planned.compaction is None
        assert planned.clean is not None
        assert planned.clean.files
        assert planned.archived
        done = table.maintain(wanted)
        assert done.compaction is None
        assert done.clean is not None
        assert sorted(done.clean.files) == sorted(planned.clean.files)
        assert done.archived
        started.abandon()

    def test_a_clean_under_way_is_skipped_and_a_dead_one_taken_over(self, tmp_path: Path) -> None:
        table = make(tmp_path / "t", "COPY_ON_WRITE", services=None)
        write(table, range(1, 10))
        plan = Cleaner(table._snapshot, table._transactions)._plan(
            table._snapshot(), Retention(retain=2)
        )
        assert plan is not None
        with table._transactions.locked() as locked:
            requested, heartbeat = locked.request_alive("clean", plan)
        served = bf.open(table.uri, writer=bf.WriterConfig(services=SMALL))
        write(served, range(10, 13))
        assert served.timeline.completed.of("clean").last is None
        assert served.clean(retain=2, dry_run=False).instants != (requested.requested_time,)
        heartbeat.stop()
        write(served, range(13, 14))
        assert requested.requested_time in {
            i.requested_time for i in served.timeline.completed.of("clean").instants
        }

    def test_a_thread_at_it_keeps_others_from_it(self, tmp_path: Path) -> None:
        table = make(tmp_path / "t")
        assert table._maintenance is not None
        assert table._maintenance._busy.acquire(0)
        write(table, range(1, 7))
        assert actions(table) == ["deltacommit"] * 6

        def child() -> None:  # no thread of the child is at it
            write(table, range(7, 8))
            assert "commit" in actions(table)

        in_child(child)


def test_a_dry_run_tells_what_maintain_does(tmp_path: Path) -> None:
    table = make(tmp_path / "t", services=None)
    write(table, range(1, 10))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    planned = table.maintain(SMALL, dry_run=True)
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before
    assert isinstance(planned.compaction, bf.CompactionPreview)
    assert planned.compaction.file_groups == 3
    done = table.maintain(SMALL)
    assert isinstance(done.compaction, bf.CommitResult)
    assert len(done.compaction.files) == planned.compaction.file_groups
    assert done.archived[: len(planned.archived)] == planned.archived
    assert len(done.archived) == len(planned.archived) + 1  # the compaction is a commit too
    assert table.maintain(SMALL) == bf.MaintainResult()


def test_compaction_can_be_rewritten_elsewhere(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    write(table, range(1, 6))
    seen = []

    def rewrite(started: bf.StartedCompaction) -> list[bytes]:
        seen.append(started.instant)
        return [started.task.compact(p, f"{n}-0-7") for n, p in enumerate(started.payloads)]

    for ts in range(6, 9):
        given = rows(range(ts % 3, 9, 3), ts)
        with table.start_write("upsert", SCHEMA) as started:
            started.publish(list(started.task.write(given, "0-0-0")), rewrite)
    compactions = [i.requested_time for i in table.timeline.completed.of("commit").instants]
    assert seen
    assert set(seen) <= set(compactions)


def test_what_is_not_due_costs_no_request(tmp_path: Path) -> None:
    counts = []
    for services in (None, Services()):
        table = make(tmp_path / str(services)[:4], services=services)
        write(table, range(1, 4))
        store = RecordingStore(table.store)
        writer = bf.WriterConfig(services=services)
        watched = bf.Table(store, table.config, table.limits, None, writer)
        write(watched, range(4, 5))
        counts.append([operation.verb for operation in store.operations])
    assert counts[0] == counts[1]


def test_services_that_may_be_due_and_are_not_cost_one_listing(tmp_path: Path) -> None:
    # Commits to file groups of their own: the timeline does not say that no file retired.
    counts = []
    for services in (None, Services()):
        made = make(tmp_path / str(services)[:4], "COPY_ON_WRITE", services=None)
        for n in range(8):
            made.upsert([{**row, "region": f"region {n}"} for row in rows([n], n).to_pylist()])
        store = RecordingStore(made.store)
        writer = bf.WriterConfig(services=services)
        watched = bf.Table(store, made.config, made.limits, None, writer)
        watched.upsert([{**row, "region": "region 9"} for row in rows([9], 9).to_pylist()])
        counts.append([operation.verb for operation in store.operations].count("list"))
    assert counts[1] == counts[0] + 1


def test_what_files_hold_back_is_not_looked_for_after_each_commit(tmp_path: Path) -> None:
    services = Services(compact_after=None, clean=None, archive=bf.ArchivePolicy(1, 2))
    made = make(tmp_path / "t", "COPY_ON_WRITE", services=None)
    write(made, range(3))
    dropped = made.delete_partitions(["us"])
    write(made, range(3, 6))
    table = bf.open(made.uri, writer=bf.WriterConfig(services=services))
    write(table, range(6, 7))
    assert table.timeline.instants[0].requested_time == dropped.instant
    store = RecordingStore(table.store)
    watched = bf.Table(store, table.config, table.limits, None, bf.WriterConfig(services=services))
    counts = []
    for ts in range(7, 9):
        store.operations.clear()
        write(watched, range(ts, ts + 1))
        counts.append(sum(".locks" in operation.path for operation in store.operations))
    assert counts[1] < counts[0], "the table was locked to archive nothing"
    table.clean(retain=1, dry_run=False)
    write(watched, range(9, 10))
    assert table.timeline.instants[0].requested_time > dropped.instant


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="compact_after is 1 or more"):
        Services(compact_after=0)
    with pytest.raises(TypeError, match="clean is a Retention"):
        Services(clean=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="services is a value such as Services"):
        bf.WriterConfig(services=True)  # type: ignore[arg-type]


# -- what is due


def _without_mark(plan: Any) -> Any:
    return type(plan)(operations=plan.operations)


FILE_ID = "00000000-1ad8-4c4f-84b0-f9f06e6013ae-0"


def commit(time: str, path: str, *, base: bool = False, retires: bool = False) -> CommitRecord:
    name: BaseFileName | LogFileName
    if base:
        name = BaseFileName(FILE_ID, "0-0-0", time, "parquet")
    else:
        name = LogFileName(FILE_ID, time, 1, "0-0-0")
    file = (path, FILE_ID, f"{path}/{name}", name, 0, 1, 1, 0)
    return CommitRecord(time, time, "UPSERT", None, None, (file,), retires=retires)


def timeline_of(*texts: str) -> Timeline:
    """`10d` is a deltacommit; c: a commit, x: a clean, r: a restore, p: a pending compaction."""
    names = {"d": "deltacommit", "c": "commit", "x": "clean", "p": "compaction", "r": "restore"}
    found = []
    for text in texts:
        state = State.REQUESTED if text[-1] == "p" else State.COMPLETED
        found.append(Instant(text[:-1], names[text[-1]], state, text[:-1], text))
    return Timeline(tuple(found), 2)


def test_compaction_counts_commits_with_log_files_since_the_last() -> None:
    services = Services(compact_after=2, clean=None, archive=None)
    commits = [commit("10", "a"), commit("12", "b"), commit("13", "c", base=True)]
    commits.append(commit("14", "d"))
    due = timeline_of("10d", "11c", "12d", "13d", "14d")
    assert find_compaction_partitions(due, commits, services) == ["a", "b", "d"]
    assert may_be_due(due, services)
    for timeline, idle_since in (
        (timeline_of("10d", "11c", "12d", "13d"), ""),  # one of them with base files only
        (due, "12"),  # nothing was to be compacted then
    ):
        assert find_compaction_partitions(timeline, commits, services, idle_since) == ()
    assert not may_be_due(timeline_of("10d", "11c", "12d"), services)
    assert may_be_due(timeline_of("10d", "11c", "12p"), services)
    off = Services(None, None, archive=None)
    assert not may_be_due(due, off)
    assert find_compaction_partitions(due, commits, off) == ()


def cleaned_until(time: str, savepoints: str = "") -> CleanMetadata:
    return CleanMetadata(
        start_clean_time=time,
        time_taken_in_millis=0,
        total_files_deleted=0,
        earliest_commit_to_retain=time,
        partition_metadata={},
        extra_metadata={"savepointed_timestamps": savepoints} if savepoints else {},
    )


def test_a_clean_is_due_where_commits_retired_files_since_the_last() -> None:
    services = Services(clean=Retention(retain=2), clean_after=2)
    commits = [commit(str(n), f"p{n}", base=True, retires=n != 12) for n in range(10, 16)]
    timeline = timeline_of("10c", "11c", "12c", "13c", "13x", "14c", "15c")
    retired = {
        last and last.earliest_commit_to_retain: [
            c.requested_time for c in find_retiring(timeline, commits, services, last)
        ]
        for last in (None, *map(cleaned_until, ("11", "12", "09")))
    }
    assert retired == {
        None: ["10", "11", "13"],
        "11": ["11", "13"],
        "12": ["13"],
        "09": ["10", "11", "13"],  # archived: unknown what was cleaned
    }
    last = cleaned_until("12", "11")
    retiring = find_retiring(timeline, commits, services, last)
    assert find_clean_partitions(timeline, commits, retiring, cleaned_until("12")) == ["p13"]
    assert find_clean_partitions(timeline, commits, retiring, last) is None  # savepoint is gone
    assert find_clean_partitions(timeline, commits, retiring, cleaned_until("09")) is None
    restored = timeline_of("10c", "11c", "12c", "13c", "13x", "14r", "14c", "15c")
    assert find_clean_partitions(restored, commits, retiring, cleaned_until("12")) is None
    soon = timeline_of("10c", "11c", "12c", "13c", "14c", "14x", "15c")
    assert find_retiring(soon, commits, services, cleaned_until("12")) == ()
    assert find_retiring(timeline, commits, Services(clean=None), None) == ()
