"""Hudi and bucketfmt write a table in turns; in between bucketfmt changes its number of buckets."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa

import bucketfmt as bf
from tests.interop.carry_on import Tally, doubled_buckets
from tests.interop.hudi_session import HudiSession

__all__ = ["play_rehashed"]

_SCHEMA = pa.schema({"id": pa.string(), "region": pa.string(), "ts": pa.int64(), "v": pa.int64()})
_FIRST = 4


def play_rehashed(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Hudi makes a table of four buckets, which become twelve, five and two.

    In between Hudi upserts by the new number, which its options or the table alone state, and on a
    merge-on-read table compacts. Both read the same rows, and no bucket has two file groups.
    """
    uri, random, held = str(folder / "rehashed"), Random(seed), {}
    is_logged = kind.startswith("mor")
    plain = {
        "hoodie.table.name": "rehashed",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ" if is_logged else "COPY_ON_WRITE",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.precombine.field": "ts",
    }

    def draw(ts: int) -> pa.Table:
        rows = {
            i: {"id": f"key-{i:04d}", "region": "abc"[i % 3], "ts": ts, "v": random.randrange(99)}
            for i in random.sample(range(200), 80)
        }
        held.update(rows)
        return pa.Table.from_pylist(list(rows.values()), _SCHEMA)

    def compare() -> None:
        expected = sorted(held.values(), key=lambda row: str(row["id"]))
        hudis = session.read(uri)
        for found in (bf.open(uri).scan().to_arrow(), hudis):
            assert found.select(_SCHEMA.names).sort_by("id").to_pylist() == expected
        assert doubled_buckets(hudis) == []

    session.write(uri, draw(1), {**plain, **_index(_FIRST)})
    ours = hudis = ts = 1
    bf.open(uri).upsert(draw(2), codec="gzip")
    for number in (12, 5, 2):
        ts += 2
        assert bf.open(uri).rehash(number) is not None
        compare()
        session.write(uri, draw(ts), {**plain, **(_index(number) if number != 5 else {})})
        compare()
        if is_logged:
            options = {**plain, **_index(number), "hoodie.compact.inline.max.delta.commits": "1"}
            session.service(uri, "schedule", None, options)
            session.service(uri, "run_pending_compactions", None, options)
            compare()
        bf.open(uri).upsert(draw(ts + 1), codec="gzip")
        compare()
        ours, hudis = ours + 2, hudis + 1
    assert bf.open(uri).check(depth="full").status == "clean"
    return Tally(rounds=3, ours=ours, hudis=hudis)


def _index(number: int) -> dict[str, str]:
    return {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(number),
        "hoodie.bucket.index.hash.field": "id",
    }
