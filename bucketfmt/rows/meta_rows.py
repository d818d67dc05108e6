"""Hudi's own columns in front of a table's rows, and in front of its schema.

Pure and vectorised. Sources: HoodieAvroUtils.addMetadataFields,
HoodieRecord.generateSequenceId, HoodieCreateHandle, HoodieMergeHandle, HoodieAppendHandle.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.rows.meta_columns import FILE_NAME, META_COLUMNS

__all__ = [
    "add_meta_columns",
    "add_meta_fields",
    "add_null_meta_columns",
    "meta_schema",
    "set_file_name",
]


def meta_schema(data: pa.Schema) -> pa.Schema:
    """Return the schema of rows in files: Hudi's five columns, nullable text, then `data`."""
    return pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *data])


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
        record_keys: The record key of each.
        partition_path: Their partition.
        file_name: The base file's name; for rows of a log file, the id of its file group.
        instant: The requested time of the write.
        task_partition_id: First part of the file's write token.
        first_row: How many rows the task has written before: the sequence number of a row is
            `<instant>_<task_partition_id>_<row>`, and distinct within an instant.
    """
    size = rows.num_rows
    numbers = pa.array(np.arange(first_row, first_row + size)).cast(pa.string())
    sequence = pc.binary_join_element_wise(f"{instant}_{task_partition_id}", numbers, "_")
    return _prepend(
        rows,
        [
            _constant(instant, size),
            sequence,
            record_keys.cast(pa.string()),
            _constant(partition_path, size),
            _constant(file_name, size),
        ],
    )


def add_null_meta_columns(rows: pa.Table) -> pa.Table:
    """Return rows as a table with virtual keys stores them: Hudi's columns are there, and null."""
    return _prepend(rows, [pa.nulls(rows.num_rows, pa.string()) for _ in META_COLUMNS])


def set_file_name(rows: pa.Table, file_name: str) -> pa.Table:
    """Return rows that are copied into another base file: all else stays, commit time included."""
    index = rows.schema.get_field_index(FILE_NAME)
    return rows.set_column(index, rows.schema.field(index), _constant(file_name, rows.num_rows))


def _prepend(rows: pa.Table, columns: list[pa.Array | pa.ChunkedArray]) -> pa.Table:
    return pa.Table.from_arrays([*columns, *rows.columns], schema=meta_schema(rows.schema))


def _constant(text: str, size: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), size)
