"""Many producers, one consumer, bounded memory: how file slices are read side by side."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from bucketfmt.storage.store import Store

__all__ = [
    "beside",
    "do_together",
    "map_in_order",
    "map_in_threads",
    "merge_streams",
    "reader_count",
    "task_count",
    "waiting_count",
    "worker_count",
]

_FEW_BYTES = 4 << 20  # read before threads, which take turns, have begun
_SMALL_BYTES = 32 << 10  # of a file that takes Python longer than those who decode it
_NETWORK_THREADS = 128  # each waits for one request or two
_BYTES_IN_WORK = 256 << 20  # of the files that threads work on at the same time

_T = TypeVar("_T")
_R = TypeVar("_R")


def worker_count() -> int:
    """Threads to read with: the processors this process may use, 8 at most."""
    if hasattr(os, "sched_getaffinity"):
        return min(8, max(1, len(os.sched_getaffinity(0))))
    return min(8, os.cpu_count() or 1)


def task_count(store: Store, sizes: Sequence[int]) -> int:
    """Return with how many threads to work on files of these sizes, or to write new files.

    Over a network, threads wait for answers most of the time. So there are as many as requests may
    be in flight, or fewer where the files are large: what they hold stays within some memory.
    On a disk there is one more than processors where no file is read: a twentieth of the time a
    thread waits for the disk to have what was written.
    """
    if store.failures_are_final:
        return worker_count() if sizes else worker_count() + 1
    fitting = _BYTES_IN_WORK // max([1, *sizes])
    return max(worker_count(), min(_NETWORK_THREADS, fitting))


def reader_count(store: Store, sizes: Sequence[int]) -> int:
    """Return with how many threads to read files of these sizes.

    On a disk: one for few bytes, and one for small files, for which threads would mostly wait for
    one another (half as long again for 5,000 files of a row).
    """
    if store.failures_are_final and sum(sizes) < max(_FEW_BYTES, len(sizes) * _SMALL_BYTES):
        return 1
    return task_count(store, sizes)


def waiting_count(store: Store) -> int:
    """Threads for listings and other small I/O: many over a network, where threads wait.

    On a disk, several threads would only wait for each other, and take three times as long.
    """
    return 1 if store.failures_are_final else _NETWORK_THREADS


def do_together(store: Store, *calls: Callable[[], object]) -> None:
    """Make calls that do not wait for one another: at the same time over a network.

    On a disk they are made one after another. The first error is raised once all calls ended.
    """
    for error in map_in_threads(_error_of, calls, waiting_count(store)):
        if error is not None:
            raise error


def _error_of(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None


@contextmanager
def beside(store: Store, call: Callable[[], _T]) -> Iterator[Callable[[], _T]]:
    """Make a call while the body runs: over a network in a thread, on a disk at once.

    Yields a function that waits for the call, and returns its result or raises its error. The body
    is not left before the call has ended.
    """
    if store.failures_are_final:
        result = call()
        yield lambda: result
        return
    with ThreadPoolExecutor(1) as pool:
        task = _submit(pool, call)
        yield task.result
        task.result()


def _submit(pool: ThreadPoolExecutor, function: Callable[..., _T], *arguments: Any) -> Future[_T]:
    """Have a pool make a call; make it here where Python ends and its pools take no more.

    That is once the main thread has ended: in other threads, and in `atexit`.
    """
    try:
        return pool.submit(function, *arguments)
    except RuntimeError as error:
        if "cannot schedule new futures" not in str(error):
            raise  # it may have been queued
        done: Future[_T] = Future()
        try:
            done.set_result(function(*arguments))
        except Exception as failure:
            done.set_exception(failure)
        return done


def map_in_threads(function: Callable[[_T], _R], items: Sequence[_T], workers: int) -> list[_R]:
    """Return `function` of each item, in order."""
    if len(items) <= 1 or workers <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(workers, len(items))) as pool:
        tasks = [_submit(pool, function, item) for item in items]
        try:
            return [task.result() for task in tasks]
        finally:
            for task in tasks:
                task.cancel()


def map_in_order(function: Callable[[_T], _R], items: Iterable[_T], workers: int) -> Iterator[_R]:
    """Yield `function` of each item, in order, on as many threads as there are workers.

    Items are taken in the caller's thread, one more than threads work on.
    """
    if workers <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(workers) as pool:
        pending: deque[Future[_R]] = deque()
        try:
            for item in items:
                pending.append(_submit(pool, function, item))
                if len(pending) > workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for task in pending:
                task.cancel()


def merge_streams(
    streams: Sequence[Callable[[], Iterable[_T]]],
    workers: int,
    buffered: int,
    costs: Sequence[int] | None = None,
    cost_max: int = 0,
) -> Iterator[_T]:
    """Yield the items of all streams, in no promised order across streams.

    At most `workers` streams are open at a time, each started in its turn, and at most
    `buffered` items wait for the consumer, so memory follows the streams in work and not
    their number. Where streams differ much in size, `costs` has a number for each stream: a stream
    then waits until the costs of the open streams and its own cost fit `cost_max`, or no stream is
    open. An exception in a stream ends the iteration and is raised here. Closing the iterator stops
    the workers.
    """
    if len(streams) <= 1 or workers <= 1:
        for stream in streams:
            yield from stream()
        return

    ready: queue.Queue[tuple[str, object]] = queue.Queue(buffered)
    turns = _Turns(streams, costs or [0] * len(streams), cost_max)

    def put(kind: str, value: object) -> bool:
        while not turns.are_over:
            try:
                ready.put((kind, value), timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            while (turn := turns.begin()) is not None:
                stream, cost = turn
                for item in stream():
                    if not put("item", item):
                        return
                turns.end(cost)
            put("done", None)
        except BaseException as error:  # handed to the consumer, whatever it is
            put("error", error)

    threads = [
        threading.Thread(target=work, name=f"bucketfmt-read-{i}", daemon=True)
        for i in range(min(workers, len(streams)))
    ]
    for thread in threads:
        thread.start()
    try:
        running = len(threads)
        while running:
            kind, value = ready.get()
            if kind == "item":
                yield value  # type: ignore[misc]
            elif kind == "error":
                raise value  # type: ignore[misc]
            else:
                running -= 1
    finally:
        turns.stop()
        for thread in threads:
            thread.join()


class _Turns(Generic[_T]):
    """Hands out streams in order, each as soon as its cost fits."""

    def __init__(
        self, streams: Sequence[Callable[[], Iterable[_T]]], costs: Sequence[int], cost_max: int
    ) -> None:
        self._waiting = deque(zip(streams, costs, strict=True))
        self._cost_max = cost_max
        self._open: list[int] = []
        self._changed = threading.Condition()
        self.are_over = False

    def begin(self) -> tuple[Callable[[], Iterable[_T]], int] | None:
        """Wait for room; return the next stream and its cost, or None after the last stream."""
        with self._changed:
            self._changed.wait_for(self._has_room)
            if self.are_over or not self._waiting:
                return None
            turn = self._waiting.popleft()
            self._open.append(turn[1])
            return turn

    def end(self, cost: int) -> None:
        """Release the cost of a stream that has ended."""
        with self._changed:
            self._open.remove(cost)
            self._changed.notify_all()

    def stop(self) -> None:
        """Hand out no more streams."""
        with self._changed:
            self.are_over = True
            self._changed.notify_all()

    def _has_room(self) -> bool:
        if self.are_over or not self._waiting or not self._open:
            return True
        return sum(self._open) + self._waiting[0][1] <= self._cost_max
