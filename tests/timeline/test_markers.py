from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import (
    BucketfmtError,
    CorruptError,
    StorageError,
    UnsafePathError,
    UnsupportedError,
)
from bucketfmt.format.names.names import IoType, MarkerName
from bucketfmt.storage.open import open_store
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore, Killed
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline import markers as markers_module
from bucketfmt.timeline.markers import (
    delete_announced_files,
    delete_markers,
    load_markers,
    put_marker,
    put_marker_file,
    put_markers_together,
)

T = "20240101000000000"
FOLDER = f".hoodie/.temp/{T}"
BASE = f"00000000-2b97-4ade-bdd8-1d950a981fdc-0_0-335-571_{T}.parquet"
LOG = f".00000000-2b97-4ade-bdd8-1d950a981fdc-0_{T}.log.1_0-1-0"


def server(*files: bytes, kind: bytes | None = b"TIMELINE_SERVER_BASED") -> MemoryStore:
    store = MemoryStore({f"{FOLDER}/MARKERS{n}": data for n, data in enumerate(files)})
    if kind is not None:
        store.files[f"{FOLDER}/MARKERS.type"] = kind
    return store


def test_direct_markers_are_empty_files_named_as_hudi_names_them() -> None:
    store = MemoryStore()
    markers = {
        MarkerName("eu", BASE, IoType.CREATE),
        MarkerName("year=2024/month=01", BASE, IoType.MERGE),
        MarkerName("", LOG, IoType.APPEND),
    }
    for marker in markers:
        put_marker(store, T, marker)
        put_marker(store, T, marker)
    assert store.files == {
        f"{FOLDER}/eu/{BASE}.marker.CREATE": b"",
        f"{FOLDER}/year=2024/month=01/{BASE}.marker.MERGE": b"",
        f"{FOLDER}/{LOG}.marker.APPEND": b"",
    }
    assert load_markers(store, T) == markers
    put_marker(store, "20240101000000001", MarkerName("eu", BASE, IoType.CREATE))
    delete_markers(store, T)
    assert list(store.files) == [f".hoodie/.temp/20240101000000001/eu/{BASE}.marker.CREATE"]
    assert load_markers(store, T) == frozenset()
    delete_markers(store, T)


@pytest.mark.parametrize(
    ("name", "instant", "markers"),
    [
        ("uncommitted", "20261121073339571", (IoType.MERGE, "parquet", 6)),
        ("uncommitted_mor", "20261121073333844", (IoType.CREATE, "log.1", 6)),
    ],
)
def test_markers_a_killed_hudi_writer_left(
    golden: Callable[[str, str], Path], name: str, instant: str, markers: tuple
) -> None:
    io_type, kind, number = markers
    found = load_markers(open_store(golden("1.2.0", name)), instant)
    assert len(found) == number
    assert {marker.io_type for marker in found} == {io_type}
    assert {marker.partition_path for marker in found} == {"ap", "eu", "us"}
    assert all(instant in m.data_file_name and kind in m.data_file_name for m in found)


def test_what_a_disk_keeps_beside_markers_is_none() -> None:
    """Hadoop's checksums, whose names hold the marker's, and what a crash left half made."""
    store = MemoryStore(
        {
            f"{FOLDER}/eu/{BASE}.marker.CREATE": b"",
            f"{FOLDER}/eu/.{BASE}.marker.CREATE.crc": b"crc\0",
            f"{FOLDER}/eu/..{LOG}.marker.CREATE.crc": b"crc\0",
            f"{FOLDER}/eu/.bucketfmt-0123.tmp": b"",
        }
    )
    assert load_markers(store, T) == {MarkerName("eu", BASE, IoType.CREATE)}


@pytest.mark.parametrize("kind", [b"TIMELINE_SERVER_BASED", b"", None])
def test_markers_the_timeline_server_wrote(kind: bytes | None) -> None:
    store = server(
        f"eu/{BASE}.marker.CREATE\nus/{BASE}.marker.MERGE\r\n".encode(),
        b"",
        f"a\u2028b/{LOG}.marker.APPEND\neu/{BASE}.marker.CREATE\n".encode(),
        kind=kind,
    )
    store.files[f"{FOLDER}/.MARKERS0.crc"] = b"crc\0"
    assert load_markers(store, T) == {
        MarkerName("eu", BASE, IoType.CREATE),
        MarkerName("us", BASE, IoType.MERGE),
        MarkerName("a\u2028b", LOG, IoType.APPEND),
    }


@pytest.mark.parametrize("kind", [b"DIRECT", b""])
def test_a_type_file_with_direct_markers(kind: bytes) -> None:
    store = server(kind=kind)
    put_marker(store, T, MarkerName("eu", BASE, IoType.CREATE))
    assert load_markers(store, T) == {MarkerName("eu", BASE, IoType.CREATE)}


def test_a_line_that_was_cut_announces_nothing() -> None:
    line = f"eu/{BASE}.marker.CREATE\n"
    for cut in range(len(line) - 1):
        assert load_markers(server(f"us/{BASE}.marker.MERGE\n{line[:cut]}".encode()), T) == {
            MarkerName("us", BASE, IoType.MERGE)
        }
    whole = server(line[:-1].encode())  # but for its end: it may have been acted upon
    assert load_markers(whole, T) == {MarkerName("eu", BASE, IoType.CREATE)}


@pytest.mark.parametrize(
    ("store", "error"),
    [
        (server(kind=b"QUANTUM"), UnsupportedError),
        (server(kind=b"\xff"), CorruptError),
        (server(b"\xff\n"), CorruptError),
        (server(b"no marker\nx\n"), CorruptError),
        (server(b"../../etc/x.parquet.marker.CREATE\n"), UnsafePathError),
        (server(b"/etc/x.parquet.marker.CREATE\n"), UnsafePathError),
        (MemoryStore({f"{FOLDER}/eu/{BASE}.marker.ERASE": b""}), CorruptError),
        (MemoryStore({f"{FOLDER}/eu/stray": b""}), CorruptError),
    ],
)
def test_what_is_no_marker_is_an_error_that_tells_the_file(
    store: MemoryStore, error: type[BucketfmtError]
) -> None:
    with pytest.raises(error) as caught:
        load_markers(store, T)
    assert caught.value.path in store.files


def test_folders_nested_beyond_reason(tmp_path: Path) -> None:
    deep = "/".join("d" * 1_100)  # more than Python's frames by default
    marker = MarkerName(deep, BASE, IoType.CREATE)
    store = MemoryStore({f"{FOLDER}/{marker}": b""})
    assert load_markers(store, T) == {marker}


@given(st.lists(st.binary(max_size=60), max_size=3), st.sampled_from([None, b"", b"DIRECT"]))
def test_any_bytes_are_markers_or_an_error(files: list[bytes], kind: bytes | None) -> None:
    for store in (server(*files, kind=kind), server(*files)):
        try:
            markers = load_markers(store, T)
        except BucketfmtError:
            continue
        assert all(isinstance(marker, MarkerName) for marker in markers)


@pytest.mark.parametrize("fault", [Fault.KILL_BEFORE, Fault.KILL_AFTER, Fault.KILL_TORN])
def test_whatever_of_the_markers_is_left_still_reads(fault: Fault) -> None:
    """A writer that dies while it announces files, and one that dies while it cleans up."""
    markers = [MarkerName(f"p{n}", BASE, IoType.CREATE) for n in range(4)]
    for at in range(1, 6):
        memory = MemoryStore()
        store = FaultyStore(memory, FaultPlan(at, fault))
        try:
            for marker in markers:
                put_marker(store, T, marker)
            delete_markers(store, T)
        except Killed:
            number = at - 1 if fault is not Fault.KILL_AFTER else at
            left = load_markers(memory, T)
            assert left <= set(markers)
            if at <= 4:
                assert left == set(markers[:number])
            delete_markers(memory, T)
        assert not memory.files


def named(number: int) -> list[MarkerName]:
    return [
        MarkerName("p=é", BASE.replace("-0_0-", f"-0_{n}-"), IoType.MERGE) for n in range(number)
    ]


def test_markers_put_together_are_files_as_hudis_timeline_server_writes_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(markers_module, "_LINES_MAX", 2)
    store, markers = MemoryStore(), named(5)
    assert put_markers_together(store, T, markers) == 3
    lines = [f"{marker}\n".encode() for marker in markers]
    expected = server(b"".join(lines[:2]), b"".join(lines[2:4]), lines[4]).files
    assert store.files == expected
    assert load_markers(store, T) == set(markers)
    assert put_markers_together(store, T, markers) == 3  # as where the answers were lost
    assert store.files == expected


def test_markers_of_another_attempt_are_kept() -> None:
    other, *own = named(3)
    store = server(f"{other}\n".encode() * 2)
    put_markers_together(store, T, own)
    assert set(store.files) == {f"{FOLDER}/MARKERS{n}" for n in ("0", "1", ".type")}
    put_marker_file(store, T, 0, own)
    assert load_markers(store, T) == {other, *own}


def test_markers_of_another_type_are_not_mixed() -> None:
    with pytest.raises(StorageError, match="are of another type"):
        put_markers_together(server(kind=b"DIRECT"), T, named(1))


class OverNetwork(MemoryStore):
    failures_are_final = False


@pytest.mark.parametrize("are_together", [False, True])
def test_markers_that_are_known_are_deleted_by_name(*, are_together: bool) -> None:
    store = OverNetwork()
    kept, gone = named(2)
    if are_together:
        put_markers_together(store, T, [kept, gone])
    else:
        put_marker(store, T, kept)
        put_marker(store, T, gone)
    announcing = set(store.files)
    paths = [f"{marker.partition_path}/{marker.data_file_name}" for marker in (kept, gone)]
    store.files.update(dict.fromkeys(paths, b"data"))
    found = delete_announced_files(store, T, kept=paths[:1])
    assert set(found) == announcing
    assert set(store.files) == {*announcing, paths[0]}
    delete_markers(store, T, found)
    assert set(store.files) == {paths[0]}


def test_direct_markers_beside_gathered_ones_are_read_too() -> None:
    """A compaction that is begun again, elsewhere, while a file of the first attempt comes late."""
    late, marker = named(2)
    store = server(f"{late}\n".encode())
    put_marker(store, T, marker)
    put_marker(store, T, MarkerName("", LOG, IoType.APPEND))
    assert load_markers(store, T) == {late, marker, MarkerName("", LOG, IoType.APPEND)}
    paths = [f"{each.partition_path}/{each.data_file_name}" for each in (late, marker)]
    store.files.update(dict.fromkeys(paths, b"data"))
    delete_announced_files(store, T, kept=paths[1:])
    assert paths[0] not in store.files
    assert paths[1] in store.files
