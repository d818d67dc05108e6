"""Base files written: what our reader, pyarrow and the golden files of Hudi say of them."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import SchemaError, UnsupportedError
from bucketfmt.format.keys.bloom import (
    BloomFilterBuilder,
    decode_bloom_filter,
    encode_bloom_filter,
)
from bucketfmt.rows.avro.avro_decode import decode_avro_blocks
from bucketfmt.rows.avro.avro_schema import arrow_schema, parse_avro_schema
from bucketfmt.rows.avro.avro_schema_json import avro_schema_json
from bucketfmt.rows.parquet.base_file import BaseFileReader
from bucketfmt.rows.parquet.base_file_writer import BaseFileWriter, encode_base_file
from bucketfmt.rows.parquet.key_footer import KeyFooter
from tests.golden import GOLDEN
from tests.rows.avro.avro_cases import Case, cases, fastavro_block, rows_of
from tests.same_rows import assert_same

KEYED = avro_schema_json(
    pa.schema([("_hoodie_record_key", pa.string()), ("n", pa.int64())]), "r", ""
)


def keyed(keys: list[str | None]) -> pa.Table:
    return pa.table({"_hoodie_record_key": pa.array(keys, pa.string()), "n": range(len(keys))})


def read_back(data: pa.Buffer) -> pa.Table:
    return BaseFileReader(data).read()


# ---------------------------------------------------------------------------- rows


@settings(deadline=None)
@given(cases(), st.integers(1, 4000))
def test_rows_are_read_back(case: Case, row_group_bytes: int) -> None:
    rows = decode_avro_blocks([fastavro_block(case)], parse_avro_schema(case.text))
    if '"size": 20' in case.text:
        with pytest.raises(UnsupportedError, match="30 digits in 20 bytes instead of 13"):
            encode_base_file(rows, case.text)
        return
    data = encode_base_file(rows, case.text, row_group_bytes=row_group_bytes)
    reader = BaseFileReader(data)
    assert reader.avro_schema == case.text
    found = reader.read()
    assert rows_of(found) == rows_of(rows)
    for field in rows.schema:
        assert not field.nullable or found.schema.field(field.name).nullable


TYPES = [
    pa.bool_(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ms", "UTC"),
    pa.timestamp("us"),
    pa.timestamp("ms"),
    pa.time64("us"),
    pa.time32("ms"),
    pa.decimal128(5, 2),
    pa.decimal128(38, 10),
    pa.binary(5),
    pa.list_(pa.int64()),
    pa.map_(pa.string(), pa.float64()),
    pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.string())])))]),
]


@pytest.mark.rotated(1)
@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "none"])
def test_every_type_keeps_its_type(kind: pa.DataType, codec: Any) -> None:
    rows = pa.table({"f": pa.nulls(5000, kind)})
    found = read_back(encode_base_file(rows, avro_schema_json(rows.schema, "r", ""), codec=codec))
    assert_same(found, rows)


@pytest.mark.parametrize("constants", [{}, {"c": "x"}, {"a": None, "c": "x"}])
def test_metadata_of_rows_is_left_out(constants: dict[str, str | None]) -> None:
    whole = pa.schema([("a", pa.string()), ("n", pa.int64()), ("c", pa.string())])
    schema = avro_schema_json(whole, "r", "")
    plain = pa.table({"a": ["1"], "n": [2], "c": ["x"]}, whole).drop_columns(list(constants))
    marked = pa.schema(
        [field.with_metadata({"PARQUET:field_id": "7"}) for field in plain.schema], {"k": "v"}
    )
    data = encode_base_file(plain.cast(marked), schema, constants=constants)
    assert data == encode_base_file(plain, schema, constants=constants)
    assert read_back(data).to_pylist() == [{"a": "1", "n": 2, "c": "x"} | constants]


def test_columns_go_by_name_and_are_cast_where_nothing_is_lost() -> None:
    schema = pa.schema([("s", pa.string()), ("n", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
    rows = pa.table(
        {
            "t": pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("ms", "UTC")),
            "n": pa.array([1], pa.int8()),
            "s": pa.array(["a"]).dictionary_encode(),
        }
    )
    data = encode_base_file(rows, avro_schema_json(schema, "r", ""))
    expected = pa.table({"s": ["a"], "n": [1], "t": rows["t"].cast(schema.field("t").type)})
    assert read_back(data) == expected


def test_dictionaries_stay_while_they_are_short() -> None:
    schema = avro_schema_json(pa.schema([("s", pa.string())]), "r", "")
    numbers = pa.array([1, 0, None, 1], pa.int32())
    for texts in (["old", "a"], [f"old {n}" for n in range(300)]):
        column = pa.DictionaryArray.from_arrays(numbers, texts)
        data = encode_base_file(pa.table({"s": column}), schema)
        assert read_back(data).column("s").to_pylist() == column.to_pylist()
        stored = pq.ParquetFile(data, read_dictionary=["s"]).read().column("s")
        assert len(stored.chunk(0).dictionary) == 2


def test_pieces_with_and_without_dictionaries_are_one_row_group() -> None:
    schema = avro_schema_json(pa.schema([("s", pa.string())]), "r", "")
    columns = [
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array(["b", "c"]).dictionary_encode(),
        pa.array(["d", None]),
        pa.array([f"t{n}" for n in range(300)]).dictionary_encode(),
    ]
    expected = [text for column in columns for text in column.to_pylist()]
    for chosen in (columns, columns[:2]):
        sink = io.BytesIO()
        writer = BaseFileWriter(sink, schema)
        for column in chosen:
            writer.write(pa.table({"s": column}))
        writer.close()
        reader = BaseFileReader(pa.py_buffer(sink.getvalue()))
        found = reader.read().column("s").to_pylist()
        assert found == expected[: len(found)]
        assert len(found) == sum(map(len, chosen))
        assert reader.num_row_groups == 1


def test_rows_come_in_pieces_and_row_groups_have_their_size() -> None:
    sink = io.BytesIO()
    writer = BaseFileWriter(sink, KEYED, KeyFooter(), row_group_bytes=600)
    for start in range(0, 100, 7):
        writer.write(keyed([f"k{i:03}" for i in range(start, min(start + 7, 100))]))
    writer.close()
    assert writer.num_rows == 100
    reader = BaseFileReader(pa.py_buffer(sink.getvalue()))
    groups = [reader.metadata.row_group(i) for i in range(reader.metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [37, 37, 26]
    assert reader.read()["_hoodie_record_key"].to_pylist() == [f"k{i:03}" for i in range(100)]


@pytest.mark.parametrize(("num_rows", "sizes"), [(125, [125]), (126, [100, 26]), (220, [100, 120])])
def test_a_row_group_takes_a_quarter_more_rather_than_leave_few_rows(
    num_rows: int, sizes: list[int]
) -> None:
    keys = [f"k{i:03}" for i in range(num_rows)]
    size = keyed(keys).nbytes * 100 // num_rows
    data = encode_base_file(keyed(keys), KEYED, KeyFooter(), row_group_bytes=size)
    reader = BaseFileReader(data)
    groups = [reader.metadata.row_group(i) for i in range(reader.metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == sizes
    assert reader.read()["_hoodie_record_key"].to_pylist() == keys


def test_pieces_of_most_of_a_row_group_are_divided() -> None:
    """Two of them would make a row group that is larger than is held in memory."""
    pieces = [keyed([f"k{i:03}" for i in range(start, start + 30)]) for start in range(0, 120, 30)]
    sink = io.BytesIO()
    writer = BaseFileWriter(sink, KEYED, KeyFooter(), row_group_bytes=pieces[0].nbytes * 4 // 3)
    for piece in pieces:
        writer.write(piece)
    writer.close()
    reader = BaseFileReader(pa.py_buffer(sink.getvalue()))
    groups = [reader.metadata.row_group(i) for i in range(reader.metadata.num_row_groups)]
    assert sum(group.num_rows for group in groups) == 120
    assert all(35 <= group.num_rows <= 45 for group in groups[:-1])
    assert reader.read()["_hoodie_record_key"].to_pylist() == [f"k{i:03}" for i in range(120)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (pa.table({"n": [1]}), "differ from the schema to write in the columns"),
        (keyed(["a"]).append_column("m", [[1]]), r"columns \['m'\]"),
        (pa.table({"_hoodie_record_key": ["a"], "n": ["x"]}), "n"),
        (pa.table({"_hoodie_record_key": ["a"], "n": [1.5]}), "truncated"),
    ],
)
def test_rows_that_do_not_fit(rows: pa.Table, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        encode_base_file(rows, KEYED)


def test_a_null_where_none_may_be() -> None:
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]})
    with pytest.raises(SchemaError, match="column n: null"):
        encode_base_file(pa.table({"n": [1, None]}), schema)
    inner = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "l", "type": {"type": "array", "items": "long"}}],
    }
    with pytest.raises(SchemaError, match=r"column l.element: null"):
        encode_base_file(pa.table({"l": [[1, None]]}), json.dumps(inner))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("null", "type null"),
        ({"type": "record", "name": "e", "fields": []}, "struct without fields"),
        (
            {"type": "array", "items": ["null", {"type": "record", "name": "e", "fields": []}]},
            "f.element",
        ),
        (
            {"type": "map", "values": ["null", {"type": "record", "name": "e", "fields": []}]},
            "f.value",
        ),
        (
            {
                "type": "fixed",
                "name": "x",
                "size": 16,
                "logicalType": "decimal",
                "precision": 5,
                "scale": 2,
            },
            "16 bytes instead of 3",
        ),
    ],
)
def test_types_without_a_form(kind: Any, message: str) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "f", "type": kind}]}
    with pytest.raises(UnsupportedError, match=message):
        BaseFileWriter(io.BytesIO(), json.dumps(schema))


# ---------------------------------------------------------------------------- footer


def test_footer_entries() -> None:
    reader = BaseFileReader(encode_base_file(keyed(["b", "a", "c"]), KEYED, KeyFooter()))
    assert sorted(reader.key_values) == [
        "hoodie_bloom_filter_type_code",
        "hoodie_max_record_key",
        "hoodie_min_record_key",
        "org.apache.hudi.bloomfilter",
        "parquet.avro.schema",
        "writer.model.name",
    ]
    assert reader.keys.key_range == ("a", "c")
    assert reader.key_values["hoodie_bloom_filter_type_code"] == "DYNAMIC_V0"
    assert reader.key_values["writer.model.name"] == "avro"
    assert reader.avro_schema == KEYED
    assert reader.keys.may_hold(pa.array(["a", "b", "bb", "z"])).tolist() == [1, 1, 0, 0]


def test_a_file_without_rows_has_a_small_filter_and_no_range() -> None:
    reader = BaseFileReader(encode_base_file(keyed([]), KEYED, KeyFooter()))
    assert (reader.num_rows, reader.keys.key_range) == (0, None)
    assert reader.keys.bloom_filter == BloomFilterBuilder(num_entries=64).build()


@pytest.mark.parametrize(
    ("pieces", "size"),
    [([64], 64), ([40, 25], 128), ([59_000, 1000], 60_000), ([59_999, 2], 60_000)],
)
def test_a_filter_is_as_large_as_the_keys_need_and_no_larger_than_hudis(
    pieces: list[int], size: int
) -> None:
    keys = pa.array([f"k{number}" for number in range(sum(pieces))])
    footer, wanted, start = KeyFooter(), BloomFilterBuilder(num_entries=size), 0
    for count in pieces:
        footer.add(pa.table({"k": keys.slice(start, count)})["k"])
        start += count
    wanted.add(keys)
    assert footer.entries["org.apache.hudi.bloomfilter"] == encode_bloom_filter(wanted.build())


@pytest.mark.parametrize("count", [100, 70_000])
def test_a_filter_that_is_asked_by_nobody_is_less_exact(count: int) -> None:
    footer, keys = KeyFooter(rate=1e-3), pa.array([f"k{number}" for number in range(count)])
    footer.add(keys)
    reader = BaseFileReader(encode_base_file(keyed(["k1"]), KEYED, footer))
    found = reader.keys.bloom_filter
    assert found is not None
    assert (found.num_hashes, found.keys_per_row) == (10, 128 if count == 100 else 60_000)
    assert found.might_contain_many(keys).all()
    foreign = pa.array([f"f{number}" for number in range(20_000)])
    assert found.might_contain_many(foreign).mean() < 4e-3  # of two rows of 60,000
    resumed = KeyFooter.resume(reader, 1)
    assert resumed is not None
    resumed.add(foreign[:1])
    grown = decode_bloom_filter(resumed.entries["org.apache.hudi.bloomfilter"], "DYNAMIC_V0")
    assert (grown.num_hashes, grown.might_contain("f0")) == (10, True)


def test_virtual_keys_leave_no_key_footer() -> None:
    reader = BaseFileReader(encode_base_file(keyed([None, None]), KEYED))
    assert sorted(reader.key_values) == ["parquet.avro.schema", "writer.model.name"]


@pytest.mark.parametrize("key", [None, ""])
def test_no_row_without_key(key: str | None) -> None:
    with pytest.raises(ValueError, match="null or empty"):
        encode_base_file(keyed(["a", key]), KEYED, KeyFooter())


@pytest.mark.rule("BLOOM-11")
def test_key_range_is_in_java_order() -> None:
    keys = ["\ufffd", "😀", "z"]
    reader = BaseFileReader(encode_base_file(keyed(keys), KEYED, KeyFooter()))
    assert reader.keys.key_range == ("z", "\ufffd")  # U+1F600 is D83D DE00 in UTF-16
    pieces = KeyFooter()
    for key in keys:
        pieces.add(pa.array([key]))
    assert pieces.entries == {key: reader.key_values[key] for key in pieces.entries}


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_key_range_of_any_text(keys: list[str]) -> None:
    footer = KeyFooter(BloomFilterBuilder(num_entries=1).build())
    footer.add(pa.array(keys))
    ordered = sorted(keys, key=lambda text: text.encode("utf-16-be"))
    found = footer.entries
    assert (found["hoodie_min_record_key"], found["hoodie_max_record_key"]) == (
        ordered[0],
        ordered[-1],
    )


def test_the_footer_of_a_file_that_is_replaced_goes_on() -> None:
    old = BaseFileReader(encode_base_file(keyed(["c", "m"]), KEYED, KeyFooter()))
    assert KeyFooter.resume(old, 63) is None  # the filter has room for 64 keys
    footer = KeyFooter.resume(old, 62)
    assert footer is not None
    sink = io.BytesIO()
    writer = BaseFileWriter(sink, KEYED, footer)
    writer.write(keyed(["c", "m"]), are_keys_new=False)
    writer.write(keyed(["a", "x"]))
    writer.close()
    whole = encode_base_file(keyed(["c", "m", "a", "x"]), KEYED, KeyFooter())
    new = BaseFileReader(pa.py_buffer(sink.getvalue()))
    assert new.key_values == BaseFileReader(whole).key_values
    assert new.keys.key_range == ("a", "x")


def test_a_filter_of_hudis_size_grows() -> None:
    footer, keys = (
        KeyFooter(BloomFilterBuilder().build()),
        pa.array([f"k{n}" for n in range(60_000)]),
    )
    footer.add(keys)
    sink = io.BytesIO()
    writer = BaseFileWriter(sink, KEYED, footer)
    writer.write(keyed(keys.to_pylist()), are_keys_new=False)
    writer.close()
    resumed = KeyFooter.resume(BaseFileReader(pa.py_buffer(sink.getvalue())), 1)
    assert resumed is not None
    resumed.add(pa.array(["x"]))
    found = decode_bloom_filter(resumed.entries["org.apache.hudi.bloomfilter"], "DYNAMIC_V0")
    assert (len(found.rows), found.keys_per_row, found.keys_in_last_row) == (2, 60_000, 1)


def test_a_footer_without_keys_or_with_a_damaged_filter_is_not_gone_on_with() -> None:
    assert KeyFooter.resume(BaseFileReader(encode_base_file(keyed(["a"]), KEYED)), 0) is None
    sink = pa.BufferOutputStream()
    rows = keyed(["a"])
    with pq.ParquetWriter(sink, rows.schema) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(
            {
                "org.apache.hudi.bloomfilter": "AAAA",
                "hoodie_bloom_filter_type_code": "DYNAMIC_V0",
                "hoodie_min_record_key": "a",
                "hoodie_max_record_key": "a",
            }
        )
    assert KeyFooter.resume(BaseFileReader(sink.getvalue()), 0) is None


# ---------------------------------------------------------------------------- the parquet file


@pytest.mark.parametrize("value", ["x", "", "\U0001f600", None])
def test_a_constant_is_as_if_every_row_had_it(value: str | None) -> None:
    text = json.dumps(
        {
            "type": "record",
            "name": "r",
            "fields": [
                {"name": "n", "type": "long"},
                {"name": "s", "type": ["null", "string"]},
                {"name": "z", "type": ["null", "string"]},
            ],
        }
    )
    rows = pa.table({"n": range(1000), "z": [str(i) for i in range(1000)]})
    whole = rows.add_column(1, "s", pa.array([value] * 1000, pa.string()))
    data = encode_base_file(rows, text, row_group_bytes=4000, constants={"s": value})
    found = pq.ParquetFile(pa.BufferReader(data))
    assert found.metadata.num_row_groups > 1
    assert read_back(data) == read_back(encode_base_file(whole, text)).combine_chunks()
    plain = pq.ParquetFile(pa.BufferReader(encode_base_file(whole, text)))
    assert found.schema.equals(plain.schema)
    statistics = found.metadata.row_group(0).column(1).statistics
    assert (statistics.min, statistics.max) == (value, value) or value is None
    assert statistics.null_count == (
        0 if value is not None else found.metadata.row_group(0).num_rows
    )


def test_pages_have_checksums_an_index_and_no_arrow_schema() -> None:
    data = encode_base_file(keyed([f"k{i}" for i in range(50)]), KEYED, KeyFooter())
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    assert b"ARROW:schema" not in metadata.metadata
    column = metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"
    assert (column.has_column_index, column.has_offset_index) == (True, True)
    damaged = bytearray(data)
    damaged[column.data_page_offset + column.total_compressed_size - 3] ^= 1
    with pytest.raises(OSError, match=r"CRC|checksum"):
        pq.ParquetFile(
            pa.BufferReader(bytes(damaged)), page_checksum_verification=True
        ).read_row_group(0)


def test_columns_whose_values_recur_have_dictionaries() -> None:
    numbers = range(10_000)
    rows = pa.table(
        {
            "_hoodie_record_key": [f"k{i}" for i in numbers],
            "distinct": [f"value {i}" for i in numbers],
            "twice": [i // 2 for i in numbers],
            "later": [max(i, 5_000) for i in numbers],
            "one_in_two": [None if i % 2 else i / 2 for i in numbers],
            "lists": [[i] for i in numbers],
        }
    )

    def with_dictionary(rows: pa.Table) -> dict[str, bool]:
        data = encode_base_file(rows, avro_schema_json(rows.schema, "r", ""))
        assert read_back(data).equals(rows)
        metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
        columns = [metadata.row_group(0).column(i) for i in range(metadata.num_columns)]
        return {column.path_in_schema: "RLE_DICTIONARY" in column.encodings for column in columns}

    choices = {
        "_hoodie_record_key": False,
        "distinct": False,
        "twice": True,
        "later": True,
        "one_in_two": True,
        "lists.list.element": True,
    }
    assert with_dictionary(rows) == choices
    assert with_dictionary(rows.slice(0, 4095)) == {**choices, "distinct": True}  # too few to tell


def leaves_of(file: pq.ParquetFile) -> dict[str, tuple[str, str]]:
    """Physical and logical type of each leaf, by path; without the names lists have inside."""
    found = {}
    for number in range(file.metadata.num_columns):
        column = file.schema.column(number)
        path = column.path.replace(".list.element", ".array")
        logical = json.loads(column.logical_type.to_json())
        found[path] = (
            column.physical_type,
            column.length,
            column.max_definition_level if ".array" not in path else None,
            {k: v for k, v in logical.items() if not k.startswith(("is_from", "force"))},
        )
    return found


def base_files(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*.parquet")
        if ".hoodie" not in path.relative_to(folder).parts
    )


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(("version", "name"), GOLDEN)
def test_a_file_of_hudi_written_again(
    golden: Callable[[str, str], Path], version: str, name: str
) -> None:
    """Same rows, same footer entries (the filter bit by bit), same types of every column."""
    for path in base_files(golden(version, name))[:2]:
        hudis = BaseFileReader(pa.memory_map(str(path)))
        if hudis.avro_schema is None:  # by Spark's row writer, which records Spark's schema
            continue
        rows = hudis.read()
        wanted = arrow_schema(parse_avro_schema(hudis.avro_schema))
        keys = rows["_hoodie_record_key"]
        footer = None
        if hudis.keys.bloom_filter is not None:  # `clustered` and others have small ones
            size = hudis.keys.bloom_filter.keys_per_row or 0
            footer = KeyFooter(BloomFilterBuilder(num_entries=size).build())
        data = encode_base_file(rows, hudis.avro_schema, footer)
        ours = BaseFileReader(data)
        assert_same(ours.read(), rows)
        assert ours.schema == wanted
        assert leaves_of(pq.ParquetFile(pa.BufferReader(data))) == leaves_of(pq.ParquetFile(path))
        known = {key: value for key, value in hudis.key_values.items() if "bloom" not in key}
        assert {key: value for key, value in ours.key_values.items() if "bloom" not in key} == known
        if footer is not None:
            assert ours.keys.may_hold(keys.combine_chunks()).all()
            assert ours.key_values == hudis.key_values


def test_decimals_take_as_few_bytes_as_in_hudis_files() -> None:
    for digits in range(1, 39):
        rows = pa.table({"d": pa.array([Decimal(7)], pa.decimal128(digits, 0))})
        data = encode_base_file(rows, avro_schema_json(rows.schema, "r", ""))
        column = pq.ParquetFile(pa.BufferReader(data)).schema.column(0)
        assert column.physical_type == "FIXED_LEN_BYTE_ARRAY"
        assert 2 ** (8 * column.length - 1) > 10**digits - 1 >= 2 ** (8 * (column.length - 1) - 1)
        assert read_back(data)["d"].to_pylist() == [Decimal(7)]
