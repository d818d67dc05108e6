"""Requests, and how many of them wait for one another, on an object store: against deltalake.

A real S3 server on this machine (moto's) takes 30 ms longer for each request. Each work is done on
a table of 16 buckets and 10 partitions, or 160 files, with 30 commits; `deltalake` does the like
on the same server. Which requests wait for one another is told from their times: a request that
begins after another's end may have waited for the other, or for the processor. So works on 160
files are also done with 1 s for each request, where the processor matters less. A scan is timed in
turns with clients that get the same files by as many requests, and decode nothing: what the server
and its proxy, which are Python too, can give.
"""

from __future__ import annotations

import http.client
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

import bucketfmt as bf
from benchmarks.measure import Figure, Result
from benchmarks.remote.server import Requests, Server, serve

__all__ = ["measure_remote"]

_DELAY_S, _LONG_DELAY_S = 0.03, 1.0
_BUCKETS, _PARTITIONS, _COMMITS = 16, 10, 30
_GROUPS = _BUCKETS * _PARTITIONS
_ROWS = 16_000
_SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "p": pa.string(),
        "ts": pa.int64(),
        "qty": pa.float64(),
        "text": pa.string(),
    }
)
_WRITER = bf.WriterConfig(services=None)  # which would compact, and archive the commits
_US, _PEER, _PLAIN = "bucketfmt", "deltalake", "plain GETs"
_SCAN = "scan of 160 file groups"
_SCAN_AGAIN = f"{_SCAN}, in turns"
_ROUNDS = 5
_PARQUET = b"PAR1"
_CONNECTIONS = 128  # as many as bucketfmt opens


@dataclass(frozen=True)
class _Owed:
    """The most requests, and the most of them one after another."""

    depth: int
    requests: int | None = None


_CAUSES = {
    "160": (
        "client and server share two processors, and a file takes them some 40 ms, so that "
        "requests begin late that wait for no other: without a clock, `tests/write/remote/"
        "test_requests.py` counts 14 in a row for an upsert, 19 for a compaction"
    ),
    "scan": (
        "the server takes 4 ms of processor time for a request, s3fs 2 ms, and the rows of a file "
        "1 ms, on the same two processors"
    ),
}
_PROTOCOL = (
    "Hudi's protocol has the lock, the heartbeat, the requested and inflight files and the marker"
)
_OWED = {
    "open": _Owed(2),
    "lookup with partition, cold": _Owed(6),
    "lookup with partition, warm": _Owed(3),
    "lookup without partition, warm": _Owed(4),
    "upsert of 1 row, cold": _Owed(18),
    "upsert of 1 row, warm": _Owed(14, 30),
    "upsert of 1 row with a key, warm": _Owed(16, 32),
    "upsert into 160 file groups": _Owed(25, 6 * _GROUPS),
    "upsert into 160 file groups, 1 s each": _Owed(25, 6 * _GROUPS),
    "compaction of 160 file groups": _Owed(25, 6 * _GROUPS),
    "compaction of 160 file groups, 1 s each": _Owed(25, 6 * _GROUPS),
}


@dataclass(frozen=True)
class _Done:
    """One piece of work by one peer."""

    work: str
    peer: str
    requests: Requests
    wall_s: float

    @property
    def told(self) -> str:
        requests = self.requests
        return (
            f"{len(requests.every)} requests, {requests.depth} deep, {self.wall_s:.2f} s "
            f"({requests.kinds()})"
        )


class _Bench:
    """Does works, and keeps what they cost."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.done: list[_Done] = []

    def run(self, work: str, peer: str, do: Callable[[], Any], delay_s: float = _DELAY_S) -> Any:
        self.server.set_delay(delay_s)
        self.server.take()
        began = time.perf_counter()
        result = do()
        wall = time.perf_counter() - began
        self.done.append(_Done(work, peer, self.server.take(), wall))
        print(f"{work}, {peer}: {self.done[-1].told}", file=sys.stderr, flush=True)
        self.server.set_delay(0)
        return result


def measure_remote(_data: Path) -> list[Result]:
    """Do each work once by bucketfmt and once by deltalake."""
    with serve() as server:
        bench = _Bench(server)
        _make_bucket(server)
        _measure_ours(bench)
        _measure_delta(bench)
    return [_report(bench.done)]


def _rows(first: int, number: int, ts: int) -> pa.Table:
    """Return rows, the partitions in turn."""
    numbers = range(first, first + number)
    return pa.table(
        {
            "id": [f"key-{n:08}" for n in numbers],
            "p": [f"p{n % _PARTITIONS}" for n in numbers],
            "ts": [ts] * number,
            "qty": [float(n) for n in numbers],
            "text": [f"text of {n * 7919 % 10_007}" * 3 for n in numbers],
        },
        schema=_SCHEMA,
    )


# -- bucketfmt


def _options(server: Server) -> dict[str, Any]:
    return {
        "endpoint_url": server.url,
        "key": "testing",
        "secret": "testing",
        "client_kwargs": {"region_name": "eu-west-1"},
        "skip_instance_cache": True,
    }


def _make_bucket(server: Server) -> None:
    import s3fs

    s3fs.S3FileSystem(**_options(server)).mkdir("tables")


def _create(server: Server, table_type: str) -> str:
    """Make a table of 160 file groups with commits of one row, on a disk, and bring it there."""
    with tempfile.TemporaryDirectory(prefix="bucketfmt-bench-") as folder:
        table = bf.create(
            f"{folder}/trips",
            schema=_SCHEMA,
            record_key=["id"],
            partition_by=["p"],
            ordering=["ts"],
            index=bf.SimpleBucketIndex(_BUCKETS),
            table_type=table_type,  # type: ignore[arg-type]
            writer=_WRITER,
        )
        table.upsert(_rows(0, _ROWS, 0))
        for ts in range(1, _COMMITS):
            table.upsert(_rows(ts, 1, ts))
        if table_type == "MERGE_ON_READ":
            table.upsert(_rows(0, 4 * _GROUPS, 100))
        return _upload(server, Path(folder))


def _upload(server: Server, folder: Path) -> str:
    """Put the files of a folder into the bucket, and return the URI of its table `trips`."""
    import s3fs

    uri, s3 = f"s3://tables/{uuid.uuid4().hex}", s3fs.S3FileSystem(**_options(server))
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.endswith(".crc"):
            s3.pipe_file(f"{uri}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return f"{uri}/trips"


def _measure_ours(bench: _Bench) -> None:
    def opened() -> bf.Table:
        return bf.open(uri, _options(bench.server), writer=_WRITER)

    uri = _create(bench.server, "COPY_ON_WRITE")
    rows = iter(range(5_000, 6_000))
    with_partition = pa.table({"id": ["key-00000042"], "p": ["p2"]})
    table = bench.run("open", _US, opened)
    bench.run("lookup with partition, cold", _US, lambda: _one(opened().lookup(with_partition)))
    table.lookup(with_partition)
    bench.run("lookup with partition, warm", _US, lambda: _one(table.lookup(with_partition)))
    table.lookup(["key-00000043"])
    warm = "lookup without partition, warm"
    bench.run(warm, _US, lambda: _one(table.lookup(["key-00000043"])))
    found = bench.run(_SCAN, _US, lambda: table.scan().to_arrow())
    _check(found.num_rows == _ROWS)
    _measure_floor(bench, table)
    bench.run("upsert of 1 row, cold", _US, lambda: opened().upsert(_rows(next(rows), 1, 99)))
    table.upsert(_rows(next(rows), 1, 99))
    bench.run("upsert of 1 row, warm", _US, lambda: table.upsert(_rows(next(rows), 1, 99)))
    bench.run(
        "upsert of 1 row with a key, warm",
        _US,
        lambda: table.upsert(_rows(next(rows), 1, 99), idempotency_key="a key"),
    )
    given = _rows(8_000, 4 * _GROUPS, 100)
    bench.run("upsert into 160 file groups", _US, lambda: table.upsert(given))
    _check(table.lookup(given.select(["id", "p"])).column("ts").to_pylist() == [100] * len(given))
    given = _rows(8_000, 4 * _GROUPS, 101)
    again = "upsert into 160 file groups, 1 s each"
    bench.run(again, _US, lambda: table.upsert(given), _LONG_DELAY_S)

    fewer = _BUCKETS // 2
    done = bench.run("rehash of 160 file groups to 80", _US, lambda: table.rehash(fewer))
    _check(len(done.files) == fewer * _PARTITIONS)

    uri = _create(bench.server, "COPY_ON_WRITE")
    table = opened()
    table.metadata_table.init("column_stats", "partition_stats")
    table.upsert(_rows(next(rows), 1, 99))
    told = "upsert of 1 row, with a metadata table, warm"
    bench.run(told, _US, lambda: table.upsert(_rows(next(rows), 1, 99)))

    work = "compaction of 160 file groups"
    for name, delay_s in ((work, _DELAY_S), (f"{work}, 1 s each", _LONG_DELAY_S)):
        uri = _create(bench.server, "MERGE_ON_READ")
        done = bench.run(name, _US, opened().compact, delay_s)
        _check(len(done.files) == _GROUPS)


def _one(found: pa.Table) -> None:
    _check(found.num_rows == 1)


def _check(is_so: bool) -> None:
    if not is_so:
        raise SystemExit("a work had another result than it was to have")


# -- deltalake


def _measure_delta(bench: _Bench) -> None:
    from deltalake import DeltaTable, QueryBuilder, write_deltalake

    options = {
        "AWS_ENDPOINT_URL": bench.server.url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "eu-west-1",
    }

    def opened() -> DeltaTable:
        return DeltaTable(uri, storage_options=options)

    def merge(table: DeltaTable, rows: pa.Table) -> None:
        given = " OR ".join(f"t.p = '{path}'" for path in sorted(set(rows["p"].to_pylist())))
        (
            table.merge(
                rows,
                predicate=f"({given}) AND t.p = s.p AND t.id = s.id",
                source_alias="s",
                target_alias="t",
            )
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        )

    def lookup(table: DeltaTable, condition: str) -> None:
        table.update_incremental()
        query = QueryBuilder().register("t", table)
        _one(pa.table(query.execute(f"SELECT * FROM t WHERE {condition}").read_all()))

    part = _ROWS // _BUCKETS
    with tempfile.TemporaryDirectory(prefix="bucketfmt-bench-") as folder:
        path = f"{folder}/trips"
        for number in range(_BUCKETS):
            given = _rows(number * part, part, 0)
            write_deltalake(path, given, mode="append", partition_by=["p"])
        for ts in range(1, _COMMITS - _BUCKETS + 1):
            merge(DeltaTable(path), _rows(ts, 1, ts))
        uri = _upload(bench.server, Path(folder))
    rows = iter(range(5_000, 6_000))
    table = bench.run("open", _PEER, opened)
    in_partition = "p = 'p2' AND id = 'key-00000042'"
    bench.run("lookup with partition, cold", _PEER, lambda: lookup(opened(), in_partition))
    lookup(table, in_partition)
    bench.run("lookup with partition, warm", _PEER, lambda: lookup(table, in_partition))
    anywhere = "id = 'key-00000043'"
    bench.run("lookup without partition, warm", _PEER, lambda: lookup(table, anywhere))
    found = bench.run(_SCAN, _PEER, table.to_pyarrow_table)
    _check(found.num_rows == _ROWS)
    bench.run("upsert of 1 row, cold", _PEER, lambda: merge(opened(), _rows(next(rows), 1, 99)))
    table.update_incremental()
    bench.run("upsert of 1 row, warm", _PEER, lambda: merge(table, _rows(next(rows), 1, 99)))
    bench.run(
        "upsert into 160 file groups",
        _PEER,
        lambda: merge(table, _rows(8_000, 4 * _GROUPS, 100)),
    )
    for number in range(_BUCKETS):  # files for the compaction, as many as before
        rows_of_file = _rows(_ROWS + number * _PARTITIONS, _PARTITIONS, 0)
        write_deltalake(uri, rows_of_file, mode="append", storage_options=options)
    table.update_incremental()
    bench.run("compaction of 160 file groups", _PEER, table.optimize.compact)


# -- the server itself


def _measure_floor(bench: _Bench, table: bf.Table) -> None:
    """Scan in turns with clients that get the same files and do nothing with them."""
    import s3fs

    s3 = s3fs.S3FileSystem(**_options(bench.server))
    files = dict.fromkeys(
        request.path
        for request in bench.done[-1].requests.every
        if request.kind == "GET" and ".parquet" in request.path
    )
    urls = [s3.url(path.lstrip("/")) for path in files]  # which tell the server who asks
    address = bench.server.url.removeprefix("http://")

    def get(url: str) -> bytes:
        client = http.client.HTTPConnection(address)
        client.request("GET", url)
        data = client.getresponse().read()
        client.close()
        return data

    def get_all() -> list[bytes]:
        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            return list(pool.map(get, urls))

    for _ in range(_ROUNDS):
        got = bench.run(_SCAN_AGAIN, _PLAIN, get_all)
        _check(all(data.startswith(_PARQUET) for data in got))
        found = bench.run(_SCAN_AGAIN, _US, lambda: table.scan().to_arrow())
        _check(found.num_rows == _ROWS)


# -- report


def _report(every: list[_Done]) -> Result:
    by_work: dict[str, dict[str, _Done]] = {}
    walls: dict[str, list[float]] = {}  # of the scans in turns, by peer
    for done in every:
        by_work.setdefault(done.work, {})[done.peer] = done
        if done.work == _SCAN_AGAIN:
            walls.setdefault(done.peer, []).append(done.wall_s)
    for peer, some in walls.items():
        by_work[_SCAN_AGAIN][peer] = replace(by_work[_SCAN_AGAIN][peer], wall_s=median(some))
    lines = [
        "| work | peer | requests | depth | wall s | kinds |",
        "|---|---|---:|---:|---:|---|",
    ]
    figures = []
    for work, by_peer in by_work.items():
        for peer, done in by_peer.items():
            requests = done.requests
            lines.append(
                f"| {work} | {peer} | {len(requests.every)} | {requests.depth} "
                f"| {done.wall_s:.2f} | {requests.kinds()} |"
            )
        figures += _figures(work, by_peer)
    ratios = [ours / plain for ours, plain in zip(walls[_US], walls[_PLAIN], strict=True)]
    figures.append(
        Figure(f"{_SCAN}: by {_PLAIN}", median(ratios), "x", at_most=1.5, cause=_CAUSES["scan"])
    )
    return Result(
        f"Requests to an object store, {_DELAY_S * 1000:.0f} ms each",
        figures=figures,
        notes=["\n" + "\n".join(lines) + "\n"],
    )


def _figures(work: str, by_peer: dict[str, _Done]) -> list[Figure]:
    ours = by_peer[_US].requests
    figures = []
    if work in _OWED:
        owed = _OWED[work]
        cause = _CAUSES["160"] if "160" in work else _PROTOCOL
        figures.append(
            Figure(f"{work}: depth", ours.depth, "requests", at_most=owed.depth, cause=cause)
        )
        if owed.requests is not None:
            figures.append(
                Figure(f"{work}: requests", len(ours.every), "requests", at_most=owed.requests)
            )
    if _PEER in by_peer:
        theirs = by_peer[_PEER].requests
        for name, value, bound in (
            ("depth", ours.depth, theirs.depth),
            ("requests", len(ours.every), len(theirs.every)),
        ):
            told = f"{work}: {name} by deltalake's"
            cause = next((text for start, text in _CAUSES.items() if told.startswith(start)), "")
            figures.append(Figure(told, value / bound, "x", at_most=1, cause=cause or _PROTOCOL))
    return figures
