"""What Hudi reads of tables with an expression index, once bucketfmt wrote to them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.choices import MetadataPolicy
from soak.damage.tables import table_files
from tests.interop.engines.hudi_session import HudiSession

pytestmark = pytest.mark.judge

DAY = 86_400
AS_DAY = {"expr": "from_unixtime", "format": "yyyy-MM-dd"}
BY_METADATA = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
OPTIONS = {
    "hoodie.table.name": "mdt_expression",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": (
        "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
    ),
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}


def assert_read_alike(session: HudiSession, table: bf.Table) -> None:
    """Hudi reads by the expressions what the rows say, and the check is clean."""
    rows = bf.open(table.uri).scan(columns=["id", "ts", "name"]).to_arrow().to_pylist()
    days = {datetime.fromtimestamp(row["ts"], timezone.utc).date() for row in rows}
    assert len(days) > 1
    for day in days:
        where = f"from_unixtime(ts, 'yyyy-MM-dd') = '{day}'"
        found = session.read(table.uri, BY_METADATA, where)["id"].to_pylist()
        assert sorted(found) == sorted(
            row["id"]
            for row in rows
            if datetime.fromtimestamp(row["ts"], timezone.utc).date() == day
        )
    found = session.read(table.uri, BY_METADATA, "lower(name) = 'n3ü'")["id"].to_pylist()
    assert found == [row["id"] for row in rows if row["name"] == "n3Ü"] != []
    assert bf.open(table.uri).check(depth="full").status == "clean"


@pytest.mark.rotated(among="plays, and tests with a JVM of their own")
@pytest.mark.parametrize("policy", ["sync", "drop"])
@pytest.mark.parametrize("version", ["1.0.2", "1.2.0"])
def test_hudi_reads_by_an_expression_once_its_index_is_removed(
    hudi: Callable[[str], HudiSession],
    tmp_path: Path,
    version: str,
    policy: MetadataPolicy,
) -> None:
    """Hudi refuses such reads where it finds the definition of an index that is not there."""
    session = hudi(version)
    for path, data in table_files(f"metadata/{version}/mdt_expression").items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    writer = bf.WriterConfig(metadata_table=policy, lock="filesystem")
    table = bf.open(tmp_path, index=bf.SimpleBucketIndex(2), writer=writer)
    assert_read_alike(session, table)
    rows = table.scan(limit=3).to_arrow()
    later = rows.set_column(rows.column_names.index("ts"), "ts", pa.array([30 * DAY] * 3))
    if policy == "sync":
        with pytest.warns(UserWarning, match="expr_index_by_name of the metadata table cannot be"):
            table.upsert(later)
    else:
        table.upsert(later)
    assert_read_alike(session, table)
    session.write(
        table.uri, later.slice(1), {**OPTIONS, "hoodie.datasource.write.operation": "upsert"}
    )
    assert bf.open(table.uri).config.metadata_partitions == ("files",)
    assert_read_alike(session, table)
    session.make_index(table.uri, "ts", OPTIONS, AS_DAY)
    assert bf.open(table.uri).config.metadata_partitions == ("expr_index_ts", "files")
    assert_read_alike(session, table)
