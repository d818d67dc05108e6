"""One commit from its beginning to its end, next to other writers.

I/O. The files of a commit are announced by markers before they are written, and under the table
lock the commit is completed, if nobody else wrote to the same buckets since it began. Whatever
fails before that leaves nothing that counts. Source: BaseHoodieWriteClient.commitStats,
TransactionManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial

import msgspec

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
from bucketfmt.format.names.instants import (
    State,
    find_instant_file,
    format_instant_file_name,
)
from bucketfmt.format.names.names import BaseFileName
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.snapshot.overtaken import find_undoing, find_what_may_be_archived
from bucketfmt.storage.store import Store
from bucketfmt.storage.streams import beside
from bucketfmt.timeline.history import load_history
from bucketfmt.timeline.load import load_timeline, requested_name
from bucketfmt.timeline.locking.heartbeat import Heartbeat
from bucketfmt.timeline.locking.lock import TableLock
from bucketfmt.timeline.markers import delete_announced_files, delete_markers
from bucketfmt.timeline.timeline import REPLACING_ACTIONS, Instant, Timeline
from bucketfmt.timeline.transitions import delete_instant_file
from bucketfmt.write.commit.concurrent_operations import load_concurrent_operations
from bucketfmt.write.commit.conflicts import (
    concurrent_operation,
    conflict_error,
    find_candidates,
    find_conflicts,
)
from bucketfmt.write.commit.keyed_commits import KeyedCommits
from bucketfmt.write.commit.locked_table import LockableTable, LockedTable
from bucketfmt.write.commit.lost_lock import find_before, find_later, find_since
from bucketfmt.write.commit.result import CommitResult, result_of
from bucketfmt.write.commit.started_work import PendingInstant
from bucketfmt.write.rows.basis import Basis
from bucketfmt.write.rows.schema_change import settle_columns
from bucketfmt.write.undo.rollback_conflicts import check_resizes_kept, check_still_there

__all__ = ["Transaction"]

_Times = Callable[[Instant], float | None]  # in seconds; None where the store does not tell
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
        store, lost = self.table.store, None
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
                metadata = self._without_conflicts(before, timeline, metadata, basis, may_overlap)
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
                        done = self._settle(
                            met, metadata, basis, before, may_overlap, held=table.lock
                        )
                    else:
                        with suppress(BucketfmtError):  # the next write then lists the timeline
                            self._keyed_commits.kept.leave(table.config, timeline, done)
                    self._is_ended = True
                    ending.enter_context(beside(store, self.end))  # while the lock is released
        if lost is not None:
            done = self._settle(lost, metadata, basis, before, may_overlap)
            self._is_ended = True
            self.end()
        self._keyed_commits.kept.keep(done, metadata)
        return result_of(done, metadata, copied_for=self._find_copied_for(metadata, basis))

    def _has_met_late(self, table: LockedTable, timeline: Timeline) -> bool:
        """Whether a commit appeared beside this one, or nobody can tell; see `has_late_commits`."""
        try:
            return table.has_late_commits(timeline, self.instant)
        except StorageError:
            return True

    def _settle(
        self,
        lost: LockLostError,
        metadata: CommitMetadata,
        basis: Basis,
        before: Timeline,
        may_overlap: bool,
        held: TableLock | None = None,
    ) -> Instant:
        """Decide, under the lock, whether a commit stands that others need not have seen.

        Whoever publishes without the lock comes here, and who finds that somebody did. So of two
        commits in conflict the one whose writer comes first is taken back. To take it back is to
        delete its completed file: it is inflight again, and if this process ends here, the next
        writer rolls it back. `held` is the lock, if it has been held since before the commit
        appeared: nobody can have built on the commit then.

        Raises:
            ConflictError: another commit is in conflict, or somebody took this one back. Nothing
                is published any more.
            LockLostError: whether it stands is not known, or others have built on it.
        """
        store, config = self.table.store, self.config
        try:
            with self.table.locks.taken() if held is None else nullcontext(held) as lock:
                now = load_timeline(store, config, self.table.limits)
                done = self._find_own(now)
                if done is None and find_what_may_be_archived(before, now) is not None:
                    raise lost  # taken back, or archived
                if done is None:
                    raise ConflictError(
                        f"another writer took {self.instant} back after the table lock was lost. "
                        "Nothing is published; reload the table and retry"
                    )
                self._check_not_rolled_back(now)
                since = find_since(before, now, self.instant)
                appeared, begun = self._load_times()
                uncompared = find_before(since, appeared(done), begun)
                if not uncompared:
                    return done  # the lock was lost later: whoever came since has seen the commit
                unseen = find_before(since, appeared(done), appeared)
                conflict = find_later(unseen, done) or self._find_late_conflict(
                    before, now, metadata, basis, may_overlap
                )
                if conflict is None:
                    return done
                is_built_on = held is None and (
                    len(uncompared) < len(since)
                    or self.is_built_on(before, now, config, metadata, by_instant=True)
                )
                if is_built_on or not lock.holds():
                    raise lost
                delete_instant_file(store, config, done.file_name)
                raise conflict
        except ConflictError:
            raise
        except BucketfmtError as error:
            self.heartbeat.abandon()
            self._is_ended = True
            if isinstance(error, LockTimeoutError):
                with suppress(CorruptError, StorageError):
                    self._check_not_rolled_back(load_timeline(store, config, self.table.limits))
            if error is lost:
                raise
            raise lost from error

    def _check_not_rolled_back(self, now: Timeline) -> None:
        """Remove this commit where another writer has rolled it back before it appeared.

        Its files are gone, whoever built on it: readers fail on it, and the next writer would
        remove it, so that it goes without the lock too.

        Raises:
            ConflictError: it was rolled back.
        """
        done = self._find_own(now)
        if done is not None and self.table.late_commits.find(self.config, now, [done]):
            delete_instant_file(self.table.store, self.config, done.file_name)
            raise ConflictError(
                f"another writer rolled {self.instant} back while this process stood still. "
                "Nothing is published; reload the table and retry"
            )

    def _find_own(self, now: Timeline) -> Instant | None:
        """Return this commit as completed."""
        for instant in now.completed.of(self._instant.action).instants:
            if instant.requested_time == self.instant:
                # As `put_completed` returns it.
                time = instant.completion_time if self.config.timeline_layout == 2 else None
                return replace(instant, completion_time=time)
        return None

    def _load_times(self) -> tuple[_Times, _Times]:
        """Return what tells when a completed instant appeared, or the plan of a pending one.

        And what tells when the first file of an instant appeared.
        """
        listed = self.table.store.list(self.config.timeline_path)
        modified = {entry.name: entry.modified for entry in listed}
        first: dict[str, float] = {}
        for entry in listed:
            file = find_instant_file(entry.name, self.config.timeline_layout)
            if (
                file is not None
                and file.state is not State.COMPLETED
                and entry.modified is not None
            ):
                known = first.get(file.requested_time, entry.modified)
                first[file.requested_time] = min(known, entry.modified)

        def appeared(instant: Instant) -> float | None:
            is_done = instant.is_completed
            name = instant.file_name if is_done else requested_name(instant, self.config)
            return modified.get(name)

        return appeared, lambda instant: first.get(instant.requested_time)

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
            self.instant, self._instant.action, State.INFLIGHT, None, self.config.timeline_layout
        )
        path = join_path(self.config.timeline_path, name)
        if self.table.store.info(path) is None:
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

    def _without_conflicts(
        self,
        before: Timeline,
        now: Timeline,
        metadata: CommitMetadata,
        basis: Basis,
        may_overlap: bool,
    ) -> CommitMetadata:
        """Return the commit with the columns that others have given the table meanwhile."""
        store, config = self.table.store, self.config
        check_still_there(before, now)
        self._check_not_archived(before, now)
        if basis.index.keeps_locations:
            _check_not_undone(basis.snapshot.state.timeline, now)
        candidates = find_candidates(
            config, before, now, self.instant, writes_base_files=_has_base_files(metadata)
        )
        others = load_concurrent_operations(store, config, candidates, self.table.limits)
        ours = concurrent_operation(replace(self._instant, state=State.INFLIGHT), metadata)
        ours = replace(ours, copied_for=self._find_copied_for(metadata, basis))
        check_resizes_kept(ours.copied_for, now)
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
    def was_tried(self) -> bool:
        """Whether publishing was attempted: not where a conflict was found before."""
        return self._is_tried

    @property
    def leaves_nothing(self) -> bool:
        """Whether `abort` leaves nothing, and leaves nothing to the next write either."""
        return self.table.store.failures_are_final or not self._is_resumed

    def _check_not_archived(self, before: Timeline, now: Timeline) -> None:
        """Refuse to publish where writes since the basis was read are no longer on the timeline.

        Whether they wrote to the same buckets could be read in the archive; it is as quick to
        write again.
        """
        since = find_what_may_be_archived(before, now)
        if since is None:
            return
        known = {i.requested_time for i in before.completed.instants}
        archived = load_history(self.table.store, self.config, self.table.limits, since=since)
        for instant in Timeline(archived, now.layout).writes.completed.instants:
            if instant.requested_time not in known:
                raise ConflictError(
                    f"{instant.action} {instant.requested_time} completed and was archived since "
                    "the table was read for this write. Nothing was published; reload the table "
                    "and retry"
                )

    def _find_copied_for(self, metadata: CommitMetadata, basis: Basis) -> frozenset[str]:
        """Return the requested times of the pending resizes that rows were copied for."""
        pending = basis.snapshot.state.timeline.pending.of(*REPLACING_ACTIONS)
        resizes = {instant.requested_time for instant in pending.instants} - {self.instant}
        if not resizes:
            return frozenset()
        names = (stat.file_name for stat in metadata.write_stats)
        return frozenset(
            name.instant for name in names if name is not None and name.instant in resizes
        )

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


def _check_not_undone(before: Timeline, now: Timeline) -> None:
    """Refuse to publish where the index may have been read with what was taken back since.

    The index may be newer than the timeline that a write stands on: a key was found then where it
    was moved to, by a write that was completed and rolled back meanwhile.
    """
    undoing = find_undoing(before, now)
    if undoing is not None:
        raise ConflictError(
            f"{undoing.action} {undoing.requested_time} was begun since the record index was read "
            "for this write. Nothing was published; reload the table and retry"
        )


def _leave_to_next() -> None:
    """Raise: without the lock, only what is this write's own is removed."""
    raise ConflictError("the table lock is not held; the next writer takes this write back")


def _has_base_files(metadata: CommitMetadata) -> bool:
    return any(isinstance(stat.file_name, BaseFileName) for stat in metadata.write_stats)


def _may_act_late(error: BaseException) -> bool:
    """Whether it may be about an operation of the store that has not come to its end."""
    if isinstance(error, StorageError):
        return not isinstance(error, NotFoundError)  # which is about reading
    return not isinstance(error, BucketfmtError | ValueError | TypeError)
