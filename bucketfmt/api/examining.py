"""The file slices of a table examined by several processes, each of which opens the table."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import active_children, get_context

from bucketfmt.api.table import Table
from bucketfmt.choices import Depth
from bucketfmt.progress import Progress, ProgressCallback

__all__ = ["examine_in_processes"]


def examine_in_processes(
    open_table: Callable[[], Table],
    depth: Depth,
    processes: int,
    progress: ProgressCallback | None,
) -> list[bytes]:
    """Return what `Table.examine` returns for all shares, a process each.

    Processes are spawned, since a fork copies no threads. The slices of a process that was killed
    are missing, so that the check examines them itself.

    Args:
        open_table: Opens the table. Pickled.
        depth: As of the check.
        processes: How many.
        progress: Told how many are done.

    Raises:
        BucketfmtError: the table could not be opened or listed in a process.
    """
    examined: list[bytes] = []
    with (
        ProcessPoolExecutor(processes, get_context("spawn"), _end_on_interrupt) as pool,
        suppress(BrokenProcessPool),
        _ended_on_interrupt(),
    ):
        shares = [
            pool.submit(_examine, open_table, depth, number, processes)
            for number in range(processes)
        ]
        for done, share in enumerate(as_completed(shares), 1):
            examined += share.result()
            if progress is not None:
                progress(Progress("processes", done, processes))
    return examined


@contextmanager
def _ended_on_interrupt() -> Iterator[None]:
    """End the processes that the block starts where it is interrupted.

    A terminal interrupts them too. Whoever sends a signal to this process alone would wait for all
    that they have to examine.
    """
    others = {child.pid for child in active_children()}
    try:
        yield
    except KeyboardInterrupt:
        for child in active_children():
            if child.pid not in others:
                child.terminate()
        raise


def _examine(open_table: Callable[[], Table], depth: Depth, number: int, of: int) -> list[bytes]:
    return open_table().examine(depth, number, of)


def _end_on_interrupt() -> None:
    """Have Ctrl-C, which a terminal sends to all processes, end this one without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
