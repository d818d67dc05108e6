"""Compaction, cleaning and archiving as far as they are due: after each commit, or when asked for.

I/O. What is due is decided by `plan_services`. A pending compaction or clean that Hudi planned is
left to Hudi, which gives no sign of being at work on it; a plan of this package is taken over once
the heartbeat of its process has expired. Source: BaseHoodieWriteClient (mayBeCleanAndArchive,
runTableServicesInline).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from bucketfmt.errors import ConflictError, LockTimeoutError, NotFoundError
from bucketfmt.format.timeline.plans import CleanerPlan, CompactionPlan
from bucketfmt.format.timeline.service_metadata import CleanMetadata
from bucketfmt.progress import ProgressCallback
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.timeline.load import (
    load_compaction_plan,
    load_instant_content,
    load_requested_content,
    load_unplanned,
)
from bucketfmt.timeline.locking.held_mutex import HeldMutex
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.commit.result import CommitResult
from bucketfmt.write.commit.transactions import Transactions
from bucketfmt.write.services.archiving import Archiver
from bucketfmt.write.services.cleaning import Cleaner, CleanResult
from bucketfmt.write.services.compaction import Compactor, Rewrite
from bucketfmt.write.services.plan_clean import Retention
from bucketfmt.write.services.plan_compaction import CompactionPreview
from bucketfmt.write.services.plan_services import (
    Services,
    find_clean_partitions,
    find_compaction_partitions,
    find_retiring,
    may_be_due,
)

__all__ = ["MaintainResult", "Maintenance"]

_log = logging.getLogger("bucketfmt")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class MaintainResult:
    """What services did, or would do.

    Attributes:
        compaction: The commit of the compaction, or for a dry run what would be compacted; None if
            no compaction is due.
        clean: The files that were deleted, or would be; None if no clean is due.
        archived: The instants that were moved to the archived timeline, or would be.
    """

    compaction: CommitResult | CompactionPreview | None = None
    clean: CleanResult | None = None
    archived: tuple[Instant, ...] = ()


@dataclass(frozen=True, slots=True)
class _Clean:
    """A clean that is due.

    Attributes:
        retention: What to keep.
        partitions: Partition paths to plan for; None: all.
    """

    retention: Retention
    partitions: tuple[str, ...] | None


class Maintenance:
    """Runs the services of one table. Safe to use from several threads, of which one is served."""

    def __init__(
        self,
        snapshot: Callable[[Timeline | None], Snapshot],
        transactions: Transactions,
        services: Services,
    ) -> None:
        """Set up.

        Args:
            snapshot: Returns the table as it is now. Given the timeline, if it was just listed.
            transactions: How the table is written to.
            services: Which services run, and when.
        """
        self._snapshot = snapshot
        self._newest = partial(snapshot, None)
        self._owner = transactions
        self._services = services
        self._archiver = Archiver(self._newest, transactions)
        self._busy = HeldMutex()
        self._idle_since = ""  # the newest write when there was nothing to compact
        self._last_clean: tuple[Instant, CleanMetadata] | None = None
        self._told: set[str] = set()

    def run_after(self, timeline: Timeline, rewrite: Rewrite | None = None) -> None:
        """Do what is due after a commit, without ever failing it.

        What another process or thread is doing is skipped. An error is logged, once for each kind:
        the commit stands, and the service is tried again after the next commit.

        Args:
            timeline: The timeline with the commit.
            rewrite: What rewrites the slices of a compaction; None: the threads of this process.
        """
        if not may_be_due(timeline, self._services):
            return
        is_again = self._busy.is_own()
        try:
            if self._busy.acquire(0):
                self._try(lambda: self._run_each(rewrite))
        finally:
            if not is_again:
                self._busy.release()

    def run(
        self, rewrite: Rewrite | None = None, progress: ProgressCallback | None = None
    ) -> MaintainResult:
        """Do what is due, but for what other processes are doing.

        Raises:
            CorruptError: an instant, or a file of a service, is damaged.
            UnsupportedError: the table is of a kind that is not written.
            LockTimeoutError: the table lock could not be acquired.
            StorageError: the store failed.
        """
        return MaintainResult(
            _unless_busy(lambda: self._compact(self._newest().state, rewrite, progress)),
            _unless_busy(lambda: self._clean(self._newest().state, progress)),
            _unless_busy(lambda: self._archive(self._newest().state)) or (),
        )

    def preview(self) -> MaintainResult:
        """Return what `run` would do now. Writes nothing. Errors as of `run`."""
        state = self._newest().state
        archive = self._services.archive

        def preview_compaction() -> CompactionPreview | None:
            partitions = self._find_compaction(state)
            if partitions is None:
                return None
            found = Compactor(self._snapshot, self._owner).preview(partitions=partitions or None)
            return found if found.pending is not None or found.file_groups else None

        def preview_clean() -> CleanResult | None:
            clean = self._find_clean(state)
            if clean is None:
                return None
            return Cleaner(self._newest, self._owner).preview(clean.retention, clean.partitions)

        def preview_archive() -> tuple[Instant, ...]:
            return () if archive is None else self._archiver.preview(archive)

        return MaintainResult(
            _unless_busy(preview_compaction),
            _unless_busy(preview_clean),
            _unless_busy(preview_archive) or (),
        )

    def _run_each(self, rewrite: Rewrite | None) -> None:
        """Do what is due. An error of one service leaves the next ones their turn."""
        state = self._newest().state
        if self._try(lambda: self._compact(state, rewrite)) is not None:
            state = self._newest().state
        if self._try(lambda: self._clean(state)) is not None:
            state = self._newest().state
        self._try(lambda: self._archive(state))

    def _try(self, service: Callable[[], object]) -> object:
        try:
            return service()
        except (ConflictError, LockTimeoutError, NotFoundError) as error:
            _log.info("a service of %s was left to others: %s", self._owner.store.uri, error)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if type(error).__name__ not in self._told:
                self._told.add(type(error).__name__)
                _log.warning(
                    "a service of %s failed after a commit, which stands: %s. It is tried again "
                    "after the next commits; Table.maintain() raises the error",
                    self._owner.store.uri,
                    text,
                )
        return None

    # -- compaction

    def _compact(
        self,
        state: TableState,
        rewrite: Rewrite | None,
        progress: ProgressCallback | None = None,
    ) -> CommitResult | None:
        partitions = self._find_compaction(state)
        if partitions is None:
            return None
        compactor = Compactor(self._snapshot, self._owner, rewrite=rewrite)
        newest = state.timeline.writes.completed.last
        done = compactor.run(progress=progress, partitions=partitions)
        if done is None and newest is not None:
            self._idle_since = newest.requested_time
        return done

    def _find_compaction(self, state: TableState) -> tuple[str, ...] | None:
        """Return the partitions to compact in, () where only a pending compaction is executed.

        None: no compaction is due.
        """
        if self._services.compact_after is None or state.config.table_type != "MERGE_ON_READ":
            return None
        unplanned = load_unplanned(state.store, state.config, state.timeline).values()
        compactions = state.timeline.pending.of("compaction").instants
        pending = [instant for instant in compactions if instant not in unplanned]
        if pending:
            plans = [self._load_compaction(state, instant) for instant in pending]
            return () if all(plan.is_own for plan in plans) else None
        return (
            tuple(
                find_compaction_partitions(
                    state.timeline, state.commits, self._services, self._idle_since
                )
            )
            or None
        )

    def _load_compaction(self, state: TableState, instant: Instant) -> CompactionPlan:
        return load_compaction_plan(state.store, state.config, instant, state.limits)

    # -- cleaning

    def _clean(
        self, state: TableState, progress: ProgressCallback | None = None
    ) -> CleanResult | None:
        due = self._find_clean(state)
        if due is None:
            return None
        cleaner = Cleaner(self._newest, self._owner, progress)
        return cleaner.run(due.retention, due.partitions)

    def _find_clean(self, state: TableState) -> _Clean | None:
        """Return the clean that is due; None if none is, or Hudi is at one."""
        retention = self._services.clean
        if retention is None:
            return None
        pending = state.timeline.pending.of("clean").instants
        for instant in pending:
            plan = load_requested_content(state.store, state.config, instant, state.limits)
            if not isinstance(plan, CleanerPlan) or not plan.is_own:
                return None
            if not self._owner.heartbeats.seems_expired(instant.requested_time):
                return None
        last = self._load_last_clean(state)
        retiring = find_retiring(state.timeline, state.commits, self._services, last)
        if not retiring and not pending:
            return None
        found = find_clean_partitions(state.timeline, state.commits, retiring, last)
        return _Clean(retention, None if found is None else tuple(found))

    def _load_last_clean(self, state: TableState) -> CleanMetadata | None:
        instant = state.timeline.completed.of("clean").last
        if instant is None:
            return None
        known = self._last_clean
        if known is not None and known[0] == instant:
            return known[1]
        content = load_instant_content(state.store, state.config, instant, state.limits)
        if not isinstance(content, CleanMetadata):
            return None
        self._last_clean = (instant, content)
        return content

    # -- archiving

    def _archive(self, state: TableState) -> tuple[Instant, ...]:
        policy = self._services.archive
        if policy is None or not self._archiver.may_run(state, policy):
            return ()
        return self._archiver.run(policy)


def _unless_busy(service: Callable[[], _T]) -> _T | None:
    """Return what a service did; None where another process is at it."""
    try:
        return service()
    except ConflictError as error:
        _log.info("%s", error)
        return None
