"""A table in a dict, to compare what was written with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

import bucketfmt as bf

__all__ = ["NO_SERVICES", "REGIONS", "SCHEMA", "Model", "assert_reads_as", "rows"]

REGIONS = ("us", "eu", "ap")
NO_SERVICES = bf.WriterConfig(services=None)
"""For tests about services that they call themselves."""
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("ts", pa.int64()),
        ("region", pa.string()),
    ]
)

Row = dict[str, Any]


def rows(numbers: Iterable[int], ts: int, price: float = 1.0) -> pa.Table:
    """Rows of these keys; a key's region follows from its number."""
    numbers = list(numbers)
    return pa.table(
        {
            "id": [f"key-{i:06d}" for i in numbers],
            "name": [f"näme {i}" if i % 7 else None for i in numbers],
            "price": [price * i for i in numbers],
            "ts": [ts] * len(numbers),
            "region": [REGIONS[i % 3] for i in numbers],
        },
        SCHEMA,
    )


class Model:
    """What a table ordered by `ts` holds."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Row] = {}

    def upsert(self, given: pa.Table) -> None:
        for row in given.to_pylist():
            key = row["region"], row["id"]
            known = self.rows.get(key)
            if known is None or row["ts"] >= known["ts"]:
                self.rows[key] = row

    def delete(self, ids: Iterable[str]) -> None:
        gone = set(ids)
        self.rows = {key: row for key, row in self.rows.items() if key[1] not in gone}

    def drop(self, region: str) -> None:
        self.rows = {key: row for key, row in self.rows.items() if key[0] != region}


def assert_reads_as(uri: str, model: Model) -> None:
    """A fresh look at the table shows the model's rows, and the check finds nothing."""
    table = bf.open(uri)
    found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: (row["region"], row["id"]))
    assert found == [model.rows[key] for key in sorted(model.rows)]
    report = table.check(depth="full")
    assert report.status == "clean", report.findings
