"""The records of `column_stats` and `partition_stats`, from the ranges of columns in files.

Pure. Source: ParquetUtils.readColumnStatsFromMetadata, ValueMetadata, ValueType,
HoodieAvroUtils.wrapValueIntoAvro, HoodieTableMetadataUtil (isColumnTypeSupported,
convertMetadataToPartitionStatsRecords), HoodieMetadataPayload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa

from bucketfmt.format.metadata.metadata_keys import (
    format_column_stats_key,
    format_partition_stats_key,
)
from bucketfmt.format.metadata.metadata_records import ColumnStats, MetadataRecord, StatValue
from bucketfmt.metadata_table.merge_records import merge_records

__all__ = [
    "ColumnValues",
    "column_stats",
    "deleted_column_stats",
    "deleted_partition_stats",
    "empty_column_stats",
    "has_statistics",
    "partition_stats",
]


@dataclass(frozen=True)
class ColumnValues:
    """What is known of the values of one column in one file.

    Attributes:
        low: No value is less; None where all are null.
        high: No value is greater; None likewise.
        rows: How many values there are, nulls included.
        nulls: How many of them are null.
        type: Of the column; the bounds are Python values of it. Those of dates, times and moments
            may also be numbers in its unit, as Arrow stores them.
        total_bytes: Of the column in the file; 0 of a log file.
        total_uncompressed_bytes: Likewise, before compression.
    """

    low: Any
    high: Any
    rows: int
    nulls: int
    type: pa.DataType
    total_bytes: int = 0
    total_uncompressed_bytes: int = 0


_NUMBERS = ("Int", "Long", "Float", "Double")  # the narrowest first
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_OLD_SCALE, _OLD_PRECISION = 15, 30  # of the one decimal type of DecimalWrapper

# Ordinals of ValueType.
_V_NULL, _V_BOOLEAN, _V_INT, _V_LONG, _V_FLOAT, _V_DOUBLE, _V_STRING, _V_BYTES = range(1, 9)
_V_DECIMAL, _V_DATE = 10, 12
_V_TIME = {"ms": 13, "us": 14}
_V_TIMESTAMP = {"ms": 15, "us": 16, "ns": 17}
_V_LOCAL_TIMESTAMP = {"ms": 18, "us": 19, "ns": 20}

_Convert = Callable[[Any], Any]
_PLAIN: Sequence[tuple[Callable[[pa.DataType], bool], str, int]] = (
    (pa.types.is_boolean, "Boolean", _V_BOOLEAN),
    (pa.types.is_int64, "Long", _V_LONG),
    (pa.types.is_signed_integer, "Int", _V_INT),
    (pa.types.is_float32, "Float", _V_FLOAT),
    (pa.types.is_float64, "Double", _V_DOUBLE),
    (pa.types.is_string, "String", _V_STRING),
    (pa.types.is_large_string, "String", _V_STRING),
    (pa.types.is_binary, "Bytes", _V_BYTES),
    (pa.types.is_large_binary, "Bytes", _V_BYTES),
)


@dataclass(frozen=True)
class _Form:
    """How Hudi stores bounds of a type.

    Attributes:
        wrapper: Name of the wrapper record.
        convert: From a Python value to what the wrapper holds.
        ordinal: Of ValueType, since table version 9.
        info: What else the type says.
    """

    wrapper: str
    convert: _Convert
    ordinal: int
    info: str | None = None


def has_statistics(kind: pa.DataType, table_version: int) -> bool:
    """Return whether Hudi keeps statistics of columns of a type."""
    return _find_form(kind, table_version) is not None


def column_stats(
    file_name: str, column: str, values: ColumnValues, table_version: int
) -> ColumnStats | None:
    """Return the statistics of a column in a file; None for a type that has none."""
    form = _find_form(values.type, table_version)
    if form is None:
        return None
    return ColumnStats(
        file_name=file_name,
        column=column,
        minimum=_wrapped(form, values.low),
        maximum=_wrapped(form, values.high),
        value_count=values.rows,
        null_count=values.nulls,
        total_bytes=values.total_bytes,
        total_uncompressed_bytes=values.total_uncompressed_bytes,
        is_deleted=False,
        value_type=form.ordinal if table_version >= 9 else None,
        value_type_info=form.info if table_version >= 9 else None,
    )


def empty_column_stats(file_name: str, column: str, table_version: int) -> ColumnStats:
    """Return the statistics of a column in a log file without rows."""
    return replace(
        _stub(file_name, table_version),
        column=column,
        value_count=0,
        null_count=0,
        total_bytes=0,
        total_uncompressed_bytes=0,
        is_deleted=False,
    )


def partition_stats(partition_path: str, files: Iterable[ColumnStats]) -> dict[str, MetadataRecord]:
    """Return the records of `partition_stats` for one partition, by key.

    Args:
        partition_path: The partition.
        files: The statistics of all columns of all files of its newest file slices.
    """
    by_column: dict[str, list[ColumnStats]] = {}
    for stats in files:
        if not stats.is_deleted:
            by_column.setdefault(stats.column or "", []).append(stats)
    found: dict[str, MetadataRecord] = {}
    for column, all_of_it in by_column.items():
        own = _of_one_type([stats for stats in all_of_it if stats.value_count] or all_of_it)
        merged = merge_records(own)
        if isinstance(merged, ColumnStats):
            found[format_partition_stats_key(column, partition_path)] = replace(
                _ordered_by_utf8(merged, own),
                file_name=partition_path,
                is_tight=True,
                of_partition=True,
            )
    return found


def _of_one_type(files: Sequence[ColumnStats]) -> list[ColumnStats]:
    """Return statistics of a column that was widened with all bounds in the widest type."""
    if len({(each.value_type, each.value_type_info, _width(each)) for each in files}) == 1:
        return list(files)
    widest = max(files, key=_width)
    info = widest.value_type_info

    def widened(bound: StatValue | None, own: str | None) -> StatValue | None:
        value = bound.value if bound is not None else None
        if bound is not None and bound.wrapper == "Decimal" and info:
            # Of a file from before an upgrade to version 9. Of its digits all are there that the
            # column has.
            bound, own = StatValue("Bytes", value), f"{_OLD_PRECISION},{_OLD_SCALE}"
        if bound is None or (bound.wrapper in _NUMBERS and _width(widest)[0] < 0):
            return bound
        if bound.wrapper in _NUMBERS:
            return StatValue(_NUMBERS[_width(widest)[0]], value)
        if isinstance(value, bytes) and own and info and own != info:
            digits = int(info.rpartition(",")[2]) - int(own.rpartition(",")[2])
            number = int.from_bytes(value, "big", signed=True)
            number = number * 10**digits if digits >= 0 else number // 10**-digits
            size = (number if number >= 0 else ~number).bit_length() // 8 + 1
            return StatValue(bound.wrapper, number.to_bytes(size, "big", signed=True))
        return bound

    return [
        replace(
            stats,
            minimum=widened(stats.minimum, stats.value_type_info),
            maximum=widened(stats.maximum, stats.value_type_info),
            value_type=widest.value_type,
            value_type_info=info,
        )
        for stats in files
    ]


def _width(stats: ColumnStats) -> tuple[int, int]:
    """Return a place of the type of statistics among those that a column may be widened to."""
    wrapper = stats.minimum.wrapper if stats.minimum is not None else ""
    number = _NUMBERS.index(wrapper) if wrapper in _NUMBERS else -1
    return number, int((stats.value_type_info or "0").partition(",")[0])


def _ordered_by_utf8(merged: ColumnStats, files: Sequence[ColumnStats]) -> ColumnStats:
    """Return statistics with bounds of text in the order in which Spark compares text.

    Java merges records in the order of UTF-16, and Spark's filters on the two bounds would leave
    out partitions with text beyond U+FFFF.
    """
    lows = [stats.minimum for stats in files if stats.minimum is not None]
    highs = [stats.maximum for stats in files if stats.maximum is not None]
    if not all(isinstance(bound.value, str) for bound in (*lows, *highs)):
        return merged
    return replace(
        merged,
        minimum=min(lows, key=lambda bound: str(bound.value), default=None),
        maximum=max(highs, key=lambda bound: str(bound.value), default=None),
    )


def deleted_column_stats(
    partition_path: str, file_name: str, columns: Iterable[str], table_version: int
) -> dict[str, MetadataRecord]:
    """Return the records that take back the statistics of a file, by key."""
    gone = _stub(file_name, table_version)
    return {
        format_column_stats_key(column, partition_path, file_name): replace(gone, column=column)
        for column in columns
    }


def deleted_partition_stats(
    partition_path: str, columns: Iterable[str], table_version: int
) -> dict[str, MetadataRecord]:
    """Return the records that take back the statistics of a partition, by key."""
    gone = replace(_stub("", table_version), is_tight=True, of_partition=True)
    return {
        format_partition_stats_key(column, partition_path): replace(gone, column=column)
        for column in columns
    }


def _stub(file_name: str, table_version: int) -> ColumnStats:
    return ColumnStats(
        file_name=file_name,
        column="",
        minimum=None,
        maximum=None,
        value_count=-1,
        null_count=-1,
        total_bytes=-1,
        total_uncompressed_bytes=-1,
        is_deleted=True,
        value_type=_V_NULL if table_version >= 9 else None,
    )


def _wrapped(form: _Form, value: object) -> StatValue | None:
    return None if value is None else StatValue(form.wrapper, form.convert(value))


@lru_cache(maxsize=256)  # the columns of a file have those of the file before
def _find_form(kind: pa.DataType, table_version: int) -> _Form | None:
    for test, wrapper, ordinal in _PLAIN:
        if test(kind):
            return _Form(wrapper, _same, ordinal)
    is_new = table_version >= 9
    if pa.types.is_date32(kind):
        return _Form("Int" if is_new else "Date", _days, _V_DATE)
    if pa.types.is_decimal(kind):
        return _decimal_form(kind, is_new)
    if pa.types.is_timestamp(kind):
        ordinals = _V_LOCAL_TIMESTAMP if kind.tz is None else _V_TIMESTAMP
        if kind.unit in ordinals:
            return _Form("Long", _since_epoch(kind.unit), ordinals[kind.unit])
    if pa.types.is_time(kind) and kind.unit in _V_TIME:
        wrapper = "Int" if kind.unit == "ms" else "Long"
        return _Form(wrapper, _since_midnight(kind.unit), _V_TIME[kind.unit])
    return None


def _decimal_form(kind: pa.DataType, is_new: bool) -> _Form | None:
    if is_new:
        convert = _unscaled(kind.scale)
        return _Form("Bytes", convert, _V_DECIMAL, f"{kind.precision},{kind.scale}")
    if kind.scale > _OLD_SCALE or kind.precision + _OLD_SCALE - kind.scale > _OLD_PRECISION:
        return None
    return _Form("Decimal", _unscaled(_OLD_SCALE), _V_DECIMAL)


def _same(value: Any) -> Any:
    return value


def _days(value: date | int) -> int:
    return value if isinstance(value, int) else (value - date(1970, 1, 1)).days


def _unscaled(scale: int) -> _Convert:
    def convert(value: Decimal) -> bytes:
        sign, digits, exponent = value.as_tuple()
        number = int("".join(map(str, digits))) * int(10 ** (scale + int(exponent)))
        number = -number if sign else number
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1  # as of a BigInteger
        return number.to_bytes(size, "big", signed=True)

    return convert


def _since_epoch(unit: str) -> _Convert:
    def convert(value: datetime | int) -> int:
        if isinstance(value, int):
            return value
        moment = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
        micros = (moment - _EPOCH) // timedelta(microseconds=1)
        return micros * _UNITS[unit] // 1_000_000

    return convert


def _since_midnight(unit: str) -> _Convert:
    def convert(value: time | int) -> int:
        if isinstance(value, int):
            return value
        seconds = value.hour * 3600 + value.minute * 60 + value.second
        return int((seconds * 1_000_000 + value.microsecond) * _UNITS[unit] // 1_000_000)

    return convert
