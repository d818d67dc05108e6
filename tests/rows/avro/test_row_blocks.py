"""Rows in HFiles of a log: the rows of an Avro block in another envelope."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, LimitError
from bucketfmt.format.hfile.entry_kernels import EntryColumns
from bucketfmt.format.hfile.writer import encode_hfile
from bucketfmt.format.log.log_block import BlockType, HeaderKey, LogBlock, encode_log_block
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.limits import Limits
from bucketfmt.rows.avro.avro_encode import encode_avro_block
from bucketfmt.rows.avro.avro_frames import find_frames
from bucketfmt.rows.avro.avro_schema import parse_avro_schema
from bucketfmt.rows.avro.row_blocks import count_avro_rows, decode_row_blocks

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "row",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "key", "type": ["null", "string"], "default": None},
            {"name": "qty", "type": ["null", "long"], "default": None},
        ],
    }
)
RECORD = parse_avro_schema(SCHEMA)
LIMITS = Limits()


def hfile_block(rows: pa.Table, record_keys: list[str], block_bytes: int = 1 << 20) -> LogBlock:
    """Return a log block as Hudi makes one of rows: in the order of their keys."""
    content = encode_avro_block(rows, RECORD)
    frames = find_frames(np.frombuffer(content, np.uint8), LIMITS).tolist()
    values = [content[a + 4 : b] for a, b in pairwise(frames)]
    entries = sorted(zip((key.encode() for key in record_keys), values, strict=True))
    data = encode_hfile(EntryColumns.of(entries), {}, created_ms=1, block_bytes=block_bytes)
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: "20260101000000000", HeaderKey.SCHEMA: SCHEMA}
    (block,) = decode_log_file(encode_log_block(BlockType.HFILE_DATA, header, data))
    assert isinstance(block, LogBlock)
    return block


rows_by_key = st.dictionaries(
    st.text(min_size=1, max_size=5),
    st.tuples(st.none() | st.just("") | st.just("own"), st.none() | st.integers(-5, 5)),
    max_size=60,
)


@given(st.lists(rows_by_key, min_size=1, max_size=3), st.sampled_from([1, 60, 1 << 20]))
def test_rows_of_hfiles(written: list[dict[str, tuple[str | None, int | None]]], size: int) -> None:
    """A column `key` that is empty is the key of the row, since Hudi leaves the column out."""
    blocks, expected = [], []
    for members in written:
        rows = [{"id": f"id {k}", "key": key, "qty": qty} for k, (key, qty) in members.items()]
        table = pa.Table.from_pylist(rows, schema=decode_row_blocks([], RECORD).schema)
        blocks.append(hfile_block(table, list(members), size))
        for record_key in sorted(members, key=str.encode):
            key, qty = members[record_key]
            expected.append((f"id {record_key}", record_key if key == "" else key, qty))
    read = decode_row_blocks(blocks, RECORD)
    assert list(zip(*(column.to_pylist() for column in read.columns), strict=True)) == expected
    assert decode_row_blocks(blocks, RECORD, columns=["qty"]).column("qty") == read.column("qty")
    assert [count_avro_rows(block, LIMITS) for block in blocks] == [len(own) for own in written]


def test_bad_hfiles_of_rows() -> None:
    table = pa.table({"id": ["a", "b"], "key": ["", ""], "qty": [1, 2]})
    block = hfile_block(table, ["a", "b"])
    with pytest.raises(LimitError, match="log_rows_bytes_max"):
        decode_row_blocks([block], RECORD, Limits(log_rows_bytes_max=10))
    other = parse_avro_schema(SCHEMA.replace('"long"', '"boolean"'))
    with pytest.raises(CorruptError, match="qty"):
        decode_row_blocks([block], other)


@given(st.data())
def test_damaged_hfiles_of_rows(data: st.DataObject) -> None:
    block = hfile_block(pa.table({"id": ["a", "b"], "key": ["", ""], "qty": [1, 2]}), ["a", "b"])
    content = bytearray(block.content)
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: "1", HeaderKey.SCHEMA: SCHEMA}
    (damaged,) = decode_log_file(encode_log_block(BlockType.HFILE_DATA, header, bytes(content)))
    assert isinstance(damaged, LogBlock)
    try:
        read = decode_row_blocks([damaged], RECORD)
    except BucketfmtError:
        return
    assert read == decode_row_blocks([block], RECORD)
