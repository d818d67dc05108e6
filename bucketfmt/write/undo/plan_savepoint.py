"""Which write is savepointed, whether it may be, and which files a savepoint keeps.

Pure. Source: `SavepointActionExecutor`, `HoodieTable.getLastCommitRetained`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.instant_content import InstantContent
from bucketfmt.format.timeline.service_metadata import CleanMetadata, SavepointPartitionMetadata
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.undo.rollback_conflicts import COMPACTIONS, is_after

__all__ = ["check_not_cleaned", "find_completed_write", "find_savepoint", "plan_savepoint"]


def find_completed_write(
    config: TableConfig, timeline: Timeline, requested_time: str | None
) -> str:
    """Return the requested time of a completed write; of the newest where None is given.

    The newest write is one that no completed write came after. Writes that were requested while a
    compaction was executed came after it, and in layout 1 those requested while any write was: a
    restore would take them back.

    Raises:
        ValueError: no such write is completed.
    """
    writes = timeline.commits.completed.instants
    if requested_time is None:
        if not writes:
            raise ValueError("the table has no completed write")
        if timeline.layout == 1:
            return writes[-1].requested_time
        newest = _find_newest(writes)
        if any(is_after(config, instant, newest) for instant in writes):
            newest = _find_newest([i for i in writes if i.action not in COMPACTIONS])
        return newest.requested_time
    if not any(instant.requested_time == requested_time for instant in writes):
        raise ValueError(
            f"no completed write {requested_time!r} on the active timeline; inspect.commits() "
            "lists the writes"
        )
    return requested_time


def _find_newest(writes: Sequence[Instant]) -> Instant:
    return max(writes, key=lambda i: (i.completion_time or "", i.requested_time))


def find_savepoint(timeline: Timeline, requested_time: str) -> Instant | None:
    """Return the savepoint of a write, completed or not; None if the write has no savepoint."""
    for instant in timeline.of("savepoint").instants:
        if instant.requested_time == requested_time:
            return instant
    return None


def check_not_cleaned(
    timeline: Timeline,
    requested_time: str,
    after: Iterable[Instant],
    last_clean: InstantContent | None,
) -> None:
    """Refuse to savepoint a write whose files may be deleted already.

    Args:
        timeline: The active timeline.
        requested_time: Of the write.
        after: The writes that came after it.
        last_clean: What the last completed clean of the timeline recorded; None if there is no
            such clean, or if its file is empty.

    Raises:
        ValueError: a clean may have deleted files of the write.
    """
    retained = _first_retained(timeline, last_clean)
    # After a restore nothing came after the write, although the clean before it retained only what
    # was taken back: the table still is as the write left it.
    if requested_time < retained and any(instant.is_completed for instant in after):
        raise ValueError(
            f"{requested_time} cannot be savepointed: a clean may have deleted its files; "
            f"{retained} is the first that can"
        )


def _first_retained(timeline: Timeline, last_clean: InstantContent | None) -> str:
    """Return the first write that no clean has deleted files of. Source: getLastCommitRetained."""
    clean = timeline.completed.of("clean").last
    if clean is None:
        return ""
    if isinstance(last_clean, CleanMetadata) and last_clean.earliest_commit_to_retain:
        return last_clean.earliest_commit_to_retain
    writes = [i.requested_time for i in timeline.writes.completed.instants]
    return max((t for t in writes if t <= clean.requested_time), default=clean.requested_time)


def plan_savepoint(
    requested_time: str, slices: Iterable[FileSlice], doomed: Collection[tuple[str, str]]
) -> dict[str, SavepointPartitionMetadata]:
    """Return the files that a savepoint keeps, by partition path.

    Args:
        requested_time: Of the write to savepoint.
        slices: All file slices that a reader of the restored table reads; a file may be in several.
        doomed: (partition path, file name) that pending cleans will delete.

    Raises:
        CorruptError: a file is gone.
        ValueError: a pending clean deletes a file.
    """
    names: dict[str, dict[str, None]] = {}
    for file_slice in slices:
        own = names.setdefault(file_slice.partition_path, {})
        for file in file_slice.files:
            file.check_exists()
            own[str(file.name)] = None
    for path, name in doomed:
        if name in names.get(path, ()):
            raise ValueError(
                f"{requested_time} cannot be savepointed: a clean that was begun deletes "
                f"{join_path(path, name)}. Savepoint a later write"
            )
    return {
        path: SavepointPartitionMetadata(partition_path=path, savepoint_data_file=[*own])
        for path, own in names.items()
    }
