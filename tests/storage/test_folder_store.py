from __future__ import annotations

import pytest

from bucketfmt.storage.folder_store import FolderStore
from bucketfmt.storage.store import Store
from bucketfmt.testing import StoreContract
from bucketfmt.testing.memory_store import MemoryStore


class TestFolderStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return FolderStore(MemoryStore({"above": b"1", "a/bx": b"2"}), "a/b")

    @pytest.fixture
    def other(self, store: Store) -> Store:
        return store


def test_the_files_are_in_the_folder() -> None:
    below = MemoryStore({"above": b"1"})
    store = FolderStore(below, "a/b")
    store.put_if_absent("c/f", b"2")
    assert below.files == {"above": b"1", "a/b/c/f": b"2"}
    assert store.uri == f"{below.uri}/a/b"
