"""Many producers, one consumer, bounded memory: how file slices are read side by side."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["map_in_threads", "merge_streams", "worker_count"]

_T = TypeVar("_T")
_R = TypeVar("_R")


def worker_count() -> int:
    """Threads to read with: the processors this process may use, 8 at most."""
    if hasattr(os, "sched_getaffinity"):
        return min(8, max(1, len(os.sched_getaffinity(0))))
    return min(8, os.cpu_count() or 1)


def map_in_threads(function: Callable[[_T], _R], items: Sequence[_T], workers: int) -> list[_R]:
    """Return `function` of each item, in order. For small I/O such as listings."""
    if len(items) <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(workers, len(items))) as pool:
        return list(pool.map(function, items))


def merge_streams(
    streams: Sequence[Callable[[], Iterable[_T]]], workers: int, buffered: int
) -> Iterator[_T]:
    """Yield the items of all streams, in no promised order across streams.

    At most `workers` streams are open at a time, each started in its turn, and at most
    `buffered` items wait for the consumer, so memory follows the streams in work and not
    their number. An exception in a stream ends the iteration and is raised here. Closing
    the iterator stops the workers.
    """
    if len(streams) <= 1 or workers <= 1:
        for stream in streams:
            yield from stream()
        return

    ready: queue.Queue[tuple[str, object]] = queue.Queue(buffered)
    turns = iter(streams)
    turn_lock = threading.Lock()
    stopped = threading.Event()

    def put(kind: str, value: object) -> bool:
        while not stopped.is_set():
            try:
                ready.put((kind, value), timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            while not stopped.is_set():
                with turn_lock:
                    stream = next(turns, None)
                if stream is None:
                    break
                for item in stream():
                    if not put("item", item):
                        return
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
        stopped.set()
        for thread in threads:
            thread.join()
