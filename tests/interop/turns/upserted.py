"""A table of keys in three regions that Hudi and bucketfmt upsert in turns, and the rows it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import cast

import pyarrow as pa

import bucketfmt as bf
from tests.interop.engines.hudi_session import HudiSession
from tests.interop.turns.carry_on import doubled_buckets
from tests.interop.turns.sides import assert_clean, options_of_metadata, read_by_hudi

__all__ = ["Upserted", "simple_index"]

_SCHEMA = pa.schema({"id": pa.string(), "region": pa.string(), "ts": pa.int64(), "v": pa.int64()})
_ORDER = [("id", "ascending"), ("region", "ascending")]


class Upserted:
    """One table.

    Attributes:
        uri: Where the table is.
        options: Of Hudi's writers, without those of the index.
        regions: The partitions that rows are drawn for.
        writer: How bucketfmt writes.
    """

    def __init__(self, session: HudiSession, folder: Path, name: str, kind: str, seed: int) -> None:
        """Name a table in `folder`; the first write of Hudi makes it."""
        self.uri = str(folder / name)
        self.regions = "abc"
        self.writer: bf.WriterConfig | None = None
        self._session = session
        self._random = Random(seed)
        self._held: dict[tuple[str, str], dict[str, object]] = {}
        self._is_logged = kind.startswith("mor")
        self.options = {
            "hoodie.table.name": name,
            **options_of_metadata(session),
            "hoodie.compact.inline": "false",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.table.type": (
                "MERGE_ON_READ" if self._is_logged else "COPY_ON_WRITE"
            ),
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "region",
            "hoodie.datasource.write.precombine.field": "ts",
        }

    @property
    def rows(self) -> pa.Table:
        """The rows that the table is to hold, as both write them."""
        return pa.Table.from_pylist(list(self._held.values()), _SCHEMA)

    def open(self) -> bf.Table:
        """Open the table anew."""
        return bf.open(self.uri, writer=self.writer)

    def hudi_upserts(self, ts: int, index: Mapping[str, str]) -> None:
        """Have Hudi upsert new rows by these options of the index."""
        self.hudi_upserts_rows(self.draw(ts), index)

    def hudi_upserts_rows(self, rows: pa.Table, index: Mapping[str, str]) -> None:
        """Have Hudi upsert rows of `draw` by these options of the index."""
        self._session.write(self.uri, rows, {**self.options, **index})

    def upsert(self, ts: int) -> None:
        """Upsert new rows by bucketfmt."""
        self.upsert_rows(self.draw(ts))

    def upsert_rows(self, rows: pa.Table) -> None:
        """Upsert rows of `draw` by bucketfmt."""
        self.open().upsert(rows, codec="gzip")

    def hudi_compacts(self, index: Mapping[str, str], *, has_buckets: bool = True) -> None:
        """Have Hudi compact a merge-on-read table, and compare; nothing of copy-on-write."""
        if not self._is_logged:
            return
        options = {**self.options, **index, "hoodie.compact.inline.max.delta.commits": "1"}
        self._session.service(self.uri, "schedule", None, options)
        self._session.service(self.uri, "run_pending_compactions", None, options)
        self.compare(has_buckets=has_buckets)

    def compare(self, *, has_buckets: bool = True) -> list[dict[str, object]]:
        """Read by both: all rows that were upserted, and one file group in each bucket.

        Returns:
            The rows.
        """
        rows: list[dict[str, object]] = self.rows.sort_by(_ORDER).to_pylist()
        hudis = read_by_hudi(self._session, self.uri)
        for found in (self.open().scan().to_arrow(), hudis):
            assert found.select(_SCHEMA.names).sort_by(_ORDER).to_pylist() == rows
        assert not has_buckets or doubled_buckets(hudis) == []
        return rows

    def check(self) -> None:
        """Check the table in full."""
        assert_clean(self._session, self.open())

    def draw(self, ts: int, keys: Sequence[int] = range(200)) -> pa.Table:
        """Return new rows, which the table is to hold from now on; later `ts` prevail.

        Args:
            ts: The ordering value of all of them.
            keys: Two in five of these are drawn.
        """
        rows = [
            {
                "id": f"key-{i:04d}",
                "region": self.regions[i % 3],
                "ts": ts,
                "v": self._random.randrange(99),
            }
            for i in self._random.sample(keys, 2 * len(keys) // 5)
        ]
        if self._session.has_record_index:  # which is global
            rows = [{**row, "id": f"{row['id']}-{row['region']}"} for row in rows]
        for row in rows:
            held = self._held.setdefault((str(row["id"]), str(row["region"])), row)
            if cast("int", held["ts"]) <= ts:
                held.update(row)
        return pa.Table.from_pylist(rows, _SCHEMA)


def simple_index(num_buckets: int) -> dict[str, str]:
    """Return the options of Hudi's writers for so many buckets in each partition."""
    return {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(num_buckets),
        "hoodie.bucket.index.hash.field": "id",
    }
