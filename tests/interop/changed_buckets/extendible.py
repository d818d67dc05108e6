"""Hudi reads tables with the indexes that are extensions, and fails to write to them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

import bucketfmt as bf
from tests.interop.engines.hudi_session import HudiRefusesError, HudiSession
from tests.interop.turns.carry_on import Tally
from tests.interop.turns.sides import init_metadata_table, options_of_metadata, read_by_hudi

__all__ = ["WRITERS", "play_extendible", "play_overwritten", "play_several_groups"]

_SCHEMA = pa.schema({"id": pa.string(), "region": pa.string(), "ts": pa.int64(), "v": pa.int64()})
_VERSIONS = {"0.15.0": 6, "1.0.2": 8, "1.2.0": 9}
_BUCKET = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.bucket.index.hash.field": "id",
}
WRITERS = (
    {},
    _BUCKET,
    {**_BUCKET, "hoodie.index.bucket.engine": "SIMPLE"},
    {**_BUCKET, "hoodie.index.bucket.engine": "CONSISTENT_HASHING"},
    {**_BUCKET, "hoodie.datasource.write.operation": "bulk_insert"},
    {"hoodie.index.type": "BLOOM"},
)
"""Options of writers of Hudi: none, each engine, and another index."""
_Limits = tuple[int, int]
"""Of a resize: the largest file size, and the most buckets of a partition."""
_SPLITS, _SPLITS_MORE, _MERGES = (1, 4), (1, 7), (1 << 40, 16)


def play_extendible(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """bucketfmt splits and merges the buckets of a table; after each step Hudi reads it.

    Every writer of Hudi fails, whatever its options say of the index, and changes nothing.
    """
    play = _Play(session, folder, kind, seed, bf.ExtendibleHashingIndex(2))
    play.write_and_change((_SPLITS, _SPLITS_MORE, _MERGES))
    play.try_writers_of_hudi()
    return play.tally()


def play_several_groups(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Buckets grow by file groups, rows are deleted and logs compacted; Hudi reads each time.

    Every writer of Hudi fails, as above.
    """
    play = _Play(session, folder, kind, seed, _several_groups())
    play.write_and_change((None, None, None))
    play.try_writers_of_hudi()
    return play.tally()


def play_overwritten(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Partitions are overwritten and dropped, and written to again; Hudi reads after each step.

    A table with extendible hashing, whose buckets are split before and merged at the end, and one
    whose buckets have several file groups.
    """
    tallies = []
    for index, changes in (
        (bf.ExtendibleHashingIndex(2), (_SPLITS, _MERGES)),
        (_several_groups(), (None, None)),
    ):
        own = folder / type(index).__name__
        play = _Play(session, own, kind, seed, index)
        play.overwrite_and_drop(*changes)
        tallies.append(play.tally())
    rounds, ours = (sum(getattr(t, name) for t in tallies) for name in ("rounds", "ours"))
    return Tally(rounds=rounds, ours=ours, hudis=0)


def _several_groups() -> bf.Index:
    return bf.MultiGroupBucketIndex(2, group_bytes=2_000)


class _Play:
    """One table, and the rows it has to hold, by key."""

    def __init__(
        self, session: HudiSession, folder: Path, kind: str, seed: int, index: bf.Index
    ) -> None:
        self._session, self._random = session, Random(seed)
        self._uri = str(folder / "extension")
        self._held: dict[str, dict[str, object]] = {}
        self._type: Literal["COPY_ON_WRITE", "MERGE_ON_READ"] = (
            "MERGE_ON_READ" if kind.startswith("mor") else "COPY_ON_WRITE"
        )
        self._table = bf.create(
            self._uri,
            schema=_SCHEMA,
            record_key=["id"],
            partition_by=["region"],
            ordering=["ts"],
            index=index,
            table_type=self._type,
            table_version=_VERSIONS[session.version],
        )
        init_metadata_table(session, self._table)
        self._rounds = self._ours = self._ts = 0

    def tally(self) -> Tally:
        """Return what was done so far."""
        return Tally(rounds=self._rounds, ours=self._ours, hudis=0)

    # -- what is played

    def write_and_change(self, changes: Sequence[_Limits | None]) -> None:
        """Upsert and delete, then resize within these limits, or compact; as often as there are."""
        for limits in changes:
            self._upsert()
            gone = [self._held.pop(key) for key in self._random.sample(sorted(self._held), 9)]
            self._table.delete(pa.Table.from_pylist(gone).select(["id", "region"]))
            self._ours += 1
            self._compare()
            self._change(limits)
            self._compare()
            self._rounds += 1

    def overwrite_and_drop(self, before: _Limits | None, after: _Limits | None) -> None:
        """Overwrite a partition and drop one, which upserts, an overwrite and a resize fill again.

        Args:
            before: The limits of a resize of the first buckets; None: they are compacted.
            after: Those of one at the end.
        """
        self._upsert()
        self._change(before)
        self._compare_round()
        self._overwrite("a")
        self._compare_round()
        self._drop("b")
        self._compare_round()
        self._upsert()  # also into what was overwritten, and what was dropped
        self._compare_round()
        self._drop("c")
        self._overwrite("c")
        self._compare_round()
        self._upsert()
        self._change(after)
        self._compare_round()

    def try_writers_of_hudi(self) -> None:
        """Every writer of Hudi fails, and changes nothing."""
        plain = {
            "hoodie.table.name": "extension",
            **options_of_metadata(self._session),
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.table.type": self._type,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "region",
            "hoodie.datasource.write.precombine.field": "ts",
        }
        before = bf.open(self._uri).timeline.instants
        for options in WRITERS:
            try:
                self._session.write(self._uri, self._draw(), {**plain, **options})
            except HudiRefusesError:
                continue
            raise AssertionError(f"Hudi writes with {options}")
        assert bf.open(self._uri).timeline.instants == before
        self._compare()
        self._check()

    # -- what is done

    def _upsert(self) -> None:
        rows = self._draw()
        self._table.upsert(rows, codec="gzip")
        self._hold(rows)

    def _overwrite(self, region: str) -> None:
        rows = self._draw()
        rows = rows.filter(pc.equal(rows["region"], region))
        self._table.insert_overwrite(rows, codec="gzip")
        self._forget(region)
        self._hold(rows)

    def _drop(self, region: str) -> None:
        self._table.delete_partitions([region])
        self._forget(region)
        self._ours += 1

    def _change(self, limits: _Limits | None) -> None:
        if limits is None:
            if self._type == "MERGE_ON_READ":
                self._table.compact()
            assert len(self._table.inspect.buckets()) > 6  # of 2 buckets in each of 3 partitions
        else:
            size, most = limits
            assert self._table.resize(max_file_size=size, min_buckets=2, max_buckets=most)
        self._ours += 1

    # -- the model

    def _draw(self) -> pa.Table:
        self._ts += 1
        return pa.Table.from_pylist(
            [
                {
                    "id": f"key-{i:04d}",
                    "region": "abc"[i % 3],
                    "ts": self._ts,
                    "v": self._random.randrange(99),
                }
                for i in self._random.sample(range(200), 80)
            ],
            _SCHEMA,
        )

    def _hold(self, rows: pa.Table) -> None:
        self._held.update({row["id"]: row for row in rows.to_pylist()})
        self._ours += 1

    def _forget(self, region: str) -> None:
        self._held = {key: row for key, row in self._held.items() if row["region"] != region}

    def _compare_round(self) -> None:
        self._compare()
        self._check()
        self._rounds += 1

    def _check(self) -> None:
        report = bf.open(self._uri).check(depth="full")
        assert report.status == "clean", report.findings

    def _compare(self) -> None:
        expected = sorted(self._held.values(), key=lambda row: str(row["id"]))
        for found in (
            bf.open(self._uri).scan().to_arrow(),
            read_by_hudi(self._session, self._uri),
        ):
            assert found.select(_SCHEMA.names).sort_by("id").to_pylist() == expected
        # By a key Hudi leaves out buckets, and by the bloom filters of a metadata table also file
        # groups that have the key in a log alone.
        by_key = {**_BUCKET, "hoodie.metadata.enable": "false"}
        for key in self._random.sample(sorted(self._held), 2):
            found = self._session.read(self._uri, by_key, f"id = '{key}'")
            assert found.select(_SCHEMA.names).to_pylist() == [self._held[key]]
