from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bucketfmt.errors import CorruptError, LockTimeoutError, StorageError
from bucketfmt.format.table.table_lock import TableLease, decode_table_lease, encode_table_lease
from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import WRITE_VERBS, FileInfo, Store
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore, Killed
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.simulated_machine import ByHand, SimulatedMachine
from bucketfmt.timeline.locking.lock import Waiting
from bucketfmt.timeline.locking.storage_based_lock import StorageBasedLock
from tests.timeline.counting import COUNTER, count, count_in_processes
from tests.timeline.timed_store import TimedStore

pytestmark = pytest.mark.rotated

FILE = ".hoodie/.locks/table_lock.json"
NOT_AT_ALL = Waiting(timeout_s=0)
AT_ONCE = Waiting(timeout_s=60, sleep=lambda _: None)


class Clock(SimulatedMachine):
    ms = 1_700_000_000_123

    def __init__(self) -> None:
        super().__init__()
        self.put_times: dict[str, float] = {}

    def __call__(self) -> float:
        return (self.ms + 0.5) / 1000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def renewals(clock: Clock) -> list[ByHand]:
    """The renewals that were started: called by hand, in place of a thread each."""
    return clock.repeated


def lock_of(store: Store, clock: Clock, waiting: Waiting = NOT_AT_ALL) -> StorageBasedLock:
    timed = TimedStore(store, clock, clock.put_times)
    return StorageBasedLock(timed, now=clock, repeat=clock.repeat, waiting=waiting)


def lease_in(store: Store) -> TableLease:
    return decode_table_lease(store.read(FILE, 1000))


@pytest.fixture(params=["disk", "s3", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where a table is: its URI and storage options."""
    if request.param == "disk":
        yield str(tmp_path), {}
    elif request.param == "memory":
        yield f"memory://{uuid.uuid4().hex}", {}
    else:
        yield f"s3://tables/{uuid.uuid4().hex}", request.getfixturevalue("s3_options")


def test_the_life_of_a_lease(place: tuple[str, dict], clock: Clock, renewals: list) -> None:
    store = open_store(*place)
    lock = lock_of(store, clock)
    lock.acquire()
    owner = lock._owner
    assert str(uuid.UUID(owner)) == owner
    # To the byte what Hudi 1.2.0 writes.
    assert store.read(FILE, 1000) == (
        b'{"expired":false,"validUntil":1700000300123,"owner":"%s"}' % owner.encode()
    )
    assert lock.holds()
    clock.ms += 30_000
    assert [renewal.interval_s for renewal in renewals] == [30.0]
    assert renewals[0].call() is True
    assert lease_in(store) == TableLease(False, 1700000330123, owner)
    assert lock.holds()
    lock.release()
    assert renewals[0].stopped
    assert not lock.holds()
    assert store.read(FILE, 1000) == (
        b'{"expired":true,"validUntil":1700000330123,"owner":"%s"}' % owner.encode()
    )
    other = lock_of(open_store(*place), clock)
    other.acquire()
    assert lease_in(store) == TableLease(False, 1700000330123, other._owner)
    other.release()
    lock.acquire()
    assert lock.holds()


def test_a_lease_excludes_until_half_a_second_after_its_end(
    place: tuple[str, dict], clock: Clock, renewals: list
) -> None:
    store = open_store(*place)
    hudi = TableLease(False, clock.ms + 1000, "hudi")
    store.put_if_absent(FILE, encode_table_lease(hudi))
    clock.put_times[FILE] = clock() - 299
    lock = lock_of(store, clock)
    told = rf"hudi has held it since {re.escape(text_of(clock.ms))} or earlier, "
    with pytest.raises(LockTimeoutError, match=told + ".* the lease lasts 1 s more unless"):
        lock.acquire()
    clock.ms += 1500
    with pytest.raises(LockTimeoutError, match=told):  # since this owner saw it first
        lock.acquire()
    assert lease_in(store) == hudi
    clock.ms += 1
    lock.acquire()
    assert lease_in(store) == TableLease(False, clock.ms + 300_000, lock._owner)


def text_of(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, timezone.utc).isoformat(" ", "seconds")


@pytest.mark.parametrize("ahead_ms", [301_000, 3_600_000])
def test_a_clock_that_is_ahead_ends_no_lease(
    place: tuple[str, dict], clock: Clock, renewals: list, ahead_ms: int
) -> None:
    store = open_store(*place)
    ahead = Clock()
    ahead.put_times = clock.put_times
    ahead.ms = clock.ms + ahead_ms
    timed = TimedStore(store, clock, clock.put_times)  # whose time is that of the owner
    other = StorageBasedLock(timed, now=ahead, repeat=clock.repeat, waiting=NOT_AT_ALL)
    with lock_of(store, clock) as lock:
        with pytest.raises(LockTimeoutError, match="has ended by the clock of this machine, and"):
            other.acquire()
        assert lock.holds()
    other.acquire()  # released, which no clock is asked for
    assert lease_in(store).owner == other._owner


def test_where_the_store_tells_no_times_a_lease_ends_by_the_clock(
    clock: Clock, renewals: list
) -> None:
    class Timeless(MemoryStore):
        def info(self, path: str) -> FileInfo | None:
            found = super().info(path)
            return None if found is None else msgspec.structs.replace(found, modified=None)

    store = Timeless({FILE: encode_table_lease(TableLease(False, clock.ms - 501, "dead"))})
    with StorageBasedLock(store, now=clock, repeat=clock.repeat, waiting=NOT_AT_ALL) as lock:
        assert lock.holds()


def test_holds_sees_that_it_was_lost(place: tuple[str, dict], clock: Clock, renewals: list) -> None:
    store = open_store(*place)
    lock = lock_of(store, clock)
    lock.acquire()
    clock.ms += 269_000
    assert lock.holds()
    clock.ms += 1_001  # less is left than a renewal may take
    assert not lock.holds()
    clock.ms += 30_500
    other = lock_of(open_store(*place), clock)
    other.acquire()
    assert other.holds()
    assert not lock.holds()
    assert renewals[0].call() is False
    assert renewals[0].call() is False
    assert not lock.holds()
    lock.release()
    assert lease_in(store).owner == other._owner
    assert other.holds()


def test_a_lease_that_was_taken_and_given_back_meanwhile_is_lost(
    clock: Clock, renewals: list
) -> None:
    store = MemoryStore()
    lock = lock_of(store, clock)
    lock.acquire()
    clock.ms += 301_000
    with lock_of(store, clock):
        pass
    assert renewals[0].call() is False
    assert not lock.holds()


def test_a_lock_file_that_was_removed_is_a_lost_lock(clock: Clock, renewals: list) -> None:
    store = MemoryStore()
    lock = lock_of(store, clock)
    lock.acquire()
    store.delete(FILE)
    assert not lock.holds()
    assert renewals[0].call() is False
    lock.release()
    assert store.files == {}


def test_threads_exclude_each_other(place: tuple[str, dict]) -> None:
    store = open_store(*place)
    store.put_if_absent(COUNTER, b"0")
    threads = [
        threading.Thread(target=count, args=("lease", open_store(*place), 3)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.read(COUNTER, 9) == b"9"


def test_processes_exclude_each_other_on_a_disk(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.put_if_absent(COUNTER, b"0")
    assert count_in_processes("lease", str(tmp_path), {}, 3, 15) == [0] * 3
    assert store.read(COUNTER, 9) == b"45"


@pytest.mark.rotated(0, among="several processes", one_of=4)
def test_processes_exclude_each_other_on_s3(s3_options: dict[str, Any]) -> None:
    uri = f"s3://tables/{uuid.uuid4().hex}"
    store = open_store(uri, s3_options)
    store.put_if_absent(COUNTER, b"0")
    assert count_in_processes("lease", uri, s3_options, 2, 3) == [0] * 2
    assert store.read(COUNTER, 9) == b"6"


def test_of_several_who_come_at_once_one_succeeds(
    place: tuple[str, dict], clock: Clock, renewals: list
) -> None:
    for content in (None, encode_table_lease(TableLease(True, clock.ms, "someone"))):
        store = open_store(*place)
        if content is not None:
            store.replace(FILE, content)
        start = threading.Barrier(4)

        def take(_: int, start: threading.Barrier = start) -> bool:
            lock = lock_of(open_store(*place), clock)
            start.wait()
            try:
                lock.acquire()
            except LockTimeoutError:
                return False
            return lock.holds()

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(take, range(4))).count(True) == 1


@pytest.mark.parametrize("at", range(1, 12))
@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER])
def test_one_failure_is_survived_wherever_it_is(
    at: int, fault: Fault, clock: Clock, renewals: list
) -> None:
    memory = MemoryStore()
    store = FaultyStore(memory, FaultPlan(at, fault))
    lock = lock_of(store, clock, AT_ONCE)

    def insist(ask: Callable[[], bool]) -> bool:
        try:
            return ask()
        except StorageError:
            return ask()

    lock.acquire()
    assert insist(lock.holds)
    clock.ms += 30_000
    assert insist(renewals[-1].call)
    assert insist(lock.holds)
    lock.release()
    left, until_ms = lease_in(memory), clock.ms + 300_000
    assert (left.expired, left.owner) == (True, lock._owner)
    # A renewal that is tried again within a millisecond puts a lease that ends one later.
    assert left.valid_until in (until_ms, until_ms + 1)
    with lock_of(memory, clock) as other:
        assert other.holds()


def test_who_gives_up_after_failures_leaves_no_lease_behind(clock: Clock, renewals: list) -> None:
    memory = MemoryStore()
    store = FaultyStore(memory, FaultPlan(1, Fault.FAIL_AFTER, verbs=WRITE_VERBS))
    with pytest.raises(LockTimeoutError):
        lock_of(store, clock).acquire()
    assert lease_in(memory).expired
    with lock_of(memory, clock) as other:
        assert other.holds()


@pytest.mark.parametrize("at", range(1, 12))
@pytest.mark.parametrize("fault", [Fault.KILL_BEFORE, Fault.KILL_AFTER, Fault.KILL_TORN])
def test_a_killed_owner_is_succeeded_when_its_lease_ends(
    at: int, fault: Fault, clock: Clock, renewals: list
) -> None:
    memory = MemoryStore()
    store = FaultyStore(memory, FaultPlan(at, fault))
    try:
        with lock_of(store, clock, AT_ONCE) as lock:
            assert lock.holds()
            clock.ms += 30_000
            renewals[-1].call()
    except Killed:
        assert all(renewal.stopped for renewal in renewals)
    clock.ms += 300_501
    with lock_of(memory, clock) as other:
        assert other.holds()


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff"])
def test_what_is_no_lock_file_is_no_free_lock(content: bytes, clock: Clock, renewals: list) -> None:
    store = MemoryStore({FILE: content})
    with pytest.raises(CorruptError) as caught:
        lock_of(store, clock).acquire()
    assert caught.value.path == FILE
    assert store.files == {FILE: content}


def test_a_lease_that_cannot_be_given_back_is_a_warning(clock: Clock, renewals: list) -> None:
    plan = FaultPlan(2, Fault.FAIL_BEFORE, verbs=WRITE_VERBS, lasting=True)
    lock = lock_of(FaultyStore(MemoryStore(), plan), clock, AT_ONCE)
    lock.acquire()
    with pytest.warns(RuntimeWarning, match="It ends by itself in at most 300 s"):
        lock.release()


def test_it_renews_by_itself() -> None:
    renewed = threading.Event()

    class Watched(MemoryStore):
        puts = 0

        def replace_if(self, path: str, data: bytes, version: str) -> str | None:
            self.puts += 1
            if self.puts == 3:
                renewed.set()
            return super().replace_if(path, data, version)

    store = Watched()
    with StorageBasedLock(store, validity_s=300, renew_s=0.001) as lock:
        assert renewed.wait(30)
        assert lock.holds()
    assert lease_in(store).expired


def test_wrong_arguments() -> None:
    for validity_s, renew_s in ((299, 30), (300, 0), (300, -1)):
        with pytest.raises(ValueError, match="ten times"):
            StorageBasedLock(MemoryStore(), validity_s=validity_s, renew_s=renew_s)
