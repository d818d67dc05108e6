"""Row group statistics of a parquet footer, decoded as untrusted input.

pyarrow offers the same, but a damaged footer makes its accessors end the process: they throw
C++ exceptions through Python. So statistics are only ever read here. Pure.
Source: parquet.thrift.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from functools import partial
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from bucketfmt.errors import CorruptError, TruncatedError
from bucketfmt.rows.parquet.thrift_compact import (
    BINARY,
    I64,
    LIST,
    STRUCT,
    Reader,
    Struct,
    ThriftList,
    read_fields,
    read_list_head,
    read_struct,
    read_value,
    skip_struct,
)
from bucketfmt.rows.row_ranges import ColumnRange, RowGroupRanges

__all__ = ["ParquetFooter", "decode_codec", "decode_footer"]

_BOOLEAN, _INT32, _INT64, _, _FLOAT, _DOUBLE, _BYTE_ARRAY, _FIXED = range(8)
_REPEATED = 2
_RLE = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}


_Leaf = tuple[str | None, int]  # name and physical type; no name for a nested column


class _Group(NamedTuple):
    """A row group: its number of rows, and where the chunk of each leaf column begins."""

    num_rows: int
    chunks_at: tuple[int, ...]


class ParquetFooter:
    """The parts of a FileMetaData that bucketfmt uses. What is not asked for is not decoded.

    Attributes:
        leaves: Name and physical type of each leaf column; no name for a nested column.
        created_by: The writer.
    """

    def __init__(
        self,
        thrift: bytes,
        leaves: tuple[_Leaf, ...],
        groups: Sequence[_Group],
        created_by: bytes,
    ) -> None:
        self.leaves = leaves
        self.created_by = created_by
        self._thrift = thrift
        self._groups = groups

    def _chunk(self, group: _Group, leaf: int) -> Struct:
        """Return the ColumnMetaData of a leaf column in a row group."""
        with _ends_reported():
            chunk, _ = read_struct(self._thrift, group.chunks_at[leaf])
        return _get(chunk, 3, Struct)

    def has_levels(self, leaf: int) -> bool:
        """Return whether the pages of a leaf are said to have levels, as for what may be null.

        parquet-mr counts the levels among the encodings.
        """
        return any(_RLE in _get(self._chunk(g, leaf), 2, ThriftList) for g in self._groups)

    def sizes(self) -> list[tuple[int, int]]:
        """Return, per leaf, the bytes of its chunks: compressed, and before compression."""
        found = []
        for leaf in range(len(self.leaves)):
            chunks = [self._chunk(group, leaf) for group in self._groups]
            stored, plain = (sum(_get(c, field, int, 0) for c in chunks) for field in (7, 6))
            found.append((stored, plain))
        return found

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
                group.num_rows,
                {
                    name: _range_of(_statistics(self._chunk(group, index)), physical, kind)
                    for index, (name, physical), kind in wanted
                    if name is not None
                },
            )
            for group in self._groups
        ]


def decode_footer(footer: bytes) -> ParquetFooter:
    """Decode the bytes of a FileMetaData.

    Raises:
        CorruptError: the bytes are not a FileMetaData.
    """
    with _ends_reported():
        fields, _ = read_fields(footer, 0, _METADATA_READERS)
    leaves: tuple[_Leaf, ...] = _required(fields, 2)
    groups: list[_Group] = _required(fields, 4)
    if any(len(group.chunks_at) != len(leaves) for group in groups):
        raise CorruptError("parquet footer: a row group lacks columns of the schema")
    return ParquetFooter(footer, leaves, groups, fields.get(6, b""))


def decode_codec(footer: bytes, row_group: int) -> int:
    """Return the codec of the first column of a row group, as parquet numbers it.

    Nothing behind is decoded: a footer has a structure for each column of each row group.

    Raises:
        CorruptError: the bytes are not a FileMetaData, or have no such row group.
    """
    groups = Reader(LIST, partial(_read_first_chunk, row_group=row_group))
    with _ends_reported():
        fields, _ = read_fields(footer, 0, {2: _METADATA_READERS[2], 4: groups}, until=4)
    chunk: Struct = _required(fields, 4)
    return _get(_get(chunk, 3, Struct), 4, int)


def _read_first_chunk(data: bytes, at: int, row_group: int) -> tuple[Any, int]:
    """Read row groups up to the first ColumnChunk of one of them."""
    size, at = _read_structs_head(data, at)
    if row_group >= size:
        raise CorruptError(f"parquet footer: row group {row_group} of {size}", offset=at)
    for _ in range(row_group):
        at = skip_struct(data, at)
    first = Reader(LIST, _read_first)
    fields, at = read_fields(data, at, {1: first}, until=1)
    return _required(fields, 1), at


def _read_first(data: bytes, at: int) -> tuple[Struct, int]:
    size, at = _read_structs_head(data, at)
    if not size:
        raise CorruptError("parquet footer: a row group lacks columns of the schema", offset=at)
    return read_struct(data, at)


def _read_leaves(data: bytes, at: int) -> tuple[tuple[_Leaf, ...], int]:
    """Read the schema. Mostly it has the bytes of the schema of another file, read before."""
    global _known_schemas  # noqa: PLW0603  (threads that race read the same twice)
    for known, leaves in _known_schemas:
        if data.startswith(known, at):
            return leaves, at + len(known)
    elements, end = read_value(data, at, LIST)
    leaves = tuple(_leaves(elements))
    _known_schemas = ((data[at:end], leaves), *_known_schemas[: _SCHEMAS_KNOWN - 1])
    return leaves, end


def _read_groups(data: bytes, at: int) -> tuple[list[_Group], int]:
    size, at = _read_structs_head(data, at)
    groups = []
    for _ in range(size):
        fields, at = read_fields(data, at, _GROUP_READERS)
        groups.append(_Group(_required(fields, 3), _required(fields, 1)))
    return groups, at


def _read_chunks(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    size, at = _read_structs_head(data, at)
    starts = []
    for _ in range(size):
        starts.append(at)
        at = skip_struct(data, at)
    return tuple(starts), at


def _read_structs_head(data: bytes, at: int) -> tuple[int, int]:
    kind, size, start = read_list_head(data, at)
    if size and kind != STRUCT:
        raise CorruptError("parquet footer: a list is not of structures", offset=at)
    return size, start


_METADATA_READERS = {
    2: Reader(LIST, _read_leaves),
    4: Reader(LIST, _read_groups),
    6: Reader(BINARY, partial(read_value, kind=BINARY)),
}
_GROUP_READERS = {1: Reader(LIST, _read_chunks), 3: Reader(I64, partial(read_value, kind=I64))}
_SCHEMAS_KNOWN = 8
_known_schemas: tuple[tuple[bytes, tuple[_Leaf, ...]], ...] = ()


def _required(fields: Mapping[int, Any], field_id: int) -> Any:
    if field_id not in fields:
        raise CorruptError(f"parquet footer: field {field_id} is missing")
    return fields[field_id]


@contextmanager
def _ends_reported() -> Iterator[None]:
    try:
        yield
    except (IndexError, struct.error) as error:
        raise TruncatedError("parquet footer ends within a value") from error


_T = TypeVar("_T")


def _get(fields: Any, field_id: int, kind: type[_T], default: _T | None = None) -> _T:
    """Return a field of a struct, after checking its type."""
    value = fields.get(field_id, default) if isinstance(fields, dict) else None
    if type(value) is not kind:
        raise CorruptError(f"parquet footer: field {field_id} is not of type {kind.__name__}")
    return value


def _leaves(elements: Sequence[Any]) -> Iterator[_Leaf]:
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


def _statistics(chunk: Struct) -> Struct:
    return _get(chunk, 12, Struct, Struct())


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
