"""Instant times that only go forward, whatever the machine's clock does.

Reads the clock it is given and sleeps; touches no store. Source:
`HoodieInstantTimeGenerator`, `SkewAdjustingTimeGenerator`.

Hudi trusts its clocks: a new time is the time of the clock, and later than the last time of the
same process. Here a new time is also later than every time that the table knows. A clock that
stands still, was set back or is in another zone cannot put a commit into the past.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone

from bucketfmt.errors import CorruptError
from bucketfmt.format.names.instants import format_instant_time, parse_instant_time
from bucketfmt.process import new_mutex

__all__ = ["DEFAULT_CLOCK_SKEW_S", "InstantClock", "plan_instant_time"]

DEFAULT_CLOCK_SKEW_S = 0.2
"""How far the clocks of writers on several machines may differ; Hudi's default."""

_TICK = timedelta(milliseconds=1)


class InstantClock:
    """Hands out instant times in a table's time zone. Safe to call from many threads.

    Times of one clock strictly increase. Times of several writers strictly increase if each writer
    holds the table lock from the listing of the timeline until its file is on the timeline.
    """

    def __init__(
        self,
        table_timezone: str,
        *,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        clock_skew_s: float = DEFAULT_CLOCK_SKEW_S,
    ) -> None:
        """Set up a clock.

        Args:
            table_timezone: `TableConfig.timezone`, "UTC" or "LOCAL".
            now: Returns seconds since the epoch.
            sleep: Waits for that many seconds.
            clock_skew_s: How long to wait after taking a time, so that a writer elsewhere
                whose clock is behind by less takes a later one. 0 where all writers share
                one clock.

        Raises:
            ValueError: there is no such time zone, or the skew is negative.
        """
        if table_timezone not in ("UTC", "LOCAL"):
            raise ValueError(f"table time zone {table_timezone!r} is neither LOCAL nor UTC")
        if clock_skew_s < 0:
            raise ValueError("a clock skew must not be negative")
        self._zone = timezone.utc if table_timezone == "UTC" else None  # None: the system's
        self._now = now
        self._sleep = sleep
        self._clock_skew_s = clock_skew_s
        self._last = ""
        self._guard = new_mutex()

    def next_time(self, known: Iterable[str]) -> str:
        """Return a new time, after `known`, after the last one and not before the clock's.

        Args:
            known: Requested and completion times, in any order.

        Raises:
            CorruptError: no time can be later than the known times.
        """
        with self._guard:
            self._last = plan_instant_time(self._date(), (*known, self._last))
            taken = self._last
        if self._clock_skew_s:
            self._sleep(self._clock_skew_s)
        return taken

    def pass_over(self, time: str) -> None:
        """Have all times that are given from now on be later than this one."""
        with self._guard:
            self._last = max(self._last, time)

    def is_behind(self, time: str) -> bool:
        """Return whether the clock is yet to come to this time, which then followed a known one."""
        return format_instant_time(self._date()) < time

    def _date(self) -> datetime:
        return datetime.fromtimestamp(self._now(), self._zone).replace(tzinfo=None)


def plan_instant_time(now: datetime, known: Iterable[str]) -> str:
    """Return the time of a new instant: `now`, or a millisecond after the latest known.

    Times compare as text. A time in seconds (14 digits) counts as the end of its second.

    Args:
        now: Without time zone, in the table's.
        known: Requested and completion times in any order; "" is none.

    Raises:
        CorruptError: the latest time is not a date, or is the last possible date.
    """
    latest = max(known, default="")
    taken = format_instant_time(now)
    if taken > latest:
        return taken
    try:
        following = format_instant_time(parse_instant_time(latest) + _TICK)
    except (CorruptError, OverflowError):
        following = ""
    if following <= latest:
        raise CorruptError(
            f"no time can follow {latest[:40]!r}, the latest time on the timeline; "
            "roll that instant back with Hudi, or remove its file if no writer made it"
        )
    return following
