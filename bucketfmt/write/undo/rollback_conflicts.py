"""What stands in the way of taking a write back: others that stand on it, and cleans.

Pure. Source: `BaseRollbackActionExecutor.validateRollbackCommitSequence`,
`RestoreInstantComparatorFactory`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from bucketfmt.errors import ConflictError
from bucketfmt.format.buckets.extendible_metadata import EMPTY_GROUPS
from bucketfmt.format.buckets.migrations import MIGRATION
from bucketfmt.format.names.names import (
    BaseFileName,
    FileGroupId,
    MarkerName,
    find_bucket_id,
    find_data_file_name,
)
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import NULL_COMMIT, CommitMetadata
from bucketfmt.format.timeline.plans import CompactionPlan
from bucketfmt.snapshot.overtaken import find_rolled_back
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.undo.plan_rollback import Listing

__all__ = [
    "COMPACTIONS",
    "check_basis_kept",
    "check_newest",
    "check_no_restore",
    "check_not_built_on",
    "check_not_last",
    "check_resizes_kept",
    "check_still_there",
    "find_after",
    "find_target",
    "is_after",
]

COMPACTIONS = ("compaction", "commit")
"""Actions of compactions, pending and completed, in a merge-on-read table."""


def find_target(timeline: Timeline, requested_time: str) -> Instant:
    """Return the write of that time.

    Raises:
        ValueError: no such write is on the active timeline.
    """
    for instant in timeline.writes.instants:
        if instant.requested_time == requested_time:
            return instant
    raise ValueError(
        f"no write {requested_time!r} on the active timeline; inspect.commits() lists the writes"
    )


def check_no_restore(timeline: Timeline) -> None:
    """Refuse to go on while a restore is half done.

    Raises:
        ConflictError: a restore is pending.
    """
    for instant in timeline.pending.of("restore").instants:
        raise ConflictError(
            f"restore {instant.requested_time} was begun and not finished: the table is "
            "between two states. Call restore with the same savepoint to finish it"
        )


def check_not_last(timeline: Timeline, history: Iterable[Instant], target: Instant) -> None:
    """Refuse to leave a timeline without a write that others were archived before.

    The first write of the timeline tells readers, Hudi's too, which files are committed though the
    timeline does not name them: without a write the files of archived writes would all be hidden.

    Args:
        timeline: The active timeline.
        history: The archived instants.
        target: What to roll back, completed.

    Raises:
        ConflictError: the target is the only write that is not archived.
    """
    archived = {
        instant.requested_time
        for instant in Timeline(tuple(history), timeline.layout).writes.completed.instants
    }
    # An archival that died leaves instants on the timeline that the next one removes.
    others = {i.requested_time for i in timeline.writes.completed.instants if i != target}
    if archived and others <= archived:
        raise ConflictError(
            f"{target.action} {target.requested_time} is the only write that is not archived, "
            "and tells where the archive ends. Write what the table is to hold instead"
        )


def is_after(config: TableConfig, instant: Instant, other: Instant) -> bool:
    """Return whether a write may stand on another: whether it has to go before it.

    By completion time; by requested time in layout 1, and where one of them is a compaction,
    whose slice log files belong to from its request on.
    """
    actions = (instant.action, other.action)
    if config.timeline_layout == 1 or (
        config.table_type == "MERGE_ON_READ" and any(a in COMPACTIONS for a in actions)
    ):
        return instant.requested_time > other.requested_time
    if other.completion_time is None:
        return instant.completion_time is None and instant.requested_time > other.requested_time
    return instant.completion_time is None or instant.completion_time > other.completion_time


def find_after(
    config: TableConfig, timeline: Timeline, target: Instant, clusterings: Collection[str]
) -> list[Instant]:
    """Return the writes that a restore to a completed one takes back, pending ones too.

    Args:
        config: The table's properties.
        timeline: The active timeline.
        target: The completed write.
        clusterings: Requested times of the pending clusterings.
    """

    def is_taken_back(instant: Instant) -> bool:
        if not instant.is_completed and instant.requested_time in clusterings:
            return instant.requested_time > target.requested_time
        return is_after(config, instant, target)

    return list(filter(is_taken_back, timeline.writes.instants))


def _check_no_stated_migration(config: TableConfig, what: str, metadata: CommitMetadata) -> None:
    """Refuse to bring back file groups that are in no bucket of the index that the table states.

    A bucket that is written anew stays the same bucket. What begins with eight digits by chance,
    as one in 43 random UUIDs, is none that was written.
    """
    is_stated = "hoodie.bucket.index.num.buckets" in config.properties
    if MIGRATION not in metadata.extra_metadata or not is_stated:
        return
    written = {
        (path, find_bucket_id(stat.file_id or ""))
        for path, stats in metadata.partition_to_write_stats.items()
        for stat in stats
    }
    replaced = {
        (path, find_bucket_id(file_id))
        for path, file_ids in metadata.partition_to_replace_file_ids.items()
        for file_id in file_ids
    }
    if any(bucket is None or (path, bucket) not in written for path, bucket in replaced):
        raise ConflictError(
            f"{what} moved partitions to the buckets of the index that the table states; to undo "
            "the migration, restore the table to a savepoint from before"
        )


def check_newest(
    config: TableConfig,
    timeline: Timeline,
    target: Instant,
    metadata: CommitMetadata,
    planned: Mapping[FileGroupId, Instant],
) -> None:
    """Refuse to roll back a completed write that others stand on.

    Args:
        config: The table's properties.
        timeline: As it stands.
        target: What to roll back.
        metadata: What it wrote.
        planned: The file groups that pending compactions and clusterings have in plan.

    Raises:
        ConflictError: it is savepointed, not the newest, or planned to be rewritten; or it moved
            partitions to buckets that the table states.
    """
    what = f"{target.action} {target.requested_time}"
    for instant in timeline.completed.of("savepoint").instants:
        if instant.requested_time == target.requested_time:
            raise ConflictError(f"{what} is savepointed; delete the savepoint first")
    for instant in reversed(timeline.writes.completed.instants):
        if is_after(config, instant, target):
            raise ConflictError(
                f"{what} is not the newest write: {instant.action} {instant.requested_time} came "
                "after it. Roll that back first, or restore the table to a savepoint"
            )
    _check_no_stated_migration(config, what, metadata)
    began = target.requested_time
    if config.timeline_layout > 1:
        began = target.completion_time or began
    for group in _groups_of(metadata):
        instant_or_none = planned.get(group)
        if instant_or_none is not None and instant_or_none.requested_time > began:
            raise ConflictError(
                f"{what} wrote to file group {group[1]}, which {instant_or_none.action} "
                f"{instant_or_none.requested_time} is about to rewrite; execute that, and restore "
                "the table to a savepoint",
                partition=group[0],
            )


def check_basis_kept(
    target: Instant,
    metadata: CommitMetadata,
    compaction: CompactionPlan | None,
    listed: Listing,
    doomed: Collection[tuple[str, str]],
) -> None:
    """Refuse to take back what replaced files that a clean has deleted, or is about to.

    Args:
        target: What to roll back, completed.
        metadata: What it wrote.
        compaction: Its plan, if it is a compaction.
        listed: The partitions it wrote to or replaced file groups of.
        doomed: (partition path, file name) that pending cleans have in plan.

    Raises:
        ConflictError: so it is.
    """

    def names(path: str) -> set[str]:
        return {name for name in listed.get(path, ()) if (path, name) not in doomed}

    lost: tuple[str, str] | None = None
    for path, stats in metadata.partition_to_write_stats.items():
        bases = {n for n in map(find_data_file_name, names(path)) if isinstance(n, BaseFileName)}
        kept = {(base.file_id, base.instant) for base in bases}
        for stat in stats:
            is_base = isinstance(stat.file_name, BaseFileName)
            if is_base and stat.prev_commit not in (None, NULL_COMMIT):
                known = stat.prev_base_file
                if (
                    known not in names(path)
                    if known
                    else (stat.file_id, stat.prev_commit) not in kept
                ):
                    lost = path, known or f"{stat.file_id} of {stat.prev_commit}"
    empty = set((metadata.extra_metadata.get(EMPTY_GROUPS) or "").split(","))
    for path, file_ids in metadata.partition_to_replace_file_ids.items():
        there = {n.file_id for n in map(find_data_file_name, names(path)) if n is not None}
        for file_id in file_ids:
            if file_id not in there and file_id not in empty:
                lost = path, file_id
    for operation in compaction.operations if compaction is not None else ():
        path = operation.partition_path or ""
        for name in (operation.data_file_path, *operation.delta_file_paths):
            if name and name.rpartition("/")[2] not in names(path):
                lost = path, name
    if lost is not None:
        raise ConflictError(
            f"{target.action} {target.requested_time} cannot be rolled back: a clean has deleted "
            f"what it replaced ({lost[1]}). Restore the table to a savepoint",
            partition=lost[0],
        )


def check_not_built_on(
    target: Instant,
    logs: Iterable[MarkerName],
    listed: Listing,
    completed: Collection[str],
) -> None:
    """Refuse to take back a pending write that was completed once, and that others stand on.

    Its file was moved away, or emptied. Base files that were made of its files since hold its rows,
    and its other rows would go.

    Args:
        target: What to roll back.
        logs: What it logged to file slices of others.
        listed: All partitions.
        completed: The requested times of the completed writes.

    Raises:
        ConflictError: so it is.
    """
    names = {
        path: [name for name in map(find_data_file_name, sizes) if name is not None]
        for path, sizes in listed.items()
    }
    own = {
        (path, name.file_id)
        for path, parsed in names.items()
        for name in parsed
        if name.instant == target.requested_time
    }
    logged = ((log.partition_path, find_data_file_name(log.data_file_name)) for log in logs)
    own |= {(path, name.file_id) for path, name in logged if name is not None}
    for path, parsed in names.items():
        for name in parsed:
            if (
                isinstance(name, BaseFileName)
                and (path, name.file_id) in own
                and name.instant > target.requested_time
                and name.instant in completed
            ):
                raise ConflictError(
                    f"{target.action} {target.requested_time} was completed, and its file moved "
                    f"away or emptied since: {name.instant}, which came after it, has made a base "
                    "file with its rows. Put the file back on the timeline, or roll that back "
                    "first, or restore the table to a savepoint",
                    partition=path,
                    path=join_path(path, str(name)),
                )


def check_still_there(before: Timeline, now: Timeline) -> None:
    """Refuse to publish what stands on a write that was taken back meanwhile.

    Args:
        before: The timeline the write was planned on.
        now: The timeline as it is under the table lock.

    Raises:
        ConflictError: so it is.
    """
    instant = find_rolled_back(before, now)
    if instant is not None:
        raise ConflictError(
            f"{instant.action} {instant.requested_time}, which this write stands on, was rolled "
            "back. Nothing was published; reload the table and retry"
        )


def check_resizes_kept(copied_for: Iterable[str], now: Timeline) -> None:
    """Refuse to publish copies of rows for a resize that was taken back meanwhile.

    Args:
        copied_for: Requested times of resizes that were pending.
        now: The timeline as it is under the table lock.

    Raises:
        ConflictError: so it is.
    """
    for time in sorted(copied_for):
        if not now.contains(time):
            raise ConflictError(
                f"the resize of {time}, which this write has written copies of rows for, was "
                "rolled back. Nothing was published; reload the table and retry"
            )


def _groups_of(metadata: CommitMetadata) -> set[FileGroupId]:
    found = {
        (path, stat.file_id or "")
        for path, stats in metadata.partition_to_write_stats.items()
        for stat in stats
    }
    for path, file_ids in metadata.partition_to_replace_file_ids.items():
        found |= {(path, file_id) for file_id in file_ids}
    return found
