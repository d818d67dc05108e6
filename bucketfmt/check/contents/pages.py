"""The pages of a parquet file against their checksums, and their headers against the footer.

Every byte of every column is looked at, and none is decoded.

Reads only the source it is given. parquet-mr, with which Hudi writes, stores a CRC-32 in every
page header (parquet.thrift: PageHeader.crc), of which pyarrow tells nothing. Places come from the
footer as read here: pyarrow's accessors of column chunks can end the process on a damaged one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from bucketfmt.errors import ChecksumError, CorruptError, TruncatedError
from bucketfmt.rows.parquet.thrift_compact import read_struct

try:
    from isal.isal_zlib import crc32  # takes a tenth of the time
except ImportError:  # ISA-L has no wheel for this kind of machine
    from zlib import crc32

__all__ = ["PageCounts", "check_pages"]

_TAIL = struct.Struct("<i4s")  # size of the footer, magic
_HEADER_BYTES = 1 << 12  # usually some dozens; statistics of long values make it longer
_HEADER_BYTES_MAX = 1 << 24

# field ids of parquet.thrift
_ROW_GROUPS = 4
_COLUMNS = 1
_COLUMN_METADATA = 3
_ENCODINGS, _COLUMN_PATH, _NUM_VALUES, _PLAIN_SIZE, _CHUNK_SIZE = 2, 3, 5, 6, 7
_DATA_PAGE, _DICTIONARY_PAGE = 9, 11
_PAGE_KIND, _PAGE_PLAIN_SIZE, _PAGE_SIZE, _PAGE_CRC = 1, 2, 3, 4
_HEADER_OF_KIND = {0: 5, 2: 7, 3: 8}  # data page, dictionary page, data page of version 2
_DICTIONARY_KIND = 2
_VALUES, _ENCODING_OF_KIND = 1, {0: (2, 3, 4), 2: (2,), 3: (4,)}


@dataclass(frozen=True, slots=True)
class PageCounts:
    """How many pages a file has, and how many of them carry a checksum."""

    pages: int
    with_checksum: int


class _Chunk(NamedTuple):
    column: str
    start: int
    end: int
    encodings: tuple[int, ...]
    num_values: int
    plain_size: int


class _Page(NamedTuple):
    """A page header. `start` and `end` are those of the content."""

    start: int
    end: int
    crc: int | None
    plain_size: int
    kind: int
    num_values: int


def check_pages(source: pa.NativeFile) -> PageCounts:
    """Compare the checksum of every page of every column that carries one.

    Raises:
        ChecksumError: one differs. `offset` is that of the page.
        CorruptError: the footer or a page header does not decode, or the bytes, values or
            encodings of pages differ from what the footer says.
    """
    pages = with_checksum = 0
    for chunk in _find_chunks(source):
        at, values, plain_size = chunk.start, 0, 0
        of_chunk = checked = 0
        while at < chunk.end:
            page = _read_header(source, at, chunk)
            if page.end > chunk.end:
                raise CorruptError("a page goes beyond its column chunk", offset=at)
            of_chunk += 1
            if page.crc is not None:
                checked += 1
                if crc32(source.read_at(page.end - page.start, page.start)) != page.crc:
                    raise ChecksumError(
                        f"a page of column {chunk.column} has another checksum than its header "
                        "says; restore the file",
                        offset=at,
                    )
            values += page.num_values if page.kind != _DICTIONARY_KIND else 0
            plain_size += page.start - at + page.plain_size
            at = page.end
        if (values, plain_size) != (chunk.num_values, chunk.plain_size) or 0 < checked < of_chunk:
            raise CorruptError(
                f"the pages of column {chunk.column} are not those its footer tells of; restore "
                "the file",
                offset=chunk.start,
            )
        pages += of_chunk
        with_checksum += checked
    return PageCounts(pages, with_checksum)


def _find_chunks(source: pa.NativeFile) -> Iterator[_Chunk]:
    file_size = source.size()
    size, _ = _TAIL.unpack(source.read_at(_TAIL.size, file_size - _TAIL.size))
    footer_start = file_size - _TAIL.size - size
    if size < 0 or footer_start < 0:
        raise CorruptError(f"parquet footer of {size} bytes in a file of {file_size}")
    try:
        metadata, _ = read_struct(source.read_at(size, footer_start), 0)
        for group in metadata[_ROW_GROUPS]:
            for column in group[_COLUMNS]:
                yield _chunk(column[_COLUMN_METADATA], footer_start)
    except (IndexError, KeyError, TypeError, struct.error) as error:
        raise CorruptError(f"parquet footer without the places of columns: {error!r}") from error


def _chunk(fields: dict[int, Any], footer_start: int) -> _Chunk:
    name = b".".join(fields[_COLUMN_PATH]).decode(errors="replace")
    size = fields[_CHUNK_SIZE]
    offsets = (fields[_DATA_PAGE], fields.get(_DICTIONARY_PAGE, 0))
    start = min(filter(None, offsets), default=0)  # 0 is written for none
    if start < 0 or size < 0 or start + size > footer_start:
        raise CorruptError(f"column chunk {name} is not within the file")
    encodings = tuple(fields[_ENCODINGS])
    return _Chunk(name, start, start + size, encodings, fields[_NUM_VALUES], fields[_PLAIN_SIZE])


def _read_header(source: pa.NativeFile, start: int, chunk: _Chunk) -> _Page:
    window = _HEADER_BYTES
    while True:
        data = source.read_at(min(window, chunk.end - start), start)
        try:
            fields, size = read_struct(data, 0)
            break
        except (IndexError, struct.error, TruncatedError):
            if len(data) < window or window >= _HEADER_BYTES_MAX:
                raise CorruptError("a page header ends too early", offset=start) from None
            window *= 16
        except CorruptError:
            raise CorruptError("no page header", offset=start) from None
    try:
        return _page(fields, start + size, chunk)
    except (KeyError, TypeError, AttributeError):
        raise CorruptError("a page header that tells no sizes or values", offset=start) from None


def _page(fields: dict[int, Any], start: int, chunk: _Chunk) -> _Page:
    kind, size, crc = fields[_PAGE_KIND], fields[_PAGE_SIZE], fields.get(_PAGE_CRC)
    of_kind = fields[_HEADER_OF_KIND[kind]]
    sizes = (size, fields[_PAGE_PLAIN_SIZE], of_kind[_VALUES])
    if any(type(number) is not int or number < 0 for number in sizes):
        raise TypeError
    if any(of_kind[field] not in chunk.encodings for field in _ENCODING_OF_KIND[kind]):
        raise KeyError
    crc = None if crc is None else crc & 0xFFFFFFFF
    return _Page(start, start + size, crc, sizes[1], kind, sizes[2])
