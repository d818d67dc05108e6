"""What a rollback takes back: decided from what is on the timeline and listed.

Pure. Source: `MarkerBasedRollbackStrategy`, `ListingBasedRollbackStrategy`.

A file that bears the instant in its name is deleted. Until table version 6 a log file bears
its slice's instant instead: the slice gets another log file, whose command block tells readers
to pass over what the instant logged. From version 8 on a log file with copies of rows bears the
instant of the pending resize that they are for, and is deleted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from bucketfmt.errors import CorruptError, UnsafePathError
from bucketfmt.format.names.layout import is_metadata_path
from bucketfmt.format.names.names import (
    BaseFileName,
    FileGroupId,
    LogFileName,
    MarkerName,
    find_data_file_name,
)
from bucketfmt.format.names.paths import check_relative_path, join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.plans import (
    InstantInfo,
    RollbackPlan,
    RollbackRequest,
)
from bucketfmt.limits import Limits
from bucketfmt.timeline.timeline import Instant

__all__ = [
    "Listing",
    "PlannedRollback",
    "RollbackResult",
    "parse_rollback_plan",
    "plan_rollback",
]

Listing = Mapping[str, Mapping[str, int]]
"""Sizes of files by name, by partition path."""

_COMPACTIONS = ("compaction", "commit")  # of a merge-on-read table


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """One write that was taken back, or would be.

    Attributes:
        instant: Its requested time.
        action: Its action, as the timeline had it.
        rollback_instant: The rollback's requested time; None where it was only planned.
        files_deleted: Its data files, relative to the table.
        log_files_cancelled: Log files that stay, and whose blocks a command block takes back
            (table version 6).
    """

    instant: str
    action: str
    rollback_instant: str | None
    files_deleted: tuple[str, ...] = ()
    log_files_cancelled: tuple[str, ...] = ()


def plan_rollback(
    root: str,
    config: TableConfig,
    target: Instant,
    metadata: CommitMetadata,
    markers: Iterable[MarkerName],
    listed: Listing,
    resizes: Collection[str] = (),
    *,
    in_restore: bool = False,
) -> RollbackPlan:
    """Return what to do to take an instant back.

    Args:
        root: The table's URI: the plan's paths are absolute.
        config: The table's properties.
        target: The instant, completed or not.
        metadata: What it wrote, if it is completed.
        markers: What it announced.
        listed: The partitions it may have written to.
        resizes: Requested times of clusterings, which writes may have copied rows for.
        in_restore: All of a compaction's slice goes, since what came after is taken back too.
            Otherwise log files that writers have put there since its request stay.

    Raises:
        CorruptError: a marker names a file that no write of this instant makes.
    """
    recorded = [
        (path, stat.file_name, stat)
        for path, stats in metadata.partition_to_write_stats.items()
        for stat in stats
        if target.is_completed
    ]
    announced = {(marker.partition_path, marker.data_file_name) for marker in markers}
    named = announced.union((path, str(name)) for path, name, _ in recorded)
    left = _LeftFiles(target, config.table_version, resizes, named, in_restore=in_restore)
    for path, sizes in listed.items():
        for name in sizes:
            left.take(path, name)
    for path, name in announced:
        if left.take(path, name):
            continue
        parsed = find_data_file_name(name)
        if not isinstance(parsed, LogFileName) or config.table_version >= 8:
            raise CorruptError(
                f"{target.requested_time} announces {name!r}, which is none of its files"
            )
        if name in listed.get(path, {}):
            left.logged[path, parsed.file_id, parsed.instant][name] = listed[path][name]
    for path, parsed, stat in recorded:
        if left.take(path, str(parsed)) or not isinstance(parsed, LogFileName):
            continue
        is_for_resize = config.table_version >= 8 or left.is_copy(path, parsed)
        if is_for_resize and str(parsed) not in listed.get(path, {}):
            continue  # it went with the resize, which a restore takes back first
        group = path, parsed.file_id, parsed.instant
        left.logged[group][f"{root}/{stat.path}"] = max(stat.total_write_bytes, 1)
    return RollbackPlan(
        instant_to_rollback=InstantInfo(commit_time=target.requested_time, action=target.action),
        rollback_requests=left.requests(root),
    )


class _LeftFiles:
    """The files an instant left: those that are deleted, and what it logged to others.

    Attributes:
        deleted: Names of files that go, by file group.
        logged: Sizes of what stays and gets a command block, by partition path, file id and base
            instant.
    """

    def __init__(
        self,
        target: Instant,
        table_version: int,
        resizes: Collection[str],
        named: Collection[tuple[str, str]],
        *,
        in_restore: bool,
    ) -> None:
        """Set up: `named` are paths and names of files that the instant announced or recorded."""
        self.deleted: dict[FileGroupId, set[str]] = defaultdict(set)
        self.logged: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
        self._time = target.requested_time
        self._table_version = table_version
        self._resizes = resizes
        self._named = named
        self._keeps_logs = (
            table_version < 8
            and target.action in ("compaction", "logcompaction")
            and not in_restore
        )

    def is_copy(self, path: str, name: BaseFileName | LogFileName) -> bool:
        """Return whether the instant wrote a log file for a resize."""
        is_log = isinstance(name, LogFileName) and name.instant in self._resizes
        return is_log and (path, str(name)) in self._named

    def take(self, path: str, name: str) -> bool:
        """Have a file deleted if it bears the instant, or is named by nothing else."""
        parsed = find_data_file_name(name)
        if parsed is None:
            return False
        is_own = parsed.instant == self._time
        if not is_own and not (self._table_version >= 8 and self.is_copy(path, parsed)):
            return False
        if not (self._keeps_logs and isinstance(parsed, LogFileName)):
            self.deleted[path, parsed.file_id].add(name)
        return True

    def requests(self, root: str) -> list[RollbackRequest]:
        """Return a request for each file to delete, and for each slice that gets a block."""
        files = [
            RollbackRequest(
                partition_path=path,
                file_id=file_id,
                latest_base_instant=self._time,
                files_to_be_deleted=[f"{root}/{join_path(path, name)}"],
            )
            for (path, file_id), names in sorted(self.deleted.items())
            for name in sorted(names)
        ]
        slices = [
            RollbackRequest(
                partition_path=path,
                file_id=file_id,
                latest_base_instant=base_instant,
                log_blocks_to_be_deleted=blocks,
            )
            for (path, file_id, base_instant), blocks in sorted(self.logged.items())
        ]
        return files + slices


@dataclass(frozen=True, slots=True)
class PlannedRollback:
    """A rollback plan in paths relative to the table.

    Attributes:
        target: The instant to take back.
        files: Partition paths and names of files to delete.
        slices: Partition path and any log file name of slices that get a command block, with the
            log files it is for, as the plan has them.
    """

    target: InstantInfo
    files: tuple[tuple[str, str], ...]
    slices: tuple[tuple[str, LogFileName, Mapping[str, int]], ...]

    def result(self, rollback_instant: str | None) -> RollbackResult:
        """Return it as told to users."""
        return RollbackResult(
            self.target.commit_time,
            self.target.action,
            rollback_instant,
            tuple(join_path(path, name) for path, name in self.files),
            tuple(
                join_path(path, logged.rpartition("/")[2])
                for path, _, blocks in self.slices
                for logged in blocks
            ),
        )


def parse_rollback_plan(
    plan: RollbackPlan, config: TableConfig, limits: Limits, resizes: Collection[str] = ()
) -> PlannedRollback:
    """Return what a plan, perhaps of another writer, wants done; only to the target's own files.

    Where the table was moved since, the absolute paths in it are of the old place: what counts
    is the partition path and the name.

    Args:
        plan: The plan.
        config: The table's properties.
        limits: Bounds on what is read.
        resizes: As `plan_rollback` has it.

    Raises:
        CorruptError: the plan names no instant, or files that are not that instant's.
        UnsafePathError: a path leads out of the table, or into its metadata.
    """
    target = plan.instant_to_rollback
    if target is None:
        raise CorruptError("a rollback plan without an instant; roll it back with Hudi")
    files: list[tuple[str, str]] = []
    slices: list[tuple[str, LogFileName, Mapping[str, int]]] = []
    for request in plan.rollback_requests:
        path = check_relative_path(request.partition_path, limits)
        if is_metadata_path(path):
            raise UnsafePathError(f"a rollback of files in {path!r}; treat the table as hostile")
        for deleted in request.files_to_be_deleted:
            name = deleted.rpartition("/")[2]
            parsed = find_data_file_name(name)
            is_copy = isinstance(parsed, LogFileName) and parsed.instant in resizes
            if parsed is None or not (parsed.instant == target.commit_time or is_copy):
                raise CorruptError(
                    f"the rollback of {target.commit_time} wants {name!r} deleted, which is none "
                    "of its files"
                )
            files.append((path, name))
        if request.log_blocks_to_be_deleted:
            slice_name = LogFileName(
                request.file_id or "", request.latest_base_instant or "", 1, None
            )
            if config.table_version >= 8 or find_data_file_name(str(slice_name)) != slice_name:
                raise CorruptError(f"the rollback of {target.commit_time} names no such file slice")
            slices.append((path, slice_name, request.log_blocks_to_be_deleted))
    return PlannedRollback(target, tuple(files), tuple(slices))
