"""Commits that appeared once they had been rolled back: their writers stood still meanwhile.

I/O, read only. The files of such a commit are gone, so that readers fail on it: its completed file
has to go too, unless others have made file groups in place of those that it hides.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice

from bucketfmt.format.names.instants import State, format_instant_file_name
from bucketfmt.format.names.names import find_bucket_id
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.plans import RollbackPlan
from bucketfmt.format.timeline.service_metadata import RestoreMetadata, RollbackMetadata
from bucketfmt.format.timeline.write_operation import SERVICE_OPERATIONS
from bucketfmt.limits import Limits
from bucketfmt.storage.store import Store
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.timeline.load import (
    load_commit_metadata,
    load_instant_content,
    load_requested_content,
)
from bucketfmt.timeline.timeline import Instant, Timeline

__all__ = ["LateCommits"]

_UNDOING_ACTIONS = ("rollback", "restore")
_FILES_ASKED = 100  # of a service: where so many are gone, a rollback has removed them


class LateCommits:
    """Finds the late commits of one table; reads each rollback and restore once: none changes.

    Safe to use from several threads, and in a forked child.
    """

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store, self._limits = store, limits
        self._targets: dict[Instant, tuple[str, ...]] = {}

    def find(
        self, config: TableConfig, timeline: Timeline, completed: Sequence[Instant]
    ) -> list[Instant]:
        """Return those commits that a rollback or restore took back while they were pending.

        Both remove all files of an instant from the timeline, and are completed then. Compactions
        and clusterings may have been begun again by their plans under the same requested time, and
        have files then.

        Args:
            config: The table's properties.
            timeline: The timeline, as it is under the table lock.
            completed: The completed commits that are asked for, in the order of the timeline.

        Raises:
            CorruptError: a completed rollback or restore does not decode.
            StorageError: the store failed.
        """
        if not completed:
            return []
        since = completed[0].requested_time
        targets = self.load_taken_back(config, timeline, since)
        targets |= self._load_being_taken_back(config, timeline, since)
        found = []
        for instant in completed if targets else ():
            if instant.requested_time not in targets or self._has_begun(config, instant):
                continue
            metadata = load_commit_metadata(self._store, config, instant, self._limits)
            if metadata.operation_type in SERVICE_OPERATIONS and not self._is_gone(metadata):
                continue
            if not self._is_built_on(config, timeline, instant, metadata):
                found.append(instant)
        return found

    def load_taken_back(
        self,
        config: TableConfig,
        timeline: Timeline,
        since: str,
        actions: Sequence[str] = _UNDOING_ACTIONS,
    ) -> frozenset[str]:
        """Return the instants that completed rollbacks and restores of the timeline name.

        A restore leaves none of its rollbacks on the timeline: it alone names what it took back.

        Args:
            config: The table's properties.
            timeline: The timeline.
            since: What was requested before, or then, is left out.
            actions: Which of `rollback` and `restore` to ask.

        Raises:
            CorruptError: a completed rollback or restore does not decode.
            StorageError: the store failed.
        """
        undoing = timeline.completed.of(*_UNDOING_ACTIONS).instants
        later = [instant for instant in undoing if instant.requested_time > since]
        kept = self._targets  # other threads replace it
        unread = [instant for instant in later if instant not in kept]

        def load_targets(instant: Instant) -> tuple[str, ...]:
            content = load_instant_content(self._store, config, instant, self._limits)
            if isinstance(content, RestoreMetadata):
                return (*content.instants_to_rollback,)
            return (*content.commits_rollback,) if isinstance(content, RollbackMetadata) else ()

        read = map_in_threads(load_targets, unread, waiting_count(self._store))
        known = kept | dict(zip(unread, read, strict=True))
        self._targets = asked = {instant: known[instant] for instant in later}
        return frozenset(
            target
            for instant, targets in asked.items()
            if instant.action in actions
            for target in targets
        )

    def _load_being_taken_back(
        self, config: TableConfig, timeline: Timeline, since: str
    ) -> set[str]:
        """Return the instants that pending rollbacks take back."""
        found = set()
        for rollback in timeline.pending.of("rollback").instants:
            if rollback.requested_time > since:
                plan = load_requested_content(self._store, config, rollback, self._limits)
                if isinstance(plan, RollbackPlan) and plan.instant_to_rollback is not None:
                    found.add(plan.instant_to_rollback.commit_time)
        return found

    def _has_begun(self, config: TableConfig, instant: Instant) -> bool:
        """Whether the timeline has a requested or inflight file of a completed instant."""
        names = [
            format_instant_file_name(
                instant.requested_time, instant.action, state, None, config.timeline_layout
            )
            for state in (State.REQUESTED, State.INFLIGHT)
        ]
        return any(
            self._store.info(join_path(config.timeline_path, name)) is not None for name in names
        )

    def _is_gone(self, metadata: CommitMetadata) -> bool:
        """Whether a commit names files, and none of them is there."""
        stats = (stat for own in metadata.partition_to_write_stats.values() for stat in own)
        paths = [stat.path for stat in islice(stats, _FILES_ASKED) if stat.path]
        return bool(paths) and all(self._store.info(path) is None for path in paths)

    def _is_built_on(
        self, config: TableConfig, timeline: Timeline, late: Instant, metadata: CommitMetadata
    ) -> bool:
        """Whether later commits made file groups where this one hides others.

        The rows of both would count without it.
        """
        replaced = metadata.partition_to_replace_file_ids.items()
        hidden = {path: frozenset(ids) for path, ids in replaced if ids}
        if not hidden:
            return False
        appeared = {e.name: e.modified for e in self._store.list(config.timeline_path)}
        own = {s.file_id for stats in metadata.partition_to_write_stats.values() for s in stats}
        since = appeared.get(late.file_name)
        for other in timeline.writes.completed.instants:
            at = appeared.get(other.file_name)
            was_there = since is not None and at is not None and at < since
            if was_there or other.requested_time <= late.requested_time:
                continue
            commit = load_commit_metadata(self._store, config, other, self._limits)
            for path, ids in hidden.items():
                written = commit.partition_to_write_stats.get(path, ())
                new = {stat.file_id or "" for stat in written} - ids - own
                if _may_share_bucket(new, ids):
                    return True
        return False


def _may_share_bucket(some: Collection[str], others: Collection[str]) -> bool:
    """Whether file groups of one partition may be of one bucket. Not all file ids name theirs."""
    if not some or not others:
        return False
    buckets = {find_bucket_id(file_id) for file_id in some}
    known = {find_bucket_id(file_id) for file_id in others}
    return None in buckets | known or not buckets.isdisjoint(known)
