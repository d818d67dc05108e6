"""A data file is announced before it is there, and only while its instant is alive."""

from __future__ import annotations

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.names.names import IoType, MarkerName
from bucketfmt.format.table.properties import decode_properties
from bucketfmt.format.timeline.commit_metadata import WriteStat
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.locking.heartbeat import Heartbeats
from bucketfmt.write.files.data_file import announced, put_data_file

T = "20240101000000000"
NAME = f"f-0_1-0-1_{T}.parquet"
HEARTBEAT, MARKER = f".hoodie/.heartbeat/{T}", f".hoodie/.temp/{T}/p/q/{NAME}.marker.CREATE"


def alive() -> RecordingStore:
    store = RecordingStore(MemoryStore())
    Heartbeats(store).start(T).abandon()
    store.operations.clear()
    return store


@pytest.mark.parametrize("data", [b"whole", pa.py_buffer(b"whole")])
@pytest.mark.parametrize("is_known", [False, True])
def test_the_marker_comes_first(data: bytes | pa.Buffer, is_known: bool) -> None:
    store = alive()
    marker = MarkerName("p/q", NAME, IoType.CREATE)
    stat = put_data_file(store, T, marker, "f-0", data, is_partition_known=is_known)
    metadata = [] if is_known else ["p/q/.hoodie_partition_metadata"]
    assert store.paths("info") == [HEARTBEAT]
    assert [path for _, path in store.writes] == [MARKER, *metadata, f"p/q/{NAME}"]
    assert store.read(f"p/q/{NAME}", 99) == b"whole"
    assert stat == WriteStat(
        file_id="f-0",
        path=f"p/q/{NAME}",
        partition_path="p/q",
        total_write_bytes=5,
        file_size_in_bytes=5,
    )
    for path in metadata:
        given = decode_properties(store.read(path, 999))
        assert (given["commitTime"], given["partitionDepth"]) == (T, "2")


class OverNetwork(MemoryStore):
    failures_are_final = False


@pytest.mark.parametrize("is_ours", [False, True])
def test_only_who_keeps_the_instant_alive_announces_early(is_ours: bool) -> None:
    store = RecordingStore(OverNetwork())
    heartbeat = Heartbeats(store).start(T)
    if not is_ours:
        heartbeat.abandon()
    store.operations.clear()
    marker = MarkerName("p/q", NAME, IoType.CREATE)
    with announced(store, T, marker) as is_announced:
        pass
    assert store.paths("put_if_absent") == ([MARKER] if is_ours else [])
    put_data_file(store, T, marker, "f-0", b"whole", is_announced=is_announced)
    assert store.paths("put_if_absent")[:1] == [MARKER]
    assert store.paths("put_if_absent")[-1] == f"p/q/{NAME}"
    assert store.paths("info") == ([] if is_ours else [HEARTBEAT])
    heartbeat.stop()


def test_a_file_that_is_there_is_not_replaced() -> None:
    store = alive()
    store.put_if_absent(NAME, b"theirs")
    with pytest.raises(bf.StorageError, match="a file of that name is there"):
        put_data_file(store, T, MarkerName("", NAME, IoType.CREATE), "f-0", b"ours")
    assert store.read(NAME, 99) == b"theirs"


def test_for_an_instant_that_has_ended_nothing_is_put() -> None:
    store = RecordingStore(MemoryStore())
    with pytest.raises(bf.ConflictError, match="has ended"):
        put_data_file(store, T, MarkerName("", NAME, IoType.CREATE), "f-0", b"late")
    assert not store.writes
