"""Ctrl-C while modules are imported."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["INTERRUPTED", "ending_at_interrupt"]

INTERRUPTED = 130  # what a shell tells of a process that SIGINT ended


@contextmanager
def ending_at_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the process at once, with one line and no traceback, within the block.

    For imports, which change nothing outside of the process. KeyboardInterrupt is unfit there:
    Python holds the locks of imports by weak references, and an exception in the callback of such
    a reference is printed with its traceback and then lost.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # Ctrl-C is ignored, or is the business of whoever runs this function
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"bucketfmt: stopped\n")
    os._exit(INTERRUPTED)
