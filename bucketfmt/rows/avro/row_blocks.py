"""Rows of log blocks in Avro: of data blocks and of HFiles, whose values are rows.

Pure: no I/O. Source: HoodieAvroDataBlock, HoodieHFileDataBlock, HFileUtils.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.format.hfile.reader import HFile
from bucketfmt.format.log.log_block import BlockType, LogBlock
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.rows.avro.avro_decode import WantedKeys, decode_avro_blocks
from bucketfmt.rows.avro.avro_types import AvroRecord

__all__ = ["AVRO_ROW_BLOCKS", "count_avro_rows", "decode_row_blocks"]

AVRO_ROW_BLOCKS = frozenset({BlockType.AVRO_DATA, BlockType.HFILE_DATA})
"""The log blocks whose rows are Avro of the schema in their header."""

_KEY = "key"  # the column that Hudi leaves empty in an HFile, whatever it means to the table
_COUNT = slice(4, 8)
_VERSION = 3
_BYTES = pa.large_binary()


def decode_row_blocks(
    blocks: Sequence[LogBlock],
    schema: AvroRecord,
    limits: Limits = DEFAULT_LIMITS,
    columns: Sequence[str] | None = None,
    keys: WantedKeys | None = None,
) -> pa.Table:
    """Return the rows of all blocks, in order.

    Args:
        blocks: Of `AVRO_ROW_BLOCKS`, all of one type and written with `schema`.
        schema: As in `decode_avro_blocks`.
        limits: As in `decode_avro_blocks`.
        columns: As in `decode_avro_blocks`.
        keys: As in `decode_avro_blocks`. Rows of HFiles are all returned.

    Raises:
        CorruptError, LimitError, SchemaError, UnsupportedError: as in `decode_avro_blocks`.
    """
    if blocks and blocks[0].block_type is BlockType.HFILE_DATA:
        return _decode_hfiles(blocks, schema, limits, columns)
    return decode_avro_blocks([block.content for block in blocks], schema, limits, columns, keys)


def count_avro_rows(block: LogBlock, limits: Limits) -> int:
    """Return the rows of a block of `AVRO_ROW_BLOCKS` that was decoded before.

    Raises:
        CorruptError: the block is damaged.
    """
    if block.block_type is BlockType.HFILE_DATA:
        return len(HFile.of(block.content, limits))
    return int.from_bytes(block.content[_COUNT], "big")


def _decode_hfiles(
    blocks: Sequence[LogBlock], schema: AvroRecord, limits: Limits, columns: Sequence[str] | None
) -> pa.Table:
    entries = [HFile.of(block.content, limits).columns() for block in blocks]
    rows = decode_avro_blocks([_framed(own.values) for own in entries], schema, limits, columns)
    place = rows.schema.get_field_index(_KEY)
    if place < 0 or not pa.types.is_string(rows.schema.types[place]):
        return rows
    keys = pa.chunked_array([own.keys for own in entries], _BYTES).cast(pa.string())
    column = rows.column(place)
    restored = pc.if_else(pc.equal(column, ""), keys.combine_chunks(), column.combine_chunks())
    return rows.set_column(place, rows.schema.field(place), restored)


def _framed(values: pa.LargeBinaryArray) -> memoryview:
    """Return values as the content of a data block in Avro."""
    lengths = pc.binary_length(values).to_numpy().astype(">i4")
    size = pa.binary(lengths.itemsize)
    column = pa.FixedSizeBinaryArray.from_buffers(size, len(values), [None, pa.py_buffer(lengths)])
    nothing = pa.scalar(b"", _BYTES)
    joined = pc.binary_join_element_wise(column.cast(_BYTES), values, nothing)
    head = np.array([_VERSION, len(values)], ">i4").tobytes()
    return memoryview(b"".join([head, *joined.to_pylist()]))
