from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

import pytest

from bucketfmt.errors import (
    LimitError,
    NotFoundError,
    StorageError,
    UnsafePathError,
    UnsupportedError,
)
from bucketfmt.format.names.instants import find_instant_file
from bucketfmt.format.names.names import find_data_file_name
from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import Store
from bucketfmt.storage.stores import local_store
from bucketfmt.storage.stores.local_store import LocalStore
from bucketfmt.testing import StoreContract


class TestLocalStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: pathlib.Path) -> Store:
        return open_store(tmp_path / "table")

    @pytest.fixture
    def other(self, tmp_path: pathlib.Path) -> Store:
        return open_store(str(tmp_path / "table"))


class _PathLike:
    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)


@pytest.mark.parametrize("form", [str, pathlib.Path, _PathLike, "file://{}", "file:{}", "{}/"])
def test_every_way_to_name_a_local_table(tmp_path: pathlib.Path, form: object) -> None:
    (tmp_path / "f").write_bytes(b"1")
    uri = form.format(tmp_path) if isinstance(form, str) else form(tmp_path)
    store = open_store(uri)
    assert isinstance(store, LocalStore)
    assert store.uri == str(tmp_path)
    assert store.read("f", 1) == b"1"


@pytest.mark.parametrize("name", ["a::b", "x://y"])
def test_an_absolute_path_is_local_whatever_it_holds(tmp_path: pathlib.Path, name: str) -> None:
    """Also one that is read as a chain of file systems, or as an unknown scheme."""
    store = open_store(f"{tmp_path}/{name}")
    assert isinstance(store, LocalStore)
    assert store.put_if_absent("f", b"1")
    assert (tmp_path / name / "f").read_bytes() == b"1"


def test_relative_and_home_paths(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_store("t").uri == str(tmp_path / "t")
    store = open_store("~/t")
    monkeypatch.chdir("/")
    assert store.uri == str(tmp_path / "t")


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError):
        open_store(b"/tmp/x")
    with pytest.raises(TypeError):
        open_store(None)
    with pytest.raises(ValueError, match="storage_options"):
        open_store("/tmp/x", {"key": "k"})


def test_opening_creates_nothing(tmp_path: pathlib.Path) -> None:
    store = open_store(tmp_path / "none")
    assert store.list("") == []
    assert store.info("") is None
    with pytest.raises(NotFoundError):
        store.read(".hoodie/hoodie.properties", 10)
    assert list(tmp_path.iterdir()) == []


def test_the_root_may_be_a_link(tmp_path: pathlib.Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    store = open_store(tmp_path / "link")
    assert store.put_if_absent("a/f", b"1")
    assert (tmp_path / "real/a/f").read_bytes() == b"1"


def test_links_must_not_lead_out(tmp_path: pathlib.Path) -> None:
    (tmp_path / "table/p").mkdir(parents=True)
    (tmp_path / "table2").mkdir()  # shares the prefix of the root's name
    (tmp_path / "table2/secret").write_bytes(b"secret")
    (tmp_path / "table/p/file").symlink_to(tmp_path / "table2/secret")
    (tmp_path / "table/folder").symlink_to(tmp_path / "table2")
    store = open_store(tmp_path / "table")
    for attempt in (
        lambda: store.read("p/file", 10),
        lambda: store.read_ranges("p/file", [(0, 1)]),
        lambda: store.open_arrow("p/file"),
        lambda: store.info("p/file"),
        lambda: store.list("folder"),
        lambda: store.read("folder/secret", 10),
        lambda: store.put_if_absent("folder/new", b"1"),
        lambda: store.replace("folder/secret", b"1"),
        lambda: store.delete("folder/secret"),
        lambda: store.delete_tree("folder/sub"),
    ):
        with pytest.raises(UnsafePathError, match="leads out"):
            attempt()
    with pytest.raises(StorageError):
        store.delete_tree("folder")
    listed = [*store.list("p"), *store.list("")]  # said to be there, and nothing of what they name
    assert [(i.path, i.size, i.modified, i.is_dir, i.fault) for i in listed] == [
        ("p/file", 0, None, False, "leads out"),
        ("folder", 0, None, False, "leads out"),
        ("p", 0, (tmp_path / "table/p").stat().st_mtime, True, None),
    ]
    store.delete("p/file")  # the link itself, not what it names
    assert store.list("p") == []
    assert (tmp_path / "table2/secret").read_bytes() == b"secret"


def test_links_within_the_table_are_followed(tmp_path: pathlib.Path) -> None:
    store = open_store(tmp_path)
    store.put_if_absent("a/f", b"12")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "a/g").symlink_to("f")
    (tmp_path / "a/broken").symlink_to("nothing")
    assert store.read("b/g", 9) == b"12"
    assert [(i.path, i.size, i.fault) for i in store.list("b")] == [
        ("b/broken", 0, "leads nowhere"),
        ("b/f", 2, None),
        ("b/g", 2, None),
    ]
    with pytest.raises(NotFoundError):
        store.read("b/broken", 9)
    store.replace("a/g", b"new")
    assert store.read("a/f", 9) == b"12"


def test_a_link_loop_is_a_storage_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "x").symlink_to("y")
    (tmp_path / "y").symlink_to("x")
    with pytest.raises(StorageError):
        open_store(tmp_path).read("x", 10)
    assert [(i.path, i.fault) for i in open_store(tmp_path).list("")] == [
        ("x", "leads nowhere"),
        ("y", "leads nowhere"),
    ]


def test_a_named_pipe_does_not_block(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    store = open_store(tmp_path)
    for attempt in (
        lambda: store.read("pipe", 10),
        lambda: store.read_ranges("pipe", [(0, 1)]),
        lambda: store.open_arrow("pipe"),
    ):
        with pytest.raises(StorageError, match="regular"):
            attempt()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        assert [(i.path, i.size, i.fault) for i in store.list("")] == [
            ("pipe", 0, "is no file"),
            ("socket", 0, "is no file"),
        ]


def test_names_no_file_can_have(tmp_path: pathlib.Path) -> None:
    store = open_store(tmp_path)
    for path, error in (
        ("\ud800", UnsafePathError),
        ("x" * 300, StorageError),
        ("x" * 5000, LimitError),
    ):
        with pytest.raises(error):
            store.read(path, 10)


def test_a_disk_failure_is_a_storage_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    store.put_if_absent("f", b"1")

    def fail(*_args: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(StorageError, match=r"f: Input/output error.*retry"):
        store.read("f", 10)


def test_permission_denied_is_a_storage_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StorageError, match="permission denied"):
        open_store(tmp_path).read("f", 10)


def test_a_disk_without_hard_links_is_unsupported(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(UnsupportedError, match="hard links"):
        open_store(tmp_path).put_if_absent("f", b"1")
    assert list(tmp_path.iterdir()) == []


class _Killed(BaseException):
    """The process is gone: nothing below may clean up after it in a way that matters."""


@pytest.mark.parametrize("verb", ["put_if_absent", "replace"])
@pytest.mark.parametrize("call", ["open", "fsync", "link", "rename", "unlink"])
def test_no_reader_sees_a_part(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, verb: str, call: str
) -> None:
    """Whichever system call is the last, the name holds all of the content or what it held."""
    store = open_store(tmp_path)
    store.replace("d/old", b"before")
    path, before = ("d/new", None) if verb == "put_if_absent" else ("d/old", b"before")

    def kill(*_args: object, **_kwargs: object) -> None:
        raise _Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, {"rename": "replace"}.get(call, call), kill)
        with contextlib.suppress(_Killed):
            getattr(store, verb)(path, b"after" * 1000)
    left = tmp_path / path
    assert (left.read_bytes() if left.exists() else None) in (before, b"after" * 1000)


def test_a_created_file_is_on_disk_before_it_has_its_name(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    synced, linked, opened = os.fsync, os.link, os.open
    folders: set[int] = set()

    def open_(path: str, flags: int, *args: int, **kwargs: object) -> int:
        descriptor = opened(path, flags, *args, **kwargs)
        if flags & os.O_DIRECTORY:
            folders.add(descriptor)
        return descriptor

    def sync(descriptor: int) -> None:
        events.append("sync folder" if descriptor in folders else "sync file")
        synced(descriptor)

    def link(source: str, target: str) -> None:
        events.append("link")
        linked(source, target)

    (tmp_path / "d").mkdir()
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(os, "open", open_)
    open_store(tmp_path).put_if_absent("d/f", b"1")
    assert events == ["sync file", "link", "sync folder"]


def test_what_a_crash_leaves_is_no_file_of_a_table(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*_args: object) -> None:
        raise _Killed

    store = open_store(tmp_path)
    monkeypatch.setattr(os, "link", kill)
    monkeypatch.setattr(os, "unlink", kill)
    with contextlib.suppress(_Killed):
        store.put_if_absent("20240101000000000.commit", b"1")
    (left,) = store.list("")
    assert find_data_file_name(left.name) is None
    assert find_instant_file(left.name, 1) is None
    assert find_instant_file(left.name, 2) is None


def test_no_checksum_of_hadoop_is_of_a_file_that_was_here_before(tmp_path: pathlib.Path) -> None:
    """Hudi on a disk refuses a file by it, as the ring of a repair."""
    store, checksum = LocalStore(str(tmp_path)), tmp_path / "x/.f.crc"
    store.put_if_absent("x/f", b"1")
    checksum.write_bytes(b"of 1")
    assert not store.put_if_absent("x/f", b"2")
    assert checksum.read_bytes() == b"of 1"
    version = store.read_versioned("x/f", 9)[1]
    assert store.replace_if("x/f", b"2", "another") is None
    assert checksum.exists()
    assert store.replace_if("x/f", b"2", version) is not None
    assert not checksum.exists()
    checksum.write_bytes(b"of 2")
    store.replace("x/f", b"3")
    assert not checksum.exists()
    checksum.write_bytes(b"of 3")
    (tmp_path / "x/f").unlink()
    assert store.put_if_absent("x/f", b"4")
    assert not checksum.exists()
    checksum.write_bytes(b"of 4")
    store.delete("x/f")
    assert os.listdir(tmp_path / "x") == []
    longest = "n" * 252
    store.put_if_absent(longest, b"1")
    store.replace(longest, b"2")
    assert store.read(longest, 1) == b"2"


def test_new_files_have_ordinary_permissions(tmp_path: pathlib.Path) -> None:
    previous = os.umask(0o022)
    try:
        open_store(tmp_path).put_if_absent("f", b"1")
    finally:
        os.umask(previous)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o644


def test_a_large_folder_lists_fast(tmp_path: pathlib.Path) -> None:
    for number in range(20_000):
        os.close(os.open(tmp_path / f"{number:08d}.parquet", os.O_CREAT | os.O_WRONLY))
    store = open_store(tmp_path)
    began = time.thread_time()
    infos = store.list("")
    assert len(infos) == 20_000
    assert time.thread_time() - began < 1.0


_ADD_ONE = """
import sys
from bucketfmt.storage.open import open_store

store = open_store(sys.argv[1])
for _ in range(int(sys.argv[2])):
    while True:
        data, version = store.read_versioned("counter", 100)
        if store.replace_if("counter", b"%d" % (int(data) + 1), version):
            break
"""


def test_replace_if_loses_nothing_among_processes(tmp_path: pathlib.Path) -> None:
    store = open_store(tmp_path)
    store.put_if_absent("counter", b"0")
    adding = [sys.executable, "-c", _ADD_ONE, str(tmp_path), "25"]
    processes = [subprocess.Popen(adding) for _ in range(4)]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]
    assert store.read("counter", 100) == b"100"
    assert [info.name for info in store.list("")] == ["counter"]


def test_a_version_tells_equal_files_apart(tmp_path: pathlib.Path) -> None:
    """Same inode, size and time: only the content is left to tell them apart."""
    store = open_store(tmp_path)
    store.put_if_absent("f", b"one")
    status = (tmp_path / "f").stat()
    _, version = store.read_versioned("f", 9)
    (tmp_path / "f").write_bytes(b"two")
    os.utime(tmp_path / "f", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert store.replace_if("f", b"three", version) is None
    assert store.read("f", 9) == b"two"


def test_a_disk_without_locks_is_unsupported(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object) -> None:
        raise OSError(95, "Operation not supported")

    store = open_store(tmp_path)
    store.put_if_absent("f", b"one")
    _, version = store.read_versioned("f", 9)
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(UnsupportedError, match="cannot lock folders"):
        store.replace_if("f", b"two", version)
    assert store.read("f", 9) == b"one"


def test_a_folder_that_another_keeps_locked_is_an_error_in_time(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that was stopped amid a change of the lock file held up all others for ever."""
    store = LocalStore(str(tmp_path))
    store.replace("d/f", b"1")
    _, version = store.read_versioned("d/f", 9)
    folder = os.open(tmp_path / "d", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        monkeypatch.setattr(local_store, "_FOLDER_LOCK_S", 0.05)
        with pytest.raises(StorageError, match="it stands still"):
            store.replace_if("d/f", b"2", version)
        threading.Timer(0.02, fcntl.flock, (folder, fcntl.LOCK_UN)).start()
        monkeypatch.setattr(local_store, "_FOLDER_LOCK_S", 60)
        assert store.replace_if("d/f", b"2", version)
    finally:
        os.close(folder)
