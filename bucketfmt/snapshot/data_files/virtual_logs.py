"""The blocks that the block of a virtual log stands for.

I/O: reads the log files that the block names. Spec: VLOG-3 to VLOG-5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bucketfmt.errors import BucketfmtError, CorruptError
from bucketfmt.format.log.log_block import BlockType, CorruptSpan, LogBlock
from bucketfmt.format.log.log_file import check_block_header
from bucketfmt.format.log.virtual_log import decode_virtual_log, is_virtual_log
from bucketfmt.format.names.paths import join_path
from bucketfmt.limits import Limits
from bucketfmt.snapshot.data_files.files import DataFile
from bucketfmt.snapshot.data_files.log_files import load_log_file
from bucketfmt.storage.store import Store
from bucketfmt.storage.streams import map_in_threads, waiting_count

__all__ = ["followed", "load_pointed"]


def followed(
    store: Store, path: str, spans: Iterable[LogBlock | CorruptSpan], limits: Limits
) -> Iterator[LogBlock | CorruptSpan]:
    """Yield what a log file holds, with the blocks that a virtual log stands for in its place.

    Errors as of `load_pointed`.
    """
    for span in spans:
        if isinstance(span, LogBlock) and is_virtual_log(span):
            for _, block in load_pointed(store, path.rpartition("/")[0], span, limits):
                yield block
        else:
            yield span


def load_pointed(
    store: Store, partition_path: str, block: LogBlock, limits: Limits
) -> Iterator[tuple[str, LogBlock]]:
    """Yield the blocks that a block stands for, in the order to merge, and the files they are in.

    Args:
        store: The files of the table.
        partition_path: The partition of the block.
        block: The block of a virtual log.
        limits: Bounds on what is read.

    Raises:
        CorruptError: the block, or a log file that it names, is damaged.
        NotFoundError: a log file is gone.
    """
    log = decode_virtual_log(block, limits)

    files = [
        DataFile(join_path(partition_path, str(file.name)), file.name, file.size)
        for file in log.files
    ]

    def load(file: DataFile) -> list[LogBlock]:
        try:
            return _checked(load_log_file(store, file, limits), file, log.instant)
        except BucketfmtError as error:
            raise error.within(path=file.path) from None

    for file, blocks in zip(files, map_in_threads(load, files, waiting_count(store)), strict=True):
        yield from ((file.path, block) for block in blocks)


def _checked(
    spans: Sequence[LogBlock | CorruptSpan], file: DataFile, instant: str
) -> list[LogBlock]:
    """Return the blocks of a file that a virtual log of an instant names."""
    end = spans[-1].end if spans else 0
    if end != file.size:
        raise CorruptError(f"{end} bytes, where a virtual log says {file.size}; restore the file")
    blocks = []
    for span in spans:
        if isinstance(span, CorruptSpan):
            raise CorruptError(f"{span.reason}; restore the file", offset=span.offset)
        check_block_header(span)
        if span.block_type is BlockType.COMMAND or span.instant_time != instant:
            raise CorruptError(
                f"a {span.block_type.name} block that is not of the write of {instant}, whose "
                "virtual log names the file; restore the file",
                offset=span.offset,
            )
        blocks.append(span)
    return blocks
