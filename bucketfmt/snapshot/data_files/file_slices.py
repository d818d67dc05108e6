"""Which files make up each file group at an instant.

Pure: listing and timeline in, file slices out. Source: HoodieFileGroup,
AbstractTableFileSystemView (buildFileGroups, fetchMergedFileSlice).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from bucketfmt.format.names.names import BaseFileName, LogFileName
from bucketfmt.process import cached_property
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.timeline.timeline import Instant, Timeline

__all__ = [
    "InstantView",
    "TimelineView",
    "find_file_slices",
    "find_slice_history",
    "group_files",
    "is_change_data",
]


class InstantView(Protocol):
    """What the choice of files needs to know of the timeline, at the instant looked at."""

    @property
    def table_version(self) -> int:
        """6, 8 or 9."""

    def is_visible(self, requested_time: str) -> bool:
        """Whether the write of that instant is completed, and not after the instant looked at."""

    def completion_time(self, requested_time: str) -> str:
        """When it completed; the requested time itself where history no longer tells."""


@dataclass(frozen=True)
class TimelineView:
    """An `InstantView` of a table as its timeline stands.

    Attributes:
        timeline: The active timeline.
        table_version: 6, 8 or 9.
        archived: The archived instants, where the timeline needs them (`Timeline.needs_history`).
    """

    timeline: Timeline
    table_version: int
    archived: tuple[Instant, ...] = ()

    def is_visible(self, requested_time: str) -> bool:
        """Whether the write of that instant is completed."""
        return self.timeline.is_completed(requested_time)

    def completion_time(self, requested_time: str) -> str:
        """When it completed; the requested time itself where history no longer tells."""
        is_archived = self.timeline.needs_history(requested_time)
        timeline = self._with_archived if is_archived else self.timeline
        return timeline.completion_time(requested_time) or requested_time

    @cached_property
    def _with_archived(self) -> Timeline:
        return self.timeline.with_history(self.archived)


def is_change_data(name: BaseFileName | LogFileName | None) -> bool:
    """Whether a name is of a CDC log file, which no snapshot reads."""
    return isinstance(name, LogFileName) and name.is_cdc


def group_files(files: Iterable[DataFile]) -> dict[str, list[DataFile]]:
    """Return the files of one partition by file id. CDC log files are left out."""
    groups: dict[str, list[DataFile]] = defaultdict(list)
    for file in files:
        if not is_change_data(file.name):
            groups[file.name.file_id].append(file)
    return groups


def find_file_slices(
    partition_path: str,
    groups: Mapping[str, Iterable[DataFile]],
    view: InstantView,
    pending_compactions: Mapping[str, str],
) -> list[FileSlice]:
    """Return the slice to read of each file group of one partition, in file id order.

    `groups` holds the partition's files by file id, replaced groups already left out.
    `pending_compactions` maps a file id to the requested time of a compaction that is
    planned and not completed. A group with no visible file gives no slice.
    """
    slices = []
    for file_id in sorted(groups):
        history = find_slice_history(
            partition_path, file_id, groups[file_id], view, pending_compactions.get(file_id)
        )
        if history:
            slices.append(history[-1])
    return slices


def find_slice_history(
    partition_path: str,
    file_id: str,
    files: Iterable[DataFile],
    view: InstantView,
    pending_compaction: str | None = None,
) -> list[FileSlice]:
    """Return every visible slice of a file group, oldest first; the last one is the one to read."""
    files = [*files]
    if len(files) == 1 and pending_compaction is None and isinstance(files[0].name, BaseFileName):
        instant = files[0].name.instant  # most groups of a large table are so
        alone = FileSlice(partition_path, file_id, instant, files[0], ())
        return [alone] if view.is_visible(instant) else []
    base_files: dict[str, DataFile] = {}
    log_files: list[tuple[LogFileName, DataFile]] = []
    for file in files:
        if isinstance(file.name, LogFileName):
            log_files.append((file.name, file))
        elif view.is_visible(file.name.instant):
            known = base_files.get(file.name.instant)
            base_files[file.name.instant] = _prefer(known, file) if known else file
    log_files.sort(key=lambda pair: pair[0].sort_key)
    order = {file.path: number for number, (_, file) in enumerate(log_files)}

    assign = _assign_by_name if view.table_version < 8 else _assign_by_completion
    logs = assign(log_files, sorted(base_files), view, pending_compaction)

    slices: list[FileSlice] = []
    for instant in sorted({*base_files, *logs}):
        own = FileSlice(
            partition_path, file_id, instant, base_files.get(instant), tuple(logs.get(instant, ()))
        )
        if instant == pending_compaction and slices:
            # Not compacted yet: what was logged since the plan reads on top of the slice before.
            both = sorted(slices[-1].log_files + own.log_files, key=lambda file: order[file.path])
            slices[-1] = msgspec.structs.replace(slices[-1], log_files=tuple(both))
        else:
            slices.append(own)
    return slices


def _prefer(first: DataFile, second: DataFile) -> DataFile:
    """Of two attempts at one base file, the one a commit names; else the later write token."""
    if (first.written is None) != (second.written is None):
        return second if first.written is None else first
    return max(first, second, key=lambda file: file.path)


def _assign_by_name(
    log_files: list[tuple[LogFileName, DataFile]],
    base_instants: list[str],
    view: InstantView,
    pending_compaction: str | None,
) -> dict[str, list[DataFile]]:
    """Table version 6: a log file's name holds the instant of its slice.

    Whether its blocks are committed is told by the blocks, not by the name. Of a slice that nothing
    has begun the log file belongs to the slice before: a restore by Hudi takes a planned compaction
    back, and leaves the log files that are named after it. Hudi 1.x has them there too.
    """
    starts = (
        {*base_instants} if pending_compaction is None else {*base_instants, pending_compaction}
    )
    logs: dict[str, list[DataFile]] = defaultdict(list)
    for name, file in log_files:
        instant = name.instant
        if instant in starts:
            logs[instant].append(file)
        elif view.is_visible(instant):
            before = max((start for start in starts if start < instant), default=instant)
            logs[before].append(file)
    return logs


def _assign_by_completion(
    log_files: list[tuple[LogFileName, DataFile]],
    base_instants: list[str],
    view: InstantView,
    pending_compaction: str | None,
) -> dict[str, list[DataFile]]:
    """Table version 8 and later: a log file's name holds the instant that wrote it.

    It belongs to the newest slice that was there when that write completed.
    """
    starts = list(base_instants)
    if pending_compaction is not None:
        starts = sorted({*starts, pending_compaction})
    logs: dict[str, list[DataFile]] = defaultdict(list)
    for name, file in log_files:
        if not view.is_visible(name.instant):
            continue
        if not starts:
            starts = [name.instant]
        if starts[-1] <= name.instant:
            start = starts[-1]  # whenever it completed, nothing newer was there
        else:
            completed = view.completion_time(name.instant)
            start = max((s for s in starts if s <= completed), default=name.instant)
            starts = sorted({*starts, start})
        logs[start].append(file)
    return logs
