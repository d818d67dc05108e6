"""A counter in a row that two writers add to: no addition is lost."""

from __future__ import annotations

import pyarrow as pa

import bucketfmt as bf
from tests.write.models import SCHEMA

__all__ = ["assert_counted", "begin_counter", "count_up"]

_NAME = "counter"


def begin_counter(table: bf.Table) -> None:
    start = {"id": _NAME, "name": "n", "price": 0.0, "ts": 0, "region": "us"}
    table.upsert(pa.Table.from_pylist([start], SCHEMA))


def count_up(table: bf.Table, times: int, number: int) -> None:
    """Add to the counter as writer `number`, and give each addition a row of its own."""
    done = 0
    while done < times:
        seen = table.timeline
        (row,) = table.lookup(pa.table({"id": [_NAME], "region": ["us"]})).to_pylist()
        own = {**row, "id": f"own-{number}-{done}"}
        counted = {**row, "price": row["price"] + 1, "ts": row["ts"] + 1}
        try:
            table.upsert(pa.Table.from_pylist([own, counted], SCHEMA), read_at=seen)
        except bf.ConflictError:
            continue
        done += 1


def assert_counted(table: bf.Table) -> None:
    """Two writers, numbers 0 and 1, have added twice each."""
    found = {row["id"]: row["price"] for row in table.scan().to_arrow().to_pylist()}
    assert found.pop(_NAME) == 4.0
    assert sorted(found) == [f"own-{number}-{turn}" for number in range(2) for turn in range(2)]
    assert table.check(depth="full").status == "clean"
