"""Which concurrent operations a write must not be published over.

Pure. Source: `TransactionUtils.resolveWriteConflictIfAny`, `ConcurrentOperation`,
`SimpleConcurrentFileWritesConflictResolutionStrategy`,
`BucketIndexConcurrentFileWritesConflictResolutionStrategy`.

The unit of conflict is (partition, bucket); on a table whose file ids carry no bucket id it
is the file group. Beyond Hudi's rules, a write conflicts with a rollback or a restore that
takes it back; with a rehash or a rescaling, which may change the buckets of any partition, also
of a new one; with a migration of a partition it writes to; and in table version 6 with a later
rollback that logged to a file group it logs to. A pending clustering is no conflict if it resizes
a ring and the write has written copies of its rows for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bucketfmt.errors import ConflictError
from bucketfmt.format.buckets.child_nodes import find_ring_changes
from bucketfmt.format.buckets.migrations import MIGRATION
from bucketfmt.format.buckets.rehashes import REHASH
from bucketfmt.format.names.names import FileGroupId, find_data_file_name
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.instant_content import InstantContent
from bucketfmt.format.timeline.plans import (
    CompactionPlan,
    RequestedReplaceMetadata,
    RestorePlan,
    RollbackPlan,
)
from bucketfmt.format.timeline.service_metadata import RollbackMetadata
from bucketfmt.format.timeline.write_operation import SERVICE_OPERATIONS, WriteOperation
from bucketfmt.index.model import Index
from bucketfmt.timeline.timeline import Instant, Timeline, count_shared, instant_key

__all__ = [
    "ConcurrentOperation",
    "Conflict",
    "concurrent_operation",
    "conflict_error",
    "find_candidates",
    "find_conflicts",
]

_PENDING_CANDIDATES = ("replacecommit", "clustering", "rollback", "restore")


@dataclass(frozen=True, slots=True)
class ConcurrentOperation:
    """What an instant touches, or would.

    Attributes:
        requested_time: When it began.
        action: As the timeline has it.
        is_completed: Whether its effects are visible.
        file_groups: (partition path, file id) of what it wrote, replaced or plans to.
        operation_type: Hudi's name of the operation, for example `UPSERT`; None if unknown.
        rolled_back: Requested times of the instants it takes back.
        gained: The partitions to which it wrote new keys.
        schema: The table's columns as a write states them, as Avro JSON.
        latest_schema: The same with column ids, where the table keeps them.
        children: (partition path, file id) of the file groups that a resize is to make.
        copied_for: Requested times of the pending resizes that it wrote copies of its rows for.
        rehashes: Whether it may change the buckets of any partition, also of a new one.
    """

    requested_time: str
    action: str
    is_completed: bool
    file_groups: frozenset[FileGroupId] = frozenset()
    operation_type: str | None = None
    rolled_back: frozenset[str] = frozenset()
    gained: frozenset[str] = frozenset()
    schema: str | None = None
    latest_schema: str | None = None
    rehashes: bool = False
    children: frozenset[FileGroupId] = frozenset()
    copied_for: frozenset[str] = frozenset()

    @property
    def operation(self) -> WriteOperation | None:
        """The operation; None where the type is unknown, or nothing depends on it."""
        return WriteOperation.find(self.operation_type)


@dataclass(frozen=True, slots=True)
class Conflict:
    """One reason why a write cannot be published.

    Attributes:
        other: The operation it collides with.
        partition_path: Where; None if that operation takes the whole write back.
        bucket_id: Which bucket; None where file ids carry none, or all of the partition's.
        file_id: The file group of the write; None if it is about more than one.
        of_new_keys: Both wrote new keys, which may be the same in different file groups.
        of_resize: That operation takes back a resize which the write has written copies for.
    """

    other: ConcurrentOperation
    partition_path: str | None = None
    bucket_id: int | None = None
    file_id: str | None = None
    of_new_keys: bool = False
    of_resize: bool = False

    def __str__(self) -> str:
        state = "completed" if self.other.is_completed else "pending"
        by = f"{state} {self.other.operation_type or self.other.action} {self.other.requested_time}"
        if self.of_new_keys:
            return f"the {by} also wrote new keys, which may be the same"
        if self.of_resize:
            return f"the {by} takes back the resize that this write has written copies of rows for"
        if self.partition_path is None:
            return f"the {by} takes this write back"
        where = f"partition {self.partition_path!r}"
        if self.bucket_id is not None:
            where = f"bucket {self.bucket_id} of {where}"
        elif self.file_id is not None:
            where = f"file group {self.file_id} of {where}"
        return f"the {by} also changes {where}"


def find_candidates(
    config: TableConfig,
    before: Timeline,
    now: Timeline,
    requested_time: str,
    *,
    writes_base_files: bool = False,
) -> tuple[Instant, ...]:
    """Return the instants whose content has to be looked at before a write is published.

    Those that completed since the write began, whenever they were requested; and of those
    pending, what rewrites or takes back file groups: they do not look at us when they end.

    Args:
        config: The table's properties.
        before: The timeline the write was planned on.
        now: The timeline as it is under the table lock.
        requested_time: The write's own instant.
        writes_base_files: Whether the write has base files, and not log files only.
    """
    # From version 8 on, log files belong to a file slice by completion time, so that a
    # compaction cannot leave behind those of a write it did not know. A base file opens a slice
    # of its requested time in all versions: the base file of a later compaction would hide it.
    compactions_matter = config.table_version < 8 or writes_base_files
    # Hudi 0.15 reads no log block behind that of a rollback which is later than all commits.
    rollbacks_matter = config.table_version < 8 and config.table_type == "MERGE_ON_READ"
    shared = count_shared(before.instants, now.instants)
    known = {
        instant_key(each, now.layout) for each in before.instants[shared:] if each.is_completed
    }
    came = now.instants[shared:]
    pending = [each for each in now.pending.instants if each not in came]
    found = []
    for instant in (*pending, *came):
        if instant.requested_time == requested_time:
            continue
        is_later = instant.requested_time > requested_time
        if instant.is_completed and instant.action == "rollback":
            is_candidate = rollbacks_matter and is_later
        elif instant.is_completed:
            is_compaction = instant.action == "commit" and config.table_type == "MERGE_ON_READ"
            is_candidate = (
                instant_key(instant, now.layout) not in known
                and instant.action in ("commit", "deltacommit", "replacecommit", "restore")
                and (compactions_matter or not is_compaction)
            )
        elif instant.action == "compaction":
            is_candidate = compactions_matter and is_later
        else:
            is_candidate = instant.action in _PENDING_CANDIDATES
        if is_candidate:
            found.append(instant)
    return tuple(found)


def concurrent_operation(instant: Instant, content: InstantContent | None) -> ConcurrentOperation:
    """Return what an instant touches, by what its files hold.

    Args:
        instant: A candidate.
        content: Of a completed instant, its metadata; of a pending one its plan, or where it
            has none what its inflight file tells. For a restore always its plan.
    """
    file_groups: set[FileGroupId] = set()
    operation_type: str | None = None
    rolled_back: frozenset[str] = frozenset()
    gained: frozenset[str] = frozenset()
    schema = latest_schema = None
    rehashes = False
    children: set[FileGroupId] = set()
    match content:
        case CommitMetadata():
            operation_type = content.operation_type
            extra = content.extra_metadata
            is_rescale = operation_type == WriteOperation.BUCKET_RESCALE.operation_type
            rehashes = REHASH in extra or (is_rescale and MIGRATION not in extra)
            if operation_type not in SERVICE_OPERATIONS:
                schema = content.extra_metadata.get("schema")
                latest_schema = content.extra_metadata.get("latest_schema")
                gained = frozenset(
                    partition
                    for partition, stats in content.partition_to_write_stats.items()
                    if any(stat.num_inserts for stat in stats)
                )
            for partition, stats in content.partition_to_write_stats.items():
                # A workload profile counts the inserts of a partition under no file id.
                file_groups.update((partition, stat.file_id) for stat in stats if stat.file_id)
            for partition, file_ids in content.partition_to_replace_file_ids.items():
                file_groups.update((partition, file_id) for file_id in file_ids)
        case CompactionPlan():
            operation_type = WriteOperation.COMPACT.operation_type
            for step in content.operations:
                file_groups.add((step.partition_path or "", step.file_id or ""))
        case RequestedReplaceMetadata(clustering_plan=plan) if plan is not None:
            operation_type = WriteOperation.CLUSTER.operation_type
            for group in plan.input_groups:
                file_groups.update((s.partition_path or "", s.file_id or "") for s in group.slices)
            for path, change in find_ring_changes(plan, instant.requested_time).items():
                children.update((path, file_id) for file_id in change.child_file_ids)
        case RollbackPlan(instant_to_rollback=target) if target is not None:
            rolled_back = frozenset({target.commit_time})
            file_groups |= _find_logged(content)
        case RollbackMetadata():
            file_groups |= _find_logged(content)
        case RestorePlan():
            rolled_back = frozenset(i.commit_time for i in content.instants_to_rollback)
    return ConcurrentOperation(
        instant.requested_time,
        instant.action,
        instant.is_completed,
        frozenset(file_groups),
        operation_type,
        rolled_back,
        gained,
        schema,
        latest_schema,
        rehashes,
        frozenset(children),
    )


def _find_logged(rollback: RollbackPlan | RollbackMetadata) -> set[FileGroupId]:
    """Return the file groups that a rollback logs a command block to, as in table version 6."""
    if isinstance(rollback, RollbackPlan):
        requests = [each for each in rollback.rollback_requests if each.log_blocks_to_be_deleted]
        return {(each.partition_path, each.file_id) for each in requests if each.file_id}
    paths = [path.rpartition("/") for path in rollback.command_logs]
    names = [(path, find_data_file_name(name)) for path, _, name in paths]
    return {(path, name.file_id) for path, name in names if name is not None}


def find_conflicts(
    ours: ConcurrentOperation,
    others: Iterable[ConcurrentOperation],
    index: Index,
    *,
    may_overlap: bool = False,
) -> tuple[Conflict, ...]:
    """Return every conflict of a write with those operations, by partition and bucket.

    Args:
        ours: The write that is to be published.
        others: The `find_candidates`.
        index: The table's, which tells the unit of conflict that a file group belongs to.
        may_overlap: That others have logged to the same file groups is no conflict, since
            readers merge both: non-blocking concurrency control. Another file group in the same
            bucket still is, and so is what hides or rewrites the file group.
    """
    others = tuple(others)
    resizes = [o for o in others if o.requested_time in ours.copied_for and not o.is_completed]
    copies = frozenset[FileGroupId]().union(*(resize.children for resize in resizes))
    units = {_unit(group, index): group for group in sorted(ours.file_groups - copies)}
    partitions = sorted({partition for partition, _ in ours.file_groups})
    conflicts = []
    for other in others:
        if ours.requested_time in other.rolled_back:
            conflicts.append(Conflict(other))
        elif other.rolled_back & ours.copied_for:
            conflicts.append(Conflict(other, of_resize=True))
        elif other in resizes:
            continue  # it takes the rows from the copies
        elif other.rehashes or (ours.rehashes and not _is_harmless(ours, other)):
            touched = partitions if other.rehashes else {path for path, _ in other.file_groups}
            conflicts += [Conflict(other, path) for path in sorted(touched)[:1]]
        elif other.operation is WriteOperation.BUCKET_RESCALE and other.is_completed:
            touched = {partition for partition, _ in other.file_groups}
            conflicts += [Conflict(other, path) for path in partitions if path in touched]
        elif not _is_harmless(ours, other):
            if index.keeps_locations and ours.gained and other.gained:
                conflicts.append(Conflict(other, min(ours.gained), of_new_keys=True))
            groups = other.file_groups
            if may_overlap and other.action == "deltacommit":
                groups -= ours.file_groups
            shared = {_unit(group, index) for group in groups} & units.keys()
            for unit in sorted(shared, key=str):
                partition, file_id = units[unit]
                bucket_id = unit[1] if isinstance(unit[1], int) else None
                conflicts.append(Conflict(other, partition, bucket_id, file_id))
    return tuple(conflicts)


def conflict_error(conflicts: tuple[Conflict, ...]) -> ConflictError:
    """Return the error about at least one conflict, naming the first.

    A pending clustering stays until the engine that planned it executes it, which Hudi may never
    do: a retry alone does not help.
    """
    first, more = conflicts[0], len(conflicts) - 1
    others = f" (and {more} more)" if more else ""
    pending = (conflict.other for conflict in conflicts if not conflict.other.is_completed)
    clustering = next((each for each in pending if each.operation is WriteOperation.CLUSTER), None)
    advice = "reload the table and retry"
    if clustering is not None:
        time = clustering.requested_time
        advice += (
            f" once the pending clustering {time} is executed by the engine that planned it, or "
            f"taken back: rollback({time!r})"
        )
    error = ConflictError(f"{first}{others}. Nothing was published; {advice}")
    return error.within(partition=first.partition_path, bucket=first.bucket_id)


def _unit(group: FileGroupId, index: Index) -> tuple[str, int | str]:
    partition, file_id = group
    return partition, index.conflict_unit(file_id)


def _is_harmless(ours: ConcurrentOperation, other: ConcurrentOperation) -> bool:
    if other.operation is WriteOperation.COMPACT:
        # It was planned before we began, so we wrote to the slice it opened.
        return other.requested_time < ours.requested_time
    if other.is_completed or other.operation is WriteOperation.CLUSTER:
        return False
    # A pending overwrite that began before us looks at us when it ends. Hudi has one that
    # began later prevail.
    return other.requested_time < ours.requested_time
