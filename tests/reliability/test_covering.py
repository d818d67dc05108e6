"""Few cases of many have all their values, or every two of their values, and others by the seed."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from soak.covering import cover, spread, values_of
from soak.works.interleavings import MEETINGS

CASES = list(product("abc", range(4), "xyz", (True, False)))


@given(
    cases=st.lists(st.sampled_from(CASES), unique=True),
    seed=st.text(max_size=3),
    strength=st.sampled_from([0, 1, 2, 3]),
)
def test_nothing_that_meets_in_some_case_is_left_out(
    cases: list[tuple[object, ...]], seed: str, strength: int
) -> None:
    chosen = cover(cases, seed, strength)
    assert [case for case in cases if case in chosen] == chosen, "in their order, each once"
    met, chosen_met = (
        {values for case in some for values in values_of(case, strength)}
        for some in (cases, chosen)
    )
    assert chosen_met == met


def test_a_product_is_covered_by_few() -> None:
    """As many at least as the two longest axes have values: 4 x 3, and 4."""
    assert 12 <= len(cover(CASES, "0")) <= 15
    assert len(cover(CASES, "0", strength=1)) == 4
    assert len(cover(CASES, "0", strength=0)) == 1
    assert len(cover(CASES, "0", strength=4)) == len(CASES) == 72


def test_a_seed_chooses_the_same_each_time_and_seeds_choose_the_whole_product() -> None:
    chosen = [cover(CASES, str(seed)) for seed in range(60)]
    assert chosen[0] == cover(CASES, "0") != chosen[1]
    assert {case for some in chosen for case in some} == set(CASES)


def test_values_of_several_axes_are_told_apart() -> None:
    cases = [(1, 2), (2, 1), (1, 1)]
    assert cover(cases, "0") == cases
    assert values_of((1, 1)) == {frozenset({(0, 1), (1, 1)})}


def test_numbers_are_spread_over_all_and_seeds_take_every_number() -> None:
    assert spread(7, None, "0") == range(1, 8)
    assert spread(7, 7, "0") == spread(7, 9, "0") == range(1, 8)
    assert spread(0, 3, "0") == range(1, 1)
    some = [spread(100, 24, str(seed)) for seed in range(40)]
    assert {len(numbers) for numbers in some} == {20}
    assert {number for numbers in some for number in numbers} == set(range(1, 101))


def test_meetings_are_thousands() -> None:
    longest = max(len(set(values)) for values in zip(*MEETINGS, strict=True))
    assert longest <= len(cover(MEETINGS, "0", strength=1)) < 2 * longest < 2_000 < len(MEETINGS)
