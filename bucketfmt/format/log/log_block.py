"""One framed block of a Hudi log file: header map, content, length at both ends.

Pure. Source: HoodieLogBlock, HoodieLogFormatWriter.appendBlocks, HoodieLogFileReader.readBlock.

    "#HUDI#" | i64 length | i32 frame version | i32 block type | header
        | i64 n | n bytes of content | footer | i64 echo

`length` counts everything after itself; `echo` counts everything before itself. Header and footer
are `i32 entries`, then per entry `i32 key`, `i32 n`, n bytes of UTF-8; the footer is always empty.
All integers are big-endian. Hudi compares the lengths only on stores without atomic writes; here
they must always agree.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from bucketfmt.errors import CorruptError, TruncatedError, UnsupportedError
from bucketfmt.format.encoding.cursor import Buffer, Cursor

__all__ = [
    "MAGIC",
    "ROLLBACK_BLOCK",
    "BlockType",
    "CorruptSpan",
    "HeaderKey",
    "LogBlock",
    "decode_log_block",
    "encode_log_block",
    "encode_rollback_block",
    "find_damaged_instant",
]

MAGIC = b"#HUDI#"
ROLLBACK_BLOCK = "0"
"""The type of a command block by which blocks of an instant do not count, as header entry."""

_FRAME_VERSION = 1
_LENGTH_MIN = 4 + 4 + 4 + 8 + 4 + 8
_LENGTH_MAX = 2**31 - 1  # Hudi narrows the length to an int
_OUTSIDE_LENGTH = len(MAGIC) + 8
_HEADER_OFFSET = _OUTSIDE_LENGTH + 4 + 4
_FRAME_START = struct.Struct(">6sqii")


class BlockType(IntEnum):
    """The type of a block, by HoodieLogBlockType ordinal. Ordinal 2 (corrupt) is never written."""

    COMMAND = 0
    DELETE = 1
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(IntEnum):
    """Keys of the header map, by HeaderMetadataType ordinal."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


@dataclass(frozen=True, slots=True)
class LogBlock:
    """A block with a valid frame. Offsets count from the beginning of the file.

    Attributes:
        offset: Offset of the magic.
        end: Offset of the first byte after the block.
        block_type: The type of `content`.
        header: Values by key. Keys newer than `HeaderKey` are kept as plain integers, so that a
            block can be shown. A merge must refuse these keys (`select_blocks` does), because a key
            may change the meaning of the content, as IS_PARTIAL did.
        content_offset: Offset of `content`.
        content: A view into the file's bytes, not a copy.
    """

    offset: int
    end: int
    block_type: BlockType
    header: Mapping[int, str]
    content_offset: int
    content: memoryview

    @property
    def instant_time(self) -> str:
        """The instant that wrote the block.

        Raises:
            CorruptError: the header has no instant (only blocks of the archived timeline may lack
                it).
        """
        return self._required(HeaderKey.INSTANT_TIME)

    @property
    def target_instant_time(self) -> str:
        """The instant that a rollback block rolls back.

        Raises:
            CorruptError: the header has no target instant.
        """
        return self._required(HeaderKey.TARGET_INSTANT_TIME)

    @property
    def schema(self) -> str:
        """The Avro schema of the records in `content`, as JSON text.

        Raises:
            CorruptError: the header has no schema.
        """
        return self._required(HeaderKey.SCHEMA)

    @property
    def is_partial(self) -> bool:
        """Whether the rows hold only the columns that an update assigns."""
        return self.header.get(HeaderKey.IS_PARTIAL) == "true"

    def _required(self, key: HeaderKey) -> str:
        value = self.header.get(key)
        if value is None:
            raise CorruptError(
                f"{self.block_type.name} block without {key.name} in its header", offset=self.offset
            )
        return value


@dataclass(frozen=True, slots=True)
class CorruptSpan:
    """Bytes that are not a valid block. Hudi skips such bytes silently; here the reader decides.

    A write that failed may leave such a span in a table of version 6 and below. A span whose
    `instant_time` is committed, or any span in a file that a commit names, is lost data.

    Attributes:
        offset: Offset of the first byte of the span.
        end: Offset of the first byte after the span: the next magic, or the end of the file.
        reason: What is wrong, as text.
        truncated: Whether the file ends before the block does; then `end` is the end of the file.
        instant_time: The instant in the damaged header; None if it cannot be read.
    """

    offset: int
    end: int
    reason: str
    truncated: bool = False
    instant_time: str | None = None


def encode_rollback_block(instant: str, target: str) -> bytes:
    """Return the block of the rollback `instant` by which the blocks of `target` do not count."""
    header: dict[int, str] = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.COMMAND_BLOCK_TYPE: ROLLBACK_BLOCK,
        HeaderKey.TARGET_INSTANT_TIME: target,
    }
    return encode_log_block(BlockType.COMMAND, header)


def encode_log_block(
    block_type: BlockType, header: Mapping[int, str], content: Buffer = b""
) -> bytes:
    """Return one block. Header entries are written in the order of the mapping.

    Raises:
        ValueError: the block is longer than Hudi can read (2 GiB).
    """
    entries = [struct.pack(">i", len(header))]
    for key, value in header.items():
        text = value.encode()
        entries.append(struct.pack(">ii", key, len(text)) + text)
    header_bytes = b"".join(entries)
    content_size = len(memoryview(content).cast("B"))
    length = _LENGTH_MIN - 4 + len(header_bytes) + content_size
    if length > _LENGTH_MAX:
        raise ValueError(f"a log block of {length} bytes; Hudi reads at most {_LENGTH_MAX}")
    return b"".join(
        (
            _FRAME_START.pack(MAGIC, length, _FRAME_VERSION, block_type),
            header_bytes,
            struct.pack(">q", content_size),
            content,
            struct.pack(">iq", 0, length + len(MAGIC)),
        )
    )


def decode_log_block(cursor: Cursor) -> LogBlock:
    """Return the block at `cursor.position` and move past it (on an error: anywhere within it).

    As in Hudi (`HoodieLogFileReader.isBlockCorrupted`), the two lengths and the bytes after the
    block decide first whether the block is damaged: the next magic must follow, or fewer bytes than
    a magic has. The frame is decoded after that.

    Raises:
        TruncatedError: the bytes end within the block.
        CorruptError: magic, lengths or header do not agree, or other bytes follow the block.
        UnsupportedError: this release does not know the frame version or the block type.
        LimitError: the header has more entries or longer values than `limits` allow.
    """
    offset = cursor.position
    if cursor.take(len(MAGIC), "magic") != MAGIC:
        raise CorruptError("the magic is missing where a block must begin", offset=offset)
    length = cursor.i64("block length")
    if not _LENGTH_MIN <= length <= _LENGTH_MAX:
        raise CorruptError(f"impossible block length {length}", offset=offset)
    frame_offset = cursor.position
    frame = cursor.take(length, "block")
    echo = int.from_bytes(frame[-8:], "big", signed=True)
    if echo != length + len(MAGIC):
        raise CorruptError(
            f"block length {length} at the front, {echo - len(MAGIC)} at the end", offset=offset
        )
    following = cursor.data[cursor.position : min(cursor.position + len(MAGIC), cursor.end)]
    if len(following) == len(MAGIC) and following != MAGIC:
        raise CorruptError(
            "neither the magic nor the end of the file follows the block, at offset "
            f"{cursor.position}",
            offset=offset,
        )

    inner = Cursor(cursor.data, frame_offset, cursor.position - 8, cursor.limits)
    try:
        block_type, header, content_offset, content = _decode_frame(inner)
    except TruncatedError as error:  # the frame is all there: what it says of itself is wrong
        raise CorruptError(error.message, offset=error.offset) from error
    return LogBlock(offset, cursor.position, block_type, header, content_offset, content)


def _decode_frame(cursor: Cursor) -> tuple[BlockType, dict[int, str], int, memoryview]:
    """Return type, header, content offset and content of a block between its two lengths."""
    offset = cursor.position
    version = cursor.i32("frame version")
    if version != _FRAME_VERSION:
        raise UnsupportedError(
            f"log block frame version {version}; Hudi 0.15 to 1.2 read version 1 only",
            offset=offset,
        )
    ordinal = cursor.i32("block type")
    try:
        block_type = BlockType(ordinal)
    except ValueError:
        raise UnsupportedError(f"log block type {ordinal}", offset=offset) from None
    header = _decode_header(cursor)
    content_size = cursor.i64("content length")
    content_offset = cursor.position
    content = cursor.take(content_size, "block content")
    if cursor.i32("footer entries") != 0:
        raise CorruptError(
            "the block has a footer, which no Hudi release writes", offset=cursor.position
        )
    cursor.expect_end("log block")
    return block_type, header, content_offset, content


def _decode_header(cursor: Cursor) -> dict[int, str]:
    """Return the header map at the cursor."""
    entries = cursor.count(cursor.i32("header entries"), 8, "header entries")
    cursor.limits.check("log_header_entries_max", entries)
    header: dict[int, str] = {}
    for _ in range(entries):
        key, value = _decode_header_entry(cursor)
        if key < 0 or key in header:
            raise CorruptError(f"header key {key} is negative or repeated", offset=cursor.position)
        header[key] = value
    return header


def _decode_header_entry(cursor: Cursor) -> tuple[int, str]:
    key = cursor.i32("header key")
    size = cursor.count(cursor.i32("header value length"), 1, "header value")
    cursor.limits.check("log_header_value_bytes_max", size)
    return key, cursor.utf8(size, "header value")


def find_damaged_instant(cursor: Cursor) -> str | None:
    """Return the INSTANT_TIME in the header of a block with a damaged frame; None if unreadable.

    The instant is evidence only, of whether the damage is in a commit or in a failed write.
    `cursor` is at the magic, and is moved.
    """
    try:
        cursor.take(_HEADER_OFFSET, "frame")
        for _ in range(min(cursor.i32("header entries"), cursor.limits.log_header_entries_max)):
            key, value = _decode_header_entry(cursor)
            if key == HeaderKey.INSTANT_TIME:
                return value if value.isascii() and value.isdigit() else None
    except CorruptError:
        pass
    return None
