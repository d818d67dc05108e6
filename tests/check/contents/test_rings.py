"""C001 to C005: rings lost, damaged, never committed, or left by file groups."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import bucketfmt as bf
from bucketfmt.check.report import CheckReport, Finding
from bucketfmt.choices import Depth
from bucketfmt.errors import CorruptError
from bucketfmt.format.keys.hashing import HASH_VALUE_MASK
from bucketfmt.format.names.instants import State, format_instant_file_name
from tests.check.planting import Patient, check_soon
from tests.instants import shift_instant

pytestmark = pytest.mark.rotated

Copy = Callable[[str, str], Path]
Change = Callable[[dict[str, Any]], None]

VERSIONS = ["0.15.0", "1.0.2", "1.2.0"]
FOLDER = ".hoodie/.bucket_index/consistent_hashing_metadata/us"
UUID = "5a3c2b1d-1111-4222-8333-444455556666-0"
INITIAL = "00000000000000"


class RingPatient(Patient):
    """A table of consistent buckets whose partition `us` was resized."""

    @property
    def metadata_files(self) -> list[Path]:
        return sorted((self.root / FOLDER).glob("*.hashing_meta"))

    @property
    def newest(self) -> Path:
        return self.metadata_files[-1]

    def remove_markers(self, instant: str = "*") -> None:
        for folder in (FOLDER, "us"):  # Hudi 0.15 puts them beside the data
            for marker in (self.root / folder).glob(f"{instant}.commit"):
                marker.unlink()

    def edit(self, path: Path, change: Change) -> None:
        metadata = json.loads(path.read_text())
        change(metadata)
        path.write_text(json.dumps(metadata))

    def relative(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


@pytest.fixture(params=VERSIONS)
def patient(golden_copy: Copy, request: pytest.FixtureRequest) -> RingPatient:
    return RingPatient(golden_copy(request.param, "tiny_ch"))


@pytest.fixture(params=VERSIONS)
def twice_resized(golden_copy: Copy, request: pytest.FixtureRequest) -> RingPatient:
    return RingPatient(golden_copy(request.param, "ch_split"))


def unclean(report: CheckReport) -> tuple[Finding, ...]:
    """All findings but C005, which a table that was resized always has."""
    assert {f.id for f in report.findings if f.severity == "info"} <= {"C005"}
    return tuple(finding for finding in report.findings if finding.severity != "info")


def check_says(
    patient: RingPatient,
    finding_id: str,
    evidence: str,
    paths: Sequence[Path] = (),
    depths: Sequence[Depth] = ("default", "full"),
    severity: str = "error",
) -> Finding:
    """Every finding is this one, in partition `us`; return it."""
    for depth in depths:
        (finding,) = unclean(check_soon(patient.root, depth))
        assert (finding.id, finding.severity) == (finding_id, severity), finding
        assert finding.partition == "us"
        assert evidence in finding.evidence
        assert finding.data_loss
        assert finding.paths == tuple(map(patient.relative, paths))
    return finding


# -- C001


def test_c001_no_metadata(twice_resized: RingPatient) -> None:
    """The other partitions still tell that this is a table of rings."""
    twice_resized.remove_markers()
    for path in twice_resized.metadata_files:
        path.unlink()
    depths: Sequence[Depth] = ("quick", "default", "full")
    check_says(twice_resized, "C001", "no metadata, but ", depths=depths)


@pytest.mark.parametrize("version", VERSIONS)
def test_c001_all_rings_are_lost(golden_copy: Copy, version: str) -> None:
    """Nothing in a table of Hudi states its index then: the resizes on the timeline tell."""
    root = golden_copy(version, "ch_split")
    shutil.rmtree(root / ".hoodie/.bucket_index")
    found = unclean(check_soon(root))
    assert {finding.id for finding in found} == {"C001"}
    assert "us" in {finding.partition for finding in found}
    assert "gave the partition a ring" in found[0].evidence
    assert "repair_rings()" in found[0].fix


@pytest.mark.parametrize("version", VERSIONS)
def test_c001_all_rings_are_lost_while_a_resize_is_planned(golden_copy: Copy, version: str) -> None:
    """The plan tells, and what the finding says to do helps."""
    root = golden_copy(version, "ch_pending")
    before = bf.open(root).scan().to_arrow().sort_by([("region", "ascending"), ("id", "ascending")])
    shutil.rmtree(root / ".hoodie/.bucket_index")
    found = unclean(check_soon(root))
    assert {finding.id for finding in found} == {"C001"}
    assert "is about to change the ring of the partition" in found[0].evidence
    (resize,) = {finding.instants for finding in found}
    assert f"roll the pending resize {resize[0]} back" in found[0].fix
    bf.open(root).rollback(resize[0])
    given = bf.open(root, index=bf.ConsistentHashingIndex(2))
    assert given.repair_rings()
    assert not unclean(check_soon(root, "full"))
    after = bf.open(root).scan().to_arrow().sort_by([("region", "ascending"), ("id", "ascending")])
    assert after == before


@pytest.mark.parametrize("version", VERSIONS)
def test_c001_first_ring_is_made_again_by_a_write(golden_copy: Copy, version: str) -> None:
    """As the fix says, of a partition that was never resized."""
    root = golden_copy(version, "ch_init")
    shutil.rmtree(root / FOLDER)
    (finding,) = unclean(check_soon(root))
    assert (finding.id, finding.partition) == ("C001", "us")
    assert "the next write to the partition makes the first one again" in finding.fix
    before = bf.open(root).scan().to_arrow().sort_by([("region", "ascending"), ("id", "ascending")])
    mine = before.filter(pc.equal(before["region"], "us")).slice(0, 9)
    assert bf.open(root).upsert(mine).rows_inserted == 0
    assert not unclean(check_soon(root, "full"))
    after = bf.open(root).scan().to_arrow().sort_by([("region", "ascending"), ("id", "ascending")])
    assert after == before


def test_c001_marked_metadata_is_gone(patient: RingPatient) -> None:
    instant = patient.newest.name.partition(".")[0]
    (patient.root / FOLDER / f"{instant}.commit").touch()
    patient.newest.rename(patient.root / FOLDER / "00000000000001.hashing_meta")
    patient.edit(patient.newest, lambda metadata: metadata.update(instant="00000000000001"))
    finding = check_says(patient, "C001", "is marked as committed, but the file is missing")
    assert finding.instants == (instant,)


def test_c001_empty_metadata(patient: RingPatient) -> None:
    patient.newest.write_bytes(b"")
    depths: Sequence[Depth] = ("quick", "default", "full")
    finding = check_says(patient, "C001", "no bytes", [patient.newest], depths)
    assert finding.instants == (patient.newest.name.partition(".")[0],)


def test_c001_cut_metadata(patient: RingPatient) -> None:
    patient.newest.write_bytes(patient.newest.read_bytes()[:-40])
    check_says(patient, "C001", "hashing metadata: Input data was truncated", [patient.newest])


@pytest.mark.parametrize("left", [0, 40])
def test_c001_damaged_metadata_before_the_ring_in_force(
    twice_resized: RingPatient, left: int
) -> None:
    """Nobody goes by them, and no repair makes them again."""
    *before, _ = twice_resized.metadata_files
    for path in before:
        path.write_bytes(path.read_bytes()[:left])
    found = unclean(check_soon(twice_resized.root, "full"))
    assert {finding.paths for finding in found} == {
        (path.relative_to(twice_resized.root).as_posix(),) for path in before
    }
    for finding in found:
        assert (finding.id, finding.severity, finding.data_loss) == ("C001", "warning", False)
        assert finding.evidence.endswith("; a later ring is in force")
        assert "`clean()` deletes it" in finding.fix


def test_c001_node_that_no_hash_reaches(patient: RingPatient) -> None:
    def beyond(metadata: dict[str, Any]) -> None:
        metadata["nodes"][-1]["value"] = HASH_VALUE_MASK + 1

    patient.edit(patient.newest, beyond)
    check_says(patient, "C001", "2147483647", [patient.newest])


def test_c001_only_the_initial_ring_is_left(patient: RingPatient) -> None:
    """Hudi would fall back to it and write every key a second time."""
    patient.newest.unlink()
    for marker in (patient.root / FOLDER, patient.root / "us"):
        for path in marker.glob("2*.commit"):
            path.unlink()
    for depth in ("default", "full"):
        (finding,) = unclean(check_soon(patient.root, depth))
        assert (finding.id, finding.severity, finding.partition) == ("C001", "error", "us")
        assert "only the initial ring is there, and" in finding.evidence
        live = {path.partition("_")[0].lstrip(".") for path in finding.paths}
        assert live
        assert all((patient.root / path).exists() for path in finding.paths)


# -- C002


def test_c002_pending_instant_without_a_plan(patient: RingPatient) -> None:
    instant = shift_instant(patient.instants[-1], 1)
    for state in (State.REQUESTED, State.INFLIGHT):
        layout = patient.config.timeline_layout
        name = format_instant_file_name(instant, "deltacommit", state, None, layout)
        (patient.root / patient.config.timeline_path / name).touch()
    path = patient.root / FOLDER / f"{instant}.hashing_meta"
    path.write_bytes(patient.newest.read_bytes())
    patient.edit(path, lambda metadata: metadata.update(instant=instant, seqNo=7))
    finding = check_says(patient, "C002", "is pending and has no plan to resize", [path])
    assert finding.instants == (instant,)


def test_c002_resize_left_the_timeline_without_a_marker(patient: RingPatient) -> None:
    """As if it was archived before anybody read the table: base files still prove it."""
    patient.remove_markers("2*")
    old = patient.newest
    path = old.with_name("20200101000000000.hashing_meta")
    old.rename(path)
    patient.edit(path, lambda metadata: metadata.update(instant="20200101000000000"))
    finding = check_says(
        patient, "C002", "base files of its ring are live", [path], severity="warning"
    )
    assert finding.instants == ("20200101000000000",)


@pytest.mark.parametrize("version", VERSIONS)
def test_c002_resize_that_nothing_proves(golden_copy: Copy, version: str) -> None:
    """File groups of its ring are there, but no base file: Hudi takes the ring before it."""
    patient = RingPatient(golden_copy(version, "ch_init"))
    path = patient.root / FOLDER / "20200101000000000.hashing_meta"
    path.write_bytes(patient.newest.read_bytes())
    patient.edit(path, lambda metadata: metadata.update(instant="20200101000000000", seqNo=1))
    check_says(patient, "C002", "no base file is on its ring", [path])


# -- C003


def swap_nodes(metadata: dict[str, Any]) -> None:
    nodes = metadata["nodes"]
    nodes[0], nodes[1] = nodes[1], nodes[0]


def repeat_value(metadata: dict[str, Any]) -> None:
    metadata["nodes"][1]["value"] = metadata["nodes"][0]["value"]


def no_nodes(metadata: dict[str, Any]) -> None:
    metadata["nodes"] = []


def share_file_group(metadata: dict[str, Any]) -> None:
    """Beside a node of its own, so that every file group stays on the ring."""
    node = metadata["nodes"][0]
    metadata["nodes"].insert(0, {**node, "value": node["value"] - 1})


def tag_of_a_resize(metadata: dict[str, Any]) -> None:
    metadata["nodes"][0]["tag"] = "REPLACE"


def other_instant(metadata: dict[str, Any]) -> None:
    metadata["instant"] = "20200101000000000"


def other_partition(metadata: dict[str, Any]) -> None:
    metadata["partitionPath"] = "eu"


def sequence_starts_again(metadata: dict[str, Any]) -> None:
    metadata["seqNo"] = 0


@pytest.mark.parametrize(
    ("change", "evidence"),
    [
        (swap_nodes, "ascend"),
        (repeat_value, "ascend"),
        (no_nodes, "at least one node"),
        (share_file_group, "two nodes share a file group"),
        (tag_of_a_resize, "a node has the tag of a resize under way"),
        (other_instant, "it says it is of instant 20200101000000000"),
        (other_partition, "it says it is of partition 'eu'"),
        (sequence_starts_again, "its sequence number 0 does not follow 0 of 00000000000000"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_c003_ring_contradicts_itself(patient: RingPatient, change: Change, evidence: str) -> None:
    patient.edit(patient.newest, change)
    finding = check_says(patient, "C003", evidence, [patient.newest])
    assert finding.instants == (patient.newest.name.partition(".")[0],)


def last_value(metadata: dict[str, Any]) -> None:
    metadata["nodes"][-1]["value"] -= 1


def initial_sequence(metadata: dict[str, Any]) -> None:
    metadata["seqNo"] = 3


def initial_number(metadata: dict[str, Any]) -> None:
    metadata["numBuckets"] = 64


@pytest.mark.parametrize(
    ("change", "evidence"),
    [
        (last_value, "the last node of the initial ring does not own the largest hash"),
        (initial_sequence, "the initial ring has sequence number 3, not 0"),
        (initial_number, "the initial ring has 4 nodes, not 64"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.parametrize("version", VERSIONS)
def test_c003_initial_ring(golden_copy: Copy, version: str, change: Change, evidence: str) -> None:
    patient = RingPatient(golden_copy(version, "ch_init"))
    patient.edit(patient.newest, change)
    for depth in ("default", "full"):
        report = check_soon(patient.root, depth)
        (finding,) = unclean(report)
        assert (finding.id, finding.severity, finding.partition) == ("C003", "error", "us")
        assert evidence in finding.evidence
        assert finding.paths == (patient.relative(patient.newest),)


def test_c003_is_not_about_a_ring_that_hudi_took_back(twice_resized: RingPatient) -> None:
    """Hudi leaves it, and gives the next resize the same sequence number."""
    newest = twice_resized.newest
    instant = str(int(newest.stem) - 1)
    assert instant not in twice_resized.instants
    metadata = json.loads(newest.read_text())
    newest.with_name(f"{instant}.hashing_meta").write_text(
        json.dumps({**metadata, "instant": instant})
    )
    assert unclean(check_soon(twice_resized.root)) == ()


# -- C004


def test_c004_file_group_that_no_node_leads_to(patient: RingPatient) -> None:
    base = next((patient.root / "us").glob("*.parquet"))
    twin = patient.copy_file(base, file_id=UUID)
    patient.record(twin, like=base)
    finding = check_says(patient, "C004", f"leads to file group {UUID}", [twin])
    assert len(finding.instants) == 1
    assert "unless its keys lie among those of other file groups; then `repair_b" in finding.fix
    with pytest.raises(CorruptError, match="lie among one another"):
        bf.open(patient.root).repair_rings()


def test_c004_log_only_file_group_that_no_node_leads_to(patient: RingPatient) -> None:
    newest = patient.instants[-1]
    logs = (p for p in sorted((patient.root / "us").glob(".*.log.*")) if p.suffix != ".crc")
    live = patient.slices("us")
    log = next(p for p in logs if p.name[1:].partition("_")[0] in live)
    twin = patient.copy_file(log, file_id=UUID)
    patient.record(twin, like=log)
    assert newest == patient.instants[-1]
    check_says(patient, "C004", f"leads to file group {UUID}", [twin])


# -- C005


def test_c005_tells_the_number_of_live_buckets(patient: RingPatient) -> None:
    for depth in ("default", "full"):
        report = check_soon(patient.root, depth)
        (finding,) = report.findings
        assert (finding.id, finding.severity, finding.partition) == ("C005", "info", "us")
        assert "4 buckets are live; numBuckets is 2" in finding.evidence
        assert not finding.data_loss
        assert (report.status, report.exit_code) == ("clean", 0)


def test_buckets_of_a_ring_in_dispute_are_not_checked(patient: RingPatient) -> None:
    patient.edit(patient.newest, tag_of_a_resize)
    report = check_soon(patient.root, "full")
    assert any(s.startswith("the buckets of partition 'us'") for s in report.not_checked)
