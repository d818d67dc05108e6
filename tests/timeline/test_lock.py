from __future__ import annotations

import json
import os
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from bucketfmt.errors import LockTimeoutError, StorageError, UnsupportedError
from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import WRITE_VERBS, Store
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore, Killed
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.locking.file_system_based_lock import FileSystemBasedLock
from bucketfmt.timeline.locking.held_mutex import HeldMutex
from bucketfmt.timeline.locking.in_process_lock import InProcessLock
from bucketfmt.timeline.locking.lock import LockProvider, TableLock, Waiting
from bucketfmt.timeline.locking.storage_based_lock import StorageBasedLock
from tests.timeline.counting import COUNTER, count, count_in_processes

LOCK = ".hoodie/lock"
NOT_AT_ALL = Waiting(timeout_s=0)


def file_lock(store: Store, **options) -> FileSystemBasedLock:
    return FileSystemBasedLock(store, **{"waiting": NOT_AT_ALL, **options})


# --- waiting


class FakeTime:
    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


def waiting(clock: FakeTime, timeout_s: float, random: float) -> Waiting:
    return Waiting(
        timeout_s, 0.01, 1.0, random=lambda: random, monotonic=clock.monotonic, sleep=clock.sleep
    )


def test_pauses_double_up_to_the_longest_and_the_last_try_is_at_the_end() -> None:
    clock = FakeTime()
    assert len(list(waiting(clock, 5, 0.0).tries())) == len(clock.slept) + 1
    assert clock.slept[:8] == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0]
    assert clock.time == pytest.approx(5)
    assert max(clock.slept) == 1.0


def test_pauses_are_shortened_at_random_by_up_to_half() -> None:
    clock = FakeTime()
    list(waiting(clock, 1, 1.0).tries())
    assert clock.slept[:3] == [0.005, 0.01, 0.02]


def test_no_time_to_wait_is_one_try() -> None:
    assert len(list(waiting(FakeTime(), 0, 0.0).tries())) == 1


@pytest.mark.parametrize("is_handed_on", [True, False])
def test_threads_that_hand_it_on_leave_it_free_for_a_pause_of_others(is_handed_on: bool) -> None:
    clock = FakeTime()

    def acquire(mutex: HeldMutex, timeout_s: float) -> bool:
        """Another thread has it until it is waited for."""
        return (timeout_s > 0 or not is_handed_on) and mutex.acquire(0)

    patient = replace(
        Waiting(monotonic=clock.monotonic, sleep=clock.sleep), acquire=acquire, longest_pause_s=0.25
    )
    provider = LockProvider(lambda own: InProcessLock("handed on", own), patient)
    free_at = []
    for _ in range(60):
        before = len(clock.slept)
        with provider.taken() as lock:
            assert lock.holds()
            if len(clock.slept) > before:
                free_at.append(clock.time)
            clock.time += 0.1
    assert set(clock.slept) == ({0.25} if is_handed_on else set())
    # Each 2.5 s, and what a holder is late by.
    assert free_at == pytest.approx([2.75, 5.5] if is_handed_on else [], abs=0.11)


# --- every lock


@pytest.fixture(params=["in-process", "file"])
def two_locks(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[TableLock, TableLock]:
    if request.param == "in-process":
        name = str(tmp_path)
        return InProcessLock(name, NOT_AT_ALL), InProcessLock(name, NOT_AT_ALL)
    return file_lock(open_store(tmp_path)), file_lock(open_store(tmp_path))


def test_one_has_it_at_a_time(two_locks: tuple[TableLock, TableLock]) -> None:
    one, other = two_locks
    assert not one.holds()
    with one:
        assert one.holds()
        assert not other.holds()
        with pytest.raises(LockTimeoutError, match=r"could not be acquired in 0 s.*Retry later"):
            other.acquire()
        assert one.holds()
        with pytest.raises(RuntimeError, match="reentrant"):
            one.acquire()
    assert not one.holds()
    with other:
        assert other.holds()
    one.release()
    with one:
        assert one.holds()


def test_it_is_given_back_when_the_work_fails(two_locks: tuple[TableLock, TableLock]) -> None:
    one, other = two_locks
    with pytest.raises(ZeroDivisionError), one:
        raise ZeroDivisionError
    with other:
        assert other.holds()


def test_who_waits_gets_it(tmp_path: Path) -> None:
    """The owner gives it back while the other pauses."""
    one = file_lock(open_store(tmp_path))
    one.acquire()
    patient = Waiting(
        timeout_s=3600, sleep=lambda _: one.release(), monotonic=iter(range(100)).__next__
    )
    other = file_lock(open_store(tmp_path), waiting=patient)
    other.acquire()
    assert other.holds()


def test_threads_exclude_each_other() -> None:
    total = 0

    def add(_: int) -> None:
        nonlocal total
        for _ in range(20):
            with InProcessLock("threads", Waiting(timeout_s=240, longest_pause_s=0.001)):
                before = total
                time.sleep(0)
                total = before + 1

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(add, range(6)))
    assert total == 120


def test_tables_have_locks_of_their_own_which_end_with_them() -> None:
    from bucketfmt.timeline.locking import in_process_lock

    with InProcessLock("a"), InProcessLock("b", NOT_AT_ALL):
        assert {"a", "b"} <= set(in_process_lock._mutexes)
    assert "a" not in in_process_lock._mutexes


# --- the file of FileSystemBasedLockProvider


def test_threads_exclude_each_other_by_a_file(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.put_if_absent(COUNTER, b"0")
    threads = [threading.Thread(target=count, args=("file", store, 15)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.read(COUNTER, 9) == b"75"
    assert store.info(LOCK) is None


def test_processes_exclude_each_other_by_a_file(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.put_if_absent(COUNTER, b"0")
    assert count_in_processes("file", str(tmp_path), {}, 3, 15) == [0] * 3
    assert store.read(COUNTER, 9) == b"45"
    assert [info.name for info in store.list(".hoodie")] == []


def test_the_file_says_who_made_it_in_the_words_of_hudi(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with file_lock(store, now=lambda: 1704067200.0255):
        text = (tmp_path / LOCK).read_text()
        info = json.loads(text)
    assert list(info) == ["lockCreateTime", "lockThreadName", "lockStacksInfo", "owner"]
    assert info["lockCreateTime"][-6:] == "00.025"
    assert info["lockThreadName"].endswith(f"process {os.getpid()}")
    assert text.startswith('{\n  "lockCreateTime" : "')  # as Jackson prints it
    assert not (tmp_path / LOCK).exists()


def test_the_lock_of_a_hudi_writer_is_respected(tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    (tmp_path / LOCK).touch()
    os.utime(tmp_path / LOCK, (1_700_000_000, 1_700_000_000))
    store = open_store(tmp_path)
    with pytest.raises(
        LockTimeoutError,
        match=r"lock exists since 2023-11-14 22:13:20\+00:00 and never expires: "
        "if its writer died, delete the file; owner a Hudi",
    ):
        file_lock(store).acquire()
    assert (tmp_path / LOCK).read_bytes() == b""
    (tmp_path / LOCK).unlink()
    with file_lock(store) as lock:
        assert lock.holds()


def test_the_path_of_flink(tmp_path: Path) -> None:
    with file_lock(open_store(tmp_path), path=".hoodie/.aux/lock", expire_minutes=1):
        assert (tmp_path / ".hoodie/.aux/lock").exists()
        assert not (tmp_path / LOCK).exists()


@pytest.mark.parametrize("content", [b"", b'{"owner": "dead"}'])
def test_an_expired_lock_is_taken_over(tmp_path: Path, content: bytes) -> None:
    store = open_store(tmp_path)
    store.put_if_absent(LOCK, content)
    written = (tmp_path / LOCK).stat().st_mtime
    lock = file_lock(store, expire_minutes=1, now=lambda: written + 3600)  # an hour ahead
    with pytest.raises(LockTimeoutError, match="expires after 1 min"):
        lock.acquire()
    os.utime(tmp_path / LOCK, (written - 61, written - 61))
    lock.acquire()
    assert lock._owner.encode() in (tmp_path / LOCK).read_bytes()
    never = file_lock(store, now=lambda: written + 10**9)
    with pytest.raises(LockTimeoutError, match="never expires"):
        never.acquire()


def test_of_several_who_take_over_one_succeeds(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.put_if_absent(LOCK, b"")
    os.utime(tmp_path / LOCK, (1, 1))
    start = threading.Barrier(6)

    def take(_: int) -> bool:
        lock = file_lock(open_store(tmp_path), expire_minutes=1)
        start.wait()
        try:
            lock.acquire()
        except LockTimeoutError:
            return False
        return lock.holds()

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(take, range(6))).count(True) == 1


def test_holds_sees_that_it_was_lost(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    lock = file_lock(store)
    lock.acquire()
    store.delete(LOCK)  # as a Hudi writer does when it closes, whoever has the lock
    assert not lock.holds()
    store.put_if_absent(LOCK, b"")  # ... and takes it
    assert not lock.holds()
    lock.release()
    assert store.info(LOCK) is not None  # it is that writer's


def test_holds_sees_that_the_end_is_near(tmp_path: Path) -> None:
    now = [time.time()]
    lock = file_lock(open_store(tmp_path), expire_minutes=1, now=lambda: now[0])
    lock.acquire()
    now[0] += 53
    assert lock.holds()
    now[0] += 2
    assert not lock.holds()
    now[0] += 60
    lock.release()
    assert (tmp_path / LOCK).exists()  # someone may be taking it over


def test_a_try_that_took_effect_and_failed_is_not_waited_for() -> None:
    store = FaultyStore(MemoryStore(), FaultPlan(1, Fault.FAIL_AFTER, verbs=WRITE_VERBS))
    lock = file_lock(store, waiting=Waiting(timeout_s=60, sleep=lambda _: None))
    lock.acquire()
    assert lock.holds()
    lock.release()
    assert store.info(LOCK) is None


@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER])
def test_one_failure_is_survived_wherever_it_is(at: int, fault: Fault) -> None:
    memory = MemoryStore()
    store = FaultyStore(memory, FaultPlan(at, fault))
    lock = file_lock(store, waiting=Waiting(timeout_s=60, sleep=lambda _: None))
    lock.acquire()
    try:
        assert lock.holds()
    except StorageError:
        assert lock.holds()
    lock.release()
    assert memory.files == {}
    with file_lock(memory) as lock:
        assert lock.holds()


def test_who_gives_up_after_failures_leaves_no_lock_behind() -> None:
    """The tries took effect, but no one was told: without expiry it would be for ever."""
    memory = MemoryStore()
    store = FaultyStore(memory, FaultPlan(1, Fault.FAIL_AFTER, verbs=WRITE_VERBS))
    with pytest.raises(LockTimeoutError):
        file_lock(store).acquire()
    assert memory.files == {}


def test_a_store_that_is_away_is_not_tried_for_ever() -> None:
    store = FaultyStore(MemoryStore(), FaultPlan(1, Fault.FAIL_BEFORE, lasting=True))
    with pytest.raises(StorageError):
        file_lock(store, waiting=Waiting(timeout_s=3600, sleep=lambda _: None)).acquire()
    assert len(store.operations) <= 6


def test_a_lock_that_cannot_be_given_back_is_a_warning_that_says_what_to_do() -> None:
    memory = MemoryStore()
    plan = FaultPlan(2, Fault.FAIL_BEFORE, verbs=WRITE_VERBS, lasting=True)
    lock = file_lock(FaultyStore(memory, plan), waiting=Waiting(sleep=lambda _: None))
    lock.acquire()
    with pytest.warns(RuntimeWarning, match=r"could not be given back.*Delete \.hoodie/lock"):
        lock.release()
    assert LOCK in memory.files
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lock.release()


def test_a_killed_owner_leaves_the_lock_to_its_expiry(tmp_path: Path) -> None:
    store = FaultyStore(open_store(tmp_path), FaultPlan(1, Fault.KILL_AFTER, verbs=WRITE_VERBS))
    with pytest.raises(Killed):
        file_lock(store, expire_minutes=1).acquire()
    with pytest.raises(LockTimeoutError):
        file_lock(open_store(tmp_path), expire_minutes=1).acquire()
    left = time.time() - 61
    os.utime(tmp_path / LOCK, (left, left))
    with file_lock(open_store(tmp_path), expire_minutes=1) as lock:
        assert lock._owner.encode() in (tmp_path / LOCK).read_bytes()


def test_taking_and_holding_ask_the_store_little(tmp_path: Path) -> None:
    store = RecordingStore(open_store(tmp_path))
    lock = file_lock(store)
    lock.acquire()
    assert [operation.verb for operation in store.operations] == ["info", "put_if_absent", "read"]
    lock.holds()
    lock.release()
    assert [o.verb for o in store.operations[3:]] == ["read", "read", "read", "delete"]


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        file_lock(MemoryStore(), expire_minutes=-1)


def test_a_lock_of_the_other_kind_is_told_before_anything_is_published(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    now = time.time()  # stands still: leases of one millisecond differ too
    lock, lease = file_lock(store), StorageBasedLock(store, now=lambda: now)
    with lease, pytest.raises(UnsupportedError, match="holds the lock of the other kind"):
        lock.acquire()
    assert store.info(LOCK) is None
    with lock:  # the lease was given back
        assert lock.holds()
        with lease:
            pass
        with pytest.raises(UnsupportedError, match="acquired the lock of the other kind"):
            lock.holds()
