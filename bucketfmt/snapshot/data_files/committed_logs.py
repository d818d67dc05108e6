"""Which log files a compaction may need: those that completed instants wrote.

I/O: reads log files that no commit of the active timeline names, and the archived timeline where
a planned file is gone. Until table version 6 the name of a log file tells the slice and not the
write, so that listings show log files of writes under way, which may be taken back and deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from bucketfmt.errors import BucketfmtError, NotFoundError
from bucketfmt.format.log.log_block import BlockType, CorruptSpan
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.log.virtual_log import is_virtual_log
from bucketfmt.format.names.instants import State
from bucketfmt.format.names.names import LogFileName, find_data_file_name
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.instant_content import InstantContent
from bucketfmt.format.timeline.plans import CompactionOperation
from bucketfmt.format.timeline.service_metadata import RollbackMetadata
from bucketfmt.snapshot.data_files.file_slices import is_change_data
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.timeline.history import load_archived_instants
from bucketfmt.timeline.load import load_instant_content

__all__ = [
    "find_missing_files",
    "load_never_committed",
    "without_never_committed",
    "without_uncommitted_logs",
]


def without_uncommitted_logs(snapshot: Snapshot, file_slice: FileSlice) -> FileSlice:
    """Return a file slice without the log files of which nothing is committed.

    Hudi plans them along, and refuses to plan next to an older write only where there is a single
    writer (`ScheduleCompactionActionExecutor`). From table version 8 on only copies for a resize
    may be of a pending write, which belong to the slice of the resize for good: then no log file
    is returned, so that the slice is left to a later compaction.

    Raises:
        CorruptError: a log file is damaged where an archived commit wrote it.
        StorageError: the store failed.
    """
    if snapshot.basis.timeline is None:
        return file_slice  # the names tell, and the slice has only what is committed
    kept = tuple(file for file in file_slice.log_files if _has_committed(snapshot, file))
    if snapshot.table_version >= 8 and len(kept) < len(file_slice.log_files):
        kept = ()
    return msgspec.structs.replace(file_slice, log_files=kept)


def without_never_committed(
    snapshot: Snapshot, operations: Sequence[CompactionOperation]
) -> list[CompactionOperation]:
    """Return what is left to do of a compaction plan; see `load_never_committed`."""
    gone = load_never_committed(snapshot, operations)

    def is_left(operation: CompactionOperation, planned: str) -> bool:
        name = planned.rpartition("/")[2]  # plans of version 1 have paths
        return join_path(operation.partition_path or "", name) not in gone

    return [
        msgspec.structs.replace(
            operation,
            delta_file_paths=[p for p in operation.delta_file_paths if is_left(operation, p)],
        )
        for operation in operations
    ]


def load_never_committed(
    snapshot: Snapshot, operations: Iterable[CompactionOperation]
) -> frozenset[str]:
    """Return the log files of a compaction plan that are gone and that no completed instant wrote.

    The write that they were of failed after the plan was made, and took them back.

    Args:
        snapshot: The table as it is now.
        operations: Of pending compactions.

    Returns:
        Paths relative to the table.

    Raises:
        CorruptError: a commit, a rollback or the archived timeline does not decode.
    """
    gone = {
        path
        for operation in operations
        for path in find_missing_files(snapshot, operation)
        if isinstance(find_data_file_name(path.rpartition("/")[2]), LogFileName)
    }
    return frozenset(gone - _load_recorded(snapshot.state, gone))


def find_missing_files(snapshot: Snapshot, operation: CompactionOperation) -> list[str]:
    """Return the files that a compaction plan names and that are not listed, relative to the table.

    Data files that are known to be lost from a commit count as listed. Hudi plans CDC log files as
    if they held rows: they are left out, as from the listings of snapshots.
    """
    partition_path = operation.partition_path or ""
    listed = {str(f.name) for f in snapshot.files_of(partition_path, operation.file_id or "")}
    planned = (operation.data_file_path, *operation.delta_file_paths)
    names = ((path or "").rpartition("/")[2] for path in planned)  # plans of version 1 have paths
    return [
        join_path(partition_path, name)
        for name in names
        if name and name not in listed and not is_change_data(find_data_file_name(name))
    ]


def _has_committed(snapshot: Snapshot, file: DataFile) -> bool:
    if file.written is not None:
        return True
    basis = snapshot.basis
    try:
        data = basis.store.read(file.path, basis.limits.log_file_bytes_max)
        spans = list(decode_log_file(data, basis.limits))
    except NotFoundError:
        return False  # taken back since the listing
    except BucketfmtError as error:
        raise error.within(path=file.path) from None
    blocks = [span for span in spans if not isinstance(span, CorruptSpan)]
    if any(
        (block.block_type is BlockType.COMMAND and not is_virtual_log(block))
        or basis.is_block_committed(block.instant_time)
        for block in blocks
    ):
        return True
    # Damage, or a file that is being written: then no archived commit has recorded it.
    return len(blocks) < len(spans) and bool(_load_recorded(snapshot.state, {file.path}))


def _load_recorded(state: TableState, paths: Collection[str]) -> set[str]:
    """Return those of these paths that a completed write or rollback has recorded, ever."""
    if not paths:
        return set()
    recorded = {file[2] for commit in state.commits for file in commit.files}
    for instant in state.timeline.completed.of("rollback").instants:
        content = load_instant_content(state.store, state.config, instant, state.limits)
        recorded.update(_recorded_in(content))
    for entry in load_archived_instants(state.store, state.config, state.limits):
        if entry.state is State.COMPLETED:
            recorded.update(_recorded_in(entry.metadata))
    return recorded & set(paths)


def _recorded_in(content: InstantContent | None) -> Iterator[str]:
    if isinstance(content, CommitMetadata):
        yield from (stat.path or "" for stat in content.write_stats)
    elif isinstance(content, RollbackMetadata):
        yield from content.command_logs
