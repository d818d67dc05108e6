"""The blocks of a log file, a window at a time, so that memory follows the largest block.

I/O, read only. What `decode_log_file` does of a file in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bucketfmt.errors import CorruptError
from bucketfmt.format.encoding.cursor import Cursor
from bucketfmt.format.log.log_block import MAGIC, CorruptSpan, LogBlock, decode_log_block
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.limits import Limits
from bucketfmt.storage.store import Store

__all__ = ["iter_log_spans"]

_WINDOW = 8 << 20
_FRONT = len(MAGIC) + 8  # magic and length


def iter_log_spans(
    store: Store, path: str, size: int, limits: Limits
) -> Iterator[LogBlock | CorruptSpan]:
    """Yield blocks and damaged spans, offsets counting from the beginning of the file.

    A block's content is gone once the next is asked for.

    Raises:
        UnsupportedError: a sound frame of a version or type this release does not know.
        LimitError: the file, its number of blocks or a header exceeds `limits`.
        StorageError: the store fails.
    """
    limits.check("log_file_bytes_max", size)
    start = base = blocks = 0
    window = memoryview(b"")
    while start < size:
        limits.check("log_blocks_per_file_max", blocks := blocks + 1)
        end = start + _FRONT
        while min(end, size) > base + len(window):
            wanted = min(max(end - start, _WINDOW), size - start)
            window, base = memoryview(store.read_ranges(path, [(start, wanted)])[0]), start
        length = int.from_bytes(window[start - base + len(MAGIC) :][:8], "big", signed=True)
        end = min(end + max(length, 0) + len(MAGIC), size)
        if end > base + len(window):
            window, base = memoryview(store.read_ranges(path, [(start, end - start)])[0]), start
        block = _try_decode(window, start - base, base + len(window) == size, limits)
        if block is None:
            for span in decode_log_file(
                store.read_ranges(path, [(start, size - start)])[0], limits
            ):
                yield _moved(span, start)
            return
        yield _moved(block, base)
        start = base + block.end


def _try_decode(
    window: memoryview, start: int, reaches_end: bool, limits: Limits
) -> LogBlock | None:
    """Return the block at `start`; None where `decode_log_file` has to look for the next."""
    try:
        block = decode_log_block(Cursor(window, start, limits=limits))
    except CorruptError:
        return None
    behind = window[block.end : block.end + len(MAGIC)]
    return block if behind == MAGIC or (reaches_end and not len(behind)) else None


def _moved(span: LogBlock | CorruptSpan, by: int) -> LogBlock | CorruptSpan:
    if isinstance(span, CorruptSpan):
        return replace(span, offset=span.offset + by, end=span.end + by)
    return replace(
        span,
        offset=span.offset + by,
        end=span.end + by,
        content_offset=span.content_offset + by,
    )
