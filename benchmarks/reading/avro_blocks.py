"""Rows out of Avro log blocks, one core: all at once here, one by one in fastavro."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.compute as pc

import bucketfmt as bf
from benchmarks.measure import Peer, Result, race
from bucketfmt.format.log.log_block import BlockType, LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.rows.avro.avro_decode import decode_avro_blocks
from bucketfmt.rows.avro.avro_schema import parse_avro_schema

__all__ = ["measure_avro_blocks"]

_REPETITIONS = 7
_KEY = "_hoodie_record_key"


def measure_avro_blocks(data: Path) -> list[Result]:
    """Decode the data blocks of one log file of 125,000 rows."""
    log_file = min((data / "log_only").glob(".0*.log.*"))
    blocks = [
        span
        for span in decode_log_file(log_file.read_bytes(), bf.Limits())
        if isinstance(span, LogBlock) and span.block_type is BlockType.AVRO_DATA
    ]
    contents, text = [block.content for block in blocks], blocks[0].schema
    ours, theirs = parse_avro_schema(text), fastavro.parse_schema(json.loads(text))

    def decode() -> pa.Table:
        return decode_avro_blocks(contents, ours)

    def decode_with_fastavro() -> pa.Table:
        rows = [row for content in contents for row in _read_block(bytes(content), theirs)]
        return pa.Table.from_pylist(rows)

    rows = decode().num_rows / 1e6
    timings = race(
        [
            Peer("bucketfmt", decode),
            Peer("fastavro, row by row, then to Arrow", decode_with_fastavro),
        ],
        _REPETITIONS,
        lambda table: (table.num_rows, pc.sum(pc.binary_length(table.column(_KEY))).as_py()),
    )
    note = f"{sum(map(len, contents)) / 1e6:.0f} MB, one log file of 16."
    return [Result("Avro log blocks to Arrow, all 11 columns", timings, [], rows, "M rows", [note])]


def _read_block(content: bytes, schema: object) -> list[dict[str, object]]:
    """Return the rows of a block: version, count, then each row behind its length."""
    stream = io.BytesIO(content)
    _, count = struct.unpack(">ii", stream.read(8))
    rows = []
    for _ in range(count):
        stream.seek(4, io.SEEK_CUR)
        rows.append(fastavro.schemaless_reader(stream, schema))
    return rows
