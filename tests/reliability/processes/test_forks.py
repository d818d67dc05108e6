"""A `Table` used after a fork: what the parent holds stays the parent's."""

from __future__ import annotations

import fcntl
import os
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bucketfmt as bf
from bucketfmt.errors import UnsupportedError
from bucketfmt.process import cached_property, new_mutex, this_process
from bucketfmt.storage.stores.local_store import LocalStore
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore
from bucketfmt.timeline.locking.file_system_based_lock import FileSystemBasedLock
from bucketfmt.timeline.locking.heartbeat import Heartbeats
from bucketfmt.timeline.locking.in_process_lock import InProcessLock
from bucketfmt.timeline.locking.lock import LockProvider
from bucketfmt.timeline.locking.storage_based_lock import StorageBasedLock
from tests.write.models import SCHEMA, Model, assert_reads_as, create_table, rows


def in_child(act: Callable[[], object]) -> None:
    """Have a forked child do something, and fail if that raises or does not end."""
    child = os.fork()
    if not child:
        try:
            act()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def make(folder: Path, table_type: str = "COPY_ON_WRITE", lock: str = "auto") -> bf.Table:
    table = create_table(
        str(folder / "t"), bf.SimpleBucketIndex(1), table_type, writer=bf.WriterConfig(lock=lock)
    )
    table.upsert(rows(range(9), ts=1))
    return table


def test_a_mutex_that_another_thread_has_is_free_in_a_child() -> None:
    mutex, taken, ended = new_mutex(), threading.Event(), threading.Event()

    def hold() -> None:
        with mutex:
            taken.set()
            ended.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait(60)
    name = this_process()

    def child() -> None:
        assert this_process() != name
        with mutex:
            assert not mutex.acquire(blocking=False)

    in_child(child)
    assert this_process() == name
    assert not mutex.acquire(timeout=0.001)
    ended.set()
    thread.join()
    assert mutex.acquire(blocking=False)


def test_a_property_that_another_thread_computes_does_not_hold_up_a_child() -> None:
    computing, ended = threading.Event(), threading.Event()

    class Slow:
        is_first = True

        @cached_property
        def value(self) -> str:
            if self.is_first:
                self.is_first = False
                computing.set()
                ended.wait(60)
            return this_process()

    slow, other = Slow(), Slow()
    other.is_first = False
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    computing.wait(60)

    def child() -> None:
        assert other.value == this_process()
        assert slow.value is slow.value

    in_child(child)
    ended.set()
    thread.join()
    assert slow.value == this_process()


@pytest.mark.parametrize("kind", ["storage", "filesystem"])
def test_a_child_neither_holds_nor_gives_back_what_its_parent_has(
    tmp_path: Path, kind: str
) -> None:
    store = LocalStore(str(tmp_path))
    new = {"storage": StorageBasedLock, "filesystem": FileSystemBasedLock}[kind]
    provider = LockProvider(lambda waiting: new(store, waiting=waiting))
    heartbeat = Heartbeats(store).start("20240101000000000")
    with provider.taken() as lock:

        def child() -> None:
            assert not lock.holds()
            lock.release()
            assert heartbeat.is_lost()
            heartbeat.stop()

        in_child(child)
        assert lock.holds()
        assert not heartbeat.is_lost()
        assert not Heartbeats(store).is_expired("20240101000000000")
    heartbeat.stop()


def test_a_lock_of_threads_is_refused_in_a_child(tmp_path: Path) -> None:
    table = make(tmp_path, lock="process")

    def child() -> None:
        for act in (lambda: table.upsert(rows([1], ts=2)), table.compact, table.archive):
            with pytest.raises(UnsupportedError, match="another process"):
                act()
        again = bf.open(table.uri, writer=bf.WriterConfig(lock="process"))
        assert again.scan().count() == 9

    in_child(child)
    table.upsert(rows([1], ts=2))


def test_a_lock_of_threads_is_refused_where_the_table_was_sent(tmp_path: Path) -> None:
    table = make(tmp_path, lock="process")
    sent = tmp_path / "sent"
    sent.write_bytes(pickle.dumps(table))
    pickle.loads(sent.read_bytes()).upsert(rows([1], ts=2))  # in the same process
    code = """if True:
        import pickle, sys
        from bucketfmt import UnsupportedError
        table = pickle.load(open(sys.argv[1], "rb"))
        print(table.scan().count())
        try:
            table.upsert(table.scan().to_arrow())
        except UnsupportedError as error:
            print("another process" in str(error))
        """
    told = subprocess.run(
        [sys.executable, "-c", code, str(sent)], capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == ["9", "True"]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_child_that_leaves_the_context_takes_nothing_back(
    tmp_path: Path, table_type: str
) -> None:
    table, model = make(tmp_path, table_type), Model()
    model.upsert(rows(range(9), ts=1))
    model.upsert(given := rows(range(5, 20), ts=2))
    with table.start_write("upsert", SCHEMA) as started:
        receipts = list(started.task.write(given, "0-0-0"))

        def child() -> None:
            with pytest.raises(UnsupportedError, match="begun by the process"):
                started.publish(receipts)
            with pytest.raises(UnsupportedError, match="begun by the process"):
                started.hand_over()
            started.abort()
            with pytest.raises(SystemExit), started:
                sys.exit(0)
            with pytest.raises(ZeroDivisionError), started:
                raise ZeroDivisionError

        in_child(child)
        started.publish(receipts)
    assert_reads_as(table.uri, model)


def test_a_child_that_leaves_a_compaction_leaves_it_to_its_parent(tmp_path: Path) -> None:
    table, model = make(tmp_path, "MERGE_ON_READ"), Model()
    for ts in (1, 2):
        model.upsert(given := rows(range(9), ts=ts))
        table.upsert(given)
    started = table.start_compaction()
    assert started is not None
    with started:
        receipts = [started.task.compact(p, f"{n}-0-0") for n, p in enumerate(started.payloads)]

        def child() -> None:
            with pytest.raises(UnsupportedError, match="begun by the process"):
                started.publish(receipts)
            started.abandon()
            with pytest.raises(bf.ConflictError, match="is being executed"):
                table.compact()

        in_child(child)
        started.publish(receipts)
    assert_reads_as(table.uri, model)


def test_a_child_does_not_keep_a_folder_locked(tmp_path: Path) -> None:
    """It has the descriptor by which its parent holds the lock, for as long as it lives."""
    store = LocalStore(str(tmp_path))
    store.replace("d/f", b"1")
    children: list[int] = []
    reading, writing = os.pipe()

    def fork(temporary: str, full: str) -> None:
        child = os.fork()
        if not child:
            os.close(writing)
            os.read(reading, 1)  # until its parent ends the pipe
            os._exit(0)
        children.append(child)
        replace(temporary, full)

    replace, os.replace = os.replace, fork  # type: ignore[assignment]
    try:
        _, version = store.read_versioned("d/f", 9)
        assert store.replace_if("d/f", b"2", version)
    finally:
        os.replace = replace
    folder = os.open(tmp_path / "d", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(folder)
        os.close(writing)
        os.close(reading)
        os.waitpid(children[0], 0)


def test_a_child_that_exits_leaves_its_parents_temporary_files(tmp_path: Path) -> None:
    from bucketfmt.location.routes import Route
    from bucketfmt.write.rows.grouping import GroupedRows

    route = Route("a", 0)
    with GroupedRows() as grouped:
        grouped.add(route, rows(range(5), ts=1))
        grouped._spill()

        def child() -> None:
            with grouped:
                pass

        in_child(child)
        assert grouped.rows([route]).num_rows == 5
        folder = grouped._folder
    assert folder is not None
    assert not folder.exists()


def test_threads_that_share_a_provider_exclude_each_other(tmp_path: Path) -> None:
    """One owner for each acquisition: a lease that another thread has is not one's own."""
    store = LocalStore(str(tmp_path))
    news: list[Callable[..., Any]] = [
        lambda waiting: StorageBasedLock(store, waiting=waiting),
        lambda waiting: FileSystemBasedLock(store, waiting=waiting),
        lambda waiting: InProcessLock(str(tmp_path), waiting),
    ]
    for new in news:
        provider, total = LockProvider(new), [0]

        def add(provider: LockProvider = provider, total: list[int] = total) -> None:
            for _ in range(5):
                with provider.taken() as lock:
                    before = total[0]
                    assert lock.holds()
                    total[0] = before + 1

        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert total == [20]


def test_every_acquisition_has_an_owner_of_its_own_and_threads_queue(tmp_path: Path) -> None:
    table = make(tmp_path)
    hasty = bf.open(table.uri, writer=bf.WriterConfig(lock_timeout_s=0))
    locks, owners = hasty._transactions.locks, set()
    for _ in range(2):
        with locks.taken() as lock:
            owners.add(lock._owner)  # type: ignore[attr-defined]
            with pytest.raises(bf.LockTimeoutError, match="threads that share this Table"):
                hasty.upsert(rows([1], ts=2))
            assert lock.holds()
    assert len(owners) == 2
    hasty.upsert(rows([1], ts=2))


def test_a_fault_amid_the_queue_frees_it(tmp_path: Path) -> None:
    store = FaultyStore(LocalStore(str(tmp_path)), FaultPlan(1, Fault.FAIL_BEFORE, lasting=True))
    provider = LockProvider(lambda waiting: StorageBasedLock(store, waiting=waiting))
    for _ in range(2):
        with pytest.raises(bf.StorageError), provider.taken():
            raise AssertionError("taken")
