"""Which file slices a compaction rewrites.

Pure. Source: BaseHoodieCompactionPlanGenerator, CompactionStrategy.captureMetrics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from bucketfmt.format.names.names import FileGroupId
from bucketfmt.format.timeline.plans import OWN_PLAN, CompactionOperation, CompactionPlan
from bucketfmt.snapshot.data_files.files import FileSlice

__all__ = ["CompactionPreview", "plan_compaction", "preview_slices"]

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class CompactionPreview:
    """What `Table.compact` would do.

    Attributes:
        pending: The compaction that it would execute, as it was planned; None if it would plan one.
        file_groups: How many would get a new base file.
        log_files: How many would be merged.
        log_bytes: Their sizes together.
    """

    pending: str | None = None
    file_groups: int = 0
    log_files: int = 0
    log_bytes: int = 0


def preview_slices(slices: Sequence[FileSlice], pending: str | None = None) -> CompactionPreview:
    """Return the slices of a plan in numbers."""
    logs = [file for file_slice in slices for file in file_slice.log_files]
    return CompactionPreview(pending, len(slices), len(logs), sum(file.size or 0 for file in logs))


def plan_compaction(
    slices: Iterable[FileSlice], excluded: Collection[FileGroupId], min_log_files: int = 1
) -> CompactionPlan | None:
    """Return the plan that compacts these slices; None if there is nothing to compact.

    Args:
        slices: What is read of each file group.
        excluded: File groups that another plan has already.
        min_log_files: Leave slices with fewer log files as they are.
    """
    operations = [
        _plan_operation(file_slice)
        for file_slice in slices
        if len(file_slice.log_files) >= max(min_log_files, 1)
        and (file_slice.partition_path, file_slice.file_id) not in excluded
    ]
    if not operations:
        return None
    return CompactionPlan(operations=operations, extra_metadata=OWN_PLAN)


def _plan_operation(file_slice: FileSlice) -> CompactionOperation:
    base, logs = file_slice.base_file, file_slice.log_files
    log_bytes = sum(file.size or 0 for file in logs)
    read_mib = (log_bytes + (base.size or 0 if base else 0)) // _MIB
    write_mib = (base.size or 0 if base else log_bytes) // _MIB
    return CompactionOperation(
        base_instant_time=base.name.instant if base else logs[0].name.instant,
        delta_file_paths=[str(file.name) for file in logs],
        data_file_path=str(base.name) if base else None,
        file_id=file_slice.file_id,
        partition_path=file_slice.partition_path,
        metrics={
            "TOTAL_LOG_FILES": float(len(logs)),
            "TOTAL_LOG_FILES_SIZE": float(log_bytes),
            "TOTAL_IO_READ_MB": float(read_mib),
            "TOTAL_IO_WRITE_MB": float(write_mib),
            "TOTAL_IO_MB": float(read_mib + write_mib),
        },
    )
