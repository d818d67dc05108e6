"""Two at one table, one amid the other at each of its operations: a sample on every version.

Two processes, and two threads that share one `Table`.
"""

from __future__ import annotations

import pytest

import bucketfmt as bf
from soak.interleavings import FIRSTS, MEETINGS, SECONDS, Meeting, interleave
from soak.works import rows

SAMPLE = [
    Meeting("6-cow-simple", "delete by filter", "upsert of others"),
    Meeting("6-mor-simple", "read and write", "roll back"),
    Meeting("8-cow-simple", "upsert", "clean"),
    Meeting("8-mor-simple", "read", "roll back"),
    Meeting("9-cow-simple", "read", "clean"),
    Meeting("9-mor-simple", "savepoint", "archive"),
    Meeting("9-mor-simple", "compact", "upsert"),
    Meeting("9-mor-simple", "schedule a compaction", "roll back"),
    Meeting("6-mor-simple", "upsert", "schedule a compaction"),
    Meeting("6-mor-simple", "upsert", "compact", "threads"),
    Meeting("8-cow-simple", "delete by filter", "upsert", "threads"),
    Meeting("9-mor-simple", "upsert", "archive", "threads"),
]


@pytest.mark.parametrize("meeting", SAMPLE, ids=" | ".join)
def test_what_is_left_is_what_some_order_leaves(meeting: Meeting) -> None:
    assert meeting in MEETINGS
    tally = interleave(meeting)
    assert not tally.bad, tally.bad[0]
    assert tally.ways >= 12
    assert 1 <= tally.states <= tally.ways


def test_what_is_not_safe_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write of what was read before, that does not say so."""

    def raise_all(table: bf.Table) -> object:
        found = table.scan().to_arrow().to_pylist()
        return table.upsert(rows(*((row["id"], row["v"] + 10, row["p"]) for row in found)))

    monkeypatch.setitem(FIRSTS, "upsert", raise_all)
    tally = interleave(Meeting("9-cow-simple", "upsert", "upsert"))
    assert any("no order of the two leaves" in text for text in tally.bad)
    assert SECONDS["upsert"] is not raise_all
