"""T004, T008 and T009: what lies in a partition and is no file that readers open."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.check.report import Finding
from bucketfmt.errors import BucketfmtError, CorruptError, StorageError
from bucketfmt.write.rows import gathering
from tests.check.planting import Patient, check_soon
from tests.write.models import create_table, rows

pytestmark = pytest.mark.rotated

Copy = Callable[[str, str], Path]
VERSIONS = ["0.15.0", "1.0.2", "1.2.0"]
UUID = "5a3c2b1d-1111-4222-8333-444455556666"
DEPTHS = ("quick", "default", "full")


def only_finding(root: Path) -> Finding:
    """Every depth finds this, and nothing else."""
    found = [check_soon(root, depth).findings for depth in DEPTHS]
    assert found[0] == found[1] == found[2]
    (finding,) = found[0]
    return finding


def put_link_to_nothing(path: Path) -> None:
    path.symlink_to("nothing")


def put_link_out(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def put_dangling_link_out(path: Path) -> None:
    path.symlink_to("/no/such/file")


def put_loop(path: Path) -> None:
    path.symlink_to(path.name)


ENTRIES = {
    "link to nothing": (put_link_to_nothing, "a symbolic link to nothing"),
    "link out": (put_link_out, "a symbolic link out of the table, which is not followed"),
    "dangling link out": (
        put_dangling_link_out,
        "a symbolic link out of the table, which is not followed",
    ),
    "loop": (put_loop, "a symbolic link to nothing"),
    "pipe": (os.mkfifo, "neither a file nor a folder"),
}


@pytest.mark.parametrize("kind", ENTRIES)
@pytest.mark.parametrize(
    "name", ["stray", "5a3c2b1d-1111-4222-8333-444455556666-0_1-0-1_{}.parquet"]
)
def test_t008_entry_that_nobody_reads(golden_copy: Copy, kind: str, name: str) -> None:
    """Under any name: also that of a data file of a write that is under way."""
    root = golden_copy("1.2.0", "cow")
    rows = bf.open(root).scan().to_arrow().sort_by("id")
    put, evidence = ENTRIES[kind]
    path = root / "us" / name
    put(path)
    assert bf.open(root).scan().to_arrow().sort_by("id").equals(rows)
    assert [f["path"] for f in bf.open(root).inspect.files().to_pylist()]
    finding = only_finding(root)
    assert (finding.id, finding.severity, finding.data_loss) == ("T008", "warning", False)
    assert (finding.partition, finding.paths) == ("us", (path.relative_to(root).as_posix(),))
    assert finding.evidence == evidence


@pytest.mark.rotated(1)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", [*ENTRIES, "folder"])
@pytest.mark.parametrize("what", ["base", "log"])
def test_t002_file_that_readers_need_is_no_file(
    golden_copy: Copy, version: str, kind: str, what: str
) -> None:
    """Nothing is read in its place, and no row is passed over."""
    patient = Patient(golden_copy(version, "mor"))
    path = patient.base_file("us", 1) if what == "base" else patient.log_file("us")
    path.unlink()
    put = Path.mkdir if kind == "folder" else ENTRIES[kind][0]
    put(path)
    with pytest.raises(BucketfmtError) as caught:
        bf.open(patient.root).scan().to_arrow()
    assert path.name in str(caught.value)
    for depth in DEPTHS:
        findings = check_soon(patient.root, depth).findings
        assert {finding.id for finding in findings} <= {"T002", "T008"}
        assert any(f.id == "T002" and f.severity == "error" for f in findings)
        assert all(f.paths == (path.relative_to(patient.root).as_posix(),) for f in findings)


@pytest.mark.parametrize("put", [put_link_to_nothing, put_loop, Path.mkdir, os.mkfifo])
def test_a_lost_file_of_an_archived_commit_is_not_passed_over(
    golden_copy: Copy, put: Callable[[Path], None]
) -> None:
    """Only the folder names it: no commit of the active timeline does."""
    patient = Patient(golden_copy("1.2.0", "cow"))
    first, *others = patient.instants
    path = next(p for p in sorted((patient.root / "us").glob(f"*_{first}.parquet")))
    for later in (patient.root / "us").glob(f"{path.name[:8]}*"):
        if later != path:
            later.unlink()
    for instant in [first, *others[:-1]]:
        for file in (patient.root / patient.config.timeline_path).glob(f"{instant}*"):
            file.unlink()
    path.unlink()
    put(path)
    scan = bf.open(patient.root).scan(filter=[("region", "=", "us")])
    with pytest.raises((CorruptError, StorageError)):
        scan.to_arrow()


@pytest.mark.parametrize("version", VERSIONS)
def test_t009_files_from_elsewhere(golden_copy: Copy, version: str) -> None:
    root = golden_copy(version, "mor")
    names = ["_SUCCESS", "notes.txt", "part-00000-1.snappy.parquet", ".x.swp"]
    for name in names:
        (root / "us" / name).write_bytes(b"x")
    (root / "us/.notes.txt.crc").write_bytes(b"x")
    finding = only_finding(root)
    assert (finding.id, finding.severity, finding.partition) == ("T009", "info", "us")
    assert finding.paths == tuple(f"us/{name}" for name in sorted(names))
    assert finding.evidence == "4 files: '.x.swp', '_SUCCESS', 'notes.txt', ..."
    assert check_soon(root).status == "clean"


@pytest.mark.parametrize("version", VERSIONS)
def test_t004_log_file_that_no_reader_opens(golden_copy: Copy, golden: Copy, version: str) -> None:
    """As where a table was once MERGE_ON_READ: a log file of an older slice."""
    patient = Patient(golden_copy(version, "cow"))
    first, last = patient.instants[0], patient.instants[-1]
    newest = next(p for p in sorted((patient.root / "us").glob(f"*_{last}.parquet")))
    file_id = newest.name.split("_")[0]
    log = patient.root / "us" / f".{file_id}_{first}.log.1_1-0-1"
    shutil.copyfile(Patient(golden(version, "mor")).log_file("us"), log)
    finding = only_finding(patient.root)
    assert (finding.id, finding.severity) == ("T004", "info")
    assert finding.paths == (log.relative_to(patient.root).as_posix(),)
    assert check_soon(patient.root).status == "clean"


def test_rows_in_the_root_of_a_partitioned_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create_table(tmp_path / "t", bf.SimpleBucketIndex(1))
    table.upsert(rows(range(9), 1))
    with monkeypatch.context() as patch:
        patch.setattr(gathering, "partition_paths", lambda rows, _: pa.chunked_array([[""] * 9]))
        table.upsert(rows(range(9), 2))
    finding = only_finding(tmp_path / "t")
    assert finding.id == "T002"
    assert finding.evidence == "rows in the root of the table, which is partitioned by region"
    (path,) = finding.paths
    assert path in bf.open(table.uri).files()["path"].to_pylist()
    assert "/" not in path
