"""A table of keys in three regions that Hudi and bucketfmt upsert in turns, and the rows it has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random

import pyarrow as pa

import bucketfmt as bf
from tests.interop.carry_on import doubled_buckets
from tests.interop.hudi_session import HudiSession

__all__ = ["Upserted", "simple_index"]

_SCHEMA = pa.schema({"id": pa.string(), "region": pa.string(), "ts": pa.int64(), "v": pa.int64()})
_ORDER = [("id", "ascending"), ("region", "ascending")]


class Upserted:
    """One table.

    Attributes:
        uri: Where the table is.
        options: Of Hudi's writers, without those of the index.
        regions: The partitions that rows are drawn for.
    """

    def __init__(self, session: HudiSession, folder: Path, name: str, kind: str, seed: int) -> None:
        """Name a table in `folder`; the first write of Hudi makes it."""
        self.uri = str(folder / name)
        self.regions = "abc"
        self._session = session
        self._random = Random(seed)
        self._held: dict[tuple[str, str], dict[str, object]] = {}
        self._is_logged = kind.startswith("mor")
        self.options = {
            "hoodie.table.name": name,
            "hoodie.metadata.enable": "false",
            "hoodie.compact.inline": "false",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.table.type": (
                "MERGE_ON_READ" if self._is_logged else "COPY_ON_WRITE"
            ),
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "region",
            "hoodie.datasource.write.precombine.field": "ts",
        }

    def open(self) -> bf.Table:
        """Open the table anew."""
        return bf.open(self.uri)

    def hudi_upserts(self, ts: int, index: Mapping[str, str]) -> None:
        """Have Hudi upsert new rows by these options of the index."""
        self._session.write(self.uri, self._draw(ts), {**self.options, **index})

    def upsert(self, ts: int) -> None:
        """Upsert new rows by bucketfmt."""
        self.open().upsert(self._draw(ts), codec="gzip")

    def hudi_compacts(self, index: Mapping[str, str]) -> None:
        """Have Hudi compact a merge-on-read table, and compare; nothing of copy-on-write."""
        if not self._is_logged:
            return
        options = {**self.options, **index, "hoodie.compact.inline.max.delta.commits": "1"}
        self._session.service(self.uri, "schedule", None, options)
        self._session.service(self.uri, "run_pending_compactions", None, options)
        self.compare()

    def compare(self, *, has_buckets: bool = True) -> list[dict[str, object]]:
        """Read by both: all rows that were upserted, and one file group in each bucket.

        Returns:
            The rows.
        """
        expected = pa.Table.from_pylist(list(self._held.values()), _SCHEMA)
        rows: list[dict[str, object]] = expected.sort_by(_ORDER).to_pylist()
        hudis = self._session.read(self.uri)
        for found in (self.open().scan().to_arrow(), hudis):
            assert found.select(_SCHEMA.names).sort_by(_ORDER).to_pylist() == rows
        assert not has_buckets or doubled_buckets(hudis) == []
        return rows

    def check(self) -> None:
        """Check the table in full."""
        report = self.open().check(depth="full")
        assert report.status == "clean", report.findings

    def _draw(self, ts: int) -> pa.Table:
        rows = [
            {
                "id": f"key-{i:04d}",
                "region": self.regions[i % 3],
                "ts": ts,
                "v": self._random.randrange(99),
            }
            for i in self._random.sample(range(200), 80)
        ]
        self._held.update({(str(row["id"]), str(row["region"])): row for row in rows})
        return pa.Table.from_pylist(rows, _SCHEMA)


def simple_index(num_buckets: int) -> dict[str, str]:
    """Return the options of Hudi's writers for so many buckets in each partition."""
    return {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(num_buckets),
        "hoodie.bucket.index.hash.field": "id",
    }
