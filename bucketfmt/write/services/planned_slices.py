"""The file slices that the plan of a table service names, found in the table as it is now.

I/O: lists file groups, and asks the commits about files that are gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.names.names import LogFileName, find_data_file_name
from bucketfmt.format.names.paths import check_relative_path, join_path
from bucketfmt.format.timeline.plans import CompactionOperation, SliceInfo
from bucketfmt.limits import Limits
from bucketfmt.snapshot.data_files.committed_logs import without_never_committed
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.snapshot.snapshot import Snapshot

__all__ = ["check_operation", "load_planned_slices", "to_operation"]


def load_planned_slices(
    snapshot: Snapshot, operations: Sequence[CompactionOperation]
) -> list[FileSlice]:
    """Return the slices as they were planned, whatever was logged since.

    Without what was never committed and is gone. A slice of which nothing is left has no rows,
    and what was logged since the plan needs no base file.
    """
    paths = dict.fromkeys(operation.partition_path or "" for operation in operations)
    snapshot.state.lister.prepare([*paths])
    left = without_never_committed(snapshot, operations)
    slices = [_planned_slice(snapshot, operation) for operation in left]
    return [file_slice for file_slice in slices if file_slice.files]


def _planned_slice(snapshot: Snapshot, operation: CompactionOperation) -> FileSlice:
    partition_path, file_id = operation.partition_path or "", operation.file_id or ""
    files = {str(file.name): file for file in snapshot.files_of(partition_path, file_id)}

    def file_of(planned: str) -> DataFile:
        name = planned.rpartition("/")[2]  # plans of version 1 have paths
        if name not in files:
            raise CorruptError(
                "a completed write, or the plan of a pending compaction, names this file and it is "
                "not there; restore the file, and try again",
                path=join_path(partition_path, name),
            )
        return files[name]

    base = file_of(operation.data_file_path) if operation.data_file_path else None
    logs = {f.name: f for f in map(file_of, operation.delta_file_paths)}
    names = sorted((n for n in logs if isinstance(n, LogFileName)), key=lambda n: n.sort_key)
    base_instant = operation.base_instant_time or ""
    return FileSlice(partition_path, file_id, base_instant, base, tuple(logs[n] for n in names))


def to_operation(planned: SliceInfo) -> CompactionOperation:
    """Return a slice of a clustering plan as the operation that would compact the slice."""
    paths = [planned.data_file_path] if planned.data_file_path else planned.delta_file_paths
    names = [find_data_file_name(path.rpartition("/")[2]) for path in paths]
    return CompactionOperation(
        base_instant_time=min((name.instant for name in names if name is not None), default=""),
        delta_file_paths=planned.delta_file_paths,
        data_file_path=planned.data_file_path or None,
        file_id=planned.file_id,
        partition_path=planned.partition_path,
        bootstrap_file_path=planned.bootstrap_file_path or None,
    )


def check_operation(operation: CompactionOperation, limits: Limits) -> CompactionOperation:
    """Return an operation whose names lead nowhere but into its partition."""
    if operation.bootstrap_file_path:
        raise UnsupportedError("rewriting a bootstrapped file; let Hudi execute the plan")
    partition_path = operation.partition_path or ""
    if partition_path:
        check_relative_path(partition_path, limits)
    for path in (operation.data_file_path, *operation.delta_file_paths):
        if path and find_data_file_name(path.rpartition("/")[2]) is None:
            raise CorruptError(f"a plan names {path[:200]!r}, which is no data file")
    return operation
