"""P001 and P002: rules for the number of buckets that cannot be used, or that nothing committed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bucketfmt as bf
from bucketfmt.check.report import Finding
from tests.check.planting import Patient, check_soon, found
from tests.instants import shift_instant
from tests.write.models import create_table, rows

Copy = Callable[[str, str], Path]

FOLDER = ".hoodie/.bucket_index/partition_bucket_index_meta/configs"
DEPTHS = ("quick", "default", "full")


@pytest.fixture
def patient(golden_copy: Copy) -> Patient:
    """Two sets of rules; in force are those of the second: `us,1;ap,5`, else 2."""
    return Patient(golden_copy("1.2.0", "partrules"))


def configs(patient: Patient) -> list[Path]:
    return sorted((patient.root / FOLDER).glob("*.hashing_config"))


def edit(patient: Patient, **changes: Any) -> Path:
    """Change the rules in force."""
    newest = configs(patient)[-1]
    newest.write_text(json.dumps({**json.loads(newest.read_text()), **changes}))
    return newest


def only_finding(patient: Patient, depth: str) -> Finding:
    (finding,) = check_soon(patient.root, depth).findings
    assert finding.severity == "error"
    assert finding.data_loss
    return finding


def test_p001_no_rules_left(patient: Patient) -> None:
    for path in configs(patient):
        path.unlink()
    for depth in DEPTHS:
        finding = only_finding(patient, depth)
        assert (finding.id, finding.partition, finding.paths) == ("P001", None, (FOLDER,))


@pytest.mark.parametrize(
    ("content", "evidence"),
    [
        (b"", "hashing config"),
        (b'{"expressions":', "hashing config"),
        (b"\x00\xff" * 40, "hashing config"),
        (b'{"expressions":"us,1","defaultBucketNumber":"two"}', "hashing config"),
    ],
)
def test_p001_rules_do_not_decode(patient: Patient, content: bytes, evidence: str) -> None:
    newest = configs(patient)[-1]
    newest.write_bytes(content)
    for depth in DEPTHS:
        finding = only_finding(patient, depth)
        assert finding.id == "P001"
        assert finding.paths == (newest.relative_to(patient.root).as_posix(),)
        assert evidence in finding.evidence


@pytest.mark.parametrize(
    ("changes", "evidence"),
    [
        ({"expressions": "us"}, "is not 'regex,number'"),
        ({"expressions": "us,1;ap"}, "is not 'regex,number'"),
        ({"expressions": "us(,1;ap,5"}, "us(,1"),
        ({"expressions": "*us,1;ap,5"}, "*us,1"),
        (
            {"expressions": "us,1;ap,5", "defaultBucketNumber": 0},
            "the number of buckets where no rule holds is 0",
        ),
        ({"expressions": "us,0;ap,5"}, "partition 'us' 0 buckets"),
        ({"expressions": "us,1;ap,5", "defaultBucketNumber": 2_000_000_000}, "num_buckets_max"),
    ],
)
def test_p001_rules_are_malformed(patient: Patient, changes: dict[str, Any], evidence: str) -> None:
    newest = edit(patient, **changes)
    for depth in DEPTHS:
        finding = only_finding(patient, depth)
        assert finding.id == "P001"
        assert evidence in finding.evidence
        assert finding.paths == (newest.relative_to(patient.root).as_posix(),)
        assert finding.instants == (newest.name.partition(".")[0],)


def test_p001_rules_say_they_are_of_another_instant(patient: Patient) -> None:
    newest = edit(patient, instant="20200101000000000")
    for depth in DEPTHS:
        finding = only_finding(patient, depth)
        assert (finding.id, finding.partition) == ("P001", None)
        assert finding.evidence == "it says it is of instant 20200101000000000"
        assert finding.instants == (newest.name.partition(".")[0],)


def test_p001_buckets_beyond_the_number_of_the_rule(patient: Patient) -> None:
    edit(patient, expressions="us,1;ap,4")
    for depth in ("quick", "default"):
        finding = only_finding(patient, depth)
        assert (finding.id, finding.partition, finding.bucket) == ("P001", "ap", 4)
        assert "is bucket 4 of 4 by the partition's rule" in finding.evidence
        assert finding.paths[0].startswith("ap/00000004-")
    assert found(check_soon(patient.root, "full")) == {"P001"}


def test_p001_keys_prove_another_number_than_the_rule(patient: Patient) -> None:
    """Buckets 0 to 4 fit a rule of 8 as well: only the keys in them do not."""
    edit(patient, expressions="us,1;ap,8")
    for depth in ("quick", "default"):
        assert check_soon(patient.root, depth).status == "clean"
    finding = only_finding(patient, "full")
    assert (finding.id, finding.partition) == ("P001", "ap")
    assert "the rule gives 8 buckets, but 5 is the only number that fits" in finding.evidence


@pytest.mark.parametrize("expressions", ["us++,1;ap,5", r"\p{L}s,1;ap,5"])
def test_rules_only_java_understands_are_not_checked(patient: Patient, expressions: str) -> None:
    newest = edit(patient, expressions=expressions)
    report = check_soon(patient.root, "quick")
    assert (report.status, report.exit_code) == ("incomplete", 3)
    assert any(newest.name in sentence for sentence in report.not_checked)


def test_p002_rules_of_an_instant_that_never_was(patient: Patient) -> None:
    newest = configs(patient)[-1]
    instant = shift_instant(patient.instants[-1], 1_000)
    stray = newest.with_name(f"{instant}.hashing_config")
    stray.write_text(newest.read_text().replace(newest.name.partition(".")[0], instant))
    for depth in DEPTHS:
        finding = only_finding(patient, depth)
        assert (finding.id, finding.partition, finding.bucket) == ("P002", None, None)
        assert finding.paths == (stray.relative_to(patient.root).as_posix(),)
        assert finding.instants == (instant,)
        assert "'us,1;ap,5'" in finding.evidence


def test_p002_rescale_that_was_rolled_back(patient: Patient) -> None:
    """The instant is there, but as a commit of something else."""
    older, newest = configs(patient)
    first = patient.instants[0]
    stray = older.with_name(f"{first}.hashing_config")
    stray.write_text(older.read_text().replace(older.name.partition(".")[0], first))
    finding = only_finding(patient, "quick")
    assert (finding.id, finding.instants) == ("P002", (first,))
    assert newest.exists()


def test_rules_of_an_archived_rescale_behind_an_active_restore(tmp_path: Path) -> None:
    """The restore is the first active instant, and what came after it is archived."""
    table = create_table(tmp_path / "t", bf.SimpleBucketIndex(2))
    table.upsert(rows(range(20), 1))
    savepoint = table.savepoint()
    table.upsert(rows(range(20), 2))
    table.restore(savepoint)
    table.delete_savepoint(savepoint)
    rescaled = table.rescale("us,4")
    assert rescaled is not None
    for ts in range(3, 7):
        table.upsert(rows(range(20), ts))
    table.clean(retain=1, dry_run=False)
    assert table.archive(min_commits=1, max_commits=1)
    first = table.timeline.instants[0]
    assert (first.action, first.requested_time < rescaled.instant) == ("restore", True)
    assert not table.timeline.contains(rescaled.instant)
    assert check_soon(Path(table.uri), "full").findings == ()
