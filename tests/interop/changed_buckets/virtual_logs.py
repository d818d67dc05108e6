"""Hudi reads a table with virtual logs but for what a pending resize rewrites, and never writes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import bucketfmt as bf
from tests.interop.changed_buckets.extendible import WRITERS
from tests.interop.engines.hudi_session import HudiRefusesError, HudiSession
from tests.interop.turns.carry_on import Tally
from tests.interop.turns.sides import init_metadata_table, options_of_metadata, read_by_hudi

__all__ = ["play_virtual_logs"]

_SCHEMA = pa.schema({"id": pa.string(), "region": pa.string(), "ts": pa.int64(), "v": pa.int64()})
_VERSIONS = {"0.15.0": 6, "1.0.2": 8, "1.2.0": 9}


def play_virtual_logs(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """bucketfmt resizes a ring and writes meanwhile; after each step Hudi reads the table.

    While rows are in the file groups to come alone Hudi fails to read, and does not miss rows.
    Every writer of Hudi fails, whatever its options say of the index, and changes nothing.
    """
    uri, random, held = str(folder / "virtual"), Random(seed), {}
    table = bf.create(
        uri,
        schema=_SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        ordering=["ts"],
        index=bf.ConsistentHashingIndex(2, virtual_logs=True),
        table_type="MERGE_ON_READ",
        table_version=_VERSIONS[session.version],
    )
    init_metadata_table(session, table)
    plain = {
        "hoodie.table.name": "virtual",
        **options_of_metadata(session),
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
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

    def upsert(ts: int) -> None:
        rows = draw(ts)
        table.upsert(rows, codec="gzip")
        held.update({row["id"]: row for row in rows.to_pylist()})

    def compare(*found: pa.Table) -> None:
        expected = sorted(held.values(), key=lambda row: str(row["id"]))
        for rows in (bf.open(uri).scan().to_arrow(), *found):
            assert rows.select(_SCHEMA.names).sort_by("id").to_pylist() == expected

    def refuse_writers() -> None:
        before = bf.open(uri).timeline.instants
        for options in WRITERS:
            try:
                session.write(uri, draw(99), {**plain, **options})
            except HudiRefusesError:
                continue
            raise AssertionError(f"Hudi writes with {options}")
        assert bf.open(uri).timeline.instants == before

    ours = 0
    for ts, (size, most) in enumerate(((1, 4), (1 << 40, 16)), start=1):
        upsert(10 * ts)
        compare(read_by_hudi(session, uri))
        refuse_writers()
        assert table.schedule_resize(max_file_size=size, min_buckets=1, max_buckets=most)
        compare(read_by_hudi(session, uri))
        upsert(10 * ts + 1)
        compare()
        with pytest.raises(HudiRefusesError, match="ArrayIndexOutOfBounds"):
            read_by_hudi(session, uri)
        refuse_writers()
        assert table.resize() is not None
        compare(read_by_hudi(session, uri))
        upsert(10 * ts + 2)
        compare(read_by_hudi(session, uri))
        ours += 4
    assert bf.open(uri).check(depth="full").status == "clean"
    return Tally(rounds=2, ours=ours, hudis=0)
