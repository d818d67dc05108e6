"""Chooses a few cases of many: every value of every axis is in one, or every two values are.

The product of the axes of a test (table version, kind of table, what is done to it) grows with
each of them. Faults mostly need one value or two values that meet, so a covering choice finds
nearly all of them, and a seed that changes with the commit moves the choice about the product.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heapreplace
from itertools import combinations
from random import Random
from typing import TypeVar

__all__ = ["Case", "cover", "spread", "values_of"]

Case = TypeVar("Case", bound=Sequence[Hashable])
Values = frozenset[tuple[int, Hashable]]


def cover(cases: Sequence[Case], seed: str, strength: int = 2) -> list[Case]:
    """Return cases that together have what all of them have, in the order given.

    Args:
        cases: All that are possible; each has one value for each axis.
        seed: Another seed chooses other cases, where the choice is free.
        strength: How many values are taken together: with 2, every two values that some case has
            are in a chosen case; with 1, every value is; with 0, one case is chosen.
    """
    if strength == 0:
        return [Random(seed).choice(cases)] if cases else []  # noqa: S311  (a choice, no secret)
    order = list(range(len(cases)))
    Random(seed).shuffle(order)  # noqa: S311  (a choice, no secret)
    wanted = _values_of_each(tuple(cases), strength)
    missing = frozenset[Values]().union(*wanted)
    # What a case adds only gets less, so whoever is first after another look adds the most.
    chosen, waiting = [], [(-len(wanted[at]), place, at) for place, at in enumerate(order)]
    heapify(waiting)
    while missing:
        promised, place, best = waiting[0]
        added = len(wanted[best] & missing)
        if added < -promised:
            heapreplace(waiting, (-added, place, best))
            continue
        heappop(waiting)
        missing -= wanted[best]
        chosen.append(best)
    return [cases[at] for at in sorted(chosen)]


def spread(number: int, most: int | None, seed: str) -> range:
    """Return at most so many of the numbers from 1 on, at equal distances; all if None.

    Args:
        number: The last number.
        most: How many to return at most.
        seed: Another seed begins with another number.
    """
    stride = 1 if most is None else max(1, -(-number // most))
    first = 1 + Random(seed).randrange(stride)  # noqa: S311  (a choice, no secret)
    return range(first, number + 1, stride)


@lru_cache(maxsize=8)
def _values_of_each(
    cases: tuple[Sequence[Hashable], ...], strength: int
) -> list[frozenset[Values]]:
    return [values_of(case, strength) for case in cases]


def values_of(case: Sequence[Hashable], strength: int = 2) -> frozenset[Values]:
    """Return the values of a case, that many together, each with the number of its axis."""
    return frozenset(map(frozenset, combinations(enumerate(case), min(strength, len(case)))))
