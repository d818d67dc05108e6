"""Hudi and bucketfmt write to a table while the other resizes its rings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random

import pyarrow as pa

import bucketfmt as bf
from tests.interop.engines.hudi_session import HudiSession
from tests.interop.turns.carry_on import Tally
from tests.interop.turns.sides import assert_clean, options_of_metadata, read_by_hudi

__all__ = ["play_dual_writes"]

_SCHEMA = pa.schema({"id": pa.string(), "region": pa.string(), "ts": pa.int64(), "v": pa.int64()})
_CLUSTERING = "org.apache.hudi.client.clustering"
_RESIZING = {
    "hoodie.clustering.plan.strategy.class": f"{_CLUSTERING}.plan.strategy"
    ".SparkConsistentBucketClusteringPlanStrategy",
    "hoodie.clustering.execution.strategy.class": f"{_CLUSTERING}.run.strategy"
    ".SparkConsistentBucketClusteringExecutionStrategy",
    "hoodie.clustering.updates.strategy": f"{_CLUSTERING}.update.strategy"
    ".SparkConsistentBucketDuplicateUpdateStrategy",
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.hash.field": "id",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.bucket.index.min.num.buckets": "1",
    "hoodie.bucket.index.max.num.buckets": "16",
}
_SPLITTING = {"hoodie.parquet.max.file.size": "2000"}  # bytes: all are larger than twice that
_MERGING = {"hoodie.parquet.max.file.size": str(1 << 27)}


class _Play:
    def __init__(self, session: HudiSession, folder: Path, seed: int) -> None:
        self.uri = str(folder / "resized")
        self._session, self._random = session, Random(seed)
        self._ts = 0
        self._held: dict[str, dict[str, object]] = {}
        self.given_up: set[str] = set()
        self.rounds = 0
        self.done: list[str] = []
        self._options = {
            "hoodie.table.name": "resized",
            **options_of_metadata(session),
            "hoodie.compact.inline": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.cleaner.policy.failed.writes": "LAZY",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "region",
            "hoodie.datasource.write.precombine.field": "ts",
            **_RESIZING,
        }

    def draw(self, number: int) -> pa.Table:
        self._ts += 1
        rows = {}
        keys = [i for i in range(400) if f"key-{i:04d}" not in self.given_up]
        for i in self._random.sample(keys, number):
            key = f"key-{i:04d}"
            rows[key] = {
                "id": key,
                "region": "ab"[i % 2],
                "ts": self._ts,
                "v": self._random.randrange(99),
            }
        self._held.update(rows)
        return pa.Table.from_pylist(list(rows.values()), _SCHEMA)

    def upsert_by_hudi(self, number: int) -> None:
        self.done.append("upsert by Hudi")
        self._session.write(self.uri, self.draw(number), {**self._options, **_SPLITTING})

    def upsert_by_us(self, number: int) -> None:
        self.done.append("upsert by us")
        bf.open(self.uri).upsert(self.draw(number), codec="gzip")

    def delete_by_us(self, number: int) -> None:
        self.done.append("delete by us")
        gone = self._random.sample(sorted(self._held), number)
        if self._session.version == "0.15.0":
            # Hudi gives all log files for one resize the version 1, so that a row it writes comes
            # before a delete of ours, and deletes of table version 6 have no ordering value.
            self.given_up.update(gone)
        rows = [self._held.pop(key) for key in gone]
        bf.open(self.uri).delete(pa.Table.from_pylist(rows, _SCHEMA).select(["id", "region"]))

    def write_and_roll_back(self) -> None:
        self.done.append("write and roll back by us")
        held = dict(self._held)
        written = bf.open(self.uri).upsert(self.draw(60))
        self._held = held
        bf.open(self.uri).rollback(written.instant)

    def service(self, name: str, instant: str | None = None, **more: str) -> str | None:
        self.done.append(f"{name} by Hudi")
        return self._session.service(self.uri, name, instant, {**self._session_options, **more})

    @property
    def _session_options(self) -> Mapping[str, str]:
        table = bf.open(self.uri)
        stated = [commit.schema for commit in table._snapshot().commits if commit.schema]
        return {**table.config.properties, **self._options, "hoodie.avro.schema": stated[-1]}

    def compare(self) -> None:
        """Both read what is held, and the check finds nothing."""
        expected = sorted(self._held.values(), key=lambda row: str(row["id"]))
        table = bf.open(self.uri)
        ours = table.scan().to_arrow().select(_SCHEMA.names).sort_by("id").to_pylist()
        assert ours == expected, f"we misread after {self.done}"
        assert_clean(self._session, table, self.done)
        hudis = (
            read_by_hudi(self._session, self.uri).select(_SCHEMA.names).sort_by("id").to_pylist()
        )
        assert hudis == expected, f"Hudi reads something else after {self.done}"
        self.rounds += 1


def play_dual_writes(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Hudi plans to split all buckets, and then to merge them; both write before that is done.

    Hudi executes the first plan, and bucketfmt the second.
    """
    play = _Play(session, folder, seed)
    play.upsert_by_hudi(200)
    play.upsert_by_us(100)
    play.compare()
    for sizes in (_SPLITTING, _MERGING):
        instant = play.service("schedule_clustering", **sizes)
        assert instant is not None
        play.upsert_by_us(80)
        play.delete_by_us(20)
        play.compare()
        play.upsert_by_hudi(60)
        play.write_and_roll_back()
        play.upsert_by_us(30)
        play.compare()
        if sizes is _SPLITTING:
            play.service("cluster", instant, **sizes)
        else:
            play.done.append("resize by us")
            assert bf.open(play.uri).resize(codec="gzip") is not None
        play.given_up.clear()
        play.compare()
        play.upsert_by_us(40)
        play.upsert_by_hudi(40)
        play.compare()
        play.service("schedule", **{"hoodie.compact.inline.max.delta.commits": "1"})
        play.service("run_pending_compactions")
        play.compare()
    ours = sum(entry.endswith(" by us") for entry in play.done)
    return Tally(play.rounds, ours, len(play.done) - ours)
