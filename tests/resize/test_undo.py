"""A restore to before a change of buckets brings back the index that was stated."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bucketfmt as bf
from bucketfmt.errors import CorruptError
from bucketfmt.format.buckets.index_settings import IndexSettings
from bucketfmt.format.buckets.migrations import Migrated
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.testing.faulty_store import Fault
from bucketfmt.timeline.table_properties import change_properties, load_config
from tests.check.planting import check_soon, found
from tests.resize.test_migrate import RING, RULES, filled, make, unindexed
from tests.write.crashes import crashes
from tests.write.models import Model, assert_reads_as, create_table, rows

Change = Callable[[bf.Table], object]


def stated(table: bf.Table) -> dict[str, str]:
    """Return what hoodie.properties state of the index now."""
    properties = load_config(table.store, DEFAULT_LIMITS).properties
    own = (name for name in properties if name.startswith("bucketfmt."))
    return {name: properties[name] for name in {*IndexSettings.KEYS, *own} & properties.keys()}


def simple(path: Path) -> tuple[bf.Table, Model]:
    model = Model()
    table = create_table(path, bf.SimpleBucketIndex(4))
    table.upsert(rows(range(60), 1))
    model.upsert(rows(range(60), 1))
    return table, model


def index_files(table: bf.Table) -> list[str]:
    folder = Path(table.uri) / ".hoodie/.bucket_index"
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


@pytest.mark.rule("REHASH-3")
@pytest.mark.parametrize("is_rescaled", [False, True])
def test_before_two_rehashes_or_a_rescale(tmp_path: Path, is_rescaled: bool) -> None:
    table, model = simple(tmp_path / "t")
    before, savepoint = stated(table), table.savepoint()
    reader = bf.open(table.uri)
    assert table.rehash(6) is not None
    if is_rescaled:
        assert table.rescale("us,3") is not None
    else:
        assert table.rehash(9) is not None
    table.upsert(rows(range(30, 70), 2))
    assert reader.scan().to_arrow().num_rows == 70
    table.restore(savepoint)
    assert stated(table) == before
    assert index_files(table) == []
    for each in (table, reader, bf.open(table.uri)):
        assert each.index == bf.SimpleBucketIndex(4, ("id",))
    reader.upsert(rows(range(50, 80), 3))
    model.upsert(rows(range(50, 80), 3))
    assert_reads_as(table.uri, model)


def test_a_number_that_somebody_else_stated_stays(tmp_path: Path) -> None:
    table, _ = simple(tmp_path / "t")
    done = table.rehash(6)
    assert done is not None
    name = "hoodie.bucket.index.num.buckets"
    change_properties(table.store, table.limits, 0, lambda old: {**old, name: "12"}, lambda: None)
    bf.open(table.uri).rollback(done.instant)
    assert stated(table)[name] == "12"


@pytest.mark.rule("MIGRATE-3")
@pytest.mark.rotated(0, among="undone migrations", one_of=3)
@pytest.mark.parametrize(
    ("index", "has_record_index"),
    [(RING, True), (RULES, False), (bf.SimpleBucketIndex(4), True)],
    ids=["ring", "rules", "simple"],
)
def test_before_a_migration_and_a_change_of_its_buckets(
    tmp_path: Path, index: Any, has_record_index: bool
) -> None:
    table, model = filled(tmp_path / "t", 9, "MERGE_ON_READ")
    if not has_record_index:
        table = unindexed(table)
    before, savepoint = stated(table), table.savepoint()
    reader = bf.open(table.uri)
    assert table.migrate(index, partitions_per_commit=2) is not None
    later: dict[bf.Index, Change] = {
        RING: lambda t: t.resize(max_file_size=1, max_buckets=8),
        RULES: lambda t: t.rescale("us,3"),
        bf.SimpleBucketIndex(4): lambda t: t.rehash(8),
    }
    assert reader.scan().to_arrow().num_rows == len(model.rows)
    assert later[index](table) is not None
    assert index_files(table) or index == bf.SimpleBucketIndex(4)
    table.restore(savepoint)
    assert stated(table) == before
    assert index_files(table) == []
    for each in (table, reader, bf.open(table.uri)):
        assert each.index == (bf.RecordIndex() if has_record_index else None)
        assert each.scan().to_arrow().num_rows == len(model.rows)
    if has_record_index:
        reader.metadata_table.init("record_index")
        reader.upsert(rows(range(50, 95), 9))
        model.upsert(rows(range(50, 95), 9))
        assert_reads_as(table.uri, model)
    assert reader.migrate(index) is not None
    reader.upsert(rows(range(10, 20), 11))
    model.upsert(rows(range(10, 20), 11))
    assert_reads_as(table.uri, model)


def test_between_the_commits_of_a_migration(tmp_path: Path) -> None:
    """The table is moved in part, and has its old index as before the last step."""
    table, model = filled(tmp_path / "t", 9, "MERGE_ON_READ")
    before = stated(table)
    result = table.migrate(RING, partitions_per_commit=1)
    assert result is not None
    table.savepoint(result.instants[1])
    table.restore(result.instants[1])
    assert stated(table) == before
    assert table.migrate(RING) is not None
    assert table.timeline.writes.completed.instants[-3].requested_time == result.instants[0]
    assert_reads_as(table.uri, model)


def test_after_the_last_commit_of_a_migration_its_index_stays(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t", 9, "MERGE_ON_READ")
    assert table.migrate(RING) is not None
    after, savepoint = stated(table), table.savepoint()
    table.upsert(rows(range(50, 95), 9))
    table.restore(savepoint)
    assert stated(table) == after
    assert_reads_as(table.uri, model)


@pytest.mark.rotated(0, among="crashes of undone migrations", one_of=2)
@pytest.mark.parametrize("fault", [Fault.KILL_BEFORE, Fault.KILL_AFTER])
def test_whoever_restores_again_after_a_crash_ends_it(tmp_path: Path, fault: Fault) -> None:
    table, model = make(tmp_path / "t", 9, "MERGE_ON_READ"), Model()
    table.upsert(rows(range(3), 1))
    model.upsert(rows(range(3), 1))
    table = unindexed(table)
    before, savepoint = stated(table), table.savepoint()
    assert table.migrate(RING, partitions_per_commit=2) is not None
    after = stated(table)
    seen = set()
    for struck, _ in crashes(table, lambda t: t.restore(savepoint), fault):
        assert struck.scan().to_arrow().num_rows == len(model.rows)
        seen.add(json.dumps(stated(struck), sort_keys=True))
        struck.restore(savepoint)
        assert stated(struck) == before == {}
        assert struck.scan().to_arrow().num_rows == len(model.rows)
    assert seen == {json.dumps(each, sort_keys=True) for each in (before, after)}


def test_a_damaged_entry_is_an_error() -> None:
    entry = Migrated("20240101000000000", {"hoodie.index.type": "BLOOM"}).entries()
    assert Migrated.find(entry) == Migrated("20240101000000000", {"hoodie.index.type": "BLOOM"})
    assert Migrated.find({}) is None
    with pytest.raises(CorruptError, match="not an instant"):
        Migrated.find({"bucketfmt.migrated": "../x"})


@pytest.mark.rotated
@pytest.mark.parametrize("version", [6, 8, 9])
def test_to_a_savepoint_amid_a_resize(tmp_path: Path, version: int) -> None:
    """Its moment is read with the files of the resize, which a clean keeps, though it states none.

    In table version 6 a restore leaves the resize, as it was requested before.
    """
    table, model = ring(tmp_path / "t", version)
    assert table.schedule_resize(max_file_size=100, max_buckets=4) is not None
    table.upsert(rows(range(30, 70), 2))
    model.upsert(rows(range(30, 70), 2))
    savepoint = table.savepoint()
    assert table.resize() is not None
    for ts in (3, 4):
        table.upsert(rows(range(70), ts))
        assert table.compact() is not None
    table.clean(retain=1, dry_run=False)
    table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False)
    seen = (
        table.scan(as_of=savepoint)
        .to_arrow()
        .sort_by([("region", "ascending"), ("id", "ascending")])
    )
    assert seen.to_pylist() == [model.rows[key] for key in sorted(model.rows)]
    table.restore(savepoint)
    assert_reads_as(table.uri, model)
    assert found(check_soon(Path(table.uri))) == set()


@pytest.mark.rotated
@pytest.mark.parametrize("version", [6, 8, 9])
def test_to_before_a_pending_resize_that_others_wrote_for(tmp_path: Path, version: int) -> None:
    """In table version 6 what rolls their log files back are such files, which go with it."""
    table, model = ring(tmp_path / "t", version)
    savepoint = table.savepoint()
    assert table.schedule_resize(max_file_size=100, max_buckets=4) is not None
    for ts in (2, 3):
        table.upsert(rows(range(40), ts))
    table.restore(savepoint)
    assert_reads_as(table.uri, model)
    assert found(check_soon(Path(table.uri))) == set()


def ring(path: Path, version: int) -> tuple[bf.Table, Model]:
    model = Model()
    index = bf.ConsistentHashingIndex(2)
    table = create_table(path, index, "MERGE_ON_READ", table_version=version)
    table.upsert(rows(range(60), 1))
    model.upsert(rows(range(60), 1))
    return table, model
