"""How many requests each verb of a store, and each work on a table, sends to a server.

Which works wait for how many requests is counted in `tests/write/remote/test_requests.py`, where
each verb is one request. Here it is seen to be so, for the service of each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import Store
from tests.storage.faulty_server import ServerFault
from tests.stores.proxied import PROTOCOLS, Proxied, proxied
from tests.write.models import create_table, rows

_LIMIT = 1 << 20
_LARGE = bytes(range(256)) * 4_096  # above what is read ahead


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.stores) for name in PROTOCOLS]
)
def server(request: pytest.FixtureRequest) -> Iterator[Proxied]:
    with proxied(request.param) as server:
        yield server


def count(server: Proxied, work: Callable[[], object]) -> int:
    server.proxy.strike(-1, ServerFault.RESET_BEFORE)  # which is never reached
    work()
    seen = list(server.proxy.seen)
    print(f"{len(seen)} requests:", *seen, sep="\n")
    return len(seen)


@pytest.fixture
def store(server: Proxied) -> Store:
    store = open_store(server.direct.new_uri(), server.options)
    store.put_if_absent("p/empty", b"")
    store.put_if_absent("p/small", b"0123456789")
    store.put_if_absent("p/large", _LARGE)
    return store


def _missing(store: Store) -> None:
    with pytest.raises(bf.StorageError):
        store.read("p/missing", _LIMIT)


VERBS: dict[str, tuple[int, Callable[[Store], object]]] = {
    "read": (1, lambda store: store.read("p/small", _LIMIT)),
    "read_versioned": (1, lambda store: store.read_versioned("p/small", _LIMIT)),
    "read_ranges": (2, lambda store: store.read_ranges("p/large", [(5, 5), (900_000, 9)])),
    "open_arrow": (1, lambda store: store.open_arrow("p/small").read()),
    "the end of a large file": (2, lambda store: store.open_arrow("p/large").seek(-100, 2)),
    "list": (1, lambda store: store.list("p")),
    "list nothing": (1, lambda store: store.list("q")),
    "put_if_absent": (1, lambda store: store.put_if_absent("p/new", b"1")),
    "put_if_absent of what is there": (1, lambda store: store.put_if_absent("p/small", b"1")),
    "replace": (1, lambda store: store.replace("p/small", b"1")),
    "delete": (1, lambda store: store.delete("p/small")),
    "missing": (1, _missing),
}


@pytest.mark.parametrize("verb", VERBS)
def test_requests_of_a_verb(server: Proxied, store: Store, verb: str) -> None:
    at_most, call = VERBS[verb]
    assert 1 <= count(server, lambda: call(store)) <= at_most


def test_requests_of_replace_if(server: Proxied, store: Store) -> None:
    _, version = store.read_versioned("p/small", _LIMIT)
    assert count(server, lambda: store.replace_if("p/small", b"2", version)) == 1
    assert count(server, lambda: store.replace_if("p/small", b"3", version)) == 1
    assert store.read("p/small", _LIMIT) == b"2"


def test_what_is_read(store: Store) -> None:
    assert [store.read(f"p/{name}", _LIMIT) for name in ("empty", "small")] == [b"", b"0123456789"]
    assert store.open_arrow("p/empty").read() == b""
    with pytest.raises(bf.LimitError):
        store.read("p/large", 1_000)
    for start, length in ((0, 10), (500_000, 300_000), (len(_LARGE) - 10, 10)):
        file = store.open_arrow("p/large")
        file.seek(start)
        assert file.read(length) == _LARGE[start : start + length]
    for start, length in ((5, 6), (10, 1), (100, 1)):
        with pytest.raises(bf.TruncatedError):
            store.read_ranges("p/small", [(start, length)])


def test_a_folder_with_more_entries_than_the_limit(server: Proxied, store: Store) -> None:
    uri = store.uri
    for most, is_refused in ((3, False), (2, True)):
        limited = open_store(uri, server.options, bf.Limits(folder_entries_max=most))
        if is_refused:
            with pytest.raises(bf.LimitError):
                limited.list("p")
        else:
            assert [entry.name for entry in limited.list("p")] == ["empty", "large", "small"]


def test_requests_of_works(server: Proxied) -> None:
    """As in `tests/write/remote/test_requests.py`, but for what it takes to prove the index."""
    uri = server.direct.new_uri()
    create_table(
        uri,
        bf.SimpleBucketIndex(2),
        "COPY_ON_WRITE",
        storage_options=server.direct.options,
        writer=bf.WriterConfig(services=None),
    ).upsert(rows(range(30), 0))
    tables: list[bf.Table] = []

    def opened() -> None:
        tables.append(bf.open(uri, server.options, writer=bf.WriterConfig(services=None)))

    key = pa.table({"id": ["key-000003"], "region": ["us"]})
    assert count(server, opened) == 1
    (table,) = tables
    assert count(server, lambda: table.lookup(key)) <= 6
    assert count(server, lambda: table.lookup(key)) == 2
    table.upsert(rows([3], 1))
    assert count(server, lambda: table.upsert(rows([3], 2))) <= 23
    assert count(server, lambda: table.upsert(rows(range(30), 3))) <= 38
    assert table.scan().count() == 30
