"""T002 to T005: files that the commits do not know, or that are not as the commits say."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

import bucketfmt as bf
from bucketfmt.check.files.committed_files import WriteLedger, find_leftovers
from bucketfmt.format.log.log_block import BlockType, HeaderKey, LogBlock, encode_log_block
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.names.names import find_data_file_name
from bucketfmt.format.timeline.commit_metadata import CommitMetadata, WriteStat
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.snapshot.data_files.files import DataFile
from bucketfmt.snapshot.data_files.written_files import CommitRecord
from bucketfmt.snapshot.listing import StoreLister
from bucketfmt.storage.stores.local_store import LocalStore
from bucketfmt.timeline.timeline import Timeline
from tests.check.planting import Patient, check_soon, found
from tests.instants import shift_instant

pytestmark = pytest.mark.rotated

Copy = Callable[[str, str], Path]
VERSIONS = ["0.15.0", "1.0.2", "1.2.0"]


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["base", "log"])
def test_t002_lost_file(golden_copy: Copy, version: str, kind: str) -> None:
    patient = Patient(golden_copy(version, "mor"))
    path = patient.base_file("us", 1) if kind == "base" else patient.log_file("us")
    path.unlink()
    for depth in ("quick", "default", "full"):
        (finding,) = check_soon(patient.root, depth).findings
        assert (finding.id, finding.severity, finding.partition) == ("T002", "error", "us")
        assert finding.paths == (path.relative_to(patient.root).as_posix(),)
        assert finding.data_loss


def test_t002_lost_partition(golden_copy: Copy) -> None:
    patient = Patient(golden_copy("1.2.0", "cow"))
    for path in (patient.root / "us").iterdir():
        path.unlink()
    (patient.root / "us").rmdir()
    assert found(check_soon(patient.root)) == {"T002"}


@pytest.mark.rotated(1)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["base", "log"])
@pytest.mark.parametrize("left", [0, 4, -1])
def test_t002_cut_file(golden_copy: Copy, version: str, kind: str, left: int) -> None:
    patient = Patient(golden_copy(version, "mor"))
    path = patient.base_file("us", 1) if kind == "base" else patient.log_file("us")
    path.write_bytes(path.read_bytes()[:left])
    for depth in ("default", "full"):
        (finding,) = check_soon(patient.root, depth).findings
        assert (finding.id, finding.severity, finding.partition) == ("T002", "error", "us")
        assert finding.paths == (path.relative_to(patient.root).as_posix(),)
    quick = check_soon(patient.root, "quick")
    if kind == "log" or left >= 0:
        assert [f.id for f in quick.findings] == ["T002"]
    else:  # the sizes of what Flink flushes several times are recorded as their sum
        assert (quick.status, quick.exit_code) == ("incomplete", 3)
        assert any(
            s.startswith(path.relative_to(patient.root).as_posix()) for s in quick.not_checked
        )


@pytest.mark.parametrize("version", VERSIONS)
def test_t002_log_file_that_lacks_rows(golden_copy: Copy, version: str) -> None:
    """What is left of it is sound, and as long as recorded: only the recorded rows tell."""
    patient = Patient(golden_copy(version, "mor"))
    path = patient.log_file("us")
    path.write_bytes(b"")
    patient.record(path)
    assert check_soon(patient.root, "quick").status == "clean"
    for depth in ("default", "full"):
        (finding,) = check_soon(patient.root, depth).findings
        assert (finding.id, finding.severity, finding.partition) == ("T002", "error", "us")
        assert path.relative_to(patient.root).as_posix() in finding.paths
        assert "rows in its log, and 0 are there" in finding.evidence


@pytest.mark.parametrize("version", VERSIONS)
def test_files_of_several_flushes_are_whole(golden_copy: Copy, version: str) -> None:
    """Flink records the sum of the sizes of what it flushed: more than the file has."""
    patient = Patient(golden_copy(version, "cow"))
    path = patient.base_file("us", 1).relative_to(patient.root).as_posix()

    def summed(metadata: CommitMetadata) -> CommitMetadata:
        text = msgspec.json.decode(msgspec.json.encode(metadata))
        for stats in text["partitionToWriteStats"].values():
            for stat in stats:
                if stat["path"] == path:
                    stat["fileSizeInBytes"] += 7_000
        return msgspec.convert(text, CommitMetadata)

    for instant in patient.instants:
        patient.edit_commit(instant, summed)
    for depth in ("default", "full"):
        assert check_soon(patient.root, depth).status == "clean"
    assert check_soon(patient.root, "quick").status == "incomplete"


def test_t002_base_file_larger_than_recorded(golden_copy: Copy) -> None:
    patient = Patient(golden_copy("1.2.0", "cow"))
    path = patient.base_file("us", 1)
    path.write_bytes(path.read_bytes() + b"PAR1")
    assert found(check_soon(patient.root, "quick")) == {"T002"}


def test_t002_log_file_larger_than_recorded(golden_copy: Copy) -> None:
    """From table version 8 on a log file is written once; before, a failed append may stay."""
    for version, expected in (("0.15.0", set()), ("1.2.0", {"T002"})):
        patient = Patient(golden_copy(version, "mor"))
        path = patient.log_file("us")
        path.write_bytes(path.read_bytes() + b"#HUDI#\x00\x00\x00")
        assert found(check_soon(patient.root)) == expected


def test_t002_every_page_is_compared_with_its_checksum(golden_copy: Copy) -> None:
    patient = Patient(golden_copy("1.2.0", "cow"))
    path = patient.base_file("us", 1)
    original = path.read_bytes()
    metadata = pq.read_metadata(path)
    for number in range(metadata.num_columns):
        chunk = metadata.row_group(0).column(number)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        end = start + chunk.total_compressed_size
        flip(path, end - 2)
        assert found(check_soon(patient.root, "default")) == set()
        (finding,) = check_soon(patient.root, "full").findings
        assert (finding.id, finding.severity) == ("T002", "error")
        assert chunk.path_in_schema in finding.evidence
        path.write_bytes(original)


@pytest.mark.parametrize("depth", ["default", "full"])
def test_t002_damaged_footer(golden_copy: Copy, depth: str) -> None:
    patient = Patient(golden_copy("0.15.0", "cow"))
    path = patient.base_file("us", 1)
    flip(path, path.stat().st_size - 6)
    assert found(check_soon(patient.root, "quick")) == set()
    assert found(check_soon(patient.root, depth)) == {"T002"}


@pytest.mark.parametrize("version", VERSIONS)
def test_t002_damaged_log_block(golden_copy: Copy, version: str) -> None:
    patient = Patient(golden_copy(version, "mor"))
    path = patient.log_file("us")
    flip(path, 9)  # in the length of the block
    assert found(check_soon(patient.root, "quick")) == set()
    for depth in ("default", "full"):
        (finding,) = check_soon(patient.root, depth).findings
        assert finding.id == "T002"
        assert finding.paths == (path.relative_to(patient.root).as_posix(),)


@pytest.mark.parametrize("version", VERSIONS)
def test_t002_rows_of_a_log_block_do_not_decode(golden_copy: Copy, version: str) -> None:
    patient = Patient(golden_copy(version, "mor"))
    path = patient.log_file("us")
    data = bytearray(path.read_bytes())
    (first, *_) = decode_log_file(bytes(data))
    assert isinstance(first, LogBlock)
    data[first.content_offset + 7] += 1  # the number of records: one more than there are
    path.write_bytes(data)
    assert check_soon(patient.root, "default").status == "clean"
    (finding,) = check_soon(patient.root, "full").findings
    assert (finding.id, finding.severity, finding.partition) == ("T002", "error", "us")
    assert finding.paths == (path.relative_to(patient.root).as_posix(),)
    assert f"offset {first.offset}" in finding.evidence


def test_t002_file_of_a_write_nobody_knows(golden_copy: Copy) -> None:
    patient = Patient(golden_copy("1.2.0", "cow"))
    first, *_ = patient.instants
    instant = shift_instant(first, 1)
    path = patient.base_file("us", 1)
    stray = patient.copy_file(path, instant=instant)
    for depth in ("quick", "full"):
        (finding,) = check_soon(patient.root, depth).findings
        assert (finding.id, finding.severity) == ("T002", "warning")
        assert finding.paths == (stray.relative_to(patient.root).as_posix(),)
        assert not finding.data_loss


def test_t002_file_of_a_write_that_is_newer_than_all_and_nobody_knows(golden_copy: Copy) -> None:
    """As where the timeline was restored from a copy, and the partitions were not."""
    patient = Patient(golden_copy("1.2.0", "cow"))
    stray = patient.copy_file(patient.base_file("us", 1), instant="20991231235959999")
    for depth in ("quick", "full"):
        (finding,) = check_soon(patient.root, depth).findings
        assert (finding.id, finding.severity, finding.data_loss) == ("T002", "warning", False)
        assert finding.paths == (stray.relative_to(patient.root).as_posix(),)


def test_files_of_a_write_that_begins_now_are_no_leftovers(
    golden_copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began after the timeline was listed and before the partition was."""
    patient = Patient(golden_copy("1.2.0", "cow"))
    instant = "20991231235959999"
    listed, calls = os.scandir, []

    def scandir(path: str) -> object:
        if str(path).endswith("/us") and not calls:
            calls.append(path)
            timeline = patient.root / patient.config.timeline_path
            (timeline / f"{instant}.commit.requested").touch()
            name = min(p.name for p in (patient.root / "us").glob("*.parquet"))
            patient.copy_file(patient.root / "us" / name, instant=instant)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert bf.open(patient.root).check("quick").status == "clean"
    assert calls


@pytest.mark.parametrize("version", ["1.0.2", "1.2.0"])
def test_t002_log_file_its_commit_does_not_name_is_mentioned(
    golden_copy: Copy, version: str
) -> None:
    patient = Patient(golden_copy(version, "mor"))
    path = patient.log_file("us")
    stray = path.with_name(path.name.replace(".log.1_", ".log.2_"))
    shutil.copyfile(path, stray)
    for depth in ("quick", "full"):
        (finding,) = check_soon(patient.root, depth).findings
        assert (finding.id, finding.severity) == ("T002", "info")
        assert finding.paths == (stray.relative_to(patient.root).as_posix(),)


@pytest.mark.parametrize("version", VERSIONS)
def test_t002_file_of_a_replaced_group_that_no_commit_names(
    golden_copy: Copy, version: str
) -> None:
    patient = Patient(golden_copy(version, "overwritten"))
    first = patient.instants[0]
    path = next(iter(sorted((patient.root / "us").glob(f"*_{first}.parquet"))))
    stray = patient.copy_file(path, file_id=UUID + "-0")
    for instant in patient.instants:  # as if the replacing commit hid it too

        def hiding(metadata: CommitMetadata) -> CommitMetadata:
            replaced = metadata.partition_to_replace_file_ids or {}
            if path.name.split("_")[0] not in replaced.get("us", []):
                return metadata
            replaced = {**replaced, "us": [*replaced["us"], UUID + "-0"]}
            return msgspec.structs.replace(metadata, partition_to_replace_file_ids=replaced)

        patient.edit_commit(instant, hiding)
    findings = [f for f in check_soon(patient.root, "quick").findings if f.id == "T002"]
    assert [(f.severity, f.paths) for f in findings] == [
        ("info", (stray.relative_to(patient.root).as_posix(),))
    ]


def test_a_log_file_that_another_commit_names_is_none_of_an_attempt() -> None:
    """Hudi 1.0.2 logs deletes to a ring so, and `check` told to delete the files."""
    group, first, second = f"{UUID}-0", "20240101000000000", "20240102000000000"
    rows, deletes = (f".{group}_{first}.log.1_{n}-0-1" for n in (0, 1))
    commits = [
        CommitRecord.from_metadata(
            time,
            time,
            CommitMetadata(partition_to_write_stats={"p": [WriteStat(group, f"p/{name}")]}),
            DEFAULT_LIMITS,
        )
        for time, name in ((first, rows), (second, deletes))
    ]
    names = [find_data_file_name(name) for name in (rows, deletes)]
    files = [DataFile(f"p/{name}", name, 100) for name in names if name is not None]
    assert len(files) == 2

    def told(known: list[CommitRecord]) -> list[str]:
        ledger = WriteLedger.of(Timeline((), 2), 8, known)
        return [found.id for found in find_leftovers({group: files}, [group], ledger, ())]

    assert told(commits) == []
    assert told(commits[:1]) == ["B002"]


def test_t002_file_its_commit_does_not_name(golden_copy: Copy) -> None:
    """In a table without buckets: readers see a file group that no commit wrote."""
    patient = Patient(golden_copy("1.2.0", "bloom"))
    (group,) = patient.slices("us").values()
    path = patient.root / str(group["base_file"])
    patient.copy_file(path, file_id="5a3c2b1d-1111-4222-8333-444455556666-0")
    (finding,) = check_soon(patient.root).findings
    assert (finding.id, finding.severity) == ("T002", "error")


@pytest.mark.parametrize("version", VERSIONS)
def test_t003_replaced_file_group_written_to(golden_copy: Copy, version: str) -> None:
    patient = Patient(golden_copy(version, "overwritten"))
    last = patient.instants[-1]
    first = next(
        path
        for path in sorted((patient.root / "us").glob("*.parquet"))
        if path.name.endswith(f"_{patient.instants[0]}.parquet")
    )
    like = next((patient.root / "us").glob(f"*_{last}.parquet"))
    reused = patient.copy_file(first, instant=last)
    patient.record(reused, like=like)
    for depth in ("quick", "full"):
        (finding,) = check_soon(patient.root, depth).findings
        assert (finding.id, finding.severity, finding.partition) == ("T003", "error", "us")
        assert last in finding.instants


def test_t003_overwrite_that_keeps_the_file_id(golden_copy: Copy) -> None:
    patient = Patient(golden_copy("0.15.0", "overwritten"))
    overwrite = patient.instants[2]

    def reusing(metadata: CommitMetadata) -> CommitMetadata:
        (stats,) = metadata.partition_to_write_stats.values()
        own = [stat.file_id for stat in stats]
        replaced = {"us": [*metadata.partition_to_replace_file_ids["us"], *own]}
        return msgspec.structs.replace(metadata, partition_to_replace_file_ids=replaced)

    patient.edit_commit(overwrite, reusing)
    assert found(check_soon(patient.root, "quick")) == {"T003"}


def test_t004_log_file_in_a_copy_on_write_table(golden_copy: Copy, golden: Copy) -> None:
    patient = Patient(golden_copy("0.15.0", "cow"))
    base = patient.base_file("us", 1)
    donor = Patient(golden("0.15.0", "mor"))
    log = next(
        path
        for number in range(8)
        if (path := donor.log_file("us", number)).name.startswith(".00000001")
    )
    file_id, _, instant = base.stem.split("_")
    path = base.with_name(f".{file_id}_{instant}.log.1_1-0-1")
    path.write_bytes(log.read_bytes())
    patient.record(path, like=base)
    for depth in ("quick", "default"):
        (finding,) = check_soon(patient.root, depth).findings
        assert (finding.id, finding.severity, finding.partition) == ("T004", "error", "us")


@pytest.mark.parametrize("version", VERSIONS)
def test_t005_partition_without_metadata_file(golden_copy: Copy, version: str) -> None:
    patient = Patient(golden_copy(version, "mor"))
    (patient.root / "eu/.hoodie_partition_metadata").unlink()
    for depth in ("quick", "full"):
        report = check_soon(patient.root, depth)
        (finding,) = report.findings
        assert (finding.id, finding.severity, finding.partition) == ("T005", "error", "eu")
        assert report.checked["partitions"] == 3


def test_folders_that_are_no_partitions_are_left_alone(golden_copy: Copy) -> None:
    root = golden_copy("1.2.0", "cow")
    (root / "_tmp/deeper").mkdir(parents=True)
    (root / "_tmp/deeper/part-00000-1.snappy.parquet").write_bytes(b"x")
    golden_copy_inside = root / "archive"
    (golden_copy_inside / ".hoodie").mkdir(parents=True)
    some = next((root / "us").glob("*.parquet"))
    (golden_copy_inside / some.name).write_bytes(some.read_bytes())
    report = check_soon(root)
    assert report.status == "clean"
    assert any(s.startswith("archive: a table of its own") for s in report.not_checked)


@pytest.mark.parametrize("version", VERSIONS)
def test_t002_a_table_below_the_table(golden_copy: Copy, version: str) -> None:
    """Hudi lists its partitions, and reads its rows once this table's timeline is the younger."""
    root = golden_copy(version, "cow")
    (root / "_tmp").mkdir()
    golden_copy(version, "mdt_bucket").rename(root / "_tmp/other")
    (finding,) = check_soon(root, "full").findings
    assert (finding.id, finding.severity, finding.partition) == ("T002", "error", None)
    assert finding.evidence.startswith("_tmp/other is a table of its own")
    others = StoreLister(LocalStore(f"{root}/_tmp/other")).partitions
    assert set(finding.paths) == {f"_tmp/other/{path}".rstrip("/") for path in others}
    assert set(StoreLister(LocalStore(str(root))).partitions) >= set(finding.paths)
    assert finding.fix.startswith("Move the folder of the other table")


def block(kind: BlockType, **header: str) -> bytes:
    return encode_log_block(kind, {HeaderKey[key]: value for key, value in header.items()}, b"")


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_not_supported_is_never_clean(golden_copy: Copy, version: str) -> None:
    patient = Patient(golden_copy(version, "mor"))
    path = patient.log_file("us")
    instant = patient.instants[-1]
    unknown_kind = bytearray(block(BlockType.DELETE, INSTANT_TIME=instant))
    unknown_kind[21] = 17
    newer_header = encode_log_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: instant, 99: "x"})
    for data in (bytes(unknown_kind), newer_header):
        path.write_bytes(data)
        patient.record(path)
        report = check_soon(patient.root)
        assert (report.status, report.exit_code) == ("incomplete", 3)
        assert not report


def test_files_from_outside_hudi_are_not_supported(golden_copy: Copy) -> None:
    root = golden_copy("1.2.0", "cow")
    (root / "us/data.parquet_20260101000000000_hudiext").write_bytes(b"")
    report = check_soon(root, "quick")
    assert (report.status, report.exit_code) == ("incomplete", 3)


def test_base_files_in_other_formats_are_not_supported(golden_copy: Copy) -> None:
    patient = Patient(golden_copy("1.2.0", "cow"))
    path = patient.base_file("us", 1)
    patient.rename_group("us", path.name, path.name.replace(".parquet", ".orc"))
    report = check_soon(patient.root)
    assert report.status == "incomplete", report.findings


UUID = "5a3c2b1d-1111-4222-8333-444455556666"
