"""Past moments that a clean may have deleted files of.

While the commits of a moment are on the active timeline, a file of it that is gone is noticed,
since a commit names it. Of commits that are archived nothing tells: their rows would be missing in
silence. Then each clean since is asked what it kept.

Spec: SLICE-11. Source: `TimelineUtils.validateTimestampAsOf`.
"""

from __future__ import annotations

from collections.abc import Iterable

from bucketfmt.errors import NotFoundError
from bucketfmt.format.timeline.instant_content import InstantContent
from bucketfmt.format.timeline.plans import CleanerPlan
from bucketfmt.format.timeline.service_metadata import CleanMetadata
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.timeline.history import list_archive_files, load_archived_instants
from bucketfmt.timeline.load import load_instant_content, load_requested_content
from bucketfmt.timeline.timeline import Instant, Timeline

__all__ = ["check_not_cleaned"]


def check_not_cleaned(snapshot: Snapshot, slices: Iterable[FileSlice]) -> None:
    """Refuse to read the slices of a past moment if some of their files may be deleted.

    Raises:
        NotFoundError: a clean may have deleted files of the moment, and either one of these files
            is gone, or commits are archived, so that nothing names the files that were there.
        CorruptError: a clean on the timeline does not decode.
        StorageError: the store failed.
    """
    clean = _find_clean(snapshot)
    if clean is None:
        return
    state = snapshot.state
    gone = [f.path for each in slices for f in each.files if f.size is None]
    if gone or list_archive_files(state.store, state.config, state.limits):
        raise NotFoundError(
            f"a clean ({clean.requested_time}) may have deleted files that the table needed at "
            f"{snapshot.as_of or snapshot.completed_until}. Read a later moment; to keep "
            "moments readable, clean less or set savepoints",
            path=gone[0] if gone else None,
        )


def _find_clean(snapshot: Snapshot) -> Instant | None:
    """Return a clean that may have deleted files of the snapshot's moment; None if none has.

    What began up to the moment has deleted nothing that is visible at it. A savepoint keeps the
    files of its moment.
    """
    state, moment = snapshot.state, snapshot.as_of or snapshot.completed_until
    savepoints = state.timeline.completed.of("savepoint")
    if moment is None or savepoints.contains(moment):
        return None
    cleans = [c for c in state.timeline.of("clean").instants if c.requested_time > moment]
    kept = map_in_threads(
        lambda clean: _load_first_kept(state, clean), cleans, waiting_count(state.store)
    )
    completed = state.timeline.writes.completed.instants
    for clean, first_kept in zip(cleans, kept, strict=True):
        if not _sees_all_before(snapshot, completed, clean.requested_time, first_kept):
            return clean
    writes = [write.requested_time for write in state.timeline.writes.instants]
    if moment >= next((time for time in writes if not savepoints.contains(time)), "~"):
        return None
    return _find_archived_clean(snapshot, moment)


def _find_archived_clean(snapshot: Snapshot, moment: str) -> Instant | None:
    """As `_find_clean`, of the archived timeline: its writes count as well as its cleans."""
    state = snapshot.state
    archived = state.archived_since(moment)
    cleans = {
        instant.requested_time: instant
        for instant in archived
        if instant.action == "clean" and instant.requested_time > moment
    }
    if not cleans:
        return None
    both = Timeline((*archived, *state.timeline.instants), state.timeline.layout)
    writes = both.writes.completed.instants
    first, last = min(cleans), max(cleans)
    for entry in load_archived_instants(
        state.store, state.config, state.limits, since=first, until=last
    ):
        if entry.action == "clean" and isinstance(entry.metadata, CleanMetadata):
            first_kept = _find_first_kept(entry.metadata)
            if _sees_all_before(snapshot, writes, entry.requested_time, first_kept):
                cleans.pop(entry.requested_time, None)
    return next(iter(cleans.values()), None)


def _load_first_kept(state: TableState, clean: Instant) -> str | None:
    """As `_find_first_kept`. Of a pending clean the plan tells: some files may be deleted."""
    load = load_instant_content if clean.is_completed else load_requested_content
    return _find_first_kept(load(state.store, state.config, clean, state.limits))


def _find_first_kept(content: InstantContent | None) -> str | None:
    """Return the first instant that a clean keeps readable; None: it keeps versions of files."""
    if isinstance(content, CleanMetadata):
        return content.earliest_commit_to_retain or None
    if isinstance(content, CleanerPlan) and content.earliest_instant_to_retain is not None:
        return content.earliest_instant_to_retain.timestamp
    return None


def _sees_all_before(
    snapshot: Snapshot, writes: Iterable[Instant], cleaned: str, first_kept: str | None
) -> bool:
    """Whether the snapshot sees each write before the first instant that a clean kept readable.

    A clean keeps the files that were visible right before that instant; one that keeps versions of
    files, those that were visible when it was planned.

    Args:
        snapshot: Of the past moment.
        writes: Completed.
        cleaned: The requested time of the clean.
        first_kept: The first instant that it kept; None where it kept versions of files.
    """
    until = first_kept or cleaned
    times = [write.requested_time for write in writes if write.requested_time < until]
    if not times:
        return first_kept is not None and snapshot.is_within(first_kept)
    return all(map(snapshot.is_within, times))
