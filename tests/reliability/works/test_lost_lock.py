"""A writer stands still between the look at its lock and the file that publishes, and goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.names.instants import State, find_instant_file
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.store import WRITE_VERBS, Store
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore, Killed
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.testing.simulated_machine import SimulatedMachine
from bucketfmt.timeline.table_properties import load_config

LEASE_ENDS_S, HEARTBEAT_ENDS_S = 30.0, 600.0
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])


def row(key: str, value: int, partition: str = "p") -> pa.Table:
    return pa.table({"id": [key], "p": [partition], "v": [value]}, SCHEMA)


class PausedStore(RecordingStore):
    """Stands still before the first file that completes an instant is put."""

    def __init__(self, store: Store, meanwhile: Callable[[], object]) -> None:
        super().__init__(store)
        self._meanwhile: Callable[[], object] | None = meanwhile

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        folder, _, name = path.rpartition("/")
        layout = 2 if folder.endswith("timeline") else 1
        file = find_instant_file(name, layout) if folder.startswith(".hoodie") else None
        if file is not None and file.state is State.COMPLETED and self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
        return super().put_if_absent(path, data)


class Trial:
    """One table, its writers, and the clock that they share."""

    def __init__(self, files: MemoryStore) -> None:
        self.files = files.copy()
        self.clock = SimulatedMachine(1, 1_800_000_000.0)
        self.files.now = self.clock.now
        self._seeds = count(2)

    def open(self, store: Store | None = None, **options: Any) -> bf.Table:
        seed = SimulatedMachine(next(self._seeds))
        machine = replace(self.clock.machine, randbits=seed.machine.randbits)
        config = load_config(store or self.files, DEFAULT_LIMITS)
        writer = bf.WriterConfig(machine=machine, **options)
        return bf.Table(store or self.files, config, DEFAULT_LIMITS, None, writer)

    def paused(self, pause_s: float, meanwhile: Callable[[], object]) -> PausedStore:
        def stand_still() -> None:
            self.clock.sleep(pause_s)
            meanwhile()

        return PausedStore(self.files, stand_still)

    def check(self, expected: dict[str, int], *, and_maybe: str = "") -> None:
        """The table has these rows, a full check finds nothing, and later writes go on."""
        self.clock.sleep(2 * HEARTBEAT_ENDS_S)
        for written in ({}, {"later": 9}):
            for key, value in written.items():
                self.open().upsert(row(key, value))
            found = {r["id"]: r["v"] for r in self.open().scan().to_arrow().to_pylist()}
            found.pop(and_maybe, None)
            assert found == {**expected, **written}
            report = self.open().check(depth="full")
            assert report.status == "clean", report.findings
        assert not self.open().timeline.pending.instants


KINDS = [(v, t) for v in (6, 9) for t in ("COPY_ON_WRITE", "MERGE_ON_READ")]


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: f"{kind[0]}-{kind[1]}")
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> MemoryStore:
    version, table_type = request.param
    path: Path = tmp_path_factory.mktemp("table") / "t"
    table = bf.create(
        str(path),
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["p"],
        index=bf.SimpleBucketIndex(1),
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


def test_a_late_commit_in_conflict_with_no_other_stands(files: MemoryStore) -> None:
    trial = Trial(files)
    store = trial.paused(LEASE_ENDS_S, lambda: trial.open().upsert(row("b", 2, "q")))
    late = trial.open(store)
    result = late.upsert(row("a", 1), retries=0)
    assert result.instant in [i.requested_time for i in trial.open().timeline.completed.instants]
    trial.check({**BEFORE, "a": 1, "b": 2})


def test_a_late_commit_that_others_stand_on_stays_and_its_writer_is_told(
    files: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trial(files)
    store = trial.paused(LEASE_ENDS_S, lambda: trial.open().upsert(row("b", 2)))
    late = trial.open(store)
    monkeypatch.setattr(
        "bucketfmt.write.commit.transaction.Transaction._is_built_on", lambda *_: True
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
