"""Metadata files of partitions, made again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.format.table.properties import decode_partition_metadata
from tests.check.planting import Patient, check_soon, found
from tests.same_rows import assert_same
from tests.write.models import NO_SERVICES, create_table, rows

Copy = Callable[[str, str], Path]
VERSIONS = ["0.15.0", "1.0.2", "1.2.0"]
METAFILE = ".hoodie_partition_metadata"


@pytest.mark.rotated(1)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["cow", "mor", "nonpart"])
def test_a_partition_gets_its_file_again(golden_copy: Copy, version: str, name: str) -> None:
    """With the time of the first commit to the partition, as its first writer has it."""
    root = golden_copy(version, name)
    before = bf.open(root).scan().to_arrow()
    lost = sorted(root.glob(f"eu/{METAFILE}")) or [root / METAFILE]
    (path,) = lost
    whole = decode_partition_metadata(path.read_bytes())
    path.unlink()
    path.with_name(f".{METAFILE}.crc").unlink(missing_ok=True)
    table = bf.open(root)
    partition = "eu" if path.parent.name == "eu" else ""
    assert table.repair_partitions(dry_run=True) == [partition]
    assert not path.exists()
    assert table.repair_partitions() == [partition]
    assert table.repair_partitions() == []
    again = decode_partition_metadata(path.read_bytes())
    assert again.partition_depth == whole.partition_depth
    assert again.commit_time >= whole.commit_time
    assert again.commit_time in bf.open(root).timeline.requested_times
    assert check_soon(root).status == "clean"
    assert_same(bf.open(root).scan().to_arrow(), before)


def test_a_copy_that_was_put_aside_is_no_partition(golden_copy: Copy) -> None:
    """Unless somebody says that it is."""
    patient = Patient(golden_copy("1.2.0", "cow"))
    aside = patient.root / "us_before"
    shutil.copytree(patient.root / "us", aside)
    (aside / METAFILE).unlink()
    assert found(check_soon(patient.root)) == {"T002", "T005"}
    table = bf.open(patient.root)
    assert table.repair_partitions() == []
    assert table.repair_partitions(["us"]) == []
    with pytest.raises(ValueError, match="there are no data files in 'nowhere'"):
        table.repair_partitions(["us", "nowhere"])
    assert not (aside / METAFILE).exists()
    assert not (patient.root / "nowhere").exists()
    assert table.repair_partitions(["us_before"]) == ["us_before"]
    assert (aside / METAFILE).exists()


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("name", ["files", "column_stats", "record_index"])
def test_a_metadata_table_that_is_made_before_the_repair_has_the_partition(
    tmp_path: Path, version: int, name: str
) -> None:
    """Hudi, which goes by it, missed the rows of the partition for good."""
    root = tmp_path / "t"
    table = create_table(root, bf.SimpleBucketIndex(2), table_version=version, writer=NO_SERVICES)
    table.upsert(rows(range(30), 1))
    (root / "eu" / METAFILE).unlink()
    table = bf.open(root, writer=NO_SERVICES)
    for each in dict.fromkeys(("files", name)):
        table.metadata_table.init(each)
    assert found(table.check(depth="full")) == {"T005"}
    assert table.repair_partitions() == ["eu"]
    table.upsert(rows(range(20, 40), 2))
    report = bf.open(root).check(depth="full")
    assert report.status == "clean", report.findings
    assert bf.open(root).scan().count() == 40
