"""The checksums of a parquet file's pages: every byte of every column, without decoding it.

Reads only the source it is given. parquet-mr, with which Hudi writes, stores a CRC-32 in every
page header (parquet.thrift: PageHeader.crc), of which pyarrow tells nothing. Places come from the
footer as read here: pyarrow's accessors of column chunks can end the process on a damaged one.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from bucketfmt.errors import ChecksumError, CorruptError, TruncatedError
from bucketfmt.rows.parquet_footer import read_struct

__all__ = ["PageCounts", "check_pages"]

_TAIL = struct.Struct("<i4s")  # size of the footer, magic
_HEADER_BYTES = 1 << 12  # usually some dozens; statistics of long values make it longer
_HEADER_BYTES_MAX = 1 << 24

# field ids of parquet.thrift
_ROW_GROUPS = 4
_COLUMNS = 1
_COLUMN_METADATA = 3
_COLUMN_PATH, _CHUNK_SIZE, _DATA_PAGE, _DICTIONARY_PAGE = 3, 7, 9, 11
_PAGE_SIZE, _PAGE_CRC = 3, 4


@dataclass(frozen=True, slots=True)
class PageCounts:
    """How many pages a file has, and how many of them carry a checksum."""

    pages: int
    with_checksum: int


class _Chunk(NamedTuple):
    column: str
    start: int
    end: int


def check_pages(source: pa.NativeFile) -> PageCounts:
    """Compare the checksum of every page of every column that carries one.

    Raises:
        ChecksumError: one differs. `offset` is that of the page.
        CorruptError: the footer or a page header is none, or pages do not fill their chunk.
    """
    pages = with_checksum = 0
    for chunk in _find_chunks(source):
        start = chunk.start
        while start < chunk.end:
            size, crc, at = _read_header(source, start, chunk.end)
            if at + size > chunk.end:
                raise CorruptError("a page goes beyond its column chunk", offset=start)
            pages += 1
            if crc is not None:
                with_checksum += 1
                if zlib.crc32(source.read_at(size, at)) != crc:
                    raise ChecksumError(
                        f"a page of column {chunk.column} has another checksum than its header "
                        "says; restore the file",
                        offset=start,
                    )
            start = at + size
    return PageCounts(pages, with_checksum)


def _find_chunks(source: pa.NativeFile) -> Iterator[_Chunk]:
    file_size = source.size()
    size, _ = _TAIL.unpack(source.read_at(_TAIL.size, file_size - _TAIL.size))
    footer_start = file_size - _TAIL.size - size
    if size < 0 or footer_start < 0:
        raise CorruptError(f"parquet footer of {size} bytes in a file of {file_size}")
    try:
        metadata, _ = read_struct(source.read_at(size, footer_start), 0, 0)
        for group in metadata[_ROW_GROUPS]:
            for column in group[_COLUMNS]:
                yield _chunk(column[_COLUMN_METADATA], footer_start)
    except (IndexError, KeyError, TypeError, struct.error) as error:
        raise CorruptError(f"parquet footer without the places of columns: {error!r}") from error


def _chunk(fields: dict[int, Any], footer_start: int) -> _Chunk:
    name = b".".join(fields[_COLUMN_PATH]).decode(errors="replace")
    start, size = fields[_DATA_PAGE], fields[_CHUNK_SIZE]
    start = min(start, fields.get(_DICTIONARY_PAGE) or start)  # 0 is written for none
    if start < 0 or size < 0 or start + size > footer_start:
        raise CorruptError(f"column chunk {name} is not within the file")
    return _Chunk(name, start, start + size)


def _read_header(source: pa.NativeFile, start: int, end: int) -> tuple[int, int | None, int]:
    """Return compressed size, checksum and offset of the content of the page at `start`."""
    window = _HEADER_BYTES
    while True:
        data = source.read_at(min(window, end - start), start)
        try:
            fields, size = read_struct(data, 0, 0)
            break
        except (IndexError, struct.error, TruncatedError):
            if len(data) < window or window >= _HEADER_BYTES_MAX:
                raise CorruptError("a page header ends too early", offset=start) from None
            window *= 16
        except CorruptError:
            raise CorruptError("no page header", offset=start) from None
    page_size, crc = fields.get(_PAGE_SIZE), fields.get(_PAGE_CRC)
    if type(page_size) is not int or page_size < 0 or type(crc) not in (int, type(None)):
        raise CorruptError("a page header without a size", offset=start)
    return page_size, None if crc is None else crc & 0xFFFFFFFF, start + size
