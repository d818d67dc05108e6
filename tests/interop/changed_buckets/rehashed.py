"""Hudi and bucketfmt write a table in turns; in between bucketfmt changes its number of buckets."""

from __future__ import annotations

from pathlib import Path

from tests.interop.engines.hudi_session import HudiSession
from tests.interop.turns.carry_on import Tally
from tests.interop.turns.upserted import Upserted, simple_index

__all__ = ["play_rehashed"]

_FIRST = 4


def play_rehashed(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Hudi makes a table of four buckets, which become twelve, five and two.

    In between Hudi upserts by the new number, which its options or the table alone state, and on a
    merge-on-read table compacts. Both read the same rows, and no bucket has two file groups.
    """
    table = Upserted(session, folder, "rehashed", kind, seed)
    table.hudi_upserts(1, simple_index(_FIRST))
    ours = hudis = ts = 1
    table.upsert(2)
    for number in (12, 5, 2):
        ts += 2
        assert table.open().rehash(number) is not None
        table.compare()
        table.hudi_upserts(ts, simple_index(number) if number != 5 else {})
        table.compare()
        table.hudi_compacts(simple_index(number))
        table.upsert(ts + 1)
        table.compare()
        ours, hudis = ours + 2, hudis + 1
    table.check()
    return Tally(rounds=3, ours=ours, hudis=hudis)
