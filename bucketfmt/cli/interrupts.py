"""Ctrl-C, and the signals by which others end a command."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["INTERRUPTED", "ending_at_interrupt", "exit_code", "interrupted_by_signals"]

INTERRUPTED = 130  # what a shell tells of a process that SIGINT ended
_ENDING = (signal.SIGTERM, signal.SIGHUP)

_received: list[int] = []


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP interrupt the block as Ctrl-C does.

    `timeout`, systemd and Kubernetes end a process by SIGTERM, a terminal that is closed by SIGHUP.
    A write that died by them would hold up the next one until its lease ends, and would stay
    pending until its heartbeat is old. A signal that is ignored (`nohup`) stays so.
    """
    _received.clear()
    ours = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def exit_code() -> int:
    """Return what a shell tells of a process that was ended by the signal that came first."""
    return 128 + _received[0] if _received else INTERRUPTED


def _interrupt(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    raise KeyboardInterrupt


@contextmanager
def ending_at_interrupt() -> Iterator[None]:
    """Let what interrupts a command end the process at once, with one line and no traceback.

    For imports, which change nothing outside of the process. KeyboardInterrupt is unfit there:
    Python holds the locks of imports by weak references, and an exception in the callback of such
    a reference is printed with its traceback and then lost. A signal that is ignored, or is the
    business of whoever runs this function, stays so.
    """
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, *_ENDING)}
    ours = [n for n, now in handlers.items() if now in (signal.default_int_handler, _interrupt)]
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, handlers[number])


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"bucketfmt: stopped\n")
    os._exit(128 + number)
