"""Avro data blocks -> Arrow: agreement with fastavro, and what damaged bytes may do."""

from __future__ import annotations

import io
import json
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import (
    BucketfmtError,
    CorruptError,
    LimitError,
    SchemaError,
    TruncatedError,
    UnsupportedError,
)
from bucketfmt.format.log.log_block import BlockType, LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.limits import Limits
from bucketfmt.rows.avro import avro_decode, avro_nested_readers
from bucketfmt.rows.avro.avro_decode import WantedKeys, decode_avro_blocks
from bucketfmt.rows.avro.avro_schema import arrow_schema, parse_avro_schema
from tests.golden import GOLDEN
from tests.rotation import examples
from tests.rows.avro.avro_cases import Case, cases, fastavro_block, fastavro_rows, rows_of

Golden = Callable[[str, str], Path]


def schema_of(*kinds: Any, name: str = "r") -> dict[str, Any]:
    fields = [{"name": f"f{index}", "type": kind} for index, kind in enumerate(kinds)]
    return {"type": "record", "name": name, "fields": fields}


WIDE = schema_of(*["long"] * 1000, name="wide")


def framed(*rows: bytes, version: int = 3) -> bytes:
    """A data block of rows given as bytes."""
    frames = b"".join(struct.pack(">i", len(row)) + row for row in rows)
    return struct.pack(">ii", version, len(rows)) + frames


def decode(kind: Any, *rows: bytes, limits: Limits | None = None) -> list[Any]:
    schema = parse_avro_schema(json.dumps(schema_of(kind)))
    table = decode_avro_blocks([framed(*rows)], schema, limits or Limits())
    table.validate(full=True)
    assert table.schema == arrow_schema(schema)
    return table.column("f0").to_pylist()


# -- agreement


def check_agreement(case: Case, blocks: int) -> None:
    schema, content = parse_avro_schema(case.text), fastavro_block(case)
    table = decode_avro_blocks([content] * blocks, schema)
    table.validate(full=True)
    assert table.schema == arrow_schema(schema)
    expected = fastavro_rows(content, case.schema) * blocks
    assert rows_of(table) == expected
    for name in table.schema.names:
        one = decode_avro_blocks([content] * blocks, schema, columns=[name])
        assert rows_of(one) == rows_of(table.select([name]))


@given(cases(), st.integers(1, 4))
def test_rows_as_fastavro_reads_them(case: Case, blocks: int) -> None:
    check_agreement(case, blocks)


@given(case=cases(), blocks=st.integers(1, 4))
def test_rows_in_small_steps(case: Case, blocks: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro_decode, "_STEP_ROWS", 3)
        patch.setattr(avro_nested_readers, "_LANES_MIN", 2)
        check_agreement(case, blocks)


KEYED = schema_of("string", ["null", "string"], "bytes", name="keyed")
KEYED_ROWS = st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | st.text()), max_size=60)


def keyed_block(rows: list[tuple[str, str | None]]) -> bytes:
    """A data block of rows with a text before the key, which may be null, and bytes behind."""
    out = io.BytesIO()
    framed_rows = []
    for text, key in rows:
        out.seek(0), out.truncate()
        fastavro.schemaless_writer(out, KEYED, {"f0": text, "f1": key, "f2": b"\x00" * len(text)})
        framed_rows.append(out.getvalue())
    return framed(*framed_rows)


@given(
    st.lists(KEYED_ROWS, min_size=1, max_size=4),
    st.lists(st.sampled_from("abcdef"), max_size=6, unique=True),
    st.integers(1, 40),
    st.booleans(),
)
def test_rows_of_keys_are_all_found(
    blocks: list[list[tuple[str, str | None]]], keys: list[str], step_rows: int, are_few: bool
) -> None:
    """Others may be left out, and none is added or changes its place."""
    schema, column = parse_avro_schema(json.dumps(KEYED)), "f0" if are_few else "f1"
    wanted = WantedKeys(column, pa.array(keys, pa.string()))
    contents = [keyed_block(rows) for rows in blocks]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro_decode, "_STEP_ROWS", step_rows)
        if are_few:
            patch.setattr(avro_decode, "_ROWS_PER_KEY_MIN", 0)
        found = decode_avro_blocks(contents, schema, keys=wanted)
        every = decode_avro_blocks(contents, schema)
    found.validate(full=True)
    of_keys = pc.is_in(every.column(column), wanted.values)
    assert found.filter(pc.is_in(found.column(column), wanted.values)).equals(every.filter(of_keys))
    if are_few:
        assert found.equals(every.filter(of_keys))


def test_rows_of_other_keys_are_read_up_to_the_key() -> None:
    """What is damaged behind the key of another row is not met; a key that leaves its row is."""
    schema = parse_avro_schema(json.dumps(KEYED))
    good = keyed_block([(text, f"key {text}") for text in "abcdefghij"])
    bad = good.replace(b"key c\x02\x00", b"key c\x04\x00")  # its bytes leave the row
    with pytest.raises(CorruptError, match="the row does not end where its length says"):
        decode_avro_blocks([bad], schema)
    wanted = WantedKeys("f1", pa.array(["key e"]))
    assert decode_avro_blocks([bad], schema, keys=wanted).column("f0").to_pylist() == ["e"]
    torn = good.replace(b"\x02c\x02\x0akey c", b"\x02c\x02\x3akey c")
    with pytest.raises(CorruptError, match="column 'f1' or before"):
        decode_avro_blocks([torn], schema, keys=wanted)


def avro_blocks(table: Path) -> Iterator[LogBlock]:
    for path in sorted(table.rglob(".*.log.*")):
        if path.is_file() and path.suffix != ".crc":
            for block in decode_log_file(path.read_bytes()):
                assert isinstance(block, LogBlock)
                if block.block_type in {BlockType.AVRO_DATA, BlockType.CDC_DATA}:
                    yield block


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(("version", "name"), GOLDEN)
def test_every_data_block_of_hudi(golden: Golden, version: str, name: str) -> None:
    of_schema = defaultdict(list)
    for block in avro_blocks(golden(version, name)):
        of_schema[block.schema].append(block.content)
    for text, contents in of_schema.items():
        schema = json.loads(text)
        table = decode_avro_blocks(contents, parse_avro_schema(text))
        table.validate(full=True)
        expected = [row for content in contents for row in fastavro_rows(bytes(content), schema)]
        assert rows_of(table) == expected


def test_rows_hudi_read_back(golden: Golden, golden_expected: Callable[..., pa.Table]) -> None:
    last: dict[str, dict[str, Any]] = {}
    for block in avro_blocks(golden("1.2.0", "ch_init")):
        schema = parse_avro_schema(block.schema)
        for row in decode_avro_blocks([block.content], schema).to_pylist():
            if row["ts"] >= last.get(row["id"], row)["ts"]:
                last[row["id"]] = row
    expected = {row["id"]: row for row in golden_expected("1.2.0", "ch_init").to_pylist()}
    assert last == expected


# -- blocks and columns


TWO = parse_avro_schema(json.dumps(schema_of("int", "string", ["null", "double"])))
TWO_ROWS = [b"\x02\x02a\x00", b"\x04\x04bc\x02" + struct.pack("<d", 1.5)]


def test_columns_are_chosen_by_name_and_in_that_order() -> None:
    table = decode_avro_blocks([framed(*TWO_ROWS)], TWO, columns=["f2", "f0"])
    assert table.to_pydict() == {"f2": [None, 1.5], "f0": [1, 2]}
    with pytest.raises(SchemaError, match="'nobody'"):
        decode_avro_blocks([], TWO, columns=["nobody"])


def test_no_columns_and_no_fields_keep_the_number_of_rows() -> None:
    table = decode_avro_blocks([framed(*TWO_ROWS)] * 2, TWO, columns=[])
    assert (table.num_rows, table.num_columns) == (4, 0)
    empty = parse_avro_schema('{"type": "record", "name": "r", "fields": []}')
    assert decode_avro_blocks([framed(b"", b"")], empty).num_rows == 2
    with pytest.raises(CorruptError, match="end where its length says"):
        decode_avro_blocks([framed(b"", b"x")], empty)


def test_no_rows() -> None:
    for contents in ([], [framed()], [framed(), framed()]):
        table = decode_avro_blocks(contents, TWO)
        assert table.schema == arrow_schema(TWO)
        assert table.num_rows == 0


@pytest.mark.parametrize("version", [1, 2, 3])
def test_block_versions(version: int) -> None:
    assert decode_avro_blocks([framed(*TWO_ROWS, version=version)], TWO).num_rows == 2


@pytest.mark.parametrize("version", [0, 4, -1])
def test_unknown_block_versions(version: int) -> None:
    with pytest.raises(UnsupportedError, match="data block version"):
        decode_avro_blocks([framed(version=version)], TWO)


def test_a_block_of_hudi_byte_by_byte() -> None:
    """The worked example: one record of a table with five meta columns and five of its own."""
    names = ["time", "seqno", "key", "path", "file", "id", "k2", "ts", "v", "p"]
    kinds = ["string"] * 7 + ["long", "double", "string"]
    fields = [
        {"name": name, "type": ["null", kind]} for name, kind in zip(names, kinds, strict=True)
    ]
    schema = parse_avro_schema(json.dumps({"type": "record", "name": "r", "fields": fields}))
    row = (
        b"\x02\x2220261121035949184\x02\x2a20261121035949184_0_2\x02\x08key0\x02\x02a"
        b"\x02\x4c00000000-f626-41b6-828b-48eeec780979-0\x02\x08key0\x02\x02x\x02\xc8\x01"
        b"\x02\xcd\xcc\xcc\xcc\xcc\xcc\x23\x40\x02\x02a"
    )
    content = bytes.fromhex("000000030000000100000073") + row
    assert decode_avro_blocks([content], schema).to_pylist() == [
        {
            "time": "20261121035949184",
            "seqno": "20261121035949184_0_2",
            "key": "key0",
            "path": "a",
            "file": "00000000-f626-41b6-828b-48eeec780979-0",
            "id": "key0",
            "k2": "x",
            "ts": 100,
            "v": 9.9,
            "p": "a",
        }
    ]


def test_the_rows_outlive_the_blocks() -> None:
    content = bytearray(framed(*TWO_ROWS))
    table = decode_avro_blocks([content], TWO)
    content[:] = bytes(len(content))
    assert table.column("f1").to_pylist() == ["a", "bc"]


def test_errors_name_block_column_and_offset() -> None:
    good, bad = framed(*TWO_ROWS), framed(TWO_ROWS[0], b"\x02\x02\xff\x00")
    with pytest.raises(CorruptError, match=r"data block 2, column 'f1' .*UTF-8") as info:
        decode_avro_blocks([good, good, bad], TWO)
    assert info.value.offset is not None
    assert 8 <= info.value.offset < len(bad)
    with pytest.raises(CorruptError, match="data block 1: record 1 of 2"):
        decode_avro_blocks([good, good[:-1]], TWO)


# -- values


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("00", 0),
        ("01", -1),
        ("7f", -64),
        ("8001", 64),
        ("8000", 0),  # longer than need be, which Avro allows
        ("feffffff0f", 2**31 - 1),
        ("ffffffff0f", -(2**31)),
        ("ffffffffffffff7f", -(2**55)),
        ("808080808080808001", 2**55),
        ("feffffffffffffffff01", 2**63 - 1),
        ("ffffffffffffffffff01", -(2**63)),
    ],
)
def test_varints(encoded: str, value: int) -> None:
    assert decode("long", bytes.fromhex(encoded), b"\x02") == [value, 1]
    assert decode("long", bytes.fromhex(encoded)) == [value]
    # one by one, in a single list
    array = {"type": "array", "items": "long"}
    assert decode(array, b"\x04" + bytes.fromhex(encoded) + b"\x02\x00") == [[value, 1]]


@pytest.mark.parametrize(
    "encoded",
    ["", "80", "ff" * 9, "ff" * 10, "ffffffffffffffffff02", "ffffffffffffffffff8000", "0000"],
)
def test_no_varints(encoded: str) -> None:
    for rows in ([bytes.fromhex(encoded)], [b"\x02", bytes.fromhex(encoded), b"\x02"]):
        with pytest.raises(CorruptError):
            decode("long", *rows)
    with pytest.raises(CorruptError):
        decode({"type": "array", "items": "long"}, b"\x02" + bytes.fromhex(encoded) + b"\x00")


def test_an_int_has_32_bits() -> None:
    assert decode("int", bytes.fromhex("feffffff0f")) == [2**31 - 1]
    with pytest.raises(CorruptError, match="32 bits"):
        decode("int", bytes.fromhex("8080808010"))


@pytest.mark.parametrize(
    ("kind", "row", "match"),
    [
        ("boolean", b"\x02", "boolean"),
        ("boolean", b"", None),
        (["null", "int"], b"\x04", "branch"),
        (["null", "int"], b"\x01", "branch"),
        (["null", "int"], b"\x80\x00", "branch"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\x02", "symbol"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\x01", "symbol"),
        ("string", b"\x01", "length"),
        ("string", b"\x08abc", None),
        ("string", b"\x06abcd", "end where"),
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "length"),
        ("string", b"\x02\xff", "UTF-8"),
        ("string", b"\x04\xc3(", "UTF-8"),
        ("string", b"\x06\xed\xa0\x80", "UTF-8"),
        ("double", b"1234567", None),
        ({"type": "int", "logicalType": "time-millis"}, b"\x01", "a day"),
        ({"type": "long", "logicalType": "time-micros"}, b"\x80\xe0\xcf\x86\xaf\x05", "a day"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x00", "decimal"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x02\x64", "digits"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x42" + b"\0" * 33, "32"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2},
            b"\x22\x01" + b"\0" * 16,
            "16 bytes",
        ),
        ({"type": "array", "items": "int"}, b"\x02", None),
        ({"type": "array", "items": "int"}, b"\x02\x02", None),
        ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "claims"),
        ({"type": "array", "items": "int"}, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", None),
        ({"type": "map", "values": "int"}, b"\x02\x02\xff\x02\x00", "UTF-8"),
    ],
)
@pytest.mark.parametrize("lanes_min", [1, 48])
def test_values_that_break_the_rules(
    kind: Any, row: bytes, match: str | None, lanes_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(avro_nested_readers, "_LANES_MIN", lanes_min)
    with pytest.raises(CorruptError, match=match):
        decode(kind, row)


def test_texts_are_valid_one_by_one() -> None:
    """Halves of a character in two rows are not UTF-8, though together they are."""
    assert decode("string", b"\x04\xc3\xa9", b"\x00", b"\x02e") == ["é", "", "e"]
    with pytest.raises(CorruptError, match="UTF-8"):
        decode("string", b"\x02\xc3", b"\x02\xa9")
    with pytest.raises(CorruptError, match="UTF-8"):
        decode("string", b"\x02\xc3", b"\x00", b"\x02\xa9")


def test_a_row_cannot_borrow_from_the_next() -> None:
    with pytest.raises(CorruptError):
        decode("string", b"\x10ab", b"\x00" * 20)
    with pytest.raises(CorruptError, match="end where"):
        decode("double", b"1234", b"123456789012")


@pytest.mark.parametrize("lanes_min", [1, 48, 1000])
@pytest.mark.parametrize(
    ("items", "row"),
    [
        ("string", b"\x14" + b"\0" * 3),
        ("string", b"\x06\x0e\0"),  # the length of the next row within a text
        ("string", b"\x02\x0e"),
        ("boolean", b"\x14" + b"\0" * 3),
        ({"type": "array", "items": "string"}, b"\x02\x02\x12\0"),
    ],
)
def test_a_list_cannot_run_into_the_next_row(
    items: Any, row: bytes, lanes_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(avro_nested_readers, "_LANES_MIN", lanes_min)
    with pytest.raises(CorruptError):
        decode({"type": "array", "items": items}, *[row] * 100)


@pytest.mark.parametrize("lanes_min", [1, 48])
def test_lists_in_several_blocks(lanes_min: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_nested_readers, "_LANES_MIN", lanes_min)
    ints = {"type": "array", "items": "int"}
    rows = [b"\x02\x02\x04\x04\x06\x00", b"\x00", b"\x03\x04\x0a\x0c\x00", b"\x02\x0e\x00"]
    assert decode(ints, *rows) == [[1, 2, 3], [], [5, 6], [7]]
    texts = {"type": "array", "items": {"type": "array", "items": ["null", "string"]}}
    rows = [b"\x04\x00\x04\x00\x02\x02a\x00\x00", b"\x00", b"\x01\x18\x02\x02\x02b\x00\x00"]
    assert decode(texts, *rows) == [[[], [None, "a"]], [], [["b"]]]
    doubles = {"type": "map", "values": "double"}
    rows = [b"\x02\x02k" + struct.pack("<d", 0.5) + b"\x02\x00" + bytes(8) + b"\x00", b"\x00"]
    assert decode(doubles, *rows) == [[("k", 0.5), ("", 0.0)], []]


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 15, 16, 17, 24, 32])
def test_decimals_of_any_size(size: int) -> None:
    numbers = [0, 1, -1, 99, -99, 2 ** (8 * min(size, 15) - 2)]
    fixed = {"type": "fixed", "name": "f", "size": size}
    wide = {"logicalType": "decimal", "precision": 38 if size >= 16 else 2}
    within = [number for number in numbers if wide["precision"] == 38 or abs(number) < 100]
    encoded = [number.to_bytes(size, "big", signed=True) for number in within]
    assert decode({**fixed, **wide}, *encoded) == [Decimal(number) for number in within]
    lengthed = [bytes([2 * size]) + one for one in encoded]
    assert decode({"type": "bytes", **wide}, *lengthed) == [Decimal(number) for number in within]


def test_decimals_of_mixed_sizes() -> None:
    numbers = [10**n * (-1) ** n for n in range(76)]
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 76, "scale": 2}
    rows = []
    for number in numbers:
        size = (number.bit_length() + 8) // 8
        rows.append(bytes([2 * size]) + number.to_bytes(size, "big", signed=True))
    assert decode(kind, *rows) == [Decimal(number).scaleb(-2) for number in numbers]


# -- limits and damage


def test_rows_are_limited() -> None:
    assert len(decode("int", b"\x02", b"\x02", limits=Limits(records_per_block_max=2))) == 2
    with pytest.raises(LimitError, match="records_per_block_max"):
        decode("int", b"\x02", b"\x02", limits=Limits(records_per_block_max=1))


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ({"type": "fixed", "name": "f", "size": 1 << 30}, b"\x00"),
        ({"type": "enum", "name": "e", "symbols": ["A" * (1 << 20)]}, b"\x02\x00"),
        (WIDE, b"\x00"),
        (
            {"type": "array", "items": ["null", WIDE]},
            b"\x02\x80\x10" + b"\0" * 1024 + b"\x00",
        ),
    ],
)
def test_memory_is_limited_where_the_bytes_do_not_limit_it(kind: Any, row: bytes) -> None:
    with pytest.raises(LimitError, match="log_rows_bytes_max"):
        decode(["null", kind], *[row] * 20, limits=Limits(log_rows_bytes_max=100_000))


def damaged(content: bytes, data: st.DataObject) -> bytes:
    copy = bytearray(content)
    for _ in range(data.draw(st.integers(1, 3))):
        copy[data.draw(st.integers(0, len(copy) - 1))] = data.draw(st.integers(0, 255))
    return bytes(copy[: data.draw(st.integers(len(copy) - 3, len(copy)))])


@settings(max_examples=examples(200))
@given(cases(), st.data())
def test_any_bytes_are_rows_or_an_error(case: Case, data: st.DataObject) -> None:
    schema = parse_avro_schema(case.text)
    texts = [field.name for field in arrow_schema(schema) if pa.types.is_string(field.type)]
    key = data.draw(st.none() | st.sampled_from(texts)) if texts else None
    keys = None if key is None else WantedKeys(key, pa.array(["", "a"]))
    rows = st.lists(st.binary(max_size=30), max_size=6).map(lambda rows: framed(*rows))
    flips = st.builds(damaged, st.just(fastavro_block(case)), st.just(data))
    content = data.draw(st.binary(max_size=40) | rows | flips)
    try:
        table = decode_avro_blocks([content], schema, keys=keys)
    except BucketfmtError as error:
        offset = error.offset or 0
    else:
        table.validate(full=True)
        offset = 0
    assert 0 <= offset <= len(content)


def test_every_cut_of_a_block_is_an_error(golden: Golden) -> None:
    block = next(avro_blocks(golden("1.2.0", "ch_init")))
    schema, content = parse_avro_schema(block.schema), bytes(block.content)[:2000]
    for size in range(len(content)):
        with pytest.raises((CorruptError, TruncatedError)):
            decode_avro_blocks([content[:size]], schema)


@pytest.mark.parametrize(
    "row",
    [
        b"\x80\x80\x04" + b"\0" * 0x8000 + b"\0",  # one list of empty texts
        b"\x02\x00" * 0x4000 + b"\0",  # one list of blocks of one
    ],
)
@pytest.mark.parametrize("count", [1, 64])
def test_long_lists(row: bytes, count: int) -> None:
    items = 0x8000 if row[0] == 0x80 else 0x4000
    schema = parse_avro_schema(json.dumps(schema_of({"type": "array", "items": "string"})))
    table = decode_avro_blocks([framed(*[row] * count)], schema)
    assert table.column(0).combine_chunks().flatten().equals(pa.array([""] * items * count))
