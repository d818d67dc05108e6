"""A log file as a sequence of blocks, and the choice of blocks of a file slice to merge.

Pure. Source: HoodieLogFileReader (resynchronising), BaseHoodieLogRecordReader.scanInternal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from bucketfmt.errors import CorruptError, TruncatedError, UnsupportedError
from bucketfmt.format.encoding.cursor import Buffer, Cursor
from bucketfmt.format.log.log_block import (
    MAGIC,
    ROLLBACK_BLOCK,
    BlockType,
    CorruptSpan,
    HeaderKey,
    LogBlock,
    decode_log_block,
    find_damaged_instant,
)
from bucketfmt.format.log.virtual_log import VIRTUAL_LOG, is_virtual_log
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = ["check_block_header", "covers_file", "decode_log_file", "select_blocks"]

_FIND_MAGIC = re.compile(re.escape(MAGIC))
_INSTANT = re.compile(r"[0-9]+")
_SYNTAX = {
    HeaderKey.INSTANT_TIME: _INSTANT,
    HeaderKey.TARGET_INSTANT_TIME: _INSTANT,
    HeaderKey.SCHEMA: re.compile(".*", re.DOTALL),
    HeaderKey.COMMAND_BLOCK_TYPE: re.compile(r"[0-9]+"),
    HeaderKey.COMPACTED_BLOCK_TIMES: re.compile(r"[0-9]+(,[0-9]+)*"),
    HeaderKey.RECORD_POSITIONS: re.compile(r"([A-Za-z0-9+/]{4}){2,}[A-Za-z0-9+/=]{4}"),
    HeaderKey.BLOCK_IDENTIFIER: re.compile(r"[0-9]+,[0-9]+"),
    HeaderKey.IS_PARTIAL: re.compile(r"true|false"),
    HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: _INSTANT,
}
_OF_COMMANDS = frozenset({HeaderKey.TARGET_INSTANT_TIME, HeaderKey.COMMAND_BLOCK_TYPE})


def decode_log_file(
    data: Buffer, limits: Limits = DEFAULT_LIMITS
) -> Iterator[LogBlock | CorruptSpan]:
    """Yield the blocks of a log file in order, and a `CorruptSpan` for bytes that are not a block.

    The blocks and spans cover the file from its first byte to its last (`covers_file`). Blocks are
    cut as in Hudi: a block counts only if the next magic or the end of the file follows it, and
    after damage the search for a magic continues right after the last magic. So one damaged magic
    costs the previous block too, as in Hudi. Two cases that Hudi does not report are spans here: up
    to five loose bytes at the end, and a file that does not begin with a magic (on which Hudi
    fails).

    Raises:
        UnsupportedError: a valid frame has a version or a type that this release does not know.
        LimitError: the file, its number of blocks or a header exceeds `limits`.
    """
    view = memoryview(data).cast("B")
    size = limits.check("log_file_bytes_max", len(view))
    cursor = Cursor(view, limits=limits)
    spans = 0
    while (offset := cursor.position) < size:
        spans = limits.check("log_blocks_per_file_max", spans + 1)
        span: LogBlock | CorruptSpan
        try:
            span = decode_log_block(cursor)
        except CorruptError as error:
            span = _corrupt_span(view, offset, error, limits)
        cursor.position = span.end
        yield span


def _corrupt_span(
    view: memoryview, offset: int, error: CorruptError, limits: Limits
) -> CorruptSpan:
    at_magic = view[offset : offset + len(MAGIC)] == MAGIC
    found = _FIND_MAGIC.search(view, offset + (len(MAGIC) if at_magic else 1))
    end = found.start() if found else len(view)
    truncated = found is None and isinstance(error, TruncatedError)
    return CorruptSpan(
        offset,
        end,
        f"truncated: {error.message}" if truncated else error.message,
        truncated,
        find_damaged_instant(Cursor(view, offset, end, limits)) if at_magic else None,
    )


def covers_file(spans: Iterable[LogBlock | CorruptSpan], size: int) -> bool:
    """Return whether the spans follow each other without gap or overlap from 0 to `size`.

    Without a `CorruptSpan` among the spans, True means that every byte of the file belongs to a
    valid block. A file that was cut exactly between two blocks looks whole; only the size in the
    commit metadata shows the cut.
    """
    position = 0
    for span in spans:
        if span.offset != position or span.end <= position:
            return False
        position = span.end
    return position == size


def select_blocks(
    files: Iterable[Sequence[LogBlock | CorruptSpan]],
    *,
    latest_instant: str | None = None,
    is_valid_instant: Callable[[str], bool] | None = None,
) -> list[LogBlock]:
    """Return the data and delete blocks of a file slice to merge, oldest first.

    The block of a virtual log is among them, in the place of the blocks that it stands for.

    Blocks are grouped by instant, in the order in which the instants are first seen. Left out are
    blocks of instants that are later than `latest_instant` or not valid, and blocks read before a
    rollback block of their instant (rollback blocks are never left out themselves). An instant of a
    log compaction takes the place of the latest instant that it covers, and the covered instants
    are left out; it is left out itself if the slice has none of the covered instants.

    Hudi 0.15 and, by default, 1.0 do not group the blocks: they merge blocks in file order. The
    results differ only if instants interleave within a slice. As in 0.15 and 1.2, BLOCK_IDENTIFIER
    is ignored, which only 0.14 and 1.0 use to drop the blocks of a retried task: merging the same
    records twice changes nothing.

    Args:
        files: The log files of the slice in Hudi's order (`LogFileName.sort_key`), without CDC
            files. Corrupt spans are skipped; the caller refuses spans that matter.
        latest_instant: The latest instant to include; None for no bound.
        is_valid_instant: For table version 6 and below: returns whether an instant is completed (or
            before the start of the active timeline). None for version 8 and up, where the file name
            decides. An incremental read may exclude more instants.

    Raises:
        CorruptError: a block has no instant, or a rollback block has no target.
        UnsupportedError: the slice has a CDC block, a command other than rollback and virtual log,
            or a header key that is newer than this release.
    """
    by_instant: dict[str, list[LogBlock]] = {}
    for file in files:
        for block in file:
            if isinstance(block, CorruptSpan):
                continue
            check_block_header(block)
            if block.block_type is BlockType.COMMAND and not is_virtual_log(block):
                by_instant.pop(block.target_instant_time, None)
                continue
            instant = block.instant_time
            if latest_instant is not None and instant > latest_instant:
                continue
            if is_valid_instant is not None and not is_valid_instant(instant):
                continue
            by_instant.setdefault(instant, []).append(block)
    return [block for instant in _place_compacted(by_instant) for block in by_instant[instant]]


def check_block_header(block: LogBlock) -> None:
    """Refuse a block whose header does not determine how to merge the block.

    Raises:
        CorruptError: a value does not have the form of its key.
        UnsupportedError: the block is a CDC block or a command other than rollback and virtual log,
            or has a newer header key.
    """
    unknown = sorted(block.header.keys() - set(HeaderKey))
    if unknown:
        raise UnsupportedError(
            f"log block header key {unknown[0]}, which may change what the block means",
            offset=block.offset,
        )
    for key, value in block.header.items():
        known = HeaderKey(key)
        of_commands = known in _OF_COMMANDS and block.block_type is not BlockType.COMMAND
        if of_commands or _SYNTAX[known].fullmatch(value) is None:
            raise CorruptError(
                f"log block header {known.name} is {value[:40]!r} in a {block.block_type.name} "
                "block; restore the file",
                offset=block.offset,
            )
    if block.block_type is BlockType.CDC_DATA:
        raise UnsupportedError("a CDC block outside a CDC file", offset=block.offset)
    if block.block_type is BlockType.COMMAND:
        command = block.header.get(HeaderKey.COMMAND_BLOCK_TYPE)
        if command not in (ROLLBACK_BLOCK, VIRTUAL_LOG):
            raise UnsupportedError(f"command block of type {command}", offset=block.offset)


def _place_compacted(by_instant: dict[str, list[LogBlock]]) -> list[str]:
    """Return the instants to merge, oldest first, given all instants in first-seen order."""
    final_instant: dict[
        str, str
    ] = {}  # covered instant -> the compacted instant that ends the chain
    newest_first: dict[str, None] = {}
    for instant, blocks in reversed(by_instant.items()):
        covered = blocks[0].header.get(HeaderKey.COMPACTED_BLOCK_TIMES)
        if covered is None:
            newest_first.setdefault(final_instant.get(instant, instant))
        else:
            final = final_instant.get(instant, instant)
            final_instant.update(dict.fromkeys(covered.split(","), final))
    return list(newest_first)[::-1]
