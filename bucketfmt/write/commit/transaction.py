"""One commit from its beginning to its end, next to other writers.

I/O. An instant is requested under the table lock, its files are announced by markers before they
are written, and under the lock again it is completed, if nobody else wrote to the same buckets
since it began. Whatever fails before that leaves nothing that counts. Source:
BaseHoodieWriteClient.startCommit and commitStats, TransactionManager, HoodieTable.finalizeWrite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import TracebackType
from typing import Literal

import msgspec

from bucketfmt.errors import (
    BucketfmtError,
    ConflictError,
    LockLostError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from bucketfmt.format.names.instants import State, find_instant_file, format_instant_file_name
from bucketfmt.format.names.names import BaseFileName, find_data_file_name
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.plans import RequestedReplaceMetadata
from bucketfmt.limits import Limits
from bucketfmt.process import this_process
from bucketfmt.snapshot.overtaken import find_what_may_be_archived
from bucketfmt.storage.store import Store
from bucketfmt.timeline.clock import InstantClock, known_times
from bucketfmt.timeline.heartbeat import Heartbeat, Heartbeats
from bucketfmt.timeline.history import load_history
from bucketfmt.timeline.load import load_timeline
from bucketfmt.timeline.lock import LockProvider, TableLock
from bucketfmt.timeline.machine import Machine
from bucketfmt.timeline.markers import delete_announced_files, delete_markers
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.timeline.transitions import put_completed, put_inflight, put_requested
from bucketfmt.write.commit.concurrent_operations import load_concurrent_operations
from bucketfmt.write.commit.conflicts import (
    concurrent_operation,
    conflict_error,
    find_candidates,
    find_conflicts,
)
from bucketfmt.write.commit.keyed_commits import KeyedCommits
from bucketfmt.write.commit.result import CommitResult, result_of
from bucketfmt.write.rows.basis import Basis
from bucketfmt.write.rows.schema_change import settle_columns
from bucketfmt.write.undo.plan_rollback import check_still_there
from bucketfmt.write.undo.recovery import recover
from bucketfmt.write.undo.rollback import Rollbacks

__all__ = ["MetadataTable", "Transaction", "Transactions"]

MetadataTable = Literal["refuse", "drop"]
"""What to do about a metadata table, which a commit behind its back would make wrong."""

_INFLIGHT_PARTITIONS = "hoodie.table.metadata.partitions.inflight"


class Transactions:
    """Begins commits on one table. Safe to use from several threads, and in a forked child."""

    def __init__(
        self,
        store: Store,
        limits: Limits,
        locks: LockProvider,
        clock: InstantClock,
        heartbeats: Heartbeats,
        machine: Machine,
        drop_metadata_table: Callable[[], None] | None = None,
    ) -> None:
        """Set up.

        Args:
            store: The table's files.
            limits: Bounds on what is read.
            locks: The table lock, the same kind for all writers.
            clock: Gives instants.
            heartbeats: Of the table.
            machine: That it runs on.
            drop_metadata_table: Removes the metadata table, called under the lock; None to refuse
                to write to a table that has one.
        """
        self.store = store
        self.limits = limits
        self.locks = locks
        self.clock = clock
        self.heartbeats = heartbeats
        self.machine = machine
        self._drop_metadata_table = drop_metadata_table
        self.keyed_commits = KeyedCommits(store, limits)

    def begin(self, action: str) -> Transaction:
        """Return a commit that is inflight, once what dead writers left is removed.

        Args:
            action: commit, deltacommit or replacecommit.

        Raises:
            UnsupportedError: the table has a metadata table, which would not know of the commit.
            LockTimeoutError: the table lock could not be acquired.
            ConflictError: a restore was begun and not finished.
        """
        with self.locks.taken() as lock:
            config = self.check_metadata_table()
            timeline = recover(self.rollbacks(config, lock))
            instant = self.clock.next_time(known_times(timeline))
            heartbeat = self.heartbeats.start(instant)
            content = RequestedReplaceMetadata() if action == "replacecommit" else None
            try:
                put_requested(self.store, config, instant, action, content)
            except Exception:
                heartbeat.stop()
                raise
        transaction = Transaction(self, config, timeline, instant, action, heartbeat)
        with transaction.aborted_on_error():
            put_inflight(self.store, config, instant, action)
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
        with self.locks.taken():
            config = load_config(self.store, self.limits)
            pending = load_timeline(self.store, config, self.limits).pending
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
        heartbeat = self.join(instant, action)
        config = load_config(self.store, self.limits)
        return Transaction(self, config, timeline, instant, action, heartbeat, is_resumed=True)

    def rollbacks(self, config: TableConfig, lock: TableLock | None = None) -> Rollbacks:
        """Return what takes instants back while the lock is held; without one, what plans to."""
        return Rollbacks(
            self.store,
            config,
            self.limits,
            self.clock,
            self.heartbeats,
            self.machine,
            lock.holds if lock is not None else lambda: False,
        )

    @contextmanager
    def exclusive(self, *, keeps_files: bool = False) -> Iterator[Rollbacks]:
        """Hold the table lock, for what takes instants back.

        Args:
            keeps_files: No data file comes or goes, so that a metadata table stays right.

        Raises:
            UnsupportedError: the table has a metadata table, which would not know of it.
            LockTimeoutError: the table lock could not be acquired.
        """
        with self.locks.taken() as lock:
            config = self._load_written() if keeps_files else self.check_metadata_table()
            yield self.rollbacks(config, lock)

    @contextmanager
    def recovered(self) -> Iterator[tuple[TableConfig, Timeline]]:
        """Hold the table lock, once what dead writers left is removed: for table services.

        Raises:
            UnsupportedError: the table has a metadata table, which would not know of it.
            LockTimeoutError: the table lock could not be acquired.
            ConflictError: a restore was begun and not finished.
        """
        with self.locks.taken() as lock:
            config = self.check_metadata_table()
            yield config, recover(self.rollbacks(config, lock))

    def find_repeated(self, idempotency_key: str | None) -> CommitResult | None:
        """Return the commit that was made with this key, active or archived.

        Of the archive the newest files are looked at, up to ten thousand instants.
        """
        if idempotency_key is None:
            return None
        config = load_config(self.store, self.limits)
        timeline = load_timeline(self.store, config, self.limits)
        return self.keyed_commits.find(timeline, config, idempotency_key)

    def check_metadata_table(self) -> TableConfig:
        """Return the properties as they are now, once no metadata table is in the way.

        Raises:
            UnsupportedError: a metadata table is to stay, or the table is of an old version.
        """
        config = self._load_written()
        pending = config.properties.get(_INFLIGHT_PARTITIONS)
        if not config.metadata_partitions and not pending:
            return config
        if self._drop_metadata_table is None:
            raise UnsupportedError(
                "the table has a metadata table, which would not know of this commit: readers "
                "that trust it would miss rows, and Hudi would write keys twice. Either open the "
                'table with metadata_table="drop", which removes it (Hudi rebuilds it), or set '
                "hoodie.metadata.enable=false in Hudi's writers, whose next write removes it"
            )
        self._drop_metadata_table()
        return load_config(self.store, self.limits)

    def _load_written(self) -> TableConfig:
        """Return the properties as they are now, of a version that is written."""
        config = load_config(self.store, self.limits)
        config.check_written_version()
        return config


class Transaction:
    """A commit under way. A context: left with an error, nothing remains of it.

    Over a network, where what failed may take effect later, that is left to the next writer. It
    belongs to the process that began it: a forked child that leaves the context takes nothing back.

    Attributes:
        instant: Its requested time.
        timeline: As it was when it began, under the table lock.
    """

    def __init__(
        self,
        owner: Transactions,
        config: TableConfig,
        timeline: Timeline,
        instant: str,
        action: str,
        heartbeat: Heartbeat,
        *,
        is_resumed: bool = False,
    ) -> None:
        self._process = this_process()
        self._heartbeat = heartbeat
        self._owner = owner
        self._config = config
        self._action = action
        self._is_resumed = is_resumed
        self._is_tried = self._is_ended = False
        self.timeline = timeline
        self.instant = instant

    @property
    def config(self) -> TableConfig:
        """The table's properties when the commit began, under the table lock."""
        return self._config

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._clean_up(error)

    @contextmanager
    def aborted_on_error(self) -> Iterator[None]:
        """Abort where the body raises."""
        try:
            yield
        except BaseException as error:
            self._clean_up(error)
            raise

    def publish(
        self,
        metadata: CommitMetadata,
        basis: Basis,
        before: Timeline,
        idempotency_key: str | None = None,
        *,
        may_overlap: bool = False,
    ) -> CommitResult:
        """Complete the commit.

        Args:
            metadata: What was written.
            basis: What the write stands on.
            before: Whoever completed after this may be in conflict.
            idempotency_key: See `WriteOptions`.
            may_overlap: Others may have logged to the same file groups: see `find_conflicts`.

        Raises:
            ConflictError: another writer has written to the same buckets, or changed the columns
                that this write changes. Nothing was published.
            CommitUnknownError: the store does not tell whether it took effect.
            LockLostError: the lock was lost before the commit appeared, another writer completed a
                commit in conflict with it, and the commit could not be taken back.
            UnsupportedError: this is a forked child, and the parent began the commit.
        """
        self._check_own()
        owner = self._owner
        kept = {s.path or "" for own in metadata.partition_to_write_stats.values() for s in own}
        delete_announced_files(owner.store, self.instant, owner.limits, kept=kept)
        with owner.locks.taken() as lock:
            owner.check_metadata_table()
            timeline = load_timeline(owner.store, self._config, owner.limits)
            if idempotency_key is not None:
                found = owner.keyed_commits.find(timeline, self._config, idempotency_key)
                if found is not None:
                    self._abort()
                    return found
            metadata = self._without_conflicts(before, timeline, metadata, basis, may_overlap)
            self._is_tried = True
            lost: LockLostError | None = None
            try:
                done = put_completed(
                    owner.store,
                    self._config,
                    timeline,
                    owner.clock,
                    self.instant,
                    self._action,
                    metadata,
                    lambda: lock.holds() and not self._heartbeat.is_lost(),
                )
            except LockLostError as error:
                lost = error
        if lost is not None:
            done = self._settle(lost, metadata, basis, before, may_overlap)
        self._is_ended = True
        with suppress(BucketfmtError):  # it is done; markers of what is done hurt no one
            delete_markers(owner.store, self.instant)
        self._heartbeat.stop()
        return result_of(done, metadata)

    def _settle(
        self,
        lost: LockLostError,
        metadata: CommitMetadata,
        basis: Basis,
        before: Timeline,
        may_overlap: bool,
    ) -> Instant:
        """Decide, under the lock again, whether a commit stands that appeared without the lock.

        Whoever publishes without the lock comes here, so of two commits in conflict the one whose
        writer comes first is taken back. To take it back is to delete its completed file: it is
        inflight again, and if this process ends here, the next writer rolls it back.

        Raises:
            ConflictError: another commit is in conflict, or somebody took this one back. Nothing
                is published any more.
            LockLostError: whether it stands is not known, or others have built on it.
        """
        owner, config = self._owner, self._config
        try:
            with owner.locks.taken() as lock:
                now = load_timeline(owner.store, config, owner.limits)
                done = self._find_own(now)
                if done is None and find_what_may_be_archived(before, now) is not None:
                    raise lost  # taken back, or archived
                if done is None:
                    raise ConflictError(
                        f"another writer took {self.instant} back after the table lock was lost. "
                        "Nothing is published; reload the table and retry"
                    )
                conflict = self._find_late_conflict(before, now, metadata, basis, may_overlap)
                if conflict is None:
                    return done
                if self._is_built_on(before, now, metadata) or not lock.holds():
                    raise lost
                owner.store.delete(join_path(config.timeline_path, done.file_name))
                raise conflict
        except ConflictError:
            raise
        except BucketfmtError as error:
            self._heartbeat.abandon()
            self._is_ended = True
            if error is lost:
                raise
            raise lost from error

    def _find_own(self, now: Timeline) -> Instant | None:
        """Return this commit as completed."""
        for instant in now.completed.of(self._action).instants:
            if instant.requested_time == self.instant:
                # As `put_completed` returns it.
                time = instant.completion_time if self._config.timeline_layout == 2 else None
                return replace(instant, completion_time=time)
        return None

    def _find_late_conflict(
        self,
        before: Timeline,
        now: Timeline,
        metadata: CommitMetadata,
        basis: Basis,
        may_overlap: bool,
    ) -> ConflictError | None:
        """Return why this commit, which is published, may not stand; None if it may."""
        name = format_instant_file_name(
            self.instant, self._action, State.INFLIGHT, None, self._config.timeline_layout
        )
        path = join_path(self._config.timeline_path, name)
        if self._owner.store.info(path) is None:
            return ConflictError(
                f"another writer rolled {self.instant} back while this process stood still. "
                "Nothing is published; reload the table and retry"
            )
        try:
            settled = self._without_conflicts(before, now, metadata, basis, may_overlap)
        except ConflictError as conflict:
            return conflict
        if settled == metadata:
            return None
        return ConflictError(
            f"another writer changed the columns while {self.instant} was published. Nothing is "
            "published; reload the table and retry"
        )

    def _is_built_on(self, before: Timeline, now: Timeline, metadata: CommitMetadata) -> bool:
        """Whether what came onto the timeline since names this commit, or one of its files."""
        owner, config = self._owner, self._config
        if find_what_may_be_archived(before, now) is not None:
            return True  # it may have been archived
        paths = [s.path or "" for own in metadata.partition_to_write_stats.values() for s in own]
        files = [path.rpartition("/")[2] for path in paths]
        known = {instant.file_name for instant in before.instants}
        for entry in owner.store.list(config.timeline_path):
            file = find_instant_file(entry.name, config.timeline_layout)
            if file is None or entry.name in known or file.requested_time == self.instant:
                continue
            if file.action == "rollback":  # of this commit, which it then does not stand on
                continue
            # Until version 6 a deltacommit lists the log files of its slice, pending ones too.
            names = [self.instant] if file.action == "deltacommit" else [self.instant, *files]
            data = owner.store.read(entry.path, owner.limits.timeline_file_bytes_max)
            if any(name and name.encode() in data for name in names):
                return True
        return False

    def _without_conflicts(
        self,
        before: Timeline,
        now: Timeline,
        metadata: CommitMetadata,
        basis: Basis,
        may_overlap: bool,
    ) -> CommitMetadata:
        """Return the commit with the columns that others have given the table meanwhile."""
        owner, config = self._owner, self._config
        check_still_there(before, now)
        self._check_not_archived(before, now)
        candidates = find_candidates(
            config, before, now, self.instant, writes_base_files=_has_base_files(metadata)
        )
        others = load_concurrent_operations(owner.store, config, candidates, owner.limits)
        instant = Instant(self.instant, self._action, State.INFLIGHT, None, "")
        ours = concurrent_operation(instant, metadata)
        conflicts = find_conflicts(ours, others, basis.index, may_overlap=may_overlap)
        if conflicts:
            raise conflict_error(conflicts)
        columns = settle_columns(ours, basis.stated_by, others, is_change=basis.is_schema_change)
        if columns is ours:
            return metadata
        stated = {"schema": columns.schema, "latest_schema": columns.latest_schema}
        kept = {k: v for k, v in metadata.extra_metadata.items() if k not in stated}
        stated = {name: text for name, text in stated.items() if text}
        return msgspec.structs.replace(metadata, extra_metadata={**kept, **stated})

    @property
    def leaves_nothing(self) -> bool:
        """Whether `abort` leaves nothing, and leaves nothing to the next write either."""
        return self._owner.store.failures_are_final or not self._is_resumed

    def _check_not_archived(self, before: Timeline, now: Timeline) -> None:
        """Refuse to publish where writes since the basis was read are no longer on the timeline.

        Whether they wrote to the same buckets could be read in the archive; it is as quick to
        write again.
        """
        owner, since = self._owner, find_what_may_be_archived(before, now)
        if since is None:
            return
        known = {i.requested_time for i in before.completed.instants}
        archived = load_history(owner.store, self._config, owner.limits, since=since)
        for instant in Timeline(archived, now.layout).writes.completed.instants:
            if instant.requested_time not in known:
                raise ConflictError(
                    f"{instant.action} {instant.requested_time} completed and was archived since "
                    "the table was read for this write. Nothing was published; reload the table "
                    "and retry"
                )

    def abort(self) -> None:
        """Leave nothing of what was not tried to be published; nothing happens once it ended."""
        if self._is_ended or self._is_tried or not self._is_own:
            return
        if not self.leaves_nothing:
            # Another process may have tried to publish it, which may take effect late.
            self.hand_over()
            return
        with suppress(BucketfmtError):  # what is left is the next writer's to remove
            self._abort()

    def hand_over(self) -> None:
        """End this process's part; the commit stays inflight, for others to `resume`.

        Raises:
            UnsupportedError: this is a forked child, and the parent began the commit.
        """
        self._check_own()
        self._heartbeat.abandon()
        self._is_ended = True

    def _clean_up(self, error: BaseException) -> None:
        """Leave nothing, if this process goes on and knows that nothing was published."""
        is_sure = not self._is_tried or isinstance(error, ConflictError | StorageError)
        may_act = isinstance(error, Exception | KeyboardInterrupt) and self._is_own
        if self._is_ended or not is_sure or not may_act:
            return
        if _may_act_late(error) and not self._owner.store.failures_are_final:
            # A file may turn up that was deleted before it was there. The next writer deletes
            # it, once the heartbeat has expired.
            self._heartbeat.abandon()
            self._is_ended = True
            return
        with suppress(BucketfmtError):  # what is left is the next writer's to remove
            self._abort()

    def _abort(self) -> None:
        """Remove the instant and its files, data first: readers see no leftover file."""
        owner, config = self._owner, self._config
        delete_announced_files(owner.store, self.instant, owner.limits)
        for state in (State.INFLIGHT, State.REQUESTED):
            name = format_instant_file_name(
                self.instant, self._action, state, None, config.timeline_layout
            )
            owner.store.delete(join_path(config.timeline_path, name))
        delete_markers(owner.store, self.instant)
        self._heartbeat.stop()
        self._is_ended = True

    @property
    def _is_own(self) -> bool:
        return self._process == this_process()

    def _check_own(self) -> None:
        if not self._is_own:
            raise UnsupportedError(
                f"the write of {self.instant} was begun by the process that this one was forked "
                "from, which goes on with it; write here with a call of its own, or hand the write "
                "over before the fork (hand_over, resume_write)"
            )


def _has_base_files(metadata: CommitMetadata) -> bool:
    paths = (s.path or "" for own in metadata.partition_to_write_stats.values() for s in own)
    names = (find_data_file_name(path.rpartition("/")[2]) for path in paths)
    return any(isinstance(name, BaseFileName) for name in names)


def _may_act_late(error: BaseException) -> bool:
    """Whether it may be about an operation of the store that has not come to its end."""
    if isinstance(error, StorageError):
        return not isinstance(error, NotFoundError)  # which is about reading
    return not isinstance(error, BucketfmtError | ValueError | TypeError)
