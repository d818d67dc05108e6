"""Hudi writes a table without its index, bucketfmt records the index, and both go on."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa

import bucketfmt as bf
from tests.interop.engines.hudi_session import HudiSession
from tests.interop.turns.carry_on import Tally, doubled_buckets
from tests.interop.turns.sides import assert_clean, options_of_metadata, read_by_hudi

__all__ = ["play_pinned_index"]

_INDEX = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "4",
    "hoodie.bucket.index.hash.field": "id",
}
_SCHEMA = pa.schema({"id": pa.string(), "region": pa.string(), "ts": pa.int64(), "v": pa.int64()})
_Rows = dict[int, dict[str, object]]


def play_pinned_index(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Hudi makes a table; a write of bucketfmt records the index; Hudi writes on by the options it
    had, and then by what the table says alone. No key is doubled, and the record stays.
    """
    uri, random, held = str(folder / "pinned"), Random(seed), {}
    plain = {
        "hoodie.table.name": "pinned",
        **options_of_metadata(session),
        "hoodie.compact.inline": "false",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.table.type": (
            "MERGE_ON_READ" if kind.startswith("mor") else "COPY_ON_WRITE"
        ),
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.precombine.field": "ts",
    }

    def draw(ts: int) -> pa.Table:
        some = random.sample(range(200), 80)
        rows = {
            i: {"id": f"key-{i:04d}", "region": "abc"[i % 3], "ts": ts, "v": random.randrange(99)}
            for i in some
        }
        held.update(rows)
        return pa.Table.from_pylist(list(rows.values()), _SCHEMA)

    session.write(uri, draw(1), {**plain, **_INDEX})
    assert not _recorded(uri), "Hudi does not record its options"
    bf.open(uri).upsert(draw(2), codec="gzip")
    recorded = _recorded(uri)
    assert recorded == {**_INDEX, "hoodie.index.bucket.engine": "SIMPLE"}
    for ts, options in ((3, {**plain, **_INDEX}), (4, plain)):
        session.write(uri, draw(ts), options)
        _compare(session, uri, held)
        assert _recorded(uri) == recorded
    bf.open(uri).upsert(draw(5), codec="gzip")
    _compare(session, uri, held)
    return Tally(rounds=3, ours=2, hudis=3)


def _recorded(uri: str) -> dict[str, str]:
    properties = bf.open(uri).config.properties
    return {
        key: text
        for key, text in properties.items()
        if key.startswith(("hoodie.index.", "hoodie.bucket.index."))
    }


def _compare(session: HudiSession, uri: str, held: _Rows) -> None:
    expected = sorted(held.values(), key=lambda row: str(row["id"]))
    table = bf.open(uri)
    hudis = read_by_hudi(session, uri)
    for found in (table.scan().to_arrow(), hudis):
        assert found.select(_SCHEMA.names).sort_by("id").to_pylist() == expected
    assert not doubled_buckets(hudis)
    assert_clean(session, table)
