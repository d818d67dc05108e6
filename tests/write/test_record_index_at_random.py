"""Any works one after the other on a table without buckets, against a dict."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.write.metadata import metadata_services
from tests.rotation import seed

SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("n", pa.int64()), ("ts", pa.int64())]
)
Key = tuple[str, str]


class Played:
    """A table and what it has to hold: n and ts of each partition and key."""

    def __init__(self, table: bf.Table, chance: random.Random) -> None:
        self.table, self.chance = table, chance
        self.rows: dict[Key, tuple[int, int]] = {}
        self.is_global = not isinstance(table.index, bf.RecordIndex) or not table.index.partitioned
        self.past: list[tuple[str, dict[Key, tuple[int, int]]]] = []
        self.time = 0

    def draw(self, parts: str = "abc") -> pa.Table:
        ids = self.chance.sample(range(20), self.chance.randrange(1, 9))
        given = [
            {"id": f"k{i}", "part": self.chance.choice(parts), "n": self.time, "ts": self.time}
            for i in ids
        ]
        return pa.Table.from_pylist(given, SCHEMA)

    def upsert(self) -> None:
        given = self.draw()
        before = dict(self.rows)
        self.past = [(self.table.upsert(given).instant, before)]
        for row in given.to_pylist():
            known = [key for key in self.rows if self.is_global and key[1] == row["id"]]
            for key in known:  # update_partition_path
                del self.rows[key]
            self.rows[row["part"], row["id"]] = row["n"], row["ts"]

    def delete(self) -> None:
        keys = self.chance.sample(sorted(self.rows), min(len(self.rows), 3))
        given = pa.table({"id": [key for _, key in keys], "part": [path for path, _ in keys]})
        self.table.delete(given)
        self.rows = {key: row for key, row in self.rows.items() if key not in keys}
        self.past = []

    def overwrite(self) -> None:
        part = self.chance.choice("abc")
        given = self.draw(part)
        if self.is_global:  # an overwrite looks for no keys in other partitions
            elsewhere = {key for path, key in self.rows if path != part}
            rows = [row for row in given.to_pylist() if row["id"] not in elsewhere]
            given = pa.Table.from_pylist(rows, SCHEMA)
        if given.num_rows:
            self.table.insert_overwrite(given)
            self.drop_rows(part)
            for row in given.to_pylist():
                self.rows[part, row["id"]] = row["n"], row["ts"]
            self.past = []

    def drop(self) -> None:
        parts = {path for path, _ in self.rows}
        if parts:
            part = self.chance.choice(sorted(parts))
            self.table.delete_partitions([f"part={part}"])
            self.drop_rows(part)
            self.past = []

    def drop_rows(self, part: str) -> None:
        self.rows = {key: row for key, row in self.rows.items() if key[0] != part}

    def roll_back(self) -> None:
        if self.past:
            instant, self.rows = self.past.pop()
            self.table.rollback(instant)

    def compact(self) -> None:
        if self.table.config.table_type == "MERGE_ON_READ" and self.table.compact() is not None:
            self.past = []

    def clean(self) -> None:
        self.table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False)
        self.past = []

    def compare(self) -> None:
        table = bf.open(self.table.uri)
        rows = table.scan().to_arrow().to_pylist()
        assert len(rows) == len(self.rows)
        assert {(row["part"], row["id"]): (row["n"], row["ts"]) for row in rows} == self.rows
        report = table.check(depth="full", metadata_table_only=True)
        assert report.status == "clean", report.findings
        if rows:
            keys = pa.table({"id": [row["id"] for row in rows], "part": [r["part"] for r in rows]})
            assert table.locate(keys)["file_id"].null_count == 0


@pytest.mark.rotated(0, among="works at random", one_of=2)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(
    ("version", "partitioned"), [(9, False), (9, True), (8, False), (6, False)]
)
def test_works_at_random(
    monkeypatch: pytest.MonkeyPatch, table_type: Any, version: int, partitioned: bool
) -> None:
    monkeypatch.setattr(metadata_services, "_DELTA_COMMITS", 2)
    name = f"{table_type}{version}{partitioned}"
    table = bf.create(
        f"memory://works_at_random/{name}",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        index=bf.RecordIndex(update_partition_path=not partitioned, partitioned=partitioned),
        table_type=table_type,
        table_version=version,
        properties={"hoodie.datasource.write.hive_style_partitioning": "true"},
    )
    played = Played(table, random.Random(f"{seed()} {name}"))
    works = [played.upsert] * 4 + [played.delete, played.overwrite, played.drop]
    works += [played.roll_back, played.compact, played.clean]
    for _ in range(16):
        played.time += 1
        played.chance.choice(works)()
        played.compare()
