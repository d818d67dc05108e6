"""Hudi reads tables with the indexes that are extensions, and fails to write to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa

import bucketfmt as bf
from tests.interop.carry_on import Tally
from tests.interop.hudi_session import HudiRefusesError, HudiSession
from tests.interop.sides import init_metadata_table, options_of_metadata, read_by_hudi

__all__ = ["WRITERS", "play_extendible", "play_several_groups"]

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

    def change(table: bf.Table, step: int) -> None:
        size, most = ((1, 4), (1, 7), (1 << 40, 16))[step]
        assert table.resize(max_file_size=size, min_buckets=2, max_buckets=most) is not None

    return _play(session, folder, kind, seed, bf.ExtendibleHashingIndex(2), change)


def play_several_groups(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Buckets grow by file groups, rows are deleted and logs compacted; Hudi reads each time.

    Every writer of Hudi fails, as above.
    """

    def change(table: bf.Table, step: int) -> None:
        if table.config.table_type == "MERGE_ON_READ":
            table.compact()
        assert len(table.inspect.buckets()) > 6  # of 2 buckets in each of 3 partitions

    index = bf.MultiGroupBucketIndex(2, group_bytes=2_000)
    return _play(session, folder, kind, seed, index, change)


def _play(
    session: HudiSession,
    folder: Path,
    kind: str,
    seed: int,
    index: bf.Index,
    change: Callable[[bf.Table, int], None],
) -> Tally:
    uri, random, held = str(folder / "extension"), Random(seed), {}
    table_type = "MERGE_ON_READ" if kind.startswith("mor") else "COPY_ON_WRITE"
    table = bf.create(
        uri,
        schema=_SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        ordering=["ts"],
        index=index,
        table_type=table_type,
        table_version=_VERSIONS[session.version],
    )
    init_metadata_table(session, table)
    plain = {
        "hoodie.table.name": "extension",
        **options_of_metadata(session),
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
        for found in (bf.open(uri).scan().to_arrow(), read_by_hudi(session, uri)):
            assert found.select(_SCHEMA.names).sort_by("id").to_pylist() == expected
        # By a key Hudi leaves out buckets, and by the bloom filters of a metadata table also file
        # groups that have the key in a log alone.
        by_key = {**_BUCKET, "hoodie.metadata.enable": "false"}
        for key in random.sample(sorted(held), 2):
            found = session.read(uri, by_key, f"id = '{key}'")
            assert found.select(_SCHEMA.names).to_pylist() == [held[key]]

    ours = 0
    for step in range(3):
        rows = draw(step + 1)
        table.upsert(rows, codec="gzip")
        held.update({row["id"]: row for row in rows.to_pylist()})
        gone = pa.Table.from_pylist([held.pop(key) for key in random.sample(sorted(held), 9)])
        table.delete(gone.select(["id", "region"]))
        compare()
        change(table, step)
        compare()
        ours += 3
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
