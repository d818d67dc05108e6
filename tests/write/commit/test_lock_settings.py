"""How long writers wait for the table lock, by the settings of `WriterConfig`."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import bucketfmt as bf
from bucketfmt.format.names.layout import LEASE
from bucketfmt.format.table.table_lock import TableLease, encode_table_lease
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.locking.lock import LockProvider
from bucketfmt.timeline.machine import Machine
from bucketfmt.write.commit.writer_config import _open_locks


@pytest.mark.parametrize(
    ("settings", "lasts_s"),
    [
        ({}, 20.0),  # as on a disk
        ({"lock_lease_s": 1000}, 1000.0),
        ({"lock": "filesystem", "lock_expire_minutes": 7}, 420.0),
    ],
)
def test_a_writer_outlasts_the_lock_of_a_dead_one(settings: dict[str, Any], lasts_s: float) -> None:
    began, slept = time.time(), [0.0]

    def sleep(seconds: float) -> None:
        slept[0] += seconds

    machine = Machine(now=lambda: began + slept[0], monotonic=lambda: slept[0], sleep=sleep)
    store = MemoryStore(now=machine.now)
    writer = bf.WriterConfig(**settings, machine=machine)
    with _open_locks(store, DEFAULT_LIMITS, writer).taken():
        dead = {path: store.files[path] for path in store.files}
    store.files.update(dead)  # it never released the lock
    with _open_locks(store, DEFAULT_LIMITS, writer).taken() as lock:
        assert lock.holds()
    assert lasts_s - 1 <= slept[0] <= lasts_s + 3


def test_a_failed_acquisition_says_who_holds_the_lock_since_when() -> None:
    store = MemoryStore()
    until_ms = int((time.time() + 100) * 1000)
    store.put_if_absent(LEASE, encode_table_lease(TableLease(False, until_ms, "their writer")))
    locks = _open_locks(store, DEFAULT_LIMITS, bf.WriterConfig(lock_timeout_s=0))
    with (
        pytest.raises(bf.LockTimeoutError, match=r"their writer has held it since 20.*lasts"),
        locks.taken(),
    ):
        pass


def test_a_failed_acquisition_says_which_thread_holds_the_lock_for_how_long() -> None:
    now = [100.0]
    machine = Machine(monotonic=lambda: now[0], sleep=lambda _: None)
    writer = bf.WriterConfig(lock="process", lock_timeout_s=0, machine=machine)
    store = MemoryStore()
    ours, others = (_open_locks(store, DEFAULT_LIMITS, writer) for _ in range(2))
    seen: list[str] = []

    def fail(locks: LockProvider) -> None:
        with pytest.raises(bf.LockTimeoutError) as caught, locks.taken():
            pass
        seen.append(str(caught.value))

    def hold() -> None:
        with ours.taken():
            now[0] += 12
            for locks in (others, ours):
                thread = threading.Thread(target=fail, args=(locks,))
                thread.start()
                thread.join()

    holder = threading.Thread(target=hold, name="loader 7")
    holder.start()
    holder.join()
    of_another_table, of_this_table = seen
    assert "in 0 s: thread 'loader 7' of this process has held it for 12 s" in of_another_table
    assert (
        "in 0 s: thread 'loader 7', of the threads that share this Table, has held it or waited "
        "for it for 12 s. Retry later"
    ) in of_this_table


def test_the_time_that_a_writer_waited_is_told_in_tenths_of_a_second() -> None:
    store, writer = MemoryStore(), bf.WriterConfig(lock="process", lock_timeout_s=0.2)
    with (
        _open_locks(store, DEFAULT_LIMITS, writer).taken(),
        pytest.raises(bf.LockTimeoutError, match=r"could not be acquired in 0\.2 s: thread"),
        _open_locks(store, DEFAULT_LIMITS, writer).taken(),
    ):
        pass
