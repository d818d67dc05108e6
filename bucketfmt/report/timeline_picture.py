"""The timeline as a picture: a lane for each kind of action, a stroke for each instant. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from bucketfmt.texts import duration_text, instant_text, seconds_of

__all__ = ["Gap", "Lane", "TimelinePicture", "draw_timeline"]

_UNITS = 1000
_LANE = 10  # units of height
_LONG = 5
"""Times the median between two instants, above which nothing happened for long."""
_GAPS_MAX = 5
_GAP_INSTANTS_MIN = 4
_ORDER = (
    "commit",
    "deltacommit",
    "compaction",
    "logcompaction",
    "replacecommit",
    "clustering",
    "clean",
    "rollback",
    "restore",
    "savepoint",
    "indexing",
    "schemacommit",
)


@dataclass(frozen=True, slots=True)
class Lane:
    """The instants of one action.

    Attributes:
        action: As the timeline spells it.
        completed: How many.
        pending: How many.
        strokes: The path of completed instants; how long they took is a line to the right.
        open_strokes: The path of pending instants, whose lines go on to the end.
    """

    action: str
    completed: int
    pending: int
    strokes: str
    open_strokes: str


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without instants: where it is in the picture, and a sentence."""

    x: int
    width: int
    text: str


@dataclass(frozen=True)
class TimelinePicture:
    """Instants in the order of their requested times, 1000 units wide and 10 for each lane.

    Attributes:
        lanes: From top to bottom.
        gaps: The longest times without instants.
        pending: A sentence for each pending instant.
        begin: The first requested time.
        end: The last time.
        undated: How many instants have no date and are not shown.
    """

    lanes: tuple[Lane, ...]
    gaps: tuple[Gap, ...]
    pending: tuple[str, ...]
    begin: str
    end: str
    undated: int

    @property
    def height(self) -> int:
        """Units of all lanes."""
        return len(self.lanes) * _LANE


def draw_timeline(commits: Sequence[dict[str, Any]], made_at: str) -> TimelinePicture | None:
    """Return the picture of `inspect.commits()`; None without dated instants.

    Args:
        commits: The rows.
        made_at: When they were read, as an instant.
    """
    dated: list[tuple[float, float | None, dict[str, Any]]] = []
    for row in commits:
        begin = seconds_of(row["requested_time"])
        if begin is not None:
            dated.append((begin, seconds_of(row["completion_time"]), row))
    if not dated:
        return None
    dated.sort(key=lambda each: each[0])
    times = [begin for begin, _, _ in dated]
    first = times[0]
    last = max(times[-1], *(end for _, end, _ in dated if end is not None), first + 1)

    def place(time: float) -> int:
        return round((time - first) / (last - first) * _UNITS)

    by_action: dict[str, list[tuple[float, float | None, dict[str, Any]]]] = defaultdict(list)
    for each in dated:
        by_action[each[2]["action"]].append(each)
    rank = {action: number for number, action in enumerate(_ORDER)}
    lanes = []
    for number, action in enumerate(sorted(by_action, key=lambda a: (rank.get(a, 99), a))):
        strokes, open_strokes = [], []
        for begin, end, row in by_action[action]:
            x = place(begin)
            tick = f"M{x} {number * _LANE + 2}v{_LANE - 4}"
            line = f"M{x} {number * _LANE + _LANE // 2}H"
            if row["state"] != "COMPLETED":
                open_strokes.append(f"{tick}{line}{_UNITS}")
            else:
                stop = x if end is None else max(x, place(end))
                strokes.append(tick if stop == x else f"{tick}{line}{stop}")
        lanes.append(
            Lane(action, len(strokes), len(open_strokes), "".join(strokes), "".join(open_strokes))
        )
    now = seconds_of(made_at)
    return TimelinePicture(
        lanes=tuple(lanes),
        gaps=tuple(
            Gap(place(begin), max(1, place(end) - place(begin)), _gap_text(begin, end, dated))
            for begin, end in find_gaps(times)
        ),
        pending=tuple(
            _pending_text(row, begin, now) for begin, _, row in dated if row["state"] != "COMPLETED"
        ),
        begin=instant_text(dated[0][2]["requested_time"]),
        end=instant_text(max(_last_time(row) for _, _, row in dated)),
        undated=len(commits) - len(dated),
    )


def find_gaps(times: Sequence[float]) -> list[tuple[float, float]]:
    """Return the longest times without instants, in order.

    Args:
        times: Seconds, sorted.
    """
    if len(times) < _GAP_INSTANTS_MIN:
        return []
    usual = max(median(after - before for before, after in pairwise(times)), 1.0)
    long = [pair for pair in pairwise(times) if pair[1] - pair[0] > _LONG * usual]
    longest = sorted(long, key=lambda pair: pair[0] - pair[1])[:_GAPS_MAX]
    return sorted(longest)


def _gap_text(begin: float, end: float, dated: Sequence[tuple[float, Any, dict[str, Any]]]) -> str:
    texts = {time: instant_text(row["requested_time"]) for time, _, row in dated}
    return f"{duration_text(end - begin)} without an instant: {texts[begin]} to {texts[end]}"


def _pending_text(row: dict[str, Any], begin: float, now: float | None) -> str:
    since = "" if now is None or now < begin else f", {duration_text(now - begin)} ago"
    state = row["state"].lower()
    when = instant_text(row["requested_time"])
    return f"{row['action']} {row['requested_time']} is {state} since {when}{since}"


def _last_time(row: dict[str, Any]) -> str:
    requested, completed = str(row["requested_time"]), row["completion_time"]
    return requested if completed is None else max(requested, str(completed))
