"""Hudi makes tables with other indexes, bucketfmt migrates them to buckets, and both write on."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa

import bucketfmt as bf
from tests.interop.carry_on import Tally, doubled_buckets
from tests.interop.hudi_session import HudiSession

__all__ = ["play_migrated"]

_SCHEMA = pa.schema({"id": pa.string(), "region": pa.string(), "ts": pa.int64(), "v": pa.int64()})
_FORMER = ("BLOOM", "SIMPLE", "GLOBAL_BLOOM", "RECORD_INDEX")
_LOCATED = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}


_NO_RECORD_INDEX = {"hoodie.metadata.record.index.enable": "false"}


def play_migrated(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """A table is migrated, by the seed from one of four indexes; amid it Hudi upserts by the old.

    Then both upsert by buckets. Both read the same rows, and no bucket has two file groups.
    """
    former = _FORMER[seed % len(_FORMER)]
    is_ring = kind.startswith("mor") and seed % 2 == 1
    index = bf.ConsistentHashingIndex(4) if is_ring else bf.SimpleBucketIndex(3)
    _play(session, folder / former.lower(), kind, seed, former, index)
    return Tally(rounds=3, ours=4, hudis=5)


class _StoppedError(Exception):
    pass


def _play(
    session: HudiSession,
    folder: Path,
    kind: str,
    seed: int,
    former: str,
    index: bf.SimpleBucketIndex | bf.ConsistentHashingIndex,
) -> None:
    uri, random, held = str(folder), Random(seed), {}
    is_logged = kind.startswith("mor")
    plain = {
        "hoodie.table.name": "migrated",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ" if is_logged else "COPY_ON_WRITE",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.precombine.field": "ts",
        **(_LOCATED if former == "RECORD_INDEX" else {}),
    }

    def draw(ts: int) -> pa.Table:
        rows = {
            i: {"id": f"key-{i:04d}", "region": "abc"[i % 3], "ts": ts, "v": random.randrange(99)}
            for i in random.sample(range(200), 80)
        }
        held.update(rows)
        return pa.Table.from_pylist(list(rows.values()), _SCHEMA)

    def compare() -> pa.Table:
        expected = sorted(held.values(), key=lambda row: str(row["id"]))
        hudis = session.read(uri)
        for found in (bf.open(uri).scan().to_arrow(), hudis):
            assert found.select(_SCHEMA.names).sort_by("id").to_pylist() == expected
        return hudis

    def stop(progress: object) -> None:
        if len(bf.open(uri).timeline.completed.of("replacecommit").instants) == 1:
            raise _StoppedError

    for ts in (1, 2):
        session.write(uri, draw(ts), {**plain, "hoodie.index.type": former})
    compare()
    try:
        bf.open(uri).migrate(index, partitions_per_commit=1, progress=stop)
    except _StoppedError:
        compare()
    else:
        raise AssertionError("the migration was to stop")
    session.write(uri, draw(3), {**plain, "hoodie.index.type": former})
    compare()
    done = bf.open(uri).migrate(index)
    assert done is not None
    assert type(bf.open(uri).index) is type(index)
    for ts, options in ((4, _options(index)), (6, {})):
        assert doubled_buckets(compare()) == []
        session.write(uri, draw(ts), {**plain, **_NO_RECORD_INDEX, **options})
        assert doubled_buckets(compare()) == []
        bf.open(uri).upsert(draw(ts + 1), codec="gzip")
    assert doubled_buckets(compare()) == []
    report = bf.open(uri).check(depth="full")
    assert report.status == "clean", report.findings


def _options(index: bf.SimpleBucketIndex | bf.ConsistentHashingIndex) -> dict[str, str]:
    is_ring = isinstance(index, bf.ConsistentHashingIndex)
    return {
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING" if is_ring else "SIMPLE",
        "hoodie.bucket.index.num.buckets": str(index.num_buckets),
        "hoodie.bucket.index.hash.field": "id",
    }
