"""The bytes of a parquet footer, read without the bloom filter that lies in it.

Hudi writes the bloom filter of a base file as text among the entries of the footer: 430 kB, in a
footer of 4 kB without it. Only the bytes before and after the filter are read, and whatever parses
the footer is given a footer with `PLACEHOLDER` as the filter.

Reads only the source it is given. Sources: parquet.thrift, HoodieBloomFilterWriteSupport.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from bucketfmt.errors import CorruptError, TruncatedError, UnsupportedError
from bucketfmt.rows.parquet.parquet_chunks import MAGIC, Span
from bucketfmt.rows.parquet.thrift_compact import read_varint

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["BLOOM_KEY", "FooterBytes", "read_bloom_text", "read_footer"]

BLOOM_KEY = "org.apache.hudi.bloomfilter"

_PLACEHOLDER = b"bloom filter ..."
_FILLED_IN = bytes([len(_PLACEHOLDER)]) + _PLACEHOLDER
# KeyValue of parquet.thrift: fields 1 and 2 are texts; the length of the second text follows.
_BLOOM_ENTRY = b"\x18" + bytes([len(BLOOM_KEY)]) + BLOOM_KEY.encode() + b"\x18"
_TAIL_BYTES = 8 << 10  # the entries after the filter; stores that are slow to answer read ahead
_HEAD_BYTES = 8 << 10  # the columns of some fifty chunks, and the entries before the filter
_END_BYTES = 8  # the length of the footer, and the magic


@dataclass(frozen=True)
class FooterBytes:
    """A FileMetaData and where it lies.

    Attributes:
        thrift: The FileMetaData, perhaps without the text of its bloom filter.
        start: The offset of the FileMetaData in the file.
        size: The bytes of the FileMetaData in the file.
        bloom_text: Where in the file the text lies that `thrift` leaves out; None if it leaves
            out nothing.
    """

    thrift: bytes
    start: int
    size: int
    bloom_text: Span | None = None

    @property
    def file(self) -> pa.NativeFile:
        """A parquet file of the footer alone."""
        return pa.BufferReader(MAGIC + self.thrift + len(self.thrift).to_bytes(4, "little") + MAGIC)


def read_footer(
    source: pa.NativeFile, parse: Callable[[pa.NativeFile], pq.ParquetFile], text_max: int
) -> tuple[FooterBytes, pq.ParquetFile]:
    """Return the footer of a file, as bytes and parsed, in one to three reads.

    Args:
        source: The file.
        parse: Opens a parquet file, here one of the footer alone; raises CorruptError.
        text_max: The length of the longest text that `parse` accepts.

    Raises:
        CorruptError: the file does not end like a parquet file, or the footer does not parse.
        UnsupportedError: the file is encrypted.
    """
    size = source.size()
    tail_at = max(size - _TAIL_BYTES, 0)
    tail = _read_at(source, tail_at, size)
    if tail[-4:] == b"PARE":
        raise UnsupportedError("the file is encrypted")
    if size < 3 * len(MAGIC) or tail[-4:] != MAGIC:
        raise CorruptError("it does not end like a parquet file", offset=size)
    length, end = int.from_bytes(tail[-8:-4], "little"), size - _END_BYTES
    if length > end - len(MAGIC):
        raise CorruptError("parquet footer: it would begin before the file", offset=end)
    start = end - length
    if start >= tail_at:
        whole = FooterBytes(tail[start - tail_at : -_END_BYTES], start, length)
        return whole, parse(whole.file)
    head = _read_at(source, start, min(start + _HEAD_BYTES, tail_at))
    short = _without_bloom_text(head, start, tail[:-_END_BYTES], tail_at)
    if short is not None and short.size - len(short.thrift) <= text_max:
        with suppress(CorruptError, UnsupportedError):
            parsed = parse(short.file)
            if _is_placed(parsed.metadata, short):
                return short, parsed
    rest = _read_at(source, start + len(head), tail_at)
    whole = FooterBytes(head + rest + tail[:-_END_BYTES], start, length)
    return whole, parse(whole.file)


def _without_bloom_text(head: bytes, start: int, tail: bytes, tail_at: int) -> FooterBytes | None:
    """Return the footer without the text of its bloom filter; None if the text is not found.

    Args:
        head: The bytes from `start` on, where the footer begins.
        start: The offset of `head` in the file.
        tail: The bytes from `tail_at` to the end of the footer.
        tail_at: The offset of `tail` in the file.
    """
    found = head.find(_BLOOM_ENTRY)
    if found < 0:
        return None
    length_at = found + len(_BLOOM_ENTRY)
    try:
        length, text_at = read_varint(head, length_at)
    except (IndexError, CorruptError):
        return None
    text = Span(start + text_at, start + text_at + length)
    if not tail_at <= text.end <= tail_at + len(tail):
        return None
    short = head[:length_at] + _FILLED_IN + tail[text.end - tail_at :]
    if short.find(_PLACEHOLDER) != length_at + 1 or short.count(_PLACEHOLDER) != 1:
        return None
    return FooterBytes(short, start, tail_at + len(tail) - start, text)


def _is_placed(metadata: pq.FileMetaData, short: FooterBytes) -> bool:
    """Return whether a text was left out where a parser of the whole footer finds the filter.

    The bytes that look like the entry of the filter may lie within a value. But `_PLACEHOLDER` is
    in the footer only once: a parser that finds it as the value of the entry came to the length of
    that value after the same bytes as in the file, and a parser reads ahead nowhere. So in the file
    it finds the length there too, and goes on after the text.
    """
    entries = metadata.metadata or {}
    is_whole = metadata.serialized_size == len(short.thrift)
    return is_whole and entries.get(BLOOM_KEY.encode()) == _PLACEHOLDER


def read_bloom_text(source: pa.NativeFile, footer: FooterBytes) -> bytes | None:
    """Return the text that a footer leaves out; None if it leaves out nothing.

    Raises:
        TruncatedError: the file was cut meanwhile.
    """
    if footer.bloom_text is None:
        return None
    return _read_at(source, *footer.bloom_text)


def _read_at(source: pa.NativeFile, start: int, end: int) -> bytes:
    found: bytes = source.read_at(end - start, start)
    if len(found) != end - start:
        raise TruncatedError("the file ends within its footer", offset=start + len(found))
    return found
