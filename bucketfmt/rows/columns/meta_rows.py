"""Hudi's own columns in front of a table's rows, and in front of its schema.

Pure and vectorised. Sources: HoodieAvroUtils.addMetadataFields,
HoodieRecord.generateSequenceId, HoodieCreateHandle, HoodieMergeHandle, HoodieAppendHandle.
"""

from __future__ import annotations

import json
from functools import lru_cache

import numpy as np
import pyarrow as pa

from bucketfmt.rows.columns.meta_columns import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    META_COLUMNS,
    PARTITION_PATH,
    RECORD_KEY,
)

__all__ = [
    "add_meta_columns",
    "add_meta_fields",
    "add_null_meta_columns",
    "add_written_columns",
    "file_constants",
    "merge_schema",
    "meta_schema",
]


_MOMENTS = pa.dictionary(pa.int32(), pa.string())
_FEW_ROWS = 32  # Python numbers so few sooner than pyarrow
_NUMBERED_ROWS = 1 << 24  # of less than 50 bytes: an array of text holds two gigabytes


def meta_schema(data: pa.Schema) -> pa.Schema:
    """Return the schema of rows in files: Hudi's five columns, nullable text, then `data`."""
    return pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *data])


@lru_cache(8)
def add_meta_fields(avro_schema: str) -> str:
    """Return an Avro record schema (JSON) with Hudi's five fields before its own."""
    record = json.loads(avro_schema)
    meta = [
        {"name": name, "type": ["null", "string"], "doc": "", "default": None}
        for name in META_COLUMNS
    ]
    record["fields"] = [*meta, *record["fields"]]
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def add_meta_columns(
    rows: pa.Table,
    record_keys: pa.ChunkedArray,
    partition_path: str,
    file_name: str,
    instant: str,
    task_partition_id: int,
    first_row: int = 0,
) -> pa.Table:
    """Return rows newly written by an instant, with Hudi's columns before their own.

    Args:
        rows: Rows of one file, without Hudi's columns.
        record_keys: The record key of each row.
        partition_path: The partition of the rows.
        file_name: The base file's name; for rows of a log file, the id of its file group.
        instant: The requested time of the write.
        task_partition_id: First part of the file's write token.
        first_row: The number of rows that the task wrote before. The sequence number of a row is
            `<instant>_<task_partition_id>_<row>`, which is distinct within an instant.
    """
    written = add_written_columns(rows, record_keys, instant, task_partition_id, first_row)
    of_rows, data = written.columns[1:3], written.columns[3:]
    time, *places = (_constant(t, rows.num_rows) for t in (instant, partition_path, file_name))
    return pa.Table.from_arrays([time, *of_rows, *places, *data], schema=meta_schema(rows.schema))


def add_written_columns(
    rows: pa.Table,
    record_keys: pa.ChunkedArray,
    instant: str,
    task_partition_id: int,
    first_row: int = 0,
) -> pa.Table:
    """Return the columns of `merge_schema` of such rows. Arguments as of `add_meta_columns`."""
    size = rows.num_rows
    time = pa.DictionaryArray.from_arrays(np.zeros(size, np.int32), [instant])
    sequence = _numbered(f"{instant}_{task_partition_id}_", first_row, size)
    columns = [time, sequence, record_keys.cast(pa.string()), *rows.columns]
    return pa.Table.from_arrays(columns, schema=merge_schema(rows.schema, is_populated=True))


def add_null_meta_columns(rows: pa.Table) -> pa.Table:
    """Return rows as a table with virtual keys stores them: Hudi's columns are null."""
    nulls = [pa.nulls(rows.num_rows, pa.string()) for _ in META_COLUMNS]
    return pa.Table.from_arrays([*nulls, *rows.columns], schema=meta_schema(rows.schema))


def merge_schema(data: pa.Schema, *, is_populated: bool) -> pa.Schema:
    """Return the columns in which rows of a base file are merged.

    Of Hudi's columns these are the ones that differ between rows; with virtual keys, the key. The
    commit time is a dictionary, because a file has few.
    """
    own = [pa.field(RECORD_KEY, pa.string())]
    if is_populated:
        own = [pa.field(COMMIT_TIME, _MOMENTS), pa.field(COMMIT_SEQNO, pa.string()), *own]
    return pa.schema([*own, *data])


def file_constants(
    partition_path: str, file_name: str, *, is_populated: bool
) -> dict[str, str | None]:
    """Return the columns that have one value in a whole base file, with the value."""
    if is_populated:
        return {PARTITION_PATH: partition_path, FILE_NAME: file_name}
    return dict.fromkeys(META_COLUMNS)


def _numbered(prefix: str, first: int, count: int) -> pa.ChunkedArray:
    """Return `prefix` followed by the numbers `first`, `first + 1`, ..., as texts."""
    end = first + count
    if 0 < count <= _FEW_ROWS:
        return pa.chunked_array([[f"{prefix}{n}" for n in range(first, end)]], pa.string())
    chunks = []
    while first < end:
        stop = min(end, 10 ** len(str(first)), first + _NUMBERED_ROWS)
        chunks.append(_numbered_alike(prefix.encode(), first, stop))
        first = stop
    return pa.chunked_array(chunks, pa.string())


def _numbered_alike(prefix: bytes, first: int, stop: int) -> pa.StringArray:
    """Return the texts of numbers that all have as many digits: lines of a matrix."""
    count, width = stop - first, len(prefix) + len(str(first))
    text = np.empty((count, width), np.uint8)
    text[:, : len(prefix)] = np.frombuffer(prefix, np.uint8)
    numbers = np.arange(first, stop, dtype=np.min_scalar_type(stop))
    for column in reversed(range(len(prefix), width)):
        tenths = numbers // 10
        text[:, column] = numbers - tenths * 10 + ord("0")
        numbers = tenths
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))


def _constant(text: str, size: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), size)
