"""Several ways of doing one thing, timed turn about in one process."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

__all__ = [
    "ABSOLUTE_CAUSE",
    "UNKNOWN_CAUSE",
    "Figure",
    "Peer",
    "Result",
    "Timing",
    "cpu_ratio",
    "cpu_seconds",
    "race",
    "ratio",
]

UNKNOWN_CAUSE = "Why is not known yet."
ABSOLUTE_CAUSE = "The bound is absolute, and depends on the machine."


@dataclass(frozen=True)
class Peer:
    """One way of doing the thing."""

    name: str
    run: Callable[[], Any]


@dataclass(frozen=True)
class Timing:
    """Seconds of each repetition; CPU is user and system time of all threads.

    `peaks` are bytes, where memory was measured.
    """

    peer: str
    walls: list[float]
    cpus: list[float]
    peaks: list[int] = field(default_factory=list)

    @property
    def wall(self) -> float:
        return statistics.median(self.walls)

    @property
    def cpu(self) -> float:
        return statistics.median(self.cpus)


@dataclass(frozen=True)
class Figure:
    """A target: the measured value and its bound.

    `cause` is printed where it is missed.
    """

    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    cause: str = UNKNOWN_CAUSE

    @property
    def is_met(self) -> bool:
        return (self.at_most is None or self.value <= self.at_most) and (
            self.at_least is None or self.value >= self.at_least
        )


@dataclass(frozen=True)
class Result:
    """One table of peers, and the targets for it.

    `amount` of `unit` is what one repetition does; `notes` are sentences.
    """

    title: str
    timings: list[Timing] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    amount: float | None = None
    unit: str = ""
    notes: list[str] = field(default_factory=list)


def race(
    peers: Sequence[Peer], repetitions: int, fingerprint: Callable[[Any], object]
) -> list[Timing]:
    """Return how long each peer takes, in rounds in which each has its turn.

    A round before is not timed: in it every peer's result must have the same fingerprint. Rounds
    differ in their order, by chance but the same every time: what ran before leaves memory that the
    next peer uses again, or has to ask the system for, which is a tenth of some reads and more.
    """
    found = {peer.name: fingerprint(peer.run()) for peer in peers}
    if len(set(found.values())) != 1:
        raise SystemExit(f"the peers disagree: {found}")
    timings = {peer.name: Timing(peer.name, [], []) for peer in peers}
    random = Random(0)
    for _ in range(repetitions):
        for peer in random.sample(peers, len(peers)):
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            result = peer.run()
            timings[peer.name].walls.append(time.perf_counter() - wall)
            timings[peer.name].cpus.append(time.process_time() - cpu)
            del result
    return list(timings.values())


def cpu_seconds(pid: int | None = None, *, of_children: bool = False) -> float:
    """Return the user and system time of a process and of all it started, ended ones too.

    Args:
        pid: The process; None for this one.
        of_children: Leave the process itself out.
    """
    import psutil  # not every environment of a job has it

    own = psutil.Process(pid)
    total = 0.0
    for process in (*([] if of_children else [own]), *own.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def ratio(timings: Sequence[Timing], peer: str, to: str) -> float:
    """Return the median, over the rounds, of one peer's wall time by another's.

    Within a round both had the same machine, whatever else ran on it.
    """
    walls = {timing.peer: timing.walls for timing in timings}
    return statistics.median(a / b for a, b in zip(walls[peer], walls[to], strict=True))


def cpu_ratio(timings: Sequence[Timing], peer: str, to: str) -> float:
    """Return the median, over the rounds, of one peer's CPU time by another's."""
    cpus = {timing.peer: timing.cpus for timing in timings}
    return statistics.median(a / b for a, b in zip(cpus[peer], cpus[to], strict=True))
