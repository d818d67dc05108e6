"""The indexes of an HFile: which block holds which keys.

Pure. Source: HFileRootIndexBlock, HFileMetaIndexBlock; HBase's HFileBlockIndex for more levels.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from bucketfmt.errors import CorruptError
from bucketfmt.format.encoding.cursor import Buffer, Cursor
from bucketfmt.format.hfile.entries import KEY_SUFFIX
from bucketfmt.format.hfile.variable_length import decode_hadoop_vint, encode_hadoop_vint
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "BlockPlace",
    "decode_branch_index",
    "decode_meta_index",
    "decode_root_index",
    "encode_index",
    "key_of_row",
    "row_of_key",
]

_ROW_LENGTH_BYTES = 2
_ENTRY_BYTES_MIN = 13  # offset, size, a length of one byte
_SHORT_ENTRY = struct.Struct(">qibh")  # offset, size, bytes of the key, bytes of the row


class BlockPlace(NamedTuple):
    """A block that an index points to.

    Attributes:
        first: No key in the block is smaller, and no key in a block before is as large. HBase's
            writer may shorten it, so that it need not be a key. Of a meta block: its name.
        offset: Where the block begins in the file.
        size: Bytes of the block in the file, its header included.
    """

    first: bytes
    offset: int
    size: int


def row_of_key(key: memoryview) -> bytes:
    """Return the row of a key: what Hudi calls the key of a record.

    HBase's writer puts the whole key into its indexes: int16 length, row, and ten bytes more.
    Hudi's own writer leaves the ten bytes out.

    Raises:
        CorruptError: the length of the row is not that of the bytes.
    """
    row_bytes = int.from_bytes(key[:_ROW_LENGTH_BYTES], "big", signed=True)
    rest = len(key) - _ROW_LENGTH_BYTES - row_bytes
    if row_bytes < 0 or rest not in (0, len(KEY_SUFFIX)):
        raise CorruptError("a key in an HFile's index has another length than it says")
    return bytes(key[_ROW_LENGTH_BYTES : _ROW_LENGTH_BYTES + row_bytes])


def key_of_row(row: bytes) -> bytes:
    """Return the whole key of a row, as HBase writes it: int16 length, row, and ten bytes more."""
    return len(row).to_bytes(_ROW_LENGTH_BYTES, "big") + row + KEY_SUFFIX


def decode_root_index(
    content: Buffer, count: int, *, is_whole: bool = True, limits: Limits = DEFAULT_LIMITS
) -> list[BlockPlace]:
    """Return the entries of a root index.

    Args:
        content: Of the block.
        count: How many entries there are, as the trailer says.
        is_whole: Nothing follows the entries. With several levels, HBase's writer adds where the
            key in the middle of the file is.
        limits: Bounds on what is allocated.

    Raises:
        CorruptError: the content is no root index.
    """
    cursor = Cursor(content, limits=limits)
    count = cursor.count(count, _ENTRY_BYTES_MIN, "entries of an HFile's index")
    places, cursor.position = _decode_short(content, count)
    while len(places) < count:
        offset, size = cursor.i64("offset of a block"), cursor.i32("size of a block")
        places.append(BlockPlace(row_of_key(_take_key(cursor)), offset, size))
    if is_whole:
        cursor.expect_end("HFile index")
    return places


def _decode_short(content: Buffer, count: int) -> tuple[list[BlockPlace], int]:
    """Return the first entries, up to one with a long or damaged key, and where they end.

    A file has thousands of entries, nearly all with keys of up to 127 bytes.
    """
    data, position, places = bytes(content), 0, list[BlockPlace]()
    last = len(data) - _SHORT_ENTRY.size
    while len(places) < count and position <= last:
        offset, size, key_bytes, row_bytes = _SHORT_ENTRY.unpack_from(data, position)
        row = position + _SHORT_ENTRY.size
        end = row + key_bytes - _ROW_LENGTH_BYTES
        if not 0 <= row_bytes == key_bytes - _ROW_LENGTH_BYTES - len(KEY_SUFFIX) or end > len(data):
            break
        places.append(BlockPlace(data[row : row + row_bytes], offset, size))
        position = end
    return places, position


def _take_key(cursor: Cursor) -> memoryview:
    """Return the next key of a root index.

    Hudi 1.1 writes the length as protobuf's varint instead of Hadoop's, which differ from 128 on.
    The key itself says which of the two it is.
    """
    start = cursor.position
    try:
        key = cursor.take(decode_hadoop_vint(cursor), "key of an HFile's index")
        row_of_key(key)
    except CorruptError as hadoops:
        cursor.position = start
        try:
            key = cursor.take(cursor.varint(what="length of a key"), "key of an HFile's index")
            row_of_key(key)
        except CorruptError:
            raise hadoops from None
    return key


def decode_meta_index(
    content: Buffer, count: int, limits: Limits = DEFAULT_LIMITS
) -> dict[str, BlockPlace]:
    """Return the entries of a meta index by the names of the meta blocks.

    Raises:
        CorruptError: the content is no meta index.
    """
    cursor = Cursor(content, limits=limits)
    places = {}
    for _ in range(cursor.count(count, _ENTRY_BYTES_MIN, "entries of an HFile's meta index")):
        offset, size = cursor.i64("offset of a block"), cursor.i32("size of a block")
        name = cursor.utf8(decode_hadoop_vint(cursor), "name of a meta block")
        places[name] = BlockPlace(name.encode(), offset, size)
    cursor.expect_end("HFile meta index")
    return places


def decode_branch_index(content: Buffer, limits: Limits = DEFAULT_LIMITS) -> list[BlockPlace]:
    """Return the entries of an intermediate or a leaf index, which HBase's writer makes.

    Raises:
        CorruptError: the content is no such index.
    """
    cursor = Cursor(content, limits=limits)
    count = cursor.count(cursor.i32("entries of an HFile's index"), 16, "entries of an index")
    ends = [cursor.i32("place of an index entry") for _ in range(count + 1)]
    base = cursor.position
    places = []
    for start, end in pairwise(ends):
        if cursor.position != base + start or end < start:
            raise CorruptError("the entries of an HFile's index overlap", offset=cursor.position)
        offset, size = cursor.i64("offset of a block"), cursor.i32("size of a block")
        key = cursor.take(base + end - cursor.position, "key of an HFile's index")
        places.append(BlockPlace(row_of_key(key), offset, size))
    return places


def encode_index(places: Iterable[BlockPlace], *, is_meta: bool = False) -> bytes:
    """Return the content of a root index or, of names as they are, of a meta index.

    Keys are whole, as HBase writes them. All readers take such keys, and HBase's reader, which
    Hudi 0.15 has, fails in a file of several blocks on the shorter keys of Hudi's own writer.
    """
    content = bytearray()
    for place in places:
        key = place.first
        if not is_meta:
            key = key_of_row(key)
        content += place.offset.to_bytes(8, "big") + place.size.to_bytes(4, "big")
        content += encode_hadoop_vint(len(key)) + key
    return bytes(content)
