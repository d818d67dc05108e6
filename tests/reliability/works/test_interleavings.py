"""Two at one table, one amid the other at each of its operations: a sample of all meetings.

Two processes, and two threads that share one `Table`. `python -m soak interleavings` has all meet.
"""

from __future__ import annotations

import pytest

import bucketfmt as bf
from soak.covering import cover
from soak.works.interleavings import FIRSTS, MEETINGS, SECONDS, Meeting, interleave
from soak.works.works import KINDS, rows
from tests.rotation import seed, thin

_WITH_METADATA = {str(kind) for kind in KINDS if kind.metadata}


def is_long(meeting: Meeting) -> bool:
    """Whether the first work asks so much of the store that the two meet in many ways."""
    return meeting.kind in _WITH_METADATA or meeting.first == "migrate"


def choose(seed: str) -> list[Meeting]:
    """Return the meetings of a run: a quarter of a sample of each kind, work and sort of writers.

    Another one is of those that take long.
    """
    covering = cover([one for one in MEETINGS if not is_long(one)], seed, strength=1)
    others = cover([one for one in MEETINGS if is_long(one)], seed, strength=0)
    return thin(covering, seed, 4) + others


SAMPLE = choose(seed())
WAYS = 14


def test_every_work_and_every_kind_of_table_is_met() -> None:
    met = {one for number in range(60) for one in choose(str(number))}
    kinds, firsts, seconds, writers = (set(names) for names in zip(*met, strict=True))
    assert kinds == {str(kind) for kind in KINDS}
    assert (firsts, seconds) == (set(FIRSTS), set(SECONDS))
    assert writers == {"processes", "threads", "stalled"}


@pytest.mark.parametrize("meeting", SAMPLE, ids=" | ".join)
def test_what_is_left_is_what_some_order_leaves(meeting: Meeting) -> None:
    tally = interleave(meeting, WAYS, seed())
    assert not tally.bad, tally.bad[0]
    assert 1 <= tally.states <= tally.ways <= WAYS


def test_what_is_not_safe_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write of what was read before, that does not say so."""

    def raise_all(table: bf.Table) -> object:
        found = table.scan().to_arrow().to_pylist()
        return table.upsert(rows(*((row["id"], row["v"] + 10, row["p"]) for row in found)))

    monkeypatch.setitem(FIRSTS, "upsert", raise_all)
    tally = interleave(Meeting("9-cow-simple", "upsert", "upsert"))
    assert any("no order of the two leaves" in text for text in tally.bad)
    assert SECONDS["upsert"] is not raise_all
