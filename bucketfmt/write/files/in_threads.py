"""The files of one instant, announced together and written on the threads of this process. I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bucketfmt.format.names.names import MarkerName, format_write_token
from bucketfmt.progress import ProgressCallback, Steps
from bucketfmt.storage.streams import map_in_order, task_count
from bucketfmt.timeline.machine import Machine
from bucketfmt.write.files.announcer import Announcer

__all__ = ["InThreads"]

_Receipts = TypeVar("_Receipts")


@dataclass(frozen=True)
class InThreads:
    """Does the tasks of a service or of a change of buckets.

    Attributes:
        machine: Draws the number of an attempt, and says on how many threads.
        announcer: Of the files of the instant, in all rounds: Hudi looks for markers of one kind.
        doing: What is done, for `progress`: for example `compacting`.
        progress: Called as tasks are done.
    """

    machine: Machine
    announcer: Announcer
    doing: str
    progress: ProgressCallback | None = None

    def write(
        self,
        task: Callable[[bytes, str, Announcer], _Receipts],
        markers: Callable[[bytes, str], Iterable[MarkerName]],
        payloads: Sequence[bytes],
        sizes: Sequence[int],
    ) -> Iterator[_Receipts]:
        """Yield what a task returns for each payload, in order.

        Args:
            task: Writes files, given a payload, a write token and the announcer.
            markers: Returns what announces the files, given a payload and its write token.
            payloads: What to write, for `task`; opaque.
            sizes: The bytes that are read for each.
        """
        attempt = self.machine.new_attempt()
        steps = Steps(self.progress, self.doing, len(payloads))
        tokened = [
            (payload, format_write_token(number, 0, attempt))
            for number, payload in enumerate(payloads)
        ]

        def write(given: tuple[bytes, str]) -> _Receipts:
            receipts = task(*given, self.announcer)
            steps.step()
            return receipts

        workers = self.machine.processors or task_count(self.announcer.store, sizes)
        with self.announcer.together([marker for given in tokened for marker in markers(*given)]):
            yield from map_in_order(write, tokened, workers)
