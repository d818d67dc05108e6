"""The log blocks to merge over a file slice's base file.

I/O: reads the log files whole. Damage in what a commit wrote is an error here, where Hudi
passes over it (docs/decisions/0003).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeGuard

from bucketfmt.errors import BucketfmtError, CorruptError, NotFoundError
from bucketfmt.format.log.log_block import CorruptSpan, HeaderKey, LogBlock
from bucketfmt.format.log.log_file import select_blocks
from bucketfmt.format.log.virtual_log import is_virtual_log
from bucketfmt.slices.cross_checks import find_left_out
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.snapshot.data_files.log_files import load_log_file
from bucketfmt.snapshot.data_files.virtual_logs import load_pointed
from bucketfmt.snapshot.overtaken import find_what_overtook
from bucketfmt.snapshot.read_basis import ReadBasis
from bucketfmt.storage.streams import map_in_order, waiting_count
from bucketfmt.timeline.load import load_timeline

__all__ = ["SliceBlock", "load_blocks"]


class SliceBlock(NamedTuple):
    """A block to merge and the log file it is in."""

    path: str
    block: LogBlock

    def place(self, error: BucketfmtError) -> BucketfmtError:
        """Return an error met in the content, naming the file and where the block begins."""
        error.offset = self.block.offset
        return error.within(path=self.path)


def load_blocks(
    basis: ReadBasis, file_slice: FileSlice, is_valid_instant: Callable[[str], bool] | None
) -> tuple[list[SliceBlock], set[str]]:
    """Return the data and delete blocks of a slice, oldest first.

    In the place of the block of a virtual log are the blocks that it stands for.
    `is_valid_instant` is that of `select_blocks`.

    Returns:
        The blocks, and the instants whose blocks are left out (`find_left_out`).

    Raises:
        CorruptError: a log file is missing, shorter than recorded, or damaged where a commit
            wrote it.
        NotFoundError: a log file is gone since the listing.
    """
    paths: dict[int, str] = {}
    compacted: list[LogBlock] = []
    path = ""

    def load(file: DataFile) -> list[LogBlock | CorruptSpan]:
        try:
            return load_log_file(basis.store, file, basis.limits)
        except NotFoundError:
            if not _was_withdrawn(basis, file):
                raise
            return []

    def files() -> Iterator[list[LogBlock | CorruptSpan]]:
        nonlocal path
        logs = file_slice.log_files
        workers = min(len(logs), waiting_count(basis.store))
        for file, spans in zip(logs, map_in_order(load, logs, workers), strict=True):
            path = file.path
            paths.update((id(span), path) for span in spans)
            compacted.extend(filter(_is_compacted, spans))
            yield spans

    try:
        selected = select_blocks(
            files(), latest_instant=basis.as_of, is_valid_instant=is_valid_instant
        )
    except BucketfmtError as error:
        raise error.within(path=path, partition=file_slice.partition_path) from None
    found: list[SliceBlock] = []
    for block in selected:
        if not is_virtual_log(block):
            found.append(SliceBlock(paths[id(block)], block))
            continue
        try:
            pointed = load_pointed(basis.store, file_slice.partition_path, block, basis.limits)
            found += [SliceBlock(*each) for each in pointed]
        except CorruptError as error:
            raise error.within(path=paths[id(block)]) from None
    return found, find_left_out(compacted, selected)


def _is_compacted(span: LogBlock | CorruptSpan) -> TypeGuard[LogBlock]:
    """Whether log compaction wrote a block."""
    return not isinstance(span, CorruptSpan) and HeaderKey.COMPACTED_BLOCK_TIMES in span.header


def _was_withdrawn(basis: ReadBasis, file: DataFile) -> bool:
    """Whether a log file was one of a write that failed since the listing, and took it back.

    Where the name of a log file does not tell its write, files of writes under way are listed too.
    """
    if basis.timeline is None or file.written is not None:
        return False
    now = load_timeline(basis.store, basis.config, basis.limits)
    return find_what_overtook(basis.timeline, now) is None
