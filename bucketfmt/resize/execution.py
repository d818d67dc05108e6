"""How the steps of a change of buckets are executed: here in threads, or by any engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from bucketfmt.format.names.names import format_write_token
from bucketfmt.progress import ProgressCallback, Steps
from bucketfmt.resize.rewrite_task import RewriteTask, size_of
from bucketfmt.storage.streams import map_in_order, task_count
from bucketfmt.timeline.machine import Machine
from bucketfmt.write.files.announcer import Announcer

__all__ = ["Execute", "InThreads"]

Execute = Callable[[RewriteTask, Sequence[bytes]], Iterable[list[bytes]]]
"""Executes steps by a task, and returns the receipts of each step in the same order."""


@dataclass(frozen=True)
class InThreads:
    """Executes steps on the threads of this process.

    Attributes:
        machine: Draws the number of an attempt.
        doing: What is done, for `progress`: for example `rehashing`.
        progress: Called as steps are done.
    """

    machine: Machine
    doing: str
    progress: ProgressCallback | None = None

    def __call__(self, task: RewriteTask, payloads: Sequence[bytes]) -> Iterator[list[bytes]]:
        """Yield the receipts of each step, in order."""
        store, attempt = task.basis.store, self.machine.new_attempt()
        steps = Steps(self.progress, self.doing, len(payloads))
        announcer = Announcer(store, task.instant)
        tokened = [
            (payload, format_write_token(number, 0, attempt))
            for number, payload in enumerate(payloads)
        ]

        def rewrite(given: tuple[bytes, str]) -> list[bytes]:
            receipts = task.rewrite(*given, announcer)
            steps.step()
            return receipts

        workers = self.machine.processors or task_count(store, [*map(size_of, payloads)])
        with announcer.together([marker for given in tokened for marker in task.markers(*given)]):
            yield from map_in_order(rewrite, tokened, workers)
