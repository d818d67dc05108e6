"""What Hudi reads by the metadata table of a write of ours that others overtook."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from tests.interop.engines.hudi_session import HudiSession
from tests.write.metadata.metadata_records import assert_in_step

pytestmark = pytest.mark.judge

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
WRITER = bf.WriterConfig(lock="filesystem", concurrency="non_blocking", services=None)
BY_METADATA = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "4",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "4",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": (
        "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
    ),
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}


def rows(ts: int, *keys: str) -> pa.Table:
    return pa.table({"id": keys, "ts": [ts] * len(keys), "part": ["x"] * len(keys)}, SCHEMA)


def assert_read_alike(session: HudiSession, table: bf.Table, late: str) -> None:
    """Hudi leaves nothing out by statistics and by the record index: not a row that came late."""
    expected = {row["id"]: row["ts"] for row in bf.open(table.uri).scan().to_arrow().to_pylist()}

    def read(where: str | None) -> dict[str, int]:
        found = session.read(table.uri, BY_METADATA, where).to_pylist()
        return {row["id"]: row["ts"] for row in found}

    assert read(None) == expected
    for ts in (10, 999, 1000, 2500):
        assert read(f"ts > {ts}") == {key: own for key, own in expected.items() if own > ts}
    assert read(f"id = '{late}'") == {late: expected[late]}


@pytest.mark.rotated(among="plays, and tests with a JVM of their own")
@pytest.mark.parametrize("version", ["1.0.2", "1.2.0"])
def test_hudi_finds_the_rows_of_a_write_that_others_overtook(
    hudi: Callable[[str], HudiSession], tmp_path: Path, version: str
) -> None:
    """Hudi merges the records of the metadata table in the order in which writes were begun."""
    session = hudi(version)
    table = bf.create(
        tmp_path / "t",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(4),
        table_type="MERGE_ON_READ",
        table_version=9 if version == "1.2.0" else 8,
        writer=WRITER,
    )
    table.upsert(rows(10, "k0", "k1", "k2", "k3"))
    table.metadata_table.init("column_stats", "partition_stats", "record_index")
    with (
        table.start_write("upsert", SCHEMA) as first,
        table.start_write("upsert", SCHEMA) as second,
    ):
        table.delete(rows(10, "k1", "k2"))
        second.publish(list(second.task.write(rows(2000, "k2"), "0-0-0")))
        assert_in_step(table)
        first.publish(list(first.task.write(rows(1000, "k1"), "0-0-0")))
    assert_in_step(table)
    assert_read_alike(session, table, "k1")
    table.metadata_table.drop("record_index")  # Hudi leaves the keys out that it logs
    for turn in range(2):  # Hudi compacts the metadata table
        session.write(table.uri, rows(20 + turn, f"h{turn}", "k0"), OPTIONS)
        table = bf.open(table.uri, writer=WRITER)
        assert_in_step(table)
        with table.start_write("upsert", SCHEMA) as late:
            session.write(table.uri, rows(30 + turn, f"i{turn}"), OPTIONS)
            late.publish(list(late.task.write(rows(3000 + turn, f"l{turn}"), "0-0-0")))
        assert_in_step(table)
    assert_read_alike(session, table, "l1")
    assert bf.open(table.uri).check(depth="full").status == "clean"
