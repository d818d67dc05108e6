"""Bars of buckets, sizes of files, growth: paths of SVG and their texts. Pure.

Paths are drawn in units of their own and stretched to the place that a page has for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bucketfmt.resize.growth import SizeAt
from bucketfmt.texts import instant_text, seconds_of

__all__ = ["Bars", "Curve", "SizeBin", "count_sizes", "draw_bars", "draw_curve"]

_BARS_MAX = 256
_BINS_MAX = 12
_UNITS = 1000
_HIGH = 100


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar for each bucket of a partition, or for as many neighbours as there is no room for.

    Attributes:
        number: Of bars.
        each: How many buckets a bar stands for: it shows the largest of them.
        base: The path of base files, 100 units high, with a bar for each unit of width.
        logs: The path of log files, above.
        largest: Bytes of the highest bar.
    """

    number: int
    each: int
    base: str
    logs: str
    largest: int


def draw_bars(base: NDArray[np.int64], logs: NDArray[np.int64]) -> Bars:
    """Return the bars of the buckets of one partition, whose largest has the full height."""
    total = base + logs
    each = -(-len(total) // _BARS_MAX) if len(total) else 1
    if each > 1:
        starts = np.arange(0, len(total), each)
        ends = np.append(starts[1:], len(total))
        highest = [at + int(np.argmax(total[at:end])) for at, end in zip(starts, ends, strict=True)]
        base, logs, total = base[highest], logs[highest], total[highest]
    largest = int(total.max(initial=0))
    scale = _HIGH / max(largest, 1)
    heights = np.where(total > 0, np.maximum(total * scale, 1), 0).round().astype(int)
    of_base = np.minimum(np.where(base > 0, np.maximum(base * scale, 1), 0).round(), heights)
    lower, upper = (_HIGH - of_base.astype(int)).tolist(), (_HIGH - heights).tolist()
    return Bars(
        number=len(upper),
        each=each,
        base="".join([f"M{x} {_HIGH}V{y}" for x, y in enumerate(lower) if y < _HIGH]),
        logs="".join(
            [
                f"M{x} {low}V{y}"
                for x, (low, y) in enumerate(zip(lower, upper, strict=True))
                if y < low
            ]
        ),
        largest=largest,
    )


@dataclass(frozen=True, slots=True)
class SizeBin:
    """How many files have a size in some range.

    Attributes:
        text: The range.
        base: Base files.
        logs: Log files.
        base_share: Of the highest number in all ranges, from 0 to 1.
        logs_share: Likewise.
    """

    text: str
    base: int
    logs: int
    base_share: float
    logs_share: float


def count_sizes(
    base: NDArray[np.int64], logs: NDArray[np.int64], as_text: Callable[[int], str]
) -> tuple[SizeBin, ...]:
    """Return how many files there are of each size; ranges are powers of two."""
    sizes = np.concatenate([base, logs])
    if not len(sizes):
        return ()
    powers = [np.log2(np.maximum(each, 1)).astype(int) for each in (base, logs)]
    low = min(int(each.min()) for each in powers if len(each))
    high = max(int(each.max()) for each in powers if len(each))
    step = -(-(high - low + 1) // _BINS_MAX)
    number = (high - low) // step + 1
    counts = [np.bincount((each - low) // step, minlength=number).tolist() for each in powers]
    most = max(max(each) for each in counts)
    return tuple(
        SizeBin(
            f"{as_text(1 << (low + at * step))} to {as_text(1 << (low + (at + 1) * step))}",
            in_base,
            in_logs,
            in_base / most,
            in_logs / most,
        )
        for at, (in_base, in_logs) in enumerate(zip(*counts, strict=True))
    )


@dataclass(frozen=True, slots=True)
class Curve:
    """The size of a table over time.

    Attributes:
        path: The curve, 1000 units wide and 100 high.
        begin: The time of the first commit.
        end: The time of the last.
        first: Bytes after the first commit.
        last: Bytes after the last.
        largest: Bytes at the top.
    """

    path: str
    begin: str
    end: str
    first: int
    last: int
    largest: int


def draw_curve(sizes: Sequence[SizeAt]) -> Curve | None:
    """Return the curve of a table's size; None where there are fewer than two moments."""
    timed = [(at, each) for each in sizes if (at := seconds_of(each.requested_time)) is not None]
    timed.sort(key=lambda pair: pair[0])
    if len(timed) < 2 or timed[0][0] == timed[-1][0]:
        return None
    begin, span = timed[0][0], timed[-1][0] - timed[0][0]
    largest = max(1, *(each.bytes for _, each in timed))
    parts: list[str] = []
    for at, each in timed:
        x, y = round((at - begin) / span * _UNITS), round(_HIGH - each.bytes / largest * _HIGH)
        parts.append(f"H{x}V{y}" if parts else f"M{x} {y}")
    (_, first), (_, last) = timed[0], timed[-1]
    return Curve(
        "".join(parts),
        instant_text(first.requested_time),
        instant_text(last.requested_time),
        first.bytes,
        last.bytes,
        largest,
    )
