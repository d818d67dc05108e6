"""Buckets of so many rows that a sample tells how columns are stored, and columns are copied."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc

import bucketfmt as bf
from tests.interop.engines.hudi_session import HudiSession
from tests.interop.turns.carry_on import TABLE_VERSIONS, Tally
from tests.interop.turns.sides import Hudi, assert_clean

__all__ = ["play_many_rows"]

_ROWS = 50_000  # a bucket has two pages of most columns
_FILTERS = {
    "id >= 'key-010000' and id < 'key-010050'": (pc.field("id") >= "key-010000")
    & (pc.field("id") < "key-010050"),
    "few = 'kind 3' and number < 0.01": (pc.field("few") == "kind 3") & (pc.field("number") < 0.01),
    "ts = 4 and maybe is not null": (pc.field("ts") == 4) & pc.field("maybe").is_valid(),
}
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
    """Load a table of two buckets; have Hudi and bucketfmt update some of its rows, in all columns
    and in two; compact. Hudi finds rows by filters too, for which it goes by the index of pages.
    """
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
    for key in random.sample(sorted(held), 500):
        held[key] = {**held[key], "amount": Decimal(random.randrange(10**15)) / 100, "ts": 4}
    table.upsert(_table({key: row for key, row in held.items() if row["ts"] == 4}))
    if kind.startswith("mor"):
        table.compact()
    _compare(table, hudi, held)
    _compare_filtered(table, hudi)
    return Tally(rounds=4, ours=3, hudis=1)


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
    expected = _sorted(_table(held))
    for found in map(_sorted, (table.scan().to_arrow(), hudi.read())):
        assert found.equals(expected) or found.to_pylist() == expected.to_pylist()
    assert_clean(hudi.session, table)


def _compare_filtered(table: bf.Table, hudi: Hudi) -> None:
    rows = _sorted(table.scan().to_arrow())
    for where, condition in _FILTERS.items():
        found, expected = _sorted(hudi.read(where=where)), rows.filter(condition)
        assert expected.num_rows > 0
        assert found.to_pylist() == expected.to_pylist()


def _sorted(rows: pa.Table) -> pa.Table:
    return rows.select(_SCHEMA.names).sort_by("id").cast(_SCHEMA).combine_chunks()
