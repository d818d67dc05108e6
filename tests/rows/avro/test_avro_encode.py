"""Arrow -> Avro data blocks: what fastavro and our own decoder read back."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import SchemaError
from bucketfmt.rows.avro import avro_encode
from bucketfmt.rows.avro.avro_decode import decode_avro_blocks
from bucketfmt.rows.avro.avro_encode import encode_avro_block
from bucketfmt.rows.avro.avro_schema import arrow_schema, parse_avro_schema
from bucketfmt.rows.avro.avro_schema_json import avro_schema_json
from tests.golden import GOLDEN
from tests.rows.avro.avro_cases import Case, cases, fastavro_block, fastavro_rows
from tests.rows.avro.test_avro_decode import avro_blocks, schema_of


def encoded(kind: Any, values: pa.Array) -> bytes:
    schema = parse_avro_schema(json.dumps(schema_of(kind)))
    return encode_avro_block(pa.table({"f0": values}), schema)


def read_back(kind: Any, values: pa.Array) -> list[Any]:
    return [row["f0"] for row in fastavro_rows(encoded(kind, values), schema_of(kind))]


@given(cases(), st.integers(0, 3), st.integers(0, 3), st.integers(1, 5))
def test_rows_that_fastavro_reads(case: Case, first: int, less: int, step: int) -> None:
    schema, content = parse_avro_schema(case.text), fastavro_block(case)
    table = decode_avro_blocks([content], schema)
    part = table.slice(first, max(table.num_rows - first - less, 0))
    expected = fastavro_rows(content, case.schema)[first:][: part.num_rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro_encode, "_STEP_ROWS", step)
        assert fastavro_rows(encode_avro_block(part, schema), case.schema) == expected
        pieces = [part.slice(at, 1) for at in range(part.num_rows)]
        if pieces:
            assert encode_avro_block(pa.concat_tables(pieces), schema) == encode_avro_block(
                part, schema
            )
    for batch in part.combine_chunks().to_batches():
        assert fastavro_rows(encode_avro_block(batch, schema), case.schema) == expected


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(
    # Up to Hudi 0.13 data blocks were of version 2, which is read and not written.
    ("version", "name"),
    [table for table in GOLDEN if table[0] != "flink-0.13.1"],
)
def test_blocks_of_hudi_byte_by_byte(
    golden: Callable[[str, str], Path], version: str, name: str
) -> None:
    for block in islice(avro_blocks(golden(version, name)), 50):
        schema = parse_avro_schema(block.schema)
        rows = decode_avro_blocks([block.content], schema)
        assert encode_avro_block(rows, schema) == block.content


def test_the_worked_example() -> None:
    schema = parse_avro_schema(json.dumps(schema_of(["null", "string"], ["null", "long"])))
    rows = pa.table({"f0": ["key0", None], "f1": [100, -1]})
    assert encode_avro_block(rows, schema).hex(" ", 4) == (
        "00000003 00000002 00000009 02086b65 793002c8 01000000 03000201"
    )


def test_no_rows_and_no_columns() -> None:
    schema = parse_avro_schema(json.dumps(schema_of("int")))
    assert encode_avro_block(arrow_schema(schema).empty_table(), schema).hex() == "0000000300000000"
    empty = parse_avro_schema('{"type": "record", "name": "r", "fields": []}')
    rows = pa.table({"a": [1, 2]}).select([])
    assert encode_avro_block(rows, empty).hex() == "00000003000000020000000000000000"


def test_columns_go_by_name() -> None:
    schema = parse_avro_schema(json.dumps(schema_of("int", "string")))
    rows = pa.table({"f1": ["a"], "f0": [1]})
    assert encode_avro_block(rows, schema) == encode_avro_block(rows.select(["f0", "f1"]), schema)


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("string", pa.array(["a", "b"]).dictionary_encode(), ["a", "b"]),
        ("string", pa.array(["a"], pa.large_string()), ["a"]),
        ("string", pa.array(["a" * 20], pa.string_view()), ["a" * 20]),
        ("int", pa.array([1], pa.int64()), [1]),
        ("long", pa.array([1], pa.int8()), [1]),
        ("double", pa.array([0.5], pa.float32()), [0.5]),
        (["null", "int"], pa.nulls(2), [None, None]),
        (["string", "null"], pa.array([None, "b"]), [None, "b"]),
        ({"type": "array", "items": "int"}, pa.array([[1, 2], []]), [[1, 2], []]),
        (
            {"type": "array", "items": "int"},
            pa.array([[1, 2]], pa.large_list(pa.int32())),
            [[1, 2]],
        ),
        ({"type": "array", "items": "int"}, pa.array([[1, 2]], pa.list_(pa.int32(), 2)), [[1, 2]]),
        (
            {"type": "map", "values": ["null", "int"]},
            pa.array([[("a", 1)], [("b", None), ("c", 2)], []], pa.map_("string", "int32"))[1:],
            [{"b": None, "c": 2}, {}],
        ),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("ms", "America/New_York")),
            [dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)],
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
            pa.array([Decimal("-1.28"), Decimal("1.27"), Decimal("1.28"), Decimal(0)])[1:],
            [Decimal("1.27"), Decimal("1.28"), Decimal(0)],
        ),
    ],
)
def test_values_are_cast_where_nothing_is_lost(
    kind: Any, values: pa.Array, expected: list[Any]
) -> None:
    assert read_back(kind, values) == expected


@pytest.mark.parametrize(
    ("number", "octets"),
    [(0, "00"), (127, "7f"), (128, "0080"), (-128, "80"), (-129, "ff7f"), (-1, "ff")],
)
def test_decimals_in_as_few_bytes_as_java_writes(number: int, octets: str) -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 9}
    content = encoded(kind, pa.array([Decimal(number)], pa.decimal128(9)))
    assert content[12:].hex() == f"{len(octets):02x}{octets}"


@pytest.mark.parametrize(
    ("kind", "values", "match"),
    [
        ("int", pa.array([1, None]), "allows no null"),
        ({"type": "array", "items": "int"}, pa.array([[None]], pa.list_(pa.int32())), "element"),
        (
            {"type": "map", "values": "int"},
            pa.array([[("a", None)]], pa.map_("string", "int32")),
            "value",
        ),
        ("int", pa.array([2**31]), "does not fit"),
        ("int", pa.array(["x"]), "does not fit"),
        ("long", pa.array([0.5]), "does not fit"),
        ("string", pa.array([[1]]), "does not fit"),
        ({"type": "array", "items": "int"}, pa.array([1]), "array"),
        ({"type": "map", "values": "int"}, pa.array([1]), "map"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.array(["B"]), "symbol"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            pa.array([1], pa.timestamp("us", "UTC")),
            "does not fit",
        ),
        (
            {"type": "fixed", "name": "f", "size": 1, "logicalType": "decimal", "precision": 2},
            pa.array([Decimal(100)]),
            "does not fit",
        ),
        (schema_of("int", name="inner"), pa.array([1]), "f0"),
        (schema_of("int", name="inner"), pa.array([{"f0": 1, "f1": 2}]), "'f1'"),
    ],
)
def test_what_the_schema_cannot_hold(kind: Any, values: pa.Array, match: str) -> None:
    with pytest.raises(SchemaError, match=match):
        encoded(kind, values)


@pytest.mark.parametrize("columns", [{}, {"f0": [1], "f1": [2]}, {"f1": [1]}])
def test_columns_must_be_those_of_the_schema(columns: dict[str, list[int]]) -> None:
    with pytest.raises(SchemaError, match="differ in fields"):
        encode_avro_block(pa.table(columns), parse_avro_schema(json.dumps(schema_of("int"))))


@pytest.mark.parametrize("small_bytes", [0, 40, 1 << 20])
def test_many_columns_of_few_types(monkeypatch: pytest.MonkeyPatch, small_bytes: int) -> None:
    # Of 150 columns of a type, more than are encoded as one; each has other values and nulls.
    monkeypatch.setattr(avro_encode, "_SMALL_BYTES", small_bytes)
    at = {"type": "long", "logicalType": "timestamp-micros"}
    kinds: list[Any] = [["null", "long"], ["string", "null"], "string", ["null", at], "double"]
    numbers = range(5 * 150)
    values = {
        f"f{n}": pa.array(
            [None if n % 5 in (0, 1, 3) and (n + row) % 7 < n % 4 else n * row for row in range(3)]
        ).cast([pa.int64(), pa.string(), pa.string(), pa.int64(), pa.float64()][n % 5])
        for n in numbers
    }
    kind = schema_of(*(kinds[n % 5] for n in numbers))
    rows = pa.table(values)
    times = [f"f{n}" for n in numbers if n % 5 == 3]
    typed = rows.cast(
        pa.schema(
            [f.with_type(pa.timestamp("us", "UTC")) if f.name in times else f for f in rows.schema]
        )
    )
    content = encode_avro_block(typed, parse_avro_schema(json.dumps(kind)))
    assert fastavro_rows(content, kind) == typed.to_pylist()
    assert {column.null_count for column in typed.columns} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("values", "match"),
    [(pa.array([None], pa.int64()), "column f70: null"), (pa.array(["x"]), "column f70: string")],
)
def test_the_one_of_many_columns_that_does_not_fit(values: pa.Array, match: str) -> None:
    schema = parse_avro_schema(json.dumps(schema_of(*["long"] * 100)))
    rows = pa.table({f"f{n}": values if n == 70 else pa.array([n]) for n in range(100)})
    with pytest.raises(SchemaError, match=match):
        encode_avro_block(rows, schema)


def test_arrow_rows_with_a_schema_of_their_own() -> None:
    rows = pa.table(
        {
            "id": pa.array(["a", None]),
            "amount": pa.array([Decimal("1.5"), Decimal("-2.25")], pa.decimal128(12, 2)),
            "at": pa.array([dt.datetime(2024, 5, 1), None], pa.timestamp("us", "UTC")),
            "point": pa.array([{"x": 1, "tags": ["p"]}, None]),
        }
    )
    schema = parse_avro_schema(avro_schema_json(rows.schema, "row", "hoodie.t"))
    back = decode_avro_blocks([encode_avro_block(rows, schema)], schema)
    assert back.to_pylist() == rows.to_pylist()
