from __future__ import annotations

import pathlib

import pytest

from bucketfmt.errors import NotFoundError
from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import WRITE_VERBS, Store
from bucketfmt.testing import StoreContract
from bucketfmt.testing.recording_store import Operation, RecordingStore


class TestRecordingStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: pathlib.Path) -> Store:
        return RecordingStore(open_store(tmp_path))

    @pytest.fixture
    def other(self, tmp_path: pathlib.Path) -> Store:
        return open_store(tmp_path)


def test_every_verb_is_recorded_in_order(tmp_path: pathlib.Path) -> None:
    store = RecordingStore(open_store(tmp_path))
    store.put_if_absent("a", b"1")
    store.replace("b", b"1")
    store.read("a", 1)
    store.read_ranges("a", [(0, 1)])
    store.open_arrow("a").close()
    store.list("")
    store.info("a")
    _, version = store.read_versioned("a", 1)
    store.replace_if("a", b"2", version)
    with pytest.raises(NotFoundError):
        store.read("c", 1)
    store.delete("a")
    store.delete_tree("d")
    assert store.operations == [
        Operation("put_if_absent", "a"),
        Operation("replace", "b"),
        Operation("read", "a"),
        Operation("read_ranges", "a"),
        Operation("open_arrow", "a"),
        Operation("list", ""),
        Operation("info", "a"),
        Operation("read_versioned", "a"),
        Operation("replace_if", "a"),
        Operation("read", "c"),
        Operation("delete", "a"),
        Operation("delete_tree", "d"),
    ]
    assert store.paths("read", "open_arrow") == ["a", "a", "c"]
    assert [operation.path for operation in store.writes] == ["a", "b", "a", "a", "d"]


def test_every_verb_of_a_store_is_passed_on() -> None:
    verbs = {name for name in vars(Store) if not name.startswith("_")}
    assert verbs <= set(vars(RecordingStore))
    assert verbs >= WRITE_VERBS
