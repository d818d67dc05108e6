"""T002 for what only reads of the past need: lost, or deleted by a service that says so."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.check.files.past_files import PastFile, Removals, find_lost_past
from bucketfmt.check.report import Finding
from bucketfmt.errors import CorruptError
from bucketfmt.format.timeline.plans import CleanerPlan, CleanFileInfo
from bucketfmt.format.timeline.service_metadata import (
    CleanMetadata,
    CleanPartitionMetadata,
    RestoreMetadata,
    RollbackMetadata,
    RollbackPartitionMetadata,
)
from bucketfmt.timeline.history_writer import HistoryWriter
from tests.check.planting import Patient, check_at, check_soon

pytestmark = pytest.mark.rotated

Copy = Callable[[str, str], Path]
VERSIONS = ["0.15.0", "1.0.2", "1.2.0"]
DEPTHS = ("quick", "default", "full")
ROWS = pa.table({"id": ["a", "b", "c"], "city": ["sf", "ny", "sf"], "n": [1, 2, 3]})


def lost_past(root: Path) -> Finding:
    """Every depth finds this, and nothing else."""
    found = [check_soon(root, depth).findings for depth in DEPTHS]
    assert found[0] == found[1] == found[2]
    (finding,) = found[0]
    assert (finding.id, finding.severity, finding.data_loss) == ("T002", "warning", True)
    return finding


def older_files(root: Path, partition: str) -> list[Path]:
    """The data files of a partition that no reader opens now."""
    read = {root / row["path"] for row in bf.open(root).inspect.files().to_pylist()}
    files = {p for p in (root / partition).iterdir() if p.is_file() and p.suffix != ".crc"}
    return sorted(p for p in files - read if not p.name.startswith(".hoodie_partition"))


@pytest.mark.rotated(1)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["cow", "mor_compacted", "timetravel"])
def test_t002_lost_file_of_an_older_slice(golden_copy: Copy, version: str, name: str) -> None:
    root = golden_copy(version, name)
    first = Patient(root).instants[0]
    now = bf.open(root).scan().to_arrow().sort_by("id")
    path = next(p for p in older_files(root, "us") if p.name.endswith(".parquet"))
    path.unlink()
    finding = lost_past(root)
    assert finding.partition == "us"
    assert finding.paths == (path.relative_to(root).as_posix(),)
    assert finding.instants == (path.stem.split("_")[2],)
    assert bf.open(root).scan().to_arrow().sort_by("id").equals(now)
    if finding.instants == (first,):
        with pytest.raises(CorruptError, match="does not exist"):
            bf.open(root).scan(as_of=first).to_arrow()


@pytest.mark.parametrize("version", VERSIONS)
def test_t002_lost_log_file_of_an_older_slice(golden_copy: Copy, version: str) -> None:
    root = golden_copy(version, "mor_compacted")
    path = next(p for p in older_files(root, "us") if ".log." in p.name)
    path.unlink()
    assert lost_past(root).paths == (path.relative_to(root).as_posix(),)


@pytest.mark.parametrize("version", VERSIONS)
def test_t002_lost_file_of_a_replaced_file_group(golden_copy: Copy, version: str) -> None:
    root = golden_copy(version, "overwritten")
    path = next(p for p in older_files(root, "us") if p.name.endswith(".parquet"))
    path.unlink()
    assert lost_past(root).paths == (path.relative_to(root).as_posix(),)


@pytest.mark.parametrize("version", VERSIONS)
def test_lost_files_of_one_file_group_are_one_finding(golden_copy: Copy, version: str) -> None:
    root = golden_copy(version, "mor_compacted")
    one = older_files(root, "us")[0].name.lstrip(".").split("_")[0]
    lost = [path for path in older_files(root, "us") if one in path.name]
    assert len(lost) > 1
    for path in lost:
        path.unlink()
    finding = lost_past(root)
    assert finding.evidence.startswith(f"{len(lost)} older files of file group {one} ")
    assert len(finding.instants) > 1
    assert f"completed commits ({', '.join(finding.instants)}) and not there" in finding.evidence


def test_many_commits_of_lost_files_are_cut_in_the_text() -> None:
    files = [PastFile("p", "f", f"p/f_1-0-1_{number}.parquet", str(number)) for number in range(5)]
    (finding,) = find_lost_past(files)
    assert "completed commits (0, 1, 2 and 2 more) and not there" in finding.evidence
    assert finding.instants == ("0", "1", "2", "3", "4")


def cleaned_table(root: Path, table_version: int, policy: str) -> bf.Table:
    """A table with six commits, and a clean that deleted most of what they wrote."""
    table = bf.create(
        root,
        schema=ROWS.schema,
        record_key=["id"],
        partition_by=["city"],
        index=bf.SimpleBucketIndex(1),
        table_version=table_version,
    )
    for number in range(6):
        table.upsert(ROWS.set_column(2, "n", pa.array([number] * 3)))
    result = table.clean(policy=policy, retain=2, dry_run=False)  # type: ignore[arg-type]
    assert len(result.files) == (6 if policy == "KEEP_LATEST_COMMITS" else 8)
    return table


@pytest.mark.parametrize("table_version", [6, 8, 9])
@pytest.mark.parametrize("policy", ["KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"])
def test_what_a_clean_deleted_is_not_lost(tmp_path: Path, table_version: int, policy: str) -> None:
    table = cleaned_table(tmp_path, table_version, policy)
    assert all(check_soon(tmp_path, depth).status == "clean" for depth in DEPTHS)
    kept = older_files(tmp_path, "sf")
    kept[0].unlink()
    assert lost_past(tmp_path).paths == (kept[0].relative_to(tmp_path).as_posix(),)
    assert table.scan().count() == 3


@pytest.mark.parametrize("table_version", [6, 9])
def test_lost_files_of_the_past_are_told_until_their_commits_are_archived(
    tmp_path: Path, table_version: int
) -> None:
    """As `fix` says; a clean does not delete what is not there, and so ends nothing."""
    table = cleaned_table(tmp_path, table_version, "KEEP_LATEST_COMMITS")
    older_files(tmp_path, "sf")[0].unlink()
    assert "until these commits are archived" in lost_past(tmp_path).fix
    table.clean(retain=1, dry_run=False)
    assert lost_past(tmp_path)
    table.archive(min_commits=1, max_commits=1)
    assert all(check_soon(tmp_path, depth).status == "clean" for depth in DEPTHS)


@pytest.mark.parametrize("table_version", [6, 9])
def test_what_an_archived_clean_deleted_is_not_lost(tmp_path: Path, table_version: int) -> None:
    """The commits whose files the clean deleted are active still."""
    table = cleaned_table(tmp_path, table_version, "KEEP_LATEST_COMMITS")
    cleans = table.timeline.completed.of("clean").instants
    history = HistoryWriter(table.store, table.config, table.limits, lambda: None)
    history.put_archived(cleans)
    history.delete_active(cleans)
    assert not bf.open(tmp_path).timeline.of("clean").instants
    assert all(check_soon(tmp_path, depth).status == "clean" for depth in DEPTHS)
    older_files(tmp_path, "sf")[0].unlink()
    assert lost_past(tmp_path).partition == "sf"
    history = tmp_path / table.config.history_path
    for path in history.glob(".commits_*" if table_version == 6 else "*.parquet"):
        path.write_bytes(path.read_bytes()[:-9])
    report = check_soon(tmp_path)  # now nobody can tell
    assert {finding.id for finding in report.findings} == {"T001"}
    assert any("only reads of the past" in sentence for sentence in report.not_checked)


@pytest.mark.parametrize("table_version", [6, 9])
def test_what_a_clean_under_way_deleted_is_not_lost(tmp_path: Path, table_version: int) -> None:
    table = cleaned_table(tmp_path, table_version, "KEEP_LATEST_COMMITS")
    (clean,) = table.timeline.completed.of("clean").instants
    (tmp_path / table.config.timeline_path / clean.file_name).unlink()
    assert all(check_at(tmp_path, timedelta(1), depth).status == "clean" for depth in DEPTHS)


def test_what_deleted_the_files_cannot_be_read(tmp_path: Path) -> None:
    table = cleaned_table(tmp_path, 9, "KEEP_LATEST_COMMITS")
    (clean,) = table.timeline.completed.of("clean").instants
    path = tmp_path / table.config.timeline_path / clean.file_name
    path.write_bytes(path.read_bytes()[:-9])
    report = check_soon(tmp_path)
    assert {finding.id for finding in report.findings} == {"T001"}
    assert any("what deleted them cannot be read" in s for s in report.not_checked)


def test_a_table_that_is_cleaned_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeline was loaded before the clean, the folders were listed after it."""
    cleaning = cleaned_table(tmp_path, 9, "KEEP_LATEST_FILE_VERSIONS")
    listed = os.scandir
    is_done = False

    def scandir(path: str) -> object:
        nonlocal is_done
        if not is_done and str(path).endswith("/sf"):
            is_done = True
            assert cleaning.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False).files
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    report = bf.open(tmp_path).check("quick")
    assert is_done
    assert (report.status, report.findings) == ("incomplete", ())
    assert any("written to while it was checked" in s for s in report.not_checked)


def removed(*contents: object) -> list[str]:
    """Which of some files these contents of instants explain."""
    removals = Removals()
    for content in contents:
        removals.add("5", content)  # type: ignore[arg-type]
    files = [PastFile("p", "f", f"p/{name}", "3") for name in "abcde"]
    files.append(PastFile("p", "f", "p/late", "7"))
    return [file.path for file in files if removals.explain(file)]


def cleaned(**fields: object) -> CleanMetadata:
    partition = CleanPartitionMetadata(
        partition_path="p",
        policy="KEEP_LATEST_COMMITS",
        **{
            "delete_path_patterns": [],
            "success_delete_files": [],
            "failed_delete_files": [],
            **fields,
        },  # type: ignore[arg-type]
    )
    return CleanMetadata(
        start_clean_time="5",
        time_taken_in_millis=1,
        total_files_deleted=1,
        earliest_commit_to_retain="",
        partition_metadata={"p": partition},
    )


def test_what_services_say_they_deleted() -> None:
    """Names, or whole paths in the metadata of older releases."""
    assert removed(cleaned(success_delete_files=["a"])) == ["p/a"]
    assert removed(cleaned(failed_delete_files=["file:/t/p/b"])) == ["p/b"]
    assert removed(cleaned(delete_path_patterns=["c"])) == ["p/c"]
    assert removed(
        CleanerPlan(policy="", files_to_be_deleted_per_partition={"p": ["d"], "q": ["a"]})
    ) == ["p/d"]
    files = {"p": [CleanFileInfo(file_path="s3://b/t/p/e")]}
    assert removed(CleanerPlan(policy="", file_paths_to_be_deleted_per_partition=files)) == ["p/e"]
    everything = [f"p/{name}" for name in "abcde"]
    assert removed(cleaned(is_partition_deleted=True)) == everything
    assert removed(CleanerPlan(policy="", partitions_to_be_deleted=["p"])) == everything
    assert removed(CleanerPlan(policy="", partitions_to_be_deleted=["q"])) == []
    partition = RollbackPartitionMetadata(
        partition_path="p", success_delete_files=["file:/t/p/a"], failed_delete_files=["b"]
    )
    rollback = RollbackMetadata(
        start_rollback_time="5",
        time_taken_in_millis=1,
        total_files_deleted=2,
        commits_rollback=["4"],
        partition_metadata={"p": partition},
    )
    restore = RestoreMetadata(
        start_restore_time="5",
        time_taken_in_millis=1,
        instants_to_rollback=["4"],
        hoodie_restore_metadata={"4": [rollback]},
    )
    assert removed(rollback) == removed(restore) == ["p/a", "p/b"]
