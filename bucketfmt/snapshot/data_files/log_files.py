"""The blocks of one log file, with damage told from writes that were never committed.

I/O: reads a log file whole. Damage in what a commit wrote is an error here, where Hudi passes over
it (docs/decisions/0003).
"""

from __future__ import annotations

from collections.abc import Iterable

from bucketfmt.errors import BucketfmtError, CorruptError, NotFoundError
from bucketfmt.format.log.log_block import CorruptSpan, LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.limits import Limits
from bucketfmt.snapshot.data_files.files import DataFile
from bucketfmt.storage.store import Store

__all__ = ["check_spans", "load_log_file"]


def load_log_file(store: Store, file: DataFile, limits: Limits) -> list[LogBlock | CorruptSpan]:
    """Return the blocks of one log file; every corrupt span left in it was never committed.

    Raises:
        CorruptError: the file is missing, shorter than recorded, or damaged where a commit
            wrote to it.
    """
    file.check_exists()
    try:
        spans = list(decode_log_file(store.read(file.path, limits.log_file_bytes_max), limits))
        check_spans(spans, file.written.spans if file.written else None)
    except CorruptError as error:
        raise file.explained(error).within(path=file.path) from None
    except NotFoundError:
        raise file.gone() from None
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
