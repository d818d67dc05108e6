"""Hudi and bucketfmt resize the rings of a table in turns, and execute one another's plans."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

import bucketfmt as bf
from tests.interop.engines.hudi_session import HudiSession
from tests.interop.turns.carry_on import Tally
from tests.interop.turns.sides import assert_clean, options_of_metadata, read_by_hudi

__all__ = ["play_resized"]

_SCHEMA = pa.schema({"id": pa.string(), "region": pa.string(), "ts": pa.int64(), "v": pa.int64()})
_CLUSTERING = "org.apache.hudi.client.clustering"
_AVRO = {
    "type": "record",
    "name": "resized_record",
    "namespace": "hoodie.resized",
    "fields": [
        {"name": name, "type": ["null", kind], "default": None}
        for name, kind in (("id", "string"), ("region", "string"), ("ts", "long"), ("v", "long"))
    ],
}
_OPTIONS = {
    "hoodie.table.name": "resized",
    "hoodie.compact.inline": "false",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "4",
    "hoodie.bucket.index.hash.field": "id",
    "hoodie.bucket.index.min.num.buckets": "2",
    "hoodie.bucket.index.max.num.buckets": "32",
    "hoodie.clustering.plan.strategy.class": (
        f"{_CLUSTERING}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy"
    ),
    "hoodie.clustering.execution.strategy.class": (
        f"{_CLUSTERING}.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
    ),
    "hoodie.clustering.updates.strategy": (
        f"{_CLUSTERING}.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy"
    ),
}
_SPLITS, _MERGES, _SORTS = 1000, 1 << 24, 1
"""Largest file sizes: all file slices are split, merged, or, with one bucket at most, left."""


def play_resized(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Each plans resizes, and executes its own and the other's; both upsert after each.

    Both read the same rows, and the full check finds every key in the bucket of the ring. Hudi
    1.2.0 and bucketfmt then sort the rows of all buckets by two columns, each once.
    """
    uri, random, held = str(folder / "resized"), Random(seed), {}
    counts: Counter[str] = Counter()
    writing = {**_OPTIONS, **options_of_metadata(session)}

    def draw() -> pa.Table:
        counts["ts"] += 1
        rows = {
            i: {
                "id": f"key-{i:04d}",
                "region": "abc"[i % 3],
                "ts": counts["ts"],
                "v": random.randrange(99),
            }
            for i in random.sample(range(300), 120)
        }
        held.update(rows)
        return pa.Table.from_pylist(list(rows.values()), _SCHEMA)

    def compare() -> None:
        expected = sorted(held.values(), key=lambda row: str(row["id"]))
        for found in (bf.open(uri).scan().to_arrow(), read_by_hudi(session, uri)):
            assert found.select(_SCHEMA.names).sort_by("id").to_pylist() == expected
        assert_clean(session, bf.open(uri))

    def both_write() -> None:
        compare()
        session.write(uri, draw(), writing)
        counts["hudis"] += 1
        compare()
        bf.open(uri).upsert(draw(), codec="gzip")
        counts["ours"] += 1
        compare()
        counts["rounds"] += 1

    def hudis(service: str, size: int, instant: str | None = None) -> str | None:
        options = {
            **writing,
            "hoodie.avro.schema": json.dumps(_AVRO),
            "hoodie.parquet.max.file.size": str(size),
        }
        return session.service(uri, service, instant, options)

    def ours(size: int, **options: object) -> None:
        done = bf.open(uri).resize(max_file_size=size, **options)  # type: ignore[arg-type]
        assert done is not None

    sorting = {"min_buckets": 1, "max_buckets": 1, "sort_by": ["v", "id"]}

    def assert_sorted() -> None:
        compare()
        paths = bf.open(uri).inspect.file_groups()["base_file"].to_pylist()
        assert paths
        for path in paths:
            found = pq.read_table(f"{uri}/{path}", partitioning=None).select(["v", "id"])
            assert found == found.sort_by([("v", "ascending"), ("id", "ascending")])

    session.write(uri, draw(), writing)
    bf.open(uri).upsert(draw(), codec="gzip")
    ours(_SPLITS, max_buckets=8)
    both_write()

    planned = bf.open(uri).schedule_resize(max_file_size=_SPLITS, max_buckets=12, split="even")
    hudis("cluster", _SPLITS, planned)
    both_write()

    assert hudis("schedule_clustering", _MERGES) is not None
    assert bf.open(uri).preview_resize().merges
    ours(_SPLITS)
    both_write()

    planned = hudis("schedule_clustering", _SPLITS)
    hudis("cluster", _SPLITS, planned)
    both_write()

    bf.open(uri).compact()
    planned = bf.open(uri).schedule_resize(max_file_size=_SPLITS, max_buckets=32)
    assert planned is not None
    bf.open(uri).rollback(planned)
    both_write()

    ours(_MERGES, min_buckets=2)
    both_write()

    if session.version == "1.2.0":
        bf.open(uri).compact()
        ours(_SORTS, **sorting)
        assert_sorted()
        both_write()

        bf.open(uri).compact()
        planned = bf.open(uri).schedule_resize(max_file_size=_SORTS, **sorting)  # type: ignore[arg-type]
        hudis("cluster", _SORTS, planned)
        assert_sorted()
        both_write()
    return Tally(rounds=counts["rounds"], ours=counts["ours"], hudis=counts["hudis"])
