"""Hudi and bucketfmt write a table in turns, and in turns give it other rules for its buckets."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import bucketfmt as bf
from tests.interop.answering import HudiRefusesError
from tests.interop.carry_on import Tally, doubled_buckets
from tests.interop.hudi_session import HudiSession

__all__ = ["play_rescaled"]

_SCHEMA = pa.schema({"id": pa.string(), "region": pa.string(), "ts": pa.int64(), "v": pa.int64()})
_RESCALES = [
    ("bucketfmt", "overwrite", "^b$,6;c,2", 3, "^b$,6;c,2"),
    ("Hudi", "overwrite", "a,5;b,1", 4, "a,5;b,1"),
    ("Hudi", "add", "c,3", 4, "c,3;a,5;b,1"),
    ("bucketfmt", "overwrite", ".,3", 4, ".,3"),
    ("bucketfmt", "add", "d,2;a,7", 2, "d,2;a,7;.,3"),
    ("bucketfmt", "overwrite", "d,4", 2, "d,4"),
]
"""Who, how, the rules, the default, and the rules of then.

The table has four buckets in all partitions at first. That number stays in hoodie.properties, and
Hudi itself rescales with no other default.
"""


def play_rescaled(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Hudi makes a table of four buckets, which gets rules, by bucketfmt and by Hudi.

    In between both upsert, to old partitions and to a new one, and read the same rows: now, and as
    of the moment before each rescale. No bucket has two file groups.
    """
    uri, random, held = str(folder / "rescaled"), Random(seed), {}
    is_logged = kind.startswith("mor")
    options = {
        "hoodie.table.name": "rescaled",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ" if is_logged else "COPY_ON_WRITE",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "4",
        "hoodie.bucket.index.hash.field": "id",
    }
    regions = "abc"

    def draw(ts: int) -> pa.Table:
        rows = {
            i: {"id": f"key-{i:04d}", "region": regions[i % 3], "ts": ts, "v": random.randrange(99)}
            for i in random.sample(range(200), 80)
        }
        held.update({(i, row["region"]): row for i, row in rows.items()})
        return pa.Table.from_pylist(list(rows.values()), _SCHEMA)

    def compare() -> list[dict[str, object]]:
        order = [("id", "ascending"), ("region", "ascending")]
        expected = pa.Table.from_pylist(list(held.values()), _SCHEMA).sort_by(order).to_pylist()
        hudis = session.read(uri)
        for found in (bf.open(uri).scan().to_arrow(), hudis):
            assert found.select(_SCHEMA.names).sort_by(order).to_pylist() == expected
        assert doubled_buckets(hudis) == []
        return expected

    session.write(uri, draw(1), options)
    ours = hudis = ts = 1
    bf.open(uri).upsert(draw(2), codec="gzip")
    for who, how, rules, default, then in _RESCALES:
        ts += 2
        before = compare()
        newest = bf.open(uri).timeline.completed.commits.last
        assert newest is not None
        if who == "Hudi":
            session.rescale(uri, how, rules, default, dry_run=True)
            assert bf.open(uri).timeline.completed.commits.last == newest
            if how == "overwrite":  # the default is not the number of hoodie.properties
                with pytest.raises(HudiRefusesError, match="Config conflict"):
                    session.rescale(uri, "add", rules, default)
            session.rescale(uri, how, rules, default)
            hudis += 1
        else:
            assert bf.open(uri).rescale(rules, default=default, add=how == "add") is not None
            ours += 1
        assert bf.open(uri).index == bf.PartitionBucketIndex(default, then, ("id",))
        compare()
        for row in before[:: len(before) // 7]:
            where = [("id", "=", row["id"]), ("region", "=", row["region"])]
            found = bf.open(uri).scan(as_of=newest.requested_time, filter=where).to_arrow()
            assert found.to_pylist() == [row]
        if "d,2" in then:
            regions = "abd"
        session.write(uri, draw(ts), options)
        compare()
        if is_logged:
            compacting = {**options, "hoodie.compact.inline.max.delta.commits": "1"}
            session.service(uri, "schedule", None, compacting)
            session.service(uri, "run_pending_compactions", None, compacting)
            compare()
        bf.open(uri).upsert(draw(ts + 1), codec="gzip")
        compare()
        ours, hudis = ours + 1, hudis + 1
    last = bf.open(uri).rescale("a,1")
    assert last is not None
    bf.open(uri).rollback(last.instant)
    session.write(uri, draw(ts + 2), options)
    compare()
    assert bf.open(uri).check(depth="full").status == "clean"
    return Tally(rounds=len(_RESCALES), ours=ours, hudis=hudis)
