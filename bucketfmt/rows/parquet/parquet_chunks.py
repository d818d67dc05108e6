"""Column chunks as stored in parquet files, and files composed of such chunks.

The bytes of a chunk mean the same in any file. If the values of a column stay, a rewritten file
takes the bytes as they are, and nothing is encoded or compressed again. The places of chunks in a
footer are checked against the file before they are used.

Pure; `ChunkFile` writes only into the sink it is given. Source: parquet.thrift.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from bucketfmt.choices import Codec
from bucketfmt.errors import CorruptError
from bucketfmt.rows.parquet.thrift_compact import (
    BINARY,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    Struct,
    ThriftList,
    encode_struct,
    read_struct,
)

__all__ = [
    "CODECS",
    "ChunkFile",
    "GroupLayout",
    "Span",
    "StoredColumn",
    "columns_of",
    "decode_layout",
    "schema_elements",
    "split_footer",
    "stored_columns",
]

MAGIC = b"PAR1"
_ELEMENTS, _ROWS, _GROUPS = 2, 3, 4  # of FileMetaData: the schema's elements; rows; row groups
_NAME, _CHILDREN = 4, 5  # of SchemaElement
_CHUNKS, _GROUP_BYTES, _GROUP_ROWS, _GROUP_START, _GROUP_STORED, _ORDINAL = 1, 2, 3, 5, 6, 7
_CHUNK_START, _CHUNK, _OFFSETS_AT, _OFFSETS_SIZE, _BOUNDS_AT, _BOUNDS_SIZE = 2, 3, 4, 5, 6, 7
_PATH, _CODEC, _PLAIN_SIZE, _SIZE = 3, 4, 6, 7  # of ColumnMetaData
_DATA_AT, _INDEX_AT, _DICTIONARY_AT, _BLOOM_AT, _BLOOM_SIZE = 9, 10, 11, 14, 15
_PAGES, _PAGE_AT = 1, 1  # of OffsetIndex, of PageLocation
CODECS: Mapping[int, Codec] = {0: "none", 1: "snappy", 2: "gzip", 6: "zstd"}
"""Codecs by their numbers in parquet footers."""

_ORDINAL_MAX = (1 << 15) - 1


class Span(NamedTuple):
    """Bytes of a file, from `start` to before `end`."""

    start: int
    end: int


class _Chunk(NamedTuple):
    """One leaf column of a row group. `bounds` and `offsets` are the page index, if it has one."""

    fields: Struct
    pages: Span
    bounds: Span | None
    offsets: Span | None


class GroupLayout(NamedTuple):
    """One row group.

    Attributes:
        num_rows: As the footer says.
        plain_size: Bytes of its pages before compression.
        pages: The span of its chunks.
        chunks: The chunks of the leaf columns, by the name of the top-level column.
        elements: The schema elements of the top-level column and its children, depth first.
    """

    num_rows: int
    plain_size: int
    pages: Span
    chunks: dict[str, list[_Chunk]]
    elements: dict[str, tuple[Struct, ...]]

    def is_within(self, rows: int, size: int) -> bool:
        """Whether the row group is within these rows and bytes, in the file and decoded."""
        sizes = [
            self.plain_size,
            *(span.end - span.start for span in (self.pages, self.page_index)),
        ]
        return self.num_rows <= rows and max(sizes) <= size

    @property
    def page_index(self) -> Span:
        """The span of the page index of its chunks; empty if there is no page index."""
        spans = [span for chunks in self.chunks.values() for c in chunks for span in c[2:] if span]
        return _cover(spans)


class _Stored(NamedTuple):
    """A chunk and its bytes, which begin at `start` in the original file."""

    fields: Struct
    start: int
    pages: pa.Buffer
    bounds: bytes | None
    offsets: bytes | None


@dataclass(frozen=True)
class StoredColumn:
    """A column of a row group as it is stored, with its children.

    Attributes:
        elements: The schema elements of the column and its children, depth first.
    """

    elements: tuple[Struct, ...]
    _chunks: tuple[_Stored, ...] = field(repr=False)

    @property
    def codecs(self) -> set[str]:
        """How its pages are compressed; "?" for a codec that bucketfmt does not write."""
        return {CODECS.get(chunk.fields[_CODEC], "?") for chunk in self._chunks}

    def has_values_of(self, other: StoredColumn) -> bool:
        """Whether the column is stored with the same bytes as another, which tell the same values.

        False for columns with children, which are not looked at.
        """
        if len(self.elements) != 1 or len(other.elements) != 1:
            return False
        own, its = (column.named("") for column in (self, other))
        pages, others = own._chunks[0].pages, its._chunks[0].pages
        is_alike = own.elements == its.elements and own.codecs == its.codecs
        return is_alike and bool(pages.equals(others))

    def named(self, name: str) -> StoredColumn:
        """Return a column without children under another name."""
        (element,), (chunk,) = self.elements, self._chunks
        fields, renamed = chunk.fields.copied(), element.copied()
        fields.put(_PATH, ThriftList([name.encode()], BINARY))
        renamed.put(_NAME, name.encode())
        return StoredColumn((renamed,), (chunk._replace(fields=fields),))


# ---------------------------------------------------------------------------- reading


def split_footer(file: pa.Buffer) -> bytes:
    """Return the FileMetaData of a whole file."""
    size = int.from_bytes(file.slice(file.size - 8, 4), "little")
    footer: bytes = file.slice(file.size - 8 - size, size).to_pybytes()
    return footer


def decode_layout(footer: bytes, content_end: int) -> list[GroupLayout]:
    """Return where the row groups of a file and their chunks lie.

    Args:
        footer: The FileMetaData.
        content_end: The offset of the footer in the file.

    Raises:
        CorruptError: the bytes are not a footer, or the footer points outside of the file.
    """
    try:
        metadata, _ = read_struct(footer, 0)
        elements = _columns(metadata[_ELEMENTS])
        return [_group(group, elements, content_end) for group in metadata[_GROUPS]]
    except (LookupError, TypeError, AttributeError, ValueError, struct.error) as error:
        raise CorruptError(
            f"parquet footer: the places of columns are missing: {error!r}"
        ) from error


def schema_elements(footer: bytes) -> dict[str, tuple[Struct, ...]]:
    """Return the schema elements of each column and its children, of a sound file."""
    return _columns(read_struct(footer, 0)[0][_ELEMENTS])


def _columns(elements: Sequence[Struct]) -> dict[str, tuple[Struct, ...]]:
    """Return the elements of each top level column."""
    columns: dict[str, tuple[Struct, ...]] = {}
    at = 1
    while at < len(elements):
        start, open_elements = at, 1
        while open_elements:
            open_elements += _checked_size(elements[at].get(_CHILDREN, 0)) - 1
            at += 1
        columns[elements[start][_NAME].decode()] = tuple(elements[start:at])
    return columns


def _group(fields: Struct, elements: dict[str, tuple[Struct, ...]], end: int) -> GroupLayout:
    entries = list(fields[_CHUNKS])
    chunks: dict[str, list[_Chunk]] = {}
    for name, column in elements.items():
        leaves = sum(not element.get(_CHILDREN) for element in column)
        if leaves > len(entries):
            raise CorruptError("parquet footer: a row group lacks columns of the schema")
        chunks[name] = [_chunk(entry, end) for entry in entries[:leaves]]
        del entries[:leaves]
    pages = _cover([chunk.pages for members in chunks.values() for chunk in members])
    rows, plain_size = _checked_size(fields[_GROUP_ROWS]), _checked_size(fields[_GROUP_BYTES])
    return GroupLayout(rows, plain_size, pages, chunks, elements)


def _chunk(entry: Struct, end: int) -> _Chunk:
    fields = entry[_CHUNK]
    offsets = [_checked_size(fields[_DATA_AT]), _checked_size(fields.get(_DICTIONARY_AT, 0))]
    start = min(offset for offset in offsets if offset)  # 0 is written for none
    for number in (fields[_PLAIN_SIZE], fields[_CODEC], fields.get(_INDEX_AT, 0)):
        _checked_size(number)
    return _Chunk(
        fields,
        _span(start, fields[_SIZE], end),
        _index_span(entry, _BOUNDS_AT, _BOUNDS_SIZE, end),
        _index_span(entry, _OFFSETS_AT, _OFFSETS_SIZE, end),
    )


def _index_span(entry: Struct, at: int, size: int, end: int) -> Span | None:
    """Return the span of a part of the page index; None if the part is absent or damaged.

    No rows are found by the page index here.
    """
    try:
        return _span(entry[at], entry[size], end)
    except (KeyError, ValueError, CorruptError):
        return None


def _span(start: Any, size: Any, end: int) -> Span:
    span = Span(_checked_size(start), _checked_size(start) + _checked_size(size))
    if span.end > end:
        raise CorruptError("parquet footer: a column is not within the file", offset=span.start)
    return span


def _checked_size(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a size")
    return value


def _cover(spans: Sequence[Span]) -> Span:
    """Return the smallest span that covers all others."""
    return Span(min((s.start for s in spans), default=0), max((s.end for s in spans), default=0))


def stored_columns(
    group: GroupLayout, pages: pa.Buffer, page_index: pa.Buffer
) -> dict[str, StoredColumn]:
    """Return the columns of a row group, given the bytes of `group.pages` and `.page_index`."""

    def stored(chunk: _Chunk) -> _Stored:
        at, start = chunk.pages.start, group.pages.start
        return _Stored(
            chunk.fields,
            at,
            pages.slice(at - start, chunk.pages.end - at),
            index_bytes(chunk.bounds),
            index_bytes(chunk.offsets),
        )

    index, index_start = page_index.to_pybytes(), group.page_index.start

    def index_bytes(span: Span | None) -> bytes | None:
        return None if span is None else index[span.start - index_start : span.end - index_start]

    return {
        name: StoredColumn(group.elements[name], tuple(map(stored, chunks)))
        for name, chunks in group.chunks.items()
    }


def columns_of(file: pa.Buffer) -> dict[str, StoredColumn]:
    """Return the columns of a whole file of one row group."""
    (group,) = decode_layout(split_footer(file), file.size)
    (start, end), (index_start, index_end) = group.pages, group.page_index
    page_index = file.slice(index_start, index_end - index_start)
    return stored_columns(group, file.slice(start, end - start), page_index)


# ---------------------------------------------------------------------------- writing


class ChunkFile:
    """A parquet file composed of columns that are stored elsewhere. Ends with `close`."""

    def __init__(self, sink: Any) -> None:
        """`sink`: a file-like object or pyarrow stream that is open for writing; stays open."""
        self._sink = sink
        self._size = self._num_rows = 0
        self._groups: list[Struct] = []
        self._index: list[tuple[Struct, bytes | None, bytes | None]] = []
        self._write(MAGIC)

    def add(self, num_rows: int, columns: Iterable[StoredColumn]) -> None:
        """Add a row group: all columns of the file's schema, in its order."""
        start, entries, plain_size = self._size, ThriftList((), STRUCT), 0
        for chunk in (chunk for column in columns for chunk in column._chunks):
            moved_by = self._size - chunk.start
            fields = chunk.fields.copied()
            for place in (_DATA_AT, _INDEX_AT, _DICTIONARY_AT):
                if fields.get(place):
                    fields.put(place, fields[place] + moved_by)
            fields.drop(_BLOOM_AT, _BLOOM_SIZE)  # it lies elsewhere, and stays there
            entry = Struct()
            entry.put(_CHUNK_START, 0, I64)  # of no use, but required
            entry.put(_CHUNK, fields, STRUCT)
            entries.append(entry)
            plain_size += fields[_PLAIN_SIZE]
            self._index.append((entry, chunk.bounds, _moved(chunk.offsets, moved_by)))
            self._write(chunk.pages)
        group = Struct()
        group.put(_CHUNKS, entries, LIST)
        group.put(_GROUP_BYTES, plain_size, I64)
        group.put(_GROUP_ROWS, num_rows, I64)
        group.put(_GROUP_START, start, I64)
        group.put(_GROUP_STORED, self._size - start, I64)
        if len(self._groups) <= _ORDINAL_MAX:
            group.put(_ORDINAL, len(self._groups), I16)
        self._groups.append(group)
        self._num_rows += num_rows

    def close(self, empty: bytes) -> None:
        """Write the page index and the footer.

        Args:
            empty: The FileMetaData of a file without rows, whose schema and entries this file is
                to have.
        """
        for entry, bounds, _ in self._index:
            self._write_index(entry, _BOUNDS_AT, _BOUNDS_SIZE, bounds)
        for entry, _, offsets in self._index:
            self._write_index(entry, _OFFSETS_AT, _OFFSETS_SIZE, offsets)
        metadata, _ = read_struct(empty, 0)
        metadata.put(_ROWS, self._num_rows)
        metadata.put(_GROUPS, ThriftList(self._groups, STRUCT))
        footer = encode_struct(metadata)
        self._write(footer)
        self._write(len(footer).to_bytes(4, "little") + MAGIC)

    def _write_index(self, entry: Struct, at: int, size: int, data: bytes | None) -> None:
        if data is not None:
            entry.put(at, self._size, I64)
            entry.put(size, len(data), I32)
            self._write(data)

    def _write(self, data: bytes | pa.Buffer) -> None:
        self._sink.write(data)
        self._size += len(data)


def _moved(offsets: bytes | None, by: int) -> bytes | None:
    """Return an OffsetIndex whose pages lie `by` bytes further on; None if it is damaged."""
    if offsets is None:
        return None
    try:
        index, _ = read_struct(offsets, 0)
        for page in index[_PAGES]:
            page.put(_PAGE_AT, _checked_size(page[_PAGE_AT] + by))
        return encode_struct(index)
    except (CorruptError, LookupError, TypeError, AttributeError, ValueError, struct.error):
        return None
