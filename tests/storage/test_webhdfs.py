"""Tables on HDFS, whose nodes stall, reset, refuse or lie at times."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import fsspec
import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.errors import NotFoundError, StorageError
from bucketfmt.format.names.paths import is_temporary_name
from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import Store
from bucketfmt.storage.stores import webhdfs_store
from bucketfmt.storage.stores.fsspec_store import FsspecStore
from bucketfmt.storage.stores.webhdfs_store import HdfsUnavailableError, WebHdfsStore
from bucketfmt.testing import StoreContract
from tests.rotation import seed
from tests.storage import fake_webhdfs as fake_webhdfs_module
from tests.storage.fake_webhdfs import fake_webhdfs
from tests.storage.faulty_server import STALL_S, FaultyProxy, Protocol, ServerFault, faulty_proxy
from tests.write.models import NO_SERVICES, create_table, rows
from tests.write.remote.faulty_trial import Trial


def without_newest(listing: bytes) -> bytes:
    told = json.loads(listing)
    entries = told["FileStatuses"]["FileStatus"]
    files = [entry for entry in entries if entry["type"] == "FILE"]
    newest = max(
        files, key=lambda file: (file["modificationTime"], file["pathSuffix"]), default=None
    )
    kept = [entry for entry in entries if entry is not newest]
    return json.dumps({"FileStatuses": {"FileStatus": kept}}).encode()


_WEBHDFS = Protocol(
    listing=re.compile("op=LISTSTATUS"),
    content=re.compile("^/data/"),
    condition=re.compile("(?!)"),
    without_newest=without_newest,
    error=lambda _, name: (
        "application/json",
        json.dumps({"RemoteException": {"exception": name, "message": "struck"}}),
    ),
)
_READS = [
    fault
    for fault in ServerFault
    if fault not in (ServerFault.LATE_LISTING, ServerFault.REFUSED_AFTER)
]
_REQUESTS = 12  # of the read below, at least
_LISTINGS_OF_UPSERT, _REQUESTS_OF_UPSERT = 9, 69


class Reading:
    """A table behind a proxy, and what it holds."""

    def __init__(self, proxy: FaultyProxy, local: bf.Table) -> None:
        self.proxy = proxy
        self.uri = proxy.url.replace("http://", "webhdfs://") + "/trips"
        self.local = local
        self.expected = in_order(local.scan().to_arrow())

    def read(self) -> pa.Table:
        return in_order(bf.open(self.uri, {"user": "tests"}).scan().to_arrow())


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([("region", "ascending"), ("id", "ascending")])


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reading]:
    folder = tmp_path_factory.mktemp("webhdfs")
    local = create_table(folder / "trips", bf.SimpleBucketIndex(2), "MERGE_ON_READ")
    local.upsert(rows(range(30), 1))
    local.upsert(rows(range(10, 40), 2))
    with pytest.MonkeyPatch.context() as patch, fake_webhdfs(folder) as url:
        patch.setattr(webhdfs_store, "_FIRST_WAIT_S", 0.001)
        with faulty_proxy(url, _WEBHDFS) as proxy:
            yield Reading(proxy, local)


@contextmanager
def struck_by(reading: Reading, at: int, fault: ServerFault, *, lasts: bool) -> Iterator[None]:
    """Strike a request. Only where a server stalls is it waited for shortly: machines are busy."""
    with pytest.MonkeyPatch.context() as patch:
        if "STALL" in fault.name:
            patch.setattr(webhdfs_store, "_SILENCE_S", STALL_S / 2)
        reading.proxy.strike(at, fault, lasts=lasts)
        yield


def taken(fault: ServerFault, draw: str, config: pytest.Config) -> list[int]:
    every = range(1, _REQUESTS + 1)
    if config.getoption("--every-case"):
        return list(every)
    return Random(f"{seed()} {draw} {fault.name}").sample(every, 1)


@pytest.mark.parametrize("fault", _READS, ids=lambda fault: fault.name)
def test_a_fault_that_passes(
    reading: Reading, fault: ServerFault, pytestconfig: pytest.Config
) -> None:
    for at in taken(fault, "passes", pytestconfig):
        with struck_by(reading, at, fault, lasts=False):
            assert reading.read().equals(reading.expected), at
        if fault is not ServerFault.SHORT:  # of which fewer requests are
            assert reading.proxy.struck, at


@pytest.mark.parametrize("fault", _READS, ids=lambda fault: fault.name)
def test_an_outage(reading: Reading, fault: ServerFault, pytestconfig: pytest.Config) -> None:
    for at in taken(fault, "lasts", pytestconfig)[: 5 if "STALL" in fault.name else None]:
        try:
            with struck_by(reading, at, fault, lasts=True):
                found = reading.read()
        except StorageError as error:  # noqa: PERF203
            assert "retry" in str(error)  # noqa: PT017
        else:
            assert found.equals(reading.expected), at
    reading.proxy.strike(0, None)
    assert reading.read().equals(reading.expected)


def test_an_error_of_a_data_node_is_not_the_content_of_a_file(reading: Reading) -> None:
    store = open_store(reading.uri, {"user": "tests"})
    reading.proxy.strike(1, None)
    assert b"hoodie.table.name" in store.read(".hoodie/hoodie.properties", 1 << 20)
    at = [number for number, told in enumerate(requests_of_a_read(reading), 1) if "/data/" in told]
    assert at
    for number in at:
        reading.proxy.strike(number, ServerFault.UNAVAILABLE, lasts=True)
        with pytest.raises(StorageError, match="503"):
            store.read(".hoodie/hoodie.properties", 1 << 20)
    reading.proxy.strike(0, None)
    with pytest.raises(NotFoundError):
        store.read(".hoodie/missing", 1 << 20)


def test_requests_of_reads(reading: Reading) -> None:
    """As `docs/how-to/hdfs.md` has them."""

    def requests_of(work: Callable[[], object]) -> int:
        reading.proxy.strike(0, ServerFault.UNAVAILABLE)
        work()
        return len(reading.proxy.seen)

    opened: list[bf.Table] = []
    store = open_store(reading.uri, {"user": "tests"})
    key = pa.table({"id": ["key-000003"], "region": ["us"]})
    assert requests_of(lambda: store.list(".hoodie/timeline")) == 1
    assert requests_of(lambda: store.read(".hoodie/hoodie.properties", 1 << 20)) == 3
    ranges = [(0, 4), (100, 4)]
    assert requests_of(lambda: store.read_ranges(".hoodie/hoodie.properties", ranges)) == 1 + 2 * 2
    assert requests_of(lambda: opened.append(bf.open(reading.uri, {"user": "tests"}))) == 3
    assert opened[0].lookup(key).num_rows == 1
    # The timeline; the base file is open, and the log file is read whole.
    assert requests_of(lambda: opened[0].lookup(key)) <= 1 + 4 + 3


def test_requests_of_writes(trial: Trial) -> None:
    """As `docs/how-to/hdfs.md` has them."""

    def requests_of(work: Callable[[], object]) -> int:
        trial.proxy.strike(-1, ServerFault.RESET_BEFORE)
        work()
        return len(trial.proxy.seen)

    store = trial.struck.store
    assert requests_of(lambda: store.put_if_absent("d/f", b"one")) == 3
    assert requests_of(lambda: store.replace("d/f", b"two")) == 3
    _, version = store.read_versioned("d/f", 9)
    assert requests_of(lambda: store.replace_if("d/f", b"three", version)) == 7
    assert requests_of(lambda: store.replace_if("d/f", b"four", version)) == 1
    assert requests_of(lambda: store.delete("d/f")) == 1
    table = bf.open(trial.struck.uri, {"user": "tests"}, writer=NO_SERVICES)
    table.upsert(rows([0], 5))
    seen = requests_of(lambda: table.upsert(rows([0], 6)))
    print(*trial.proxy.seen, sep="\n")
    assert seen <= 69


def test_a_file_system_of_the_caller_keeps_its_session(reading: Reading) -> None:
    url = reading.uri
    own, _ = fsspec.core.url_to_fs(url, user="tests")
    session = own.session
    reading.read()
    assert fsspec.core.url_to_fs(url, user="tests")[0] is own
    assert own.session is session


def requests_of_a_read(reading: Reading) -> list[str]:
    store = open_store(reading.uri, {"user": "tests"})
    reading.proxy.strike(0, ServerFault.UNAVAILABLE)
    store.read(".hoodie/hoodie.properties", 1 << 20)
    return list(reading.proxy.seen)


@pytest.mark.rotated(among="the contract of a store on WebHDFS", one_of=3)
class TestWebHdfs(StoreContract):
    @pytest.fixture
    def uri(self, tmp_path: Path) -> Iterator[str]:
        with fake_webhdfs(tmp_path) as url:
            yield as_webhdfs(url) + "/trips"

    @pytest.fixture
    def store(self, uri: str) -> Store:
        return open_store(uri, {"user": "tests"})

    @pytest.fixture
    def other(self, uri: str) -> Store:
        return open_store(uri, {"user": "tests"})


def as_webhdfs(url: str) -> str:
    return url.replace("http://", "webhdfs://")


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    with pytest.MonkeyPatch.context() as patch, fake_webhdfs(tmp_path) as url:
        patch.setattr(webhdfs_store, "_FIRST_WAIT_S", 0.001)
        with faulty_proxy(url, _WEBHDFS) as proxy:
            uris = (f"{as_webhdfs(each)}/trips" for each in (url, proxy.url))
            yield Trial(proxy, next(uris), {"user": "tests"}, {"user": "tests"}, next(uris))


_WRITE_FAULTS = [fault for fault in ServerFault if fault is not ServerFault.REFUSED_AFTER]


def requests_of(fault: ServerFault, draw: str, config: pytest.Config) -> list[int]:
    is_listing = fault is ServerFault.LATE_LISTING
    last = _LISTINGS_OF_UPSERT if is_listing else _REQUESTS_OF_UPSERT
    every = range(1, last + 1)
    if config.getoption("--every-case"):
        return list(every)
    return Random(f"{seed()} {draw} {fault.name}").sample(every, 2)


def strike(
    trial: Trial, at: int, fault: ServerFault, patch: pytest.MonkeyPatch, *, lasts: bool = False
) -> bool:
    patch.setattr(webhdfs_store, "_SILENCE_S", STALL_S / 2 if "STALL" in fault.name else 60.0)
    return trial.upsert(at, fault, lasts=lasts)


@pytest.mark.rotated(2, among="writes on HDFS", one_of=4)
@pytest.mark.parametrize("fault", _WRITE_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_that_passes_amid_a_write(
    trial: Trial,
    fault: ServerFault,
    pytestconfig: pytest.Config,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for at in requests_of(fault, "writes", pytestconfig):
        assert strike(trial, at, fault, monkeypatch), at
    assert trial.direct.check(depth="full").status == "clean"


@pytest.mark.rotated(2, among="writes on HDFS", one_of=4)
@pytest.mark.parametrize("fault", _WRITE_FAULTS, ids=lambda fault: fault.name)
def test_an_outage_amid_a_write(
    trial: Trial,
    fault: ServerFault,
    pytestconfig: pytest.Config,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for at in requests_of(fault, "writes that fail", pytestconfig):
        strike(trial, at, fault, monkeypatch, lasts=True)
    assert trial.upsert(0, ServerFault.RESET_BEFORE)
    assert trial.direct.check(depth="full").status == "clean"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[WebHdfsStore]:
    with fake_webhdfs(tmp_path) as url:
        store = open_store(f"{as_webhdfs(url)}/trips", {"user": "tests"})
        assert isinstance(store, WebHdfsStore)
        yield store


class Killed(BaseException):
    """The process died."""


def die_before(store: WebHdfsStore, operation: str) -> Callable[[], None]:
    """Have the store die before its first request of this operation; return what mends it."""
    call = store._call

    def die(method: str, asked: str, full: str, **given: str) -> Any:
        if asked == operation or died:
            died.append(asked)
            raise Killed
        return call(method, asked, full, **given)

    died: list[str] = []
    store._call = die  # type: ignore[method-assign]

    def mend() -> None:
        store._call = call  # type: ignore[method-assign]

    return mend


@pytest.mark.parametrize("operation", ["RENAME", "SETXATTR", "CREATE"])
def test_whoever_dies_while_it_replaces_a_file_holds_nobody_up(
    served: WebHdfsStore, operation: str
) -> None:
    served.put_if_absent("d/f", b"one")
    _, version = served.read_versioned("d/f", 9)
    for _ in range(3):
        mend = die_before(served, operation)
        with pytest.raises(Killed):
            served.replace_if("d/f", b"two", version)
        mend()
    assert served.read("d/f", 9) == b"one"
    assert served.replace_if("d/f", b"three", version) == served.read_versioned("d/f", 9)[1]
    assert served.read("d/f", 9) == b"three"
    left = {entry.name for entry in served.list("d")} - {"f"}
    assert all(map(is_temporary_name, left))
    assert len(left) == (3 if operation == "SETXATTR" else 0)  # a clean removes them


def test_a_claim_that_was_outbid_renames_nothing(served: WebHdfsStore) -> None:
    """One stands still before it renames; another claims the version, and replaces the file."""
    served.put_if_absent("d/f", b"one")
    _, version = served.read_versioned("d/f", 9)
    call, found = served._call, []

    def call_late(method: str, asked: str, full: str, **given: str) -> Any:
        if asked == "RENAME" and not found:
            found.append(None)
            found.append(served.replace_if("d/f", b"other", version))
        return call(method, asked, full, **given)

    served._call = call_late  # type: ignore[method-assign]
    assert served.replace_if("d/f", b"late", version) is None
    assert found[1] == served.read_versioned("d/f", 9)[1]
    assert served.read("d/f", 9) == b"other"
    assert [entry.name for entry in served.list("d")] == ["f"]


def test_a_claim_cannot_have_another_file_removed(served: WebHdfsStore) -> None:
    served.put_if_absent("d/f", b"one")
    served.put_if_absent("e/.bucketfmt-x.tmp", b"kept")
    served.put_if_absent("d/kept", b"kept")
    _, version = served.read_versioned("d/f", 9)
    for number, name in enumerate(("kept", ".bucketfmt-/../../e/.bucketfmt-x.tmp", "", "../e")):
        given = {"xattr.name": f"user.bucketfmt.next.{number}", "xattr.value": f'"{name}"'}
        served._call("PUT", "SETXATTR", f"{served._root}/d/f", flag="CREATE", **given)
    assert served.replace_if("d/f", b"two", version) is not None
    assert served.read("d/kept", 9) == served.read("e/.bucketfmt-x.tmp", 9) == b"kept"


def test_a_version_that_too_many_claim(
    served: WebHdfsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhdfs_store, "_LOOK_S", 0.001)
    served.put_if_absent("d/f", b"one")
    _, version = served.read_versioned("d/f", 9)
    for number in range(30):
        given = {"xattr.name": f"user.bucketfmt.next.{number}", "xattr.value": '"x"'}
        served._call("PUT", "SETXATTR", f"{served._root}/d/f", flag="CREATE", **given)
    with pytest.raises(StorageError, match="30 processes died while they replaced this version"):
        served.replace_if("d/f", b"two", version)
    assert [entry.name for entry in served.list("d")] == ["f"]


def before(store: WebHdfsStore, operation: str, act: Callable[[], object]) -> None:
    """Have others act before the first request of this operation."""
    call = store._call

    def call_late(method: str, asked: str, full: str, **given: str) -> Any:
        if asked == operation:
            store._call = call  # type: ignore[method-assign]
            act()
        return call(method, asked, full, **given)

    store._call = call_late  # type: ignore[method-assign]


def test_who_is_late_claims_nothing_of_the_version_that_came(served: WebHdfsStore) -> None:
    """Or the lease of the lock, which many wait for, has 30 claims once one of them has it."""
    served.put_if_absent("d/f", b"one")
    _, version = served.read_versioned("d/f", 9)
    before(served, "SETXATTR", lambda: served.replace_if("d/f", b"other", version))
    assert served.replace_if("d/f", b"late", version) is None
    told = served._call("GET", "GETXATTRS", f"{served._root}/d/f", encoding="TEXT").json()
    assert told == {"XAttrs": []}
    assert served.read("d/f", 9) == b"other"


def test_more_writers_at_a_time_than_can_claim_a_version(
    served: WebHdfsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhdfs_store, "_LOOK_S", 0.01)
    monkeypatch.setattr(webhdfs_store, "_LOOKS", 6000)
    served.put_if_absent("d/f", b"one")
    _, version = served.read_versioned("d/f", 9)
    for number in range(30):
        given = {"xattr.name": f"user.bucketfmt.next.{number}", "xattr.value": '"x"'}
        served._call("PUT", "SETXATTR", f"{served._root}/d/f", flag="CREATE", **given)
    one_of_them = threading.Timer(0.2, served.replace, ("d/f", b"other"))
    one_of_them.start()
    assert served.replace_if("d/f", b"late", version) is None
    one_of_them.join()
    assert served.read("d/f", 9) == b"other"
    assert [entry.name for entry in served.list("d")] == ["f"]


@pytest.mark.parametrize("is_renamed", [False, True])
def test_a_removal_whose_answer_is_lost_tells_of_no_rename(
    served: WebHdfsStore, monkeypatch: pytest.MonkeyPatch, *, is_renamed: bool
) -> None:
    """All answers to the rename are lost, and the first to the removal of what is beside."""
    monkeypatch.setattr(webhdfs_store, "_FIRST_WAIT_S", 0.001)
    call, deleted = served._call, []

    def lose(method: str, asked: str, full: str, **given: str) -> Any:
        if asked == "RENAME":
            if is_renamed:
                with suppress(FileNotFoundError):
                    call(method, asked, full, **given)
            raise HdfsUnavailableError("lost")
        answer = call(method, asked, full, **given)
        if asked == "DELETE" and not deleted:
            deleted.append(full)
            raise HdfsUnavailableError("lost")
        return answer

    served._call = lose  # type: ignore[method-assign]
    with pytest.raises(StorageError, match="lost"):
        served.put_if_absent("d/f", b"one")
    assert len(deleted) == 1
    assert [entry.name for entry in served.list("d")] == (["f"] if is_renamed else [])


@pytest.mark.parametrize("url", ["webhdfs:///lake/trips", "webhdfs://:9870/lake/trips"])
def test_a_url_without_a_name_node(url: str) -> None:
    with pytest.raises(ValueError, match="no name node is named; give webhdfs://HOST:PORT/PATH"):
        bf.open(url)


@pytest.mark.parametrize("kind", ["NSQuotaExceededException", "DSQuotaExceededException"])
def test_a_quota_that_is_used_up(
    served: WebHdfsStore, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def refuse(tree: object, name: str, content: bytes) -> None:
        raise fake_webhdfs_module._RefusedError(kind, f"The quota of /trips is exceeded\nat {name}")

    monkeypatch.setattr(fake_webhdfs_module._Tree, "create", refuse)
    with pytest.raises(StorageError, match=f"{kind}: The quota of /trips is exceeded; have the"):
        served.put_if_absent("d/f", b"one")


def test_a_data_node_that_is_down_is_avoided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name node names it for some minutes, though another one has the content."""
    monkeypatch.setattr(webhdfs_store, "_FIRST_WAIT_S", 0.001)
    dead = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    with fake_webhdfs(tmp_path, dead) as url:
        table = create_table(
            f"{as_webhdfs(url)}/trips",
            bf.SimpleBucketIndex(1),
            storage_options={"user": "tests"},
            writer=NO_SERVICES,
        )
        table.upsert(rows(range(9), 1))
        table.upsert(rows([0], 2))
        assert bf.open(table.uri, {"user": "tests"}).scan().count() == 9
    found = bf.open(tmp_path / "trips").scan(["ts"], filter="ts = 2")
    assert found.count() == 1


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_hdfs_by_the_client_of_java_is_read_only(tmp_path: Path) -> None:
    """`hdfs:` by pyarrow creates a file before it has its content."""
    store = FsspecStore(f"simplecache::file://{tmp_path}", {})
    store._protocol = "hdfs"
    for write in (
        lambda: store.put_if_absent("f", b"1"),
        lambda: store.replace("f", b"1"),
        lambda: store.delete("f"),
    ):
        with pytest.raises(bf.UnsupportedError, match="over hdfs; give the URL webhdfs://HOST"):
            write()
    assert not list(tmp_path.iterdir())
