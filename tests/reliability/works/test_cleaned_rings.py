"""A clean deletes the ring of a partition that a reader, or a writer, has just listed.

A clean deletes rings before it is on the timeline, and without being on it where it deletes nothing
else. So no timeline tells what became of the ring.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable

import msgspec
import pytest

import bucketfmt as bf
from bucketfmt.format.buckets.hashing_metadata import decode_hashing_metadata
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.location.hashing_files import delete_ring, put_ring, put_ring_marker
from bucketfmt.storage.store import FileInfo
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.table_properties import load_config
from soak.works.works import KINDS, Kind, Row, Work, make, read_rows, rows

FIRST, NEXT = "00000000000000", "20200101000000000"
FOLDER = ".hoodie/.bucket_index/consistent_hashing_metadata"


def replace_rings(store: MemoryStore) -> None:
    """Mark the ring of a resize that was archived, and delete the one before, as a clean does."""
    for partition in ("a", "b"):
        data = store.read(f"{FOLDER}/{partition}/{FIRST}.hashing_meta", 1 << 20)
        ring = decode_hashing_metadata(data, DEFAULT_LIMITS)
        put_ring(store, msgspec.structs.replace(ring, instant=NEXT, seq_no=1))
        put_ring_marker(store, partition, NEXT)
        delete_ring(store, partition, FIRST)


class CleanedOnRead(RecordingStore):
    """Has a clean replace the rings right before the first of them is read."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.files = store
        self.is_cleaned = False

    def read(self, path: str, limit_bytes: int) -> bytes:
        if path.endswith(f"{FIRST}.hashing_meta") and not self.is_cleaned:
            self.is_cleaned = True
            replace_rings(self.files)
        return super().read(path, limit_bytes)


class CleanedOnList(RecordingStore):
    """Has a clean come amid the first listing of rings, which has a marker and not its ring."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.is_cleaned = False

    def list(self, path: str) -> builtins.list[FileInfo]:
        found = [*super().list(path)]
        if path.startswith(f"{FOLDER}/") and not self.is_cleaned:
            self.is_cleaned = True
            gone = FileInfo(f"{path}/20190101000000000.commit", 0, None)
            return [gone if entry.name == f"{NEXT}.commit" else entry for entry in found]
        return found


def opened(store: RecordingStore, kind: Kind) -> bf.Table:
    return bf.Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None, kind.writer)


def sorted_rows(found: object) -> list[Row]:
    return sorted(tuple(row.values()) for row in found.to_pylist())  # type: ignore[attr-defined]


def write(table: bf.Table) -> list[Row]:
    table.upsert(rows(("k1", 9, "b")))
    return sorted_rows(table.scan(filter="id = 'k1'").to_arrow())


ACTS: dict[str, tuple[Callable[[bf.Table], object], object]] = {
    "filtered scan": (lambda t: sorted_rows(t.scan(filter="id = 'k1'").to_arrow()), None),
    "lookup": (lambda t: sorted_rows(t.lookup(["k1"])), None),
    "locate": (lambda t: t.locate(["k1"], partitions=["b"]).column("file_id").to_pylist(), None),
    "write": (write, [("k1", 9, "b")]),
}


def assert_done_all_the_same(
    act: str, kind: Kind, base: MemoryStore, cleaned: CleanedOnRead | CleanedOnList
) -> None:
    """The work has the result that it has without a clean: `cleaned` is the table with one."""
    do, expected = ACTS[act]
    if expected is None:
        expected = do(opened(RecordingStore(base.copy()), kind))
        assert expected, "the key is there"
    assert do(opened(cleaned, kind)) == expected
    assert cleaned.is_cleaned


RINGS = [kind for kind in KINDS if kind.is_ring]
pytestmark = pytest.mark.rotated(1)


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("kind", RINGS, ids=str)
def test_a_ring_that_is_gone_when_it_is_read(kind: Kind, act: str) -> None:
    base = make(kind, Work("read", read_rows))
    assert_done_all_the_same(act, kind, base, CleanedOnRead(base))


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("kind", RINGS, ids=str)
def test_a_marker_whose_ring_went_amid_the_listing(kind: Kind, act: str) -> None:
    base = make(kind, Work("read", read_rows))
    replace_rings(base)
    assert_done_all_the_same(act, kind, base, CleanedOnList(base))


class Unreadable(RecordingStore):
    def read(self, path: str, limit_bytes: int) -> bytes:
        if path.endswith(".hashing_meta"):
            raise bf.NotFoundError("there is no such file", path=path)
        return super().read(path, limit_bytes)


@pytest.mark.parametrize("kind", RINGS, ids=str)
def test_a_ring_that_is_listed_and_not_there(kind: Kind) -> None:
    store = Unreadable(make(kind, Work("read", read_rows)))
    with pytest.raises(bf.NotFoundError, match="there is no such file") as told:
        opened(store, kind).lookup(["k1"])
    assert told.value.path == f"{FOLDER}/a/{FIRST}.hashing_meta"
