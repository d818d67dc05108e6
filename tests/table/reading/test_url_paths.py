"""Commits whose files Hudi recorded by URLs are those of files in the table (DEV-35)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from tests.check.metadata.metadata_planting import edit_records
from tests.check.planting import Patient, check_soon

Copy = Callable[[str, str], Path]


def with_urls(root: Path, url: str) -> None:
    """Put what Hudi leaves of a URL before the path of each log file that commits record."""

    def change(metadata: CommitMetadata) -> CommitMetadata:
        stats = {
            partition: [
                msgspec.structs.replace(stat, path=f"{url}{stat.path}")
                if stat.log_version is not None
                else stat
                for stat in own
            ]
            for partition, own in metadata.partition_to_write_stats.items()
        }
        return msgspec.structs.replace(metadata, partition_to_write_stats=stats)

    patient = Patient(root)
    for instant in patient.instants:
        patient.edit_commit(instant, change)


def rows_of(scan: bf.Scan) -> pa.Table:
    return scan.to_arrow().sort_by("_hoodie_record_key").combine_chunks()


@pytest.mark.parametrize("url", ["file:", "hdfs://nn:8020", "s3a://b/t/"])
@pytest.mark.parametrize(
    ("version", "name"), [("0.15.0", "mor"), ("1.2.0", "mor"), ("1.2.0", "nbcc")]
)
def test_all_that_reads_commits_takes_the_files_for_those_of_the_table(
    golden_copy: Copy, version: str, name: str, url: str
) -> None:
    root = golden_copy(version, name)
    before = bf.open(root)
    expected = rows_of(before.scan(meta_columns=True))
    changes = rows_of(before.changes(None, meta_columns=True))
    files = before.files().sort_by("path")
    with_urls(root, url)
    table = bf.open(root)
    assert rows_of(table.scan(meta_columns=True)).equals(expected)
    assert rows_of(table.changes(None, meta_columns=True)).equals(changes)
    assert table.files().sort_by("path").equals(files)
    assert any(url.encode() in path.read_bytes() for path in root.rglob("*.deltacommit"))
    report = check_soon(root)
    assert report.status == "clean", report.findings


def cut_in_metadata_table(root: Path) -> list[str]:
    """List the log files in the metadata table as Hudi does, which cuts the path that has a URL.

    Returns:
        The names that the metadata table has for them.
    """
    cut: list[str] = []

    def change(key: str, fields: dict[str, Any]) -> dict[str, dict[str, Any]]:
        files = fields["filesystemMetadata"] or {}
        for name in [name for name in files if ".log." in name]:
            cut.append(f"file:{key}/{name}"[len(key) + 1 :])
            files[cut[-1]] = files.pop(name)
        return {key: fields}

    edit_records(root, "files", change)
    return cut


@pytest.mark.parametrize("version", ["1.0.2", "1.2.0"])
def test_files_are_read_that_the_metadata_table_lists_by_a_part_of_the_url(
    golden_copy: Copy, version: str
) -> None:
    root = golden_copy(version, "mdt_bucket")
    before = bf.open(root)
    expected = rows_of(before.scan(meta_columns=True))
    keys = expected["_hoodie_record_key"].unique()
    by = [("id", "ascending"), ("region", "ascending")]
    found = before.lookup(keys).sort_by(by)
    with_urls(root, "file:")
    cut = cut_in_metadata_table(root)
    assert cut
    table = bf.open(root)
    assert rows_of(table.scan(meta_columns=True)).equals(expected)
    assert table.lookup(keys).sort_by(by).equals(found)
    findings = [each for each in check_soon(root).findings if each.id == "M001"]
    assert any(repr(cut[0]) in each.evidence for each in findings)
    assert all("metadata_table.rebuild" in each.fix for each in findings)
    table.metadata_table.rebuild("files")
    assert check_soon(root).status == "clean"
    assert rows_of(bf.open(root).scan(meta_columns=True)).equals(expected)


@pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
def test_a_write_with_urls_is_rolled_back(golden_copy: Copy, version: str) -> None:
    root = golden_copy(version, "rolledback_mor")
    table = bf.open(root)
    expected = table.to_arrow().sort_by("id")
    table.upsert(expected.slice(0, 5).set_column(1, "name", [["url"] * 5]))
    assert table.to_arrow().column("name").to_pylist().count("url") == 5
    with_urls(root, "hdfs://nn:8020")
    assert table.rollback().instant is not None
    assert bf.open(root).to_arrow().sort_by("id").equals(expected)
    assert check_soon(root).status == "clean"


def test_hostile_urls_stay_refused(golden_copy: Copy) -> None:
    root = golden_copy("1.2.0", "mor")
    with_urls(root, "file:../")
    with pytest.raises(bf.errors.UnsafePathError, match="begins with a drive or a URL scheme"):
        bf.open(root).to_arrow()
