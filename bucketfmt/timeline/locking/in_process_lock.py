"""A table lock between the threads of one process. Sleeps. Source: `InProcessLockProvider`."""

from __future__ import annotations

from weakref import WeakValueDictionary

from bucketfmt.errors import UnsupportedError
from bucketfmt.process import new_mutex, this_process
from bucketfmt.timeline.locking.held_mutex import HeldMutex, Holder
from bucketfmt.timeline.locking.lock import DEFAULT_WAITING, TableLock, Waiting

__all__ = ["InProcessLock"]

_mutexes: WeakValueDictionary[str, HeldMutex] = WeakValueDictionary()
_mutexes_guard = new_mutex()


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
        self._has_tried = False
        self._chosen_for = process or this_process()
        with _mutexes_guard:
            self._mutex = _mutexes.setdefault(table, HeldMutex())

    def _try_acquire(self) -> bool:
        if self._chosen_for != this_process():
            raise UnsupportedError(
                'lock="process" excludes the threads of one process, and this is another process '
                "than the one that chose it: a forked child, or one that the Table was sent to. "
                "Rows that the other process writes would be lost. Open the table with another "
                'lock; or, if only this process writes, make WriterConfig(lock="process") here'
            )
        if self._mutex.is_own():  # by another lock of this thread
            return False
        self._has_tried = True
        is_acquired = self._mutex.acquire(0)
        if is_acquired:
            self._mutex.holder = Holder.this_thread(self._waiting.monotonic())
        return is_acquired

    def _withdraw(self) -> None:
        if self._has_tried:  # and was interrupted
            self._mutex.release()

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
            f"{holder.describe_time(self._waiting.monotonic())}, for {self._table}"
        )

    def _describe_stuck(self) -> str:
        return "It ends with this process"
