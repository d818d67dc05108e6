"""Metadata tables of which something is taken back: by a restore, and by rollbacks."""

from __future__ import annotations

from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.choices import TableType
from bucketfmt.write.metadata import metadata_services
from tests.write.metadata.metadata_records import assert_in_step
from tests.write.metadata.test_metadata_in_step import make, partitions_of, rows


@pytest.mark.rotated(0)
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [6, 9])
def test_a_restore_makes_it_anew(
    tmp_path: Path, version: int, kind: TableType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In version 6 with the log files that take back what was logged before it is archived."""
    monkeypatch.setattr(metadata_services, "_DELTA_COMMITS", 2)
    table = make(tmp_path / "t", version, kind)
    table.upsert(rows(range(20), ts=1))
    table.metadata_table.init(*partitions_of(version))
    table.upsert(rows(range(30), ts=2))
    saved = table.savepoint()
    deleted = table.delete(["1", "2"])
    table.upsert(rows(range(50), ts=3))
    table.restore(saved)
    assert_in_step(table)
    table.delete_savepoint(saved)
    for key in range(30, 60):
        table.upsert(rows(range(key, key + 1), ts=4))
    assert_in_step(table)
    archived = table.archive(min_commits=1, max_commits=1)
    if version == 6:  # later, log files from after a restore stay until a clean, and instants too
        assert archived[-1].requested_time > deleted.instant
    found = bf.open(table.uri)
    assert sorted(map(int, found.scan().to_arrow()["id"].to_pylist())) == [*range(60)]
    assert found.check("full").findings == ()


@pytest.mark.rule("MDT-25")
@pytest.mark.filterwarnings("ignore:the metadata table is")
@pytest.mark.rotated(0, among="rollbacks of records in base files", one_of=6)
@pytest.mark.parametrize("made_by", ["rebuild", "rebuild of keys", "init", "compactions"])
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_what_is_taken_back_goes_from_base_files_of_the_metadata_table_too(
    tmp_path: Path, version: int, kind: TableType, made_by: str
) -> None:
    """Keys stayed gone from the record index, and the next upsert of them made second rows."""
    index = bf.SimpleBucketIndex(2) if made_by == "init" else bf.RecordIndex()
    table = make(tmp_path / "t", version, kind, index)
    every = [str(key) for key in range(10)]
    table.upsert(rows(range(10), ts=1))
    deleted = table.delete(["1", "2"])
    added = table.upsert(rows(range(10, 12), ts=2))
    if made_by == "rebuild":
        table.metadata_table.rebuild()
    elif made_by == "rebuild of keys":
        table.metadata_table.rebuild("record_index")
    elif made_by == "init":
        table.metadata_table.init("record_index")
    else:
        later = [table.upsert(rows(range(key, key + 1), ts=3)) for key in range(12, 24)]
        for each in reversed(later):
            table.rollback(each.instant)
    for taken_back, left in ((added, 8), (deleted, 10)):
        table.rollback(taken_back.instant)
        assert table.scan().count() == left
        assert len(table.lookup(every)) == left
        assert bf.open(table.uri).check("full").findings == ()
    table.upsert(rows(range(12), ts=4))
    found = bf.open(table.uri).scan(["id"]).to_arrow()["id"].to_pylist()
    assert sorted(found, key=int) == [str(key) for key in range(12)]
    assert_in_step(table)


@pytest.mark.rule("MDT-25")
@pytest.mark.rotated(0)
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_log_files_of_a_rollback_that_an_earlier_rollback_listed_are_taken_off(
    tmp_path: Path, kind: TableType
) -> None:
    """In version 6, rollbacks add log files to the slice of what is rolled back next."""
    table = make(tmp_path / "t", 6, kind)
    table.metadata_table.init("column_stats")
    first = table.upsert(rows(range(4), ts=1))
    second = table.upsert(rows(range(4), ts=2))
    table.rollback(second.instant)
    assert bf.open(table.uri).check("full").findings == ()
    table.rollback(first.instant)
    assert bf.open(table.uri).check("full").findings == ()
    table.upsert(rows(range(6), ts=3))
    assert_in_step(table)
