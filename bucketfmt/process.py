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
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

__all__ = ["cached_property", "fork_safe", "new_mutex", "this_process"]


_T = TypeVar("_T", bound="threading.Lock | threading.RLock")


def fork_safe(lock: _T) -> _T:
    """Return the lock of `threading`, which a forked child will have free."""
    _locks.add(lock)
    return lock


def new_mutex() -> threading.Lock:
    """Return a lock between the threads of one process, which a forked child has free.

    A mutex guards shared memory for a few statements. No thread holds a mutex during a request to
    the store. Use it by `with`: Python interrupts a thread (Ctrl-C) after a call, so that a mutex
    which a function of one's own acquired would be held for ever.
    """
    return fork_safe(threading.Lock())


_locks: WeakSet[Any] = WeakSet()
_names = [uuid.uuid4().hex]  # of the processes this one was forked from, and its own


def this_process() -> str:
    """Return a name of this process that no other process has; a forked child has its own."""
    return _names[-1]


def _begin_child() -> None:
    _names.append(uuid.uuid4().hex)
    for lock in list(_locks):
        lock._at_fork_reinit()  # as the modules of the standard library do


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
