"""A file that is replaced under the table lock, and what the next owner of the lock did with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.errors import ConflictError, LimitError, UnsupportedError
from bucketfmt.format.buckets.hashing_metadata import (
    HashingMetadata,
    decode_hashing_metadata,
    initial_hashing_metadata,
)
from bucketfmt.format.names.layout import PROPERTIES, PROPERTIES_BACKUP
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.location.hashing_files import replace_ring, ring_path
from bucketfmt.storage.store import Store, prepare_replace
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.history import load_history
from bucketfmt.timeline.history_writer import HistoryWriter
from bucketfmt.timeline.table_properties import change_properties, load_config
from tests.write.models import NO_SERVICES, create_table, rows


class Unversioned(MemoryStore):
    """As a store that replaces no file on condition."""

    def read_versioned(self, path: str, limit_bytes: int) -> tuple[bytes, str]:
        raise UnsupportedError("no versions")


class StandsStill:
    """A look at the lock after which another process has its turn."""

    def __init__(self, looks: int, other: Callable[[], object]) -> None:
        """The other's turn comes after this many looks, the last before the file is replaced."""
        self.left, self.other = looks, other

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.other()


def put(content: bytes | None) -> MemoryStore:
    store = MemoryStore()
    if content is not None:
        store.replace("d/f", content)
    return store


@pytest.mark.parametrize("before", [b"old", None])
def test_a_file_that_nobody_changed_is_replaced(before: bytes | None) -> None:
    store = put(before)
    prepare_replace(store, "d/f", 9)(b"new")
    assert store.read("d/f", 9) == b"new"


@pytest.mark.parametrize(("before", "now"), [(b"old", b"other"), (b"old", None), (None, b"other")])
def test_what_another_did_stays(before: bytes | None, now: bytes | None) -> None:
    store = put(before)
    replace = prepare_replace(store, "d/f", 9)
    if now is None:
        store.delete("d/f")
    else:
        store.replace("d/f", now)
    with pytest.raises(ConflictError, match="another process changed this file") as raised:
        replace(b"new")
    assert raised.value.path == "d/f"
    assert store.files.get("d/f") == now


@pytest.mark.parametrize("before", [b"old", None])
def test_the_same_content_by_whomever_will_do(before: bytes | None) -> None:
    """As where the answer to a request was lost, and the request was made again."""
    store = put(before)
    replace = prepare_replace(store, "d/f", 9)
    store.replace("d/f", b"new")
    replace(b"new")
    assert store.read("d/f", 9) == b"new"


def test_a_store_without_conditions_replaces() -> None:
    store = Unversioned({"d/f": b"old"})
    replace = prepare_replace(store, "d/f", 9)
    store.replace("d/f", b"other")
    replace(b"new")
    assert store.read("d/f", 9) == b"new"


def test_a_file_that_is_too_large_is_not_read() -> None:
    with pytest.raises(LimitError):
        prepare_replace(put(b"0123456789"), "d/f", 9)


def test_properties_of_the_next_owner_stay(tmp_path: Path) -> None:
    store = create_table(tmp_path / "t", bf.SimpleBucketIndex(2)).store

    def state(name: str, check_held: Callable[[], object]) -> None:
        change_properties(store, DEFAULT_LIMITS, 0.0, lambda old: {**old, name: "1"}, check_held)

    with pytest.raises(ConflictError, match="another process changed"):
        state("hoodie.own", StandsStill(2, lambda: state("hoodie.other", lambda: None)))
    stated = load_config(store, DEFAULT_LIMITS).properties
    assert stated["hoodie.other"] == "1"
    assert "hoodie.own" not in stated
    assert store.info(PROPERTIES_BACKUP) is None
    state("hoodie.own", lambda: None)
    assert load_config(store, DEFAULT_LIMITS).properties.keys() >= {"hoodie.own", "hoodie.other"}
    assert b"hoodie.own=1" in store.read(PROPERTIES, 9999)


def test_a_ring_of_the_next_owner_stays() -> None:
    store = MemoryStore()
    own, other = (initial_hashing_metadata("p", number) for number in (4, 8))

    def write(metadata: HashingMetadata, check_held: Callable[[], object]) -> None:
        replace_ring(store, metadata, DEFAULT_LIMITS, check_held)

    for looks in (1, 1):  # where there is no ring, and where there is one
        with pytest.raises(ConflictError):
            write(own, StandsStill(looks, lambda: write(other, lambda: None)))
        assert len(decode_hashing_metadata(store.read(ring_path(own), 9999)).nodes) == 8
        store.replace(ring_path(own), b"damaged")
    write(own, lambda: None)
    assert len(decode_hashing_metadata(store.read(ring_path(own), 9999)).nodes) == 4


def test_what_the_next_owner_archived_stays_in_the_history(tmp_path: Path) -> None:
    """The older version of the history named fewer files, so that instants were nowhere."""
    table = create_table(tmp_path / "t", bf.SimpleBucketIndex(2), writer=NO_SERVICES)
    for ts in range(6):
        table.upsert(rows(range(4), ts))
    instants = table.timeline.completed.instants

    def archive(store: Store, numbers: slice, check_held: Callable[[], object]) -> None:
        history = HistoryWriter(store, table.config, DEFAULT_LIMITS, check_held)
        history.put_archived(instants[numbers])

    def archive_more() -> None:
        archive(table.store, slice(0, 2), lambda: None)
        archive(table.store, slice(2, 4), lambda: None)

    with pytest.raises(ConflictError):
        archive(table.store, slice(0, 2), StandsStill(4, archive_more))
    archived = load_history(table.store, table.config, DEFAULT_LIMITS)
    assert [i.requested_time for i in archived] == [i.requested_time for i in instants[:4]]
