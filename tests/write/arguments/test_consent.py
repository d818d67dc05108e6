"""Rows change the table's columns with consent only, and lack columns with consent only."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from tests.write.arguments.test_bad_input import tree

pytestmark = pytest.mark.rotated

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("ts", pa.int32()),
        ("amount", pa.int32()),
        ("price", pa.float32()),
        ("total", pa.decimal128(6, 2)),
        ("big", pa.int64()),
        ("place", pa.struct([("x", pa.int32()), ("y", pa.int32())])),
    ]
)
ROW: dict[str, Any] = {
    "id": "a",
    "region": "eu",
    "ts": 1,
    "amount": 2**31 - 1,
    "price": 1.100000023841858,
    "total": Decimal("1.25"),
    "big": 2**53 + 1,
    "place": {"x": 1, "y": 2},
}


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> bf.Table:
    table = bf.create(
        tmp_path / "t",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(1),
        table_type=request.param,
    )
    table.upsert(given())
    return table


def given(*types: tuple[str, pa.DataType], **values: Any) -> pa.Table:
    """The row with other values; a column whose value is ... is left out."""
    kinds = {field.name: field.type for field in SCHEMA} | dict(types)
    row = {name: value for name, value in {**ROW, **values}.items() if value is not ...}
    return pa.Table.from_pylist([row], pa.schema([(name, kinds[name]) for name in row]))


def read(table: bf.Table) -> list[dict[str, Any]]:
    return bf.open(table.uri).scan().to_arrow().sort_by("id").to_pylist()


def refused(table: bf.Table, rows: pa.Table, message: str, **options: Any) -> None:
    before = tree(Path(table.uri))
    with pytest.raises(bf.SchemaError, match=message):
        table.upsert(rows, **options)
    assert tree(Path(table.uri)) == before


def test_a_misspelt_column(table: bf.Table) -> None:
    rows = given(("amuont", pa.int32()), amount=..., amuont=1)
    refused(table, rows, r"lacks columns .*: amuont \(is it amount\?\); rename")
    refused(table, rows, "the rows lack the columns amount", evolve=True)


def test_a_column_is_added_with_consent(table: bf.Table) -> None:
    rows = given(("note", pa.large_string()), id="b", note="n")
    refused(table, rows, "note; rename or drop them, or pass evolve=True")
    result = table.upsert(rows, evolve=True)
    assert result.schema_changes == ("note: added, string",)
    assert read(table) == [{**ROW, "note": None}, {**ROW, "id": "b", "note": "n"}]
    assert table.upsert(rows, evolve=True).schema_changes == ()


def test_a_field_is_added_with_consent(table: bf.Table) -> None:
    deep = ("place", pa.struct([("x", pa.int32()), ("y", pa.int32()), ("z", pa.int8())]))
    rows = given(deep, id="b", place={"x": 1, "y": 2, "z": 3})
    refused(table, rows, r"rows have: place\.z")
    assert table.upsert(rows, evolve=True).schema_changes == ("place.z: added, int32",)
    places = [row["place"] for row in read(table)]
    assert places == [{"x": 1, "y": 2, "z": None}, {"x": 1, "y": 2, "z": 3}]


WIDER: dict[str, tuple[str, pa.DataType, Any, pa.DataType]] = {
    "int32 to int64": ("amount", pa.int64(), 2**40, pa.int64()),
    "int32 to float64": ("amount", pa.float64(), 0.5, pa.float64()),
    "a decimal": ("total", pa.decimal128(9, 4), Decimal("12345.6789"), pa.decimal128(9, 4)),
}


@pytest.mark.parametrize("name", WIDER)
def test_a_type_widens_with_consent(table: bf.Table, name: str) -> None:
    column, kind, value, wider = WIDER[name]
    rows = given((column, kind), id="b", **{column: value})
    refused(table, rows, f"column {column}: the value .* pass evolve=True, which may make")
    fits = given((column, kind), id="c", **{column: 7})
    assert table.upsert(fits).schema_changes == ()
    if pa.types.is_decimal(wider) and table.config.table_type == "MERGE_ON_READ":
        table.compact()  # Hudi would read the row that is logged as another value
    result = table.upsert(rows, evolve=True)
    assert result.schema_changes == (f"{column}: {SCHEMA.field(column).type} became {wider}",)
    expected = [ROW, {**ROW, "id": "b", column: value}, {**ROW, "id": "c", column: 7}]
    assert read(table) == expected
    assert bf.open(table.uri).schema.field(column).type == wider
    table.compact()
    assert read(table) == expected


CHANGED: dict[str, tuple[pa.DataType, Any]] = {
    "big": (pa.float64(), 0.5),
    "price": (pa.float64(), 0.1),
    "amount": (pa.string(), "1"),
    "total": (pa.float64(), 1.5),
    "ts": (pa.int64(), 2**40),  # a delete in a log states the class of its ordering value
    "id": (pa.binary(), b"b"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_nothing_stored_changes_even_with_consent(table: bf.Table, name: str) -> None:
    kind, value = CHANGED[name]
    refused(table, given((name, kind), **{name: value}), f"column {name}", evolve=True)
    assert read(table) == [ROW]


def test_rows_that_lack_columns(table: bf.Table) -> None:
    refused(table, given(price=..., big=...), "lack the columns price, big; give them; or pass")
    table.upsert(given(price=..., big=..., ts=2), missing="null")
    assert read(table) == [{**ROW, "ts": 2, "price": None, "big": None}]


def test_rows_that_lack_fields(table: bf.Table) -> None:
    rows = given(("place", pa.struct([("x", pa.int32())])), place={"x": 5}, ts=2)
    refused(table, rows, r"lack the columns place\.y")
    refused(table, rows, r"lack place\.y, and only whole columns are kept", missing="keep")
    table.upsert(rows, missing="null")
    assert read(table) == [{**ROW, "ts": 2, "place": {"x": 5, "y": None}}]


@pytest.mark.parametrize("missing", ["null", "keep"])
@pytest.mark.parametrize("name", ["id", "region", "ts"])
def test_what_no_row_may_lack(table: bf.Table, name: str, missing: str) -> None:
    refused(table, given(**{name: ...}), f"lack the columns {name}; give them$")
    refused(table, given(**{name: ...}), f"lack the columns {name}, which make", missing=missing)


def test_arguments(table: bf.Table) -> None:
    with pytest.raises(ValueError, match="missing is error, null or keep"):
        table.upsert(given(), missing="drop")  # type: ignore[typeddict-item]
    with pytest.raises(TypeError, match="evolve is True or False"):
        table.upsert(given(), evolve="no")  # type: ignore[typeddict-item]
    with pytest.raises(ValueError, match="for upsert and insert, not for insert_overwrite"):
        table.insert_overwrite(given(), missing="keep")


def test_a_column_that_is_never_null(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), pa.field("n", pa.int32(), nullable=False)])
    table = bf.create(
        tmp_path / "t", schema=schema, record_key=["id"], index=bf.SimpleBucketIndex(1)
    )
    table.upsert(pa.table({"id": ["a"], "n": [1]}))
    only_keys = pa.table({"id": ["a"]})
    refused(table, only_keys, "the column n, which is never null", missing="null")
    table.upsert(only_keys, missing="keep")
    refused_keys = pa.table({"id": ["a", "b"]})
    with pytest.raises(bf.SchemaError, match="n, which is never null, and have keys that are new"):
        table.upsert(refused_keys, missing="keep")
    assert read(table) == [{"id": "a", "n": 1}]


@pytest.mark.parametrize("evolve", [False, True])
def test_marks_of_operations_are_not_dropped(tmp_path: Path, evolve: bool) -> None:
    """A row that is marked as deleted would be written as a row."""
    rows = pa.table({"id": ["a"], "v": [1]})
    table = bf.create(
        tmp_path / "t", schema=rows.schema, record_key=["id"], index=bf.SimpleBucketIndex(2)
    )
    marked = rows.append_column("_hoodie_operation", pa.array(["D"]))
    with pytest.raises(bf.SchemaError, match="_hoodie_operation"):
        table.upsert(marked, evolve=evolve)
    assert not table.timeline.instants
