"""The records of a partition of the metadata table as an Arrow table, to be looked at.

I/O through `MetadataPartition`. Entries that take back others are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from decimal import Context, Decimal
from itertools import islice
from typing import Any

import pyarrow as pa

from bucketfmt.errors import CorruptError
from bucketfmt.format.metadata.metadata_keys import (
    ALL_PARTITIONS_KEY,
    is_secondary_index,
    parse_files_key,
    parse_secondary_key,
)
from bucketfmt.format.metadata.metadata_records import (
    BloomFilterEntry,
    ColumnStats,
    FilesRecord,
    MetadataRecord,
    RecordLocation,
    SecondaryEntry,
    StatValue,
)
from bucketfmt.metadata_table.metadata_partition import MetadataPartition

__all__ = ["list_entries"]

_Rows = Iterator[tuple[object, ...]]

_FILES = pa.schema({"partition_path": pa.string(), "file_name": pa.string(), "size": pa.int64()})
_STATISTICS = pa.schema(
    {
        "file_name": pa.string(),
        "column": pa.string(),
        "minimum": pa.string(),
        "maximum": pa.string(),
        "values": pa.int64(),
        "nulls": pa.int64(),
        "bytes": pa.int64(),
        "uncompressed_bytes": pa.int64(),
        "is_tight": pa.bool_(),
    }
)
_BLOOM_FILTERS = pa.schema(
    {"key": pa.string(), "type": pa.string(), "instant": pa.string(), "bytes": pa.int64()}
)
_LOCATIONS = pa.schema(
    {
        "record_key": pa.string(),
        "partition_path": pa.string(),
        "file_id": pa.string(),
        "instant": pa.timestamp("ms", "UTC"),
        "position": pa.int64(),
    }
)
_SECONDARY = pa.schema({"value": pa.string(), "record_key": pa.string()})
_DECIMAL, _DATE = 10, 12  # ordinals of ValueType
_WRAPPED_SCALE = 15
_DECIMAL_BYTES_MAX = 32
_DECIMALS = Context(prec=80)


def list_entries(partition: MetadataPartition, limit: int | None = None) -> pa.Table:
    """Return the entries of a partition, in the order of their keys.

    Args:
        partition: Of the metadata table.
        limit: Read at most this many records.

    Returns:
        For `files` the partition path, the name of the file and its size; of each partition of the
        table there is a row without file too. For statistics the file, or the partition path, the
        column, its bounds as text and counts. For bloom filters the key (hashes of partition and
        file), the type and the size. For the record index the record key and its place, the instant
        as if read in UTC. For a secondary index the value and the record key.

    Raises:
        CorruptError: a file is damaged.
        UnsupportedError: a file or a record is of a kind that is not read.
        StorageError: the store failed.
    """
    records = islice(partition.scan(), limit)
    first = next(records, None)
    if first is None:
        return _schema_of(partition.name).empty_table()
    schema, rows_of = _KINDS[type(first[1])]
    rows = list(rows_of(*first))
    for key, record in records:
        if type(record) is not type(first[1]):
            raise CorruptError(
                f"partition {partition.name} of the metadata table has records of several types; "
                "rebuild it"
            )
        rows += rows_of(key, record)
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _schema_of(name: str) -> pa.Schema:
    """Return the columns for a partition without records."""
    if is_secondary_index(name):
        return _SECONDARY
    known = {"files": _FILES, "bloom_filters": _BLOOM_FILTERS, "record_index": _LOCATIONS}
    return known.get(name, _STATISTICS)


def _files(key: str, record: Any) -> _Rows:
    for name, entry in record.entries.items():
        if entry.is_deleted:
            continue
        if key == ALL_PARTITIONS_KEY:
            yield parse_files_key(name), None, None
        else:
            yield parse_files_key(key), name, entry.size


def _statistics(key: str, record: Any) -> _Rows:
    del key
    if not record.is_deleted:
        yield (
            record.file_name,
            record.column,
            _text(record.minimum, record),
            _text(record.maximum, record),
            record.value_count,
            record.null_count,
            record.total_bytes,
            record.total_uncompressed_bytes,
            record.is_tight,
        )


def _text(bound: StatValue | None, stats: ColumnStats) -> str | None:
    if bound is None:
        return None
    value = bound.value
    if isinstance(value, bytes) and len(value) > _DECIMAL_BYTES_MAX:
        return value.hex()
    if isinstance(value, bytes):
        info = (stats.value_type_info or "").rpartition(",")[2]
        if bound.wrapper == "Decimal" or (stats.value_type == _DECIMAL and info.isdecimal()):
            scale = _WRAPPED_SCALE if bound.wrapper == "Decimal" else int(info[:3])
            digits = Decimal(int.from_bytes(value, "big", signed=True))
            return str(digits.scaleb(-scale, _DECIMALS))
        return value.hex()
    if isinstance(value, int) and (bound.wrapper == "Date" or stats.value_type == _DATE):
        try:
            return str(date(1970, 1, 1) + timedelta(days=value))
        except OverflowError:
            return str(value)
    return str(value)


def _bloom_filter(key: str, record: Any) -> _Rows:
    if not record.is_deleted:
        yield key, record.type_code, record.instant, len(record.text)


def _location(key: str, record: Any) -> _Rows:
    yield key, record.partition_path, record.file_id, record.instant_ms, record.position


def _secondary(key: str, record: Any) -> _Rows:
    if not record.is_deleted:
        yield parse_secondary_key(key)


_KINDS: dict[type[MetadataRecord], tuple[pa.Schema, Callable[[str, Any], _Rows]]] = {
    FilesRecord: (_FILES, _files),
    ColumnStats: (_STATISTICS, _statistics),
    BloomFilterEntry: (_BLOOM_FILTERS, _bloom_filter),
    RecordLocation: (_LOCATIONS, _location),
    SecondaryEntry: (_SECONDARY, _secondary),
}
