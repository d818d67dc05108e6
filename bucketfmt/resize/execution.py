"""How the steps of a change of buckets are executed: here in threads, or by any engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from bucketfmt.format.names.names import format_write_token
from bucketfmt.progress import ProgressCallback, Steps
from bucketfmt.resize.rewrite_task import RewriteTask
from bucketfmt.storage.streams import map_in_order, worker_count
from bucketfmt.timeline.machine import Machine

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
        attempt = self.machine.new_attempt()
        steps = Steps(self.progress, self.doing, len(payloads))

        def rewrite(numbered: tuple[int, bytes]) -> list[bytes]:
            number, payload = numbered
            receipts = task.rewrite(payload, format_write_token(number, 0, attempt))
            steps.step()
            return receipts

        workers = self.machine.processors or worker_count()
        return map_in_order(rewrite, enumerate(payloads), workers)
