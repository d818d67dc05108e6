"""Hudi and bucketfmt write a table in turns, and in turns give it other rules for its buckets."""

from __future__ import annotations

from pathlib import Path

import pytest

import bucketfmt as bf
from tests.interop.engines.answering import HudiRefusesError
from tests.interop.engines.hudi_session import HudiSession
from tests.interop.turns.carry_on import Tally
from tests.interop.turns.upserted import Upserted, simple_index

__all__ = ["play_rescaled"]

_INDEX = simple_index(4)
_RESCALES = [
    ("bucketfmt", "overwrite", "^b$,6;c,2", 3, "^b$,6;c,2"),
    ("Hudi", "overwrite", "a,5;b,1", 4, "a,5;b,1"),
    ("Hudi", "add", "c,3", 4, "c,3;a,5;b,1"),
    ("bucketfmt", "overwrite", ".,3", 4, ".,3"),
    ("bucketfmt", "add", "d,2;a,7", 2, "d,2;a,7;.,3"),
    ("bucketfmt", "overwrite", "d,4", 2, "d,4"),
]
"""Who, how, the rules, the default, and the rules of then.

The table has four buckets in all partitions at first. That number stays in hoodie.properties, and
Hudi itself rescales with no other default.
"""


def play_rescaled(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Hudi makes a table of four buckets, which gets rules, by bucketfmt and by Hudi.

    In between both upsert, to old partitions and to a new one, and read the same rows: now, and as
    of the moment before each rescale. No bucket has two file groups.
    """
    table = Upserted(session, folder, "rescaled", kind, seed)
    uri = table.uri
    table.hudi_upserts(1, _INDEX)
    ours = hudis = ts = 1
    table.upsert(2)
    for who, how, rules, default, then in _RESCALES:
        ts += 2
        before = table.compare()
        newest = table.open().timeline.completed.commits.last
        assert newest is not None
        if who == "Hudi":
            session.rescale(uri, how, rules, default, dry_run=True)
            assert table.open().timeline.completed.commits.last == newest
            if how == "overwrite":  # the default is not the number of hoodie.properties
                with pytest.raises(HudiRefusesError, match="Config conflict"):
                    session.rescale(uri, "add", rules, default)
            session.rescale(uri, how, rules, default)
            hudis += 1
        else:
            assert table.open().rescale(rules, default=default, add=how == "add") is not None
            ours += 1
        assert table.open().index == bf.PartitionBucketIndex(default, then, ("id",))
        table.compare()
        for row in before[:: len(before) // 7]:
            where = [("id", "=", row["id"]), ("region", "=", row["region"])]
            found = table.open().scan(as_of=newest.requested_time, filter=where).to_arrow()
            assert found.to_pylist() == [row]
        if "d,2" in then:
            table.regions = "abd"
        table.hudi_upserts(ts, _INDEX)
        table.compare()
        table.hudi_compacts(_INDEX)
        table.upsert(ts + 1)
        table.compare()
        ours, hudis = ours + 1, hudis + 1
    last = table.open().rescale("a,1")
    assert last is not None
    table.open().rollback(last.instant)
    table.hudi_upserts(ts + 2, _INDEX)
    table.compare()
    table.check()
    return Tally(rounds=len(_RESCALES), ours=ours, hudis=hudis)
