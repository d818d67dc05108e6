"""Which files a clean deletes, planned and read back from a plan.

Pure. Source: CleanPlanner, CleanPlanActionExecutor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bucketfmt.arguments import check_choice, check_int
from bucketfmt.choices import CleanPolicy
from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.names.layout import is_metadata_path
from bucketfmt.format.names.names import FileGroupId, LogFileName, find_data_file_name
from bucketfmt.format.names.paths import check_relative_path
from bucketfmt.format.timeline.plans import (
    OWN_PLAN,
    ActionInstant,
    CleanerPlan,
    CleanFileInfo,
    CompactionPlan,
)
from bucketfmt.format.timeline.service_metadata import (
    CleanMetadata,
    CleanPartitionMetadata,
    SavepointMetadata,
)
from bucketfmt.limits import Limits
from bucketfmt.snapshot.data_files.file_slices import InstantView, TimelineView, find_slice_history
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.timeline.timeline import Instant, Timeline

__all__ = [
    "CleanBasis",
    "Retention",
    "cleaned",
    "earliest_retained",
    "find_compacted_names",
    "find_earliest_retained",
    "find_old_files",
    "find_savepoint_times",
    "find_savepointed_names",
    "is_idle",
    "parse_clean_plan",
    "plan_clean",
    "planned_names",
]

_RETAINED: Mapping[str, int] = {"KEEP_LATEST_COMMITS": 10, "KEEP_LATEST_FILE_VERSIONS": 3}
_SAVEPOINTED = "savepointed_timestamps"


@dataclass(frozen=True, slots=True)
class Retention:
    """What to keep.

    Attributes:
        policy: By commits: what was read at one of the last commits can be read again. By
            versions: of each file group so many file slices.
        retain: How many; None for Hudi's default, 10 commits or 3 file slices.

    Raises:
        TypeError: `retain` is not an integer.
        ValueError: `retain` is not positive, or an unknown policy.
    """

    policy: CleanPolicy = "KEEP_LATEST_COMMITS"
    retain: int | None = None

    def __post_init__(self) -> None:
        check_choice("policy", self.policy, _RETAINED)
        if self.retain is not None:
            check_int("retain", self.retain, 1)

    @property
    def number(self) -> int:
        """How many commits or versions."""
        return _RETAINED[self.policy] if self.retain is None else self.retain


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanBasis:
    """What a clean is planned from: the table at one moment.

    Attributes:
        root: The table's URI; the plan's paths are absolute.
        view: The timeline, with the archived instants where file names need them.
        groups: The listed files of each file group, in the order in which the plan names them.
        replaced: File groups that completed instants replaced, each with the last that did.
        clustering: File groups that pending clusterings will replace.
        compacting: File groups that pending compactions will rewrite, each with the requested
            time of its compaction.
        needed: Names of files that savepoints and pending compactions need.
        left_logs: Paths of log files in which nothing counts, since a plan was taken back.
    """

    root: str
    view: TimelineView
    groups: Mapping[FileGroupId, Sequence[DataFile]]
    replaced: Mapping[FileGroupId, Instant]
    clustering: Collection[FileGroupId]
    compacting: Mapping[FileGroupId, str]
    needed: Collection[str]
    left_logs: Collection[str] = ()


def is_idle(timeline: Timeline, retention: Retention) -> bool:
    """Return whether the timeline alone tells that there is nothing to clean."""
    return (
        retention.policy == "KEEP_LATEST_COMMITS"
        and find_earliest_retained(timeline, retention.number) is None
    )


def plan_clean(basis: CleanBasis, retention: Retention) -> CleanerPlan | None:
    """Return what to delete; None if there is nothing to delete.

    A file group that is being clustered is left alone. A replaced file group goes as a whole once
    no retained commit reads it, unless one of its files is needed; of every other file group the
    slices of `find_old_files` go, and log files that Hudi left of a plan that was taken back.
    """
    timeline = basis.view.timeline
    if is_idle(timeline, retention):
        return None
    by_commits = retention.policy == "KEEP_LATEST_COMMITS"
    earliest = find_earliest_retained(timeline, retention.number) if by_commits else None
    root = basis.root.rstrip("/")
    root = root if "://" in root else f"file:{root}"  # as Hadoop spells it
    files: dict[str, list[CleanFileInfo]] = {}
    for file in _find_files(basis, retention, earliest):
        partition_path = file.path.rpartition("/")[0]
        info = CleanFileInfo(file_path=f"{root}/{file.path}")
        files.setdefault(partition_path, []).append(info)
    if not files:
        return None
    last = timeline.commits.completed.last
    savepoints = timeline.completed.of("savepoint").instants
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
        extra_metadata={**OWN_PLAN, **({_SAVEPOINTED: times} if savepoints else {})},
    )


def _find_files(
    basis: CleanBasis, retention: Retention, earliest: Instant | None
) -> Iterator[DataFile]:
    for group, files in basis.groups.items():
        if group in basis.clustering:
            continue
        by = basis.replaced.get(group)
        if by is not None:
            # All of it, also what nobody committed: once the replacement is archived, nothing
            # would hide the files that are left.
            if _is_past(by, earliest) and not _is_needed(files, basis.needed):
                yield from files
            continue
        left = [file for file in files if file.path in basis.left_logs]
        if not _is_needed(left, basis.needed):
            yield from sorted(left, key=_version_of)  # the command blocks last
        kept = [file for file in files if file not in left] if left else files
        history = find_slice_history(*group, kept, basis.view, basis.compacting.get(group))
        yield from find_old_files(history, retention, earliest, basis.needed, basis.view)


def _version_of(file: DataFile) -> int:
    return file.name.version if isinstance(file.name, LogFileName) else 0


def _is_past(replacement: Instant, earliest: Instant | None) -> bool:
    """Whether no reader of the earliest retained commit sees what an instant replaced."""
    return earliest is None or (
        replacement.requested_time < earliest.requested_time
        and (replacement.completion_time or "") <= (earliest.completion_time or "~")
    )


def find_earliest_retained(timeline: Timeline, commits: int) -> Instant | None:
    """Return the earliest of the last commits, none of them after one that is pending.

    None: there are no more than so many, or none before the pending one.
    """
    completed = timeline.writes.completed.instants
    if len(completed) <= commits:
        return None
    earliest = completed[-commits]
    pending = timeline.writes.pending.first
    if pending is not None and earliest.requested_time > pending.requested_time:
        before = [i for i in completed if i.requested_time < pending.requested_time]
        return before[-1] if before else None
    return earliest


def find_old_files(
    history: Sequence[FileSlice],
    retention: Retention,
    earliest: Instant | None,
    needed: Collection[str],
    view: InstantView,
) -> list[DataFile]:
    """Return the files of one file group to delete; never one of its newest slice.

    Where Hudi goes by requested times alone, a slice also has to have been there when the
    earliest commit completed: a compaction may be executed long after it was scheduled, and
    readers need the slice before it until then.

    Args:
        history: All its slices, oldest first.
        retention: What to keep.
        earliest: `find_earliest_retained`, where commits are kept.
        needed: Names of files; a slice with one of them is kept whole.
        view: Tells when an instant completed.
    """
    if retention.policy == "KEEP_LATEST_FILE_VERSIONS":
        old = history[: -retention.number]
    elif earliest is None:
        return []
    else:
        time = earliest.completion_time or earliest.requested_time
        before = [
            file_slice
            for file_slice in history
            if file_slice.base_instant < earliest.requested_time
            and view.completion_time(file_slice.base_instant) <= time
        ]
        old = before[:-1]  # the newest of these is what a reader of the earliest commit sees
    return [file for s in old if not _is_needed(s.files, needed) for file in s.files]


def _is_needed(files: Iterable[DataFile], needed: Collection[str]) -> bool:
    return any(str(file.name) in needed for file in files)


def find_savepointed_names(savepoints: Iterable[SavepointMetadata]) -> set[str]:
    """Return the names of the files that savepoints need."""
    return {
        name
        for savepoint in savepoints
        for partition in savepoint.partition_metadata.values()
        for name in partition.savepoint_data_file
    }


def find_compacted_names(plans: Iterable[CompactionPlan]) -> set[str]:
    """Return the names of the files that pending compactions need."""
    return {
        path.rpartition("/")[2]
        for plan in plans
        for operation in plan.operations
        for path in (operation.data_file_path, *operation.delta_file_paths)
        if path
    }


def find_savepoint_times(done: CleanMetadata) -> set[str]:
    """Return the requested times of the savepoints whose files a clean kept."""
    return set(filter(None, done.extra_metadata.get(_SAVEPOINTED, "").split(",")))


def planned_names(plan: CleanerPlan) -> dict[str, list[str]]:
    """Return the names of the files a plan deletes, by partition path. Nothing is checked."""
    planned: dict[str, Iterable[str]] = {**plan.files_to_be_deleted_per_partition}
    for path, files in plan.file_paths_to_be_deleted_per_partition.items():
        planned[path] = [file.file_path or "" for file in files]
    return {path: [text.rpartition("/")[2] for text in texts] for path, texts in planned.items()}


def parse_clean_plan(
    plan: CleanerPlan,
    limits: Limits,
    find_name: Callable[[str], object | None] = find_data_file_name,
) -> dict[str, list[str]]:
    """Return the names of the data files a plan deletes, by partition path.

    The plan may be another writer's.

    Args:
        plan: What to delete.
        limits: Bounds on paths.
        find_name: Returns the parts of the name of a data file; None for other files. That of
            metadata tables is `find_metadata_file_name`.

    Raises:
        CorruptError: the plan would delete something else.
        UnsafePathError: a partition path leads out of the table.
        UnsupportedError: the plan is of a kind that is not executed here.
    """
    found = planned_names(plan)
    for files in plan.file_paths_to_be_deleted_per_partition.values():
        if any(file.is_bootstrap_base_file for file in files):
            raise UnsupportedError("cleaning bootstrapped files; let Hudi complete the clean")
    for path, names in found.items():
        if path:
            check_relative_path(path, limits)
        if is_metadata_path(path):
            raise CorruptError(f"a clean that deletes in {path[:200]!r}; remove its instant")
        for name in names:
            if find_name(name) is None:
                raise CorruptError(f"a clean that deletes {name[:200]!r}; remove its instant")
    return found


def earliest_retained(plan: CleanerPlan | None) -> str | None:
    """Return the requested time of the earliest instant a plan keeps readable; None if unknown."""
    if plan is None or plan.earliest_instant_to_retain is None:
        return None
    return plan.earliest_instant_to_retain.timestamp


def cleaned(
    requested_time: str,
    plan: CleanerPlan,
    deleted: Mapping[str, Sequence[str]],
    seconds: float,
) -> CleanMetadata:
    """Return what the completed file of a clean holds.

    Args:
        requested_time: Of the clean.
        plan: That was executed.
        deleted: The names of the files that are gone, by partition path.
        seconds: How long deleting them took.
    """
    return CleanMetadata(
        start_clean_time=requested_time,
        time_taken_in_millis=int(seconds * 1000),
        total_files_deleted=sum(map(len, deleted.values())),
        earliest_commit_to_retain=earliest_retained(plan) or "",
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
