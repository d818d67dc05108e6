"""The log files of a write that nothing but their blocks tells of any more.

I/O: lists all partitions, and reads log files. Until table version 6 a log file bears the instant
of its slice. What a write logged is told by its markers, and once it is completed by the file of
its instant; markers are deleted then. If that file was emptied, or moved away so that the write is
pending again, the headers of the blocks alone have the instant of the write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from bucketfmt.errors import BucketfmtError, ConflictError, NotFoundError
from bucketfmt.format.log.log_block import BlockType, LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.names.names import IoType, LogFileName, MarkerName
from bucketfmt.limits import Limits
from bucketfmt.snapshot.data_files.files import DataFile
from bucketfmt.snapshot.listing import StoreLister
from bucketfmt.storage.store import Store
from bucketfmt.storage.streams import map_in_threads, waiting_count

__all__ = ["find_slice_logs", "load_untold_logs"]


def load_untold_logs(
    store: Store, instant: str, completed: Collection[str], limits: Limits
) -> list[MarkerName]:
    """Return the log files with blocks of an instant, as markers would have announced them.

    Args:
        store: The table's files.
        instant: The requested time of a deltacommit, until table version 6.
        completed: The requested times of the completed writes.
        limits: Bounds on what is read.

    Raises:
        ConflictError: a completed write logged to file slices that the instant made.
        CorruptError: a log file is damaged.
        StorageError: the store failed.
    """
    lister = StoreLister(store)
    lister.prepare(lister.partitions)
    files = {
        file.path: (path, file)
        for path in lister.partitions
        for file in find_slice_logs(lister.files(path), instant)
    }

    def load_instants(path: str) -> set[str]:
        try:
            spans = list(decode_log_file(store.read(path, limits.log_file_bytes_max), limits))
        except NotFoundError:
            return set()  # removed since the listing
        except BucketfmtError as error:
            raise error.within(path=path) from None
        return {
            span.instant_time or ""
            for span in spans
            if isinstance(span, LogBlock) and span.block_type is not BlockType.COMMAND
        }

    found = []
    logged = map_in_threads(load_instants, [*files], waiting_count(store))
    for (partition, file), instants in zip(files.values(), logged, strict=True):
        if file.name.instant < instant:
            if instant in instants:
                found.append(MarkerName(partition, str(file.name), IoType.APPEND))
            continue
        for other in sorted(instants.intersection(completed) - {instant}):
            raise ConflictError(
                f"write {instant} cannot be rolled back: {other}, which came after it, has rows "
                "in a log file that would be deleted. Roll that back first, or put the file of "
                f"{instant} back on the timeline",
                partition=partition,
                path=file.path,
            )
    return found


def find_slice_logs(files: Mapping[str, Sequence[DataFile]], instant: str) -> list[DataFile]:
    """Return the log files that an instant may have logged to, of one partition. Pure.

    They are of the slice that the instant made, and of the newest one of each file group that is
    older. A compaction that was planned since has made a newer one.
    """
    found = []
    for own in files.values():
        logs = [f for f in own if isinstance(f.name, LogFileName) and f.name.instant <= instant]
        older = max((f.name.instant for f in logs if f.name.instant < instant), default="")
        found += [file for file in logs if file.name.instant in (older, instant)]
    return found
