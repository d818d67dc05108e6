"""Row group statistics of a parquet footer, decoded as untrusted input.

pyarrow offers the same, but a damaged footer makes its accessors end the process: they throw
C++ exceptions through Python. So statistics are only ever read here. Pure.
Source: parquet.thrift.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import Any, TypeVar

import pyarrow as pa

from bucketfmt.errors import CorruptError, TruncatedError
from bucketfmt.rows.parquet.thrift_compact import Struct, ThriftList, read_struct
from bucketfmt.rows.row_ranges import ColumnRange, RowGroupRanges

__all__ = ["ParquetFooter", "decode_footer"]

_BOOLEAN, _INT32, _INT64, _, _FLOAT, _DOUBLE, _BYTE_ARRAY, _FIXED = range(8)
_REPEATED = 2
_RLE = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True, slots=True)
class ParquetFooter:
    """The parts of a FileMetaData that bucketfmt uses.

    Attributes:
        leaves: Name and physical type of each leaf column; no name for a nested column.
        row_groups: Number of rows, and per leaf the Statistics, by field id.
        has_levels: Whether the pages of each leaf are said to have levels, as they have for what
            may be null: parquet-mr counts them among the encodings.
        sizes: Of each leaf, the bytes of its chunks: compressed, and before compression.
        codec: Of the first column of the first row group with rows, as parquet numbers codecs;
            None for a file without rows.
    """

    leaves: tuple[tuple[str | None, int], ...]
    row_groups: tuple[tuple[int, tuple[Struct, ...]], ...]
    has_levels: tuple[bool, ...]
    created_by: bytes
    sizes: tuple[tuple[int, int], ...] = ()
    codec: int | None = None

    def ranges(self, schema: pa.Schema) -> list[RowGroupRanges]:
        """Return, per row group, the ranges of the columns of `schema`.

        Columns that are nested, or whose type in `schema` differs from the file, have no range.
        """
        found = [
            (index, leaf, schema.get_field_index(leaf[0] or ""))
            for index, leaf in enumerate(self.leaves)
        ]
        wanted = [(index, leaf, schema.field(at).type) for index, leaf, at in found if at >= 0]
        return [
            RowGroupRanges(
                num_rows,
                {
                    name: _range_of(statistics[index], physical, kind)
                    for index, (name, physical), kind in wanted
                    if name is not None
                },
            )
            for num_rows, statistics in self.row_groups
        ]


def decode_footer(footer: bytes) -> ParquetFooter:
    """Decode the bytes of a FileMetaData.

    Raises:
        CorruptError: the bytes are not a FileMetaData.
    """
    try:
        metadata, _ = read_struct(footer, 0)
    except (IndexError, struct.error) as error:
        raise TruncatedError("parquet footer ends within a value") from error
    leaves = tuple(_leaves(_get(metadata, 2, ThriftList)))
    groups = []
    codec: int | None = None
    has_levels = [False] * len(leaves)
    sizes = [(0, 0)] * len(leaves)
    for group in _get(metadata, 4, ThriftList):
        chunks = [_get(chunk, 3, Struct) for chunk in _get(group, 1, ThriftList)]
        if len(chunks) != len(leaves):
            raise CorruptError("parquet footer: a row group lacks columns of the schema")
        statistics = tuple(_get(chunk, 12, Struct, Struct()) for chunk in chunks)
        groups.append((_get(group, 3, int), statistics))
        if codec is None and chunks and groups[-1][0]:  # pyarrow states none of no rows
            codec = _get(chunks[0], 4, int)
        for number, chunk in enumerate(chunks):
            has_levels[number] |= _RLE in _get(chunk, 2, ThriftList)
            stored, plain = sizes[number]
            sizes[number] = stored + _get(chunk, 7, int, 0), plain + _get(chunk, 6, int, 0)
    created_by = _get(metadata, 6, bytes, b"")
    return ParquetFooter(leaves, tuple(groups), tuple(has_levels), created_by, tuple(sizes), codec)


_T = TypeVar("_T")


def _get(fields: Any, field_id: int, kind: type[_T], default: _T | None = None) -> _T:
    """Return a field of a struct, after checking its type."""
    value = fields.get(field_id, default) if isinstance(fields, dict) else None
    if type(value) is not kind:
        raise CorruptError(f"parquet footer: field {field_id} is not of type {kind.__name__}")
    return value


def _leaves(elements: Sequence[Any]) -> Iterator[tuple[str | None, int]]:
    children_left = [_get(elements[0], 5, int)] if elements else []
    for element in elements[1:]:
        while children_left and children_left[-1] <= 0:
            children_left.pop()
        if not children_left:
            raise CorruptError("parquet footer: more schema elements than the schema has")
        is_top_level = len(children_left) == 1
        children_left[-1] -= 1
        if children := _get(element, 5, int, 0):
            children_left.append(children)
            continue
        is_plain = is_top_level and _get(element, 3, int, 0) != _REPEATED
        name = _get(element, 4, bytes).decode(errors="replace")
        yield (name if is_plain else None, _get(element, 1, int))


def _range_of(statistics: Struct, physical: int, kind: pa.DataType) -> ColumnRange:
    nulls = statistics.get(3)
    return ColumnRange(
        _value(statistics.get(6), physical, kind),
        _value(statistics.get(5), physical, kind),
        nulls if type(nulls) is int else None,
        kind,
    )


_DECIMALS = Context(prec=80)  # rounds no decimal of Arrow, where the default has 28 digits
_FORMATS = {_INT32: "<i", _INT64: "<q", _FLOAT: "<f", _DOUBLE: "<d", _BOOLEAN: "<?"}


def _value(data: object, physical: int, kind: pa.DataType) -> Any:
    """Return a bound as a Python value of the column's type; None if it cannot be one."""
    if not isinstance(data, bytes):
        return None
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        # A cut bound may end within a character; what is left is a shorter prefix.
        return data.decode(errors="ignore") if physical == _BYTE_ARRAY else None
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return data if physical == _BYTE_ARRAY else None
    number: Any = None
    if physical in _FORMATS and len(data) == struct.calcsize(_FORMATS[physical]):
        (number,) = struct.unpack(_FORMATS[physical], data)
    if pa.types.is_boolean(kind):
        return number if isinstance(number, bool) else None
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return number if isinstance(number, float) else None
    if pa.types.is_decimal(kind) and physical in (_BYTE_ARRAY, _FIXED) and len(data) <= 16:
        number = int.from_bytes(data, "big", signed=True)
    return _value_of_integer(number, kind) if type(number) is int else None


def _value_of_integer(number: int, kind: pa.DataType) -> Any:
    if pa.types.is_signed_integer(kind):
        return number
    if pa.types.is_decimal(kind):
        return Decimal(number).scaleb(-kind.scale, _DECIMALS)
    try:
        if pa.types.is_date32(kind):
            return date(1970, 1, 1) + timedelta(days=number)
        if pa.types.is_timestamp(kind) and kind.unit in _MICROS:
            moment = _EPOCH + timedelta(microseconds=number * _MICROS[kind.unit])
            return moment if kind.tz is not None else moment.replace(tzinfo=None)
    except OverflowError:  # outside the years 1 to 9999
        return None
    return None
