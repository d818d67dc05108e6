"""The services of a metadata table: compaction, cleaning and archival, so that it does not grow.

I/O, under the lock of the table, before the next delta commit. Source:
HoodieBackedTableMetadataWriter (performTableServices, compactIfNecessary, cleanIfNecessary) and its
subclass for table version 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from bucketfmt.format.metadata.metadata_files import encode_metadata_base_file
from bucketfmt.format.metadata.metadata_schemas import metadata_schema
from bucketfmt.format.names.instants import State
from bucketfmt.format.names.layout import UNKNOWN_WRITE_TOKEN
from bucketfmt.format.names.names import BaseFileName, find_metadata_file_name
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.timeline.commit_metadata import CommitMetadata, WriteStat
from bucketfmt.format.timeline.plans import (
    CleanerPlan,
    CleanFileInfo,
    CompactionOperation,
    CompactionPlan,
)
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.metadata_table.group_reader import GroupReader
from bucketfmt.metadata_table.metadata_table import (
    MetadataTable,
    find_last_compaction,
    find_unmerged_since,
)
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.timeline.history import load_archived_among
from bucketfmt.timeline.history_writer import HistoryWriter
from bucketfmt.timeline.load import load_compaction_plan, load_requested_content
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.commit.locked_table import LockedTable
from bucketfmt.write.files.earlier_attempt import remove_earlier_attempt
from bucketfmt.write.services.plan_archive import ArchiveBasis, ArchivePolicy, plan_archive
from bucketfmt.write.services.plan_clean import cleaned, parse_clean_plan
from bucketfmt.write.services.plan_compaction import plan_compaction

__all__ = ["serve_metadata_table"]

_DELTA_COMMITS = 10  # hoodie.metadata.compact.max.delta.commits
_COMPACTION_SUFFIX, _CLEAN_SUFFIX = "001", "002"  # of instants until table version 6
_SLICES_KEPT = 2
_KEPT = ArchivePolicy()
_POLICY = "KEEP_LATEST_FILE_VERSIONS"

_T = TypeVar("_T")


def serve_metadata_table(table: LockedTable, below: LockedTable) -> MetadataTable | None:
    """Finish the compactions that were begun, and compact, clean and archive when it is time.

    Args:
        table: The table.
        below: Its metadata table.

    Returns:
        The metadata table as it is then; None if nothing was due.

    Raises:
        CorruptError: the metadata table is damaged.
        ConflictError: the lock was lost.
        StorageError: the store failed.
    """
    below.withdraw_unplanned()
    begun = below.timeline.pending.of("compaction").instants
    for instant in begun:
        old = load_compaction_plan(below.store, below.config, instant, below.limits)
        _execute(below, instant, old, _open(table, below))
    newest = below.timeline.completed.of("deltacommit").last
    is_due = _is_compaction_due(table.timeline, below.timeline)
    if newest is None or not (is_due or _is_clean_due(below.timeline)):
        return _open(table, below) if begun else None
    is_old = below.config.table_version < 8
    _clean(table, below, newest.requested_time + _CLEAN_SUFFIX if is_old else None)
    _archive(table, below)
    metadata = _open(table, below)
    slices = [reader.file_slice for reader in _groups(metadata)] if is_due else []
    plan = plan_compaction(slices, ())
    if plan is not None:
        time = newest.requested_time + _COMPACTION_SUFFIX if is_old else None
        _execute(below, below.request("compaction", plan, time), plan, metadata)
    return _open(table, below)


def _is_clean_due(metadata: Timeline) -> bool:
    """Whether others have compacted more often since the last clean than slices are kept.

    Who compacts here cleans first. Hudi may compact for long before it cleans.
    """
    clean = metadata.completed.of("clean").last
    since = "" if clean is None else clean.requested_time
    compactions = metadata.completed.of("commit").instants
    return sum(each.requested_time > since for each in compactions) > _SLICES_KEPT


def _is_compaction_due(data: Timeline, metadata: Timeline) -> bool:
    """Whether a compaction is due, and may be made.

    A base file has to stand for all instants up to the compaction. So there is no compaction as
    long as an instant of the table is pending whose records are in the metadata table already, or
    may still come with an older time.
    """
    deltas = metadata.completed.of("deltacommit").instants
    last = find_last_compaction(metadata)
    since = deltas if last is None else [i for i in deltas if _is_after(i, last, metadata.layout)]
    if len(since) < _DELTA_COMMITS:
        return False
    newest = deltas[-1]
    known = metadata.requested_times
    for pending in data.pending.instants:
        is_older = metadata.layout == 1 and pending.requested_time <= newest.requested_time
        if is_older or pending.requested_time in known:
            return False
    return True


def _is_after(instant: Instant, compaction: Instant, layout: int) -> bool:
    """Whether a delta commit is not in the base files of a compaction."""
    completed = instant.completion_time if layout > 1 else None
    return (completed or instant.requested_time) > compaction.requested_time


def _open(table: LockedTable, below: LockedTable) -> MetadataTable:
    return MetadataTable(
        table.store, table.config, table.timeline, below.config, below.timeline, table.limits
    )


def _groups(metadata: MetadataTable) -> Iterator[GroupReader]:
    for partition in _of_each(metadata, metadata.partition):
        for groups in partition.groups.values():
            yield from groups


def _of_each(metadata: MetadataTable, load: Callable[[str], _T]) -> list[_T]:
    """Return what is loaded of each partition, over a network at the same time."""
    return map_in_threads(load, metadata.partition_names, waiting_count(metadata.store))


# -- compaction


def _execute(
    below: LockedTable, instant: Instant, plan: CompactionPlan, metadata: MetadataTable
) -> None:
    """Write the base files of a compaction, and complete it.

    Args:
        below: The metadata table, to be written to.
        instant: The compaction, requested or inflight.
        plan: Of the compaction.
        metadata: The metadata table, to be read from.
    """
    if instant.state is State.REQUESTED:
        below.begin(instant.requested_time, "compaction")
    else:
        paths = (operation.partition_path or "" for operation in plan.operations)
        remove_earlier_attempt(below, instant.requested_time, paths, find_metadata_file_name)
    readers = {reader.file_slice.file_id: reader for reader in _groups(metadata)}

    def compact(operation: CompactionOperation) -> WriteStat | None:
        reader = readers.get(operation.file_id or "")
        if reader is None:  # of a partition that was dropped meanwhile
            return None
        planned = reader.with_logs(operation.delta_file_paths)
        return _put_base_file(below, planned, operation, instant.requested_time)

    stats: dict[str, list[WriteStat]] = {}
    for stat in map_in_threads(compact, plan.operations, waiting_count(below.store)):
        if stat is not None:
            stats.setdefault(stat.partition_path or "", []).append(stat)
    done = CommitMetadata(
        partition_to_write_stats=stats,
        compacted=True,
        operation_type=WriteOperation.COMPACT.operation_type,
    )
    below.publish(instant, done)


def _put_base_file(
    below: LockedTable, reader: GroupReader, operation: CompactionOperation, time: str
) -> WriteStat:
    schema = metadata_schema(below.config.table_version)
    entries = reader.scan_columns(schema)
    created_ms = int(below.machine.now() * 1000)
    data = encode_metadata_base_file(entries, schema, created_ms=created_ms)
    partition, file_id = operation.partition_path or "", operation.file_id or ""
    name = str(BaseFileName(file_id, UNKNOWN_WRITE_TOKEN, time, "hfile"))
    path = join_path(partition, name)
    below.check_held()
    below.store.replace(path, data)  # an earlier try may have left it
    return WriteStat(
        file_id=file_id,
        path=path,
        prev_commit=operation.base_instant_time,
        num_writes=len(entries),
        num_update_writes=len(entries),
        total_write_bytes=len(data),
        file_size_in_bytes=len(data),
        partition_path=partition,
        total_log_files=len(operation.delta_file_paths),
        prev_base_file=operation.data_file_path or None,
    )


# -- cleaning and archival


def _clean(table: LockedTable, below: LockedTable, time: str | None) -> None:
    """Delete the file slices that no reader needs, but for the last two of each file group."""
    for instant in below.timeline.pending.of("clean").instants:
        plan = load_requested_content(below.store, below.config, instant, below.limits)
        if isinstance(plan, CleanerPlan):
            _execute_clean(below, instant, plan)
    if time is not None and any(i.requested_time == time for i in below.timeline.instants):
        return  # a process that died before the compaction has cleaned
    found: dict[str, list[str]] = {}
    metadata = _open(table, below)
    histories = _of_each(metadata, metadata.slice_histories)
    for name, groups in zip(metadata.partition_names, histories, strict=True):
        for history in groups:
            for file_slice in history[:-_SLICES_KEPT]:
                found.setdefault(name, []).extend(str(file.name) for file in file_slice.files)
    if not found:
        return
    root = below.store.uri
    plan = CleanerPlan(
        policy=_POLICY,
        file_paths_to_be_deleted_per_partition={
            partition: [CleanFileInfo(file_path=f"{root}/{partition}/{name}") for name in names]
            for partition, names in found.items()
        },
    )
    _execute_clean(below, below.request("clean", plan, time), plan)


def _execute_clean(below: LockedTable, instant: Instant, plan: CleanerPlan) -> None:
    """Delete the files of a plan, and complete the clean."""
    if instant.state is State.REQUESTED:
        below.begin(instant.requested_time, "clean", plan)
    deleted = parse_clean_plan(plan, below.limits, find_metadata_file_name)
    paths = [join_path(partition, name) for partition, own in deleted.items() for name in own]
    below.check_held()  # a metadata table that was made anew has files of the same names
    map_in_threads(below.store.delete, paths, waiting_count(below.store))
    below.publish(instant, cleaned(instant.requested_time, plan, deleted, 0))


def _archive(table: LockedTable, below: LockedTable) -> None:
    """Move instants whose records the last compaction has merged into the history.

    An instant of the table that is pending will come with its own time, which is the earliest then:
    what is archived by then has to be earlier, or it would count as never completed.
    """
    timeline = below.timeline
    last = find_last_compaction(timeline)
    if last is None:
        return
    pending = table.timeline.pending.first
    before = find_unmerged_since(timeline, last)
    if pending is not None:
        before = min(before, pending.requested_time)
    planned = plan_archive(ArchiveBasis(timeline, (), before=before), _KEPT)
    history = HistoryWriter(below.store, below.config, below.limits, below.check_held)
    known = load_archived_among(below.store, below.config, planned, below.limits)
    history.put_archived([instant for instant in planned if instant not in known])
    history.delete_active(planned)
    history.compact()
    below.load_timeline()
