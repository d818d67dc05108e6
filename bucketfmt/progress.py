"""How far something long is, told to whoever shows it. No I/O of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Progress", "ProgressCallback", "Steps"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is: `done` of `total` things of a stage."""

    stage: str
    done: int
    total: int


ProgressCallback = Callable[[Progress], None]
"""Called by one thread at a time. What it raises ends the work: nothing is published then."""


class Steps:
    """Counts the steps of a stage, taken by any thread."""

    def __init__(self, progress: ProgressCallback | None, stage: str, total: int) -> None:
        """Tell that none is done yet."""
        self._progress = progress
        self._stage = stage
        self._total = total
        self._guard = threading.Lock()
        self._done = 0
        self._tell()

    def step(self) -> None:
        """Tell that one more is done."""
        with self._guard:
            self._done += 1
            self._tell()

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(Progress(self._stage, self._done, self._total))
