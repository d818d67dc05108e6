"""The log blocks to merge over a file slice's base file.

I/O: reads the log files whole. Damage in what a commit wrote is an error here, where Hudi
passes over it (docs/decisions/0003).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from bucketfmt.errors import BucketfmtError, CorruptError, NotFoundError
from bucketfmt.format.log_block import CorruptSpan, LogBlock
from bucketfmt.format.log_file import decode_log_file, select_blocks
from bucketfmt.limits import Limits
from bucketfmt.storage.store import Store
from bucketfmt.table.files import DataFile, FileSlice
from bucketfmt.table.overtaken import find_what_overtook
from bucketfmt.table.read_basis import ReadBasis
from bucketfmt.timeline.load import load_timeline

__all__ = ["SliceBlock", "load_blocks", "load_log_file"]


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
) -> list[SliceBlock]:
    """Return the data and delete blocks of a slice, oldest first.

    `is_valid_instant` is that of `select_blocks`.

    Raises:
        CorruptError: a log file is missing, shorter than recorded, or damaged where a commit
            wrote it.
        NotFoundError: a log file is gone since the listing.
    """
    paths: dict[int, str] = {}
    path = ""

    def files() -> Iterator[list[LogBlock | CorruptSpan]]:
        nonlocal path
        for file in file_slice.log_files:
            path = file.path
            try:
                spans = load_log_file(basis.store, file, basis.limits)
            except NotFoundError:
                if not _was_withdrawn(basis, file):
                    raise
                continue
            paths.update((id(span), path) for span in spans)
            yield spans

    try:
        selected = select_blocks(
            files(), latest_instant=basis.as_of, is_valid_instant=is_valid_instant
        )
    except BucketfmtError as error:
        raise error.within(path=path, partition=file_slice.partition_path) from None
    return [SliceBlock(paths[id(block)], block) for block in selected]


def _was_withdrawn(basis: ReadBasis, file: DataFile) -> bool:
    """Whether a log file was one of a write that failed since the listing, and took it back.

    Until table version 6 the name of a log file does not tell its write, so that files of writes
    under way are listed too.
    """
    if basis.timeline is None or file.written is not None:
        return False
    now = load_timeline(basis.store, basis.config, basis.limits)
    return find_what_overtook(basis.timeline, now) is None


def load_log_file(store: Store, file: DataFile, limits: Limits) -> list[LogBlock | CorruptSpan]:
    """Return the blocks of one log file; every corrupt span left in it was never committed.

    Raises:
        CorruptError: as `load_blocks` says.
    """
    file.check_exists()
    try:
        spans = list(decode_log_file(store.read(file.path, limits.log_file_bytes_max), limits))
        check_spans(spans, file.written.spans if file.written else None)
    except CorruptError as error:
        raise file.explained(error).within(path=file.path) from None
    except BucketfmtError as error:
        raise error.within(path=file.path) from None
    return spans


def check_spans(
    spans: Iterable[LogBlock | CorruptSpan], committed: tuple[tuple[int, int], ...] | None
) -> None:
    """Refuse a corrupt span in the byte ranges that commits wrote; None: nobody knows them.

    Raises:
        CorruptError: there is one.
    """
    for span in spans:
        if isinstance(span, CorruptSpan) and (
            committed is None
            or any(span.offset < end and start < span.end for start, end in committed)
        ):
            raise CorruptError(
                f"{span.end - span.offset} bytes of a committed log file are no sound block: "
                f"{span.reason}; restore the file",
                offset=span.offset,
            )
