"""Progress bars of long commands, on standard error if it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bucketfmt.progress import Progress, ProgressCallback

__all__ = ["shown_progress"]


@contextmanager
def shown_progress(beginning: str) -> Iterator[ProgressCallback | None]:
    """Show a bar for each stage, if standard error is a terminal; else yield None.

    Args:
        beginning: The label until the first stage begins.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415  (nothing is shown elsewhere)
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.progress import Progress as Bars  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Bars(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bars:
        tasks = {"": bars.add_task(beginning, total=None)}

        def show(progress: Progress) -> None:
            if "" in tasks:
                bars.remove_task(tasks.pop(""))
            total = progress.total or None
            if progress.stage not in tasks:
                tasks[progress.stage] = bars.add_task(progress.stage, total=total)
            bars.update(tasks[progress.stage], completed=progress.done, total=total)

        yield show
