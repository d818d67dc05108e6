from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bucketfmt.errors import StorageError
from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import FileInfo
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.locking.store_time import is_older, seems_older

PROBE = ".hoodie/.locks/time"
AT = 1_700_000_000.25


def put(modified: float | None) -> FileInfo:
    return FileInfo("a", 0, modified)


def at(moment: float = AT) -> MemoryStore:
    return MemoryStore(now=lambda: moment)


@pytest.mark.parametrize("ahead_s", [0, 1, 3600])
def test_a_file_is_as_old_as_the_store_says(ahead_s: float) -> None:
    def now() -> float:
        return AT + ahead_s

    store = at()
    assert not is_older(store, put(AT - 9.5), 10, now)
    assert not is_older(store, put(AT - 10), 10, now)
    assert is_older(store, put(AT - 10.5), 10, now)
    assert store.files == {}


def test_a_clock_that_is_behind_asks_the_store_too() -> None:
    store = at()
    assert is_older(store, put(AT - 11), 10, lambda: AT - 3600)
    assert not is_older(store, put(AT - 9), 10, lambda: AT - 3600)


def test_a_file_that_is_new_by_both_clocks_costs_no_request() -> None:
    store = RecordingStore(at())
    assert not is_older(store, put(AT - 9), 10, lambda: AT)
    assert not is_older(store, put(AT), 10, lambda: AT - 0.3)  # as the store may be ahead
    assert store.operations == []
    assert is_older(store, put(AT - 11), 10, lambda: AT)
    assert [tuple(operation) for operation in store.operations] == [
        ("replace", PROBE),
        ("info", PROBE),
        ("delete", PROBE),
    ]


def test_dates_in_whole_seconds_may_be_a_second_too_early() -> None:
    store, now = at(1_700_000_000), lambda: AT
    assert not is_older(store, put(1_700_000_000 - 11), 10, now)
    assert is_older(store, put(1_700_000_000 - 12), 10, now)


def test_where_the_store_tells_no_times_nothing_is_old() -> None:
    store = RecordingStore(at())
    assert not is_older(store, put(None), 10, lambda: AT)
    assert not seems_older(put(None), 10, lambda: AT)
    assert store.operations == []


def test_another_process_that_removes_the_file_makes_it_wait() -> None:
    class Shared(MemoryStore):
        def info(self, path: str) -> FileInfo | None:
            return None

    assert not is_older(Shared(now=lambda: AT), put(AT - 100), 10, lambda: AT)


def test_a_store_that_refuses_deletions_tells_its_time() -> None:
    class Kept(MemoryStore):
        def delete(self, path: str) -> None:
            raise StorageError("Access Denied")

    moments = [AT, AT + 100]
    store = Kept(now=lambda: moments[0])
    assert not is_older(store, put(AT - 9), 10, lambda: AT + 3600)
    assert list(store.files) == [PROBE]
    moments.pop(0)
    assert is_older(store, put(AT - 9), 10, lambda: AT + 3600)


def test_the_clock_of_the_process_alone() -> None:
    assert not seems_older(put(AT - 10), 10, lambda: AT)
    assert seems_older(put(AT - 10.5), 10, lambda: AT)
    assert not seems_older(put(AT - 11), 10, lambda: AT - 3600)


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if request.param == "disk":
        yield str(tmp_path), {}
    else:
        yield f"s3://tables/{uuid.uuid4().hex}", request.getfixturevalue("s3_options")


def test_real_stores_tell_their_time(place: tuple[str, dict[str, Any]]) -> None:
    store = open_store(*place)
    store.put_if_absent("a", b"")
    info = store.info("a")
    assert info is not None
    assert not is_older(store, info, 60, lambda: time.time() + 3600)
    assert is_older(store, FileInfo("a", 0, time.time() - 63), 60, time.time)
    assert store.info(PROBE) is None


def test_a_disk_goes_by_the_time_of_the_file(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.put_if_absent("a", b"")
    left = time.time() - 61
    os.utime(tmp_path / "a", (left, left))
    info = store.info("a")
    assert info is not None
    assert is_older(store, info, 60, time.time)
