"""Tables to which Hudi logs updates of some columns, and both write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.log.log_block import LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from tests.interop.engines.hudi_session import HudiSession
from tests.rotation import seed

pytestmark = pytest.mark.judge

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("a", pa.int32()),
        ("b", pa.string()),
        ("c", pa.float64()),
        ("s", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("ts", pa.int64()),
        ("part", pa.string()),
    ]
)
COLUMNS = ("a", "b", "c", "s")
OPTIONS = {
    "hoodie.spark.sql.merge.into.partial.updates": "true",
    "hoodie.compact.inline": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.metadata.enable": "false",
    "hoodie.index.type": "BUCKET",  # CREATE TABLE of Hudi 1.0 drops what the properties say
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.bucket.index.hash.field": "id",
}
ALONE = bf.WriterConfig(services=None)

SERVICE = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.compact.inline.max.delta.commits": "1",
}


def rows(keys: list[int], ts: int, tag: int) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "id": f"k{key}",
                "a": tag * 100 + key,
                "b": f"b{tag}",
                "c": tag + key / 4,
                "s": {"x": tag, "y": f"y{key}"},
                "ts": ts,
                "part": "pq"[key % 2],
            }
            for key in keys
        ],
        schema=SCHEMA,
    )


def sorted_rows(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.select(SCHEMA.names).to_pylist(), key=lambda row: str(row["id"]))


def count_partial_blocks(root: Path) -> int:
    spans = (span for path in root.rglob("*.log.*") for span in decode_log_file(path.read_bytes()))
    return sum(isinstance(span, LogBlock) and span.is_partial for span in spans)


@pytest.mark.rotated(among="plays, and tests with a JVM of their own")
@pytest.mark.parametrize("index", [bf.SimpleBucketIndex(2), bf.ConsistentHashingIndex(2)], ids=repr)
@pytest.mark.parametrize("version", ["1.0.2", "1.2.0"])
def test_both_read_and_write_over_updates_of_some_columns(
    hudi: Callable[[str], HudiSession], tmp_path: Path, version: str, index: bf.Index
) -> None:
    session, random = hudi(version), Random(seed())
    is_ring = isinstance(index, bf.ConsistentHashingIndex)
    engine = "CONSISTENT_HASHING" if is_ring else "SIMPLE"
    options = OPTIONS | {"hoodie.index.bucket.engine": engine}

    def ours() -> bf.Table:
        return bf.open(table.uri, index=index, writer=ALONE)

    table = bf.create(
        tmp_path / "t",
        schema=SCHEMA,
        record_key="id",
        partition_by="part",
        ordering="ts",
        index=index,
        table_type="MERGE_ON_READ",
        table_version=8 if version == "1.0.2" else 9,
        writer=ALONE,
    )
    present = list(range(12))
    table.upsert(rows(present, 10, 0))

    def compare() -> None:
        found = sorted_rows(ours().scan().to_arrow())
        assert found == sorted_rows(session.read(table.uri))
        assert [row["id"] for row in found] == sorted(f"k{key}" for key in present)

    def merge(tag: int) -> None:
        given = rows(random.sample(present, 4), random.choice((5, 10, 11, 12, 20)), tag)
        assigned = random.sample(COLUMNS, random.randint(1, 3))
        session.merge_into(table.uri, given, [*assigned, "ts"], options)
        compare()

    for tag in range(1, 4):
        merge(tag)
    assert count_partial_blocks(tmp_path / "t") >= 3
    ours().upsert(rows(random.sample(present, 4), random.choice((4, 11, 30)), 4))
    compare()
    merge(5)
    kept = rows(random.sample(present, 3), 31, 6).select(["id", "b", "ts", "part"])
    ours().upsert(kept, missing="keep")
    compare()
    gone = random.choice(present)
    present.remove(gone)
    ours().delete(pa.table({"id": [f"k{gone}"], "part": ["pq"[gone % 2]]}))
    compare()
    merge(7)
    before = sorted_rows(ours().scan().to_arrow())
    assert ours().compact() is not None
    assert sorted_rows(ours().scan(read_optimized=True).to_arrow()) == before
    compare()
    for tag in range(8, 10):
        merge(tag)
    assert session.service(table.uri, "schedule", None, options | SERVICE)
    session.service(table.uri, "run_pending_compactions", None, options | SERVICE)
    compare()
    assert ours().check(depth="full").status == "clean"
