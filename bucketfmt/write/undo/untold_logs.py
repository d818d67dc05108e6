"""The log files of a write that nothing but their blocks tells of any more.

I/O: reads log files. Until table version 6 a log file bears the instant of its slice. What a write
logged is told by its markers, and once it is completed by the file of its instant; markers are
deleted then. If that file was emptied, or moved away so that the write is pending again, the
headers of the blocks alone have the instant of the write.
"""

from __future__ import annotations

from collections.abc import Collection

from bucketfmt.errors import BucketfmtError, ConflictError, NotFoundError
from bucketfmt.format.log.log_block import BlockType, LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.names.names import (
    FileGroupId,
    IoType,
    LogFileName,
    MarkerName,
    find_data_file_name,
)
from bucketfmt.format.names.paths import join_path
from bucketfmt.limits import Limits
from bucketfmt.storage.store import Store
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.write.undo.plan_rollback import Listing

__all__ = ["load_untold_logs"]


def load_untold_logs(
    store: Store, listed: Listing, instant: str, completed: Collection[str], limits: Limits
) -> list[MarkerName]:
    """Return the log files with blocks of an instant, as markers would have announced them.

    Args:
        store: The table's files.
        listed: All partitions.
        instant: The requested time of a deltacommit, until table version 6.
        completed: The requested times of the completed writes.
        limits: Bounds on what is read.

    Raises:
        ConflictError: a completed write logged to file slices that the instant made.
        CorruptError: a log file is damaged.
        StorageError: the store failed.
    """
    files = _find_slice_logs(listed, instant)

    def load_instants(file: tuple[str, LogFileName]) -> set[str]:
        path = join_path(file[0], str(file[1]))
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
    logged = map_in_threads(load_instants, files, waiting_count(store))
    for (partition, name), instants in zip(files, logged, strict=True):
        if name.instant < instant:
            if instant in instants:
                found.append(MarkerName(partition, str(name), IoType.APPEND))
            continue
        for other in sorted(instants.intersection(completed) - {instant}):
            raise ConflictError(
                f"write {instant} cannot be rolled back: {other}, which came after it, has rows "
                "in a log file that would be deleted. Roll that back first, or put the file of "
                f"{instant} back on the timeline",
                partition=partition,
                path=join_path(partition, str(name)),
            )
    return found


def _find_slice_logs(listed: Listing, instant: str) -> list[tuple[str, LogFileName]]:
    """Return the log files that an instant may have logged to, with their partitions. Pure.

    They are of the slice that the instant made, and of the newest one of each file group that is
    older. A compaction that was planned since has made a newer one.
    """
    older: dict[FileGroupId, str] = {}
    logs = []
    for path, sizes in listed.items():
        for name in map(find_data_file_name, sizes):
            if isinstance(name, LogFileName) and not name.is_cdc and name.instant <= instant:
                logs.append((path, name))
                if name.instant < instant:
                    group = path, name.file_id
                    older[group] = max(older.get(group, ""), name.instant)
    return [
        (path, name)
        for path, name in logs
        if name.instant in (older.get((path, name.file_id)), instant)
    ]
