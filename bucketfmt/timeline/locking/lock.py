"""The table lock: one writer at a time between looking at the timeline and adding to it.

Does I/O, sleeps. Source: `LockManager`. A table does not record which kind of lock its writers use.
All writers must be configured with the same kind. Each kind has its own module.

A lock that can expire, or that an operator can remove, may be lost while its owner is busy.
So `holds` is called right before each publication, and having acquired the lock does not suffice.
"""

from __future__ import annotations

import random
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TypeVar

from bucketfmt.errors import (
    BucketfmtError,
    LockTimeoutError,
    StorageError,
)
from bucketfmt.process import this_process
from bucketfmt.timeline.locking.held_mutex import HeldMutex, Holder

__all__ = [
    "DEFAULT_WAITING",
    "LockProvider",
    "TableLock",
    "Waiting",
]

_STORE_FAILURES_MAX = 3
_FAILURE_PAUSE_S = 1.0
_TURN_S = 2.5  # then others have it, who try at least once in `longest_pause_s`
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
    longest_pause_s: float = 0.25
    random: Callable[[], float] = random.random
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    acquire: Callable[[HeldMutex, float], bool] = HeldMutex.acquire

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


class LockProvider:
    """Hands out locks of one table. Safe to use from several threads, and in a forked child.

    Each acquisition makes a lock with an owner of its own; the owner is neither the process nor the
    `Table`. Threads that share the provider queue in memory, so that only one thread at a time asks
    the store. Threads that have handed the lock on to one another for 2.5 s leave it free for as
    long as others pause between their tries: no other process would ever find it free.
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
        self._queue = HeldMutex()
        self._turn_began = waiting.monotonic()  # written by the thread that has the queue

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
        waiting, queue, process = self._waiting, self._queue, this_process()
        began, is_again = waiting.monotonic(), queue.is_own()
        # An interrupt (Ctrl-C) may come between any two statements: what was acquired is released
        # in any case, and a release that was interrupted is done again.
        try:
            is_handed_on = not waiting.acquire(queue, 0.0)
            if is_handed_on and not waiting.acquire(queue, waiting.timeout_s):
                raise LockTimeoutError(
                    f"the table lock could not be acquired in {_seconds(waiting.timeout_s)}: "
                    f"{self._describe_first()}. Retry later, or wait longer"
                )
            queue.holder = Holder.this_thread(waiting.monotonic())
            self._take_turn(is_handed_on=is_handed_on)
            left_s = max(0.0, began + waiting.timeout_s - waiting.monotonic())
            lock = self._new_lock(replace(waiting, timeout_s=left_s))
            try:
                lock.acquire()
                yield lock
            finally:
                try:
                    lock.release()
                except KeyboardInterrupt:
                    lock.release()
                    raise
        finally:
            try:
                _leave(queue, process, is_again)
            except KeyboardInterrupt:
                _leave(queue, process, is_again)
                raise

    def _take_turn(self, *, is_handed_on: bool) -> None:
        waiting = self._waiting
        if is_handed_on and waiting.monotonic() - self._turn_began < _TURN_S:
            return
        if is_handed_on:
            waiting.sleep(waiting.longest_pause_s)
        self._turn_began = waiting.monotonic()

    def _describe_first(self) -> str:
        first = self._queue.holder
        if first is None:  # it is about to say so
            return "other threads that share this Table hold it"
        return (
            f"thread {first.thread!r}, of the threads that share this Table, has held it or waited "
            f"for it for {first.describe_time(self._waiting.monotonic())}"
        )


def _leave(queue: HeldMutex, process: str, is_again: bool) -> None:
    if process == this_process() and not is_again:  # a child leaves what its parent is in
        queue.release()


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
        failures = 0
        while True:
            try:
                self._release()
            except BucketfmtError as error:
                failures += 1
                if failures < _STORE_FAILURES_MAX:
                    self._waiting.sleep(_FAILURE_PAUSE_S)
                    continue
                warnings.warn(
                    f"the table lock could not be given back: {error}. {self._describe_stuck()}",
                    RuntimeWarning,
                    stacklevel=2,
                )
            self._is_acquired = False  # last: a release that is interrupted may be done again
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
