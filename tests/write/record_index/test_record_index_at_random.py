"""Any works one after the other on a table with a record index, against a dict."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.write.files import row_report
from bucketfmt.write.metadata import metadata_services
from tests.rotation import seed

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("n", pa.int64()),
        ("ts", pa.int64()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
Key = tuple[str, str]


class Played:
    """A table and what it has to hold: n and ts of each partition and key."""

    def __init__(self, table: bf.Table, chance: random.Random) -> None:
        self.table, self.chance = table, chance
        self.rows: dict[Key, tuple[int, int]] = {}
        self.has_buckets = not isinstance(table.index, bf.RecordIndex)
        self.is_global = isinstance(table.index, bf.RecordIndex) and not table.index.partitioned
        self.past: list[tuple[str, dict[Key, tuple[int, int]]]] = []
        self.newest = "00000000000000"
        self.time = 0

    def draw(self, parts: str = "abc", *, marks: bool = False) -> pa.Table:
        """Draw rows; with marks, some are older than those of their keys, and some are deletes."""
        given = []
        many = 8 if self.has_buckets else 20
        for number in self.chance.sample(range(many), self.chance.randrange(1, 8)):
            part = self.chance.choice(parts)
            # A record index that knows no partitions has one place for a key.
            key = f"k{number}{part}" if self.has_buckets else f"k{number}"
            moves = self.is_global and (part, key) not in self.rows
            ts = self.time - (self.chance.choice([0, 0, 3]) if marks and not moves else 0)
            is_deleted = marks and not moves and self.chance.random() < 0.2
            given.append((key, part, self.time, ts, is_deleted))
        return pa.table(list(zip(*given, strict=True)), schema=SCHEMA)

    def upsert(self) -> None:
        given = self.draw(marks=True)
        self.wrote(self.table.upsert(given))
        self.merge(given)

    def upsert_by_a_task(self) -> None:
        """As a process of Spark: whoever commits is not told which keys came and went."""
        given = self.draw(marks=True)
        with self.table.start_write("upsert", SCHEMA) as started:
            self.wrote(started.publish(list(started.task.write(given, "0-0-0"))))
        self.merge(given)

    def wrote(self, result: bf.WriteResult) -> None:
        """Keep what a rollback brings back; called before the rows are changed.

        A write that has nothing to do tells the newest instant that was there.
        """
        if result.instant > self.newest:
            self.newest = result.instant
            self.past.append((result.instant, dict(self.rows)))

    def merge(self, given: pa.Table) -> None:
        for row in given.to_pylist():
            key = row["part"], row["id"]
            if key in self.rows and row["ts"] < self.rows[key][1]:
                continue
            known = [own for own in self.rows if self.is_global and own[1] == row["id"]]
            for own in known:  # update_partition_path
                del self.rows[own]
            if row["_hoodie_is_deleted"]:
                self.rows.pop(key, None)
            else:
                self.rows[key] = row["n"], row["ts"]

    def delete(self) -> None:
        keys = self.chance.sample(sorted(self.rows), min(len(self.rows), 3))
        given = pa.table({"id": [key for _, key in keys], "part": [path for path, _ in keys]})
        self.wrote(self.table.delete(given))
        self.rows = {key: row for key, row in self.rows.items() if key not in keys}

    def overwrite(self) -> None:
        part = self.chance.choice("abc")
        given = self.draw(part)
        if self.is_global:  # an overwrite looks for no keys in other partitions
            elsewhere = {key for path, key in self.rows if path != part}
            rows = [row for row in given.to_pylist() if row["id"] not in elsewhere]
            given = pa.Table.from_pylist(rows, SCHEMA)
        if given.num_rows:
            self.wrote(self.table.insert_overwrite(given))
            self.drop_rows(part)
            for row in given.to_pylist():
                self.rows[part, row["id"]] = row["n"], row["ts"]

    def drop(self) -> None:
        parts = {path for path, _ in self.rows}
        if parts:
            part = self.chance.choice(sorted(parts))
            self.wrote(self.table.delete_partitions([f"part={part}"]))
            self.drop_rows(part)

    def drop_rows(self, part: str) -> None:
        self.rows = {key: row for key, row in self.rows.items() if key[0] != part}

    def roll_back(self) -> None:
        if self.past:
            instant, before = self.past.pop()
            newest = self.table.timeline.writes.instants[-1:]
            if [own.requested_time for own in newest] != [instant]:
                self.past = []  # it was compacted, and stays
                return
            try:
                self.table.rollback(instant)
            except bf.ConflictError as error:
                if "a clean has deleted what it replaced" not in str(error):
                    raise
                self.past = []
                return
            self.rows = before

    def roll_back_all(self) -> None:
        while self.past:
            self.roll_back()

    def rebuild(self) -> None:
        self.table.metadata_table.rebuild(*self.chance.choice([[], ["record_index"]]))

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


@pytest.mark.filterwarnings("ignore:the metadata table is")
@pytest.mark.rotated(0, among="works at random", one_of=2)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(
    ("version", "kind"),
    [
        (9, "global"),
        (9, "partitioned"),
        (8, "global"),
        (6, "global"),
        (9, "buckets"),
        (8, "buckets"),
        (6, "buckets"),
    ],
)
def test_works_at_random(
    monkeypatch: pytest.MonkeyPatch, table_type: Any, version: int, kind: str
) -> None:
    monkeypatch.setattr(metadata_services, "_DELTA_COMMITS", 2)
    monkeypatch.setattr(row_report, "_KEY_BYTES_MAX", 100)  # some writers tell the keys
    name = f"{table_type}{version}{kind}"
    indexes: dict[str, bf.Index] = {
        "global": bf.RecordIndex(update_partition_path=True),
        "partitioned": bf.RecordIndex(partitioned=True),
        "buckets": bf.SimpleBucketIndex(2),
    }
    table = bf.create(
        f"memory://works_at_random/{name}",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        index=indexes[kind],
        table_type=table_type,
        table_version=version,
        properties={"hoodie.datasource.write.hive_style_partitioning": "true"},
    )
    if kind == "buckets":
        table.metadata_table.init("record_index")
    played = Played(table, random.Random(f"{seed()} {name}"))
    works = [played.upsert] * 4 + [played.delete, played.overwrite, played.drop]
    works += [played.roll_back, played.compact, played.clean, played.rebuild, played.roll_back_all]
    if kind == "buckets":  # for a record index, one process packs the keys into file groups
        works += [played.upsert_by_a_task] * 2
    for _ in range(16):
        played.time += 1
        played.chance.choice(works)()
        played.compare()
