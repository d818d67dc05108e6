"""Rings that are lost or damaged, made again from the keys."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.errors import ConflictError, CorruptError, UnsupportedError
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.location.hashing_files import load_hashing_metadata
from bucketfmt.storage.store import WRITE_VERBS
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore, Killed
from bucketfmt.testing.memory_store import MemoryStore
from tests.same_rows import assert_same
from tests.write.models import SCHEMA, Model, assert_reads_as, create_table, made_once, rows

Copy = Callable[[str, str], Path]
RINGS = ".hoodie/.bucket_index/consistent_hashing_metadata"
NO_SERVICES = bf.WriterConfig(services=None)
ALONE = bf.WriterConfig(services=None, lock="process")


@made_once
def resized(path: Path, version: int = 9) -> tuple[bf.Table, Model]:
    """Return a table whose rings were split and merged, with rows in base files and logs."""
    index = bf.ConsistentHashingIndex(4)
    table = create_table(path, index, "MERGE_ON_READ", table_version=version, writer=NO_SERVICES)
    model = Model()
    for number, given in enumerate((rows(range(80), 1), rows(range(40, 60), 2, 3.0))):
        table.upsert(given)
        model.upsert(given)
        table.resize(max_file_size=1 if number else 1 << 30, min_buckets=2, max_buckets=7)
    table.upsert(rows(range(70, 75), 4))
    model.upsert(rows(range(70, 75), 4))
    table.delete(rows(range(5), 5))
    model.delete([f"key-{i:06d}" for i in range(5)])
    return table, model


def lose_all(folder: Path) -> None:
    shutil.rmtree(folder)


def lose_the_newest(folder: Path) -> None:
    max(folder.glob("*.hashing_meta")).unlink()


def empty_the_newest(folder: Path) -> None:
    max(folder.glob("*.hashing_meta")).write_bytes(b"")


def cut_the_newest(folder: Path) -> None:
    newest = max(folder.glob("*.hashing_meta"))
    newest.write_bytes(newest.read_bytes()[:-20])


def leave_the_first(folder: Path) -> None:
    for path in folder.iterdir():
        if not path.name.startswith("0000"):
            path.unlink()


DAMAGES = [lose_all, lose_the_newest, empty_the_newest, cut_the_newest, leave_the_first]


@pytest.mark.rotated(1)
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_ring_is_made_again(tmp_path: Path, version: int, damage: Callable[[Path], None]) -> None:
    """Every row is found by its key again, the table is written on, and is resized."""
    table, model = resized(tmp_path / "t", version)
    path = Path(table.uri)
    lost, whole = sorted((path / RINGS).iterdir())[:2]
    kept = {file.name: file.read_bytes() for file in whole.iterdir()}
    damage(lost)
    table = bf.open(table.uri, index=bf.ConsistentHashingIndex(4), writer=NO_SERVICES)
    assert table.check().status == "findings"
    (planned,) = table.repair_rings(dry_run=True)
    assert planned.partition_path == lost.name
    assert table.check().status == "findings"
    assert table.repair_rings() == [planned]
    assert table.repair_rings() == []
    assert {file.name: file.read_bytes() for file in whole.iterdir()} == kept
    table = bf.open(table.uri, writer=NO_SERVICES)
    report = table.check(depth="full")
    assert report.status == "clean", report.findings
    assert_reads_as(table.uri, model)
    for given in (rows(range(100), 6), rows(range(90, 130), 7)):
        table.upsert(given)
        model.upsert(given)
    assert table.resize(max_file_size=1, max_buckets=12) is not None
    assert_reads_as(table.uri, model)
    report = table.check(depth="full")
    assert report.status == "clean", report.findings


@pytest.mark.parametrize("fault", [Fault.KILL_BEFORE, Fault.KILL_AFTER])
@pytest.mark.parametrize("damage", [lose_all, leave_the_first, cut_the_newest])
def test_a_repair_that_died_is_done_again(
    tmp_path: Path, damage: Callable[[Path], None], fault: Fault
) -> None:
    table, model = resized(tmp_path / "t")
    path = Path(table.uri)
    index = bf.ConsistentHashingIndex(4)
    for ring in (path / RINGS).iterdir():
        damage(ring)
    whole = MemoryStore.of_folder(path)
    for at in count(1):
        files = whole.copy()
        faulty = FaultyStore(files, FaultPlan(at, fault, WRITE_VERBS))
        with suppress(Killed):
            bf.Table(faulty, table.config, DEFAULT_LIMITS, index, ALONE).repair_rings()
        later = bf.Table(files, table.config, DEFAULT_LIMITS, index, ALONE)
        later.repair_rings()
        report = later.check(depth="full")
        assert report.status == "clean", (at, report.findings)
        assert later.scan().count() == len(model.rows)
        if faulty.struck is None:
            break
    assert at > 3  # a file or two for each ring


@pytest.mark.rotated(1)
@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
@pytest.mark.parametrize("name", ["ch_split", "ch_init"])
def test_rings_of_hudi_are_made_again(golden_copy: Copy, version: str, name: str) -> None:
    """Also where all are lost, and nothing in the table states its index."""
    root = golden_copy(version, name)
    before = bf.open(root).scan().to_arrow()
    count = len([path for path in (root / RINGS).rglob("*") if path.is_dir()])
    shutil.rmtree(root / ".hoodie/.bucket_index")
    if name == "ch_split":
        with pytest.raises(UnsupportedError, match="open the table with the index"):
            bf.open(root).repair_rings()
    table = bf.open(root, index=bf.ConsistentHashingIndex(4), writer=NO_SERVICES)
    assert len(table.repair_rings()) == count
    table = bf.open(root, writer=NO_SERVICES)
    report = table.check(depth="full")
    assert report.status == "clean", report.findings
    assert_same(table.scan().to_arrow(), before)
    table.upsert(before)
    assert_same(table.scan().to_arrow(), before)
    assert table.check(depth="full").status == "clean"


def test_a_sound_ring_stays(golden_copy: Copy) -> None:
    for name in ("ch_split", "ch_init", "ch_pending"):
        table = bf.open(golden_copy("1.2.0", name))
        assert table.repair_rings(dry_run=True) == []


def test_what_cannot_be_repaired(tmp_path: Path) -> None:
    table, _ = resized(tmp_path / "t")
    with pytest.raises(ValueError, match="the table has no partition 'x'"):
        table.repair_rings(["x"])
    lost = min((Path(table.uri) / RINGS).iterdir())
    with table.start_write("upsert", SCHEMA):
        cut_the_newest(lost)
        with pytest.raises(ConflictError, match="is under way; repair the rings once it is"):
            table.repair_rings()
    with pytest.raises(CorruptError):
        load_hashing_metadata(table._snapshot().state, lost.name)


@pytest.mark.parametrize("undo", ["rollback", "restore"])
def test_a_ring_that_an_undone_resize_left_behind_is_made_again(tmp_path: Path, undo: str) -> None:
    """A ring that was made again is of the file groups of its day, as the one lost was not."""
    index = bf.ConsistentHashingIndex(4)
    table = create_table(tmp_path / "t", index, "MERGE_ON_READ", writer=NO_SERVICES)
    table.upsert(rows(range(80), 1))
    saved = table.savepoint()
    resized = table.resize(max_file_size=1, max_buckets=6)
    assert resized is not None
    shutil.rmtree(Path(table.uri) / RINGS)
    table = bf.open(table.uri, index=index, writer=NO_SERVICES)
    lost = [ring.partition_path for ring in table.repair_rings()]
    if undo == "rollback":
        table.rollback(resized.instant)
    else:
        table.restore(saved)
    assert {finding.id for finding in table.check(depth="full").findings} == {"C004"}
    assert [ring.partition_path for ring in table.repair_rings()] == lost
    report = table.check(depth="full")
    assert report.status == "clean", report.findings
    table.upsert(rows(range(120), 2))
    assert table.scan().count() == 120
    assert table.check(depth="full").status == "clean"
