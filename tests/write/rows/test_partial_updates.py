"""Rows that lack columns keep what is stored: a partial update, the same on every kind of table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf

pytestmark = pytest.mark.rotated

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("name", pa.string()),
        ("tags", pa.list_(pa.int32())),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
KINDS = [
    *((kind, version, {}) for version in (6, 8, 9) for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")),
    *((kind, 9, {"hoodie.populate.meta.fields": "false"}) for kind in ("COPY_ON_WRITE",)),
]


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0]}-{kind[1]}-{len(kind[2])}")
def table(request: pytest.FixtureRequest, tmp_path: Path) -> bf.Table:
    kind, version, properties = request.param
    table = bf.create(
        tmp_path / "t",
        schema=SCHEMA,
        record_key=["id"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(2),
        table_type=kind,
        table_version=version,
        properties=properties,
    )
    table.upsert(full("a", 5, "old a", [1, None]), retries=0)
    table.upsert(full("b", 5, "old b", None))
    return table


def full(key: str, ts: int, name: str | None, tags: list[int | None] | None) -> pa.Table:
    return pa.table(
        {"id": [key], "ts": [ts], "name": [name], "tags": [tags], "_hoodie_is_deleted": [False]},
        SCHEMA,
    )


def partial(**columns: list[Any]) -> pa.Table:
    return pa.table(columns, pa.schema([SCHEMA.field(name) for name in columns]))


def read(table: bf.Table) -> dict[str, tuple[Any, ...]]:
    rows = bf.open(table.uri).scan(["id", "ts", "name", "tags"]).to_arrow().to_pylist()
    return {row["id"]: (row["ts"], row["name"], row["tags"]) for row in rows}


def assert_reads(table: bf.Table, **expected: tuple[Any, ...]) -> None:
    """Also once logs are compacted."""
    assert read(table) == expected
    table.compact()
    assert read(table) == expected
    assert bf.open(table.uri).check(depth="full").status == "clean"


def test_known_keys_keep_and_new_keys_have_null(table: bf.Table) -> None:
    table.upsert(partial(id=["c", "a"], ts=[6, 6], name=["new c", "new a"]), missing="keep")
    assert_reads(table, a=(6, "new a", [1, None]), b=(5, "old b", None), c=(6, "new c", None))
    table.upsert(partial(id=["a"], ts=[7], tags=[[2]]), missing="keep")
    table.upsert(partial(id=["a"], ts=[8]), missing="keep")
    assert_reads(table, a=(8, "new a", [2]), b=(5, "old b", None), c=(6, "new c", None))


def test_an_older_row_changes_nothing(table: bf.Table) -> None:
    table.upsert(partial(id=["a"], ts=[4], name=["late"]), missing="keep")
    assert_reads(table, a=(5, "old a", [1, None]), b=(5, "old b", None))


def test_of_several_rows_of_a_key_one_stands(table: bf.Table) -> None:
    rows = partial(id=["a", "a", "a"], ts=[6, 8, 7], name=["6", "8", "7"])
    table.upsert(rows, missing="keep")
    assert_reads(table, a=(8, "8", [1, None]), b=(5, "old b", None))


def test_marks_of_deletes_take_keys_and_order_only(table: bf.Table) -> None:
    marks = partial(id=["a", "x"], ts=[9, 9], _hoodie_is_deleted=[True, True])
    table.upsert(marks, missing="keep")
    assert_reads(table, b=(5, "old b", None))
    table.upsert(partial(id=["b"], ts=[9], name=["b"]), missing="keep")
    assert_reads(table, b=(9, "b", None))


def test_a_deleted_key_is_new(table: bf.Table) -> None:
    table.delete(["a"])
    table.upsert(partial(id=["a"], ts=[9], name=["again"]), missing="keep")
    assert_reads(table, a=(9, "again", None), b=(5, "old b", None))


def test_values_are_kept_across_a_change_of_columns(table: bf.Table) -> None:
    wider = partial(id=["a"], ts=[6]).append_column("n", pa.array([1], pa.int32()))
    table.upsert(wider, evolve=True, missing="keep")
    wider = partial(id=["b"], ts=[6]).append_column("n", pa.array([2**40]))
    table.upsert(wider, evolve=True, missing="keep")
    table.upsert(partial(id=["a", "b"], ts=[7, 7], name=["A", "B"]), missing="keep")
    rows = bf.open(table.uri).scan(["id", "name", "tags", "n"]).to_arrow().sort_by("id")
    assert rows.to_pylist() == [
        {"id": "a", "name": "A", "tags": [1, None], "n": 1},
        {"id": "b", "name": "B", "tags": None, "n": 2**40},
    ]


def test_who_changes_what_is_kept_is_in_conflict(table: bf.Table) -> None:
    rows = partial(id=["a"], ts=[6], name=["mine"])
    with table.start_write("upsert", rows.schema, missing="keep") as started:
        receipts = list(started.task.write(rows, "0-0-0"))
        bf.open(table.uri).upsert(full("a", 7, "theirs", [7]))
        with pytest.raises(bf.ConflictError):
            started.publish(receipts)
    assert_reads(table, a=(7, "theirs", [7]), b=(5, "old b", None))
    # Tried again, it reads what is there by then.
    table.upsert(partial(id=["a"], ts=[8], name=["mine"]), missing="keep")
    assert_reads(table, a=(8, "mine", [7]), b=(5, "old b", None))


def test_not_next_to_non_blocking_writers(tmp_path: Path) -> None:
    table = bf.create(
        tmp_path / "t",
        schema=SCHEMA,
        record_key=["id"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(2),
        table_type="MERGE_ON_READ",
        writer=bf.WriterConfig(concurrency="non_blocking"),
    )
    table.upsert(full("a", 1, "a", None))
    with pytest.raises(bf.UnsupportedError, match="next to non-blocking writers"):
        table.upsert(partial(id=["a"], ts=[2]), missing="keep")
