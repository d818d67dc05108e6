"""Which bytes of a file are what: the values of rows, deletes, or all that says what they are.

The figures of docs/reliability.md are kept apart by this. Hudi's formats have no checksum over row
values in log files, so nobody can promise anything about those; everything else is promised.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq

from bucketfmt.format.log.log_block import BlockType, LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.names.names import LogFileName, find_data_file_name
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.rows.avro.avro_frames import find_frames
from bucketfmt.rows.parquet.thrift_compact import read_struct

__all__ = ["FRAMING", "ROW_DATA", "kind_of", "regions_of"]

ROW_DATA, FRAMING = "row data", "framing and metadata"

_COMPRESSED_SIZE = 3  # field id of parquet.thrift's PageHeader
_DELETE_HEAD = 8  # version and length of a delete block's payload


def kind_of(path: str) -> str:
    """Return what kind of file of a table this is, as the report names it; "" for none."""
    name = path.rpartition("/")[2]
    if name.endswith(".crc") or name.startswith(".hoodie_partition_metadata"):
        return ""
    if path.startswith(".hoodie/"):
        for kind in ("hoodie.properties", "hashing_meta", "schemacommit"):
            if kind in path:
                return kind
        return "plan" if name.endswith((".requested", ".inflight")) else "commit"
    parsed = find_data_file_name(name)
    if parsed is None:
        return ""
    return "log file" if isinstance(parsed, LogFileName) else "base file"


def regions_of(path: str, data: bytes) -> list[str]:
    """Return for each byte of a sound file the region it is in: `ROW_DATA` or `FRAMING`."""
    regions = [FRAMING] * len(data)
    spans = {"log file": _log_spans, "base file": _parquet_spans}.get(kind_of(path))
    for start, end in spans(data, 0) if spans else ():
        regions[start:end] = [ROW_DATA] * (end - start)
    return regions


def _log_spans(data: bytes, _: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of rows, each without its length, and of the payloads of delete blocks."""
    for block in decode_log_file(data):
        if not isinstance(block, LogBlock):
            continue
        start = block.content_offset
        if block.block_type is BlockType.DELETE:
            yield start + _DELETE_HEAD, start + len(block.content)
        elif block.block_type is BlockType.PARQUET_DATA:
            yield from _parquet_spans(bytes(block.content), start)
        elif block.block_type is BlockType.AVRO_DATA:
            frames = find_frames(np.frombuffer(block.content, np.uint8), DEFAULT_LIMITS).tolist()
            for frame, following in pairwise(frames):
                yield start + frame + 4, start + following


def _parquet_spans(data: bytes, base: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of page contents: column chunks without their page headers."""
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(number)
            at = chunk.dictionary_page_offset or chunk.data_page_offset
            end = at + chunk.total_compressed_size
            while at < end:
                header, content = read_struct(data, at)
                at = content + header[_COMPRESSED_SIZE]
                yield base + content, base + at
