"""How commits and services begin on a table, next to other writers.

I/O. Under the table lock what dead writers left is removed first; then an instant is requested.
Source: BaseHoodieWriteClient.startCommit, BaseHoodieTableServiceClient.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

from bucketfmt.errors import BucketfmtError, ConflictError, CorruptError, NotFoundError
from bucketfmt.format.names.instants import State
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.plans import RequestedReplaceMetadata
from bucketfmt.snapshot.kept_commits import KeptCommits
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.streams import beside
from bucketfmt.timeline.locking.heartbeat import Heartbeat
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.timeline.transitions import put_inflight
from bucketfmt.write.commit.keyed_commits import KeyedCommits
from bucketfmt.write.commit.locked_table import LatePlanError, LockableTable, LockedTable
from bucketfmt.write.commit.lost_timeline import check_not_lost
from bucketfmt.write.commit.result import CommitResult
from bucketfmt.write.commit.table_access import TableAccess
from bucketfmt.write.commit.transaction import Transaction
from bucketfmt.write.metadata.keeper import MetadataKeeper
from bucketfmt.write.properties.metadata_table import LateRemovalError
from bucketfmt.write.undo.recovery import recover, remove_late_commits
from bucketfmt.write.undo.rollback import Rollbacks
from bucketfmt.write.undo.rollback_planner import RollbackPlanner

__all__ = ["Transactions"]


class Transactions(LockableTable):
    """Begins commits and services on one table.

    Safe to use from several threads, and in a forked child.

    Attributes:
        metadata_keeper: Keeps the metadata table in step.
        kept_commits: Of the table.
    """

    def __init__(
        self,
        access: TableAccess,
        metadata_keeper: MetadataKeeper,
        kept_commits: KeptCommits,
        config: TableConfig,
    ) -> None:
        """Set up.

        Args:
            access: What it takes to change the table.
            metadata_keeper: Keeps the metadata table in step.
            kept_commits: Of the table.
            config: The table's properties, as they were read last.
        """
        super().__init__(
            access,
            publish_hooks=(metadata_keeper.bring_in_step,),
            removal_hooks=(metadata_keeper.take_back,),
            config=config,
        )
        self.metadata_keeper = metadata_keeper
        self.kept_commits = kept_commits
        self._keyed_commits = KeyedCommits(access.store, access.limits, kept_commits)

    def list_timeline(self, config: TableConfig, listed: Timeline | None = None) -> Timeline:
        """List the timeline, and again where it lacks a commit that this process read or made.

        Arguments and errors as of `LockableTable.list_timeline`.
        """
        return self.kept_commits.list_timeline(config, listed)

    @contextmanager
    def locked(self, *, begins: bool = False) -> Iterator[LockedTable]:
        """As `LockableTable.locked`. Where the lock is lost, what was done late is mended.

        That is a plan which the next owner did not see, and partitions of the metadata table that
        the next owner made, and this one removed. They are mended under the lock of now. What the
        next owner changed is a conflict, also where it looks like damage: a file that is gone.
        """
        is_lost = False
        try:
            with super().locked(begins=begins) as table:
                try:
                    yield table
                except (ConflictError, CorruptError, NotFoundError) as error:
                    is_lost = not table.lock.may_publish()
                    if isinstance(error, LatePlanError) and not is_lost:
                        with suppress(BucketfmtError):
                            Rollbacks(table).withdraw_late(error)
                    if is_lost and not isinstance(error, ConflictError):
                        raise ConflictError(
                            "the table lock was lost: this process stood still for longer than "
                            f"its lease, and others changed the table meanwhile ({error}). Reload "
                            "the table and begin again, with longer leases if it recurs"
                        ) from error
                    raise
        except ConflictError as error:
            if is_lost:
                with suppress(BucketfmtError), super().locked() as table:
                    if isinstance(error, LatePlanError):
                        Rollbacks(table).withdraw_late(error)
                    if isinstance(error, LateRemovalError):
                        self.metadata_keeper.make_whole(table, error.folder)
            raise

    def begin(self, action: str) -> Transaction:
        """Return a commit that is inflight, once what dead writers left is removed.

        Args:
            action: commit, deltacommit or replacecommit.

        Raises:
            UnsupportedError: the table has a metadata table and the writer is set to refuse such
                tables.
            LockTimeoutError: the table lock could not be acquired.
            ConflictError: a restore was begun and not finished.
            CorruptError: the timeline has no instant, but there are data files.
        """
        content = RequestedReplaceMetadata() if action == "replacecommit" else None
        with ExitStack() as beginning, self.recovered(begins=True) as table:
            config, timeline = table.config, table.timeline
            check_not_lost(self.store, config, timeline)
            instant, heartbeat = table.request_alive(action, content)
            transaction = Transaction(
                self, self._keyed_commits, config, timeline, instant, heartbeat
            )
            beginning.enter_context(transaction.aborted_on_error())
            put = partial(put_inflight, self.store, config, instant.requested_time, action)
            beginning.enter_context(beside(self.store, put))  # while the lock is released
        return transaction

    def join(self, instant: str, action: str) -> Heartbeat:
        """Keep the heartbeat of an inflight commit going that another process began.

        The caller stops it, or abandons it.

        Raises:
            ConflictError: it has ended, or is being rolled back.
            LockTimeoutError: the table lock could not be acquired, to revive what had no heartbeat.
        """
        heartbeat = self.heartbeats.join(instant)
        if heartbeat is not None:
            return heartbeat
        # Nobody did for long. Who takes such a commit back holds the lock while doing so.
        with self.locked() as table:
            pending = table.timeline.pending
            is_there = any(found.requested_time == instant for found in pending.of(action).instants)
            if not is_there or pending.of("rollback").instants:
                raise ConflictError(
                    f"nothing kept the write of {instant} alive, and it was, or is being, taken "
                    "back; write again"
                )
            return self.heartbeats.revive(instant)

    def resume(self, instant: str, action: str, timeline: Timeline) -> Transaction:
        """Return a commit that another process began, its heartbeat kept going from here.

        Args:
            instant: Its requested time.
            action: As it was begun.
            timeline: As it was when it began.

        Raises:
            ConflictError: as `join`; LockTimeoutError likewise.
        """
        config = load_config(self.store, self.limits)  # first: nothing may fail beside a heartbeat
        heartbeat = self.join(instant, action)
        begun = Instant(instant, action, State.INFLIGHT, None, "")
        return Transaction(
            self, self._keyed_commits, config, timeline, begun, heartbeat, is_resumed=True
        )

    def rollback_planner(self, config: TableConfig) -> RollbackPlanner:
        """Return what plans rollbacks for a preview, without the table lock."""
        return RollbackPlanner(self.store, config, self.limits, self.heartbeats.seems_expired)

    @contextmanager
    def exclusive(self, *, begins: bool = False) -> Iterator[Rollbacks]:
        """Hold the table lock, for what takes instants back. `begins` as of `locked`.

        Raises:
            UnsupportedError: the table has a metadata table and the writer is set to refuse such
                tables.
            LockTimeoutError: the table lock could not be acquired.
        """
        with self.locked(begins=begins) as table:
            rollbacks = Rollbacks(table)
            remove_late_commits(rollbacks)
            self.metadata_keeper.check(table)
            yield rollbacks

    @contextmanager
    def recovered(self, *, begins: bool = False) -> Iterator[LockedTable]:
        """Hold the table lock, once what dead writers left is removed. `begins` as of `locked`.

        Raises:
            UnsupportedError: the table has a metadata table and the writer is set to refuse such
                tables.
            LockTimeoutError: the table lock could not be acquired.
            ConflictError: a restore was begun and not finished.
        """
        with self.exclusive(begins=begins) as rollbacks:
            recover(rollbacks)
            yield rollbacks.table

    def find_repeated(self, state: TableState, idempotency_key: str | None) -> CommitResult | None:
        """Return the commit that was made with this key, active or archived.

        Of the archive the newest files are looked at, up to ten thousand commits.
        """
        if idempotency_key is None:
            return None
        return self._keyed_commits.find(state.timeline, state.config, idempotency_key)
