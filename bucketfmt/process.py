"""Which process this is, and what a forked child must not inherit.

`os.fork` copies the memory of the parent but only one of its threads. A mutex that another thread
held at that moment would stay locked in the child for ever. A write, a lease, a heartbeat or a
connection that the parent began belongs to the parent. No I/O.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import uuid
from types import TracebackType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

__all__ = ["Mutex", "cached_property", "this_process"]


class Mutex:
    """A lock between the threads of one process. In a forked child the mutex is free.

    A mutex guards shared memory for a few statements. No thread holds a mutex during a request to
    the store.
    """

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _mutexes.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()

    def acquire(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` seconds for the mutex; return whether this thread has it."""
        if timeout_s <= 0:
            return self._lock.acquire(blocking=False)
        return self._lock.acquire(timeout=min(timeout_s, threading.TIMEOUT_MAX))

    def release(self) -> None:
        """Free the mutex."""
        self._lock.release()


_mutexes: WeakSet[Mutex] = WeakSet()
_names = [uuid.uuid4().hex]  # of the processes this one was forked from, and its own


def this_process() -> str:
    """Return a name of this process that no other process has; a forked child has its own."""
    return _names[-1]


def _begin_child() -> None:
    _names.append(uuid.uuid4().hex)
    for mutex in list(_mutexes):
        mutex._lock = threading.Lock()


os.register_at_fork(after_in_child=_begin_child)


if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801
        """`functools.cached_property` as Python 3.12 has it: without a mutex.

        Before Python 3.12, all instances of a class share one mutex for each property, and a thread
        holds the mutex while it computes the value. A child that is forked meanwhile would wait
        for the mutex for ever.
        """

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            cache = instance.__dict__
            value = cache.get(self.attrname, cache)  # no property has its own cache as a value
            if value is cache:
                value = cache[self.attrname] = self.func(instance)
            return value
