"""Opening a parquet file with pyarrow: its footer checked, its columns as Hudi's types.

Reads only the source it is given.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from bucketfmt.errors import (
    BucketfmtError,
    CorruptError,
    LimitError,
    StorageError,
    UnsupportedError,
)
from bucketfmt.limits import Limits
from bucketfmt.rows.parquet.parquet_levels import check_levels

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = [
    "check_sizes",
    "open_parquet",
    "presented_schema",
    "text_bytes_max",
    "translated_errors",
]


def _parquet() -> Any:
    """Return pyarrow.parquet. Imported when the first file is read: to open a table needs none."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    return pq


@cache
def _opening_parameters() -> frozenset[str]:
    """Return the names of the parameters of ParquetFile, of which newer releases have more."""
    return frozenset(inspect.signature(_parquet().ParquetFile.__init__).parameters)


def text_bytes_max(limits: Limits) -> int:
    """Return how long a text in a footer may be: a bloom filter is base64 there."""
    return 2 * limits.bloom_filter_bytes_max


def open_parquet(source: pa.NativeFile, limits: Limits, **options: Any) -> pq.ParquetFile:
    """Return a file opened with the options that every file is opened with, and `options`."""
    options |= {
        "coerce_int96_timestamp_unit": "us",
        "page_checksum_verification": True,  # costs a few per cent
        "thrift_string_size_limit": text_bytes_max(limits),
    }
    known = _opening_parameters()
    if "arrow_extensions_enabled" in known:  # pyarrow >= 21
        options["arrow_extensions_enabled"] = False
    if "schema_depth_limit" in known:
        options["schema_depth_limit"] = limits.schema_depth_max
    return _parquet().ParquetFile(source, **options)


@contextmanager
def translated_errors(what: str) -> Iterator[None]:
    """Turn exceptions of pyarrow on damaged bytes into CorruptError.

    Where memory does not suffice or the file cannot be read, nobody knows whether it is damaged.
    """
    try:
        yield
    except BucketfmtError:
        raise
    except (pa.ArrowNotImplementedError, NotImplementedError) as error:
        raise UnsupportedError(f"{what}: {error}; rewrite the file by a clustering") from error
    except MemoryError as error:
        raise LimitError.of_memory(what, error) from error
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError(f"{what}: {error}") from error
        raise CorruptError(f"{what}: {error}") from error


def check_sizes(metadata: pq.FileMetaData, limits: Limits) -> None:
    """Check the counts and sizes that a footer states.

    Raises:
        CorruptError: they contradict each other.
        LimitError: a row group, the file or the schema is larger than `limits` allow.
    """
    limits.check("base_file_rows_max", metadata.num_rows)
    limits.check("schema_fields_max", metadata.num_columns)
    total = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows < 0 or group.total_byte_size < 0:
            raise CorruptError(f"parquet footer: row group {number} has a negative size")
        limits.check("row_group_rows_max", group.num_rows)
        limits.check("row_group_bytes_max", group.total_byte_size)
        total += group.num_rows
    if total != metadata.num_rows:
        raise CorruptError(
            f"parquet footer: {metadata.num_rows} rows in all, {total} in its row groups"
        )


class _Columns(NamedTuple):
    """The columns of a file: as pyarrow presents them, as they are stored, and `presented`."""

    arrow: pa.Schema
    parquet: pq.ParquetSchema
    presented: pa.Schema


_FILES_KNOWN = 8
_known: tuple[_Columns, ...] = ()  # of files opened last: mostly they have the same columns


def presented_schema(file: pq.ParquetFile) -> pa.Schema:
    """Return the columns of a file with plain lists and values, and INT96 timestamps in UTC.

    Raises:
        CorruptError: the footer contradicts itself about its columns.
        UnsupportedError: a column has a type that Hudi does not have.
    """
    global _known  # noqa: PLW0603  (threads that race work out the same twice)
    arrow, metadata = file.schema_arrow.remove_metadata(), file.metadata
    parquet = metadata.schema
    for known in _known:
        if arrow.equals(known.arrow, check_metadata=True) and parquet.equals(known.parquet):
            return known.presented
    if len(set(arrow.names)) < len(arrow.names):
        raise CorruptError("parquet footer: two columns have the same name")
    check_levels(arrow, parquet)
    presented = _presented_schema(arrow, metadata)
    _known = (_Columns(arrow, parquet, presented), *_known[: _FILES_KNOWN - 1])
    return presented


def _presented_schema(stored: pa.Schema, metadata: pq.FileMetaData) -> pa.Schema:
    leaves = iter(range(metadata.num_columns))
    presented = (_presented(field, metadata, leaves) for field in stored)
    return pa.schema([field.remove_metadata() for field in presented])


def _presented(field: pa.Field, metadata: pq.FileMetaData, leaves: Iterator[int]) -> pa.Field:
    """Return `field` with plain lists and values, and UTC on timestamps stored as INT96."""
    kind = field.type
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_presented(child, metadata, leaves) for child in kind]))
    if pa.types.is_map(kind):
        key = _presented(kind.key_field, metadata, leaves)
        return field.with_type(pa.map_(key, _presented(kind.item_field, metadata, leaves)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return field.with_type(pa.list_(_presented(kind.value_field, metadata, leaves)))
    if pa.types.is_nested(kind):
        raise UnsupportedError(f"column {field.name}: {kind} is no type of Hudi's")
    leaf = next(leaves, None)
    if leaf is None:
        raise CorruptError("parquet footer: fewer columns than its Arrow schema has")
    if metadata.schema.column(leaf).physical_type == "INT96":
        return field.with_type(pa.timestamp("us", "UTC"))
    return field.with_type(kind.value_type) if pa.types.is_dictionary(kind) else field
