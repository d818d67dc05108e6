"""Which file of a file group takes the rows of a write.

Pure. Sources: HoodieSimpleBucketIndex, ConsistentBucketIndexUtils, BucketIdentifier,
HoodieWriteHandle factories (HoodieCreateHandle, HoodieMergeHandle, HoodieAppendHandle).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import msgspec

from bucketfmt.format.names.names import (
    BaseFileName,
    IoType,
    LogFileName,
    MarkerName,
)
from bucketfmt.format.names.paths import join_path
from bucketfmt.location.routes import GroupRef
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice

__all__ = ["GroupWrite", "Target", "plan_group_write"]


class Target(Enum):
    """What a write makes of a file group."""

    NEW_BASE = "a first base file"
    REWRITTEN_BASE = "the next base file"
    LOG = "a log file"


@dataclass(frozen=True)
class GroupWrite:
    """One file to write.

    Attributes:
        group: The file group, which may be new.
        file_id: Its id.
        target: What to write.
        file_slice: What the group holds; None if it is new.
        name: The file's name.
        instant: The write's requested time.
        stored: The slices that readers see and that may hold the keys of the rows.
        extends_slice: The file is a log file that bears the time of a slice which is there.
        pointed: Log files of other file groups that take the rows, by the routes of the rows. The
            file is then a virtual log, which points to them.
    """

    group: GroupRef
    file_id: str
    target: Target
    file_slice: FileSlice | None
    name: BaseFileName | LogFileName
    instant: str
    stored: Sequence[FileSlice] = ()
    extends_slice: bool = False
    pointed: Mapping[int, GroupWrite] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The file, relative to the table."""
        return join_path(self.group.partition_path, str(self.name))

    @property
    def rewriting(self) -> GroupWrite:
        """The same rows, written with those of the slice to its next base file."""
        token = self.name.write_token or ""
        name = BaseFileName(self.file_id, token, self.instant, "parquet")
        return replace(self, target=Target.REWRITTEN_BASE, name=name)

    @property
    def marker(self) -> MarkerName:
        """What announces the file."""
        if self.target is Target.LOG:
            kind = IoType.APPEND if self.extends_slice else IoType.CREATE
        else:
            kind = IoType.CREATE if self.target is Target.NEW_BASE else IoType.MERGE
        return MarkerName(self.group.partition_path, str(self.name), kind)

    @property
    def next_version(self) -> GroupWrite:
        """The same rows, written to a log file of the next version."""
        if not isinstance(self.name, LogFileName):
            raise TypeError(f"{self.name} has no version")
        name = msgspec.structs.replace(self.name, version=self.name.version + 1)
        return replace(self, name=name)


def plan_group_write(
    group: GroupRef,
    file_slice: FileSlice | None,
    file_id: str,
    target: Target,
    *,
    instant: str,
    write_token: str,
    table_version: int,
    listed: Iterable[DataFile] = (),
    pending_compaction: str | None = None,
    stored: Sequence[FileSlice] = (),
) -> GroupWrite:
    """Return the file that takes rows of a file group.

    Args:
        group: The file group, which may be new.
        file_slice: What it holds.
        file_id: Its id.
        target: What to write.
        instant: The write's requested time.
        write_token: Of this file.
        table_version: 6, 8 or 9.
        listed: The group's files, whoever wrote them.
        pending_compaction: Requested time of the compaction the group is planned in.
        stored: As `GroupWrite.stored`.
    """
    slice_instant = instant
    if group.resize is not None:
        slice_instant = group.resize
    elif table_version < 8:
        # A base file may be newer than the compaction, which then completes an older slice.
        newest = file_slice.base_instant if file_slice else ""
        slice_instant = max(pending_compaction or "", newest) or instant
    if target is not Target.LOG:
        name: BaseFileName | LogFileName = BaseFileName(file_id, write_token, instant, "parquet")
    elif slice_instant == instant:
        name = LogFileName(file_id, instant, 1, write_token)
    else:
        versions = [
            file.name.version
            for file in listed
            if isinstance(file.name, LogFileName) and file.name.instant == slice_instant
        ]
        name = LogFileName(file_id, slice_instant, max(versions, default=0) + 1, write_token)
    # Before table version 8 a log file bears its slice's time, so that it may be appended.
    extends_slice = table_version < 8 and target is Target.LOG and slice_instant != instant
    return GroupWrite(group, file_id, target, file_slice, name, instant, stored, extends_slice)
