"""Nodes of HDFS that stall, reset, refuse or lie: what is read is right, or there is an error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Literal

import fsspec
import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.errors import NotFoundError, StorageError
from bucketfmt.storage.open import open_store
from bucketfmt.storage.stores import webhdfs_store
from tests.rotation import seed
from tests.storage.fake_webhdfs import fake_webhdfs
from tests.storage.faulty_server import STALL_S, FaultyProxy, Protocol, ServerFault, faulty_proxy
from tests.write.models import SCHEMA, create_table, rows

_WEBHDFS = Protocol(
    listing=re.compile("op=LISTSTATUS"),
    content=re.compile("^/data/"),
    condition=re.compile("(?!)"),
    without_newest=lambda listing: listing,
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
_REFUSAL = r"read only: .* before the file has its content, .* no file on condition; keep the table"
_REQUESTS = 14  # of the read below, at least


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


def test_writes_are_refused_with_the_reason_before_anything_is_sent(reading: Reading) -> None:
    def opened(lock: Literal["auto", "filesystem", "process"]) -> bf.Table:
        writer = bf.WriterConfig(lock=lock, services=None)
        return bf.open(reading.uri, {"user": "tests"}, writer=writer)

    table, by_file, by_process = opened("auto"), opened("filesystem"), opened("process")
    rows_of_one = rows([0], 3)
    reading.proxy.strike(0, ServerFault.RESET_BEFORE)
    for write in (
        lambda: table.upsert(rows_of_one),
        lambda: by_file.upsert(rows_of_one),
        lambda: by_process.upsert(rows_of_one),
        lambda: by_process.delete(pa.table({"id": ["key-000003"], "region": ["us"]})),
        by_process.compact,
        by_process.savepoint,
        by_process.metadata_table.init,
        lambda: table.maintain(bf.Services(compact_after=1)),
        lambda: bf.create(
            f"{reading.uri}_new",
            schema=SCHEMA,
            record_key=["id"],
            index=bf.SimpleBucketIndex(2),
            storage_options={"user": "tests"},
        ),
    ):
        with pytest.raises(bf.UnsupportedError, match=_REFUSAL):
            write()
    assert {told.partition(" ")[0] for told in reading.proxy.seen} == {"GET"}
    due = table.preview_compaction()
    assert due.file_groups
    assert due == reading.local.preview_compaction()


def test_requests_of_reads(reading: Reading) -> None:
    """As `docs/how-to/hdfs.md` has them: fsspec asks for the state of a file twice."""

    def requests_of(work: Callable[[], object]) -> int:
        reading.proxy.strike(0, ServerFault.UNAVAILABLE)
        work()
        return len(reading.proxy.seen)

    opened: list[bf.Table] = []
    store = open_store(reading.uri, {"user": "tests"})
    key = pa.table({"id": ["key-000003"], "region": ["us"]})
    assert requests_of(lambda: store.list(".hoodie/timeline")) == 1
    assert requests_of(lambda: store.read(".hoodie/hoodie.properties", 1 << 20)) <= 4
    ranges = [(0, 4), (100, 4)]
    assert requests_of(lambda: store.read_ranges(".hoodie/hoodie.properties", ranges)) <= 1 + 3 * 2
    assert requests_of(lambda: opened.append(bf.open(reading.uri, {"user": "tests"}))) <= 4
    assert opened[0].lookup(key).num_rows == 1
    # The timeline; the base file is open, and the log file is read whole.
    assert requests_of(lambda: opened[0].lookup(key)) <= 1 + 4 + 4


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
