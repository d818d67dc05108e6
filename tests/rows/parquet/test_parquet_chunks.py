"""Files put together from columns of others: what readers find in them."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.check.contents.pages import check_pages
from bucketfmt.errors import CorruptError
from bucketfmt.rows.avro.avro_decode import decode_avro_blocks
from bucketfmt.rows.avro.avro_schema import parse_avro_schema
from bucketfmt.rows.avro.avro_schema_json import avro_schema_json
from bucketfmt.rows.parquet.base_file import BaseFileReader
from bucketfmt.rows.parquet.base_file_writer import BaseFileWriter, encode_base_file
from bucketfmt.rows.parquet.key_footer import KeyFooter
from bucketfmt.rows.parquet.parquet_chunks import (
    StoredColumn,
    columns_of,
    decode_layout,
    split_footer,
)
from bucketfmt.rows.parquet.thrift_compact import read_struct
from tests.rows.avro.avro_cases import Case, cases, fastavro_block, rows_of

ROWS = pa.table(
    {
        "_hoodie_record_key": [f"k{i:05}" for i in range(5000)],
        "text": ["red" if i % 3 else "green" for i in range(5000)],
        "number": [i / 7 for i in range(5000)],
        "maybe": [None if i % 2 else i for i in range(5000)],
        "lists": [[i, None] if i % 4 else [] for i in range(5000)],
    }
)
SCHEMA = avro_schema_json(ROWS.schema, "r", "")


def written(
    groups: list[tuple[pa.Table, dict[str, StoredColumn]]], schema: str, **options: Any
) -> pa.Buffer:
    sink = io.BytesIO()
    writer = BaseFileWriter(sink, schema, copying=True, **options)
    for rows, stored in groups:
        writer.write_row_group(rows, stored)
    writer.close()
    return pa.py_buffer(sink.getvalue())


def indexed_pages(data: pa.Buffer) -> list[tuple[list[int], list[int]]]:
    """Of every chunk: where its data pages begin, and where the page index says they do."""
    footer = split_footer(data)
    found = []
    for group in decode_layout(footer, data.size - 8 - len(footer)):
        for chunk in (chunk for chunks in group.chunks.values() for chunk in chunks):
            at, begin = chunk.pages.start, []
            while at < chunk.pages.end:
                header, content = read_struct(data.to_pybytes(), at)
                if header[1] != 2:  # no dictionary
                    begin.append(at)
                at = content + header[3]
            assert chunk.offsets is not None
            index, _ = read_struct(data.to_pybytes()[slice(*chunk.offsets)], 0)
            found.append((begin, [page[1] for page in index[1]]))
    return found


@pytest.mark.parametrize("copied", [{"text"}, {"number", "lists"}, set(ROWS.column_names)], ids=len)
@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "none"])
def test_columns_are_copied_into_a_file_that_reads_as_if_it_were_encoded(
    copied: set[str], codec: Any
) -> None:
    stored = columns_of(encode_base_file(ROWS, SCHEMA, codec=codec))
    kept = {name: stored[name] for name in copied}
    rows = ROWS.slice(0, 4500)
    data = written([(rows, {}), (ROWS, kept), (ROWS, {})], SCHEMA, codec=codec)
    found = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
    assert BaseFileReader(data).read() == pa.concat_tables([rows, ROWS, ROWS])
    groups = [found.metadata.row_group(i) for i in range(3)]
    assert [group.num_rows for group in groups] == [4500, 5000, 5000]
    assert groups[1].to_dict()["total_byte_size"] == groups[2].to_dict()["total_byte_size"]
    for index in range(groups[1].num_columns):
        encoded, taken = groups[2].column(index).to_dict(), groups[1].column(index).to_dict()
        for at in ("data_page_offset", "dictionary_page_offset", "file_offset"):
            encoded.pop(at), taken.pop(at)
        assert taken == encoded
    assert check_pages(pa.BufferReader(data)).pages > 0
    for begin, indexed in indexed_pages(data):
        assert begin == indexed


def test_a_file_by_pyarrow_alone_has_the_same_footer() -> None:
    """But for what tells where it came from, and what the format has no use for."""
    data = encode_base_file(ROWS, SCHEMA, codec="snappy")
    sink = pa.BufferOutputStream()
    writer = pq.ParquetWriter(
        sink,
        BaseFileReader(data).schema,
        compression="snappy",
        use_dictionary=["text", "maybe", "lists.list.element"],
        store_schema=False,
        write_page_index=True,
        write_page_checksum=True,
    )
    writer.write_table(ROWS)
    writer.close()
    ours, theirs = (read_struct(split_footer(file), 0)[0] for file in (data, sink.getvalue()))
    ours.drop(5), ours[4][0].drop(7)  # the entries; which row group it is
    assert ours == theirs
    assert ours.kinds == theirs.kinds
    for mine, other in zip(ours[4][0][1], theirs[4][0][1], strict=True):
        assert (mine.kinds, mine[3].kinds) == (other.kinds, other[3].kinds)


@settings(deadline=None)
@given(cases(), st.data())
def test_any_columns_of_any_schema_are_copied(case: Case, data: st.DataObject) -> None:
    rows = decode_avro_blocks([fastavro_block(case)], parse_avro_schema(case.text))
    if '"size": 20' in case.text:
        return  # no form of parquet's: see test_base_file_writer
    names = data.draw(st.sets(st.sampled_from(rows.column_names)))
    stored = columns_of(encode_base_file(rows, case.text)) if rows.num_rows else {}
    kept = {name: column for name, column in stored.items() if name in names}
    file = written([(rows, kept), (rows, {})], case.text)
    assert rows_of(BaseFileReader(file).read()) == rows_of(pa.concat_tables([rows, rows]))
    for begin, indexed in indexed_pages(file):
        assert begin == indexed


TWINS = pa.table(
    {
        "_hoodie_record_key": [f"k{i:05}" for i in range(5000)],
        "other": [f"o{i:05}" for i in range(5000)],
        "id": [f"k{i:05}" for i in range(5000)],
        "n": range(5000),
    }
)
CHANGED = TWINS.set_column(2, "id", [[*TWINS["id"].to_pylist()[:-1], None]])


def pages_of(data: pa.Buffer, name: str, group: int = 0) -> bytes:
    footer = split_footer(data)
    (chunk,) = decode_layout(footer, data.size - 8 - len(footer))[group].chunks[name]
    return data.to_pybytes()[slice(*chunk.pages)]


@pytest.mark.parametrize(
    ("second", "is_alike"),
    [(TWINS, True), (TWINS[:4095], True), (CHANGED, False)],
    ids=["keys again", "few rows", "another value"],
)
def test_the_field_that_is_the_key_has_the_pages_of_the_key(
    second: pa.Table, is_alike: bool
) -> None:
    sink, schema = io.BytesIO(), avro_schema_json(TWINS.schema, "r", "")
    writer = BaseFileWriter(sink, schema, KeyFooter())
    for rows in (TWINS, second):
        writer.write_row_group(rows, {})
    writer.close()
    data = pa.py_buffer(sink.getvalue())
    assert pq.read_table(pa.BufferReader(data)).equals(pa.concat_tables([TWINS, second]))
    counts = check_pages(pa.BufferReader(data))
    assert counts.with_checksum == counts.pages > 0
    assert pages_of(data, "id") == pages_of(data, "_hoodie_record_key") != pages_of(data, "other")
    assert (pages_of(data, "id", 1) == pages_of(data, "_hoodie_record_key", 1)) is is_alike
    for begin, stated in indexed_pages(data):
        assert begin == stated
    groups = pq.ParquetFile(pa.BufferReader(data)).metadata
    column = groups.row_group(0).column(2)
    assert (column.path_in_schema, column.statistics.min) == ("id", "k00000")


def test_a_field_that_is_never_null_has_pages_of_its_own() -> None:
    schema = pa.schema([*list(TWINS.schema)[:2], pa.field("id", pa.string(), nullable=False)])
    rows = TWINS.drop_columns(["n"]).cast(schema)
    data = encode_base_file(rows, avro_schema_json(schema, "r", ""))
    assert pq.read_table(pa.BufferReader(data)).cast(schema).equals(rows)
    assert pages_of(data, "id") != pages_of(data, "_hoodie_record_key")


def test_stored_keys_serve_the_field_that_is_the_key() -> None:
    schema = avro_schema_json(TWINS.schema, "r", "")
    stored = columns_of(encode_base_file(TWINS, schema))
    data = written([(TWINS, {"_hoodie_record_key": stored["_hoodie_record_key"]})], schema)
    assert pq.read_table(pa.BufferReader(data)).equals(TWINS)
    assert pages_of(data, "id") == pages_of(data, "_hoodie_record_key")


def test_what_is_stored_in_another_form_is_encoded() -> None:
    narrow = ROWS.set_column(2, "number", ROWS["number"].cast(pa.float32()))
    other_type = columns_of(encode_base_file(narrow, avro_schema_json(narrow.schema, "r", "")))
    other_codec = columns_of(encode_base_file(ROWS, SCHEMA, codec="gzip"))
    stored = {"number": other_type["number"], "text": other_codec["text"]}
    data = written([(ROWS, stored)], SCHEMA)
    assert BaseFileReader(data).read() == ROWS
    assert data == written([(ROWS, {})], SCHEMA)


def test_keys_of_a_row_group_are_in_the_footer() -> None:
    stored = columns_of(encode_base_file(ROWS, SCHEMA))
    data = written([(ROWS, stored)], SCHEMA, key_footer=KeyFooter())
    assert data == written([(ROWS, {})], SCHEMA, key_footer=KeyFooter())
    alone = BaseFileReader(encode_base_file(ROWS, SCHEMA, KeyFooter()))
    assert BaseFileReader(data).key_values == alone.key_values


def test_a_row_group_is_read_with_what_is_stored() -> None:
    data = encode_base_file(ROWS, SCHEMA, row_group_bytes=ROWS.nbytes // 3)
    reader = BaseFileReader(data)
    pieces = [reader.read_stored(["lists", "text"], n) for n in range(len(reader.row_groups))]
    assert len(pieces) > 1
    rows = pa.concat_tables([rows for rows, _ in pieces])
    assert rows.select(["text", "lists"]) == ROWS.select(["text", "lists"])
    whole = pa.concat_tables([reader.read(row_groups=[n]) for n in range(len(pieces))])
    groups = [reader.read(row_groups=[n]) for n in range(len(pieces))]
    again = written([(rows, piece[1]) for rows, piece in zip(groups, pieces, strict=True)], SCHEMA)
    assert BaseFileReader(again).read() == whole
    assert again == written([(rows, {}) for rows in groups], SCHEMA)


@pytest.mark.parametrize(("rows", "is_alike"), [(TWINS, True), (CHANGED, False)])
def test_a_field_with_the_pages_of_the_keys_is_not_decoded_twice(
    rows: pa.Table, is_alike: bool
) -> None:
    reader = BaseFileReader(encode_base_file(rows, avro_schema_json(rows.schema, "r", "")))
    read, stored = reader.read_stored(["n", "id", "_hoodie_record_key", "other"], 0)
    assert read.select(rows.column_names) == rows
    keys, ids = (read[name].chunk(0).buffers()[2] for name in ("_hoodie_record_key", "id"))
    assert (keys.address == ids.address) is is_alike
    assert set(stored) == set(rows.column_names)
    assert reader.read_stored(["id"], 0)[0] == rows.select(["id"])


def test_what_is_written_is_not_held() -> None:
    class Nowhere(io.RawIOBase):
        def write(self, data: Any) -> int:
            return len(data)

    reader = BaseFileReader(encode_base_file(ROWS, SCHEMA))
    writer = BaseFileWriter(Nowhere(), SCHEMA, copying=True)
    held = []
    for _ in range(8):
        rows, stored = reader.read_stored(ROWS.column_names, 0)
        writer.write_row_group(rows, {"text": stored["text"]})
        del rows, stored
        held.append(pa.total_allocated_bytes())
    assert held[-1] == held[1]
    writer.close()


# ---------------------------------------------------------------------------- nothing on trust

FILE = encode_base_file(ROWS.slice(0, 20), SCHEMA)
FOOTER = split_footer(FILE)
END = FILE.size - 8 - len(FOOTER)


@given(st.integers(0, len(FOOTER) - 1), st.integers(0, 255))
def test_a_damaged_footer_points_nowhere_else(position: int, byte: int) -> None:
    damaged = FOOTER[:position] + bytes([byte]) + FOOTER[position + 1 :]
    try:
        groups = decode_layout(damaged, END)
    except CorruptError:
        return
    for group in groups:
        for chunk in (chunk for chunks in group.chunks.values() for chunk in chunks):
            for span in filter(None, (chunk.pages, chunk.bounds, chunk.offsets)):
                assert 0 <= span.start <= span.end <= END


def test_a_page_index_outside_of_the_file_is_none() -> None:
    (group,) = decode_layout(FOOTER, END)
    assert group.page_index.end == END
    (group,) = decode_layout(FOOTER, group.page_index.start)
    assert [c[2:] for chunks in group.chunks.values() for c in chunks] == [(None, None)] * 5
    with pytest.raises(CorruptError, match="not within the file"):
        decode_layout(FOOTER, group.pages.end - 1)


def test_a_damaged_page_index_is_left_out() -> None:
    data = bytearray(FILE)
    (group,) = decode_layout(FOOTER, END)
    data[group.page_index.start : group.page_index.end] = b"\xff" * (END - group.page_index.start)
    stored = columns_of(pa.py_buffer(bytes(data)))
    again = written([(ROWS.slice(0, 20), stored)], SCHEMA)
    assert BaseFileReader(again).read() == ROWS.slice(0, 20)
    column = pq.ParquetFile(pa.BufferReader(again)).metadata.row_group(0).column(0)
    assert not column.has_offset_index
