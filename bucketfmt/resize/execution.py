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
        announcer: Of the files of the instant, in all rounds: Hudi looks for markers of one kind.
        doing: What is done, for `progress`: for example `rehashing`.
        progress: Called as steps are done.
    """

    machine: Machine
    announcer: Announcer
    doing: str
    progress: ProgressCallback | None = None

    def __call__(self, task: RewriteTask, payloads: Sequence[bytes]) -> Iterator[list[bytes]]:
        """Yield the receipts of each step, in order."""
        attempt = self.machine.new_attempt()
        steps = Steps(self.progress, self.doing, len(payloads))
        tokened = [
            (payload, format_write_token(number, 0, attempt))
            for number, payload in enumerate(payloads)
        ]

        def rewrite(given: tuple[bytes, str]) -> list[bytes]:
            receipts = task.rewrite(*given, self.announcer)
            steps.step()
            return receipts

        sizes = [size_of(payload) for payload in payloads]
        workers = self.machine.processors or task_count(self.announcer.store, sizes)
        markers = [marker for given in tokened for marker in task.markers(*given)]
        with self.announcer.together(markers):
            yield from map_in_order(rewrite, tokened, workers)
