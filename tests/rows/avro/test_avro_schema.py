"""Avro schema text <-> values <-> Arrow."""

from __future__ import annotations

import json
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, LimitError, UnsupportedError
from bucketfmt.limits import Limits
from bucketfmt.rows.avro.avro_schema import arrow_schema, arrow_type, parse_avro_schema
from bucketfmt.rows.avro.avro_schema_json import avro_schema_json
from bucketfmt.rows.avro.avro_types import (
    AvroArray,
    AvroField,
    AvroFixed,
    AvroNullable,
    AvroPrimitive,
    AvroRecord,
    LogicalType,
)
from tests.rows.avro.avro_cases import Case, cases


def record(*fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    listed = [{"name": name, "type": kind} for name, kind in fields]
    return {"type": "record", "name": "r", "fields": listed, **more}


def parse(*fields: tuple[str, Any], limits: Limits | None = None, **more: Any) -> AvroRecord:
    return parse_avro_schema(json.dumps(record(*fields, **more)), limits or Limits())


def type_of(kind: Any) -> pa.DataType:
    return arrow_schema(parse(("f", kind))).field("f").type


# What Hudi 0.15.0 and 1.2.0 keep in commit metadata for a table of Spark's types.
HUDI_TEXT = (
    '{"type":"record","name":"intkey_record","namespace":"hoodie.intkey","fields":['
    '{"name":"_hoodie_commit_time","type":["null","string"],"doc":"","default":null},'
    '{"name":"id","type":["null","long"],"default":null},'
    '{"name":"v","type":["null",{"type":"fixed","name":"fixed",'
    '"namespace":"hoodie.intkey.intkey_record.v","size":8,"logicalType":"decimal",'
    '"precision":18,"scale":4}],"default":null},'
    '{"name":"d","type":["null",{"type":"int","logicalType":"date"}],"default":null},'
    '{"name":"t","type":["null",{"type":"long","logicalType":"timestamp-micros"}],"default":null},'
    '{"name":"tags","type":["null",{"type":"array","items":["null","string"]}],"default":null},'
    '{"name":"m","type":["null",{"type":"map","values":["null","int"]}],"default":null}]}'
)
HUDI_ARROW = pa.schema(
    [
        ("_hoodie_commit_time", pa.string()),
        ("id", pa.int64()),
        ("v", pa.decimal128(18, 4)),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("m", pa.map_(pa.string(), pa.int32())),
    ]
)


def test_the_text_hudi_keeps_is_parsed_and_made_again() -> None:
    schema = parse_avro_schema(HUDI_TEXT)
    assert schema.name == "hoodie.intkey.intkey_record"
    decimal = AvroFixed("hoodie.intkey.intkey_record.v.fixed", 8, LogicalType("decimal", 18, 4))
    assert schema.fields[2] == AvroField("v", AvroNullable(decimal), True, None)
    assert schema.fields[0].doc == ""
    assert arrow_schema(schema) == HUDI_ARROW
    assert avro_schema_json(HUDI_ARROW, "intkey_record", "hoodie.intkey") == HUDI_TEXT


def test_nested_names_are_in_the_namespace_of_their_record() -> None:
    point = pa.struct([pa.field("x", pa.decimal128(5, 2)), pa.field("y", pa.int32(), False)])
    schema = pa.schema([pa.field("p", point), pa.field("ps", pa.list_(point), False)])
    text = avro_schema_json(schema, "rec", "ns")
    fixed = '{"type":"fixed","name":"fixed","namespace":"ns.rec.%s.x","size":3,'
    fixed += '"logicalType":"decimal","precision":5,"scale":2}'
    inner = '{"type":"record","name":"%s","namespace":"ns.rec","fields":['
    inner += '{"name":"x","type":["null",' + fixed + '],"default":null},{"name":"y","type":"int"}]}'
    assert text == (
        '{"type":"record","name":"rec","namespace":"ns","fields":['
        '{"name":"p","type":["null",' + inner % ("p", "p") + '],"default":null},'
        '{"name":"ps","type":{"type":"array","items":["null",' + inner % ("ps", "ps") + "]}}]}"
    )
    fastavro.parse_schema(json.loads(text))
    assert arrow_schema(parse_avro_schema(text)).field("p").type == point


@pytest.mark.parametrize(
    ("kind", "arrow"),
    [
        ("null", pa.null()),
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("bytes", pa.binary()),
        ("string", pa.string()),
        ({"type": "string"}, pa.string()),
        ({"type": {"type": "string"}}, pa.string()),
        ({"type": "string", "avro.java.string": "String"}, pa.string()),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "fixed", "name": "f", "size": 16, "logicalType": "uuid"}, pa.binary(16)),
        ({"type": "fixed", "name": "f", "size": 0}, pa.binary(0)),
        ({"type": "fixed", "name": "f", "size": 12, "logicalType": "duration"}, pa.binary(12)),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.string()),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "int", "logicalType": "time-millis"}, pa.time32("ms")),
        ({"type": "long", "logicalType": "time-micros"}, pa.time64("us")),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("ms", "UTC")),
        ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", "UTC")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("ms")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        ({"type": "long", "logicalType": "nobody-knows"}, pa.int64()),
        ({"type": "int", "logicalType": "timestamp-micros"}, pa.int32()),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3},
            pa.decimal128(38, 3),
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, pa.decimal256(39, 0)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 4}, pa.binary()),
        ({"type": "bytes", "logicalType": "decimal"}, pa.binary()),
        (
            {"type": "fixed", "name": "f", "size": 1, "logicalType": "decimal", "precision": 3},
            pa.binary(1),
        ),
        (
            {"type": "fixed", "name": "f", "size": 1, "logicalType": "decimal", "precision": 2},
            pa.decimal128(2, 0),
        ),
        (
            {"type": "array", "items": ["null", "int"]},
            pa.list_(pa.field("element", pa.int32())),
        ),
        (
            {"type": "array", "items": "int"},
            pa.list_(pa.field("element", pa.int32(), nullable=False)),
        ),
        (
            {"type": "map", "values": "long"},
            pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)),
        ),
        (record(("a", ["int", "null"]), name="inner"), pa.struct([("a", pa.int32())])),
    ],
)
def test_arrow_types(kind: Any, arrow: pa.DataType) -> None:
    assert type_of(kind) == arrow


def test_nullable_either_way_round() -> None:
    schema = parse(("a", ["null", "int"]), ("b", ["int", "null"]), ("c", "int"))
    assert [field.schema for field in schema.fields] == [
        AvroNullable(AvroPrimitive("int"), 0),
        AvroNullable(AvroPrimitive("int"), 1),
        AvroPrimitive("int"),
    ]
    assert [field.nullable for field in arrow_schema(schema)] == [True, True, False]


def test_names_are_resolved_in_their_namespace() -> None:
    enum = {"type": "enum", "name": "e", "symbols": ["A", "B"]}
    schema = parse(
        ("a", enum),
        ("b", "e"),
        ("c", ["null", "ns.e"]),
        ("d", {"type": "array", "items": {"type": "e"}}),
        ("e", {"type": "fixed", "name": "other.f", "size": 2}),
        ("f", "other.f"),
        ("g", record(("x", "f"), ("y", "ns.e"), name="g", namespace="other")),
        namespace="ns",
    )
    a, b, c, d, e, f, g = (field.schema for field in schema.fields)
    assert isinstance(c, AvroNullable)
    assert isinstance(d, AvroArray)
    assert isinstance(g, AvroRecord)
    assert a is b is c.value is d.items is g.fields[1].schema
    assert e is f is g.fields[0].schema


def test_defaults_docs_and_aliases_are_kept() -> None:
    field = {"name": "a", "type": "int", "default": 7, "doc": "seven", "aliases": ["old"]}
    nothing = {"name": "b", "type": ["null", "int"], "default": None}
    text = json.dumps({"type": "record", "name": "r", "fields": [field, nothing], "doc": "row"})
    schema = parse_avro_schema(text)
    assert schema.doc == "row"
    assert schema.fields == (
        AvroField("a", AvroPrimitive("int"), True, 7, "seven", ("old",)),
        AvroField("b", AvroNullable(AvroPrimitive("int")), True, None),
    )
    assert hash(schema) == hash(parse_avro_schema(text))


@pytest.mark.parametrize(
    "kind",
    [
        ["null", "int", "string"],
        ["int", "string"],
        ["int"],
        ["null", "null"],
        [],
        ["null", ["null", "int"]],
        ["null", "r"],
        {"type": "array", "items": "r"},
        {"type": "array", "items": "null"},
        {"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}},
        {"type": "bytes", "logicalType": "decimal", "precision": 77},
    ],
)
def test_what_no_hudi_table_has_is_refused_by_name(kind: Any) -> None:
    with pytest.raises(UnsupportedError, match="Avro schema"):
        parse(("f", kind))


@pytest.mark.parametrize(
    "kind",
    [
        None,
        3,
        "",
        "nobody",
        {},
        {"type": "record", "name": "x"},
        {"type": "record", "name": "x", "fields": [7]},
        {"type": "record", "name": "x", "fields": [{"name": "a"}]},
        {"type": "record", "name": "x", "fields": [{"type": "int"}]},
        {"type": "record", "fields": []},
        record(("a", "int"), ("a", "int"), name="x"),
        record(("a", "int")),
        {"type": "enum", "name": "e", "symbols": []},
        {"type": "enum", "name": "e", "symbols": ["A", "A"]},
        {"type": "enum", "name": "e", "symbols": "A"},
        {"type": "enum", "name": "e", "symbols": ["\ud800"]},
        {"type": "fixed", "name": "f", "size": -1},
        {"type": "fixed", "name": "f", "size": True},
        {"type": "fixed", "name": "f"},
        {"type": "array"},
        {"type": "map", "values": 1},
    ],
)
def test_what_is_no_schema_is_corrupt(kind: Any) -> None:
    with pytest.raises(CorruptError, match="Avro schema"):
        parse(("f", kind))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '"int', "9" * 5000])
def test_what_is_no_json_is_corrupt(text: str) -> None:
    with pytest.raises(CorruptError, match="not JSON"):
        parse_avro_schema(text)


@pytest.mark.parametrize("text", ['"int"', '{"type": "array", "items": "int"}'])
def test_a_row_must_be_a_record(text: str) -> None:
    with pytest.raises(UnsupportedError, match="record"):
        parse_avro_schema(text)


def test_references_count_as_if_written_out() -> None:
    kind: Any = "int"
    fields: list[tuple[str, Any]] = []
    for level in range(30):  # each record holds the one before twice: 2 ** 30 fields in 3 KB
        name = f"r{level}"
        fields.append((f"f{level}", record(("a", kind), ("b", kind), name=name)))
        kind = name
    with pytest.raises(LimitError, match="schema_fields_max"):
        parse(*fields, limits=Limits(schema_depth_max=1000))
    chain: list[tuple[str, Any]] = [("f0", record(("a", "int"), name="r0"))]
    chain += [(f"f{n}", record(("a", f"r{n - 1}"), name=f"r{n}")) for n in range(1, 100)]
    with pytest.raises(LimitError, match="schema_depth_max"):
        parse(*chain)


def test_depth_is_limited_as_written() -> None:
    kind: Any = "int"
    for _ in range(100):
        kind = {"type": "array", "items": kind}
    with pytest.raises(LimitError, match="schema_depth_max"):
        parse(("f", kind))


@pytest.mark.parametrize(
    ("arrow", "avro"),
    [
        (pa.int8(), "int"),
        (pa.uint16(), "int"),
        (pa.uint32(), "long"),
        (pa.large_string(), "string"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
        (pa.date64(), {"type": "int", "logicalType": "date"}),
        (pa.time32("s"), {"type": "int", "logicalType": "time-millis"}),
        (pa.time64("ns"), {"type": "long", "logicalType": "time-micros"}),
        (pa.timestamp("s"), {"type": "long", "logicalType": "local-timestamp-millis"}),
        (pa.timestamp("ns", "UTC"), {"type": "long", "logicalType": "timestamp-micros"}),
        (pa.large_list(pa.int64()), {"type": "array", "items": ["null", "long"]}),
        (pa.binary(3), {"type": "fixed", "name": "fixed", "namespace": "r.f", "size": 3}),
    ],
)
def test_json_of_arrow_types_that_do_not_come_back(arrow: pa.DataType, avro: Any) -> None:
    text = avro_schema_json(pa.schema([pa.field("f", arrow, nullable=False)]), "r", "")
    assert json.loads(text) == record(("f", avro))


@pytest.mark.parametrize(
    ("precision", "size"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (9, 4), (18, 8), (38, 16)]
)
def test_decimals_take_as_few_bytes_as_spark_gives_them(precision: int, size: int) -> None:
    text = avro_schema_json(pa.schema([("f", pa.decimal128(precision, 0))]), "r", "ns")
    assert json.loads(text)["fields"][0]["type"][1]["size"] == size


@pytest.mark.parametrize("arrow", [pa.uint64(), pa.float16(), pa.duration("s")])
def test_json_of_arrow_types_without_counterpart(arrow: pa.DataType) -> None:
    with pytest.raises(UnsupportedError, match="cast it first"):
        avro_schema_json(pa.schema([("f", arrow)]), "r", "ns")


@given(cases(rows_max=0))
def test_arrow_to_json_and_back(case: Case) -> None:
    arrow = arrow_schema(parse_avro_schema(case.text))
    text = avro_schema_json(arrow, "row", "some.space")
    fastavro.parse_schema(json.loads(text))
    assert arrow_schema(parse_avro_schema(text)) == arrow


@given(cases(rows_max=0), st.data())
def test_any_text_is_a_schema_or_an_error(case: Case, data: st.DataObject) -> None:
    text = case.text
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, len(text)))
    changed = text[:start] + data.draw(st.text(max_size=3)) + text[stop:]
    try:
        schema = parse_avro_schema(changed)
    except BucketfmtError:
        return
    assert arrow_type(schema) == pa.struct(list(arrow_schema(schema)))


def test_parquet_and_avro_give_the_same_columns(golden: Any) -> None:
    for version in ("0.15.0", "1.2.0"):
        for path in golden(version, "intkey").rglob("*.parquet"):
            file = pq.ParquetFile(path)
            text = file.metadata.metadata[b"parquet.avro.schema"].decode()
            ours = arrow_schema(parse_avro_schema(text))
            assert ours.names == file.schema_arrow.names
            for name in set(ours.names) - {"tags", "m"}:  # these differ in inner names only
                assert ours.field(name).type == file.schema_arrow.field(name).type
