"""Which types a table stores, and what is said of those that it cannot hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.rows.columns.column_types import (
    NESTING_MAX,
    column_type,
    find_wider_type,
    stored_columns,
)


def nested(kind: str, depth: int) -> tuple[pa.DataType, Any]:
    """A type of so many levels, and a value of it."""
    found, value = pa.int32(), 7
    for _ in range(depth):
        if kind == "struct":
            found, value = pa.struct([("f", found)]), {"f": value}
        elif kind == "list":
            found, value = pa.list_(found), [value]
        else:
            found, value = pa.map_(pa.string(), found), [("k", value)]
    return found, value


STORED = [
    (pa.uint16(), pa.int32()),
    (pa.uint32(), pa.int64()),
    (pa.float16(), pa.float32()),
    (pa.string_view(), pa.string()),
    (pa.binary_view(), pa.binary()),
    (pa.time32("s"), pa.time32("ms")),
    (pa.time64("ns"), pa.time64("us")),
    (pa.timestamp("s"), pa.timestamp("us")),
    (pa.timestamp("ns", "Asia/Tokyo"), pa.timestamp("us", "UTC")),
    (pa.decimal32(5, 2), pa.decimal128(5, 2)),
    (pa.decimal256(20, 2), pa.decimal128(20, 2)),
    (pa.list_(pa.int8(), 3), pa.list_(pa.int32())),
    (pa.large_list_view(pa.large_string()), pa.list_(pa.string())),
    (pa.run_end_encoded(pa.int32(), pa.int8()), pa.int32()),
    (pa.map_(pa.dictionary(pa.int8(), pa.string()), pa.int8()), pa.map_(pa.string(), pa.int32())),
]
REFUSED = [
    (pa.struct([("a", pa.int32()), ("a", pa.int32())]), bf.SchemaError, "c.a occurs twice"),
    (
        pa.struct([("in", pa.struct([("a", pa.int32()), ("A", pa.int32())]))]),
        bf.SchemaError,
        "c.in.a and c.in.A differ by case only",
    ),
    (pa.list_(pa.null()), bf.SchemaError, "c.element: Hudi stores no column of type null"),
    (pa.struct([]), bf.UnsupportedError, "c: parquet has no struct without fields"),
    (pa.map_(pa.int32(), pa.int32()), bf.UnsupportedError, "c: the keys of Hudi's maps are text"),
    (pa.uint64(), bf.UnsupportedError, "c: uint64 goes beyond Hudi's long"),
    (pa.decimal128(10, -2), bf.UnsupportedError, r"c: decimal128\(10, -2\), where Hudi's"),
    (pa.decimal128(2, 5), bf.UnsupportedError, r"c: decimal128\(2, 5\), where Hudi's"),
    (pa.decimal256(40, 2), bf.UnsupportedError, r"c: decimal256\(40, 2\), where Hudi's"),
    (pa.binary(0), bf.UnsupportedError, "c: Hudi has no type for"),
    (pa.duration("s"), bf.UnsupportedError, "c: Hudi has no type for duration"),
    (pa.month_day_nano_interval(), bf.UnsupportedError, "c: Hudi has no type for month_day"),
    (pa.sparse_union([pa.field("a", pa.int32())]), bf.UnsupportedError, "c: Hudi has no type for"),
    (pa.uuid(), bf.UnsupportedError, "c: a table keeps no extension types .* fixed_size_binary"),
    (pa.json_(), bf.UnsupportedError, "c: a table keeps no extension types .* string"),
    (nested("struct", NESTING_MAX + 1)[0], bf.UnsupportedError, "c.f.f.*: more than 30 levels"),
    (nested("list", 60)[0], bf.UnsupportedError, "c.element.*: more than 30 levels"),
]


@pytest.mark.parametrize(("kind", "stored"), STORED, ids=str)
def test_what_is_stored(kind: pa.DataType, stored: pa.DataType) -> None:
    assert column_type(kind, "c") == stored


@pytest.mark.parametrize(("kind", "error", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_a_table_cannot_hold(
    tmp_path: Path, kind: pa.DataType, error: type[Exception], message: str
) -> None:
    schema = pa.schema([("id", pa.string()), ("c", kind)])
    for make in (
        lambda: stored_columns(schema),
        lambda: bf.create(
            tmp_path / "t", schema=schema, record_key=["id"], index=bf.SimpleBucketIndex(1)
        ),
    ):
        with pytest.raises(error, match=message):
            make()
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("kind", ["struct", "list", "map"])
def test_as_deep_as_it_goes(tmp_path: Path, kind: str) -> None:
    deep, value = nested(kind, NESTING_MAX)
    schema = pa.schema([("id", pa.string()), ("c", deep)])
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        table = bf.create(
            tmp_path / table_type,
            schema=schema,
            record_key=["id"],
            index=bf.SimpleBucketIndex(1),
            table_type=table_type,  # type: ignore[arg-type]
        )
        rows = pa.Table.from_pylist([{"id": "a", "c": value}, {"id": "b", "c": None}], schema)
        for _ in range(2):
            table.upsert(rows)
        table.compact()
        assert table.scan().to_arrow().sort_by("id").to_pylist() == rows.to_pylist()


@pytest.mark.parametrize(
    ("stored", "given", "wider"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int32(), pa.float32(), pa.float64()),
        (pa.decimal128(6, 2), pa.decimal128(5, 4), pa.decimal128(8, 4)),
        (pa.decimal128(36, 0), pa.decimal128(5, 4), None),
        (pa.decimal128(6, 2), pa.decimal128(5, 2), None),
        (pa.int64(), pa.float64(), None),
        (pa.float32(), pa.float64(), None),
        (pa.int32(), pa.string(), None),
        (pa.int32(), pa.int8(), None),
    ],
    ids=str,
)
def test_what_widens(stored: pa.DataType, given: pa.DataType, wider: pa.DataType | None) -> None:
    assert find_wider_type(stored, given) == wider
