"""Cleaning: files that no reader of the retained commits needs are deleted.

I/O: the plan goes on the timeline under the table lock, the files are deleted, and what was
deleted is recorded. A clean that was not completed, Hudi's or one from here, is completed first.
Source: CleanPlanActionExecutor, CleanActionExecutor, CleanerUtils.

Where Hudi also removes the folder of a partition that has no file groups left, it stays here: a
writer may be about to put files there.

The lock is held for planning only, as in Hudi. What a clean under way deletes can no longer be
savepointed from here; what Hudi savepoints before a clean left by a crash goes on is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from bucketfmt.errors import ConflictError, CorruptError, UnsupportedError
from bucketfmt.format.names.instants import State, format_instant_file_name
from bucketfmt.format.names.layout import is_metadata_path
from bucketfmt.format.names.names import find_data_file_name
from bucketfmt.format.names.paths import check_relative_path, join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.plans import (
    ActionInstant,
    CleanerPlan,
    CleanFileInfo,
    CompactionOperation,
    CompactionPlan,
)
from bucketfmt.format.timeline.service_metadata import (
    CleanMetadata,
    CleanPartitionMetadata,
    SavepointMetadata,
)
from bucketfmt.limits import Limits
from bucketfmt.progress import ProgressCallback, Steps
from bucketfmt.snapshot.file_slices import find_slice_history
from bucketfmt.snapshot.files import DataFile
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.timeline.clock import known_times
from bucketfmt.timeline.load import (
    FileGroupId,
    load_compaction_plan,
    load_instant_content,
    load_pending_clusterings,
    load_replaced_file_groups,
    load_timeline,
)
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.timeline.transitions import put_completed, put_inflight, put_requested
from bucketfmt.write.commit.transaction import Transactions
from bucketfmt.write.rows.basis import check_writable
from bucketfmt.write.services.plan_clean import (
    Retention,
    find_earliest_retained,
    is_protected,
    plan_clean,
)

__all__ = ["CleanResult", "Cleaner"]

_SAVEPOINTED = "savepointed_timestamps"


@dataclass(frozen=True, slots=True)
class CleanResult:
    """What was deleted, or would be.

    Attributes:
        files: Paths relative to the table.
        bytes: Their sizes together, of those that were there.
        earliest_retained: The earliest instant that can still be read; None where nothing tells.
        instants: Requested times of the cleans completed; () for a dry run.
    """

    files: tuple[str, ...] = ()
    bytes: int = 0
    earliest_retained: str | None = None
    instants: tuple[str, ...] = ()


class Cleaner:
    """Cleans one table."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        transactions: Transactions,
        progress: ProgressCallback | None = None,
    ) -> None:
        """Set up.

        Args:
            snapshot: Returns the table as it is now.
            transactions: How the table is written to.
            progress: Told how many files are deleted.
        """
        self._progress = progress
        self._snapshot = snapshot
        self._owner = transactions

    def preview(self, retention: Retention) -> CleanResult:
        """Return what `run` would delete now. Writes nothing."""
        snapshot = self._snapshot()
        config, limits = snapshot.state.config, self._owner.limits
        plans = [plan for _, plan in self._pending(snapshot.state.timeline, config)]
        plan = self._plan(snapshot, retention)
        found: dict[str, None] = {}
        for own in (*plans, *([plan] if plan else [])):
            for partition_path, names in _names_to_delete(own, limits).items():
                found.update((join_path(partition_path, name), None) for name in names)
        sizes = [self._owner.store.info(path) for path in found]
        there = [info for info in sizes if info is not None]
        earliest = _earliest_of(plan or (plans[-1] if plans else None))
        files = tuple(info.path for info in there)
        return CleanResult(files, sum(info.size for info in there), earliest)

    def run(self, retention: Retention) -> CleanResult:
        """Complete the cleans that are pending, then plan one and execute it.

        Raises:
            UnsupportedError: the table is of a kind that is not written.
            CorruptError: a plan is damaged, or names what no clean would delete.
            LockTimeoutError: the table lock could not be acquired.
        """
        owner = self._owner
        with owner.recovered() as (config, timeline):
            pending = self._pending(timeline, config)
            kept = self._savepointed(self._snapshot()) if pending else ()
        results = [self._execute(config, instant, plan, kept) for instant, plan in pending]
        self._plan(self._snapshot(), retention)  # lists the partitions while others may write
        with owner.recovered() as (config, timeline):
            plan = self._plan(self._snapshot(), retention)
            if plan is not None:
                time = owner.clock.next_time(known_times(timeline))
                requested = put_requested(owner.store, config, time, "clean", plan)
        if plan is not None:
            results.append(self._execute(config, requested, plan))
        return CleanResult(
            tuple(path for result in results for path in result.files),
            sum(result.bytes for result in results),
            next((r.earliest_retained for r in reversed(results) if r.earliest_retained), None),
            tuple(instant for result in results for instant in result.instants),
        )

    # -- plan

    def _pending(
        self, timeline: Timeline, config: TableConfig
    ) -> list[tuple[Instant, CleanerPlan]]:
        store, limits = self._owner.store, self._owner.limits
        found = []
        for instant in timeline.pending.of("clean").instants:
            name = format_instant_file_name(
                instant.requested_time, "clean", State.REQUESTED, None, config.timeline_layout
            )
            plan = load_instant_content(store, config, replace(instant, file_name=name), limits)
            if not isinstance(plan, CleanerPlan):
                path = join_path(config.timeline_path, name)
                raise CorruptError("a clean without a plan; roll it back with Hudi", path=path)
            found.append((instant, plan))
        return found

    def _plan(self, snapshot: Snapshot, retention: Retention) -> CleanerPlan | None:
        """Return the plan for what is there now; None if there is nothing to delete."""
        state = snapshot.state
        check_writable(state.config)
        number = retention.number
        by_commits = retention.policy == "KEEP_LATEST_COMMITS"
        earliest = find_earliest_retained(state.timeline, number) if by_commits else None
        if by_commits and earliest is None:
            return None
        savepoints = state.timeline.completed.of("savepoint").instants
        protected = self._savepointed(snapshot) | self._about_to_be_compacted(snapshot)
        files: dict[str, list[CleanFileInfo]] = {}
        uri = state.store.uri.rstrip("/")
        root = uri if "://" in uri else f"file:{uri}"  # as Hadoop spells it
        for file in self._find_files(snapshot, retention, earliest, protected):
            path = f"{root}/{file.path}"
            partition_path = file.path.rpartition("/")[0]
            files.setdefault(partition_path, []).append(CleanFileInfo(file_path=path))
        if not files:
            return None
        last = state.timeline.commits.completed.last
        times = ",".join(instant.requested_time for instant in savepoints)
        return CleanerPlan(
            earliest_instant_to_retain=None
            if earliest is None
            else ActionInstant(
                timestamp=earliest.requested_time,
                action=earliest.action,
                state=earliest.state.value,
            ),
            last_completed_commit_timestamp=last.requested_time if last is not None else "",
            policy=retention.policy,
            file_paths_to_be_deleted_per_partition=files,
            extra_metadata={_SAVEPOINTED: times} if savepoints else {},
        )

    def _find_files(
        self,
        snapshot: Snapshot,
        retention: Retention,
        earliest: Instant | None,
        protected: Collection[str],
    ) -> list[DataFile]:
        state = snapshot.state
        replaced = load_replaced_file_groups(
            state.store, state.config, state.timeline, state.limits
        )
        clusterings = load_pending_clusterings(
            state.store, state.config, state.timeline, state.limits
        )
        found: list[DataFile] = []
        for path in state.partitions:
            for file_id, files in sorted(state.listed_files(path).items()):
                group: FileGroupId = path, file_id
                if group in clusterings:
                    continue
                by = replaced.get(group)
                if by is not None:
                    # All of it, also what nobody committed: once the replacement is archived,
                    # nothing would hide a rest.
                    is_past = earliest is None or (
                        by.requested_time < earliest.requested_time
                        and (by.completion_time or "") <= (earliest.completion_time or "~")
                    )
                    if is_past and not is_protected(files, protected):
                        found += files
                    continue
                compaction = state.pending_compactions.get(group)
                planned = compaction.requested_time if compaction is not None else None
                history = find_slice_history(path, file_id, files, snapshot, planned)
                times = snapshot.completion_time
                found += plan_clean(history, retention, earliest, protected, times)
        return found

    def _savepointed(self, snapshot: Snapshot) -> set[str]:
        """Return the names of the files that savepoints need."""
        state = snapshot.state
        names: set[str] = set()
        for instant in state.timeline.completed.of("savepoint").instants:
            content = load_instant_content(state.store, state.config, instant, state.limits)
            if not isinstance(content, SavepointMetadata):
                path = join_path(state.config.timeline_path, instant.file_name)
                raise CorruptError("a savepoint that tells no files; delete it", path=path)
            for partition in content.partition_metadata.values():
                names.update(partition.savepoint_data_file)
        return names

    def _about_to_be_compacted(self, snapshot: Snapshot) -> set[str]:
        """Return the names of the files that pending compactions need."""
        state = snapshot.state
        names: set[str] = set()
        for instant in state.timeline.pending.of("compaction", "logcompaction").instants:
            plan = load_compaction_plan(state.store, state.config, instant, state.limits)
            names.update(_files_of(plan))
        return names

    # -- execute

    def _execute(
        self,
        config: TableConfig,
        instant: Instant,
        plan: CleanerPlan,
        kept: Collection[str] = (),
    ) -> CleanResult:
        """Delete what a plan says but for the names `kept`, and complete the clean."""
        owner, began = self._owner, self._owner.machine.monotonic()
        to_delete = {
            path: [name for name in names if name not in kept]
            for path, names in _names_to_delete(plan, owner.limits).items()
        }
        if instant.state is State.REQUESTED:
            with suppress(ConflictError):  # another process is at it too: that does no harm
                put_inflight(owner.store, config, instant.requested_time, "clean", plan)
        deleted, size = [], 0
        steps = Steps(self._progress, "deleting", sum(map(len, to_delete.values())))
        for partition_path, names in to_delete.items():
            for name in names:
                path = join_path(partition_path, name)
                info = owner.store.info(path)
                owner.store.delete(path)
                deleted.append(path)
                size += info.size if info is not None else 0
                steps.step()
        metadata = _metadata_of(instant, plan, to_delete, owner.machine.monotonic() - began)
        with owner.locks.taken() as lock:
            owner.check_metadata_table()
            timeline = load_timeline(owner.store, config, owner.limits)
            if instant.requested_time not in {
                i.requested_time for i in timeline.completed.of("clean").instants
            }:
                put_completed(
                    owner.store,
                    config,
                    timeline,
                    owner.clock,
                    instant.requested_time,
                    "clean",
                    metadata,
                    lock.holds,
                )
        return CleanResult(tuple(deleted), size, _earliest_of(plan), (instant.requested_time,))


def _files_of(plan: CompactionPlan) -> Iterable[str]:
    def names(operation: CompactionOperation) -> Iterable[str]:
        paths = (operation.data_file_path, *operation.delta_file_paths)
        return (path.rpartition("/")[2] for path in paths if path)

    return (name for operation in plan.operations for name in names(operation))


def _names_to_delete(plan: CleanerPlan, limits: Limits) -> dict[str, list[str]]:
    """Return the names of the data files a plan deletes, by partition path.

    Raises:
        CorruptError: it would delete something else.
        UnsafePathError: a partition path that leads out of the table.
        UnsupportedError: it is of a kind that is not executed here.
    """
    planned: dict[str, list[str]] = {
        path: list(names) for path, names in plan.files_to_be_deleted_per_partition.items()
    }
    for path, files in plan.file_paths_to_be_deleted_per_partition.items():
        if any(file.is_bootstrap_base_file for file in files):
            raise UnsupportedError("cleaning bootstrapped files; let Hudi complete the clean")
        planned[path] = [file.file_path or "" for file in files]
    found: dict[str, list[str]] = {}
    for path, files_or_paths in planned.items():
        if path:
            check_relative_path(path, limits)
        if is_metadata_path(path):
            raise CorruptError(f"a clean that deletes in {path[:200]!r}; remove its instant")
        found[path] = names = [text.rpartition("/")[2] for text in files_or_paths]
        for name in names:
            if find_data_file_name(name) is None:
                raise CorruptError(f"a clean that deletes {name[:200]!r}; remove its instant")
    return found


def _metadata_of(
    instant: Instant, plan: CleanerPlan, deleted: Mapping[str, Sequence[str]], seconds: float
) -> CleanMetadata:
    return CleanMetadata(
        start_clean_time=instant.requested_time,
        time_taken_in_millis=int(seconds * 1000),
        total_files_deleted=sum(map(len, deleted.values())),
        earliest_commit_to_retain=_earliest_of(plan) or "",
        last_completed_commit_timestamp=plan.last_completed_commit_timestamp,
        partition_metadata={
            path: CleanPartitionMetadata(
                partition_path=path,
                policy=plan.policy,
                delete_path_patterns=names,
                success_delete_files=names,
                failed_delete_files=[],
            )
            for path, names in deleted.items()
        },
        extra_metadata=plan.extra_metadata,
    )


def _earliest_of(plan: CleanerPlan | None) -> str | None:
    if plan is None or plan.earliest_instant_to_retain is None:
        return None
    return plan.earliest_instant_to_retain.timestamp
