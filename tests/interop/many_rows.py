"""Buckets of thousands of rows, whose columns are stored by what a sample of them tells."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa

import bucketfmt as bf
from tests.interop.carry_on import TABLE_VERSIONS, Tally
from tests.interop.hudi_session import HudiSession
from tests.interop.sides import Hudi

__all__ = ["play_many_rows"]

_ROWS = 12_000
_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        ("distinct", pa.string()),
        ("few", pa.string()),
        ("number", pa.float64()),
        ("amount", pa.decimal128(18, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("data", pa.binary()),
        ("maybe", pa.string()),
    ]
)


def play_many_rows(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Load a table of two buckets, then have Hudi and bucketfmt update some of its rows."""
    table = bf.create(
        folder / "many",
        schema=_SCHEMA,
        record_key=["id"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(2),
        table_type="MERGE_ON_READ" if kind.startswith("mor") else "COPY_ON_WRITE",
        table_version=TABLE_VERSIONS[session.version],
    )
    hudi, random = Hudi(session, table), Random(seed)
    held = _draw(random, range(_ROWS), ts=1)
    table.bulk_insert(_table(held))
    _compare(table, hudi, held)
    for turn, upsert in enumerate((hudi.upsert, table.upsert), 2):
        changed = _draw(random, random.sample(range(_ROWS), _ROWS // 20), ts=turn)
        upsert(_table(changed))
        held |= changed
        _compare(table, hudi, held)
    return Tally(rounds=3, ours=2, hudis=1)


def _draw(random: Random, numbers: range | list[int], ts: int) -> dict[str, dict[str, object]]:
    begin = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    return {
        f"key-{number:06}": {
            "id": f"key-{number:06}",
            "ts": ts,
            "distinct": f"{number} {random.random()}",
            "few": f"kind {random.randrange(20)}",
            "number": random.random(),
            "amount": Decimal(random.randrange(10**15)) / 100,
            "day": (begin + dt.timedelta(days=random.randrange(366))).date(),
            "at": begin + dt.timedelta(microseconds=random.randrange(10**12)),
            "data": random.randbytes(8),
            "maybe": None if random.random() < 0.5 else f"{random.random()}",
        }
        for number in numbers
    }


def _table(rows: dict[str, dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows.values()), _SCHEMA)


def _compare(table: bf.Table, hudi: Hudi, held: dict[str, dict[str, object]]) -> None:
    expected = _table(held).sort_by("id").to_pylist()
    for found in (table.scan().to_arrow(), hudi.read()):
        assert found.select(_SCHEMA.names).sort_by("id").to_pylist() == expected
    assert table.check(depth="full").status == "clean"
