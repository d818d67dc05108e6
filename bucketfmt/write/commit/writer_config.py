"""How a table is written to next to other writers: the lock, the clock, the heartbeats.

Sets up what does I/O later. Source: HoodieLockConfig, HoodieWriteConfig.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import get_args

from bucketfmt.arguments import check_bool, check_choice, check_int, check_kind, check_number
from bucketfmt.choices import Concurrency, LockKind, MetadataPolicy
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import Limits
from bucketfmt.process import this_process
from bucketfmt.snapshot.kept_commits import KeptCommits
from bucketfmt.storage.store import Store
from bucketfmt.timeline.clock import InstantClock
from bucketfmt.timeline.locking.file_system_based_lock import FileSystemBasedLock
from bucketfmt.timeline.locking.heartbeat import Heartbeats
from bucketfmt.timeline.locking.in_process_lock import InProcessLock
from bucketfmt.timeline.locking.lock import LockProvider, TableLock, Waiting
from bucketfmt.timeline.locking.storage_based_lock import ReleasedLease, StorageBasedLock
from bucketfmt.timeline.machine import Machine
from bucketfmt.write.commit.table_access import TableAccess
from bucketfmt.write.commit.transactions import Transactions
from bucketfmt.write.metadata.keeper import MetadataKeeper
from bucketfmt.write.services.plan_services import Services

__all__ = ["WriterConfig", "open_transactions"]

_LOCAL_LEASE_S, _REMOTE_LEASE_S = 20.0, 300.0  # the latter is Hudi's
_RENEWALS_IN_LEASE = 10
_LEASE_MIN_S = 1.0
_HEARTBEAT_MIN_S = 0.01
_YEAR_S = 365 * 86_400  # what is longer overflows where a thread waits
_WAITING_S = 60.0  # beyond the lease of a writer that died


@dataclass(frozen=True, slots=True)
class WriterConfig:
    """How to write to a table. All writers of a table take the same lock: no table records which.

    Attributes:
        lock: `auto`: a lease in `.hoodie/.locks`, as Hudi's StorageBasedLockProvider keeps it on
            S3 and GCS, and as only this package does on disks. `storage`: the same by name.
            `filesystem`: Hudi's FileSystemBasedLockProvider, the file `.hoodie/lock`. These three
            exclude threads, forked children, processes and machines alike. `process`: excludes
            only the threads of the process that made this value; writes from another process, a
            forked child or one that the value was sent to, raise UnsupportedError.
        lock_timeout_s: How long to wait for it; None: one minute longer than the lock of a writer
            that died lasts, so that a write waits for such a lock to end.
        lock_lease_s: How long the lease of `storage` outlasts a writer that died (Hudi's
            `hoodie.write.lock.storage.validity.timeout.secs`); it is renewed ten times as often.
            None: 300 s, or 20 s on a disk.
        lock_expire_minutes: Hudi's `hoodie.write.lock.filesystem.expire`.
        clock_skew_s: How far the clocks of the writers' machines may differ, so that instants are
            in the order of the writes. A writer waits for so long.
        heartbeat_interval_s: Hudi's `hoodie.client.heartbeat.interval_in_ms`.
        concurrency: `optimistic`: of two writes to one bucket at a time, one is done again.
            `non_blocking`: both stand, and readers merge them: for merge-on-read tables of
            version 8 and later with a simple bucket index, all of whose writers are to have it
            (Hudi's NON_BLOCKING_CONCURRENCY_CONTROL).
        metadata_table: What becomes of the metadata table, where the table has one: `sync`: each
            change is written to it as well. `drop`: it is removed, and Hudi builds it anew.
            `refuse`: the table is not written to.
        pin_index: Whether a write records the index of a table that does not record it, once the
            index is proved for every partition. See `Table.pin_index`.
        services: The compaction, cleaning and archiving that run by themselves after a commit of
            rows, once they are due (`Services`); None: none does. They never fail the commit: an
            error is logged by the logger `bucketfmt`.
        machine: That the writer runs on; another one for tests.
        process: The process that made this value. Set by itself.

    Raises:
        TypeError: a setting of another type.
        ValueError: a setting that is not among the choices, is too small, or is more than a year.
    """

    lock: LockKind = "auto"
    lock_timeout_s: float | None = None
    lock_lease_s: float | None = None
    lock_expire_minutes: int = 0
    clock_skew_s: float = 0.001
    heartbeat_interval_s: float = 60.0
    concurrency: Concurrency = "optimistic"
    metadata_table: MetadataPolicy = "sync"
    pin_index: bool = True
    services: Services | None = field(default=Services())
    machine: Machine = field(default=Machine(), repr=False)
    process: str = field(default_factory=this_process, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_choice("lock", self.lock, get_args(LockKind))
        if self.lock_timeout_s is not None:
            check_number("lock_timeout_s", self.lock_timeout_s, 0, _YEAR_S)
        if self.lock_lease_s is not None:
            check_number("lock_lease_s", self.lock_lease_s, _LEASE_MIN_S, _YEAR_S)
        check_int("lock_expire_minutes", self.lock_expire_minutes, 0, _YEAR_S // 60)
        check_number("clock_skew_s", self.clock_skew_s, 0, _YEAR_S)
        check_number("heartbeat_interval_s", self.heartbeat_interval_s, _HEARTBEAT_MIN_S, _YEAR_S)
        check_choice("concurrency", self.concurrency, get_args(Concurrency))
        check_choice("metadata_table", self.metadata_table, get_args(MetadataPolicy))
        check_bool("pin_index", self.pin_index)
        if self.services is not None:
            check_kind("services", self.services, Services, "a value such as Services(), or None")
        check_kind("machine", self.machine, Machine, "a Machine")


def open_transactions(
    store: Store,
    config: TableConfig,
    limits: Limits,
    writer: WriterConfig,
    kept_commits: KeptCommits | None = None,
) -> Transactions:
    """Return what begins commits on a table.

    Args:
        store: The table's files.
        config: The table's properties.
        limits: Bounds on what is read.
        writer: How to write.
        kept_commits: Those that were read of the table.

    Raises:
        UnsupportedError: the table is of version 3, 4 or 5.
    """
    config.check_written_version()
    machine, kept = writer.machine, kept_commits or KeptCommits(store, limits)
    access = TableAccess(
        store,
        limits,
        _open_locks(store, limits, writer),
        InstantClock(
            config.timezone,
            now=machine.now,
            sleep=machine.sleep,
            clock_skew_s=writer.clock_skew_s,
        ),
        Heartbeats(
            store,
            interval_s=writer.heartbeat_interval_s,
            now=machine.now,
            repeat=machine.repeat,
        ),
        machine,
    )
    keeper = MetadataKeeper(writer.metadata_table, kept, machine.now)
    return Transactions(access, keeper, kept, config)


def _open_locks(store: Store, limits: Limits, writer: WriterConfig) -> LockProvider:
    machine = writer.machine
    timeout_s = writer.lock_timeout_s
    if timeout_s is None:
        timeout_s = _lease_s(store, writer) + _WAITING_S
    waiting = Waiting(
        timeout_s=timeout_s,
        random=machine.random,
        monotonic=machine.monotonic,
        sleep=machine.sleep,
        acquire=machine.acquire,
    )
    new_lock = partial(_new_lock, store, limits, writer, ReleasedLease())
    return LockProvider(new_lock, waiting)


def _lease_s(store: Store, writer: WriterConfig) -> float:
    """Return how long a lock outlasts a writer that died; 0 for a lock that does not end so."""
    if writer.lock == "process":
        return 0.0
    if writer.lock == "filesystem":
        return writer.lock_expire_minutes * 60.0
    if writer.lock_lease_s is not None:
        return writer.lock_lease_s
    return _REMOTE_LEASE_S if "://" in store.uri else _LOCAL_LEASE_S


def _new_lock(
    store: Store,
    limits: Limits,
    writer: WriterConfig,
    released: ReleasedLease,
    waiting: Waiting,
) -> TableLock:
    """Return a lock for one acquisition, which no other acquisition takes for its own."""
    machine = writer.machine
    if writer.lock == "process":
        return InProcessLock(store.uri, waiting, writer.process)
    if writer.lock == "filesystem":
        return FileSystemBasedLock(
            store,
            expire_minutes=writer.lock_expire_minutes,
            owner=machine.new_uuid(),
            now=machine.now,
            waiting=waiting,
            limits=limits,
        )
    lease_s = _lease_s(store, writer)
    return StorageBasedLock(
        store,
        validity_s=lease_s,
        renew_s=lease_s / _RENEWALS_IN_LEASE,
        owner=machine.new_uuid(),
        now=machine.now,
        repeat=machine.repeat,
        waiting=waiting,
        limits=limits,
        released=released,
    )
