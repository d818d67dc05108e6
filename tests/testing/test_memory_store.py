from __future__ import annotations

import pathlib

import pytest

from bucketfmt.storage.store import Store
from bucketfmt.testing import StoreContract
from bucketfmt.testing.memory_store import MemoryStore


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()

    @pytest.fixture
    def other(self, store: Store) -> Store:
        return store


def test_a_copy_of_a_folder_and_one_file_changed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_bytes(b"1")
    (tmp_path / ".d").write_bytes(b"2")
    store = MemoryStore.of_folder(tmp_path)
    assert store.files == {"a/b/c": b"1", ".d": b"2"}
    changed = store.with_file("a/b/c", b"changed")
    assert changed.read("a/b/c", 9) == b"changed"
    assert store.read("a/b/c", 9) == b"1"
