"""Tables of ours that Hudi 1.2 upgrades, and that both write to then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from tests.interop.engines.hudi_session import HudiSession

pytestmark = pytest.mark.judge

SCHEMA = pa.schema(
    [("id", pa.string()), ("ts", pa.int64()), ("day", pa.date32()), ("part", pa.string())]
)
ALONE = bf.WriterConfig(services=None)
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.embed.timeline.server": "false",
}
BY_METADATA = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.enable.data.skipping": "true",
}
WITHOUT_METADATA = {"hoodie.metadata.enable": "false"}


def rows(ts: int) -> pa.Table:
    keys = [f"k{number}" for number in range(ts % 4, 8)]
    days = pa.array([ts] * len(keys), pa.int32()).cast(pa.date32())
    columns = [keys, [ts] * len(keys), days, ["ab"[len(key) % 2] for key in keys]]
    return pa.Table.from_arrays(
        [*map(pa.array, columns[:2]), days, pa.array(columns[3])], SCHEMA.names
    )


def made(path: Path, version: int, kind: Any) -> bf.Table:
    return bf.create(
        path,
        schema=SCHEMA,
        record_key="id",
        partition_by="part",
        ordering="ts",
        index=bf.SimpleBucketIndex(2),
        table_type=kind,
        table_version=version,
        writer=ALONE,
    )


@pytest.mark.rotated(among="plays, and tests with a JVM of their own")
@pytest.mark.parametrize("version", ["1.2.0"])
@pytest.mark.parametrize(
    ("table_version", "kind", "with_metadata"),
    [
        (6, "COPY_ON_WRITE", False),
        (6, "MERGE_ON_READ", False),
        (6, "MERGE_ON_READ", True),
        (8, "COPY_ON_WRITE", True),
        (8, "MERGE_ON_READ", True),
    ],
)
def test_hudi_upgrades_a_table_and_both_write_on(
    hudi: Callable[[str], HudiSession],
    tmp_path: Path,
    version: str,
    table_version: int,
    kind: str,
    with_metadata: bool,
) -> None:
    """Archived, with statistics of columns: 1.2.0 failed amid the one, and on the next write."""
    session, expected = hudi(version), dict[str, int]()
    table = made(tmp_path / "t", table_version, kind)
    options = OPTIONS | {"hoodie.datasource.write.table.type": kind}
    options |= BY_METADATA if with_metadata else WITHOUT_METADATA

    def write(ts: int, *, by_hudi: bool) -> None:
        if by_hudi:
            session.write(table.uri, rows(ts), options)
        else:
            bf.open(table.uri, writer=ALONE).upsert(rows(ts))
        expected.update(dict.fromkeys(rows(ts)["id"].to_pylist(), ts))

    for ts in range(1, 7):
        write(ts, by_hudi=False)
    if with_metadata:
        more = ("partition_stats",) if table_version > 6 else ()
        table.metadata_table.init("column_stats", *more)
    if kind == "MERGE_ON_READ":
        table.compact()
    table.clean(retain=1)
    archived = table.archive(min_commits=2, max_commits=3)
    assert archived or with_metadata, "what the metadata table has in logs stays"
    for ts, by_hudi in ((7, True), (8, False), (9, True), (10, False), (11, True)):
        write(ts, by_hudi=by_hudi)
        now = bf.open(table.uri)
        assert now.config.table_version == 9
        if with_metadata and by_hudi:
            assert now.check().status == "clean", "before a write of ours makes anything anew"
        read = {row["id"]: row["ts"] for row in now.scan().to_arrow().to_pylist()}
        assert read == expected
    assert now.check(depth="full").status == "clean"
    for where in (None, "ts > 9", "day < '1970-01-11'"):
        limit = {None: lambda _: True, "ts > 9": lambda ts: ts > 9}.get(where, lambda ts: ts < 10)
        found = session.read(table.uri, options, where).to_pylist()
        assert {r["id"]: r["ts"] for r in found} == {k: v for k, v in expected.items() if limit(v)}
