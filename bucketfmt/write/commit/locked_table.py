"""The table while its lock is held: the one place where instants are requested and published.

I/O. Whatever changes a table, a write or a service, does it through a `LockedTable`, which exists
only while the body of `LockableTable.locked` runs. What has to be in step with the table before
readers see a change is a hook of `LockedTable.publish`. Source: TransactionManager,
BaseHoodieClient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from bucketfmt.errors import ConflictError
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.instant_content import InstantContent
from bucketfmt.limits import Limits
from bucketfmt.storage.store import Store
from bucketfmt.storage.streams import beside
from bucketfmt.timeline.late_commits import LateCommits
from bucketfmt.timeline.load import load_timeline, load_unplanned
from bucketfmt.timeline.locking.early_heartbeat import EarlyHeartbeat
from bucketfmt.timeline.locking.heartbeat import Heartbeat
from bucketfmt.timeline.locking.lock import TableLock
from bucketfmt.timeline.table_properties import change_properties, load_config
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.timeline.transitions import (
    delete_instant_file,
    put_completed,
    put_inflight,
    put_requested,
)
from bucketfmt.write.commit.receipts import RowReport
from bucketfmt.write.commit.table_access import TableAccess

__all__ = [
    "LatePlanError",
    "LockableTable",
    "LockedTable",
    "PendingChange",
    "PublishHook",
    "RemovalHook",
]


class LatePlanError(ConflictError):
    """A plan may have appeared once the lock was lost, so that it lacks what others did since.

    Attributes:
        table: The table, or the metadata table, on whose timeline the plan is.
        instant: The instant that was requested with the plan.
    """

    def __init__(self, table: LockedTable, instant: Instant) -> None:
        super().__init__(
            f"the table lock was lost while {instant.action} {instant.requested_time} was planned, "
            "or a commit appeared whose writer had lost it: a process stood still for longer than "
            "its lease. Reload the table and begin again, with longer leases if it recurs"
        )
        self.table, self.instant = table, instant


@dataclass(frozen=True)
class PendingChange:
    """A change that is about to be published.

    Attributes:
        instant: The instant, inflight.
        content: What the completed file of the instant will hold.
        reports: What is known of the rows of its files, by path.
        is_blind: Whether rows were logged without reading their file groups: log files of others
            may hide these rows, or bring back rows that this change deletes.
    """

    instant: Instant
    content: InstantContent
    reports: Mapping[str, RowReport] = field(default_factory=dict)
    is_blind: bool = False

    @property
    def moves_files(self) -> bool:
        """Whether data files come or go with the change."""
        return self.instant.action != "savepoint"


class LockedTable:
    """A table whose lock this writer holds. Used by one thread, and not after the lock is free.

    Attributes:
        store: The table's files.
        config: The table's properties, as read under the lock.
        limits: Bounds on what is read.
        clock: Gives instants.
        heartbeats: Of the table.
        machine: The machine that the writer runs on.
        lock: The lock, which can be lost while it is held.
        late_commits: Finds the late commits of the table.
    """

    def __init__(
        self,
        table: LockableTable,
        config: TableConfig,
        lock: TableLock,
        timeline: Timeline | None = None,
        early: EarlyHeartbeat | None = None,
    ) -> None:
        """Set up; see the attributes. The timeline is loaded when it is asked for, or given.

        `early` is the heartbeat of the next instant, where it has begun.

        Raises:
            StorageError: the given timeline was listed late.
        """
        self.store = table.store
        self.config = config
        self.limits = table.limits
        self.clock = table.clock
        self.heartbeats = table.heartbeats
        self.machine = table.machine
        self.lock = lock
        self.late_commits = table.late_commits
        self._access = table.access
        self._publish_hooks = table.publish_hooks
        self._prepare_removal = table.prepare_removal
        self._list_timeline = table.list_timeline
        self._timeline = timeline and self._list_timeline(config, timeline)
        self._early = early

    @property
    def timeline(self) -> Timeline:
        """The timeline as it was loaded last, under the lock, with what was put on it since."""
        return self.load_timeline() if self._timeline is None else self._timeline

    def load_timeline(self) -> Timeline:
        """Load the timeline anew, after it was changed.

        Raises:
            StorageError: the store failed, or lists late.
        """
        self._timeline = self._list_timeline(self.config)
        return self._timeline

    def load_config(self) -> TableConfig:
        """Read the table's properties anew, after they were changed.

        Raises:
            CorruptError: the properties are damaged.
            StorageError: the store failed.
        """
        self.config = load_config(self.store, self.limits)
        return self.config

    def change_properties(
        self, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> TableConfig:
        """Replace the properties of the table, and return the new ones.

        Args:
            change: Returns the new properties for the old ones.

        Raises:
            ConflictError: the lock was lost; nothing is changed.
            CorruptError: the properties are damaged, or the new ones would be.
            StorageError: the store failed.
        """
        now = self.machine.now()
        self.config = change_properties(self.store, self.limits, now, change, self.check_held)
        return self.config

    def check_held(self) -> None:
        """Raise unless the lock is held: before something goes that its next owner may use.

        Raises:
            ConflictError: the lock was lost.
            StorageError: the store failed, so that nobody knows.
        """
        if not self.lock.may_publish():
            raise ConflictError(
                "the table lock was lost: this process stood still for longer than its lease. The "
                "next writer ends, or takes back, what was begun; reload the table and begin "
                "again, with longer leases if it recurs"
            )

    def prepare_removal(self, requested_time: str, *, is_completed: bool = False) -> None:
        """As `LockableTable.prepare_removal`; the metadata table may be gone then."""
        self.check_held()
        self._prepare_removal(requested_time, self.check_held, is_completed=is_completed)
        if self.config.metadata_partitions:
            self.load_config()

    def below(
        self, folder: str, config: TableConfig | None = None, timeline: Timeline | None = None
    ) -> LockedTable:
        """Return the table in a folder of this table. The lock of this table is its lock as well.

        Instants of its own get later times than all of this table.

        Args:
            folder: Such as that of the metadata table.
            config: Its properties, if they were read under this lock.
            timeline: Its timeline, if it was listed under this lock.

        Raises:
            TableNotFoundError: there is no table.
            CorruptError: its properties are damaged.
            StorageError: the store failed.
        """
        self.clock.pass_over(self.timeline.latest_time)
        below = LockableTable(self._access.below(folder))
        config = config or load_config(below.store, self.limits)
        return LockedTable(below, config, self.lock, timeline)

    def request(
        self, action: str, content: InstantContent | None = None, time: str | None = None
    ) -> Instant:
        """Put a new instant on the timeline.

        Args:
            action: For example `clean` or `compaction`.
            content: The plan, where the action has one.
            time: Of the instant; None for a new time. A metadata table takes the times of its
                table.

        Raises:
            ConflictError: another writer took the same time, without holding the lock; or the lock
                was lost, so that a plan may lack what others did since (`LatePlanError`).
            StorageError: the store failed. The instant may be there.
        """
        time = time or self.clock.next_time((self.timeline.latest_time,))
        return self._noted(self._put_requested(time, action, content))

    def _put_requested(self, time: str, action: str, content: InstantContent | None) -> Instant:
        """Put an instant on the timeline, while the lock is held.

        What others do from then on respects its plan, and what they did before is in it. Whoever
        takes a time from then on takes a later one.
        """
        if content is None:
            instant = put_requested(self.store, self.config, time, action)
            self._withdraw_late(instant)
            return instant
        known = self.timeline
        self.check_held()
        instant = put_requested(self.store, self.config, time, action, content)
        if not self.lock.may_publish() or self.has_late_commits(known, instant.requested_time):
            raise LatePlanError(self, instant)
        return instant

    def _withdraw_late(self, instant: Instant) -> None:
        """Take an instant without a plan off the timeline if the lock was lost before it was there.

        Its time may be that of another instant: the next owner may have taken the same one for
        another action, where the timeline was ahead of both clocks. Whoever goes by the time would
        take a failed write for completed then, once the other is. Where the clock is behind, the
        lease is asked of the store too: another clock may have ended it long ago.

        Raises:
            ConflictError: it was withdrawn.
            StorageError: the store failed. The instant may be there: a failed write.
        """
        is_behind = self.clock.is_behind(instant.requested_time)
        if self.lock.holds() if is_behind else self.lock.may_publish():
            return
        delete_instant_file(self.store, self.config, instant.file_name)
        raise ConflictError(
            f"the table lock was lost before {instant.action} {instant.requested_time} could be "
            "begun: this process stood still for longer than its lease. Nothing was written; "
            "reload the table and begin again, with longer leases if it recurs"
        )

    def has_late_commits(self, known: Timeline, own: str) -> bool:
        """Whether a write was completed meanwhile, though this writer has held the lock.

        The writer of that one stood still between its last look at the lock and the creation of the
        completed file. Asked for once a file of this writer is there: who comes later finds that.

        Args:
            known: The timeline, as it was listed under the lock. Who may come late is pending
                there, or was taken back.
            own: The requested time of this writer's instant.

        Raises:
            StorageError: the store failed.
        """
        waiting = known.writes.pending.requested_times - {own}
        if not waiting:
            return False
        completed = load_timeline(self.store, self.config, self.limits).completed.instants
        return any(instant.requested_time in waiting for instant in completed)

    def request_alive(
        self, action: str, content: InstantContent | None = None
    ) -> tuple[Instant, Heartbeat]:
        """Put a new instant on the timeline whose heartbeat begins before.

        Hudi rolls a write back that has no heartbeat. Arguments and errors as `request`.
        """
        begun = None if self._early is None else self._early.take(self.timeline)
        if begun is None:
            time = self.clock.next_time((self.timeline.latest_time,))
            begun = time, self.heartbeats.start(time)
        time, heartbeat = begun
        with heartbeat.stopped_on_error():
            try:
                return self._put_requested(time, action, content), heartbeat
            except ConflictError:
                heartbeat.abandon()  # the file may be that of another writer's instant too
                raise

    def begin(
        self, requested_time: str, action: str, content: InstantContent | None = None
    ) -> Instant:
        """Set an instant inflight that was requested (or a savepoint, which is not).

        Args:
            requested_time: Of the instant.
            action: Of the instant.
            content: See `put_inflight`.

        Raises:
            ConflictError: somebody else has begun it.
            StorageError: the store failed. The instant may be inflight.
        """
        return self._noted(put_inflight(self.store, self.config, requested_time, action, content))

    def withdraw_unplanned(self) -> None:
        """Take compactions off the timeline whose plan was never written.

        Hudi makes the file first, and died there: it can neither execute nor roll back such an
        instant.

        Raises:
            ConflictError: the lock was lost.
            StorageError: the store failed.
        """
        for path in load_unplanned(self.store, self.config, self.timeline):
            self.check_held()
            self.store.delete(path)
            self._timeline = None

    def _noted(self, instant: Instant) -> Instant:
        """Return the instant, which the timeline has from now on."""
        if self._timeline is not None:
            self._timeline = self._timeline.with_instant(instant)
        return instant

    def publish(
        self,
        instant: Instant,
        content: InstantContent,
        heartbeat: Heartbeat | None = None,
        reports: Mapping[str, RowReport] | None = None,
        *,
        is_blind: bool = False,
        is_last: bool = True,
    ) -> Instant:
        """Complete an inflight instant: from now on readers see what it did.

        The hooks run first. Nothing is published where one of them raises.

        Args:
            instant: The instant, inflight on `timeline`.
            content: What it did.
            heartbeat: Of the instant, where it has one.
            reports: What is known of the rows of its files, by path.
            is_blind: See `PendingChange`.
            is_last: False where a change that readers need too is published next under this lock.
                The lock is asked for after that one.

        Returns:
            The completed instant.

        Raises:
            ConflictError: the instant is not inflight any more, or the lock or the heartbeat was
                lost. Nothing was published.
            CommitUnknownError: the store failed and does not tell whether it took effect.
            LockLostError: the instant was published, and the lock may have been lost before.
            StorageError: the store failed and nothing was published.
        """

        def prepare() -> None:
            for hook in self._publish_hooks:
                hook(self, PendingChange(instant, content, reports or {}, is_blind))

        def is_alive() -> bool:
            return heartbeat is None or not heartbeat.is_lost()

        done = put_completed(
            self.store,
            self.config,
            self.timeline,
            self.clock,
            instant.requested_time,
            instant.action,
            content,
            may_publish=lambda: self.lock.may_publish() and is_alive(),
            was_kept=lambda: not is_last or (self.lock.holds() and is_alive()),
            prepare=prepare,
        )
        if done.completion_time is None:  # in layout 1 the file tells, once it is listed
            self._timeline = None
        return self._noted(done)


PublishHook = Callable[[LockedTable, PendingChange], None]
"""Brings something in step with a change before the change is published.

Called under the lock, once the change is known to be in conflict with no other.
"""


class RemovalHook(Protocol):
    """Takes back what a publish hook has done for an instant."""

    def __call__(
        self,
        store: Store,
        limits: Limits,
        requested_time: str,
        check_held: Callable[[], object],
        *,
        is_completed: bool,
    ) -> None:
        """Take it back, or make ready for that; see `LockableTable.prepare_removal`."""


class LockableTable:
    """A table whose lock this writer may take.

    Safe to use from several threads, and in a forked child.

    Attributes:
        access: What it takes to change the table.
        store, limits, locks, clock, heartbeats, machine: The parts of `access`.
        publish_hooks: Called before a change is published, in order.
        removal_hooks: Called before an instant leaves the timeline, in order.
        late_commits: Finds the late commits of the table.
    """

    def __init__(
        self,
        access: TableAccess,
        publish_hooks: tuple[PublishHook, ...] = (),
        removal_hooks: tuple[RemovalHook, ...] = (),
        config: TableConfig | None = None,
    ) -> None:
        """Set up; see the attributes.

        `config` is the table's properties as they were read last, where they were.
        """
        self.access = access
        self.store = access.store
        self.limits = access.limits
        self.locks = access.locks
        self.clock = access.clock
        self.heartbeats = access.heartbeats
        self.machine = access.machine
        self.publish_hooks = publish_hooks
        self.removal_hooks = removal_hooks
        self.late_commits = LateCommits(access.store, access.limits)
        self._config = config

    def prepare_removal(
        self,
        requested_time: str,
        check_held: Callable[[], object],
        *,
        is_completed: bool = False,
    ) -> None:
        """Take back what the publish hooks have done for an instant that leaves the timeline.

        Called before the last file of a pending instant is removed from the timeline. For a
        completed instant it is called before that too, while its completed file is there: only then
        can the hooks find out which base files of the metadata table hold its records.

        Args:
            requested_time: Of the instant.
            check_held: Raises where the table lock is not held: what is not the instant's own is
                changed under the lock only.
            is_completed: Whether the instant is still completed.

        Raises:
            ConflictError: as `check_held`.
            CorruptError: what the publish hooks did is damaged.
            StorageError: the store failed; do it again.
        """
        for hook in self.removal_hooks:
            hook(self.store, self.limits, requested_time, check_held, is_completed=is_completed)

    def list_timeline(self, config: TableConfig, listed: Timeline | None = None) -> Timeline:
        """List the timeline.

        Args:
            config: The table's properties.
            listed: The timeline, if it was just listed.

        Raises:
            StorageError: the store failed, or lists late.
        """
        return listed or load_timeline(self.store, config, self.limits)

    @contextmanager
    def locked(self, *, begins: bool = False) -> Iterator[LockedTable]:
        """Hold the table lock while the body runs.

        Args:
            begins: The body requests an instant that has a heartbeat, which over a network begins
                while the timeline is listed.

        Raises:
            LockTimeoutError: the table lock could not be acquired.
            UnsupportedError: the table is of a version that is not written.
        """
        with self.locks.taken() as lock, ExitStack() as ending:
            early = None
            if begins and not self.store.failures_are_final:
                early = EarlyHeartbeat(self.clock, self.heartbeats)
                ending.callback(early.drop)
            with ExitStack() as loading:
                if early is not None:
                    loading.enter_context(beside(self.store, early.begin))
                config, timeline = self.load()
            config.check_written_version()
            yield LockedTable(self, config, lock, timeline, early)

    def load(self) -> tuple[TableConfig, Timeline | None]:
        """Return the properties, and over a network the timeline, which is asked for beside.

        Raises:
            CorruptError: the properties are damaged.
            StorageError: the store failed.
        """
        before = self._config
        if before is None or self.store.failures_are_final:
            self._config = load_config(self.store, self.limits)
            return self._config, None
        listing = partial(load_timeline, self.store, before, self.limits)
        with beside(self.store, listing) as listed:
            self._config = config = load_config(self.store, self.limits)
            timeline = listed()
        return config, timeline if config.properties == before.properties else None
