"""Tables of other shapes than those written in turns: their keys, partitions and orderings.

How keys and paths are made is said in hoodie.properties alone: Hudi is told no option about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import bucketfmt as bf
from bucketfmt.choices import DataFormat
from tests.interop.engines.hudi_session import HudiSession
from tests.interop.turns.carry_on import TABLE_VERSIONS, Tally, doubled_buckets
from tests.interop.turns.sides import Bucketfmt, Hudi, Side, assert_clean

__all__ = ["play_shape", "shapes_of"]

_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("number", pa.int64()),
        ("made", pa.int64()),
        ("day", pa.date32()),
        ("price", pa.decimal128(9, 2)),
        ("ts", pa.int64()),
        ("region", pa.string()),
    ]
)
_HIVE = {
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
}
_TIMES = {
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.timezone": "UTC",
    "hoodie.keygen.timebased.output.dateformat": "yyyyMMdd",
}
_SLASHED = {**_TIMES, "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd"}
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class _Shape:
    record_key: Sequence[str] = ("id",)
    partition_by: Sequence[str] = ("region",)
    ordering: Sequence[str] = ("ts",)
    hash_fields: tuple[str, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    log_format: DataFormat = "avro"
    has_metadata_table: bool = False  # which Hudi builds, and bucketfmt drops


_SHAPES = {
    "complex": _Shape(("id", "number"), ("region", "day"), hash_fields=("number",)),
    "complex-of-one": _Shape(partition_by=("region", "day"), properties=_HIVE),
    "integer": _Shape(("number",), ("day",), properties=_HIVE),
    "unpartitioned": _Shape(("number",), ()),
    "timestamp": _Shape(partition_by=("made:TIMESTAMP",), properties=_SLASHED),
    "custom": _Shape(
        partition_by=("region:SIMPLE", "made:TIMESTAMP"), properties={**_HIVE, **_TIMES}
    ),
    "commit-time": _Shape(ordering=()),
    "two-orderings": _Shape(ordering=("ts", "price")),
    "virtual": _Shape(properties={"hoodie.populate.meta.fields": "false"}),
    "parquet-log": _Shape(log_format="parquet"),
    "metadata-table": _Shape(has_metadata_table=True),
}


def shapes_of(version: str) -> list[str]:
    """Return the shapes, each as copy-on-write and as merge-on-read where that differs."""
    # Several ordering fields came with 1.1. 1.0 does not read its own logs without meta fields.
    without = {"0.15.0": "two-orderings", "1.0.2": "two-orderings mor-virtual"}.get(version, "")
    kinds = [f"{table_type}-{name}" for name in _SHAPES for table_type in ("cow", "mor")]
    return [k for k in kinds if k != "cow-parquet-log" and not {k, k[4:]} & {*without.split()}]


def play_shape(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Each writes over what the other wrote; both read it alike after each write."""
    is_logged, name = kind.startswith("mor"), kind[4:]
    shape = _SHAPES[name]
    table = bf.create(
        folder / f"t_{kind.replace('-', '_')}",
        schema=_SCHEMA,
        record_key=shape.record_key,
        partition_by=shape.partition_by,
        ordering=shape.ordering,
        index=bf.SimpleBucketIndex(2, shape.hash_fields),
        table_type="MERGE_ON_READ" if is_logged else "COPY_ON_WRITE",
        table_version=TABLE_VERSIONS[session.version],
        properties=shape.properties,
        writer=bf.WriterConfig(metadata_table="drop" if shape.has_metadata_table else "sync"),
    )
    metadata = {"hoodie.metadata.enable": str(shape.has_metadata_table).lower()}
    if session.has_metadata_table:
        metadata = {}  # as of the session
    us, hudi = Bucketfmt(table, shape.log_format), Hudi(session, table, metadata)
    game = _Game(table, hudi, metadata)
    game.upsert(us, range(20), 1 + seed)
    game.upsert(hudi, range(10, 30), 2 + seed)
    game.upsert(us, range(5, 15), 3 + seed)
    game.delete(us, [1, 12, 25, 99])
    if table.config.populate_meta_fields:  # Hudi deletes nothing from tables without
        game.delete(hudi, [2, 13, 26])
    if is_logged:
        game.compact(hudi)
        game.upsert(us, range(12, 18), 4 + seed)
        game.compact(us)
        game.upsert(hudi, range(12, 16), 5 + seed)
    return Tally(len(game.done), game.done.count(us.name), game.done.count(hudi.name))


class _Game:
    """One table, and the rows it has to hold by their numbers."""

    def __init__(self, table: bf.Table, hudi: Hudi, options: Mapping[str, str]) -> None:
        self._table, self._hudi, self._options = table, hudi, options
        self._regions = ("us", "e/ü x") if table.config.url_encode else ("us", "eu")
        self._rows: dict[int, dict[str, Any]] = {}
        self.done: list[str] = []

    def upsert(self, side: Side, numbers: Iterable[int], ts: int) -> None:
        rows = self._draw(numbers, ts)
        side.upsert(rows)
        self._rows.update((row["number"], row) for row in rows.to_pylist())
        self._compare(side)

    def delete(self, side: Side, numbers: Iterable[int]) -> None:
        rows = self._draw(numbers, 99)
        side.delete(rows)
        for number in rows["number"].to_pylist():
            self._rows.pop(number, None)
        self._compare(side)

    def compact(self, side: Side) -> None:
        side.compact()
        self._compare(side)

    def _draw(self, numbers: Iterable[int], ts: int) -> pa.Table:
        return pa.Table.from_pylist(
            [
                {
                    "id": f"k{number % 3},é:{number}",
                    "number": number,
                    "made": 1_700_000_000_000 + number * _DAY_MS // 7,
                    "day": date(2024, 1, 1 + number % 2),
                    "price": Decimal(ts) / 4,
                    "ts": ts,
                    "region": self._regions[number % 2],
                }
                for number in numbers
            ],
            _SCHEMA,
        )

    def _compare(self, side: Side) -> None:
        self.done.append(side.name)
        expected = [self._rows[number] for number in sorted(self._rows)]
        table = bf.open(self._table.uri)
        assert _sorted(table.scan().to_arrow()) == expected, f"we misread after {self.done}"
        assert_clean(self._hudi.session, table, self.done)
        # Where paths are formatted times, Hudi reads those for the column they are made of.
        names = [
            n for n in _SCHEMA.names if n != "made" or table.config.partition_path_holds_values
        ]
        hudis = self._hudi.read(**self._options)
        schema = pa.schema([_SCHEMA.field(name) for name in names])
        wanted = [{name: row[name] for name in names} for row in expected]
        read = _sorted(hudis.select(names).cast(schema))
        assert read == wanted, f"Hudi reads something else after {self.done}"
        if table.config.populate_meta_fields:
            assert not doubled_buckets(hudis), f"{doubled_buckets(hudis)} after {self.done}"


def _sorted(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda row: row["number"])
