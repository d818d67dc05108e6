"""Hudi makes tables with other indexes, bucketfmt migrates them to buckets, and both write on."""

from __future__ import annotations

from pathlib import Path

import bucketfmt as bf
from tests.interop.engines.hudi_session import HudiSession
from tests.interop.turns.carry_on import Tally
from tests.interop.turns.upserted import Upserted, simple_index

__all__ = ["play_migrated"]

_FORMER = ("BLOOM", "SIMPLE", "GLOBAL_BLOOM", "RECORD_INDEX")
_LOCATED = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}
_NO_RECORD_INDEX = {"hoodie.metadata.record.index.enable": "false"}


class _StoppedError(Exception):
    pass


def play_migrated(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """A table is migrated, by the seed from one of four indexes; amid it Hudi upserts by the old.

    Then both upsert by buckets. Both read the same rows, and no bucket has two file groups.
    """
    former = _FORMER[seed % len(_FORMER)]
    is_ring = kind.startswith("mor") and seed % 2 == 1
    index = bf.ConsistentHashingIndex(4) if is_ring else bf.SimpleBucketIndex(3)
    table = Upserted(session, folder, former.lower(), kind, seed)
    located = _LOCATED if former == "RECORD_INDEX" else {}
    before = {"hoodie.index.type": former, **located}

    def stop(progress: object) -> None:
        if len(table.open().timeline.completed.of("replacecommit").instants) == 1:
            raise _StoppedError

    for ts in (1, 2):
        table.hudi_upserts(ts, before)
    table.compare(has_buckets=False)
    try:
        table.open().migrate(index, partitions_per_commit=1, progress=stop)
    except _StoppedError:
        table.compare(has_buckets=False)
    else:
        raise AssertionError("the migration was to stop")
    table.hudi_upserts(3, before)
    table.compare(has_buckets=False)
    done = table.open().migrate(index)
    assert done is not None
    assert type(table.open().index) is type(index)
    for ts, options in ((4, _options(index)), (6, {})):
        table.compare()
        table.hudi_upserts(ts, {**located, **_NO_RECORD_INDEX, **options})
        table.compare()
        table.upsert(ts + 1)
    table.compare()
    table.check()
    return Tally(rounds=3, ours=4, hudis=5)


def _options(index: bf.SimpleBucketIndex | bf.ConsistentHashingIndex) -> dict[str, str]:
    is_ring = isinstance(index, bf.ConsistentHashingIndex)
    engine = "CONSISTENT_HASHING" if is_ring else "SIMPLE"
    return {**simple_index(index.num_buckets), "hoodie.index.bucket.engine": engine}
