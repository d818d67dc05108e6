"""Reads the keys that a caller gives, in all forms. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from bucketfmt.errors import SchemaError
from bucketfmt.format.keys.record_keys import KeyEncoding
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.rows.columns.column_paths import find_column
from bucketfmt.rows.columns.exact_cast import cast_exactly, plain_values
from bucketfmt.rows.columns.meta_columns import PARTITION_PATH, RECORD_KEY
from bucketfmt.rows.columns.python_values import infer_column, infer_table
from bucketfmt.rows.columns.virtual_keys import is_encoding_open, partition_paths, record_keys

__all__ = [
    "FindEncoding",
    "FindSchema",
    "KeySet",
    "KeysLike",
    "cast_key_fields",
    "hold_keys",
    "key_columns",
    "may_be_misspelt",
    "read_keys",
]

KeysLike = Any
"""One key, a list of keys, or a column of keys: record keys as text, values of the key field,
tuples of the values of several fields, dicts. Or rows: anything with an Arrow C stream."""

_ARROW = (pa.Array, pa.ChunkedArray, pa.Table)


@dataclass(frozen=True, eq=False)
class KeySet:
    """Record keys, and the partition of each if the caller gave partitions.

    Attributes:
        record_keys: Text, without nulls.
        partition_paths: A path for each key; None stands for all partitions.
    """

    record_keys: pa.ChunkedArray
    partition_paths: pa.ChunkedArray | None


FindEncoding = Callable[[], KeyEncoding | None]
"""Returns how a table writes complex keys of one field; None: as Hudi does for its version."""

FindSchema = Callable[[], pa.Schema]
"""Returns the columns of a table."""


def read_keys(
    keys: KeysLike,
    config: TableConfig,
    find_schema: FindSchema,
    find_encoding: FindEncoding | None = None,
) -> KeySet:
    """Return the keys that a caller gave.

    Text is a record key as Hudi stores it. Other values, such as 7 or a date, are values of the key
    field. Tuples have the values of all key fields, and may have those of the partition fields
    after them.

    Keys of rows are `_hoodie_record_key` and `_hoodie_partition_path` if the rows have these
    columns, or `record_key` and `partition_path`, as `locate` names them, if the table has no such
    columns of its own. Otherwise the keys are made of the table's key and partition fields, by
    equal values in the table's types (`rows.columns.exact_cast`).

    Args:
        keys: The argument of the caller.
        config: The properties of the table.
        find_schema: Called where keys or partition paths are made of fields, or have short names.
        find_encoding: Called where keys are made of fields; without it rows are refused where the
            table's version leaves the form of keys open.

    Raises:
        TypeError: the keys have an unknown form, or are not text.
        ValueError: a key is null, or rows lack the columns of keys.
        SchemaError: a value of a key or partition field has no equal in the table's type.
        KeyEncodingError: the key fields of a row make no key, or rows with other values would have
            the same key.
    """
    given = hold_keys(keys, config)
    if not isinstance(given, pa.Table):
        return KeySet(_text_column(given, "a record key"), _no_partition(config, len(given)))
    return KeySet(
        _keys_of_rows(given, config, find_schema, find_encoding),
        _partitions_of_rows(given, config, find_schema),
    )


def hold_keys(keys: KeysLike, config: TableConfig) -> pa.Array | pa.ChunkedArray | pa.Table:
    """Return the keys that a caller gave as text or rows that can be read several times.

    Raises:
        TypeError: the keys have an unknown form, or are values of one field of several.
    """
    if isinstance(keys, (*_ONE_KEY, Mapping)):
        keys = [keys]
    if isinstance(keys, Sequence) or _is_plain_array(keys):
        keys = _read_list([_plain(key) for key in keys], config)
    given = keys if isinstance(keys, _ARROW) else _read_stream(keys)
    if isinstance(given, pa.Table) or _is_text(given.type):
        return given
    return pa.table({_only_field(config): given})


def cast_key_fields(rows: pa.Table, fields: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Return these fields alone, in the table's types: a column each, named by its path.

    Args:
        rows: With the fields; a dot in a field may lead into a struct.
        fields: Of the record key or the partition path.
        schema: The table's columns.

    Raises:
        SchemaError: a value has no equal in the table's type, or a field is not there.
    """
    stored, columns = schema.empty_table(), {}
    for field in fields:
        given, target = find_column(rows, field), find_column(stored, field)
        if given is None:
            raise SchemaError(f"the rows have no column {field}; give the column")
        if target is not None:
            chunks = [cast_exactly(chunk, target.type, field) for chunk in given.chunks]
            given = pa.chunked_array(chunks, target.type)
        columns[field] = given
    return pa.table(columns)


def may_be_misspelt(keys: pa.Array | pa.ChunkedArray | pa.Table, config: TableConfig) -> bool:
    """Return whether no key is of the form `id:7,name:x` that several key fields make.

    Args:
        keys: As `hold_keys` returns them.
        config: The properties of the table.
    """
    fields = config.record_key_fields
    if len(fields) < 2 or isinstance(keys, pa.Table) or not len(keys):
        return False
    some = keys.slice(0, _KEYS_COMPARED).to_pylist()
    return not any(key is not None and key.startswith(f"{fields[0]}:") for key in some)


def key_columns(config: TableConfig) -> list[str]:
    """Return the columns of the table that tell a row's key and partition."""
    if config.populate_meta_fields:
        return [RECORD_KEY, PARTITION_PATH]
    fields = (*config.record_key_fields, *config.partition_fields)
    return list(dict.fromkeys(field.partition(".")[0] for field in fields))


_KEYS_COMPARED = 1_000
# A datetime is a date. Bytes are a sequence of whole numbers to Python, which are no keys.
_ONE_KEY = (str, int, date, Decimal, bytes, bytearray, memoryview)


def _plain(key: Any) -> Any:
    """Return the Python value of a scalar of NumPy or Arrow."""
    if isinstance(key, pa.Scalar):
        return key.as_py()
    return key.item() if isinstance(key, np.generic) else key


def _read_list(keys: list[Any], config: TableConfig) -> pa.Array | pa.Table:
    """Return keys as a column of text or as rows, by the type of the first key."""
    first = keys[0] if keys else ""
    try:
        if isinstance(first, str) or first is None:
            return pa.array(keys, pa.string())
        if isinstance(first, Mapping):
            return _rows_of_dicts(keys, config)
        if isinstance(first, tuple):
            return _rows_of_tuples(keys, config)
        field = _only_field(config)
        return pa.table({field: infer_column(field, keys)})
    except (pa.ArrowException, UnicodeError, AttributeError, TypeError, OverflowError) as error:
        raise TypeError(
            f"keys is a list of one type: text, values of the key field, tuples or dicts: {error}"
        ) from error


def _rows_of_dicts(keys: list[Mapping[str, Any]], config: TableConfig) -> pa.Table:
    """Return dicts as rows. A field that tells keys or partitions is in all of them, or in none.

    A dict without its partition means all partitions only where no dict has one.
    """
    fields = (*config.record_key_fields, *config.partition_fields)
    telling = {RECORD_KEY, PARTITION_PATH, "record_key", "partition_path"}
    telling.update(field.partition(".")[0] for field in fields)
    names = {name for key in keys for name in key}
    for name in telling & names:
        lacking = [key for key in keys if name not in key]
        if lacking:
            raise TypeError(
                f"{lacking[0]!r:.80} lacks {name}, which other dicts have: give it in each, None "
                "for null, or in none"
            )
    return infer_table(keys)


def _rows_of_tuples(keys: list[tuple[Any, ...]], config: TableConfig) -> pa.Table:
    fields = config.record_key_fields
    if len(keys[0]) > len(fields):
        fields = (*fields, *config.partition_fields)
    if any(not isinstance(key, tuple) or len(key) != len(fields) for key in keys):
        raise TypeError(f"each tuple has the values of {', '.join(fields)}")
    columns = zip(fields, zip(*keys, strict=True), strict=True)
    return pa.table({name: infer_column(name, each) for name, each in columns})


def _only_field(config: TableConfig) -> str:
    """Return the field whose values are keys.

    Raises:
        TypeError: the key has several fields, or none.
    """
    fields = config.record_key_fields
    if len(fields) != 1:
        wanted = ", ".join(fields) or RECORD_KEY
        raise TypeError(f"a key of this table has the fields {wanted}; give tuples, dicts or rows")
    return fields[0]


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        is_text(kind)
        for is_text in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )


def _is_plain_array(keys: object) -> bool:
    """Whether these are values without an Arrow form: of NumPy, or a Series before pandas 3."""
    return hasattr(keys, "__array__") and not (
        isinstance(keys, (*_ARROW, pa.RecordBatch)) or hasattr(keys, "__arrow_c_stream__")
    )


def _no_partition(config: TableConfig, size: int) -> pa.ChunkedArray | None:
    if config.partition_fields:
        return None
    return pa.chunked_array([pa.repeat(pa.scalar("", pa.string()), size)])


def _text_column(column: pa.Array | pa.ChunkedArray, what: str) -> pa.ChunkedArray:
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    if column.null_count:
        raise ValueError(f"{what} is null")
    if pa.types.is_dictionary(column.type):
        chunks = [plain_values(chunk) for chunk in column.chunks]
        column = pa.chunked_array(chunks, chunks[0].type if chunks else pa.string())
    if not _is_text(column.type):
        raise TypeError(f"{what} is text as Hudi stores it, not {column.type}")
    return column.cast(pa.string()) if not pa.types.is_string(column.type) else column


def _read_stream(keys: object) -> pa.Table | pa.ChunkedArray:
    if isinstance(keys, pa.RecordBatch):
        return pa.Table.from_batches([keys])
    if not hasattr(keys, "__arrow_c_stream__"):
        raise TypeError(
            "keys are a list of keys, a column of keys, or rows (anything with an Arrow C stream, "
            f"such as a polars or pandas data frame), not {type(keys).__name__}"
        )
    column = pa.chunked_array(keys)
    return pa.Table.from_struct_array(column) if pa.types.is_struct(column.type) else column


def _keys_of_rows(
    rows: pa.Table,
    config: TableConfig,
    find_schema: FindSchema,
    find_encoding: FindEncoding | None,
) -> pa.ChunkedArray:
    stored = _find_stored(rows, RECORD_KEY, "record_key", find_schema)
    if stored is not None:
        return _text_column(stored, "a record key")
    fields = config.record_key_fields
    if not fields or any(find_column(rows, field) is None for field in fields):
        wanted = ", ".join(fields) or RECORD_KEY
        raise ValueError(f"rows that name keys need the column {RECORD_KEY}, or all of: {wanted}")
    if is_encoding_open(config) and find_encoding is None:
        raise ValueError(
            f"Hudi releases write a complex key of one field as 7 or as {fields[0]}:7; "
            f"give the column {RECORD_KEY} as the table has it"
        )
    encoding = None if find_encoding is None else find_encoding()
    return record_keys(cast_key_fields(rows, fields, find_schema()), config, encoding)


def _find_stored(
    rows: pa.Table, name: str, short_name: str, find_schema: FindSchema
) -> pa.ChunkedArray | None:
    """Return the column that Hudi stores by a name, or results of `locate` by a short one.

    A column of the table that has the short name is the user's, and means something else.
    """
    names = rows.schema.names
    if name in names:
        return rows.column(name)
    if short_name in names and short_name not in find_schema().names:
        return rows.column(short_name)
    return None


def _partitions_of_rows(
    rows: pa.Table, config: TableConfig, find_schema: FindSchema
) -> pa.ChunkedArray | None:
    if not config.partition_fields:
        return _no_partition(config, rows.num_rows)
    stored = _find_stored(rows, PARTITION_PATH, "partition_path", find_schema)
    if stored is not None:
        return _text_column(stored, "a partition path")
    if not config.partition_path_holds_values:
        return None
    if any(find_column(rows, field) is None for field in config.partition_fields):
        return None
    return partition_paths(cast_key_fields(rows, config.partition_fields, find_schema()), config)
