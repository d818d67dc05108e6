"""The table lock: one writer at a time between looking at the timeline and adding to it.

Does I/O, sleeps. Source: `LockManager`, `InProcessLockProvider`,
`FileSystemBasedLockProvider`. A table does not record which kind of lock its writers use. All
writers must be configured with the same kind. `StorageBasedLock` has its own module.

A lock that can expire, or that an operator can remove, may be lost while its owner is busy.
So `holds` is called right before each publication, and having acquired the lock does not suffice.
"""

from __future__ import annotations

import os
import platform
import random
import threading
import time
import uuid
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from types import TracebackType
from typing import TypeVar
from weakref import WeakValueDictionary

from bucketfmt.errors import (
    BucketfmtError,
    LockTimeoutError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from bucketfmt.format.encoding.json_text import encode_jackson_json
from bucketfmt.format.names.layout import FILE_LOCK, LEASE
from bucketfmt.format.table.table_lock import decode_table_lease
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.process import Mutex, this_process
from bucketfmt.storage.store import Store

__all__ = [
    "DEFAULT_WAITING",
    "FileSystemBasedLock",
    "InProcessLock",
    "LockProvider",
    "TableLock",
    "Waiting",
]

_STORE_FAILURES_MAX = 3
_Self = TypeVar("_Self", bound="TableLock")


@dataclass(frozen=True)
class Waiting:
    """How long to wait for a lock that another owner holds, and how often to try.

    Pauses double from the first to the longest. Each pause is shortened at random by up to half, so
    that writers that began to wait together do not try together.

    Attributes:
        timeout_s: After this, there is one last try.
        first_pause_s: Between the first try and the second.
        longest_pause_s: The most between two tries.
        random: Returns a number from 0 up to 1.
        monotonic: Returns seconds of a clock that is never set.
        sleep: Waits for that many seconds.
        acquire: Takes a mutex of this process, waiting at most that many seconds for it.
    """

    timeout_s: float = 60.0
    first_pause_s: float = 0.01
    longest_pause_s: float = 1.0
    random: Callable[[], float] = random.random
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    acquire: Callable[[Mutex, float], bool] = Mutex.acquire

    def tries(self) -> Iterator[None]:
        """Yield once for each try, pausing in between, until the time is up."""
        deadline = self.monotonic() + self.timeout_s
        pause_s = self.first_pause_s
        while True:
            yield
            left_s = deadline - self.monotonic()
            if left_s <= 0:
                return
            self.sleep(min(left_s, pause_s * (1 - self.random() / 2)))
            pause_s = min(pause_s * 2, self.longest_pause_s)


DEFAULT_WAITING = Waiting()


@dataclass(frozen=True)
class _Holder:
    """The thread of this process that took a mutex, and when by `Waiting.monotonic`."""

    thread: str
    taken: float

    @classmethod
    def this_thread(cls, waiting: Waiting) -> _Holder:
        return cls(threading.current_thread().name, waiting.monotonic())

    def seconds(self, waiting: Waiting) -> str:
        return f"{max(0.0, waiting.monotonic() - self.taken):.0f} s"


class _HeldMutex(Mutex):
    """A mutex that tells who took it last."""

    __slots__ = ("holder",)

    def __init__(self) -> None:
        super().__init__()
        self.holder: _Holder | None = None


class LockProvider:
    """Hands out locks of one table. Safe to use from several threads, and in a forked child.

    Each acquisition makes a lock with an owner of its own; the owner is neither the process nor the
    `Table`. Threads that share the provider queue in memory, so that only one thread at a time asks
    the store.
    """

    def __init__(
        self, new_lock: Callable[[Waiting], TableLock], waiting: Waiting = DEFAULT_WAITING
    ) -> None:
        """Set up.

        Args:
            new_lock: Returns a lock that nobody has used, with an owner of its own.
            waiting: How long to try, for the queue and the lock together.
        """
        self._new_lock = new_lock
        self._waiting = waiting
        self._queue = _HeldMutex()

    @contextmanager
    def taken(self) -> Iterator[TableLock]:
        """Hold the table lock while the body runs; yield the lock.

        Raises:
            LockTimeoutError: the lock could not be acquired in time.
            StorageError: the store failed several times running.
            CorruptError: the lock file does not decode.
            UnsupportedError: the store cannot do what this lock needs, or a lock between threads
                is used in another process than the one it was made for.
        """
        waiting, process = self._waiting, this_process()
        began = waiting.monotonic()
        if not waiting.acquire(self._queue, waiting.timeout_s):
            raise LockTimeoutError(
                f"the table lock could not be acquired in {_seconds(waiting.timeout_s)}: "
                f"{self._describe_first()}. Retry later, or wait longer"
            )
        try:
            self._queue.holder = _Holder.this_thread(waiting)
            left_s = max(0.0, began + waiting.timeout_s - waiting.monotonic())
            with self._new_lock(replace(waiting, timeout_s=left_s)) as lock:
                yield lock
        finally:
            if process == this_process():  # else a child left the body that its parent is in
                self._queue.release()

    def _describe_first(self) -> str:
        first = self._queue.holder
        if first is None:  # it is about to say so
            return "other threads that share this Table hold it"
        return (
            f"thread {first.thread!r}, of the threads that share this Table, has held it or waited "
            f"for it for {first.seconds(self._waiting)}"
        )


def _seconds(timeout_s: float) -> str:
    return f"{round(timeout_s, 1):g} s"


class TableLock(ABC):
    """A lock of one table for one owner: one acquisition in one thread of one process."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self._is_acquired = False
        self._process = this_process()

    def __enter__(self: _Self) -> _Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def acquire(self) -> None:
        """Acquire the lock; wait while another owner holds it.

        Raises:
            LockTimeoutError: the lock could not be acquired in time.
            StorageError: the store failed several times running.
            CorruptError: the lock file does not decode.
            UnsupportedError: as `LockProvider.taken`.
        """
        if self._is_acquired:
            raise RuntimeError("a table lock is not reentrant")
        failures = 0
        try:
            for _ in self._waiting.tries():
                try:
                    if self._try_acquire():
                        self._is_acquired = True
                        return
                    failures = 0
                except StorageError:  # noqa: PERF203  (a try is a request or several)
                    failures += 1  # it may have taken effect nonetheless: the next try looks
                    if failures == _STORE_FAILURES_MAX:
                        raise
        finally:
            # A try that failed or was interrupted may have taken what no one would give back.
            if not self._is_acquired:
                with suppress(BucketfmtError):
                    self._withdraw()
        raise LockTimeoutError(
            f"the table lock could not be acquired in {_seconds(self._waiting.timeout_s)}: "
            f"{self._describe_owner()}. Retry later, or wait longer"
        )

    def holds(self) -> bool:
        """Return whether the lock is held, and will be for long enough to publish a file.

        Asks the store, if the lock has one. In a forked child the lock is not held: the parent
        holds it.

        Raises:
            StorageError: the store failed, so the state of the lock is unknown.
        """
        return self._is_own_acquisition and self._still_holds()

    @property
    def _is_own_acquisition(self) -> bool:
        """Whether this process acquired the lock and has not released it."""
        return self._is_acquired and self._process == this_process()

    def may_publish(self) -> bool:
        """Return whether a file may be published now, provided that `holds` is asked afterwards.

        As `holds`, but a lease that this owner has just put is not asked of the store.

        Raises:
            StorageError: the store failed, so the state of the lock is unknown.
        """
        return self.holds()

    def release(self) -> None:
        """Release the lock; do nothing if this owner, in this process, does not hold the lock.

        Raises no error of the store, since the work under the lock is complete: a lock that could
        not be released is a warning.
        """
        if not self._is_own_acquisition:
            return
        self._is_acquired = False
        failures = 0
        while True:
            try:
                self._release()
            except BucketfmtError as error:
                failures += 1
                if failures < _STORE_FAILURES_MAX:
                    self._waiting.sleep(self._waiting.longest_pause_s)
                    continue
                warnings.warn(
                    f"the table lock could not be given back: {error}. {self._describe_stuck()}",
                    RuntimeWarning,
                    stacklevel=2,
                )
            return

    @abstractmethod
    def _try_acquire(self) -> bool:
        """Acquire the lock if it is free. After a `StorageError` the owner may hold it, or not."""

    def _withdraw(self) -> None:
        """Release a lock that a failed try may have acquired."""
        self._release()

    @abstractmethod
    def _still_holds(self) -> bool:
        """Return whether this owner still holds the lock that it acquired."""

    @abstractmethod
    def _release(self) -> None:
        """Release the acquired lock. May be called again after a `StorageError`."""

    @abstractmethod
    def _describe_owner(self) -> str:
        """Return a description of the lock's owner, for an error message."""

    @abstractmethod
    def _describe_stuck(self) -> str:
        """Return what happens to a lock that could not be released, for a warning."""


_mutexes: WeakValueDictionary[str, _HeldMutex] = WeakValueDictionary()
_mutexes_guard = Mutex()


class InProcessLock(TableLock):
    """Excludes other threads of one process only, as for a table in memory."""

    def __init__(
        self, table: str, waiting: Waiting = DEFAULT_WAITING, process: str | None = None
    ) -> None:
        """Set up the lock.

        Args:
            table: Identifies the table among others, for example its `Store.uri`.
            waiting: How long to try.
            process: The process that the caller has chosen this kind of lock for; this one by
                default.
        """
        super().__init__(waiting)
        self._table = table
        self._chosen_for = process or this_process()
        with _mutexes_guard:
            self._mutex = _mutexes.setdefault(table, _HeldMutex())

    def _try_acquire(self) -> bool:
        if self._chosen_for != this_process():
            raise UnsupportedError(
                'lock="process" excludes the threads of one process, and this is another process '
                "than the one that chose it: a forked child, or one that the Table was sent to. "
                "Rows that the other process writes would be lost. Open the table with another "
                'lock; or, if only this process writes, make WriterConfig(lock="process") here'
            )
        is_acquired = self._mutex.acquire(0)
        if is_acquired:
            self._mutex.holder = _Holder.this_thread(self._waiting)
        return is_acquired

    def _withdraw(self) -> None:
        return  # a try tells whether it took the lock

    def _still_holds(self) -> bool:
        return True

    def _release(self) -> None:
        self._mutex.release()

    def _describe_owner(self) -> str:
        holder = self._mutex.holder
        if holder is None:
            return f"another thread of this process holds it for {self._table}"
        return (
            f"thread {holder.thread!r} of this process has held it for "
            f"{holder.seconds(self._waiting)}, for {self._table}"
        )

    def _describe_stuck(self) -> str:
        return "It ends with this process"


def _of_two_kinds(why: str) -> UnsupportedError:
    return UnsupportedError(
        f'this writer locks the table by lock="filesystem" ({FILE_LOCK}), and another writer by '
        f"Hudi's StorageBasedLockProvider, the default ({LEASE}): {why}. Nothing was published. "
        "Give all writers of the table the same lock="
    )


class FileSystemBasedLock(TableLock):
    """Hudi's `FileSystemBasedLockProvider`: the table is locked while a file exists.

    For local disks. Hudi's lock file is empty. The table is locked until the file is deleted or, if
    writers agree on an expiry, until the file is that old. The lock file written here names its
    owner: Hudi shows the name in its error, and `holds` compares the name, because another writer
    can remove the file (Hudi deletes any lock file when it closes).

    The lease of `StorageBasedLock`, the default, is looked at when the lock is acquired and before
    each publication: a writer that uses the other kind of lock would be excluded by neither.
    """

    def __init__(
        self,
        store: Store,
        *,
        expire_minutes: int = 0,
        path: str = FILE_LOCK,
        owner: str | None = None,
        now: Callable[[], float] = time.time,
        waiting: Waiting = DEFAULT_WAITING,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """Set up the lock.

        Args:
            store: The table's files.
            expire_minutes: `hoodie.write.lock.filesystem.expire`: a lock file of this age has
                expired; 0 for never. The same for all writers.
            path: The lock file; Flink's writers have it at `.hoodie/.aux/lock`.
            owner: Identifies this writer among all others; a new UUID by default.
            now: Returns seconds since the epoch.
            waiting: How long to try.
            limits: Bounds on what is read.

        Raises:
            ValueError: the expiry is negative.
        """
        super().__init__(waiting)
        if expire_minutes < 0:
            raise ValueError(
                "the lease of a lock must not be negative; 0 minutes means that the "
                "lock never expires"
            )
        self._store = store
        self._expire_s = expire_minutes * 60
        self._path = path
        self._now = now
        self._limit_bytes = limits.properties_bytes_max
        self._limits = limits
        self._owner = owner or str(uuid.uuid4())
        self._since = 0.0
        self._lease = b""  # of the other kind of lock, when this lock was acquired

    def _try_acquire(self) -> bool:
        self._since = now = self._now()
        if self._store.info(self._path) is None:
            is_acquired = self._store.put_if_absent(self._path, self._content(now))
        else:
            is_acquired = self._try_take_over(now)
        if is_acquired:
            self._lease = self._read_lease()
            lease = decode_table_lease(self._lease, self._limits) if self._lease else None
            if lease is not None and not lease.expired and lease.valid_until >= now * 1000:
                raise _of_two_kinds(f"{lease.owner} holds the lock of the other kind")
        return is_acquired

    def _try_take_over(self, now: float) -> bool:
        """Acquire an expired lock, or a lock that an earlier try of this owner acquired."""
        try:
            content, version = self._store.read_versioned(self._path, self._limit_bytes)
        except NotFoundError:
            return False  # given back just now
        # Listed after the version was read: a file that was replaced since has another version.
        info = self._store.info(self._path)
        is_expired = info is not None and info.modified and self._is_expired(info.modified)
        if not is_expired and self._owner.encode() not in content:
            return False
        return self._store.replace_if(self._path, self._content(now), version) is not None

    def _still_holds(self) -> bool:
        # With a tenth of the time left, so that it does not end while the file is written.
        if self._is_expired(self._since, part=0.9) or not self._is_ours():
            return False
        if self._read_lease() != self._lease:
            raise _of_two_kinds("another writer acquired the lock of the other kind meanwhile")
        return True

    def _read_lease(self) -> bytes:
        try:
            return self._store.read(LEASE, self._limit_bytes)
        except NotFoundError:
            return b""

    def _release(self) -> None:
        # An expired file is left: someone may be taking it over this very moment.
        if not self._is_expired(self._since) and self._is_ours():
            self._store.delete(self._path)

    def _is_expired(self, since: float, part: float = 1.0) -> bool:
        return self._expire_s > 0 and self._now() - since > self._expire_s * part

    def _is_ours(self) -> bool:
        try:
            return self._owner.encode() in self._store.read(self._path, self._limit_bytes)
        except NotFoundError:
            return False

    def _content(self, now: float) -> bytes:
        """Return the content that Hudi calls a `LockInfo`, with the name of this owner."""
        created = datetime.fromtimestamp(now).isoformat(" ", "milliseconds")
        thread = f"bucketfmt on {platform.node()}, process {os.getpid()}"
        return encode_jackson_json(
            {
                "lockCreateTime": created,
                "lockThreadName": thread,
                "lockStacksInfo": [],
                "owner": self._owner,
            }
        )

    def _describe_owner(self) -> str:
        try:
            content = " ".join(self._store.read(self._path, 4096).decode(errors="replace").split())
        except BucketfmtError:
            content = "unknown"
        expiry = f"expires after {self._expire_s // 60} min" if self._expire_s else "never expires"
        return f"{self._path} exists and {expiry}; owner {content or 'a Hudi writer'}"

    def _describe_stuck(self) -> str:
        if self._expire_s:
            return f"It expires in {self._expire_s // 60} min"
        return f"Delete {self._path}, or no one can write"
