"""T002 where rows are of another file or partition: sound files in the place of others."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from bucketfmt.rows.columns.meta_columns import PARTITION_PATH
from tests.check.planting import Patient, check_soon

pytestmark = pytest.mark.rotated

Copy = Callable[[str, str], Path]
VERSIONS = ["0.15.0", "1.0.2", "1.2.0"]


def swap(patient: Patient, first: Path, second: Path) -> tuple[str, ...]:
    """Exchange two files, as if they were as long as recorded; return their paths."""
    held = first.read_bytes(), second.read_bytes()
    first.write_bytes(held[1])
    second.write_bytes(held[0])
    for path in (first, second):
        patient.record(path)
    return tuple(sorted(path.relative_to(patient.root).as_posix() for path in (first, second)))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["cow", "mor_compacted"])
def test_t002_base_files_of_two_partitions_are_swapped(
    golden_copy: Copy, version: str, name: str
) -> None:
    """The keys are in the right buckets: nothing else tells."""
    patient = Patient(golden_copy(version, name))
    paths = swap(patient, patient.base_file("eu", 1), patient.base_file("us", 1))
    assert check_soon(patient.root, "quick").findings == ()
    for depth in ("default", "full"):
        findings = check_soon(patient.root, depth).findings
        assert tuple(path for f in findings for path in f.paths) == paths
        for finding, other in zip(findings, ("us", "eu"), strict=True):
            assert (finding.id, finding.severity, finding.data_loss) == ("T002", "error", True)
            assert finding.evidence.startswith(f"it has rows of partition '{other}': ")


def test_t002_a_row_of_another_partition(golden_copy: Copy) -> None:
    """As of a writer that mixes them up: Hudi's UPDATE goes by the column, not by the folder."""
    patient = Patient(golden_copy("1.2.0", "cow"))

    def with_another(rows: pa.Table) -> pa.Table:
        place = rows.schema.get_field_index(PARTITION_PATH)
        paths = ["eu", *rows.column(place).to_pylist()[1:]]
        return rows.set_column(place, rows.schema.field(place), [paths])

    path = patient.base_file("us", 1)
    patient.rewrite(path, with_another)
    for depth in ("default", "full"):
        (finding,) = check_soon(patient.root, depth).findings
        assert (finding.id, finding.severity, finding.partition) == ("T002", "error", "us")
        assert finding.evidence.startswith("it has rows of partition 'eu': ")
        assert finding.paths == (path.relative_to(patient.root).as_posix(),)


@pytest.mark.parametrize("version", VERSIONS)
def test_t002_log_files_of_two_partitions_are_swapped(golden_copy: Copy, version: str) -> None:
    patient = Patient(golden_copy(version, "mor"))
    paths = swap(patient, patient.log_file("eu"), patient.log_file("us"))
    findings = [f for f in check_soon(patient.root).findings if "has rows of" in f.evidence]
    assert tuple(path for finding in findings for path in finding.paths) == paths
    assert {(f.id, f.severity, f.partition) for f in findings} == {
        ("T002", "error", "eu"),
        ("T002", "error", "us"),
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["cow", "mor_compacted", "overwritten"])
def test_t002_base_file_is_an_older_copy(golden_copy: Copy, version: str, name: str) -> None:
    """What a restore from a backup leaves, and as many bytes."""
    patient = Patient(golden_copy(version, name))
    newest = next(
        patient.root / str(row["base_file"])
        for row in patient.slices("us").values()
        if len(list((patient.root / "us").glob(f"{row['file_id']}*"))) > 1
    )
    file_id = newest.name.split("_")[0]
    oldest = min(
        (patient.root / "us").glob(f"{file_id}*.parquet"), key=lambda p: p.stem.split("_")[2]
    )
    assert oldest != newest
    shutil.copyfile(oldest, newest)
    patient.record(newest)
    for depth in ("default", "full"):
        (finding,) = (f for f in check_soon(patient.root, depth).findings if f.id == "T002")
        assert (finding.severity, finding.data_loss) == ("warning", True)
        assert finding.paths == (newest.relative_to(patient.root).as_posix(),)
        assert finding.evidence.startswith(f"its rows are of file {oldest.name}: ")


def test_t002_a_log_file_of_deletes_is_that_of_another_partition(golden_copy: Copy) -> None:
    """As long as the file whose place it has: no size tells."""
    root = golden_copy("1.2.0", "dms_mor")
    (other,) = (root / "eu").glob(".00000001-3948*.log.1_1-13-29")
    (own,) = (root / "us").glob(".00000000-15b0*.log.1_2-13-30")
    assert own.stat().st_size == other.stat().st_size
    shutil.copyfile(other, own)
    (finding,) = check_soon(root).findings
    assert (finding.id, finding.severity, finding.partition) == ("T002", "error", "us")
    assert finding.paths == (own.relative_to(root).as_posix(),)
    assert finding.evidence.startswith("it has deletes of partition 'eu': ")
