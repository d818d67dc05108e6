"""Commits whose files Hudi recorded by URLs are those of files in the table (DEV-35)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
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
