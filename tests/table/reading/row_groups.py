"""A table of one bucket, whose base file has several row groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import bucketfmt as bf

__all__ = ["make_table"]

_SCHEMA = pa.schema(
    {"id": pa.string(), "ts": pa.int64(), "v": pa.int64(), "_hoodie_is_deleted": pa.bool_()}
)


def rows(numbers: range, ts: int, gone: bool = False) -> pa.Table:
    ids = [f"k{n:03d}" for n in numbers]
    n = len(ids)
    columns = [ids, [ts] * n, [ts * 1000 + number for number in numbers], [gone] * n]
    return pa.table([pa.array(c) for c in columns], schema=_SCHEMA)


def make_table(path: Path, table_type: Any, **given: Any) -> bf.Table:
    """Write a bucket of 11 row groups; where there are logs, change, delete and add rows."""
    index = bf.SimpleBucketIndex(1)
    table = bf.create(
        path, schema=_SCHEMA, record_key=["id"], index=index, table_type=table_type, **given
    )
    table.upsert(rows(range(100), ts=5))
    (file,) = path.glob("*.parquet")
    stored = pq.read_table(file)
    # Hudi's `insert` writes keys twice: of such rows the first meets the log.
    twice = pa.concat_tables([stored.slice(0, 90), stored.slice(3, 10)])
    pq.write_table(twice, file, row_group_size=9)
    if table_type == "MERGE_ON_READ":
        table.upsert(rows(range(0, 60, 3), ts=7))
        table.upsert(rows(range(1, 60, 3), ts=3))
        table.upsert(rows(range(2, 60, 6), ts=8, gone=True))
        table.upsert(rows(range(200, 203), ts=1))
    return table
