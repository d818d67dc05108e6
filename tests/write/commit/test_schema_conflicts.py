"""Writers that overlap lose no column: readers go by the commit that was requested last."""

from __future__ import annotations

from decimal import Decimal
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


NARROW, WIDE = pa.decimal128(10, 2), pa.decimal128(11, 3)  # both take five bytes


def priced(partition: str, ts: int, kind: pa.DataType = NARROW) -> pa.Table:
    return rows(partition, ts).append_column("price", pa.array([Decimal(f"{ts}.25")], kind))


def make_priced(folder: Path, version: int = 9) -> bf.Table:
    table = bf.create(
        str(folder),
        schema=priced("x", 1).schema,
        record_key=["id"],
        partition_by=["p"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(1),
        table_type="MERGE_ON_READ",
        table_version=version,
        writer=bf.WriterConfig(services=None),
    )
    table.upsert(pa.concat_tables([priced("x", 1), priced("y", 1)]))
    table.compact()
    return table


@pytest.mark.parametrize("version", VERSIONS)
def test_a_decimal_of_logged_rows_keeps_its_type_until_they_are_compacted(
    tmp_path: Path, version: int
) -> None:
    """Hudi reads 5.25, logged with two digits behind the point, as 0.525 by a type with three."""
    table = make_priced(tmp_path / "t", version)
    table.upsert(priced("x", 5))
    with pytest.raises(bf.UnsupportedError, match=r"price: decimal128\(10, 2\) became .*compact"):
        table.upsert(priced("y", 7, WIDE), evolve=True)
    assert table.schema.field("price").type == NARROW
    table.compact()
    assert table.upsert(priced("y", 7, WIDE), evolve=True).schema_changes == (
        "price: decimal128(10, 2) became decimal128(11, 3)",
    )
    assert [str(row["price"]) for row in read(table)] == ["5.250", "7.250"]


@pytest.mark.parametrize("is_changed_first", [True, False])
def test_a_decimal_is_not_widened_beside_a_write_that_logs_it(
    tmp_path: Path, is_changed_first: bool
) -> None:
    table = make_priced(tmp_path / "t")
    wide, narrow = priced("x", 5, WIDE), priced("y", 6)
    changing, logging = (start(table, wide), wide), (start(table, narrow), narrow)
    first, second = (changing, logging) if is_changed_first else (logging, changing)
    with first[0], second[0]:
        publish(*first)
        with pytest.raises(bf.ConflictError, match="decimal column of another type"):
            publish(*second)
    if is_changed_first:  # begun anew, the rows are written as the table has them
        table.upsert(narrow)
        assert [str(row["price"]) for row in read(table)] == ["5.250", "6.250"]
    else:
        with pytest.raises(bf.UnsupportedError, match="compact the table first"):
            table.upsert(wide, evolve=True)


def test_a_decimal_within_a_column_counts_too(tmp_path: Path) -> None:
    def nested(kind: pa.DataType) -> pa.Table:
        values = pa.array([[{"m": [("k", Decimal("5.25"))]}]], pa.list_(inner(kind)))
        return rows("x", 1).append_column("deep", values)

    def inner(kind: pa.DataType) -> pa.DataType:
        return pa.struct([("m", pa.map_(pa.string(), kind))])

    table = bf.create(
        str(tmp_path / "t"),
        schema=nested(NARROW).schema,
        record_key=["id"],
        index=bf.SimpleBucketIndex(1),
        table_type="MERGE_ON_READ",
    )
    for _ in range(2):  # one of them is logged
        table.upsert(nested(NARROW))
    with pytest.raises(bf.UnsupportedError, match=r"column deep\.element\.m\.value: decimal"):
        table.upsert(nested(WIDE), evolve=True)


@pytest.mark.parametrize("version", [6, 8])
def test_columns_that_hudi_does_not_read_are_not_made(tmp_path: Path, version: int) -> None:
    """Timestamps without a time zone: Hudi on Spark reads them from table version 9 on."""
    zoneless = pa.map_(pa.string(), pa.struct([("at", pa.timestamp("ns"))]))
    schema = rows("x", 1).schema
    with pytest.raises(bf.UnsupportedError, match=r'column m\.value\.at: .*\("us", "UTC"\)'):
        bf.create(
            str(tmp_path / "no"),
            schema=schema.append(pa.field("m", zoneless)),
            record_key=["id"],
            table_version=version,
        )
    table = make(tmp_path / "t", version)
    at = pa.array([0], pa.timestamp("ms"))
    with pytest.raises(bf.UnsupportedError, match="column at: Hudi on Spark reads timestamps"):
        table.upsert(rows("x", 2).append_column("at", at), evolve=True)
    table.upsert(rows("x", 2).append_column("at", at.cast(pa.timestamp("ms", "UTC"))), evolve=True)
    assert table.schema.field("at").type == pa.timestamp("us", "UTC")
