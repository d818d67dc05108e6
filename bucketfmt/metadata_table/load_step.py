"""Whether a metadata table is in step with its table, where their active timelines do not tell.

I/O, read only: reads archived timelines, as far back as is needed. `in_step` compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.limits import Limits
from bucketfmt.metadata_table.damage import in_metadata_table
from bucketfmt.metadata_table.in_step import Step, find_step
from bucketfmt.storage.store import Store
from bucketfmt.timeline.completion_times import CompletionTimes
from bucketfmt.timeline.history import load_growing_history, load_history
from bucketfmt.timeline.load import load_commit_metadata
from bucketfmt.timeline.timeline import Instant, Timeline

__all__ = ["TimelineSource", "load_step"]


@dataclass(frozen=True)
class TimelineSource:
    """An active timeline, and where its files and the archived timeline are.

    Attributes:
        store: The files of the table, or of the metadata table.
        config: Its properties.
        timeline: Its active timeline.
    """

    store: Store
    config: TableConfig
    timeline: Timeline


def load_step(
    data: TimelineSource, metadata: TimelineSource, times: CompletionTimes, limits: Limits
) -> Step:
    """Return what a metadata table lacks and has too much.

    Archived timelines are read where the active ones do not tell: an instant may have been
    archived before older ones were, as commits are before cleans, and as what was requested
    early and completed late.

    Args:
        data: Of the table.
        metadata: Of the metadata table.
        times: What is known of the archived timeline of the metadata table.
        limits: Bounds on what is read.

    Raises:
        CorruptError: a file of a timeline is damaged.
        StorageError: the store failed.
    """
    step = find_step(data.timeline, metadata.timeline)
    if step.ahead:
        step = replace(step, ahead=_without_archived(step.ahead, data, metadata, limits))
    if step.missing:
        for archived in _archived_since(min(step.missing), metadata, times, limits):
            missing = find_step(data.timeline, metadata.timeline, archived).missing
            step = replace(step, missing=missing)
            if not missing:
                break
    return step


def _without_archived(
    times: Sequence[str], data: TimelineSource, metadata: TimelineSource, limits: Limits
) -> tuple[str, ...]:
    """Return the times that the table never had, of deltacommits of the metadata table."""
    left = tuple(times)
    for history in load_growing_history(data.store, data.config, limits, since=min(times)):
        known = {instant.requested_time for instant in history}
        left = tuple(time for time in times if time not in known)
        if not left:
            break
    return tuple(time for time in left if not _is_log_compaction(time, metadata, limits))


def _is_log_compaction(requested_time: str, metadata: TimelineSource, limits: Limits) -> bool:
    """Whether a deltacommit of the metadata table is none of a write: it rewrote log blocks."""
    completed = metadata.timeline.completed.of("deltacommit").instants
    instant = next((i for i in completed if i.requested_time == requested_time), None)
    if instant is None:
        return False
    with in_metadata_table():
        commit = load_commit_metadata(metadata.store, metadata.config, instant, limits)
    return commit.operation_type == WriteOperation.LOG_COMPACT.operation_type


def _archived_since(
    time: str, metadata: TimelineSource, times: CompletionTimes, limits: Limits
) -> Iterator[tuple[Instant, ...]]:
    """Yield the archived instants of the metadata table, each time more, and at last all.

    What seems missing may be archived: mostly since then; where it is from before the metadata
    table, the oldest instants tell, which initialised the partitions.
    """
    with in_metadata_table():
        if metadata.timeline.layout == 1:
            yield from load_growing_history(metadata.store, metadata.config, limits)
            return
        since = times.since(time).history
        yield since
        until = f"{INIT_INSTANT}~"
        initial = load_history(metadata.store, metadata.config, limits, until=until)
        yield *initial, *since
        yield times.since("").history
