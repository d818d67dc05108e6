from __future__ import annotations

import re
import sys
import uuid
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from bucketfmt.errors import LimitError, NotFoundError, StorageError, UnsupportedError
from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import Store
from bucketfmt.storage.stores.fsspec_store import FsspecStore
from bucketfmt.testing import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def uri(self) -> str:
        return f"memory://{uuid.uuid4().hex}/table"

    @pytest.fixture
    def store(self, uri: str) -> Store:
        return open_store(uri)

    @pytest.fixture
    def other(self, uri: str) -> Store:
        return open_store(uri + "/")


class _FailingFileSystem(MemoryFileSystem):
    """A remote store that raises what backends raise."""

    protocol = "failing"
    cachable = False
    calls = 0
    error: Exception = KeyError("unexpected answer")

    def _fail(self, *_args: Any, **_kwargs: Any) -> Any:
        type(self).calls += 1
        raise self.error

    info = ls = cat_file = pipe_file = rm_file = rm = open = _fail


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Store:
    fsspec.register_implementation("failing", _FailingFileSystem, clobber=True)
    return open_store("failing://bucket/table")


def test_a_lack_of_memory_is_no_failure_of_the_store(
    failing: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_FailingFileSystem, "error", MemoryError())
    with pytest.raises(LimitError, match=r"^folder: the memory of this process"):
        failing.list("folder")


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (OSError(22, "the region 'a' is wrong; expecting 'b'"), "check the URL, storage_options"),
        (PermissionError(13, "the token has expired"), "check the credentials and what they may"),
        (OSError(5, "x"), "check that the store can be reached, then retry"),
    ],
)
def test_the_advice_is_for_the_failure(
    failing: Store, monkeypatch: pytest.MonkeyPatch, error: OSError, advice: str
) -> None:
    monkeypatch.setattr(_FailingFileSystem, "error", error)
    with pytest.raises(StorageError, match=f"{error.strerror}; {advice}"):
        failing.list("f")


class _AnswerError(Exception):
    """As the clients of Azure and S3 tell the status of an answer."""

    def __init__(self, **told: Any) -> None:
        super().__init__("told")
        vars(self).update(told)


class HttpError(_AnswerError):
    """As gcsfs tells it."""


class _CutError(Exception):
    """As aiohttp tells that a body was cut."""

    code = 400


class DefaultCredentialsError(Exception):
    """Of `google.auth`, by name."""


def _of_s3(status: int) -> OSError:
    """What s3fs raises for a code that it does not know."""
    error = OSError(5, "told")
    error.__cause__ = _AnswerError(response={"ResponseMetadata": {"HTTPStatusCode": status}})
    return error


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (_of_s3(301), "check the URL, storage_options and the credentials"),
        (_of_s3(401), "check the URL, storage_options and the credentials"),
        (_AnswerError(status_code=403), "check the URL, storage_options and the credentials"),
        (HttpError(code=400), "check the URL, storage_options and the credentials"),
        (OSError("Forbidden: https://x"), "check the URL, storage_options and the credentials"),
        (DefaultCredentialsError("none"), "check the URL, storage_options and the credentials"),
        (KeyError("ETag"), "the answer lacks 'ETag', as of a server that is another one than the"),
        (_of_s3(503), "then retry"),
        (_of_s3(409), "then retry"),
        (_AnswerError(status_code=429), "then retry"),
        (HttpError(code="refused"), "then retry"),
        (_CutError("told"), "then retry"),
    ],
)
def test_what_a_store_refuses_is_told_from_what_passes(
    failing: Store, monkeypatch: pytest.MonkeyPatch, error: Exception, advice: str
) -> None:
    """A wrong region, a wrong key and the port of a web page were to be tried again."""
    monkeypatch.setattr(_FailingFileSystem, "error", error)
    with pytest.raises(StorageError, match=re.escape(advice)):
        failing.list("f")


def test_an_argument_that_a_client_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object) -> None:
        raise ValueError("no account")

    monkeypatch.setattr(_FailingFileSystem, "__init__", refuse)
    fsspec.register_implementation("failing", _FailingFileSystem, clobber=True)
    _FailingFileSystem.clear_instance_cache()
    with pytest.raises(ValueError, match=r"^failing://b/t: no account; check .* storage_options$"):
        open_store("failing://b/t")


@pytest.mark.parametrize(
    "error",
    [KeyError("x"), ValueError("x"), OSError(5, "x"), RuntimeError("x"), PermissionError(13, "x")],
)
def test_whatever_a_backend_raises_is_a_storage_error(
    failing: Store, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(_FailingFileSystem, "error", error)
    monkeypatch.setattr(FsspecStore, "_is_written", True)  # as the stores that are written to
    for attempt in (
        lambda: failing.read("f", 10),
        lambda: failing.read_ranges("f", [(0, 1)]),
        lambda: failing.open_arrow("f"),
        lambda: failing.list("f"),
        lambda: failing.info("f"),
        lambda: failing.replace("f", b""),
        lambda: failing.delete("f"),
        lambda: failing.delete_tree("f"),
    ):
        with pytest.raises(StorageError, match=r"f: .*(retry|credentials)") as caught:
            attempt()
        assert caught.value.path == "f"
        assert caught.value.__cause__ is error


def test_a_failure_while_arrow_reads_is_a_storage_error() -> None:
    class Broken:
        closed = False

        def read(self, _size: int) -> bytes:
            raise ConnectionResetError("gone")

        def seek(self, offset: int, _whence: int) -> int:
            return offset

        def tell(self) -> int:
            return 0

        def close(self) -> None:
            self.closed = True

    class FileSystem(MemoryFileSystem):
        protocol = "broken"
        cachable = False

        def info(self, path: str, **_kwargs: Any) -> dict[str, Any]:
            return {"name": path, "size": 100, "type": "file"}

        def open(self, *_args: Any, **_kwargs: Any) -> Any:
            return broken

    broken = Broken()
    fsspec.register_implementation("broken", FileSystem, clobber=True)
    store = open_store("broken://b/t")
    with store.open_arrow("p/f") as file, pytest.raises(StorageError, match=r"p/f: .*gone.*retry"):
        file.read(10)
    assert broken.closed


def test_creating_needs_a_store_known_to_do_it_atomically() -> None:
    fsspec.register_implementation("failing", _FailingFileSystem, clobber=True)
    for uri in ("failing://b/t", f"dir::memory://{uuid.uuid4().hex}"):
        store = open_store(uri) if "::" not in uri else FsspecStore(uri, {"dir": {"path": "/x"}})
        with pytest.raises(UnsupportedError, match="atomically"):
            store.put_if_absent("f", b"1")


def test_creating_needs_an_fsspec_that_can(monkeypatch: pytest.MonkeyPatch) -> None:
    def pipe_file(self: MemoryFileSystem, path: str, value: bytes, **_kwargs: Any) -> None:
        raise AssertionError("an old fsspec would overwrite")

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", pipe_file)
    with pytest.raises(UnsupportedError, match="update fsspec"):
        open_store(f"memory://{uuid.uuid4().hex}").put_if_absent("f", b"1")


def test_unknown_protocols_and_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="nosuch"):
        open_store("nosuch://x/y")

    def missing(*_args: object, **_kwargs: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(StorageError, match=r"bucketfmt\[s3\]"):
        open_store("s3://bucket/table")


def test_a_package_that_an_option_needs_is_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "requests_kerberos", None)
    with pytest.raises(StorageError, match=r"requests_kerberos.*; install the package that has it"):
        open_store("webhdfs://namenode:9870/t", {"kerberos": True})


def test_options_reach_the_file_system() -> None:
    class FileSystem(MemoryFileSystem):
        protocol = "optioned"
        cachable = False

        def __init__(self, secret: str, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            seen.append(secret)

    seen: list[str] = []
    fsspec.register_implementation("optioned", FileSystem, clobber=True)
    store = open_store("optioned://b/t/", {"secret": "hunter2"})
    assert seen == ["hunter2"]
    assert store.uri == "optioned://b/t"
    assert "hunter2" not in repr(store)


def test_modification_times_of_every_backend() -> None:
    class FileSystem(MemoryFileSystem):
        protocol = "timed"
        cachable = False

        def ls(self, path: str, **_kwargs: Any) -> list[dict[str, Any]]:
            entry = {"size": 1, "type": "file"}
            return [
                {**entry, "name": f"{path}/a", "mtime": 12.5},
                {**entry, "name": f"{path}/b", "updated": "2024-01-01T00:00:00.250Z"},
                {**entry, "name": f"{path}/c"},
                {**entry, "name": f"{path}/d", "modified": "Mon, 01 Jan 2024"},
                {**entry, "name": f"{path}/", "size": 0},
                {**entry, "name": path, "type": "directory"},
            ]

    fsspec.register_implementation("timed", FileSystem, clobber=True)
    infos = open_store("timed://b/t").list("p")
    assert [(i.path, i.modified) for i in infos] == [
        ("p/a", 12.5),
        ("p/b", 1704067200.25),
        ("p/c", None),
        ("p/d", None),
    ]


def test_missing_is_told_from_broken(failing: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_FailingFileSystem, "error", FileNotFoundError("x"))
    assert failing.list("f") == []
    assert failing.info("f") is None
    with pytest.raises(NotFoundError):
        failing.read("f", 10)


def test_a_store_without_conditions_is_not_written_to(
    failing: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_FailingFileSystem, "calls", 0)
    for attempt in (
        lambda: failing.read_versioned("f", 10),
        lambda: failing.put_if_absent("f", b"1"),
        lambda: failing.replace_if("f", b"1", "v"),
        lambda: failing.replace("f", b"1"),
        lambda: failing.delete("f"),
        lambda: failing.delete_tree("f"),
    ):
        with pytest.raises(UnsupportedError, match=r"f: .*over failing; keep the table") as caught:
            attempt()
        assert caught.value.path == "f"
    assert _FailingFileSystem.calls == 0
