"""Whatever a writer is hit by, the table reads as before or as after, and can be written to."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.store import Store
from bucketfmt.table.table import load_config
from bucketfmt.testing.crashes import CRASHES, FAILURES, Aftermath, strike_everywhere
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.clock import InstantClock
from bucketfmt.timeline.heartbeat import Heartbeats
from bucketfmt.timeline.lock import InProcessLock
from bucketfmt.write.create import create_table, plan_properties
from bucketfmt.write.transaction import Transactions
from bucketfmt.write.writer import TableWriter

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64()), ("p", pa.string())])
EVERYWHERE = os.environ.get("CRASHES") == "all"
KINDS = [
    (version, table_type, ring)
    for version in (6, 8, 9)
    for table_type, ring in (
        ("COPY_ON_WRITE", False),
        ("MERGE_ON_READ", False),
        ("MERGE_ON_READ", True),
    )
]
Row = tuple[str, int, str]


class _Process:
    """A writer whose end ends its threads too, as a process's does."""

    numbers = itertools.count()

    def __init__(self, store: Store, later_s: float = 0.0) -> None:
        self.table = bf.Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None)
        self.heartbeats = Heartbeats(store, now=lambda: time.time() + later_s)
        clock = InstantClock("UTC", clock_skew_s=0)
        lock = InProcessLock(f"{store.uri} {next(self.numbers)}")
        transactions = Transactions(store, DEFAULT_LIMITS, lock, clock, self.heartbeats)
        self.table._writer = TableWriter(  # type: ignore[misc]
            self.table._snapshot, self.table._index_finder, transactions, workers=1
        )

    def end(self) -> None:
        self.heartbeats.abandon()


def rows(*given: Row) -> pa.Table:
    named = [dict(zip(SCHEMA.names, row, strict=True)) for row in given]
    return pa.Table.from_pylist(named, SCHEMA)


def read(store: Store) -> list[Row]:
    table = bf.Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None)
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


FIRST = [(f"k{i}", 1, "ab"[i % 2]) for i in range(8)]
ACTIONS: dict[str, Callable[[bf.Table], object]] = {
    "upsert": lambda t: t.upsert(rows(("k1", 2, "b"), ("k2", 2, "a"), ("n", 2, "a"))),
    "upsert into a new partition": lambda t: t.upsert(rows(("n", 2, "c"))),
    "delete": lambda t: t.delete(rows(("k1", 0, "b"), ("k2", 0, "a"), ("x", 0, "a"))),
    "delete by filter": lambda t: t.delete(filter=[("id", "=", "k3")]),
    "insert_overwrite": lambda t: t.insert_overwrite(rows(("n", 3, "a"))),
    "delete_partitions": lambda t: t.delete_partitions(["b"]),
}
NOT_ON_A_RING = {"insert_overwrite", "delete_partitions"}


def make(version: int, table_type: str, ring: bool) -> MemoryStore:
    store = MemoryStore()
    index = bf.ConsistentHashingIndex(2) if ring else bf.SimpleBucketIndex(2)
    properties = plan_properties(
        name="t",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["p"],
        index=index,
        table_type=table_type,  # type: ignore[arg-type]
        table_version=version,
    )
    create_table(store, properties, index)
    process = _Process(store)
    process.table.upsert(rows(*FIRST))
    if table_type == "MERGE_ON_READ":
        process.table.upsert(rows(("k1", 1, "b")))
    return store


def run(action: Callable[[bf.Table], object]) -> Callable[[Store], object]:
    def work(store: Store) -> object:
        process = _Process(store)
        try:
            return action(process.table)
        finally:
            process.end()

    return work


@dataclass
class Expected:
    before: list[Row]
    after: list[Row]


def look(aftermath: Aftermath, expected: Expected) -> None:
    """What holds after every fault."""
    store = aftermath.store
    now = read(store)
    if aftermath.error is None:
        assert now == expected.after, f"an acknowledged write is lost: {aftermath}"
    elif isinstance(aftermath.error, bf.BucketfmtError) and not isinstance(
        aftermath.error, bf.CommitUnknownError
    ):
        assert now == expected.before, f"a refused write is there: {aftermath}"
    else:
        assert now in (expected.before, expected.after), f"half a write: {aftermath}"
    following = _Process(store, later_s=3_600)
    following.table.upsert(rows(("k0", 9, "a"), ("z", 9, "b")))
    following.end()
    new: list[Row] = [("k0", 9, "a"), ("z", 9, "b")]
    wanted = {(row[0], row[2]): row for row in (*now, *new)}
    assert read(store) == sorted(wanted.values()), f"the next write went wrong: {aftermath}"
    table = bf.Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None)
    report = table.check(depth="full")
    bad = [finding for finding in report.findings if finding.severity != "info"]
    assert not bad, f"{bad} after {aftermath}"
    assert not table.timeline.pending.of("commit", "deltacommit", "replacecommit").instants


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind)))
def test_every_fault_at_every_operation(kind: tuple[int, str, bool], name: str) -> None:
    if kind[2] and name in NOT_ON_A_RING:
        with pytest.raises(bf.UnsupportedError):
            run(ACTIONS[name])(make(*kind))
        return
    base = make(*kind)
    done = MemoryStore(base.files)
    run(ACTIONS[name])(done)
    expected = Expected(read(base), read(done))
    assert expected.before != expected.after
    points = 0
    for faults, writes_only in ((CRASHES, True), (FAILURES, not EVERYWHERE)):
        for aftermath in strike_everywhere(
            base, run(ACTIONS[name]), faults, writes_only=writes_only
        ):
            look(aftermath, expected)
            points += 1
    assert points >= 5 * 6
