"""Tables of every kind in turn, for some minutes, on which real processes work."""

from __future__ import annotations

import random
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any, NamedTuple, TypeVar

import bucketfmt as bf
from bucketfmt.write.metadata import metadata_services
from soak.progress import Progress

__all__ = ["Kind", "check_clean", "play_rounds"]

_Kind = TypeVar("_Kind", bound=tuple[Any, ...])


class Kind(NamedTuple):
    """A kind of table; its index as `bucketfmt.parse_index` reads it."""

    version: int
    table_type: Any
    index: str


def check_clean(table: bf.Table) -> None:
    """The full check finds nothing."""
    findings = [each for each in table.check(depth="full").findings if each.severity != "info"]
    if findings:
        raise AssertionError(f"{findings}")


def play_rounds(
    kinds: Sequence[_Kind],
    play: Callable[[str, _Kind, str], tuple[Counter[str], str | None]],
    compact_after: Sequence[int],
    seed: int,
    minutes: float,
) -> list[dict[str, str | int]]:
    """Play on tables of every kind, and print what is wrong.

    Args:
        kinds: Of tables: (version, type, ...).
        play: Takes a folder, a kind and a seed; returns figures, and what is wrong, in words.
        compact_after: Numbers of delta commits, of which each round takes one: how often the
            metadata table is compacted decides where its records are.
        seed: Of the first round.
        minutes: Begin no table after this.

    Returns:
        The sums of the figures for each kind, with the number of tables and of bad ones.
    """
    until = time.monotonic() + minutes * 60
    sums = {kind: Counter[str]() for kind in kinds}
    warnings.simplefilter("ignore")
    progress = Progress()
    for number, kind in enumerate(cycle(kinds)):
        if time.monotonic() > until:
            break
        own = f"{seed + number // len(kinds)}"
        metadata_services._DELTA_COMMITS = random.Random(own).choice(compact_after)  # noqa: S311
        with tempfile.TemporaryDirectory() as folder:
            figures, wrong = play(f"{folder}/t", kind, own)
        sums[kind].update(tables=1)
        sums[kind].update(figures)
        sums[kind].update(bad=int(wrong is not None))
        if wrong is not None:
            print(f"\n{wrong}", flush=True)
        progress.tell(f"{number + 1} tables")
    progress.end()
    return [
        {"table": f"version {', '.join(map(str, kind))}", **total}
        for kind, total in sums.items()
        if total
    ]
