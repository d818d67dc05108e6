"""Writes to tables that fill values of a record from the record that it wins over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.table.describe import describe_table

pytestmark = pytest.mark.rotated

SCHEMA = pa.schema(
    [
        *(("id", pa.string()), ("part", pa.string()), ("ts", pa.int64())),
        *(("a", pa.int32()), ("b", pa.string()), ("l", pa.list_(pa.int32()))),
    ]
)
PAYLOAD = "hoodie.compaction.payload.class"
MODE, UNKNOWN = "hoodie.table.partial.update.mode", "unavailable.value"
PROPERTIES: dict[str, tuple[int, dict[str, str]]] = {
    "nulls": (9, {MODE: "IGNORE_DEFAULTS"}),
    "newest": (9, {MODE: "IGNORE_DEFAULTS", "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}),
    "marker": (
        9,
        {
            MODE: "FILL_UNAVAILABLE",
            f"hoodie.record.merge.property.hoodie.write.partial.update.{UNKNOWN}": "?",
        },
    ),
    "version 6": (6, {PAYLOAD: "org.apache.hudi.common.model.PartialUpdateAvroPayload"}),
}


def create(folder: Path, kind: str, table_type: str, **more: Any) -> bf.Table:
    version, properties = PROPERTIES[kind]
    return bf.create(
        folder / "t",
        schema=SCHEMA,
        record_key="id",
        partition_by="part",
        ordering="ts",
        index=more.pop("index", bf.SimpleBucketIndex(1)),
        table_type=table_type,
        table_version=version,
        properties=properties,
        writer=bf.WriterConfig(services=None),
        **more,
    )


def row(ts: int, a: int | None, b: str | None, *tags: int, key: str = "k") -> dict[str, Any]:
    return {"id": key, "part": "p", "ts": ts, "a": a, "b": b, "l": [*tags] or None}


def read(table: bf.Table) -> list[tuple[Any, ...]]:
    rows = bf.open(table.uri).scan(["ts", "a", "b", "l"]).to_arrow().to_pylist()
    return [(found["ts"], found["a"], found["b"], found["l"]) for found in rows]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(
    ("kind", "newer", "late"),
    [
        ("nulls", (6, 1, "?", None), (6, 1, "?", [3])),
        ("newest", (6, 1, "?", None), (4, 9, "?", [3])),
        ("marker", (6, None, "old", None), (6, None, "old", None)),
        ("version 6", (6, 1, "?", None), (6, 1, "?", [3])),
    ],
)
def test_unknown_values_are_filled(
    tmp_path: Path,
    table_type: str,
    kind: str,
    newer: tuple[Any, ...],
    late: tuple[Any, ...],
) -> None:
    table = create(tmp_path, kind, table_type)
    table.upsert([row(5, 1, "old")])
    table.upsert([row(6, None, "?")])
    assert read(table) == [newer]
    if table_type == "MERGE_ON_READ":  # else the log is merged before it meets the base row
        table.compact()
        assert read(table) == [newer]
    table.upsert([row(4, 9, None, 3)])
    assert read(table) == [late]
    if table_type == "MERGE_ON_READ":
        table.compact()
        assert read(table) == [late]
    assert [f.code for f in bf.open(table.uri).check(depth="full").findings] == []


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_rows_of_one_write_fill_one_another(tmp_path: Path, table_type: str) -> None:
    table = create(tmp_path, "nulls", table_type)
    table.upsert(
        [row(5, 1, None), row(7, None, None, 7), row(6, 6, "six"), row(1, 2, "x", key="z")]
    )
    assert sorted(read(table)) == [(1, 2, "x", None), (7, 1, "six", [7])]


def test_other_columns_are_not_read_to_fill_one(tmp_path: Path) -> None:
    table = create(tmp_path, "nulls", "MERGE_ON_READ")
    table.upsert([row(5, 1, "old", 5)])
    table.upsert([row(6, None, "new")])
    again = bf.open(table.uri)
    assert again.scan(["a"]).to_arrow().to_pylist() == [{"a": 1}]
    assert again.scan(["l"], [("b", "=", "new")]).to_arrow().to_pylist() == [{"l": [5]}]
    # No file alone has a row that the filter lets pass.
    assert again.scan(["ts"], [("a", "=", 1), ("b", "=", "new")]).count() == 1
    assert again.scan(["ts"], [("a", "=", 1), ("b", "=", "old")]).count() == 0
    assert again.lookup(["k"], columns=["a", "b"]).to_pylist() == [{"a": 1, "b": "new"}]


@pytest.mark.parametrize("kind", ["nulls", "newest", "version 6"])
def test_a_deleted_row_fills_nothing(tmp_path: Path, kind: str) -> None:
    """A delete in a log would let it, until the log is compacted."""
    table = create(tmp_path, kind, "MERGE_ON_READ")
    table.upsert([row(5, 1, "old", 5)])
    table.delete(keys=["k"])
    assert read(table) == []
    table.upsert([row(6, None, "back")])
    assert read(table) == [(6, None, "back", None)]


def test_rows_that_move_to_another_partition_are_refused(tmp_path: Path) -> None:
    """They would lose what they do not know."""
    index = bf.RecordIndex(update_partition_path=True)
    table = create(tmp_path, "nulls", "COPY_ON_WRITE", index=index)
    table.upsert([row(5, 1, "old")])
    table.upsert([row(6, None, "new")])
    with pytest.raises(bf.UnsupportedError, match="1 rows move their keys to another"):
        table.upsert([row(7, None, "moved") | {"part": "q"}])
    assert read(table) == [(6, 1, "new", None)]


def test_defaults_other_than_null_are_refused(tmp_path: Path) -> None:
    table = create(tmp_path, "nulls", "MERGE_ON_READ")
    path = tmp_path / "t/.hoodie/hoodie.properties"
    lines = path.read_text().splitlines()
    prefix = "hoodie.table.create.schema="
    (at,) = (n for n, line in enumerate(lines) if line.startswith(prefix))
    stated = json.loads(lines[at].removeprefix(prefix).replace("\\", ""))
    (field,) = (f for f in stated["fields"] if f["name"] == "a")
    field.update(type=["int", "null"], default=0)
    lines[at] = prefix + json.dumps(stated).replace(":", "\\:")
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(bf.UnsupportedError, match="a have defaults other than null"):
        bf.open(table.uri).upsert([row(5, 1, "old")])


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("nulls", "EVENT_TIME_ORDERING, partial update mode IGNORE_DEFAULTS"),
        ("newest", "COMMIT_TIME_ORDERING, partial update mode IGNORE_DEFAULTS"),
        ("marker", "EVENT_TIME_ORDERING, partial update mode FILL_UNAVAILABLE"),
        ("version 6", "CUSTOM, PartialUpdateAvroPayload"),
    ],
)
def test_a_description_tells_what_is_filled(tmp_path: Path, kind: str, told: str) -> None:
    assert describe_table(create(tmp_path, kind, "COPY_ON_WRITE"))["merge mode"] == told
