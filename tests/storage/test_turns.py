"""Threads that compute in turns, while another one waits."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from bucketfmt.storage.streams import Turns


def counted(function: Callable[[int], int]) -> tuple[Callable[[int], int], list[int]]:
    """Return the function, and the numbers of calls that ran at a time, as they began."""
    guard, running, seen = threading.Lock(), [0], []

    def call(item: int) -> int:
        with guard:
            running[0] += 1
            seen.append(running[0])
        try:
            return function(item)
        finally:
            with guard:
                running[0] -= 1

    return call, seen


def test_results_are_in_order_and_no_more_than_the_turns_compute() -> None:
    call, seen = counted(lambda item: item * item)
    assert Turns(2).map(call, range(50)) == [item * item for item in range(50)]
    assert max(seen) <= 2


def test_who_waits_leaves_the_turn_to_another() -> None:
    turns = Turns(2)
    all_wait = threading.Barrier(3)  # two waited for each other, and the third had no turn

    def wait(item: int) -> int:
        with turns.left():
            all_wait.wait(timeout=20)
        return item

    assert turns.map(wait, range(3)) == [0, 1, 2]


def test_a_turn_is_taken_again_after_the_wait() -> None:
    turns = Turns(2)

    def compute(item: int) -> int:
        with turns.left():
            pass
        return after(item)

    after, seen = counted(lambda item: item)
    assert turns.map(compute, range(50)) == list(range(50))
    assert max(seen) <= 2


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_while_waiting_gives_the_turn_back(count: int) -> None:
    turns = Turns(count)

    def fail(item: int) -> int:
        with turns.left():
            if item == 0:
                raise OSError("the disk is full")
        return item

    with pytest.raises(OSError, match="the disk is full"):
        turns.map(fail, range(4))
    assert turns.map(lambda item: item, range(4)) == [0, 1, 2, 3]


def test_one_thread_computes_in_the_callers_thread() -> None:
    own = threading.get_ident()
    assert Turns(1).map(lambda _: threading.get_ident(), range(3)) == [own] * 3
