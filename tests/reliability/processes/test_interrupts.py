"""Ctrl-C between any two statements: whoever comes next finds nothing that is held for ever."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import bucketfmt as bf
from bucketfmt.process import new_mutex
from tests.write.models import create_table, rows


@contextmanager
def interrupted(function: str, module: str, event: str) -> Iterator[None]:
    """Raise KeyboardInterrupt at the next call of a function, or as it returns."""

    def look(frame: FrameType, happened: str, _: object) -> Any:
        code = frame.f_code
        if code.co_name != function or not code.co_filename.endswith(module):
            return None
        return strike(frame, happened, None)

    def strike(_frame: FrameType, happened: str, _: object) -> Any:
        if happened != event:
            return strike
        sys.settrace(None)
        raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(look)
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        sys.settrace(before)


def renewals() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "bucketfmt-renewal"}


@pytest.mark.rotated(0, one_of=3)
@pytest.mark.parametrize("lock", ["storage", "filesystem", "process"])
@pytest.mark.parametrize(
    ("function", "module", "event"),
    [
        ("acquire", "held_mutex.py", "return"),
        ("acquire", "locking/lock.py", "return"),
        ("release", "locking/lock.py", "call"),
        ("_release", "_lock.py", "call"),
        ("release", "held_mutex.py", "call"),
        ("_begin", "heartbeat.py", "return"),
        ("start", "heartbeat.py", "return"),
        ("request_alive", "locked_table.py", "return"),
    ],
)
def test_the_next_write_waits_for_nobody(
    tmp_path: Path, lock: Any, function: str, module: str, event: str
) -> None:
    """A mutex, the table lock or a heartbeat was held for as long as the process lived."""
    others = renewals()  # of writers that other tests left standing still
    writer = bf.WriterConfig(lock=lock, lock_timeout_s=5, heartbeat_interval_s=0.05, services=None)
    table = create_table(str(tmp_path / "t"), bf.SimpleBucketIndex(1), writer=writer)
    table.upsert(rows(range(3), 1))
    with interrupted(function, module, event):
        table.upsert(rows(range(3), 2))
    for kept in renewals() - others:
        kept.join(5)
    assert not renewals() - others
    table.upsert(rows(range(3), 3))
    assert bf.open(table.uri, writer=writer).scan().to_arrow()["ts"].to_pylist() == [3, 3, 3]


@contextmanager
def interrupted_after_call(number: int, function: str, module: str) -> Iterator[list[bool]]:
    """Raise KeyboardInterrupt as the call of this number that a function makes returns.

    Yields a list that is empty as long as there was no such call.
    """
    left, done = [number], list[bool]()

    def look(frame: FrameType, _happened: str, _: object) -> Any:
        caller = frame.f_back
        if caller is None or caller.f_code.co_name != function:
            return None
        return strike if caller.f_code.co_filename.endswith(module) else None

    def strike(_frame: FrameType, happened: str, _: object) -> Any:
        if happened == "return":
            left[0] -= 1
            if left[0] == -1:
                sys.settrace(None)
                done.append(True)
                raise KeyboardInterrupt
        return strike

    before = sys.gettrace()
    sys.settrace(look)
    try:
        with suppress(KeyboardInterrupt):
            yield done
    finally:
        sys.settrace(before)


def write_with_interrupts(table: bf.Table, function: str, module: str) -> int:
    """Write twice for each call that a function makes: interrupted after that call, and whole.

    Returns:
        How many calls there were.
    """
    number = 0
    while True:
        with interrupted_after_call(number, function, module) as done:
            table.upsert(rows(range(3), 2 * number + 1))
        table.upsert(rows(range(3), 2 * number + 2))
        assert table.scan().to_arrow()["ts"].to_pylist() == [2 * number + 2] * 3
        if not done:
            return number
        number += 1


def test_a_thread_writes_again_whatever_call_of_the_queue_was_interrupted(tmp_path: Path) -> None:
    """It waited for itself, if interrupted as it left the queue: the table was not written more."""
    writer = bf.WriterConfig(lock_timeout_s=5, services=None)
    table = create_table(str(tmp_path / "t"), bf.SimpleBucketIndex(1), writer=writer)
    assert write_with_interrupts(table, "taken", "locking/lock.py") > 1


def test_services_go_on_whatever_call_before_them_was_interrupted(tmp_path: Path) -> None:
    """They counted as busy for as long as the process lived: the table was not compacted again."""
    services = bf.Services(compact_after=1, clean=None, archive=None)
    writer = bf.WriterConfig(services=services)
    index = bf.SimpleBucketIndex(1)
    path = str(tmp_path / "t")
    table = create_table(path, index, table_type="MERGE_ON_READ", writer=writer)
    assert write_with_interrupts(table, "run_after", "maintenance.py") > 1
    newest = table.timeline.completed.writes.last
    assert newest is not None
    assert newest.action == "commit"


def test_a_mutex_is_a_lock_of_threading() -> None:
    """In a `with` of a class of one's own, an interrupt comes after it acquired and is lost."""
    assert isinstance(new_mutex(), type(threading.Lock()))
