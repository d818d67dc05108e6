from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from bucketfmt.errors import ConflictError, StorageError
from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import WRITE_VERBS, FileInfo
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.testing.simulated_machine import ByHand, SimulatedMachine
from bucketfmt.timeline.locking.heartbeat import Heartbeats, check_beating, is_kept_up

T = "20240101000000000"
FILE = f".hoodie/.heartbeat/{T}"


class Clock(SimulatedMachine):
    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock(time=time.time())


@pytest.fixture
def beats(clock: Clock) -> list[ByHand]:
    """The heartbeats that were started: called by hand, in place of a thread each."""
    return clock.repeated


def test_a_heartbeat_is_an_empty_file_where_hudi_looks_for_it(clock: Clock, beats: list) -> None:
    store = MemoryStore()
    heartbeat = Heartbeats(store, now=clock, repeat=clock.repeat).start(T)
    assert store.files == {FILE: b""}
    assert [beat.interval_s for beat in beats] == [60.0]
    heartbeat.stop()
    assert store.files == {}
    assert beats[0].stopped
    heartbeat.stop()


@pytest.mark.rule("WRITE-12")
def test_others_take_a_writer_for_dead_when_it_missed_two(
    tmp_path: Path, clock: Clock, beats: list
) -> None:
    store = open_store(tmp_path)
    writer = Heartbeats(store, now=clock, repeat=clock.repeat)
    other = Heartbeats(store, now=clock, repeat=clock.repeat)
    heartbeat = writer.start(T)
    written = (tmp_path / FILE).stat().st_mtime
    assert not other.is_expired(T)
    clock.time = written + 100
    assert not other.is_expired(T)
    clock.time = written + 120.5
    os.utime(tmp_path / FILE, (written - 121, written - 121))
    assert other.is_expired(T)
    assert writer.is_expired(T)
    assert heartbeat.is_lost()


@pytest.mark.rule("WRITE-12")
def test_a_clock_that_is_ahead_takes_nobody_for_dead(
    tmp_path: Path, clock: Clock, beats: list
) -> None:
    store = RecordingStore(open_store(tmp_path))
    Heartbeats(store, now=clock, repeat=clock.repeat).start(T)
    clock.time += 3600
    ahead = Heartbeats(store, now=clock, repeat=clock.repeat)
    assert not ahead.is_expired(T)
    assert ahead.join(T) is not None
    asked = len(store.operations)
    assert ahead.seems_expired(T)
    assert [operation.verb for operation in store.operations[asked:]] == ["info"]


def test_beating_keeps_it_alive(clock: Clock, beats: list) -> None:
    store = MemoryStore()
    heartbeat = Heartbeats(store, now=clock, repeat=clock.repeat).start(T)
    for _ in range(10):
        clock.time += 110
        assert not heartbeat.is_lost()
        assert beats[0].call() is True
    clock.time += 121
    assert heartbeat.is_lost()
    # Too late: someone may be rolling it back.
    assert beats[0].call() is False
    assert heartbeat.is_lost()


def test_another_process_keeps_on_with_it(clock: Clock, beats: list) -> None:
    store = MemoryStore(now=clock)
    first = Heartbeats(store, now=clock, repeat=clock.repeat)
    other = Heartbeats(store, now=clock, repeat=clock.repeat)
    first.start(T).abandon()
    assert store.files == {FILE: b""}
    clock.time += 110
    joined = other.join(T)
    assert joined is not None
    assert [beat.interval_s for beat in beats] == [60.0, 60.0]
    clock.time += 110
    assert beats[1].call() is True
    joined.abandon()
    clock.time += 121
    third = Heartbeats(store, now=clock, repeat=clock.repeat)
    assert third.is_expired(T)
    assert not third.join(T)  # somebody may be rolling it back
    assert len(beats) == 2
    revived = third.revive(T)
    assert not Heartbeats(store, now=clock).is_expired(T)
    revived.stop()
    assert store.files == {}


def test_what_was_joined_is_not_begun_again_once_it_ended(clock: Clock, beats: list) -> None:
    store = MemoryStore(now=clock)
    first = Heartbeats(store, now=clock, repeat=clock.repeat)
    other = Heartbeats(store, now=clock, repeat=clock.repeat)
    started = first.start(T)
    assert other.join(T)
    started.stop()
    assert beats[1].call() is False
    assert store.files == {}
    late = Heartbeats(store, now=clock)
    for begin in (late.join, late.revive):
        with pytest.raises(ConflictError, match="has ended"):
            begin(T)
    assert store.files == {}


def test_one_who_keeps_it_going_leaves_it_to_others(clock: Clock, beats: list) -> None:
    """Two threads keep one instant alive; the one that ends first ends its own part only."""
    store = MemoryStore(now=clock)
    heartbeats = Heartbeats(store, now=clock, repeat=clock.repeat)
    heartbeats.start(T).abandon()
    one, other = heartbeats.join(T), heartbeats.join(T)
    assert one is not None
    assert other is not None
    one.abandon()
    assert [beat.stopped for beat in beats] == [True, True, False]
    clock.time += 110
    assert beats[2].call() is True
    clock.time += 110
    # The one who began it, too, takes it for alive while somebody else keeps it going.
    assert not heartbeats.is_expired(T)


def test_misses_while_the_store_is_away_count(clock: Clock, beats: list) -> None:
    store = FaultyStore(MemoryStore(), FaultPlan(2, Fault.FAIL_BEFORE, WRITE_VERBS, lasting=True))
    heartbeats = Heartbeats(store, now=clock, repeat=clock.repeat, interval_s=1, misses_max=3)
    heartbeat = heartbeats.start(T)
    for _ in range(3):
        clock.time += 1
        with pytest.raises(StorageError):
            beats[0].call()
    assert not heartbeat.is_lost()
    clock.time += 0.5
    assert heartbeat.is_lost()
    heartbeat.stop()  # its file cannot be removed, which is no error


def test_a_slow_write_counts_from_its_beginning(clock: Clock, beats: list) -> None:
    """Others count from the file's time, which is later: we never believe in it longer."""

    class Slow(MemoryStore):
        def replace(self, path: str, data: bytes) -> None:
            clock.time += 121
            super().replace(path, data)

    assert Heartbeats(Slow(), now=clock, repeat=clock.repeat).start(T).is_lost()


def test_one_that_was_written_too_late_stays_lost(clock: Clock, beats: list) -> None:
    """Others may have seen the file before, when it was old, and have rolled the instant back."""

    class Slow(MemoryStore):
        seconds = 0

        def replace(self, path: str, data: bytes) -> None:
            clock.time += self.seconds
            super().replace(path, data)

    store = Slow(now=clock)
    heartbeats = Heartbeats(store, now=clock, repeat=clock.repeat)
    heartbeat = heartbeats.start(T)
    clock.time += 60
    store.seconds = 59
    assert beats[0].call() is True
    assert not heartbeat.is_lost()
    clock.time += 1
    store.seconds = 61
    assert beats[0].call() is False
    assert not heartbeats.is_expired(T), "its file is new"
    assert heartbeat.is_lost()
    assert not is_kept_up(store, T)


def test_who_missed_it_goes_on_with_nothing(clock: Clock, beats: list) -> None:
    """Others delete its files, and the heartbeat last; or they have begun the instant again."""
    store = MemoryStore(now=clock)
    heartbeats = Heartbeats(store, now=clock, repeat=clock.repeat)
    heartbeat = heartbeats.start(T)
    check_beating(store, T)
    clock.time += 121
    assert store.files == {FILE: b""}
    with pytest.raises(ConflictError, match="has ended"):
        check_beating(store, T)
    heartbeat.abandon()
    check_beating(store, T)  # this process was not to write it any more


def test_what_never_beat_is_expired_and_what_tells_no_time_is_not(clock: Clock) -> None:
    class Timeless(MemoryStore):
        def info(self, path: str) -> FileInfo | None:
            info = super().info(path)
            return info and FileInfo(info.path, info.size, None)

    assert Heartbeats(Timeless(), now=clock, repeat=clock.repeat).is_expired(T)
    assert not Heartbeats(Timeless({FILE: b""}), now=clock, repeat=clock.repeat).is_expired(T)


def test_a_heartbeat_that_could_not_start_did_not(clock: Clock, beats: list) -> None:
    memory = MemoryStore()
    heartbeats = Heartbeats(
        FaultyStore(memory, FaultPlan(1, Fault.FAIL_AFTER)), now=clock, repeat=clock.repeat
    )
    with pytest.raises(StorageError):
        heartbeats.start(T)
    assert beats == []
    heartbeats.start(T).stop()
    assert memory.files == {}


def test_it_beats_by_itself() -> None:
    enough = threading.Event()

    class Counting(MemoryStore):
        count = 0

        def replace(self, path: str, data: bytes) -> None:
            super().replace(path, data)
            self.count += 1
            if self.count == 4:
                enough.set()

    store = Counting()
    heartbeat = Heartbeats(store, interval_s=0.001, misses_max=10**6).start(T)
    assert enough.wait(30)
    heartbeat.stop()
    assert store.files == {}


def test_wrong_arguments() -> None:
    for wrong in ({"interval_s": 0}, {"misses_max": 0}):
        with pytest.raises(ValueError, match="greater than 0"):
            Heartbeats(MemoryStore(), **wrong)
