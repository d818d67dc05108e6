"""Rows of rings in wrong file groups, moved to file groups of a new ring."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bucketfmt as bf
from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.buckets.hashing_metadata import HashingMetadata, decode_hashing_metadata
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.store import WRITE_VERBS
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore, Killed
from bucketfmt.testing.memory_store import MemoryStore
from tests.check.planting import Patient, check_soon, found
from tests.repair.test_buckets import ALONE, NO_SERVICES, UUID, file_ids
from tests.repair.test_rings import RINGS, cut_the_newest, lose_all, lose_the_newest
from tests.write.models import Model, assert_reads_as, create_table, rows

INDEX = bf.ConsistentHashingIndex(4)


def made(root: Path, version: int = 9) -> tuple[bf.Table, Model]:
    """Return a table whose rings were split, with all rows in base files."""
    table = create_table(root, INDEX, "MERGE_ON_READ", version, writer=NO_SERVICES)
    model = Model()
    table.upsert(rows(range(160), 1))
    model.upsert(rows(range(160), 1))
    table.resize(max_file_size=1, max_buckets=7)
    return bf.open(root, writer=NO_SERVICES), model


def bases(root: Path) -> list[Path]:
    """Return base files that readers open in a partition, with rows in each."""
    groups = bf.open(root).inspect.file_groups().to_pylist()
    own = [group for group in groups if group["partition_path"] == "eu" and group["base_file"]]
    paths = sorted(root / group["base_file"] for group in own)
    return [path for path in paths if pq.read_metadata(path).num_rows > 1]


def group_of_no_node(root: Path) -> None:
    """What a writer makes that took another ring for that in force. C004."""
    patient, (path, *_) = Patient(root), bases(root)
    patient.record(patient.copy_file(path, file_id=f"{UUID[:-2]}-0"), like=path)


def rows_moved(root: Path) -> None:
    """A writer with another hash. B006."""
    patient, (first, second, *_) = Patient(root), bases(root)
    taken: list[pa.Table] = []
    patient.rewrite(first, lambda own: (taken.append(own), own.slice(1))[1])
    patient.rewrite(
        second, lambda own: pa.concat_tables([own, taken[0].slice(0, 1).cast(own.schema)])
    )


@pytest.mark.rotated(2, among="repairs", one_of=2)
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize(
    ("damage", "code", "is_doubled"),
    [(group_of_no_node, "C004", True), (rows_moved, "B006", False)],
    ids=["no-node", "moved"],
)
def test_rows_are_moved_to_their_nodes(
    tmp_path: Path, version: int, damage: Callable[[Path], None], code: str, is_doubled: bool
) -> None:
    """Other nodes keep their file groups, and the table is written on, resized and taken back."""
    root = tmp_path / "t"
    _, model = made(root, version)
    damage(root)
    assert code in found(check_soon(root))
    table = bf.open(root, writer=NO_SERVICES)
    before = {path: file_ids(table, path) for path in ("eu", "us")}
    damaged = table.scan().to_arrow()
    planned = table.preview_repair_buckets()
    assert {each.partition_path for each in planned} == {"eu"}
    hidden = {file_id for each in planned for file_id in each.file_ids}
    assert hidden < before["eu"]
    if is_doubled:
        with pytest.raises(UnsupportedError, match="have several rows"):
            table.repair_buckets()
    assert table.repair_buckets(duplicates="latest") is not None
    assert table.repair_buckets() is None
    after = file_ids(table, "eu")
    assert before["eu"] - after == hidden
    assert file_ids(table, "us") == before["us"]
    report = bf.open(root).check(depth="full")
    assert report.status == "clean", report.findings
    assert_reads_as(root, model)
    table.rollback()
    assert file_ids(table, "eu") == before["eu"]
    assert table.scan().to_arrow().num_rows == damaged.num_rows
    assert table.repair_buckets(duplicates="latest") is not None
    for given in (rows(range(100, 200), 6), rows(range(90, 130), 7)):
        table.upsert(given)
        model.upsert(given)
    assert table.resize(max_file_size=1, max_buckets=12) is not None
    assert_reads_as(root, model)
    report = bf.open(root).check(depth="full")
    assert report.status == "clean", report.findings


@pytest.mark.rotated(1, among="repairs", one_of=2)
@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_table_that_was_written_by_two_rings(tmp_path: Path, version: int) -> None:
    """A lost ring, and the writes of somebody who began another one, as H#8479 has it."""
    root = tmp_path / "t"
    _, model = made(root, version)
    for ring in (root / RINGS).iterdir():
        lose_all(ring)
    given = rows(range(40, 120), 3, 5.0)
    other = create_table(tmp_path / "o", INDEX, "MERGE_ON_READ", version, writer=NO_SERVICES)
    other.upsert(given)
    other.compact()
    model.upsert(given)
    patient = Patient(root)
    for number, path in enumerate(sorted((tmp_path / "o").glob("*/*.parquet"))):
        like = newest_base(root, path.parent.name)
        twin = like.with_name(f"{number:08x}{UUID[8:-2]}-0_1-0-1_{like.name.rpartition('_')[2]}")
        shutil.copy(path, twin)
        patient.record(twin, like=like)
    table = bf.open(root, index=INDEX, writer=NO_SERVICES)
    assert table.scan().count() > 160
    assert table.repair_buckets(duplicates="latest") is not None
    table = bf.open(root, writer=NO_SERVICES)
    report = table.check(depth="full")
    assert report.status == "clean", report.findings
    assert_reads_as(root, model)
    table.upsert(rows(range(200), 9))
    model.upsert(rows(range(200), 9))
    assert_reads_as(root, model)


def lose_marked(ring: Path) -> None:
    """As Hudi 0.15 has it, the marker of the lost ring is among the data files."""
    instant = max(ring.glob("*.hashing_meta")).name.partition(".")[0]
    lose_all(ring)
    Path(*ring.parts[:-4], ring.name, f"{instant}.commit").touch()


@pytest.mark.rotated(1, among="repairs", one_of=2)
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("lose", [lose_marked, cut_the_newest, lose_the_newest])
def test_the_ring_of_a_repair_follows_the_one_that_is_lost(
    tmp_path: Path, version: int, lose: Callable[[Path], None]
) -> None:
    """Whatever is left of the rings before, marker or file, the table goes by the new ring."""
    root = tmp_path / "t"
    table, model = made(root, version)
    table.resize(max_file_size=1, max_buckets=12)
    rows_moved(root)
    lose(root / RINGS / "eu")
    table = bf.open(root, index=INDEX, writer=NO_SERVICES)
    done = table.repair_buckets()
    assert done is not None
    assert bf.open(root, writer=NO_SERVICES).repair_buckets() is None
    findings = [own for own in bf.open(root).check(depth="full").findings if own.severity != "info"]
    assert {(own.id, own.severity) for own in findings} <= {("C001", "warning")}
    assert bool(findings) == (lose is cut_the_newest)
    rings = [decode_or_none(path) for path in sorted((root / RINGS / "eu").glob("*.hashing_meta"))]
    numbers = [ring.seq_no for ring in rings if ring is not None]
    assert numbers == sorted(set(numbers))
    table = bf.open(root, writer=NO_SERVICES)
    table.upsert(rows(range(200), 9))
    model.upsert(rows(range(200), 9))
    for ts in range(10, 15):
        table.upsert(rows(range(5), ts))
        model.upsert(rows(range(5), ts))
    table.compact()
    table.clean(retain=1, dry_run=False)
    table.archive(min_commits=2, max_commits=3)
    table.clean(retain=1, dry_run=False)
    assert_reads_as(root, model)


@pytest.mark.rotated(1, among="repairs", one_of=2)
@pytest.mark.parametrize("version", [6, 8, 9])
def test_no_node_of_a_new_ring_leads_to_a_hidden_file_group(tmp_path: Path, version: int) -> None:
    """The resize hid those of the first ring, two nodes of which have no key at the repair."""
    root = tmp_path / "t"
    table, model = made(root, version)
    gone = [i for i in range(160) if i % 3 == 1 and i not in (1, 4)]
    table.delete(rows(gone, 2))
    model.delete([f"key-{i:06d}" for i in gone])
    table.compact()
    lose_all(root / RINGS / "eu")
    assert bf.open(root, index=INDEX, writer=NO_SERVICES).repair_buckets() is not None
    assert_reads_as(root, model)
    table = bf.open(root, writer=NO_SERVICES)
    table.upsert(rows(gone, 5))
    model.upsert(rows(gone, 5))
    assert_reads_as(root, model)


def decode_or_none(path: Path) -> HashingMetadata | None:
    with suppress(CorruptError):
        return decode_hashing_metadata(path.read_bytes())
    return None


def newest_base(root: Path, partition: str) -> Path:
    """Return a base file of the newest commit to a partition."""
    groups = bf.open(root).inspect.file_groups().to_pylist()
    own = [group for group in groups if group["partition_path"] == partition]
    paths = [root / group["base_file"] for group in own if group["base_file"]]
    return max(paths, key=lambda path: path.name.rpartition("_")[2])


@pytest.mark.parametrize("fault", [Fault.KILL_BEFORE, Fault.KILL_AFTER])
def test_a_repair_that_died_is_done_again(tmp_path: Path, fault: Fault) -> None:
    """Whatever the moment, no row is lost, and the next repair ends with a sound table."""
    root = tmp_path / "t"
    _, model = made(root)
    rows_moved(root)
    whole, config = MemoryStore.of_folder(root), bf.open(root).config
    for at in count(1):
        files = whole.copy()
        faulty = FaultyStore(files, FaultPlan(at, fault, WRITE_VERBS))
        with suppress(Killed):
            bf.Table(faulty, config, DEFAULT_LIMITS, None, ALONE).repair_buckets()
        later = bf.Table(files, config, DEFAULT_LIMITS, None, ALONE)
        assert later.scan().count() == len(model.rows)
        later.repair_buckets()
        later.upsert(rows(range(3), 9))
        report = later.check(depth="full")
        assert report.status == "clean", (at, report.findings)
        assert later.scan().count() == len(model.rows)
        if faulty.struck is None:
            break
    assert at > 8


def test_a_new_ring_is_marked_once_it_is_archived(tmp_path: Path) -> None:
    """Readers know it by its marker then."""
    root = tmp_path / "t"
    made(root, version=6)
    rows_moved(root)
    table = bf.open(root, writer=NO_SERVICES)
    done = table.repair_buckets()
    assert done is not None
    for ts in range(2, 7):
        table.upsert(rows(range(160), ts))
    table.compact()
    table.clean(retain=1, dry_run=False)
    table.archive(min_commits=2, max_commits=3)
    assert not bf.open(root).timeline.contains(done.instant)
    ring = root / RINGS / "eu" / f"{done.instant}.hashing_meta"
    assert ring.with_suffix(".commit").exists()
    assert file_ids(bf.open(root), "eu") <= decode_hashing_metadata(ring.read_bytes()).file_ids
    assert bf.open(root).lookup(["key-000001"]).column("ts").to_pylist() == [6]
