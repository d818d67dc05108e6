"""The keys a caller asks for, in whatever form they come. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bucketfmt.format.table_config import TableConfig
from bucketfmt.rows.meta_columns import PARTITION_PATH, RECORD_KEY
from bucketfmt.rows.virtual_keys import partition_paths, record_keys

__all__ = ["KeySet", "KeysLike", "read_keys"]

KeysLike = Any
"""A list of text, an Arrow array or column of text, or rows: anything with an Arrow C stream."""


@dataclass(frozen=True, eq=False)
class KeySet:
    """Record keys, and the partition of each where the caller told it.

    Attributes:
        record_keys: Text, no nulls.
        partition_paths: As long as `record_keys`; None where any partition is meant.
    """

    record_keys: pa.ChunkedArray
    partition_paths: pa.ChunkedArray | None


def read_keys(keys: KeysLike, config: TableConfig) -> KeySet:
    """Return the keys a caller gave.

    Rows count by `_hoodie_record_key` and `_hoodie_partition_path` (or `record_key` and
    `partition_path`) where they have them, else by the table's key and partition fields.

    Raises:
        TypeError: they come in no form that is known, or not as text.
        ValueError: a null key, or rows without the columns it takes.
        KeyEncodingError: rows whose key fields make no key.
    """
    if isinstance(keys, str):
        raise TypeError("keys is a list of record keys; for one key write [key]")
    if isinstance(keys, pa.ChunkedArray | pa.Array):
        return KeySet(_text_column(keys), _no_partition(config, len(keys)))
    if isinstance(keys, Sequence):
        try:
            column = pa.chunked_array([pa.array(keys, pa.string())])
        except (pa.ArrowTypeError, pa.ArrowInvalid, UnicodeEncodeError) as error:
            raise TypeError(f"a list of keys holds text only: {error}") from error
        return KeySet(_text_column(column), _no_partition(config, len(keys)))
    rows = keys if isinstance(keys, pa.Table) else _read_stream(keys)
    return KeySet(_keys_of_rows(rows, config), _partitions_of_rows(rows, config))


def _no_partition(config: TableConfig, size: int) -> pa.ChunkedArray | None:
    if config.partition_fields:
        return None
    return pa.chunked_array([pa.repeat(pa.scalar("", pa.string()), size)])


def _text_column(column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    if column.null_count:
        raise ValueError("a key is null")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if not any(is_text(column.type) for is_text in text):
        raise TypeError(f"record keys are text as Hudi stores it, not {column.type}")
    return column.cast(pa.string()) if not pa.types.is_string(column.type) else column


def _read_stream(keys: object) -> pa.Table:
    if not hasattr(keys, "__arrow_c_stream__"):
        raise TypeError(
            f"keys are a list of text, an Arrow column, or rows with an Arrow C stream (a table, "
            f"a polars or pandas data frame), not {type(keys).__name__}"
        )
    return pa.RecordBatchReader.from_stream(keys).read_all()


def _keys_of_rows(rows: pa.Table, config: TableConfig) -> pa.ChunkedArray:
    for name in (RECORD_KEY, "record_key"):
        if name in rows.schema.names and name not in config.record_key_fields:
            return _text_column(rows.column(name))
    fields = config.record_key_fields
    missing = [field for field in fields if field not in rows.schema.names]
    if missing or not fields:
        wanted = ", ".join(fields) or RECORD_KEY
        raise ValueError(f"rows to look up want the column {RECORD_KEY}, or all of: {wanted}")
    return _text_column(record_keys(rows, config))


def _partitions_of_rows(rows: pa.Table, config: TableConfig) -> pa.ChunkedArray | None:
    if not config.partition_fields:
        return _no_partition(config, rows.num_rows)
    for name in (PARTITION_PATH, "partition_path"):
        if name in rows.schema.names and name not in config.partition_fields:
            return _text_column(rows.column(name))
    if not config.partition_path_holds_values:
        return None
    if any(field not in rows.schema.names for field in config.partition_fields):
        return None
    column = partition_paths(rows, config)
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
