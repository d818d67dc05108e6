"""A writer stands still between the look at its lock and the file that publishes, and goes on."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.storage.store import WRITE_VERBS, Store
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore, Killed
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.locking.storage_based_lock import StorageBasedLock
from bucketfmt.write.commit import transactions
from tests.reliability.works.lost_lock import (
    HEARTBEAT_ENDS_S,
    LEASE_ENDS_S,
    SCHEMA,
    PausedStore,
    SlowStore,
    Trial,
    completes,
    create,
    row,
)

KINDS = [(v, t) for v in (6, 9) for t in ("COPY_ON_WRITE", "MERGE_ON_READ")]


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: f"{kind[0]}-{kind[1]}")
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> MemoryStore:
    version, table_type = request.param
    path: Path = tmp_path_factory.mktemp("table") / "t"
    table = create(
        path,
        table_type=table_type,
        table_version=version,
    )
    table.upsert(row("x", 0))
    table.upsert(row("y", 0, "q"))
    return MemoryStore.of_folder(path)


BEFORE = {"x": 0, "y": 0}


@pytest.mark.rotated(1)
@pytest.mark.parametrize("partition", ["p", "new"])
@pytest.mark.parametrize("pause_s", [LEASE_ENDS_S, HEARTBEAT_ENDS_S])
@pytest.mark.parametrize("retries", [0, 1])
def test_of_two_commits_in_conflict_the_late_one_is_taken_back(
    files: MemoryStore, pause_s: float, retries: int, partition: str
) -> None:
    """After the heartbeat has ended too, the other writer has rolled the instant back before."""
    trial = Trial(files)
    store = trial.paused(pause_s, lambda: trial.open().upsert(row("b", 2, partition)))
    late = trial.open(store)
    expected = {**BEFORE, "b": 2}
    if retries:
        late.upsert(row("a", 1, partition), retries=retries)
        expected["a"] = 1
    else:
        with pytest.raises(bf.ConflictError):
            late.upsert(row("a", 1, partition), retries=retries)
    trial.check(expected)


@pytest.mark.parametrize("has_record_index", [False, True])
@pytest.mark.parametrize("retries", [0, 1])
def test_a_commit_that_appears_amid_the_publication_of_another_is_seen_by_that_one(
    files: MemoryStore, retries: int, has_record_index: bool
) -> None:
    """It appears once the other has compared itself: that one has not seen it, though later."""
    trial = Trial(files)
    if has_record_index:
        trial.open().metadata_table.init("files", "record_index")
    refused = []

    def write(appear: Callable[[], object]) -> None:
        def appear_now() -> None:
            appear()
            trial.clock.sleep(1)

        trial.clock.sleep(LEASE_ENDS_S)
        other = trial.open(PausedStore(trial.files, appear_now, completes_table))
        try:
            other.upsert(row("b", 2), retries=retries)
        except bf.ConflictError:
            refused.append("b")

    trial.open(SlowStore(trial.files, write)).upsert(row("a", 1))
    assert not (retries and refused)
    trial.check({**BEFORE, "a": 1, **({} if refused else {"b": 2})})


@pytest.mark.rotated(1)
@pytest.mark.parametrize("has_metadata_table", [False, True])
@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("before", ["rollback.requested", "rollback.inflight", "p/", "rollback"])
def test_a_commit_that_appears_amid_its_rollback_goes_with_it(
    files: MemoryStore, before: str, dies: bool, has_metadata_table: bool
) -> None:
    """Its writer cannot have the lock again, and ends: the table was no more readable."""
    trial = Trial(files)
    if has_metadata_table:
        trial.open().metadata_table.init("files", "record_index")

    def is_step(path: str) -> bool:
        if before == "p/":  # a file of the late commit, which is deleted
            return path.startswith(before)
        return not path.startswith(".hoodie/metadata") and path.endswith(before)

    def write(appear: Callable[[], object]) -> None:
        def appear_now() -> None:
            appear()
            if dies:
                raise Killed

        trial.clock.sleep(HEARTBEAT_ENDS_S)
        other = trial.open(PausedStore(trial.files, appear_now, is_step))
        with suppress(Killed, bf.ConflictError):
            other.upsert(row("b", 2), retries=0)
        holder.append(stack.enter_context(trial.open()._transactions.locked()))

    holder: list[object] = []
    with ExitStack() as stack:
        late = trial.open(SlowStore(trial.files, write), lock_timeout_s=1)
        with pytest.raises((bf.LockLostError, bf.ConflictError)):
            late.upsert(row("a", 1), retries=0)
    trial.clock.sleep(HEARTBEAT_ENDS_S)
    trial.open().upsert(row("c", 3))
    rows = trial.open().scan().to_arrow()["id"].to_pylist()
    assert "a" not in rows or before == "rollback.requested"  # and it is not rolled back
    expected = {**BEFORE, "a": 1, "b": 2, "c": 3}
    trial.check({key: value for key, value in expected.items() if key in rows})


OTHER_WORKS: dict[str, Callable[[bf.Table], object]] = {
    "clean": lambda table: table.clean(retain=1, dry_run=False),
    "overwrite": lambda table: table.insert_overwrite(row("o", 1, "o")),
    "rollback": lambda table: table.rollback(),
}


def ahead_of_its_clocks(files: MemoryStore) -> Trial:
    trial = Trial(files)
    with trial.ahead_of_clocks():
        for value in range(1, 4):
            trial.open(services=None).upsert(row("x", value))
    return trial


def check_after(trial: Trial, other: str) -> None:
    expected = {**BEFORE, "x": 2 if other == "rollback" else 3}
    trial.check({**expected, "o": 1} if other == "overwrite" else expected)


def is_begun(path: str) -> bool:
    return path.endswith("commit.requested")


def die() -> None:
    raise Killed


@pytest.mark.rotated(1)
@pytest.mark.parametrize("other", OTHER_WORKS)
@pytest.mark.parametrize("clock_stands_still", [False, True])
def test_a_late_instant_has_not_the_time_of_another(
    files: MemoryStore, other: str, clock_stands_still: bool
) -> None:
    """The table is ahead of both clocks, and its next time is the same for both writers.

    A failed write was taken for completed, once another instant of its time was. The lease ends
    while the writer stands still, as its clock may do too.
    """
    trial = ahead_of_its_clocks(files)

    def work() -> None:
        ahead_s = LEASE_ENDS_S if clock_stands_still else 0
        trial.clock.sleep(LEASE_ENDS_S - ahead_s)
        OTHER_WORKS[other](trial.open(services=None, ahead_s=ahead_s))

    dying = PausedStore(trial.files, die, lambda path: path.endswith("inflight"))
    late = trial.open(PausedStore(dying, work, is_begun), services=None)
    with pytest.raises(bf.ConflictError, match=r"before (delta)?commit .* could be begun"):
        late.upsert(row("a", 1), retries=0)
    check_after(trial, other)


@pytest.mark.rotated(1)
@pytest.mark.parametrize("other", OTHER_WORKS)
def test_a_late_instant_of_a_dead_writer_goes_without_the_other_of_its_time(
    files: MemoryStore, other: str
) -> None:
    """The writer died before it could withdraw it: it was pending for good."""
    trial = ahead_of_its_clocks(files)

    def work() -> None:
        trial.clock.sleep(LEASE_ENDS_S)
        OTHER_WORKS[other](trial.open(services=None))

    touched = count(1)
    dying = PausedStore(trial.files, die, lambda path: is_begun(path) and next(touched) == 2)
    late = trial.open(PausedStore(dying, work, is_begun), services=None)
    with pytest.raises(Killed):
        late.upsert(row("a", 1), retries=0)
    check_after(trial, other)


@pytest.mark.rotated(1)
@pytest.mark.parametrize("partition", ["p", "new"])
def test_rows_of_a_writer_that_began_before_are_not_hidden(
    files: MemoryStore, partition: str
) -> None:
    """The late commit's base file is the newer one."""
    trial = Trial(files)
    other = trial.open().start_write("upsert", SCHEMA)
    receipts = list(other.task.write(row("b", 2, partition), "0-0-0"))
    trial.clock.sleep(1)
    store = trial.paused(LEASE_ENDS_S, lambda: other.publish(receipts))
    with pytest.raises(bf.ConflictError):
        trial.open(store).upsert(row("a", 1, partition), retries=0)
    trial.check({**BEFORE, "b": 2})


def test_a_late_commit_in_conflict_with_no_other_is_in_the_changes_since(
    files: MemoryStore,
) -> None:
    """From version 8 on it is published again: its completion time was from before the others'."""
    trial = Trial(files)
    seen: list[str] = []

    def write() -> None:
        result = trial.open().upsert(row("b", 2, "q"))
        (done,) = [i for i in trial.open().timeline.instants if i.requested_time == result.instant]
        seen.append(done.completion_time or "")

    late = trial.open(trial.paused(LEASE_ENDS_S, write))
    first = late.upsert(row("a", 1))
    assert first.instant in [i.requested_time for i in trial.open().timeline.completed.instants]
    if trial.open().config.table_version >= 8:
        found = trial.open().changes(since=seen[0]).to_arrow()
        assert found["id"].to_pylist() == ["a"]
    trial.check({**BEFORE, "a": 1, "b": 2})


@pytest.mark.parametrize("work", ["upsert", "delete"])
def test_a_late_commit_beside_a_compaction(tmp_path: Path, work: str) -> None:
    """Its log files belonged to the slice that had been compacted: no reader saw its rows."""
    table = create(
        tmp_path / "t",
        table_type="MERGE_ON_READ",
        writer=bf.WriterConfig(services=None),
    )
    for value in range(2):
        table.upsert(row("x", value))
    table.upsert(row("y", 5))
    trial = Trial(MemoryStore.of_folder(tmp_path / "t"))
    store = trial.paused(LEASE_ENDS_S, lambda: trial.open(services=None).compact())
    late = trial.open(store, services=None)
    if work == "upsert":
        late.upsert(row("x", 7))
        trial.check({"x": 7, "y": 5})
    else:
        late.delete(["x"])
        trial.check({"y": 5})


def completes_table(path: str) -> bool:
    """Whether a file completes an instant of the table itself."""
    return completes(path) and not path.startswith(".hoodie/metadata")


class RemovingStore(RecordingStore):
    """Its process dies before the first of some files is deleted."""

    def __init__(self, store: Store, before: Callable[[str], bool]) -> None:
        super().__init__(store)
        self._before = before

    def delete(self, path: str) -> None:
        if self._before(path):
            raise Killed
        super().delete(path)


class OvertakenStore(PausedStore):
    """Stands still before the first file that completes an instant is put, and once it is there."""

    def __init__(self, store: Store, meanwhile: Callable[[], object], then: Callable[[], object]):
        super().__init__(store, meanwhile, completes_table)
        self._then: Callable[[], object] | None = then

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        done = super().put_if_absent(path, data)
        if self._then is not None and completes_table(path):
            then, self._then = self._then, None
            then()
        return done


@pytest.mark.rotated(0)
@pytest.mark.parametrize("has_metadata_table", [False, True])
@pytest.mark.parametrize("ending", ["others write", "it dies"])
def test_a_late_commit_that_was_rolled_back_goes_whatever_came_since(
    files: MemoryStore, ending: str, has_metadata_table: bool
) -> None:
    """Its files are gone: until then readers of its file groups fail."""
    trial = Trial(files)
    if has_metadata_table:
        trial.open().metadata_table.init("files", "record_index")

    begun: list[bf.StartedWrite] = []

    def appear() -> None:
        if ending == "others write":
            with suppress(bf.ConflictError, bf.CorruptError):  # with a metadata table
                begun[0].publish(begun[0].task.write(row("c", 3, "q"), "0-0-0"))
            return
        raise Killed

    def take_back() -> None:
        trial.clock.sleep(HEARTBEAT_ENDS_S)
        trial.open().upsert(row("b", 2))
        if ending == "others write":  # and have begun before: who begins later removes it
            begun.append(trial.open().start_write("upsert", SCHEMA))

    late = trial.open(OvertakenStore(trial.files, take_back, appear))
    rolled_back = r"rolled \d+ back while this process stood still"
    error, match = (Killed, None) if ending == "it dies" else (bf.ConflictError, rolled_back)
    with pytest.raises(error, match=match):
        late.upsert(row("a", 1), retries=0)
    trial.clock.sleep(HEARTBEAT_ENDS_S)
    if has_metadata_table:
        trial.open().metadata_table.rebuild()
    trial.open().upsert(row("c", 3, "q"))
    trial.check({**BEFORE, "b": 2, "c": 3})


def roll_back_pending(trial: Trial) -> None:
    """Roll back what stands still, by name: a resize is not rolled back by the next write."""
    trial.clock.sleep(HEARTBEAT_ENDS_S)
    trial.open().rollback(trial.open().timeline.writes.pending.instants[-1].requested_time)


def test_a_late_commit_that_was_restored_over_goes(files: MemoryStore) -> None:
    """A restore leaves no rollback: its own metadata alone tells what it took back."""
    trial = Trial(files)
    point = trial.open().savepoint()

    def restore() -> None:
        trial.clock.sleep(HEARTBEAT_ENDS_S)
        trial.open().restore(point)
        assert not trial.open().timeline.of("rollback").instants

    late = trial.open(OvertakenStore(trial.files, restore, die))
    with pytest.raises(Killed):
        late.upsert(row("x", 1), retries=0)
    appeared = late.timeline.writes.completed.instants[-1].requested_time
    assert find_told_late(trial) == [appeared]
    trial.clock.sleep(HEARTBEAT_ENDS_S)
    trial.open().upsert(row("c", 3, "q"))
    trial.check({**BEFORE, "c": 3})
    assert appeared not in trial.open().timeline.requested_times


@pytest.mark.parametrize("version", [6, 9])
def test_a_compaction_that_was_executed_after_a_restore_is_not_late(
    tmp_path: Path, version: int
) -> None:
    """By a process that had its plan from before: its files are there, and are read."""
    table = create(tmp_path / "t", table_type="MERGE_ON_READ", table_version=version)
    table.upsert(row("x", 0))
    trial = Trial(MemoryStore.of_folder(tmp_path / "t"))
    point = trial.open().savepoint()
    trial.open().upsert(row("x", 1))
    trial.open().compact()
    compaction = trial.open().timeline.writes.completed.instants[-1]
    own = {
        path: data
        for path, data in trial.files.files.items()
        if path.endswith((compaction.file_name, f"_{compaction.requested_time}.parquet"))
    }
    assert len(own) == 2
    trial.open().restore(point)
    assert trial.open().scan().to_arrow()["v"].to_pylist() == [0]
    for path, data in own.items():
        assert trial.files.put_if_absent(path, data)
    assert not find_told_late(trial)
    trial.open().upsert(row("y", 2))
    assert compaction.requested_time in trial.open().timeline.requested_times
    trial.check({"x": 1, "y": 2})


def delete_late(files: MemoryStore) -> Trial:
    """Return a table with a late commit that was rolled back: it deletes the partition q."""
    trial = Trial(files)
    late = trial.open(OvertakenStore(trial.files, lambda: roll_back_pending(trial), die))
    with pytest.raises(Killed):
        late.delete_partitions(["q"])
    assert len(find_told_late(trial)) == 1
    trial.clock.sleep(HEARTBEAT_ENDS_S)
    return trial


def find_told_late(trial: Trial) -> list[str]:
    """Return the instants that `check` says appeared late."""
    findings = trial.open().check("full").findings
    late = [f for f in findings if f.id == "T001" and "once it had been rolled back" in f.evidence]
    return [instant for finding in late for instant in finding.instants]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_late_resize_that_was_rolled_back_goes(tmp_path: Path, version: int) -> None:
    """Its files and its ring are gone: nobody could read or write the table."""
    table = create(
        tmp_path / "t",
        index=bf.ConsistentHashingIndex(1),
        table_type="MERGE_ON_READ",
        table_version=version,
    )
    expected = {f"k{number}": number for number in range(40)}
    for key, value in expected.items():
        table.upsert(row(key, value))
    trial = Trial(MemoryStore.of_folder(tmp_path / "t"))
    late = trial.open(OvertakenStore(trial.files, lambda: roll_back_pending(trial), die))
    with pytest.raises(Killed):
        late.resize(max_file_size=500)
    appeared = late.timeline.writes.completed.instants[-1]
    assert appeared.action == "replacecommit"
    assert find_told_late(trial) == [appeared.requested_time]
    trial.clock.sleep(HEARTBEAT_ENDS_S)
    trial.open().upsert(row("k1", 7))
    trial.check({**expected, "k1": 7})
    assert trial.open().timeline.writes.completed.instants[-1].action == "deltacommit"


@pytest.mark.parametrize("is_built_on", [False, True])
def test_a_late_delete_of_a_partition_stays_where_others_made_file_groups_since(
    files: MemoryStore, monkeypatch: pytest.MonkeyPatch, is_built_on: bool
) -> None:
    """Hudi looks for no late commits. Rows of old and new file groups were there both."""
    trial = delete_late(files)
    with monkeypatch.context() as as_hudi:
        as_hudi.setattr(transactions, "remove_late_commits", lambda _: None)
        trial.open().upsert(row("z", 5, "q" if is_built_on else "p"))
    trial.open().upsert(row("b", 2))
    trial.check({"x": 0, "b": 2, "z": 5} | ({} if is_built_on else {"y": 0}))


def test_a_savepoint_is_of_no_late_commit(files: MemoryStore) -> None:
    """The next write removed the commit, and a restore ended in a StopIteration."""
    trial = delete_late(files)
    point = trial.open().savepoint()
    trial.open().upsert(row("b", 2))
    trial.open().restore(point)
    trial.check(BEFORE)


def test_a_savepoint_whose_write_is_gone_is_told(files: MemoryStore) -> None:
    trial = Trial(files)
    table = trial.open()
    point = table.savepoint()
    of_write = re.compile(rf"(.*/)?{point}(_\d+)?\.(?!savepoint).*")
    table.upsert(row("b", 2))
    for path in filter(of_write.fullmatch, [*trial.files.files]):
        trial.files.delete(path)
    with pytest.raises(bf.ConflictError, match=r"there is no write \d+ for its savepoint"):
        trial.open().restore(point)


@pytest.mark.parametrize("version", [6, 9])
def test_a_late_commit_whose_rollback_was_interrupted_is_rolled_back_to_the_end(
    tmp_path: Path, version: int
) -> None:
    """Whoever rolled it back died once its files were gone, and its own process died as well."""
    table = create(
        tmp_path / "t",
        table_version=version,
    )
    table.upsert(row("x", 0))
    trial = Trial(MemoryStore.of_folder(tmp_path / "t"))

    def take_back() -> None:
        trial.clock.sleep(HEARTBEAT_ENDS_S)
        is_inflight = lambda path: path.endswith((".inflight", ".rollback"))  # noqa: E731
        with pytest.raises(Killed):
            trial.open(RemovingStore(trial.files, is_inflight)).upsert(row("b", 2))
        trial.clock.sleep(1)

    def die() -> None:
        raise Killed

    with pytest.raises(Killed):
        trial.open(OvertakenStore(trial.files, take_back, die)).upsert(row("a", 1), retries=0)
    trial.clock.sleep(HEARTBEAT_ENDS_S)
    trial.open().upsert(row("b", 2))
    trial.check({"x": 0, "b": 2})


def test_a_late_commit_that_others_stand_on_stays_and_its_writer_is_told(
    files: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trial(files)
    store = trial.paused(LEASE_ENDS_S, lambda: trial.open().upsert(row("b", 2)))
    late = trial.open(store)
    monkeypatch.setattr(
        "bucketfmt.write.commit.transaction.Transaction.is_built_on", lambda *_, **__: True
    )
    with pytest.raises(bf.LockLostError, match="write the rows that are missing"):
        late.upsert(row("a", 1))
    monkeypatch.undo()
    trial.check({**BEFORE, "b": 2}, and_maybe="a")


def test_a_late_savepoint_is_not_acknowledged(files: MemoryStore) -> None:
    trial = Trial(files)
    newest = trial.open().timeline.completed.instants[-1].requested_time
    with pytest.raises(bf.LockLostError):
        trial.open(trial.paused(LEASE_ENDS_S, lambda: trial.open().upsert(row("b", 2)))).savepoint(
            newest
        )


@pytest.mark.rotated(0)
@pytest.mark.parametrize("fault", [Fault.KILL_BEFORE, Fault.KILL_AFTER, Fault.FAIL_AFTER])
def test_whoever_dies_while_taking_back_leaves_that_to_the_next(
    files: MemoryStore, fault: Fault
) -> None:
    for at in count(1):
        trial = Trial(files)
        faulty = FaultyStore(trial.files, FaultPlan(at, fault, WRITE_VERBS))
        own: list[int] = []

        def meanwhile(trial: Trial = trial, own: list[int] = own) -> None:
            trial.clock.sleep(LEASE_ENDS_S)
            own.append(1)
            trial.open().upsert(row("b", 2))

        try:
            trial.open(PausedStore(faulty, meanwhile)).upsert(row("a", 1), retries=0)
        except (bf.BucketfmtError, Killed):
            is_acked = False
        else:
            is_acked = True
        assert not (is_acked and own)
        if own:
            trial.check({**BEFORE, "b": 2}, and_maybe="a")
        if faulty.struck is None:
            return


def _roll_back_pending(table: bf.Table) -> None:
    for instant in table.timeline.pending.instants:
        table.rollback(instant.requested_time)


OTHERS: dict[str, Callable[[bf.Table], object]] = {
    "executes it": lambda table: table.compact(),
    "takes it back": _roll_back_pending,
    "writes": lambda table: table.upsert(row("b", 2)),
    "makes the metadata table anew": lambda table: table.metadata_table.rebuild(),
}


@pytest.mark.rotated(1)
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("other", OTHERS)
def test_a_late_compaction_is_taken_back(tmp_path: Path, version: int, other: str) -> None:
    """Its file would name base files that are not there, or come second."""
    table = create(
        tmp_path / "t",
        table_type="MERGE_ON_READ",
        table_version=version,
        writer=bf.WriterConfig(services=None),
    )
    table.metadata_table.init("files", "record_index")
    for value in range(2):
        table.upsert(row("x", value))
    trial = Trial(MemoryStore.of_folder(tmp_path / "t"))

    def is_compaction(path: str) -> bool:
        return path.endswith(".commit") and ".hoodie/metadata" not in path

    def act() -> None:
        OTHERS[other](trial.open(services=None))

    late = trial.open(trial.paused(HEARTBEAT_ENDS_S, act, is_compaction), services=None)
    with pytest.raises(bf.ConflictError):
        late.compact()
    expected = {"x": 1, "b": 2} if other == "writes" else {"x": 1}
    trial.check(expected)
    assert trial.open().lookup(["x"]).to_pylist() == row("x", 1).to_pylist()


def test_a_late_compaction_is_not_taken_back_without_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has the lock then may have built on it."""
    table = create(
        tmp_path / "t", table_type="MERGE_ON_READ", writer=bf.WriterConfig(services=None)
    )
    for value in range(2):
        table.upsert(row("x", value))
    trial = Trial(MemoryStore.of_folder(tmp_path / "t"))
    late = trial.open(
        trial.paused(LEASE_ENDS_S, lambda: None, lambda path: path.endswith(".commit")),
        services=None,
    )
    monkeypatch.setattr(StorageBasedLock, "holds", lambda _: False)
    with pytest.raises(bf.LockLostError):
        late.compact()
    assert trial.open().timeline.completed.of("commit").instants


@pytest.fixture(scope="module", params=[6, 9])
def indexed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> MemoryStore:
    """The files of a table that is located by a record index."""
    path: Path = tmp_path_factory.mktemp("indexed") / "t"
    table = create(
        path,
        index=bf.RecordIndex(),
        table_version=request.param,
        writer=bf.WriterConfig(services=None),
    )
    for key, value in (("x", 0), ("y", 1), ("late", 2)):
        table.upsert(row(key, value))
    return MemoryStore.of_folder(path)


def test_a_rollback_that_lost_its_lock_takes_nothing_back(indexed: MemoryStore) -> None:
    """Another write came before its plan: the plan is withdrawn, and the index keeps the keys."""
    trial = Trial(indexed)
    store = trial.paused(
        LEASE_ENDS_S,
        lambda: trial.open().upsert(row("b", 3)),
        lambda path: path.endswith(".rollback.requested"),
    )
    with pytest.raises(bf.ConflictError, match="lock was lost"):
        trial.open(store).rollback()
    trial.check({"x": 0, "y": 1, "late": 2, "b": 3})
    assert trial.open().lookup(["late"]).to_pylist() == row("late", 2).to_pylist()


@pytest.mark.parametrize("before", ["hoodie.properties.backup", "index.json", ".inflight"])
def test_a_rebuild_that_lost_its_lock_leaves_the_next_one_alone(
    indexed: MemoryStore, before: str
) -> None:
    trial = Trial(indexed)
    if before == "index.json" and trial.open().config.table_version < 8:
        before = ".requested"  # indexes have no definitions
    store = trial.paused(
        LEASE_ENDS_S, lambda: trial.open().upsert(row("b", 3)), lambda path: before in path
    )
    with pytest.raises(bf.ConflictError, match=r"lock|made|created"):
        trial.open(store).metadata_table.rebuild("record_index")
    trial.check({"x": 0, "y": 1, "late": 2, "b": 3})
    for key, value in (("late", 2), ("b", 3)):
        assert trial.open().lookup([key]).to_pylist() == row(key, value).to_pylist()


def rebuild_and_write(trial: Trial) -> None:
    trial.open().metadata_table.rebuild()
    trial.open().upsert(row("b", 3))


def test_a_late_rebuild_leaves_a_new_metadata_table_alone(indexed: MemoryStore) -> None:
    trial = Trial(indexed)
    is_changed = [False]

    def is_listed_no_more(path: str) -> bool:
        """Before the backup goes: the properties are changed, and the folder is next."""
        is_changed[0] |= path.endswith("hoodie.properties")
        return is_changed[0] and path.endswith("hoodie.properties.backup")

    late = trial.paused(LEASE_ENDS_S, lambda: rebuild_and_write(trial), is_listed_no_more)
    with pytest.raises(bf.ConflictError, match="lock was lost"):
        trial.open(late).metadata_table.rebuild()
    trial.check({"x": 0, "y": 1, "late": 2, "b": 3})


@pytest.mark.parametrize("partition", ["files", "record_index"])
def test_what_a_late_rebuild_removed_is_made_anew(indexed: MemoryStore, partition: str) -> None:
    trial = Trial(indexed)
    late = trial.paused(
        LEASE_ENDS_S,
        lambda: rebuild_and_write(trial),
        lambda path: path == f".hoodie/metadata/{partition}",
    )
    with (
        pytest.warns(UserWarning, match=f"{partition} of the metadata table lacks file groups"),
        pytest.raises(bf.ConflictError, match="lock"),
    ):
        trial.open(late).metadata_table.rebuild()
    trial.check({"x": 0, "y": 1, "late": 2, "b": 3})
    assert trial.open().lookup(["b"]).to_pylist() == row("b", 3).to_pylist()


@pytest.fixture(scope="module")
def indexed_by_partition(tmp_path_factory: pytest.TempPathFactory) -> MemoryStore:
    """As `indexed`, with a record index that has file groups for each partition."""
    path: Path = tmp_path_factory.mktemp("by-partition") / "t"
    table = create(
        path, index=bf.RecordIndex(partitioned=True), writer=bf.WriterConfig(services=None)
    )
    for key, value, partition in (("x", 0, "p"), ("y", 1, "q")):
        table.upsert(row(key, value, partition))
    return MemoryStore.of_folder(path)


class HalfRemoved(PausedStore):
    """Stands still once it has listed a folder that is to go, and removes one of these files."""

    def delete_tree(self, path: str) -> None:
        if self._meanwhile is None or not self._before(path):
            super().delete_tree(path)
            return
        last = max(file.path for file in self.list(f"{path}/record_index"))
        self._pause(path)
        self.delete(last)


def rebuild_late(trial: Trial, folder: str, kind: type[PausedStore]) -> None:
    """Have a rebuild stand still before or while it removes a folder, which another makes anew."""

    def meanwhile() -> None:
        trial.clock.sleep(LEASE_ENDS_S)
        rebuild_and_write(trial)

    trial.open().metadata_table.rebuild()  # names are those of the next one
    late = kind(trial.files, meanwhile, lambda path: path == folder)
    with (
        pytest.warns(UserWarning, match="record_index of the metadata table lacks file groups"),
        pytest.raises(bf.ConflictError, match="lock"),
    ):
        trial.open(late).metadata_table.rebuild()


@pytest.mark.parametrize(
    ("folder", "kind"),
    [(".hoodie/metadata", HalfRemoved), (".hoodie/metadata/record_index", PausedStore)],
)
def test_what_a_late_rebuild_removed_of_a_partitioned_index_is_made_anew(
    indexed_by_partition: MemoryStore, folder: str, kind: type[PausedStore]
) -> None:
    """The index had no file group any more, and an upsert added rows with keys that were there."""
    trial = Trial(indexed_by_partition)
    rebuild_late(trial, folder, kind)
    for key, value, partition in (("x", 5, "p"), ("y", 6, "q")):
        trial.open().upsert(row(key, value, partition))
    trial.check({"x": 5, "y": 6, "b": 3})


def test_a_file_that_a_late_rebuild_removed_is_made_anew(indexed: MemoryStore) -> None:
    """The base file alone of a file group was gone, whose log file holds nothing."""
    trial = Trial(indexed)
    rebuild_late(trial, ".hoodie/metadata", HalfRemoved)
    trial.check({"x": 0, "y": 1, "late": 2, "b": 3})


def test_no_write_goes_to_file_groups_that_nobody_made_to_the_end(indexed: MemoryStore) -> None:
    """Its log file was all that the file group had: files were missing to readers."""
    trial = Trial(indexed)
    folder, timeline = ".hoodie/metadata/files", ".hoodie/metadata/.hoodie"
    if trial.open().config.table_version >= 8:
        timeline += "/timeline"
    trial.files.delete_tree(folder)
    trial.files.put_if_absent(f"{timeline}/00000000000000099.deltacommit.requested", b"")
    trial.files.put_if_absent(f"{folder}/.files-0000-0_00000000000000099.log.1_0-0-0", b"")
    with pytest.raises(bf.CorruptError, match=r"not all file groups of files.*make .* anew"):
        trial.open().upsert(row("c", 4))
    assert {finding.id for finding in trial.open().check().findings} == {"M002"}
    trial.open().metadata_table.rebuild()
    trial.open().upsert(row("c", 4))
    trial.check({"x": 0, "y": 1, "late": 2, "c": 4})


@pytest.mark.rotated(1)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_compaction_whose_clock_stood_still(tmp_path: Path, is_first: bool) -> None:
    """Who began it again had removed the files that the other then published: they were gone."""
    table = create(tmp_path / "t", table_type="MERGE_ON_READ", table_version=9)
    for given in (row("x", -1), row("y", -1, "q"), row("x", 0), row("y", 0, "q")):
        table.upsert(given)
    trial = Trial(MemoryStore.of_folder(tmp_path / "t"))
    first = trial.open(services=None).start_compaction()
    assert first is not None
    receipts = [first.task.compact(p, f"{n}-0-1") for n, p in enumerate(first.payloads)]
    second = trial.open(services=None, ahead_s=HEARTBEAT_ENDS_S).start_compaction()
    assert second is not None
    assert second.instant == first.instant
    again = [second.task.compact(p, f"{n}-0-2") for n, p in enumerate(second.payloads)]
    if is_first:
        with pytest.raises(bf.ConflictError, match="was begun again by another process"), first:
            first.publish(receipts)
    with second:
        second.publish(again)
    if not is_first:
        with pytest.raises(bf.ConflictError, match="where it should be inflight"), first:
            first.publish(receipts)
    trial.check(BEFORE)
