"""How far a run is: one line that is written over, or, in a file, a line a minute."""

from __future__ import annotations

import sys
import time

__all__ = ["Progress"]

_LOGGED_EACH_S = 60


class Progress:
    """The progress of one run, on standard error."""

    def __init__(self) -> None:
        self._next = 0.0

    def tell(self, text: str) -> None:
        """Say how far the run is."""
        if sys.stderr.isatty():
            print(text, end="\r", file=sys.stderr, flush=True)
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + _LOGGED_EACH_S
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line as it is; what follows begins below."""
        if sys.stderr.isatty():
            print(file=sys.stderr)
