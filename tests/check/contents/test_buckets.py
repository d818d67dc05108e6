"""B001 to B005 and B010, and the number of buckets: planted, found, and nothing else with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.check.placement.buckets import find_skew, is_bucket_shaped
from bucketfmt.check.report import CheckReport
from bucketfmt.format.names.names import BaseFileName
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from tests.check.planting import Patient, check_soon, found

pytestmark = pytest.mark.rotated

Copy = Callable[[str, str], Path]

UUID = "5a3c2b1d-1111-4222-8333-444455556666-0"


@pytest.fixture
def cow(golden_copy: Copy) -> Patient:
    return Patient(golden_copy("0.15.0", "cow"))


def in_all_depths(patient: Patient, index: bf.Index | None = None) -> list[CheckReport]:
    return [check_soon(patient.root, depth, index) for depth in ("quick", "default", "full")]


def test_b001_two_file_groups_in_one_bucket(cow: Patient) -> None:
    first = cow.base_file("us", 1)
    twin = cow.copy_file(first, file_id=f"00000001{UUID[8:]}")
    cow.record(twin, like=first)
    for report in in_all_depths(cow):
        (finding,) = report.findings
        assert (finding.id, finding.partition, finding.bucket) == ("B001", "us", 1)
        assert {first.name, twin.name} <= {path.rpartition("/")[2] for path in finding.paths}
        assert finding.severity == "error"
        assert finding.data_loss
    assert " keys are in more than one" in finding.evidence
    assert not finding.evidence.endswith("; 0 keys are in more than one")


@pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
def test_b001_log_only_file_group_beside_a_base_file(golden_copy: Copy, version: str) -> None:
    patient = Patient(golden_copy(version, "mor"))
    log = patient.log_file("eu")
    bucket = log.name[1:9]
    twin = patient.copy_file(log, file_id=f"{bucket}{UUID[8:]}")
    patient.record(twin, like=log)
    assert [found(report) for report in in_all_depths(patient)] == [{"B001"}] * 3


def test_b002_second_attempt_at_a_file(cow: Patient) -> None:
    path = cow.base_file("us", 1)
    again = cow.copy_file(path, write_token="99-9-9999")
    for report in in_all_depths(cow):
        (finding,) = report.findings
        assert (finding.id, finding.severity) == ("B002", "warning")
        assert finding.paths == (again.relative_to(cow.root).as_posix(),)
        assert not finding.data_loss


def test_b002_second_attempt_at_a_log_file(golden_copy: Copy) -> None:
    patient = Patient(golden_copy("1.2.0", "mor"))
    again = patient.copy_file(patient.log_file("us"), write_token="99-9-9999")
    (finding,) = check_soon(patient.root).findings
    assert (finding.id, finding.severity) == ("B002", "warning")
    assert finding.paths == (again.relative_to(patient.root).as_posix(),)


@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
def test_b002_second_attempt_made_its_own_file_group(golden_copy: Copy, version: str) -> None:
    patient = Patient(golden_copy(version, "cow"))
    stray = patient.copy_file(patient.base_file("us", 1), file_id=f"00000001{UUID[8:]}")
    for report in in_all_depths(patient):
        (finding,) = report.findings
        assert (finding.id, finding.severity, finding.bucket) == ("B002", "error", 1)
        assert finding.paths == (stray.relative_to(patient.root).as_posix(),)


@pytest.mark.parametrize("stated", [False, True])
def test_b003_file_id_without_a_bucket(cow: Patient, stated: bool) -> None:
    path = cow.base_file("us", 1)
    cow.record(cow.copy_file(path, file_id=UUID), like=path)
    if stated:
        cow.state_buckets(4)
    for report in in_all_depths(cow):
        (finding,) = report.findings
        assert (finding.id, finding.partition) == ("B003", "us")
        assert UUID in finding.evidence


def test_b003_bucket_in_a_table_without_buckets(golden_copy: Copy) -> None:
    patient = Patient(golden_copy("1.2.0", "bloom"))
    (group,) = patient.slices("us").values()
    path = patient.root / str(group["base_file"])
    patient.record(patient.copy_file(path, file_id=f"00000018{UUID[8:]}"), like=path)
    assert [found(report) for report in in_all_depths(patient)] == [{"B003"}] * 3


def test_random_file_ids_are_not_bucket_shaped() -> None:
    assert is_bucket_shaped("00000018-1111-4222-8333-444455556666-0")
    assert not is_bucket_shaped("12345678-1111-4222-8333-444455556666-0")
    assert not is_bucket_shaped("5a3c2b1d-1111-4222-8333-444455556666-0")


def test_b004_bucket_number_too_large(cow: Patient) -> None:
    cow.state_buckets(4)
    old = cow.base_file("us", 3).name.partition("_")[0]
    cow.rename_group("us", old, f"00000007{old[8:]}")
    for report in in_all_depths(cow):
        (finding,) = report.findings
        assert (finding.id, finding.partition, finding.bucket) == ("B004", "us", 7)


@pytest.mark.parametrize("stated", [3, 5, 8, 256])
def test_b005_stated_number_contradicts_the_keys(golden_copy: Copy, stated: int) -> None:
    patient = Patient(golden_copy("1.2.0", "mor"))
    patient.state_buckets(stated)
    quick, default, full = in_all_depths(patient)
    assert found(quick) == ({"B004"} if stated == 3 else set())
    for report in (default, full):
        (finding,) = report.findings
        assert finding.id == "B005"
        assert f"{stated} buckets are stated, but 4 is the only number" in finding.evidence


def test_b005_number_the_caller_gives_contradicts_the_keys(cow: Patient) -> None:
    report = bf.open(cow.root, index=bf.SimpleBucketIndex(8)).check()
    assert found(report) == {"B005"}


def test_b005_no_number_fits_where_none_is_stated(cow: Patient) -> None:
    one, other = (cow.base_file("us", n).name.partition("_")[0] for n in (1, 2))
    cow.rename_group("us", one, f"00000009{one[8:]}")
    cow.rename_group("us", other, f"00000001{other[8:]}")
    (finding,) = check_soon(cow.root).findings
    assert (finding.id, finding.partition) == ("B005", "us")
    assert "none fits" in finding.evidence


def test_b005_properties_contradict_each_other(cow: Patient) -> None:
    cow.state(hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="4")
    cow.state(hoodie__hash__index__bucket__num="8")
    assert found(check_soon(cow.root, "quick")) == {"B005"}


def test_b010_one_bucket_holds_nearly_all(cow: Patient) -> None:
    path = cow.base_file("us", 2)
    with path.open("ab") as file:
        file.truncate(1 << 30)  # sparse: takes no space
    cow.record(path)
    (finding,) = check_soon(cow.root, "quick").findings
    assert (finding.id, finding.severity, finding.bucket) == ("B010", "warning", 2)
    assert "suggested number of buckets 16" in finding.evidence


def slices_of(*sizes: int) -> list[FileSlice]:
    slices = []
    for bucket, size in enumerate(sizes):
        name = BaseFileName(f"{bucket:08d}{UUID[8:]}", "0-1-2", "20260101000000000", "parquet")
        file = DataFile(f"us/{name}", name, size)
        slices.append(FileSlice("us", name.file_id, name.instant, file, ()))
    return slices


def test_b010_many_tiny_buckets_are_worth_knowing() -> None:
    (finding,) = find_skew("us", slices_of(*[3 << 19] * 64))
    assert (finding.id, finding.severity, finding.bucket) == ("B010", "info", None)
    assert finding.evidence.startswith("tiny: 64 buckets, ")
    assert "suggested number of buckets 1" in finding.evidence


def test_buckets_of_a_small_table_are_no_b010() -> None:
    assert not list(find_skew("us", slices_of(*[1 << 10] * 64)))  # a toy
    assert not list(find_skew("us", slices_of(*[3 << 19] * 64, 60 << 20)))  # uneven, not large
    assert not list(find_skew("us", slices_of(*[100 << 20] * 64)))
    assert not list(find_skew("us", slices_of(300 << 20)))  # nothing to compare with


def test_what_does_not_concern_buckets_is_said(golden_copy: Copy) -> None:
    report = check_soon(golden_copy("1.2.0", "rli"))
    assert any(s.startswith("buckets: nothing states an index") for s in report.not_checked)
    report = check_soon(golden_copy("1.2.0", "bloom"), index=bf.BloomIndex())
    assert any("the index is BloomIndex()" in s for s in report.not_checked)
