"""Archiving: the oldest instants leave the active timeline, so that it stays quick to read.

I/O, all of it under the table lock. Source: TimelineArchiverV1, TimelineArchiverV2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from bucketfmt.errors import TableNotFoundError
from bucketfmt.format.names.layout import METADATA_TABLE
from bucketfmt.format.names.names import FileGroupId, LogFileName, find_data_file_name
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.metadata_table.metadata_table import find_last_compaction, find_unmerged_since
from bucketfmt.snapshot.newest import on_newest
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.folder_store import FolderStore
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.timeline.history import load_archived_among
from bucketfmt.timeline.history_writer import HistoryWriter
from bucketfmt.timeline.late_commits import LateCommits
from bucketfmt.timeline.load import load_timeline
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.timeline.timeline import Instant
from bucketfmt.write.commit.transactions import Transactions
from bucketfmt.write.services.pending_cleans import load_doomed
from bucketfmt.write.services.plan_archive import (
    ArchiveBasis,
    ArchivePolicy,
    find_oldest_staying,
    plan_archive,
)
from bucketfmt.write.services.ring_cleaning import mark_rings_of

__all__ = ["Archiver"]

_NONE_HELD = "~"  # after all instants


class Archiver:
    """Archives instants of one table."""

    def __init__(self, snapshot: Callable[[], Snapshot], transactions: Transactions) -> None:
        """Set up.

        Args:
            snapshot: Returns the table as it is now.
            transactions: How the table is written to.
        """
        self._snapshot = snapshot
        self._owner = transactions
        # The last clean, and the oldest instant that files held back after that clean.
        self._held: tuple[Instant | None, str] = None, _NONE_HELD

    def may_run(self, state: TableState, kept: ArchivePolicy) -> bool:
        """Return whether `run` would archive anything, but for what is in the history already.

        Without a listing of files. What files held back in the last `run` is taken for held until
        a clean, which removes files, has completed.
        """
        basis = _basis_of(state, state.config)
        clean, held = self._held
        if clean == _find_last_clean(state):
            basis = replace(basis, before=min(basis.before, held))
        return bool(plan_archive(basis, kept))

    def preview(self, kept: ArchivePolicy) -> tuple[Instant, ...]:
        """Return what `run` would archive now. Writes nothing."""
        return on_newest(self._snapshot, partial(_preview, kept))

    def run(self, kept: ArchivePolicy) -> tuple[Instant, ...]:
        """Archive what `plan_archive` says, and return it.

        Raises:
            UnsupportedError: the table has a metadata table and the writer is set to refuse such
                tables.
            CorruptError: an instant, or the history, is damaged.
            LockTimeoutError: the table lock could not be acquired.
        """
        with self._owner.recovered() as table:
            state = self._snapshot().state
            before = _load_archived_before(state)
            history = HistoryWriter(table.store, table.config, table.limits, table.check_held)
            if before:
                history.delete_active(before)
                state = self._snapshot().state
            basis = _basis_of(state, table.config)
            planned = _plan(basis, state, kept)
            held = (i.requested_time for i in plan_archive(basis, kept) if i not in planned)
            self._held = _find_last_clean(state), next(held, _NONE_HELD)
            mark_rings_of(state, planned)
            history.put_archived(planned)
            history.delete_active(planned)
            history.compact()
            table.heartbeats.discard_unknown(table.timeline.requested_times)
        return (*before, *planned)


def _preview(kept: ArchivePolicy, snapshot: Snapshot) -> tuple[Instant, ...]:
    state = snapshot.state
    before = _load_archived_before(state)
    config = load_config(state.store, state.limits)
    basis = _basis_of(state, config).without(before)
    return (*before, *_plan(basis, state, kept))


def _plan(basis: ArchiveBasis, state: TableState, kept: ArchivePolicy) -> tuple[Instant, ...]:
    """Return what to archive, once the table's files are listed."""
    listed = _with_listing(basis, state)
    planned = plan_archive(listed, kept)
    held = _find_taken_back(state, planned)
    return planned if held is None else plan_archive(replace(listed, before=held), kept)


def _basis_of(state: TableState, config: TableConfig) -> ArchiveBasis:
    """Return the basis without the listing.

    The state may hold properties from before another process made a metadata table, so `config`
    says whether there is one. Readers of the metadata table until Hudi 0.15 take its records as
    valid only as long as their instants are on the active timeline of the table, or compacted.
    """
    before = _find_unmerged(state) if config.metadata_partitions else "~"
    return ArchiveBasis(state.timeline, state.commits, before=before)


def _find_unmerged(state: TableState) -> str:
    """Return the earliest instant that readers of the metadata table look for; "": any.

    They look for it now or once the table is restored, which takes back the compactions of the
    metadata table that were requested after the savepoint.
    """
    below = FolderStore(state.store, METADATA_TABLE)
    try:
        config = load_config(below, state.limits)
    except TableNotFoundError:  # whoever makes it anew has removed it since the table was read
        return ""
    savepoint = state.timeline.of("savepoint").first
    until = "~" if savepoint is None else savepoint.requested_time
    last = find_last_compaction(load_timeline(below, config, state.limits), until)
    return "" if last is None else find_unmerged_since(state.timeline, last)


def _find_last_clean(state: TableState) -> Instant | None:
    return state.timeline.completed.of("clean").last


def _load_archived_before(state: TableState) -> tuple[Instant, ...]:
    """Return what an archival that died has put into the history and left on the timeline."""
    return load_archived_among(
        state.store, state.config, state.timeline.completed.instants, state.limits
    )


def _with_listing(basis: ArchiveBasis, state: TableState) -> ArchiveBasis:
    """Return the basis with what only a listing of the table's files tells.

    Those are the replaced file groups that are still there, and the log files behind a restore. Of
    both the oldest commit that has any will do: it stays, and so do all that are newer.
    """
    return _with_logs(_with_replaced(basis, state), state)


def _find_taken_back(state: TableState, planned: Sequence[Instant]) -> str | None:
    """Return from when on commits stay, since files are there of an instant that was rolled back.

    Its writer stood still, and put them later. An instant before the first of the timeline counts
    as committed, and so would they. None: there are no such files.
    """
    timeline, store, writes = state.timeline, state.store, state.timeline.writes.completed
    start = writes.without(planned).first
    if not planned or start is None:
        return None
    first = writes.instants[0].requested_time
    late_commits = LateCommits(store, state.limits)
    gone = [
        time
        for time in late_commits.load_taken_back(state.config, timeline, first)
        if first < time < start.requested_time and not timeline.contains(time)
    ]
    if not gone:
        return None
    listings = map_in_threads(store.list_names, state.lister.partitions, waiting_count(store))
    names = map(find_data_file_name, chain.from_iterable(listings))
    found = {name.instant for name in names if name is not None}.intersection(gone)
    if not found:
        return None
    return [i.requested_time for i in writes.instants if i.requested_time < min(found)][-1]


def _with_replaced(basis: ArchiveBasis, state: TableState) -> ArchiveBasis:
    cleaned = _load_groups_of_pending_cleans(state)
    for commit in basis.commits:
        for path, file_id in commit.replaced:
            if (path, file_id) in cleaned or state.lister.files(path).get(file_id):
                return replace(basis, still_listed={(path, file_id)})
    return basis


def _load_groups_of_pending_cleans(state: TableState) -> set[FileGroupId]:
    """Return the file groups that cleans which have begun delete files of.

    The metadata table lists these files until the clean completes, whether or not they are gone.
    """
    doomed = load_doomed(state.store, state.config, state.timeline, state.limits)
    names = ((path, find_data_file_name(name)) for path, name in doomed)
    return {(path, name.file_id) for path, name in names if name is not None}


def _with_logs(basis: ArchiveBasis, state: TableState) -> ArchiveBasis:
    """Keep commits whose log files are there, if they are newer than an instant that always stays.

    Hudi 1.2 takes an archived instant for pending where an older instant is active, and reads the
    log files of pending instants with the newest base file. Source: CompletionTimeQueryViewV2,
    HoodieFileGroup.getBaseInstantTime.
    """
    oldest = find_oldest_staying(state.timeline)
    if oldest is None or state.timeline.layout < 2:
        return basis
    for commit in basis.commits:
        if commit.requested_time < oldest:
            continue
        for path, file_id, file_path, name, *_ in commit.files:
            listed = state.lister.files(path).get(file_id, ())
            if isinstance(name, LogFileName) and any(file.path == file_path for file in listed):
                return replace(basis, before=min(basis.before, commit.requested_time))
    return basis
