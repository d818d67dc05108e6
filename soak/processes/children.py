"""Forked children that tell what they did, and that are stopped at any moment meanwhile."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

__all__ = ["Child", "hear", "start_child", "stop_in_turns"]


class Child(NamedTuple):
    """A child, and what it is heard by."""

    process: BaseProcess
    connection: Connection


def start_child(run: Callable[..., object], *arguments: object) -> Child:
    """Start a child that calls a function, whose last argument takes what the child tells."""
    context = multiprocessing.get_context("fork")
    connection, childs = context.Pipe(duplex=False)
    process = context.Process(target=run, args=(*arguments, childs))
    process.start()
    childs.close()
    return Child(process, connection)


def stop_in_turns(
    children: Sequence[Child],
    until: float,
    chance: random.Random,
    draw: Callable[[], tuple[float, float]],
) -> int:
    """Stop one child after another (SIGSTOP), while the others go on; return how often.

    Args:
        children: Of whom one is chosen each time.
        until: When to end, by the monotonic clock.
        chance: Chooses.
        draw: Returns for how many seconds to wait before, and how many the child stands still.
    """
    stops = 0
    while time.monotonic() < until:
        process = chance.choice(children).process
        after_s, how_long_s = draw()
        time.sleep(after_s)
        stops += 1
        if process.pid is None:
            continue
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(how_long_s)
            os.kill(process.pid, signal.SIGCONT)
    return stops


def hear(children: Sequence[Child]) -> list[Any]:
    """Return what each child tells at its end."""
    told = [child.connection.recv() for child in children]
    for child in children:
        child.process.join()
    return told
