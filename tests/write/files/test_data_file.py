"""A data file is announced before it is there, and only while its instant is alive."""

from __future__ import annotations

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.names.names import IoType, MarkerName
from bucketfmt.format.table.properties import decode_properties
from bucketfmt.format.timeline.commit_metadata import WriteStat
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.locking.heartbeat import Heartbeats
from bucketfmt.timeline.markers import load_markers
from bucketfmt.write.files.announcer import Announcer
from bucketfmt.write.files.data_file import put_data_file

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
    announcer = Announcer(store, T)
    stat = put_data_file(announcer, marker, "f-0", data, is_partition_known=is_known)
    metadata = [] if is_known else ["p/q/.hoodie_partition_metadata"]
    assert store.paths("info") == [HEARTBEAT, HEARTBEAT], "before the file is put, and after"
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
    announcer = Announcer(store, T)
    with announcer.early(marker):
        pass
    assert store.paths("put_if_absent") == ([MARKER] if is_ours else [])
    put_data_file(announcer, marker, "f-0", b"whole")
    assert store.paths("put_if_absent")[:1] == [MARKER]
    assert store.paths("put_if_absent")[-1] == f"p/q/{NAME}"
    assert store.paths("info") == ([] if is_ours else [HEARTBEAT, HEARTBEAT])
    heartbeat.stop()


MARKERS = f".hoodie/.temp/{T}/MARKERS"


def some_markers(number: int) -> list[MarkerName]:
    return [MarkerName("p", f"f-{n}_1-0-1_{T}.parquet", IoType.CREATE) for n in range(number)]


def lines_of(*markers: MarkerName) -> bytes:
    return "".join(f"{marker}\n" for marker in markers).encode()


@pytest.mark.parametrize("kind", [OverNetwork, MemoryStore])
def test_many_files_are_announced_together(kind: type[MemoryStore]) -> None:
    store = RecordingStore(memory := kind())
    heartbeat = Heartbeats(store).start(T)
    announcer, (*first, late) = Announcer(store, T), some_markers(4)
    with announcer.together(first):
        for marker in first:
            with announcer.early(marker):
                pass
            put_data_file(announcer, marker, "f", b"whole")
        assert store.paths("put_if_absent")[2:] == [f"p/{m.data_file_name}" for m in first]
        put_data_file(announcer, late, "f", b"whole")
        announcer.announce(late)
    announced = {path: data for path, data in memory.files.items() if ".temp" in path}
    assert announced == {
        f"{MARKERS}.type": b"TIMELINE_SERVER_BASED",
        f"{MARKERS}0": lines_of(*first),
        f"{MARKERS}1": lines_of(late),
    }
    assert store.paths("put_if_absent")[-2:] == [f"{MARKERS}1", f"p/{late.data_file_name}"]
    assert load_markers(store, T) == {*first, late}
    heartbeat.stop()


@pytest.mark.parametrize("kind", [OverNetwork, MemoryStore])
@pytest.mark.parametrize(("first", "second"), [(3, 1), (3, 4), (1, 4), (2, 2)])
def test_the_markers_of_two_rounds_are_of_one_kind(
    kind: type[MemoryStore], first: int, second: int
) -> None:
    """Hudi looks for no direct marker where there are files of markers, and left such files."""
    store = RecordingStore(memory := kind())
    heartbeat = Heartbeats(store).start(T)
    announcer, markers = Announcer(store, T), some_markers(first + second)
    for some in (markers[:first], markers[first:]):
        with announcer.together(some):
            for marker in some:
                put_data_file(announcer, marker, "f", b"whole")
    announced = {path: data for path, data in memory.files.items() if ".temp" in path}
    if first < 3:
        assert announced == {f".hoodie/.temp/{T}/{marker}": b"" for marker in markers}
    else:
        assert announced == {
            f"{MARKERS}.type": b"TIMELINE_SERVER_BASED",
            f"{MARKERS}0": lines_of(*markers[:first]),
            f"{MARKERS}1": lines_of(*markers[first:]),
        }
    assert load_markers(store, T) == {*markers}
    heartbeat.stop()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_few_files_are_announced_one_by_one(number: int) -> None:
    store = RecordingStore(OverNetwork())
    heartbeat = Heartbeats(store).start(T)
    announcer, markers = Announcer(store, T), some_markers(number)
    with announcer.together(markers):
        for marker in markers:
            announcer.announce(marker)
    assert len(store.paths("put_if_absent")) == min(number, 2)
    assert (f"{MARKERS}0" in store.paths("put_if_absent")) == (number == 3)
    assert load_markers(store, T) == set(markers)
    heartbeat.stop()


@pytest.mark.parametrize("kind", [OverNetwork, MemoryStore])
def test_without_the_heartbeat_each_file_is_announced_as_it_is_put(kind: type[MemoryStore]) -> None:
    store = RecordingStore(kind())
    heartbeat = Heartbeats(store).start(T)
    heartbeat.abandon()
    announcer, markers = Announcer(store, T), some_markers(5)
    with announcer.together(markers):
        assert not store.paths("put_if_absent")
        for marker in markers:
            put_data_file(announcer, marker, "f", b"whole")
    folder = f".hoodie/.temp/{T}"
    each = [[f"{folder}/{marker}", f"p/{marker.data_file_name}"] for marker in markers]
    assert store.paths("put_if_absent") == [path for paths in each for path in paths]
    heartbeat.stop()


def test_nothing_is_put_where_the_announcement_failed() -> None:
    class Failing(OverNetwork):
        def put_if_absent(self, path: str, data: Buffer) -> bool:
            if path.endswith("MARKERS0"):
                raise bf.StorageError("no answer", path=path)
            return super().put_if_absent(path, data)

    store = RecordingStore(Failing())
    heartbeat = Heartbeats(store).start(T)
    announcer, markers = Announcer(store, T), some_markers(3)
    with pytest.raises(bf.StorageError, match="no answer"), announcer.together(markers):
        put_data_file(announcer, markers[0], "f", b"whole")
    assert not [path for path in store.paths("put_if_absent") if path.endswith(".parquet")]
    heartbeat.stop()


def test_a_file_that_is_there_is_not_replaced() -> None:
    store = alive()
    store.put_if_absent(NAME, b"theirs")
    with pytest.raises(bf.StorageError, match="a file of that name is there"):
        put_data_file(Announcer(store, T), MarkerName("", NAME, IoType.CREATE), "f-0", b"ours")
    assert store.read(NAME, 99) == b"theirs"


def test_for_an_instant_that_has_ended_nothing_is_put() -> None:
    store = RecordingStore(MemoryStore())
    with pytest.raises(bf.ConflictError, match="has ended"):
        put_data_file(Announcer(store, T), MarkerName("", NAME, IoType.CREATE), "f-0", b"late")
    assert not store.writes
