from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError
from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.timeline.clock import InstantClock, plan_instant_time

NOW = datetime(2024, 3, 10, 12, 0, 0, 250_999)
TEXT = "20240310120000250"
EPOCH = 1710072000.2509  # the same, in UTC


def clock_at(*seconds: float, slept: list[float] | None = None, skew: float = 0) -> InstantClock:
    readings = iter(seconds)
    last = [seconds[-1]]

    def now() -> float:
        return next(readings, last[0])

    sleep: Callable[[float], None] = (slept if slept is not None else []).append
    return InstantClock("UTC", now=now, sleep=sleep, clock_skew_s=skew)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ((), TEXT),
        (("", INIT_INSTANT), TEXT),
        (("20240310120000249",), TEXT),
        (("20240310120000250",), "20240310120000251"),
        (("20240310120000300", "20240310120000299", "20230101000000000"), "20240310120000301"),
        (("20241231235959999",), "20250101000000000"),
        # of seconds, as old writers gave them: the next second
        (("20240310120000",), TEXT),
        (("20240310120001",), "20240310120002000"),
        (("20240310120001", "20240310120001500"), "20240310120001501"),
        # with the digits a metadata table of version 6 adds
        (("20240310120000250001",), "20240310120000251"),
        (("20240310120000999999",), "20240310120001000"),
    ],
)
def test_a_time_is_after_all_known_and_not_before_now(
    known: tuple[str, ...], expected: str
) -> None:
    assert plan_instant_time(NOW, known) == expected


@pytest.mark.parametrize("latest", ["99991231235959999", "99999999999999999", "30000000000000000"])
def test_a_time_that_nothing_can_follow(latest: str) -> None:
    with pytest.raises(CorruptError, match="no time can follow"):
        plan_instant_time(NOW, (TEXT, latest))


@pytest.mark.rule("TL-25")
@given(
    st.datetimes(datetime(1970, 1, 1), datetime(9000, 1, 1)),
    st.lists(st.from_regex(r"[0-9]{1,20}", fullmatch=True)),
)
def test_whatever_is_known_the_time_is_later_and_a_date(now: datetime, known: list[str]) -> None:
    try:
        taken = plan_instant_time(now, known)
    except CorruptError:
        assert known
        return
    assert all(taken > time for time in known)
    assert len(taken) == 17
    assert datetime.strptime(taken, "%Y%m%d%H%M%S%f")


def test_a_clock_tells_the_time_of_its_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        local = InstantClock("LOCAL", now=lambda: EPOCH, clock_skew_s=0)
        assert local.next_time(()) == "20240310210000250"
        assert clock_at(EPOCH).next_time(()) == TEXT
    finally:
        monkeypatch.undo()
        time.tzset()


def test_times_increase_though_the_clock_stands_or_goes_back() -> None:
    clock = clock_at(EPOCH, EPOCH, EPOCH - 3600, EPOCH + 0.001, EPOCH + 5)
    assert [clock.next_time(()) for _ in range(5)] == [
        "20240310120000250",
        "20240310120000251",
        "20240310120000252",
        "20240310120000253",
        "20240310120005250",
    ]


def test_when_the_clocks_go_back_in_autumn_times_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        readings = iter((1729990799.9, 1729990800.0))  # 02:59:59.9 CEST, then 02:00 CET
        clock = InstantClock("LOCAL", now=lambda: next(readings), clock_skew_s=0)
        first = clock.next_time(())
        assert first == "20241027025959900"
        assert clock.next_time(()) == "20241027025959901"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_clock_waits_for_those_that_are_behind() -> None:
    slept: list[float] = []
    clock = clock_at(EPOCH, slept=slept, skew=0.2)
    assert clock.next_time(("20240310120001000",)) == "20240310120001001"
    assert slept == [0.2]
    assert clock_at(EPOCH, slept=slept).next_time(()) == TEXT
    assert slept == [0.2]


def test_threads_never_get_the_same_time() -> None:
    clock = clock_at(EPOCH)
    with ThreadPoolExecutor(8) as pool:
        times = list(pool.map(lambda _: clock.next_time(()), range(400)))
    assert len(set(times)) == 400
    assert max(times) == "20240310120000649"


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="neither LOCAL nor UTC"):
        InstantClock("CET")
    with pytest.raises(ValueError, match="negative"):
        InstantClock("UTC", clock_skew_s=-1)
