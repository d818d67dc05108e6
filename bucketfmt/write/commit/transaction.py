"""One commit from its beginning to its end, next to other writers.

I/O. The files of a commit are announced by markers before they are written, and under the table
lock the commit is completed, if nobody else wrote to the same buckets since it began. Whatever
fails before that leaves nothing that counts. Source: BaseHoodieWriteClient.commitStats,
TransactionManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial

from bucketfmt.errors import (
    BucketfmtError,
    CommitUnknownError,
    ConflictError,
    CorruptError,
    LockLostError,
    LockTimeoutError,
    NotFoundError,
    StorageError,
)
from bucketfmt.format.names.instants import State, format_instant_file_name
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.storage.store import Store
from bucketfmt.storage.streams import beside
from bucketfmt.timeline.load import load_timeline
from bucketfmt.timeline.locking.heartbeat import Heartbeat
from bucketfmt.timeline.locking.lock import TableLock
from bucketfmt.timeline.markers import delete_announced_files, delete_markers
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.timeline.transitions import delete_instant_file
from bucketfmt.write.commit.keyed_commits import KeyedCommits
from bucketfmt.write.commit.locked_table import LockableTable, LockedTable
from bucketfmt.write.commit.result import CommitResult, result_of
from bucketfmt.write.commit.started_work import PendingInstant
from bucketfmt.write.conflicts.resolve_conflicts import ProposedCommit, resolve_conflicts
from bucketfmt.write.conflicts.settle_late_commit import check_not_rolled_back, settle_late_commit
from bucketfmt.write.rows.basis import Basis

__all__ = ["Transaction"]

_MET_LATE = (
    "{} was published, and another commit appeared beside it, whose writer stood still for longer "
    "than its lease of the table lock. Rows of one of them may be hidden. Look at the timeline, "
    "and write the rows that are missing again"
)


class Transaction(PendingInstant):
    """A commit under way, which is published or taken back.

    Over a network, where an operation that failed may take effect later, a failed commit is left
    to the next writer.

    Attributes:
        config: The table's properties when the commit began, under the table lock.
        timeline: The timeline when the commit began, under the table lock.
    """

    def __init__(
        self,
        table: LockableTable,
        keyed_commits: KeyedCommits,
        config: TableConfig,
        timeline: Timeline,
        instant: Instant,
        heartbeat: Heartbeat,
        *,
        is_resumed: bool = False,
    ) -> None:
        """Set up.

        Args:
            table: The table.
            keyed_commits: Finds commits of the table by their keys.
            config: See the attributes.
            timeline: See the attributes.
            instant: On the timeline of the table.
            heartbeat: Of the instant.
            is_resumed: Another process began the commit.
        """
        super().__init__(table, instant, heartbeat)
        self._keyed_commits = keyed_commits
        self._is_resumed = is_resumed
        self._is_tried = self._is_ended = self._has_put_index = False
        self.config = config
        self.timeline = timeline

    def leave(self, error: BaseException | None) -> None:
        """Take the commit back unless it was published.

        Args:
            error: Why the commit is left; None if nobody wanted to publish it.
        """
        if error is None:
            self.abort()
        else:
            self._clean_up(error)

    @contextmanager
    def aborted_on_error(self) -> Iterator[None]:
        """Abort where the body raises."""
        try:
            yield
        except BaseException as error:
            self.leave(error)
            raise

    def publish(
        self,
        metadata: CommitMetadata,
        basis: Basis,
        before: Timeline,
        idempotency_key: str | None = None,
        *,
        may_overlap: bool = False,
        is_blind: bool = False,
        put_index: Callable[[Store], None] | None = None,
    ) -> CommitResult:
        """Complete the commit.

        Args:
            metadata: What was written.
            basis: What the write stands on.
            before: Whoever completed after this may be in conflict.
            idempotency_key: See `WriteOptions`.
            may_overlap: Others may have logged to the same file groups: see `find_conflicts`.
            is_blind: See `PendingChange`.
            put_index: Writes the files that state the buckets once the commit is completed.

        Raises:
            ConflictError: another writer has written to the same buckets, or changed the columns
                that this write changes. Nothing was published.
            CommitUnknownError: the store does not tell whether it took effect.
            LockLostError: the lock was lost before the commit appeared, another writer completed a
                commit in conflict with it, and the commit could not be taken back.
            UnsupportedError: this is a forked child, and the parent began the commit.
        """
        store, limits, lost = self.table.store, self.table.limits, None
        commit = ProposedCommit(self._instant, metadata, basis, before, may_overlap)
        others = partial(self.delete_other_files, metadata.partition_to_write_stats)
        with ExitStack() as ending:
            deleted = ending.enter_context(beside(store, others))
            with self.table.locked() as table:
                timeline = table.timeline
                if idempotency_key is not None:
                    found = self._keyed_commits.find(timeline, table.config, idempotency_key)
                    if found is not None:
                        deleted()
                        self._abort()
                        return found
                metadata = resolve_conflicts(store, self.config, limits, commit, timeline)
                commit = replace(commit, metadata=metadata)
                deleted()
                self._is_tried = True
                if put_index is not None:
                    self._has_put_index = True
                    put_index(table.store)
                try:
                    done = self.complete(table, metadata, is_blind=is_blind)
                except LockLostError as error:
                    lost = error
                else:
                    if self._has_met_late(table, timeline):
                        met = LockLostError(_MET_LATE.format(self.instant))
                        done = self._settle(commit, met, table.lock)
                    else:
                        with suppress(BucketfmtError):  # the next write then lists the timeline
                            self._keyed_commits.kept.leave(table.config, timeline, done)
                    self._is_ended = True
                    ending.enter_context(beside(store, self.end))  # while the lock is released
        if lost is not None:
            done = self._settle(commit, lost)
            self._is_ended = True
            self.end()
        self._keyed_commits.kept.keep(done, metadata)
        return result_of(done, metadata, copied_for=commit.copied_for)

    def _has_met_late(self, table: LockedTable, timeline: Timeline) -> bool:
        """Whether a commit appeared beside this one, or nobody can tell; see `has_late_commits`."""
        try:
            return table.has_late_commits(timeline, self.instant)
        except StorageError:
            return True

    def _settle(
        self, commit: ProposedCommit, lost: LockLostError, held: TableLock | None = None
    ) -> Instant:
        """As `settle_late_commit`; raises `lost` where nobody can tell, and leaves all as it is."""
        try:
            return settle_late_commit(self, self.config, commit, lost, held)
        except ConflictError:
            raise
        except BucketfmtError as error:
            self.heartbeat.abandon()
            self._is_ended = True
            if isinstance(error, LockTimeoutError):
                with suppress(CorruptError, StorageError):
                    now = load_timeline(self.table.store, self.config, self.table.limits)
                    check_not_rolled_back(self.table, self.config, commit, now)
            if error is lost:
                raise
            raise lost from error

    @property
    def was_tried(self) -> bool:
        """Whether publishing was attempted: not where a conflict was found before."""
        return self._is_tried

    @property
    def leaves_nothing(self) -> bool:
        """Whether `abort` leaves nothing, and leaves nothing to the next write either."""
        return self.table.store.failures_are_final or not self._is_resumed

    def abort(self) -> None:
        """Remove all that the write left, unless publishing was attempted or it has ended."""
        if self._is_ended or self._is_tried or not self.is_own:
            return
        if not self.leaves_nothing:
            # Another process may have tried to publish it, which may take effect late.
            self.hand_over()
            return
        self._try_abort()

    def hand_over(self) -> None:
        """End this process's part; the commit stays inflight, for others to `resume`.

        Raises:
            UnsupportedError: this is a forked child, and the parent began the commit.
        """
        self.check_own()
        self.heartbeat.abandon()
        self._is_ended = True

    def _clean_up(self, error: BaseException) -> None:
        """Leave nothing, if this process goes on and knows that nothing was published."""
        is_known = isinstance(error, BucketfmtError) and not isinstance(error, CommitUnknownError)
        may_act = isinstance(error, Exception | KeyboardInterrupt) and self.is_own
        is_unknown = self._is_tried and not is_known
        may_act_late = _may_act_late(error) and not self.table.store.failures_are_final
        may_be_there = is_unknown or may_act_late or self._has_put_index
        if self._is_ended or may_be_there or not may_act:
            # A file may turn up that was deleted before it was there. The next writer deletes
            # it, once the heartbeat has expired; and files of the index, with the lock. What was
            # interrupted while it was published may be there, and is the next writer's likewise.
            # Of a commit that has ended, the end of the heartbeat may have been interrupted.
            self.heartbeat.abandon()
            self._is_ended = True
            return
        self._try_abort()

    def _try_abort(self) -> None:
        """Take it back. What is left is the next writer's to remove, once the heartbeat is old."""
        try:
            with suppress(BucketfmtError):
                self._abort()
        finally:  # a heartbeat that went on would keep it pending as long as anyone has the error
            self.heartbeat.abandon()
            self._is_ended = True

    def _abort(self) -> None:
        """Remove the instant and its files, data first: readers see no leftover file.

        The requested file goes last. Where the table is ahead of the clocks of its writers, its
        time is given again from then on, and files of that time are another writer's.
        """
        store, config = self.table.store, self.config
        inflight, requested = (
            format_instant_file_name(
                self.instant, self._instant.action, state, None, config.timeline_layout
            )
            for state in (State.INFLIGHT, State.REQUESTED)
        )
        delete_announced_files(store, self.instant, self.table.limits)
        if self._is_tried:
            self.table.prepare_removal(self.instant, _leave_to_next)
        delete_instant_file(store, config, inflight)
        self.heartbeat.stop()
        # Tasks of other processes that still ran have announced files since; later ones find that
        # the instant has ended.
        delete_announced_files(store, self.instant, self.table.limits)
        delete_markers(store, self.instant)
        delete_instant_file(store, config, requested)
        self._is_ended = True


def _leave_to_next() -> None:
    """Raise: without the lock, only what is this write's own is removed."""
    raise ConflictError("the table lock is not held; the next writer takes this write back")


def _may_act_late(error: BaseException) -> bool:
    """Whether it may be about an operation of the store that has not come to its end."""
    if isinstance(error, StorageError):
        return not isinstance(error, NotFoundError)  # which is about reading
    return not isinstance(error, BucketfmtError | ValueError | TypeError)
