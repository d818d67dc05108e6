"""The range of a column's values in a file slice or a partition, by statistics that can be trusted.

Pure. Hudi takes what a reader of parquet says, and not all of that is so:

- A file whose column has NaN is said to hold values between 0.0 and 0.0. No range of a floating
  point column counts.
- A file without statistics is said to hold nulls only. That all rows are null is not believed.
- Java compares text by UTF-16 units and parquet by bytes of UTF-8. The two orders place all values
  alike around a text below U+D800, and only such texts are looked for.
- Bytes, times and, before table version 9, moments are kept in several forms. They do not count.
- Bounds that are missing on one side are passed over where records are merged. Statistics of a
  partition count only if they were made anew of all its files, and of text not at all.

Source: HoodieTableMetadataUtil, ParquetUtils.readColumnStatsFromMetadata, ValueType; measured on
tables of Hudi 0.15.0, 1.0.2 and 1.2.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from bucketfmt.format.metadata.metadata_records import ColumnStats, StatValue
from bucketfmt.rows.filters.filter import Filter
from bucketfmt.rows.row_ranges import ColumnRange, RowGroupRanges

__all__ = ["are_crossed", "find_file_ranges", "prunable_columns"]

_WRAPPED_SCALE = 15  # of decimals before table version 9
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
_DECIMALS = Context(prec=80)
_FIRST_SURROGATE = "\ud800"

# Ordinals of ValueType
_INTEGERS, _BOOLEAN, _STRING, _DECIMAL, _DATE = (3, 4), 2, 7, 10, 12
_MOMENTS = {15: ("ms", True), 16: ("us", True), 18: ("ms", False), 19: ("us", False)}


def prunable_columns(row_filter: Filter, schema: pa.Schema) -> list[str]:
    """Return the columns of a filter whose ranges may leave out files.

    Args:
        row_filter: On rows of the table.
        schema: The columns of the table, in Arrow types.
    """
    wanted = []
    for name in row_filter.columns or ():
        position = schema.get_field_index(name)
        if position < 0 or "." in name or not _is_trusted(schema.field(position).type):
            continue
        texts = [
            value
            for group in row_filter.alternatives or ()
            for part in group
            if part.column == name
            for value in (part.value if isinstance(part.value, tuple) else (part.value,))
            if isinstance(value, str)
        ]
        if all(character < _FIRST_SURROGATE for text in texts for character in text):
            wanted.append(name)
    return wanted


def _is_trusted(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
    )


def find_file_ranges(
    statistics: Sequence[Sequence[ColumnStats]], schema: pa.Schema
) -> RowGroupRanges:
    """Return the ranges of the rows of a file slice.

    A row of the slice may have each of its values from another of the files, so that the range of a
    column is the union of those of the files.

    Args:
        statistics: Of each column that every file of the slice has statistics of, those of the
            files that hold rows.
        schema: The columns of the table, in Arrow types.
    """
    columns: dict[str, ColumnRange] = {}
    for own in statistics:
        name = own[0].column or ""
        kind = schema.field(name).type
        ranges = [_range_of(each, kind) for each in own]
        known = [each for each in ranges if each is not None]
        if len(known) == len(ranges):
            nulls = [each.null_count for each in known]
            columns[name] = ColumnRange(
                min(each.low for each in known),
                max(each.high for each in known),
                None if None in nulls else sum(count or 0 for count in nulls),
                kind,
            )
    return RowGroupRanges(-1, columns)


def are_crossed(stats: ColumnStats, schema: pa.Schema) -> bool:
    """Whether no value lies within the bounds of a column, whose form is known.

    Args:
        stats: Of a column of `schema`.
        schema: The columns of the table, in Arrow types.
    """
    bounds = _bounds_of(stats, schema.field(stats.column or "").type)
    return bounds is not None and bool(bounds[0] > bounds[1])


def _range_of(stats: ColumnStats, kind: pa.DataType) -> ColumnRange | None:
    """Return a range with both bounds; None where one is unknown."""
    bounds = _bounds_of(stats, kind)
    if bounds is None or bounds[0] > bounds[1]:
        return None
    nulls = stats.null_count
    return ColumnRange(*bounds, nulls if nulls is not None and nulls >= 0 else None, kind)


def _bounds_of(stats: ColumnStats, kind: pa.DataType) -> tuple[Any, Any] | None:
    if stats.is_deleted or stats.minimum is None or stats.maximum is None:
        return None
    low, high = (_value_of(bound, stats, kind) for bound in (stats.minimum, stats.maximum))
    return None if low is None or high is None else (low, high)


def _value_of(bound: StatValue, stats: ColumnStats, kind: pa.DataType) -> Any:
    """Return a bound as a Python value of the column's type; None where its form is not trusted."""
    value, wrapper, ordinal = bound.value, bound.wrapper, stats.value_type
    if isinstance(value, bool):
        is_boolean = pa.types.is_boolean(kind) and ordinal in (None, _BOOLEAN)
        return value if is_boolean else None
    if isinstance(value, int):
        if pa.types.is_integer(kind):
            return value if wrapper in ("Int", "Long") and ordinal in (None, *_INTEGERS) else None
        if pa.types.is_date32(kind):
            return _date(value) if wrapper in ("Int", "Date") and ordinal in (None, _DATE) else None
        if pa.types.is_timestamp(kind) and _MOMENTS.get(ordinal or 0) == (
            kind.unit,
            kind.tz is not None,
        ):
            return _moment(value, kind)
        return None
    if isinstance(value, str):
        return value if pa.types.is_string(kind) and ordinal in (None, _STRING) else None
    if isinstance(value, bytes) and pa.types.is_decimal(kind):
        return _decimal(value, wrapper, stats, kind)
    return None


def _date(days: int) -> date | None:
    try:
        return date.fromordinal(_EPOCH_DAY + days)
    except (ValueError, OverflowError):
        return None


def _moment(value: int, kind: pa.DataType) -> datetime | None:
    try:
        moment = _EPOCH + timedelta(microseconds=value * (1000 if kind.unit == "ms" else 1))
    except OverflowError:
        return None
    return moment if kind.tz is None else moment.replace(tzinfo=timezone.utc)


def _decimal(value: bytes, wrapper: str, stats: ColumnStats, kind: pa.DataType) -> Decimal | None:
    if wrapper == "Decimal" and stats.value_type is None:
        scale = _WRAPPED_SCALE
    elif stats.value_type == _DECIMAL and stats.value_type_info is not None:
        text = stats.value_type_info.rpartition(",")[2]
        scale = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else -1
    else:
        return None
    if not kind.scale <= scale <= 76 or len(value) > 32:  # else it may have been rounded
        return None
    return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _DECIMALS)
