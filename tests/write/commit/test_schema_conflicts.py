"""Writers that overlap lose no column: readers go by the commit that was requested last."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf

pytestmark = pytest.mark.rotated

VERSIONS = [6, 8, 9]
TABLE_TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]


def make(folder: Path, version: int = 9, table_type: str = "COPY_ON_WRITE") -> bf.Table:
    table = bf.create(
        str(folder),
        schema=rows("x", 1).schema,
        record_key=["id"],
        partition_by=["p"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(1),
        table_type=table_type,  # type: ignore[arg-type]
        table_version=version,
    )
    for partition in ("x", "y"):
        table.upsert(rows(partition, 1))
    return table


def rows(partition: str, ts: int, **more: int) -> pa.Table:
    added = {name: [value] for name, value in more.items()}
    return pa.table({"id": ["a"], "p": [partition], "ts": [ts], **added})


def start(table: bf.Table, given: pa.Table) -> bf.StartedWrite:
    return bf.open(table.uri).start_write("upsert", given.schema, evolve=True)


def publish(started: bf.StartedWrite, given: pa.Table) -> None:
    started.publish(list(started.task.write(given, "0-0-0")))


def read(table: bf.Table) -> list[dict[str, object]]:
    return bf.open(table.uri).scan().to_arrow().sort_by("p").to_pylist()


@pytest.mark.parametrize("table_type", TABLE_TYPES)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_begun_before", [True, False])
def test_a_write_without_a_new_column_keeps_it(
    tmp_path: Path, version: int, table_type: str, is_begun_before: bool
) -> None:
    table = make(tmp_path / "t", version, table_type)
    with_column, without = rows("x", 2, extra=5), rows("y", 2)
    if is_begun_before:
        with start(table, without) as other, start(table, with_column) as changing:
            publish(changing, with_column)
            publish(other, without)
    else:
        with start(table, with_column) as changing, start(table, without) as other:
            publish(changing, with_column)
            publish(other, without)
    assert read(table) == [
        {"id": "a", "p": "x", "ts": 2, "extra": 5},
        {"id": "a", "p": "y", "ts": 2, "extra": None},
    ]
    assert table.check(depth="full").status == "clean"


@pytest.mark.parametrize("table_type", TABLE_TYPES)
def test_a_new_column_is_not_published_below_a_later_commit(
    tmp_path: Path, table_type: str
) -> None:
    """Who was requested later would hide it; begun anew, it is the later one."""
    table = make(tmp_path / "t", 9, table_type)
    with_column, without = rows("x", 2, extra=5), rows("y", 2)
    with start(table, with_column) as changing, start(table, without) as other:
        publish(other, without)
        with pytest.raises(bf.ConflictError, match="changes the table's columns"):
            publish(changing, with_column)
    assert table.schema.names == ["id", "p", "ts"]
    assert not table.timeline.pending.instants
    table.upsert(with_column, evolve=True)
    assert [row.get("extra") for row in read(table)] == [5, None]


def test_two_new_columns_at_a_time(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    one, two = rows("x", 2, one=1), rows("y", 2, two=2)
    with start(table, one) as first, start(table, two) as second:
        publish(first, one)
        with pytest.raises(bf.ConflictError, match="changes the table's columns"):
            publish(second, two)
    with pytest.raises(bf.SchemaError, match="lack the columns one"):
        table.upsert(two, evolve=True)
    table.upsert(rows("y", 2, one=0, two=2), evolve=True)
    assert [(row["one"], row["two"]) for row in read(table)] == [(1, None), (0, 2)]


def test_the_same_new_column_twice(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    one, two = rows("x", 2, extra=1), rows("y", 2, extra=2)
    with start(table, one) as first, start(table, two) as second:
        publish(second, two)
        publish(first, one)
    assert [row["extra"] for row in read(table)] == [1, 2]


def test_first_writes_with_other_columns(tmp_path: Path) -> None:
    """Without columns in the properties, the first commit states them."""
    given = rows("x", 1)
    properties = {"hoodie.table.create.schema": ""}
    table = bf.create(
        str(tmp_path / "t"),
        schema=given.schema,
        record_key=["id"],
        partition_by=["p"],
        index=bf.SimpleBucketIndex(1),
        properties=properties,
    )
    with start(table, given) as first, start(table, rows("y", 1, extra=1)) as second:
        publish(first, given)
        with pytest.raises(bf.ConflictError, match="changes the table's columns"):
            publish(second, rows("y", 1, extra=1))
    assert read(table) == given.to_pylist()
