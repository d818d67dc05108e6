"""How many requests the main works send to an object store, and how many wait for one another.

Nothing takes time here. Each request takes a tick of a clock, and what a pool of threads does at
the same time begins at the same tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bucketfmt as bf
from bucketfmt.api.table import Table
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage import streams
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.clock import InstantClock
from bucketfmt.timeline.locking.early_heartbeat import EarlyHeartbeat
from bucketfmt.timeline.locking.heartbeat import Heartbeats
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.timeline.timeline import Timeline, plan_timeline
from tests.write.metadata.metadata_records import assert_in_step
from tests.write.models import create_table, rows

_COMMITS = 8
_VERBS = {
    **dict.fromkeys(("read", "read_versioned", "open_arrow", "list", "info"), 1),
    **dict.fromkeys(("put_if_absent", "replace", "replace_if", "delete"), 1),
    "delete_tree": 2,  # a listing, then a request for what is there
}


class Ticks:
    """The requests, and the depth of the last one."""

    def __init__(self) -> None:
        self.number = self.now = 0
        self.told: list[tuple[str, str]] = []
        self.is_within = False


class CountedStore(MemoryStore):
    """A store in memory that stands for one over a network."""

    ticks: Ticks

    @property
    def failures_are_final(self) -> bool:
        return False

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in _VERBS:
            return found

        def counted(path: str, *arguments: object) -> Any:
            ticks = self.ticks
            if not ticks.is_within:  # a verb of the store in memory calls another
                ticks.number += _VERBS[name]
                ticks.now += _VERBS[name]
                ticks.told.append((name, path))
            before, ticks.is_within = ticks.is_within, True
            try:
                return found(path, *arguments)
            finally:
                ticks.is_within = before

        return counted


class Pool:
    """A pool of threads that makes each call at once, and sets the clock back."""

    ticks: Ticks

    def __init__(self, _workers: int) -> None:
        self._ended = 0

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_error: object) -> None:
        self.ticks.now = max(self.ticks.now, self._ended)

    def submit(self, call: Callable[..., Any], *arguments: object) -> Done:
        began = self.ticks.now
        try:
            return Done(self.ticks, call(*arguments))
        finally:
            self._ended = max(self._ended, self.ticks.now)
            self.ticks.now = began

    def map(self, call: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        done = [self.submit(call, item) for item in items]
        return iter([each.result() for each in done])


class Done:
    def __init__(self, ticks: Ticks, value: Any) -> None:
        self._ticks, self._value, self._ended = ticks, value, ticks.now

    def result(self) -> Any:
        self._ticks.now = max(self._ticks.now, self._ended)
        return self._value

    def cancel(self) -> None:
        """Do nothing: it is done."""


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Ticks:
    ticks = Ticks()
    monkeypatch.setattr(Pool, "ticks", ticks, raising=False)
    monkeypatch.setattr(CountedStore, "ticks", ticks, raising=False)
    monkeypatch.setattr(streams, "ThreadPoolExecutor", Pool)
    return ticks


@contextmanager
def at_most(ticks: Ticks, requests: int, depth: int) -> Iterator[None]:
    ticks.number = ticks.now = 0
    ticks.told = []
    yield
    told = "\n".join(f"{verb} {path}" for verb, path in ticks.told)
    assert (ticks.number <= requests, ticks.now <= depth) == (True, True), (
        f"{ticks.number} requests, {ticks.now} deep:\n{told}"
    )


@pytest.fixture
def store(tmp_path: Path, ticks: Ticks) -> CountedStore:
    """Return a table of three partitions and several commits."""
    return make(tmp_path, "COPY_ON_WRITE")


def make(tmp_path: Path, table_type: Literal["COPY_ON_WRITE", "MERGE_ON_READ"]) -> CountedStore:
    table = create_table(
        f"{tmp_path}/trips",
        bf.SimpleBucketIndex(2),
        table_type,
        writer=bf.WriterConfig(services=None),
    )
    for ts in range(_COMMITS):
        table.upsert(rows(range(30), ts))
    return CountedStore.of_folder(f"{tmp_path}/trips")  # type: ignore[return-value]


def opened(store: CountedStore) -> Table:
    writer = bf.WriterConfig(services=None)
    return Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None, writer)


def test_requests_of_reads(store: CountedStore, ticks: Ticks) -> None:
    key = pa.table({"id": ["key-000003"], "region": ["us"]})
    with at_most(ticks, 1, 1):
        table = opened(store)
    # The timeline, commits beside the properties and the metadata folder, the partition, the file.
    with at_most(ticks, 5 + _COMMITS, 4):
        assert table.lookup(key).num_rows == 1
    with at_most(ticks, 2, 2):
        assert table.lookup(key).num_rows == 1
    with at_most(ticks, 5, 3):
        table.locate(["key-000003"])


def test_requests_of_look_ups_by_a_record_index(tmp_path: Path, ticks: Ticks) -> None:
    """The log files of the metadata table were read one after another, 10 deeper."""
    uri, writer = f"{tmp_path}/trips", bf.WriterConfig(services=None)
    written = create_table(uri, bf.RecordIndex(), writer=writer)
    for ts in range(_COMMITS):
        written.upsert(rows(range(30), ts))
    table = opened(CountedStore.of_folder(uri))  # type: ignore[arg-type]
    # Twice the properties, timeline, folder and files of the metadata table; the properties and the
    # timeline of the table once more, to tell that the index was as of the timeline.
    with at_most(ticks, 24 + _COMMITS, 13):
        assert table.lookup(["key-000003"]).num_rows == 1
    with at_most(ticks, 3, 3):
        assert table.lookup(["key-000003"]).num_rows == 1
    with at_most(ticks, 2, 2):
        assert table.locate(["key-000003"])["file_id"].null_count == 0


def test_own_commits_are_kept_as_they_are_read(store: CountedStore, ticks: Ticks) -> None:
    table = opened(store)
    table.upsert(rows([3, 40], 100), idempotency_key="a")
    with at_most(ticks, 2, 2):
        kept = table.state.commits
    assert kept == opened(store).state.commits
    assert kept[-1].idempotency_key == "a"


def test_an_early_heartbeat_is_used_or_removed(store: CountedStore) -> None:
    def folder() -> list[str]:
        return [entry.name for entry in store.list(".hoodie/.heartbeat")]

    def requested(time: str) -> Timeline:
        return plan_timeline([(f"{time}.commit.requested", None)], 2)

    early = EarlyHeartbeat(clock := InstantClock("UTC", clock_skew_s=0), Heartbeats(store))
    early.begin()
    (time,) = folder()
    taken = early.take(requested("20200101000000000"))
    assert taken is not None
    assert taken[0] == time
    assert early.take(requested(time)) is None
    taken[1].stop()
    for known, left in (("29990101000000000", 0), (None, 1)):
        early.begin()
        (time,) = folder()
        # The heartbeat of another writer's instant is not taken away.
        assert early.take(requested(known or time)) is None
        assert len(folder()) == left
    store.delete(f".hoodie/.heartbeat/{time}")
    early.begin()
    early.drop()
    assert folder() == []
    assert clock.next_time(()) > time


def test_requests_of_an_upsert(store: CountedStore, ticks: Ticks) -> None:
    with at_most(ticks, 27 + _COMMITS, 17):
        opened(store).upsert(rows([3], 100))
    table = opened(store)
    table.upsert(rows([3], 101))
    with at_most(ticks, 23, 14):
        table.upsert(rows([3], 102))
    # Five files more, and two partitions; the markers are in two files, which are also read.
    with at_most(ticks, 23 + 2 * 5 + 2 + 3, 14):
        table.upsert(rows(range(30), 103))
    table.upsert(rows([3], 103), idempotency_key="a")
    with at_most(ticks, 23, 14):
        table.upsert(rows([3], 104), idempotency_key="b")
    with at_most(ticks, 3, 3):
        assert table.upsert(rows([3], 105), idempotency_key="b").repeated


def test_what_rollbacks_took_back_is_read_once(store: CountedStore, ticks: Ticks) -> None:
    """Each write read all rollbacks of the timeline again, under the lock."""
    for ts in range(3):
        undone = opened(store).upsert(rows([3], 200 + ts))
        opened(store).rollback(undone.instant)
    table = opened(store)
    table.upsert(rows([3], 100))
    with at_most(ticks, 23, 14):
        table.upsert(rows([3], 101))


def test_requests_of_an_upsert_that_the_metadata_table_is_told(
    tmp_path: Path, ticks: Ticks
) -> None:
    """Each part that asked of the metadata table read it anew under the lock: 41 deep."""
    uri, writer = f"{tmp_path}/trips", bf.WriterConfig(services=None)
    written = create_table(uri, bf.SimpleBucketIndex(2), writer=writer)
    for ts in range(_COMMITS):
        written.upsert(rows(range(30), ts))
        if not ts:
            written.metadata_table.init("column_stats", "partition_stats")
    table = opened(CountedStore.of_folder(uri))  # type: ignore[arg-type]
    # Every tenth write compacts the metadata table first.
    with at_most(ticks, 106, 34):
        table.upsert(rows([3], 100))
    # Besides those of a table without: each time under the lock, definitions beside properties and
    # timeline of the metadata table; definitions; the partition; requested and inflight, beside
    # which statistics are read; folders, log files, completed.
    with at_most(ticks, 46, 24):
        table.upsert(rows([3], 101))
    assert_in_step(bf.open(_laid_out(table, tmp_path / "again")))


def test_requests_of_an_upsert_by_a_record_index(tmp_path: Path, ticks: Ticks) -> None:
    uri, writer = f"{tmp_path}/trips", bf.WriterConfig(services=None)
    written = create_table(uri, bf.RecordIndex(), writer=writer)
    for ts in range(_COMMITS):
        written.upsert(rows(range(30), ts))
    table = opened(CountedStore.of_folder(uri))  # type: ignore[arg-type]
    with at_most(ticks, 101, 37):
        table.upsert(rows([3], 100))
    with at_most(ticks, 39, 27):
        table.upsert(rows([3], 101))
    assert_in_step(bf.open(_laid_out(table, tmp_path / "again")))


def _laid_out(table: Table, folder: Path) -> Path:
    assert isinstance(table.store, MemoryStore)
    for path, data in table.store.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def test_requests_of_a_compaction(tmp_path: Path, ticks: Ticks) -> None:
    table = opened(make(tmp_path, "MERGE_ON_READ"))
    # Six file groups of a base file and seven log files; each gets a base file, and all together
    # get two files of markers. These are looked at twice: at last under the lock, whether another
    # process has begun the compaction again.
    with at_most(ticks, 95, 19):
        assert table.compact() is not None


def test_requests_of_a_rehash(tmp_path: Path, ticks: Ticks) -> None:
    table = opened(make(tmp_path, "COPY_ON_WRITE"))
    # Six file groups become twelve; all together get two files of markers, not one each.
    with at_most(ticks, 91, 45):
        assert table.rehash(4) is not None


class WaitingStore(MemoryStore):
    """A store over a network. A data file is put once all of a number are about to be put."""

    all_there: Barrier | None = None

    @property
    def failures_are_final(self) -> bool:
        return False

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        if self.all_there is not None and path.endswith(".parquet"):
            self.all_there.wait(30)
        return super().put_if_absent(path, data)


@pytest.fixture
def waiting(tmp_path: Path) -> WaitingStore:
    """Return a table of three partitions with eight buckets each, and ninety rows."""
    table = create_table(f"{tmp_path}/trips", bf.SimpleBucketIndex(8))
    table.upsert(rows(range(90), 0))
    return WaitingStore.of_folder(f"{tmp_path}/trips")  # type: ignore[return-value]


def test_file_groups_are_rewritten_side_by_side_over_a_network(waiting: WaitingStore) -> None:
    """There were as many as processors, each of which waited for the store."""
    table = opened(waiting)  # type: ignore[arg-type]
    waiting.all_there = Barrier(12)  # two buckets become one
    assert table.rehash(4) is not None
    waiting.all_there = None
    found = table.scan().to_arrow().sort_by("id")
    assert found["id"].to_pylist() == [f"key-{number:06}" for number in range(90)]
    assert len(table.files()) == 12


def test_a_task_writes_small_buckets_side_by_side_over_a_network(waiting: WaitingStore) -> None:
    """There were four from sixteen buckets on, else one."""
    table = opened(waiting)  # type: ignore[arg-type]
    given = rows(range(90), 1).filter(pc.field("region") == "eu")
    waiting.all_there = Barrier(8)
    with table.start_write("upsert", given.schema) as started:
        started.publish(started.task.write(given, "0-0-0"))
    found = table.scan(filter=pc.field("region") == "eu").to_arrow().sort_by("id")
    assert found.equals(given.sort_by("id").cast(found.schema))
