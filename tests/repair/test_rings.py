"""Rings that are lost or damaged, made again from the keys."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import msgspec
import pytest

import bucketfmt as bf
from bucketfmt.errors import ConflictError, CorruptError, IndexUnknownError, UnsupportedError
from bucketfmt.format.buckets.hashing_metadata import (
    decode_hashing_metadata,
    encode_hashing_metadata,
)
from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.location.hashing_files import load_hashing_metadata
from bucketfmt.storage.store import WRITE_VERBS
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore, Killed
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.write.rows.writer import TableWriter
from tests.same_rows import assert_same
from tests.write.models import SCHEMA, Model, assert_reads_as, create_table, made_once, rows

Copy = Callable[[str, str], Path]
RINGS = ".hoodie/.bucket_index/consistent_hashing_metadata"
NO_SERVICES = bf.WriterConfig(services=None)
UUID = "0b8b5e0c-5a3c-4d4e-9c1e-6f0c7d1f2a3b"
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


@pytest.mark.rotated(1, among="repairs", one_of=2)
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


def test_a_write_by_an_older_ring_is_sent_to_the_check(tmp_path: Path) -> None:
    """The index is stated and right: to pass another one, as the message said, helps nobody."""
    table, _ = resized(tmp_path / "t")
    lost = min((Path(table.uri) / RINGS).iterdir())
    lose_the_newest(lost)
    max(lost.glob("*.commit")).unlink()
    with pytest.raises(IndexUnknownError, match=r"or run check\(\), which says .* how to mend"):
        bf.open(table.uri, writer=NO_SERVICES).upsert(rows(range(100), 6))


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


@pytest.mark.rotated(1, among="repairs", one_of=2)
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


def lookup_all(uri: str, model: Model) -> None:
    ids = [key for _, key in model.rows]
    found = bf.open(uri).lookup(ids).column("id").to_pylist()
    assert sorted(found) == sorted(ids)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_rows_that_are_deleted_and_come_back_are_on_the_ring(
    tmp_path: Path, is_compacted: bool
) -> None:
    """Their keys are in no row that readers see, but in the log, and in the slice before."""
    index = bf.ConsistentHashingIndex(4)
    table = create_table(tmp_path / "t", index, "MERGE_ON_READ", writer=NO_SERVICES)
    model = Model()
    table.upsert(rows(range(90), 1))
    model.upsert(rows(range(90), 1))
    table.resize(max_file_size=1, max_buckets=8)
    savepoint = table.savepoint()
    table.delete([key for _, key in model.rows if int(key[4:]) % 9])
    if is_compacted:
        table.compact()
    for ring in (tmp_path / "t" / RINGS).iterdir():
        lose_the_newest(ring)
    table = bf.open(tmp_path / "t", writer=NO_SERVICES)
    assert len(table.repair_rings()) == 3
    table.restore(savepoint)
    lookup_all(table.uri, model)
    assert_reads_as(table.uri, model)


@pytest.mark.rotated(1, among="repairs", one_of=2)
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("damage", [leave_the_first, cut_the_newest])
def test_a_resize_whose_ring_was_made_again_is_rolled_back(
    tmp_path: Path, version: int, damage: Callable[[Path], None]
) -> None:
    """The ring before is in force again: the new one has the time of the resize."""
    index = bf.ConsistentHashingIndex(4)
    table = create_table(
        tmp_path / "t", index, "MERGE_ON_READ", table_version=version, writer=NO_SERVICES
    )
    model = Model()
    table.upsert(rows(range(90), 1))
    model.upsert(rows(range(90), 1))
    resize = table.resize(max_file_size=1, max_buckets=8)
    assert resize is not None
    rings = [ring.name for ring in (tmp_path / "t" / RINGS).iterdir()]
    for name in rings:
        damage(tmp_path / "t" / RINGS / name)
    table = bf.open(tmp_path / "t", writer=NO_SERVICES)
    repaired = table.repair_rings()
    names = {r.partition_path: Path(r.path).name for r in repaired}
    assert names == dict.fromkeys(rings, f"{resize.instant}.hashing_meta")
    lookup_all(table.uri, model)
    table.rollback(resize.instant)
    lookup_all(table.uri, model)
    assert_reads_as(table.uri, model)
    table.upsert(rows(range(100), 2))
    model.upsert(rows(range(100), 2))
    assert_reads_as(table.uri, model)


def test_a_ring_that_leads_to_some_of_the_file_groups(tmp_path: Path) -> None:
    table, model = resized(tmp_path / "t")
    ring = min((Path(table.uri) / RINGS).iterdir())
    newest = max(ring.glob("*.hashing_meta"))
    metadata = decode_hashing_metadata(newest.read_bytes())
    left = msgspec.structs.replace(metadata, nodes=metadata.nodes[1:])
    newest.write_bytes(encode_hashing_metadata(left))
    (repaired,) = table.repair_rings()
    assert (repaired.partition_path, repaired.nodes) == (ring.name, len(metadata.nodes))
    number = len(metadata.nodes)
    assert repaired.cause == f"it leads to {number - 1} of {number} live file groups"
    lookup_all(table.uri, model)
    assert_reads_as(table.uri, model)


def test_the_ring_of_another_resize_is_made_again_with_a_number_that_follows(
    tmp_path: Path,
) -> None:
    table, model = resized(tmp_path / "t")
    ring = min((Path(table.uri) / RINGS).iterdir())
    first, *_, newest = sorted(ring.glob("*.hashing_meta"))
    newest.write_bytes(first.read_bytes())
    table.repair_rings()
    assert_reads_as(table.uri, model)


def test_the_first_ring_keeps_nodes_that_have_no_file_group_yet(tmp_path: Path) -> None:
    """It follows from the path and the number, so that it is the very ring that was lost."""
    index = bf.ConsistentHashingIndex(8)
    table = create_table(tmp_path / "t", index, "MERGE_ON_READ", writer=NO_SERVICES)
    table.upsert(rows([1], 1))
    ring = tmp_path / "t" / RINGS / "eu" / f"{INIT_INSTANT}.hashing_meta"
    before = ring.read_bytes()
    ring.write_bytes(b"{")
    assert [repaired.nodes for repaired in table.repair_rings()] == [8]
    assert ring.read_bytes() == before


def test_file_groups_of_two_rings_are_refused(tmp_path: Path) -> None:
    """Such as a writer makes that begins another ring, where it does not find that in force."""
    index = bf.ConsistentHashingIndex(2)
    table = create_table(tmp_path / "t", index, "MERGE_ON_READ", writer=NO_SERVICES)
    table.upsert(rows(range(90), 1))
    table.compact()
    ring = tmp_path / "t" / RINGS / "eu" / f"{INIT_INSTANT}.hashing_meta"
    before = ring.read_bytes()
    own = decode_hashing_metadata(before).nodes[0].file_id_prefix
    assert own is not None
    (base,) = (tmp_path / "t" / "eu").glob(f"{own}*.parquet")
    shutil.copy(base, base.with_name(base.name.replace(own, UUID)))
    table = bf.open(tmp_path / "t", writer=NO_SERVICES)
    with pytest.raises(CorruptError, match="lie among one another"):
        table.repair_rings()
    assert ring.read_bytes() == before


@pytest.mark.rotated(1, among="repairs", one_of=2)
@pytest.mark.parametrize("version", [6, 9])
def test_the_ring_of_a_partition_without_file_groups(tmp_path: Path, version: int) -> None:
    """Its first write was taken back; a damaged ring stood in the way of the next one."""
    index = bf.ConsistentHashingIndex(4)
    table = create_table(
        tmp_path / "t", index, "MERGE_ON_READ", table_version=version, writer=NO_SERVICES
    )
    table.upsert(rows(range(0, 30, 3), 1))
    table.upsert(rows(range(1, 30, 3), 2))
    table.rollback()
    ring = tmp_path / "t" / RINGS / "eu" / f"{INIT_INSTANT}.hashing_meta"
    before = ring.read_bytes()
    ring.write_bytes(b"{")
    (repaired,) = table.repair_rings()
    assert (repaired.partition_path, repaired.nodes) == ("eu", 4)
    assert ring.read_bytes() == before
    model = Model()
    for given in (rows(range(0, 30, 3), 1), rows(range(30), 3)):
        model.upsert(given)
    table.upsert(rows(range(30), 3))
    assert_reads_as(table.uri, model)


@pytest.mark.rotated(1, among="repairs", one_of=2)
@pytest.mark.parametrize(("version", "is_folder_gone"), [(6, False), (9, True)])
def test_the_ring_of_a_dropped_partition_gets_new_file_groups(
    tmp_path: Path, version: int, is_folder_gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi drops a partition and keeps its ring; a clean of Hudi removes the folder later."""
    table, model = resized(tmp_path / "t", version)
    with monkeypatch.context() as patched:  # bucketfmt itself does not do that
        patched.setattr(TableWriter, "_check_operation", lambda *_: None)
        table.delete_partitions(["eu"])
    model.drop("eu")
    if is_folder_gone:
        shutil.rmtree(tmp_path / "t" / "eu")
    table = bf.open(table.uri, writer=NO_SERVICES)
    (found,) = (each for each in table.check(depth="full").findings if each.severity != "info")
    assert (found.id, found.partition) == ("C001", "eu")
    assert "file groups of the ring were replaced" in found.evidence
    given = rows(range(100), 6)
    with pytest.raises(UnsupportedError, match="repair_rings"):
        table.upsert(given)
    ring = load_hashing_metadata(table._snapshot().state, "eu")
    assert ring is not None
    (repaired,) = table.repair_rings()
    assert (repaired.partition_path, repaired.nodes) == ("eu", len(ring.nodes))
    assert table.repair_rings() == []
    after = load_hashing_metadata(table._snapshot().state, "eu")
    assert after is not None
    assert after.file_ids.isdisjoint(ring.file_ids)
    assert [node.value for node in after.nodes] == [node.value for node in ring.nodes]
    table.upsert(given)
    model.upsert(given)
    if not is_folder_gone:
        assert_reads_as(table.uri, model)
    found_rows = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
    assert found_rows == {row["id"]: row for row in model.rows.values()}
    # No clean is on the timeline here that removed the files of the past.
    assert {each.severity for each in table.check(depth="full").findings} <= {"warning", "info"}


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
def test_the_ring_before_an_undone_resize_is_made_again(tmp_path: Path, undo: str) -> None:
    """The ring that was made again goes with its resize, and the one before is lost too."""
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
    assert {finding.id for finding in table.check(depth="full").findings} == {"C001"}
    assert [ring.partition_path for ring in table.repair_rings()] == lost
    report = table.check(depth="full")
    assert report.status == "clean", report.findings
    table.upsert(rows(range(120), 2))
    assert table.scan().count() == 120
    assert table.check(depth="full").status == "clean"
