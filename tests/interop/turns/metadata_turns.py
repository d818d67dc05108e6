"""Hudi and bucketfmt write in turns to a table with a metadata table, which both keep in step."""

from __future__ import annotations

import warnings
from datetime import date
from pathlib import Path
from typing import Any

import bucketfmt as bf
from bucketfmt.format.names.names import find_data_file_name
from tests.interop.engines.hudi_session import HudiSession
from tests.interop.turns.carry_on import Tally, Turns, as_table, index_of, start_turns
from tests.interop.turns.sides import (
    Side,
    metadata_options,
    record_index_options,
    serving_metadata_soon,
)
from tests.write.metadata.metadata_records import assert_in_step

__all__ = ["play_bulk_inserted", "play_metadata_table", "play_secondary_index"]

_WRITER = bf.WriterConfig(lock="filesystem")


def _options(has_record_index: bool) -> dict[str, str]:
    return {
        **metadata_options(has_record_index),
        "hoodie.cleaner.policy.failed.writes": "LAZY",
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": (
            "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
        ),
    }


class _MetadataTurns(Turns):
    """Turns after which Hudi reads the same with the metadata table and without it.

    The keys are as a record index has them.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.has_record_index = True

    def compare(self) -> None:
        """Compare what both read, by all ways to read, and the metadata table with the files."""
        self.compare_ours()
        assert_in_step(self.table)
        by_metadata = {"hoodie__metadata__enable": "true", "hoodie__enable__data__skipping": "true"}
        self.compare_hudis(hoodie__metadata__enable="false")
        self.compare_hudis(**by_metadata)
        for where, keep in (
            ("price > 0.5", lambda row: row["price"] > 0.5),
            ("name = 'ä𝄞'", lambda row: row["name"] == "ä𝄞"),
            ("region = 'eu' and price < 0.3", _is_cheap),
        ):
            found = self.hudi.read(where=where, **by_metadata).num_rows
            expected = sum(1 for row in self._expected if keep(row))
            assert found == expected, f"{where} after {self.done}"
        if "record_index" in bf.open(self.table.uri).config.metadata_partitions:
            self._compare_record_index()
        self.rounds += 1

    def _compare_record_index(self) -> None:
        """Each key is where Hudi reads it, and no other key is in the index."""
        read = self.hudi.read(hoodie__metadata__enable="false").to_pylist()
        expected = sorted(
            (
                row["_hoodie_record_key"],
                row["_hoodie_partition_path"],
                _file_id(row["_hoodie_file_name"]),
            )
            for row in read
        )
        entries = bf.open(self.table.uri).inspect.metadata_entries("record_index")
        names = ["record_key", "partition_path", "file_id"]
        found = sorted(tuple(row[name] for name in names) for row in entries.to_pylist())
        assert found == expected, f"the record index differs after {self.done}"

    def draw(self, regions: Any = None, side: Side | None = None) -> Any:
        """Draw rows with dates: Hudi 1.0 fails to log a null one where statistics are on."""
        drawn = super().draw(side=side) if regions is None else super().draw(regions, side)
        day = date(2020, 1, 1 + self.time % 28)
        return {place: {**row, "day": day} for place, row in drawn.items()}

    def _bulk_insert(self, side: Side) -> None:
        drawn = self.draw(side=side)
        given = {place: row for place, row in drawn.items() if place not in self.rows}
        side.bulk_insert(as_table(given))
        self.merge(given, side)

    def _rollbacks(self, side: Side) -> None:
        """Take two writes back that are in base files of the metadata table.

        Hudi would leave them there: it looks at compactions of the metadata table only.
        """
        written = []
        for _ in range(2):
            self.random.choice((self.us, self.hudi)).upsert(as_table(self.draw()))
            written.append(self._newest_write())
        assert not any(map(self._is_compaction, written))
        self.table.metadata_table.rebuild()
        for instant in reversed(written):
            side.rollback(instant)


def play_metadata_table(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Hudi makes the metadata table; both write, serve it, and it is rebuilt by bucketfmt.

    Tables without buckets are located by the record index. In a table with buckets, Hudi 0.15
    leaves keys out of the record index that it adds to a bucket, and no release takes one with
    rows that are new in a log.
    """
    options = _options(kind.startswith("cow") and session.version != "0.15.0")
    if "records" in kind:
        options = _options_of_records(kind)
    turns = start_turns(session, folder, kind, seed, _WRITER, options, _MetadataTurns)
    us, hudi = turns.us, turns.hudi
    services = ["clean", "archive"]
    if turns.table.config.table_type == "MERGE_ON_READ":
        services = ["compact", *services]
    with (
        serving_metadata_soon(),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("error", "the metadata table is")  # made anew, or removed
        turns.do(hudi, "upsert")
        turns.do(us, "upsert", "delete")
        turns.do(hudi, "upsert", "delete")
        turns.do(us, *services, "upsert", "overwrite", "rollback")
        turns.do(hudi, *services, "upsert")
        turns.do(us, "drop")
        turns.table.metadata_table.rebuild()
        turns.do(hudi, "upsert")
        turns.do(us, "upsert")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the metadata table is")  # as a restore has it
        turns.do(us, "savepoint", "delete", "restore", "upsert")
        turns.do(hudi, "savepoint", "delete", "restore")
        turns.do(us, "upsert")
        turns.do(us, "rollbacks")
        turns.do(hudi, "upsert")
        turns.do(us, "upsert")
    return turns.tally()


def play_bulk_inserted(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Rows are put into new file groups, by bucketfmt twice and by Hudi; both upsert by the index.

    The first are put into the empty table, whose metadata table bucketfmt makes, with the
    partitions that Hudi's options name.
    """
    options = _options_of_records(kind)
    turns = start_turns(session, folder, kind, seed, _WRITER, options, _MetadataTurns)
    us, hudi = turns.us, turns.hudi
    of_columns = (
        ["column_stats", "partition_stats"] if session.version != "0.15.0" else ["column_stats"]
    )
    turns.table.metadata_table.init("bloom_filters", *of_columns)
    with serving_metadata_soon(), warnings.catch_warnings():
        warnings.filterwarnings("error", "the metadata table is")  # made anew, or removed
        turns.do(us, "bulk_insert")
        turns.do(us, "bulk_insert")
        turns.do(us, "upsert")
        turns.do(hudi, "upsert")
        turns.do(hudi, "bulk_insert")
        turns.do(us, "bulk_insert", "upsert")
        turns.do(hudi, "upsert")
    return turns.tally()


class _SecondaryTurns(_MetadataTurns):
    """Turns with a secondary index on the names, by which Hudi reads those of one name."""

    def compare(self) -> None:
        """As of `_MetadataTurns`, where neither has removed the index."""
        super().compare()
        listed = bf.open(self.table.uri).config.metadata_partitions
        assert "secondary_index_name" in listed, f"{listed} after {self.done}"

    def draw(self, regions: Any = None, side: Side | None = None) -> Any:
        """Draw rows: with names, since Hudi 1.0 fails in an update of a row without a name."""
        drawn = super().draw(regions, side)
        if self.table.config.table_version >= 9:
            return drawn
        return {place: {**row, "name": row["name"] or "a$b"} for place, row in drawn.items()}


def play_secondary_index(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Hudi makes a secondary index; both write, and bucketfmt makes it anew."""
    options = {**_options(has_record_index=True), "hoodie.index.type": "RECORD_INDEX"}
    turns = start_turns(session, folder, kind, seed, _WRITER, options, _SecondaryTurns)
    us, hudi = turns.us, turns.hudi
    services = ["compact"] if turns.table.config.table_type == "MERGE_ON_READ" else []
    with serving_metadata_soon(), warnings.catch_warnings():
        warnings.filterwarnings("error", ".*of the metadata table cannot be kept in step")
        turns.act(hudi, "upsert")
        turns.hudi.make_index("name")
        turns.compare()
        turns.do(us, "upsert", "delete")
        turns.do(hudi, "upsert", "delete")
        turns.do(us, *services, "upsert", "overwrite", "rollback")
        turns.table.metadata_table.rebuild("secondary_index_name")
        turns.do(hudi, *services, "upsert")
    return turns.tally()


def _options_of_records(kind: str) -> dict[str, str]:
    """Return the options of Hudi's writers of a kind of table that is located by a record index."""
    _, index = index_of(kind)
    assert isinstance(index, bf.RecordIndex)
    return {**_options(has_record_index=True), **record_index_options(index)}


def _is_cheap(row: dict[str, Any]) -> bool:
    return bool(row["region"] == "eu" and row["price"] < 0.3)


def _file_id(file_name: str) -> str:
    name = find_data_file_name(file_name)
    return file_name if name is None else name.file_id
