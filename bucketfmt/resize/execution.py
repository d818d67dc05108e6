"""How the steps of a change of buckets are executed: here in threads, or by any engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from bucketfmt.resize.rewrite_task import RewriteTask, size_of
from bucketfmt.write.files.in_threads import InThreads

__all__ = ["Execute", "execute_in"]

Execute = Callable[[RewriteTask, Sequence[bytes]], Iterable[list[bytes]]]
"""Executes steps by a task, and returns the receipts of each step in the same order."""


def execute_in(threads: InThreads) -> Execute:
    """Return what executes steps on the threads of this process."""

    def execute(task: RewriteTask, payloads: Sequence[bytes]) -> Iterator[list[bytes]]:
        sizes = [size_of(payload) for payload in payloads]
        return threads.write(task.rewrite, task.markers, payloads, sizes)

    return execute
