"""Of two rows with one key, the older one never replaces the newer one, on any kind of table."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

import bucketfmt as bf

pytestmark = pytest.mark.rotated

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("v", pa.string()),
        ("ts", pa.int64()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
KINDS = [
    (table_type, version)
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ")
    for version in (6, 8, 9)
]
STATED = ("hoodie.compaction.payload.class", "hoodie.compaction.record.merger.strategy")
STATED += ("hoodie.record.merge.mode", "hoodie.record.merge.strategy.id", "hoodie.table.checksum")


def row(key: str, value: str, ts: int, is_deleted: bool = False) -> dict[str, object]:
    return {"id": key, "v": value, "ts": ts, "_hoodie_is_deleted": is_deleted}


def rows(*given: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(given), SCHEMA)


def values(table: bf.Table) -> dict[str, str]:
    return {found["id"]: found["v"] for found in table.scan().to_arrow().to_pylist()}


@pytest.mark.rule("MERGE-13")
@pytest.mark.parametrize(("table_type", "version"), KINDS)
@pytest.mark.parametrize("is_stated", [True, False], ids=["stated", "unstated"])
def test_an_ordering_field_is_enough(
    tmp_path: Path,
    table_type: Literal["COPY_ON_WRITE", "MERGE_ON_READ"],
    version: int,
    is_stated: bool,
) -> None:
    """Flink 0.14 states an ordering field on copy-on-write tables, and no payload class."""
    made = bf.create(
        tmp_path / "t",
        schema=SCHEMA,
        record_key=["id"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(1),
        table_type=table_type,
        table_version=version,
    )
    if not is_stated:
        path = tmp_path / "t/.hoodie/hoodie.properties"
        kept = [line for line in path.read_text().splitlines() if not line.startswith(STATED)]
        path.write_text("\n".join(kept))
    table = bf.open(made.uri)
    table.upsert(rows(row("a", "first", 1), row("b", "first", 1), row("c", "first", 1)))
    table.upsert(rows(row("a", "late", 0), row("b", "same", 1), row("d", "logged", 5)))
    table.upsert(rows(row("a", "gone", 0, is_deleted=True), row("d", "late", 4)))
    expected = {"a": "first", "b": "same", "c": "first", "d": "logged"}
    assert values(table) == expected
    if table_type == "MERGE_ON_READ":
        table.compact()
        assert values(table) == expected
