"""Progress of long operations, reported to a callback. No I/O of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Progress", "ProgressCallback", "Steps"]


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of one stage: `done` of `total` steps."""

    stage: str
    done: int
    total: int


ProgressCallback = Callable[[Progress], None]
"""Called by one thread at a time. An exception in the callback ends the operation, and nothing is
published."""


class Steps:
    """Counts the steps of a stage, taken by any thread."""

    def __init__(self, progress: ProgressCallback | None, stage: str, total: int) -> None:
        """Report that no step is done."""
        self._progress = progress
        self._stage = stage
        self._total = total
        self._guard = threading.Lock()
        self._done = 0
        self._tell()

    def step(self) -> None:
        """Report that one more step is done."""
        with self._guard:
            self._done += 1
            self._tell()

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(Progress(self._stage, self._done, self._total))
