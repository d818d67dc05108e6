"""The log files of a write that nothing but their blocks tells of any more.

I/O: lists all partitions, and reads log files. Until table version 6 a log file bears the instant
of its slice. What a write logged is told by its markers, and once it is completed by the file of
its instant; markers are deleted then. If that file was emptied, or moved away so that the write is
pending again, the headers of the blocks alone have the instant of the write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bucketfmt.errors import BucketfmtError, NotFoundError
from bucketfmt.format.log.log_block import BlockType, LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.names.names import IoType, LogFileName, MarkerName
from bucketfmt.limits import Limits
from bucketfmt.snapshot.data_files.files import DataFile
from bucketfmt.snapshot.listing import StoreLister
from bucketfmt.storage.store import Store
from bucketfmt.storage.streams import map_in_threads, waiting_count

__all__ = ["find_slice_logs", "load_untold_logs"]


def load_untold_logs(store: Store, instant: str, limits: Limits) -> list[MarkerName]:
    """Return the log files with blocks of an instant, as markers would have announced them.

    Args:
        store: The table's files.
        instant: The requested time of a deltacommit, until table version 6.
        limits: Bounds on what is read.

    Raises:
        CorruptError: a log file is damaged.
        StorageError: the store failed.
    """
    lister = StoreLister(store)
    lister.prepare(lister.partitions)
    paths = {
        file.path: path
        for path in lister.partitions
        for file in find_slice_logs(lister.files(path), instant)
    }

    def has_blocks(path: str) -> bool:
        try:
            spans = list(decode_log_file(store.read(path, limits.log_file_bytes_max), limits))
        except NotFoundError:
            return False  # removed since the listing
        except BucketfmtError as error:
            raise error.within(path=path) from None
        return any(
            isinstance(span, LogBlock)
            and span.block_type is not BlockType.COMMAND
            and span.instant_time == instant
            for span in spans
        )

    found = zip(
        paths.items(), map_in_threads(has_blocks, [*paths], waiting_count(store)), strict=True
    )
    return [
        MarkerName(partition, path.rpartition("/")[2], IoType.APPEND)
        for (path, partition), is_logged_to in found
        if is_logged_to
    ]


def find_slice_logs(files: Mapping[str, Sequence[DataFile]], instant: str) -> list[DataFile]:
    """Return the log files that an instant may have logged to, of one partition. Pure.

    They are of the newest slice of each file group that is older than the instant. A compaction
    that was planned since has made a newer one.
    """
    found = []
    for own in files.values():
        logs = [f for f in own if isinstance(f.name, LogFileName) and f.name.instant < instant]
        newest = max((file.name.instant for file in logs), default="")
        found += [file for file in logs if file.name.instant == newest]
    return found
