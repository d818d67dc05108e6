"""Reading the active timeline: its listing, and the files of single instants.

Does I/O, read only. Source: `HoodieTableMetaClient.scanHoodieInstantsFromFileSystem`,
`CommitMetadataSerDeV1/V2`, `AbstractTableFileSystemView.init`, `CompactionUtils`,
`ClusteringUtils`.

A file of the listing that does not exist when it is read (`NotFoundError`) means that a writer
archived or rolled back an instant meanwhile: load the timeline again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timezone
from typing import TypeVar

from bucketfmt.errors import (
    BucketfmtError,
    CorruptError,
    LimitError,
    NotFoundError,
    StorageError,
    UnsafePathError,
    UnsupportedError,
)
from bucketfmt.format.buckets.child_nodes import RingChange, find_ring_changes
from bucketfmt.format.names.instants import State, format_instant_file_name
from bucketfmt.format.names.names import FileGroupId
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata, decode_commit_metadata
from bucketfmt.format.timeline.instant_content import InstantContent, decode_instant_content
from bucketfmt.format.timeline.plans import (
    ClusteringPlan,
    CompactionOperation,
    CompactionPlan,
    RequestedReplaceMetadata,
    decode_compaction_plan,
    decode_requested_replace_metadata,
)
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.process import new_mutex
from bucketfmt.storage.store import FileInfo, Store
from bucketfmt.storage.stores.folder_names import FEW_NAMES
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.timeline.timeline import (
    REPLACING_ACTIONS,
    Instant,
    NamedTimeline,
    Timeline,
    plan_timeline,
)

__all__ = [
    "load_clustering_plan",
    "load_commit_metadata",
    "load_compaction_plan",
    "load_instant_content",
    "load_pending_clusterings",
    "load_pending_compactions",
    "load_pending_ring_changes",
    "load_replaced_file_groups",
    "load_requested_content",
    "load_resized_partitions",
    "load_resizes",
    "load_timeline",
    "load_unplanned",
    "requested_name",
]

_T = TypeVar("_T")

_LISTINGS_MAX = 10
_TIMELINES_KEPT = 4  # those of a table and of its metadata table, twice


def load_timeline(store: Store, config: TableConfig, limits: Limits = DEFAULT_LIMITS) -> Timeline:
    """Return the active timeline, from one listing of its folder.

    A listing does not show one moment. During an archival, the listing may have the requested file
    of an archived instant and lack its completed file, so that the archived instant looks pending.
    Archival deletes the completed file last, and leaves a completed write before any pending write.
    So the timeline is listed again if a pending write has no completed write before it.

    Raises:
        LimitError: there are more instants than `limits.timeline_instants_max`, or than memory
            suffices for.
    """
    for _ in range(_LISTINGS_MAX):
        try:
            timeline = _list_timeline(store, config, limits)
        except MemoryError as error:
            raise LimitError.of_memory("", error).within(path=config.timeline_path) from error
        if not timeline.pending.instants:
            break
        first = next((i.requested_time for i in timeline.writes.completed.instants), "~")
        pending = [i for i in timeline.writes.pending.instants if i.requested_time < first]
        paths = (join_path(config.timeline_path, instant.file_name) for instant in pending)
        if all(store.info(path) is not None for path in paths):
            break
    return timeline


def _list_timeline(store: Store, config: TableConfig, limits: Limits) -> Timeline:
    """Return the timeline that a listing has.

    In layout 2 the names of the files tell all, unless a completed file lacks its completion time.
    """
    if config.timeline_layout != 1:
        timeline = _kept_timelines.plan(store, config, limits)
        if not timeline.has_legacy:
            return timeline
    zone = timezone.utc if config.timezone == "UTC" else None
    infos = _list_with_times(store, config.timeline_path)
    files = ((info.name, info.modified) for info in infos)
    return plan_timeline(files, config.timeline_layout, zone, limits)


def _list_with_times(store: Store, path: str) -> list[FileInfo]:
    """Return the files that a folder holds at one moment, with their times.

    Raises:
        StorageError: the folder changes all the time, or the store failed.
    """
    infos = store.list(path)
    if len(infos) <= FEW_NAMES or not store.failures_are_final:
        return [info for info in infos if not info.is_dir]
    for _ in range(_LISTINGS_MAX):
        names = {*store.list_names(path)}
        infos = [info for info in store.list(path) if info.name in names]
        if len(infos) == len(names):
            return [info for info in infos if not info.is_dir]
    raise StorageError("files went each time the folder was listed; read again", path=path)


class _KeptTimelines:
    """The timelines that were listed last: the next listing of a folder differs little.

    Safe to use from several threads, and in a forked child.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, int, Limits], NamedTimeline] = {}
        self._guard = new_mutex()

    def plan(self, store: Store, config: TableConfig, limits: Limits) -> Timeline:
        """Return the timeline that the names in the folder make up, which are listed now."""
        key = store.uri, config.timeline_path, config.timeline_layout, limits
        known = self._kept.get(key) or NamedTimeline((), Timeline((), config.timeline_layout))
        now = known.planned_again(store.list_names(config.timeline_path), limits)
        with self._guard:
            self._kept.pop(key, None)
            while len(self._kept) >= _TIMELINES_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = now  # the last of all
        return now.timeline


_kept_timelines = _KeptTimelines()


def load_instant_content(
    store: Store, config: TableConfig, instant: Instant, limits: Limits = DEFAULT_LIMITS
) -> InstantContent | None:
    """Return the content of an active instant's file, of any action; None if the file is empty.

    Raises:
        CorruptError: the file does not decode.
        NotFoundError: the file is gone.
    """
    return _load(store, config, instant.file_name, decode_instant_content, limits)


def load_requested_content(
    store: Store, config: TableConfig, instant: Instant, limits: Limits = DEFAULT_LIMITS
) -> InstantContent | None:
    """Return the content of the requested file of an instant in any state; None if it is empty.

    Raises:
        CorruptError: the file does not decode.
        NotFoundError: the file does not exist.
    """
    return _load(store, config, requested_name(instant, config), decode_instant_content, limits)


def load_commit_metadata(
    store: Store, config: TableConfig, instant: Instant, limits: Limits = DEFAULT_LIMITS
) -> CommitMetadata:
    """Return the metadata of a commit, deltacommit or replacecommit; the planned one if inflight.

    An empty file is empty metadata, as in Hudi.

    Raises:
        CorruptError: the file does not decode.
        NotFoundError: the file is gone.
    """
    return _load(store, config, instant.file_name, decode_commit_metadata, limits)


def load_compaction_plan(
    store: Store, config: TableConfig, instant: Instant, limits: Limits = DEFAULT_LIMITS
) -> CompactionPlan:
    """Return the plan of a pending `compaction` or `logcompaction`.

    A compaction that was requested with an empty file plans nothing: Hudi makes the file before it
    writes the plan, and died there. Nobody can have begun to execute it, or logged by it.

    Raises:
        CorruptError: the plan does not decode.
        NotFoundError: the plan does not exist.
    """
    is_new = instant.state is State.REQUESTED and instant.action == "compaction"
    decode = _decode_new_compaction if is_new else decode_compaction_plan
    return _load(store, config, requested_name(instant, config), decode, limits)


def load_unplanned(store: Store, config: TableConfig, timeline: Timeline) -> dict[str, Instant]:
    """Return the requested compactions whose plan was never written, by the path of their file.

    Raises:
        StorageError: the store failed.
    """
    found: dict[str, Instant] = {}
    for instant in timeline.pending.of("compaction").instants:
        if instant.state is not State.REQUESTED:
            continue
        path = join_path(config.timeline_path, instant.file_name)
        info = store.info(path)
        if info is not None and info.size == 0:
            found[path] = instant
    return found


def load_clustering_plan(
    store: Store, config: TableConfig, instant: Instant, limits: Limits = DEFAULT_LIMITS
) -> ClusteringPlan | None:
    """Return the plan of a pending `clustering` or `replacecommit`; None if that does not cluster.

    In layout 1 a clustering is a replacecommit, and only its requested file tells that it clusters.
    As in Hudi, an empty file means that the replacecommit does not cluster.

    Raises:
        CorruptError: the file does not decode.
        NotFoundError: the file is gone.
    """
    requested = _load(
        store, config, requested_name(instant, config), _decode_requested_replace, limits
    )
    operation = WriteOperation.find(requested.operation_type)
    return requested.clustering_plan if operation is WriteOperation.CLUSTER else None


def load_replaced_file_groups(
    store: Store, config: TableConfig, timeline: Timeline, limits: Limits = DEFAULT_LIMITS
) -> dict[FileGroupId, Instant]:
    """Return the file groups that completed replacecommits hide, each with the last such instant.

    A clustering is a replacecommit too. Reads as of a time before the instant see the file group.
    """
    replacing = timeline.completed.of("replacecommit").instants
    replaced: dict[FileGroupId, Instant] = {}
    for instant, metadata in _load_each(
        store, replacing, lambda instant: load_commit_metadata(store, config, instant, limits)
    ):
        for partition_path, file_ids in metadata.partition_to_replace_file_ids.items():
            replaced.update(((partition_path, file_id), instant) for file_id in file_ids)
    return replaced


def load_pending_compactions(
    store: Store, config: TableConfig, timeline: Timeline, limits: Limits = DEFAULT_LIMITS
) -> dict[FileGroupId, Instant]:
    """Return the file groups in the plans of pending compactions, each with its compaction.

    Raises:
        CorruptError: two plans compact the same file group in different ways.
    """
    planned: dict[FileGroupId, Instant] = {}
    operations: dict[FileGroupId, CompactionOperation] = {}
    for instant, plan in _load_each(
        store,
        timeline.pending.of("compaction").instants,
        lambda instant: load_compaction_plan(store, config, instant, limits),
    ):
        for operation in plan.operations:
            group = (operation.partition_path or "", operation.file_id or "")
            if operations.setdefault(group, operation) != operation:
                raise _planned_twice(group, planned[group], instant)
            planned[group] = instant
    return planned


def load_pending_clusterings(
    store: Store, config: TableConfig, timeline: Timeline, limits: Limits = DEFAULT_LIMITS
) -> dict[FileGroupId, Instant]:
    """Return the file groups that pending clusterings will replace, each with its clustering.

    For a table with a consistent bucket index these are the buckets being resized.

    Raises:
        CorruptError: two plans cluster the same file group.
    """
    planned: dict[FileGroupId, Instant] = {}
    for instant, plan in _load_clustering_plans(store, config, timeline, limits):
        for file_slice in (
            file_slice for group in plan.input_groups for file_slice in group.slices
        ):
            group_id = (file_slice.partition_path or "", file_slice.file_id or "")
            if group_id in planned:
                raise _planned_twice(group_id, planned[group_id], instant)
            planned[group_id] = instant
    return planned


def load_pending_ring_changes(
    store: Store, config: TableConfig, timeline: Timeline, limits: Limits = DEFAULT_LIMITS
) -> dict[str, RingChange]:
    """Return what pending clusterings will do to the rings of partitions, by partition path.

    Raises:
        CorruptError: two plans resize the same partition, or a plan is damaged.
        LimitError: a plan has too many nodes.
        NotFoundError: a plan is gone.
        UnsafePathError: the partition path in a plan leaves the table.
    """
    found: dict[str, RingChange] = {}
    for instant, plan in _load_clustering_plans(store, config, timeline, limits):
        for path, change in find_ring_changes(plan, instant.requested_time, limits).items():
            if path in found:
                raise CorruptError(
                    f"the ring is changed by the plans of both {found[path].instant} and "
                    f"{change.instant}; roll back the later plan",
                    partition=path,
                )
            found[path] = change
    return found


def load_resizes(
    store: Store, config: TableConfig, timeline: Timeline, limits: Limits = DEFAULT_LIMITS
) -> dict[str, str]:
    """Return the requested time of the newest completed resize of rings, by partition path."""
    loaded = _load_each(
        store,
        timeline.completed.of("replacecommit").instants,
        lambda instant: load_resized_partitions(store, config, instant.requested_time, limits),
    )
    return {path: instant.requested_time for instant, paths in loaded for path in paths}


def load_resized_partitions(
    store: Store, config: TableConfig, requested_time: str, limits: Limits = DEFAULT_LIMITS
) -> frozenset[str]:
    """Return the partitions whose rings an instant changes by its plan; empty without a plan.

    A plan that is damaged tells of no partition: the check tells of it, and a rollback of the
    instant has to be possible.

    Raises:
        StorageError: the store failed.
    """
    for action in REPLACING_ACTIONS:
        instant = Instant(requested_time, action, State.REQUESTED, None, "")
        with suppress(CorruptError, LimitError, NotFoundError, UnsafePathError, UnsupportedError):
            plan = load_clustering_plan(store, config, instant, limits)
            if plan is not None:
                return frozenset(find_ring_changes(plan, requested_time, limits))
    return frozenset()


def _load_clustering_plans(
    store: Store, config: TableConfig, timeline: Timeline, limits: Limits
) -> list[tuple[Instant, ClusteringPlan]]:
    loaded = _load_each(
        store,
        timeline.pending.of(*REPLACING_ACTIONS).instants,
        lambda instant: load_clustering_plan(store, config, instant, limits),
    )
    return [(instant, plan) for instant, plan in loaded if plan is not None]


def _decode_new_compaction(data: bytes, limits: Limits) -> CompactionPlan:
    return decode_compaction_plan(data, limits) if data else CompactionPlan()


def _decode_requested_replace(data: bytes, limits: Limits) -> RequestedReplaceMetadata:
    if not data:
        return RequestedReplaceMetadata()
    return decode_requested_replace_metadata(data, limits)


def requested_name(instant: Instant, config: TableConfig) -> str:
    """Return the name of the requested file of an instant in any state."""
    return format_instant_file_name(
        instant.requested_time, instant.action, State.REQUESTED, None, config.timeline_layout
    )


def _load(
    store: Store,
    config: TableConfig,
    name: str,
    decode: Callable[[bytes, Limits], _T],
    limits: Limits,
) -> _T:
    path = join_path(config.timeline_path, name)
    data = store.read(path, limits.timeline_file_bytes_max)
    try:
        return decode(data, limits)
    except BucketfmtError as error:
        error.within(path=path)
        raise


def _load_each(
    store: Store, instants: Iterable[Instant], load: Callable[[Instant], _T]
) -> list[tuple[Instant, _T]]:
    instants = list(instants)
    return list(zip(instants, map_in_threads(load, instants, waiting_count(store)), strict=True))


def _planned_twice(group: FileGroupId, first: Instant, second: Instant) -> CorruptError:
    return CorruptError(
        f"file group {group[1]} is in the plans of both {first.file_name} and "
        f"{second.file_name}; roll back the later one: rollback({second.requested_time!r})",
        partition=group[0],
    )
