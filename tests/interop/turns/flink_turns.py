"""Tables that Flink and bucketfmt write in turns, against a dict.

Flink makes each table, as Flink SQL does. bucketfmt reads what Flink left, writes over it, adds a
partition, deletes, compacts and rehashes, by the codec that it finds, as the bundle for Flink has
no zstd; Flink reads that and goes on. After each step both read
what the dict holds, and a full check is clean; after the last one Hudi on Spark reads it too.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from tests.interop.engines.flink_session import FlinkSession, FlinkTable
from tests.interop.engines.hudi_session import HudiSession
from tests.interop.turns.carry_on import Tally, doubled_buckets

__all__ = ["KINDS", "FlinkEnded", "format_flink", "play_flink", "play_flink_in_turns"]

_COLUMNS = (
    ("id", "STRING NOT NULL"),
    ("name", "STRING"),
    ("qty", "INT"),
    ("ts", "BIGINT"),
    ("region", "STRING"),
)
_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("qty", pa.int32()),
        ("ts", pa.int64()),
        ("region", pa.string()),
    ]
)
_KEYS = 60
_NUM_BUCKETS = 4
_SPLITS, _MERGES = 1000, 1 << 24
"""Largest file sizes: all file slices of rings are split, or merged."""

_MOR = {"table.type": "MERGE_ON_READ", "compaction.schedule.enabled": "false"}
KINDS: Mapping[str, Mapping[str, str]] = {
    "mor-bucket": _MOR,
    "mor-changelog": {**_MOR, "changelog.enabled": "true"},
    "mor-consistent": {**_MOR, "hoodie.index.bucket.engine": "CONSISTENT_HASHING"},
    "mor-pending": {
        **_MOR,
        "compaction.schedule.enabled": "true",
        "compaction.delta_commits": "1",
    },
    "cow-bucket": {"table.type": "COPY_ON_WRITE"},
}
"""The options of Flink, by kind of table."""

_Rows = dict[tuple[str, str], dict[str, Any]]


@dataclass
class _FlinkTurns:
    """One table, and what it has to hold: `rows` by partition and key, `deleted` by time."""

    flink: FlinkSession
    uri: str
    kind: str
    random: Random
    rows: _Rows = field(default_factory=dict)
    deleted: dict[tuple[str, str], int] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    time: int = 0
    rounds: int = 0

    def __post_init__(self) -> None:
        self._count(_NUM_BUCKETS)

    def _count(self, num_buckets: int) -> None:
        """Have both go by this number: of all buckets, or of those that a ring begins with."""
        options = {
            "precombine.field": "ts",
            "write.tasks": "2",
            "compaction.async.enabled": "false",
            "index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": str(num_buckets),
            **KINDS[self.kind],
        }
        self.sql = FlinkTable(self.uri, _COLUMNS, "id", "region", options)
        self.index: bf.Index = (
            bf.ConsistentHashingIndex(num_buckets)
            if self.kind == "mor-consistent"
            else bf.SimpleBucketIndex(num_buckets)
        )

    # -- what each does

    def flink_writes(self, regions: Sequence[str]) -> None:
        """Rows that are new, newer and late, and deletes, in one job."""
        self._begin("write by Flink")
        upserted = self._draw(regions)
        removed = [key for key in self._some_of(regions) if key not in upserted]
        changes: list[tuple[str, Mapping[str, Any]]] = []
        for key, row in upserted.items():
            if key in self.rows:
                changes.append(("-U", self.rows[key]))
            changes.append(("+U" if key in self.rows else "+I", row))
        changes += [("-D", {**self.rows[key], "ts": self._newest}) for key in removed]
        self.flink.write(self.sql, changes)
        self._merge(upserted)
        self._remove(removed)

    def flink_compacts(self) -> None:
        self._begin("compact by Flink")
        self.flink.compact(self.uri)

    def we_upsert(self, regions: Sequence[str]) -> None:
        self._begin("upsert by bucketfmt")
        given = self._draw(regions)
        self._open().upsert(pa.Table.from_pylist(list(given.values()), _SCHEMA))
        self._merge(given)

    def we_delete(self, regions: Sequence[str]) -> None:
        self._begin("delete by bucketfmt")
        removed = self._some_of(regions)
        gone = [{**self.rows[key], "ts": self._newest} for key in removed]
        self._open().delete(pa.Table.from_pylist(gone, _SCHEMA))
        self._remove(removed)

    def we_compact(self) -> None:
        self._begin("compact by bucketfmt")
        assert self._open().compact() is not None, "nothing was compacted"

    def we_rehash(self, num_buckets: int) -> None:
        self._begin("rehash by bucketfmt")
        assert self._open().rehash(num_buckets) is not None
        self._count(num_buckets)

    def we_resize(self, max_file_size: int) -> None:
        self._begin("resize by bucketfmt")
        done = self._open().resize(max_file_size=max_file_size, min_buckets=2, max_buckets=16)
        assert done is not None

    def we_clean(self) -> None:
        self._begin("clean by bucketfmt")
        self._open().clean(policy="KEEP_LATEST_COMMITS", retain=1, dry_run=False)

    def we_archive(self) -> None:
        """Archive the resize: until then Flink's writer of Hudi 0.14 fails.

        `ConsistentBucketAssignFunction` looks for completed replacecommits after an instant that
        its constructor sets in a transient field, which is null in the task.
        """
        self._begin("archive by bucketfmt")
        self._open().archive(min_commits=2, max_commits=3)
        assert not self._open().timeline.of("clustering", "replacecommit").instants

    def we_are_refused(self) -> None:
        """Rows without `_hoodie_operation` would bring back what Flink deleted."""
        table = self._open()
        rows = pa.Table.from_pylist(list(self._draw(["eu"]).values()), _SCHEMA)
        for write in (lambda: table.upsert(rows), lambda: table.delete(rows), table.compact):
            with pytest.raises(bf.UnsupportedError, match="_hoodie_operation"):
                write()

    # -- comparing

    def compare(self) -> None:
        """Both read what the dict holds, and the check is clean."""
        expected = [self.rows[key] for key in sorted(self.rows)]
        table = self._open()
        assert _sorted(table.scan().to_arrow().to_pylist()) == expected, self._after("we misread")
        keys = pa.table({name: [row[name] for row in expected] for name in ("id", "region")})
        found = table.lookup(keys).to_pylist()
        assert _sorted(found) == expected, self._after("a lookup misses rows")
        assert _sorted(self.flink.read(self.sql)) == expected, self._after("Flink reads otherwise")
        report = table.check(depth="full")
        findings = [finding for finding in report.findings if finding.severity != "info"]
        assert not findings, self._after(str(findings))
        self.rounds += 1

    def compare_on_spark(self, hudi: HudiSession) -> None:
        """Hudi on Spark reads what the dict holds, and no bucket has two file groups."""
        read = hudi.read(self.uri)
        expected = [self.rows[key] for key in sorted(self.rows)]
        own = _sorted(read.select(_SCHEMA.names).to_pylist())
        assert own == expected, self._after("Hudi on Spark reads otherwise")
        if self.kind != "mor-consistent":
            assert not doubled_buckets(read), self._after(str(doubled_buckets(read)))
        self.rounds += 1

    def tally(self) -> Tally:
        ours, flinks = (
            sum(entry.endswith(f" by {name}") for entry in self.done)
            for name in ("bucketfmt", "Flink")
        )
        return Tally(self.rounds, ours, flinks)

    # -- the model

    @property
    def _newest(self) -> int:
        """Above the ordering value of any row so far."""
        return self.time * 10 + 9

    def _begin(self, what: str) -> None:
        self.time += 1
        self.done.append(what)

    def _after(self, what: str) -> str:
        return f"{what} after {self.done}"

    def _open(self) -> bf.Table:
        # Services that are due after a commit would compact before the play does.
        return bf.open(self.uri, index=self.index, writer=bf.WriterConfig(services=None))

    def _draw(self, regions: Sequence[str]) -> _Rows:
        drawn: _Rows = {}
        for _ in range(self.random.randrange(10, 30)):
            region = self.random.choice(regions)
            key = f"kéy-{self.random.randrange(_KEYS):03d}"
            ts = self.time * 10 + self.random.randrange(-25, 5)
            drawn[region, key] = {
                "id": key,
                "name": self.random.choice([None, "", "ä𝄞", f"n{self.time}"]),
                "qty": self.random.randrange(-1000, 1000),
                "ts": max(ts, self.deleted.get((region, key), ts)),
                "region": region,
            }
        return drawn

    def _some_of(self, regions: Sequence[str]) -> list[tuple[str, str]]:
        there = sorted(key for key in self.rows if key[0] in regions)
        return self.random.sample(there, min(5, len(there)))

    def _merge(self, given: _Rows) -> None:
        for key, row in given.items():
            if key not in self.rows or row["ts"] >= self.rows[key]["ts"]:
                self.rows[key] = row

    def _remove(self, keys: Sequence[tuple[str, str]]) -> None:
        for key in keys:
            del self.rows[key]
            self.deleted[key] = self.time * 10 + 10


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["region"], row["id"]))


def play_flink(flink: FlinkSession, hudi: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Each reads and writes over what the other wrote, on a kind of table.

    Raises:
        AssertionError: they disagree; the message says what was done.
    """
    turns = _FlinkTurns(flink, str(folder / "t"), kind, Random(f"flink/{seed}/{kind}"))
    folder.mkdir(parents=True, exist_ok=True)
    two, three = ("eu", "us"), ("eu", "us", "ünï")
    is_mor = kind != "cow-bucket"
    steps: list[tuple[Any, ...]] = [
        (turns.flink_writes, two),
        (turns.flink_writes, two),
    ]
    if kind == "mor-changelog":
        steps += [(turns.we_are_refused,), (turns.flink_writes, three)]
    else:
        steps += [
            (turns.we_upsert, three),
            (turns.we_delete, two),
            (turns.flink_writes, three),
            (turns.we_upsert, three),
            *([(turns.we_compact,)] if is_mor else []),
            (turns.flink_writes, three),
            (turns.we_upsert, three),
            *([(turns.flink_compacts,)] if kind == "mor-pending" else []),
            (turns.we_delete, three),
            (turns.flink_writes, three),
            *(_rehashes(turns, three) if kind in ("mor-bucket", "cow-bucket") else []),
            *(_resizes(turns, three) if kind == "mor-consistent" else []),
        ]
    for act, *arguments in steps:
        try:
            act(*arguments)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}, after {turns.done}") from error
        turns.compare()
    turns.compare_on_spark(hudi)
    return turns.tally()


def _rehashes(turns: _FlinkTurns, regions: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return other numbers of buckets; both go on by each."""
    return [
        step
        for number in (2 * _NUM_BUCKETS, 3)
        for step in (
            (turns.we_rehash, number),
            (turns.flink_writes, regions),
            (turns.we_upsert, regions),
        )
    ]


def _resizes(turns: _FlinkTurns, regions: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return splits and merges of rings; both go on by each."""
    return [
        step
        for max_file_size in (_SPLITS, _MERGES)
        for step in (
            (turns.we_resize, max_file_size),
            (turns.we_upsert, regions),
            (turns.we_upsert, regions),
            (turns.we_clean,),
            (turns.we_archive,),
            (turns.flink_writes, regions),
            (turns.we_upsert, regions),
        )
    ]


@dataclass(frozen=True)
class FlinkEnded:
    """How a play ended; `tally` is None if there was a disagreement."""

    kind: str
    tally: Tally | None


def play_flink_in_turns(seeds: Sequence[int], folder: Path) -> list[FlinkEnded]:
    """Play all kinds of tables; disagreements are told, and their folders kept."""
    ended = []
    flink = FlinkSession(folder / "flink")
    hudi = HudiSession("0.15.0", folder / "hudi")
    try:
        for kind in KINDS:
            for seed in seeds:
                tally, own = None, folder / f"{kind}-{seed}"
                try:
                    tally = play_flink(flink, hudi, own, kind, seed)
                except Exception as error:
                    told = f"{error}\nthe table is in {own}"
                else:
                    told = str(tally)
                    shutil.rmtree(own)
                print(f"flink {kind} {seed}: {told}", file=sys.stderr, flush=True)
                ended.append(FlinkEnded(kind, tally))
    finally:
        flink.close()
        hudi.close()
    return ended


def format_flink(ended: Sequence[FlinkEnded]) -> str:
    """Return a Markdown table: how often each kind compared, and who wrote how often."""
    rows = [["table version", "Flink", "kind", "in turns", "by bucketfmt", "by Flink"]]
    rows[0].append("disagreements")
    rows.append(["--:", "---", "---", "--:", "--:", "--:", "--:"])
    for kind in KINDS:
        own = [one for one in ended if one.kind == kind]
        tallies = [one.tally for one in own if one.tally]
        counts = [sum(t.rounds for t in tallies), sum(t.ours for t in tallies)]
        counts += [sum(t.hudis for t in tallies), len(own) - len(tallies)]
        rows.append(["6", f"1.17.1, Hudi {FlinkSession.version}", kind, *map(str, counts)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
