"""Hudi reads a table with extendible hashing, an extension, and fails to write to the table."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa

import bucketfmt as bf
from tests.interop.carry_on import Tally
from tests.interop.hudi_session import HudiRefusesError, HudiSession

__all__ = ["WRITERS", "play_extendible"]

_SCHEMA = pa.schema({"id": pa.string(), "region": pa.string(), "ts": pa.int64(), "v": pa.int64()})
_VERSIONS = {"0.15.0": 6, "1.0.2": 8, "1.2.0": 9}
_BUCKET = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.bucket.index.hash.field": "id",
}
WRITERS = (
    {},
    _BUCKET,
    {**_BUCKET, "hoodie.index.bucket.engine": "SIMPLE"},
    {**_BUCKET, "hoodie.index.bucket.engine": "CONSISTENT_HASHING"},
    {**_BUCKET, "hoodie.datasource.write.operation": "bulk_insert"},
    {"hoodie.index.type": "BLOOM"},
)
"""Options of writers of Hudi: none, each engine, and another index."""


def play_extendible(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """bucketfmt splits and merges the buckets of a table; after each step Hudi reads it.

    Every writer of Hudi fails, whatever its options say of the index, and changes nothing.
    """
    uri, random, held = str(folder / "extendible"), Random(seed), {}
    table_type = "MERGE_ON_READ" if kind.startswith("mor") else "COPY_ON_WRITE"
    table = bf.create(
        uri,
        schema=_SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        ordering=["ts"],
        index=bf.ExtendibleHashingIndex(2),
        table_type=table_type,
        table_version=_VERSIONS[session.version],
    )
    plain = {
        "hoodie.table.name": "extendible",
        "hoodie.metadata.enable": "false",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.precombine.field": "ts",
    }

    def draw(ts: int) -> pa.Table:
        return pa.Table.from_pylist(
            [
                {"id": f"key-{i:04d}", "region": "abc"[i % 3], "ts": ts, "v": random.randrange(99)}
                for i in random.sample(range(200), 80)
            ],
            _SCHEMA,
        )

    def compare() -> None:
        expected = sorted(held.values(), key=lambda row: str(row["id"]))
        for found in (bf.open(uri).scan().to_arrow(), session.read(uri)):
            assert found.select(_SCHEMA.names).sort_by("id").to_pylist() == expected

    ours = 0
    for ts, (size, most) in enumerate(((1, 4), (1, 7), (1 << 40, 16)), start=1):
        rows = draw(ts)
        table.upsert(rows, codec="gzip")
        held.update({row["id"]: row for row in rows.to_pylist()})
        assert table.resize(max_file_size=size, min_buckets=2, max_buckets=most) is not None
        compare()
        ours += 2
    before = bf.open(uri).timeline.instants
    for options in WRITERS:
        try:
            session.write(uri, draw(9), {**plain, **options})
        except HudiRefusesError:
            continue
        raise AssertionError(f"Hudi writes with {options}")
    assert bf.open(uri).timeline.instants == before
    compare()
    assert bf.open(uri).check(depth="full").status == "clean"
    return Tally(rounds=3, ours=ours, hudis=0)
