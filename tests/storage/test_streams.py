"""With how many threads files are read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from bucketfmt.errors import StorageError
from bucketfmt.storage import streams
from bucketfmt.storage.store import Store
from bucketfmt.storage.stores.fsspec_store import FsspecStore
from bucketfmt.storage.stores.local_store import LocalStore

KB = 1 << 10


@pytest.mark.parametrize(
    ("sizes", "on_a_disk"),
    [
        ([], 1),
        ([3 * KB * KB], 1),
        ([4 * KB * KB], 4),
        ([4 * KB] * 5_000, 1),  # small files: threads would wait for one another
        ([31 * KB] * 5_000, 1),
        ([33 * KB] * 5_000, 4),
        ([4 * KB] * 1_000 + [100 * KB * KB], 4),
    ],
)
def test_small_files_of_a_disk_are_read_by_one_thread(
    sizes: list[int], on_a_disk: int, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr(streams, "worker_count", lambda: 4)
    assert streams.reader_count(LocalStore(str(tmp_path)), sizes) == on_a_disk


@pytest.mark.parametrize(("sizes", "threads"), [([], 5), ([KB], 4), ([KB] * 100, 4)])
def test_one_thread_more_writes_files_that_replace_none(
    sizes: list[int], threads: int, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr(streams, "worker_count", lambda: 4)
    assert streams.task_count(LocalStore(str(tmp_path)), sizes) == threads


def test_small_files_over_a_network_are_read_by_as_many_threads_as_wait() -> None:
    network = FsspecStore("memory://nowhere", {})
    assert not network.failures_are_final
    assert streams.reader_count(network, [4 * KB] * 5_000) == streams.waiting_count(network)


@pytest.mark.parametrize("store", [LocalStore("/nowhere"), FsspecStore("memory://nowhere", {})])
def test_calls_made_together_all_end_before_an_error_is_raised(store: Store) -> None:
    """On a disk, those after the one that failed were not made."""
    ended: list[str] = []

    def fail() -> None:
        raise StorageError("the first one")

    def end() -> None:
        ended.append("b")

    with pytest.raises(StorageError, match="the first one"):
        streams.do_together(store, fail, end, fail, end)
    assert ended == ["b", "b"]


def test_where_python_ends_calls_are_made_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Writes of other threads, and in `atexit`, ended in a RuntimeError of the pool."""

    def refuse(*_: object) -> None:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
    network = FsspecStore("memory://nowhere", {})
    assert streams.map_in_threads(str, [1, 2, 3], 3) == ["1", "2", "3"]
    assert list(streams.map_in_order(str, [1, 2, 3], 3)) == ["1", "2", "3"]
    with streams.beside(network, lambda: 7) as found:
        assert found() == 7
    with pytest.raises(ZeroDivisionError):
        streams.map_in_threads(lambda number: 1 // number, [1, 0], 2)
