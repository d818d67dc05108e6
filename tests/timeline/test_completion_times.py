"""When archived instants completed, read as far back as somebody asks."""

from __future__ import annotations

from bucketfmt.format.names.instants import State
from bucketfmt.timeline.completion_times import CompletionTimes
from bucketfmt.timeline.timeline import Instant, Timeline

ARCHIVED = [
    Instant(f"{n:03}", "commit", State.COMPLETED, f"{n:03}c", f"file_{n // 10}") for n in range(90)
]
ACTIVE = Timeline((Instant("090", "commit", State.COMPLETED, "090c", "090.commit"),), 2)


class History:
    """Archived instants, and the ranges that were asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def __call__(self, *, since: str, until: str) -> tuple[Instant, ...]:
        self.asked.append((since, until))
        return tuple(i for i in ARCHIVED if since <= i.requested_time <= until)


def test_history_is_read_as_far_back_as_somebody_asks_and_once() -> None:
    history = History()
    times = CompletionTimes(ACTIVE, history)
    assert times.since("070").completion_time("070") == "070c"
    assert times.since("080").completion_time("080") == "080c"
    assert times.since("080").completion_time("060") is None
    assert history.asked == [("070", "~")]
    assert times.since("065").history == tuple(ARCHIVED[65:])
    assert history.asked[1:] == [("065", "070")]
    assert times.since("").history == tuple(ARCHIVED)
    assert times.since("").instants == ACTIVE.instants
    assert history.asked[2:] == [("", "065")]


def test_who_asks_ever_further_back_has_all_read() -> None:
    history = History()
    times = CompletionTimes(ACTIVE, history)
    for instant in ARCHIVED[::-1]:
        time = instant.requested_time
        assert times.since(time).completion_time(time) == instant.completion_time
    assert [since for since, _ in history.asked] == [f"{n:03}" for n in range(89, 81, -1)] + [""]
    assert times.since("").history == tuple(ARCHIVED)


def test_what_is_archived_is_completed_though_an_earlier_instant_is_active() -> None:
    history = History()
    states = {"005": State.COMPLETED, "085": State.INFLIGHT, "090": State.COMPLETED}
    instants = (Instant(time, "commit", state, None, time) for time, state in states.items())
    times = CompletionTimes(Timeline(tuple(instants), 2), history)
    assert [times.is_completed(time) for time in ("003", "005", "085", "090")] == [1, 1, 0, 1]
    assert history.asked == []
    assert times.is_completed("070")
    assert not times.is_completed("0705")
    assert history.asked == [("070", "~")]
