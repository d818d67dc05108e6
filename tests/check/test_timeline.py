"""T001, T006 and T007: stuck or unreadable instants, damaged properties, impossible plans."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.check.report import Finding
from bucketfmt.check.salvage import load_config_to_check
from bucketfmt.cli.wording import in_shell_words
from bucketfmt.errors import CorruptError
from bucketfmt.format.names.instants import State, format_instant_file_name
from bucketfmt.format.table.properties import decode_properties
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.plans import encode_compaction_plan
from bucketfmt.storage.open import open_store
from bucketfmt.timeline.load import load_compaction_plan
from bucketfmt.write.services.compaction import Compactor
from tests.check.planting import Patient, check_at, check_soon
from tests.instants import shift_instant
from tests.write.models import Model, assert_reads_as, create_table, rows

pytestmark = pytest.mark.rotated

Copy = Callable[[str, str], Path]
VERSIONS = ["0.15.0", "1.0.2", "1.2.0"]
DEPTHS = ("quick", "default", "full")
PROPERTIES = ".hoodie/hoodie.properties"


@pytest.fixture(params=VERSIONS)
def cow(golden_copy: Copy, request: pytest.FixtureRequest) -> Patient:
    return Patient(golden_copy(request.param, "cow"))


def check_says(patient: Patient, finding_id: str, path: Path, evidence: str) -> Finding:
    """Every depth finds this and nothing else; return it."""
    for depth in DEPTHS:
        (finding,) = check_soon(patient.root, depth).findings
        assert finding.id == finding_id
        assert evidence in finding.evidence
        assert finding.paths == (path.relative_to(patient.root).as_posix(),)
        assert (finding.partition, finding.bucket) == (None, None)
    return finding


# -- T001


def test_t001_empty_commit(cow: Patient) -> None:
    """Hudi takes it for a commit that wrote nothing."""
    path = cow.commit_path(cow.instants[-1])
    path.write_bytes(b"")
    finding = check_says(cow, "T001", path, "has an empty file")
    assert (finding.severity, finding.instants) == ("error", (cow.instants[-1],))
    assert finding.data_loss


def test_t001_folder_in_the_place_of_a_commit(cow: Patient) -> None:
    instant = cow.instants[-1]
    path = cow.commit_path(instant)
    path.unlink()
    path.mkdir()
    report = check_soon(cow.root, "quick")
    (finding,) = (each for each in report.findings if each.id == "T001")
    assert finding.paths == (path.relative_to(cow.root).as_posix(),)
    assert finding.instants == (instant,)
    assert finding.evidence.startswith("a folder is in the place of the file of the completed ")


@pytest.mark.parametrize("version", VERSIONS)
def test_t001_empty_replacecommit(golden_copy: Copy, version: str) -> None:
    """What it replaced would be read a second time."""
    patient = Patient(golden_copy(version, "overwritten"))
    path = max((patient.root / patient.config.timeline_path).glob("*.replacecommit"))
    path.write_bytes(b"")
    for depth in DEPTHS:
        findings = check_soon(patient.root, depth).findings
        (finding,) = (f for f in findings if f.id == "T001")
        assert finding.paths == (path.relative_to(patient.root).as_posix(),)
        assert (finding.severity, finding.data_loss) == ("error", True)


@pytest.mark.parametrize("version", VERSIONS)
def test_t001_timeline_is_gone(golden_copy: Copy, version: str) -> None:
    root = golden_copy(version, "cow")
    timeline = root / bf.open(root).config.timeline_path
    for path in timeline.glob("2*"):
        path.unlink()
    for depth in DEPTHS:
        (finding,) = bf.open(root).check(depth).findings
        assert (finding.id, finding.severity, finding.data_loss) == ("T001", "error", True)
        assert finding.evidence.startswith("no instant is in the timeline, but ")
        assert finding.fix.startswith("Stop the writers, and restore .hoodie")


@pytest.mark.parametrize("kept", [1, 40, -3])
def test_t001_cut_commit(cow: Patient, kept: int) -> None:
    path = cow.commit_path(cow.instants[-1])
    path.write_bytes(path.read_bytes()[:kept])
    finding = check_says(cow, "T001", path, path.name)
    assert finding.severity == "error"


def test_t001_commit_of_other_bytes(cow: Patient) -> None:
    path = cow.commit_path(cow.instants[0])
    path.write_bytes(bytes(range(256)) * 8)
    check_says(cow, "T001", path, path.name)


def test_t001_schema_of_a_commit_does_not_parse(cow: Patient) -> None:
    instant = cow.instants[-1]

    def broken(metadata: CommitMetadata) -> CommitMetadata:
        return msgspec.structs.replace(metadata, extra_metadata={"schema": '{"type": "rec'})

    cow.edit_commit(instant, broken)
    check_says(cow, "T001", cow.commit_path(instant), "the schema it states: ")


def test_t001_path_in_a_commit_leaves_the_table(cow: Patient) -> None:
    instant = cow.instants[-1]

    def escaping(metadata: CommitMetadata) -> CommitMetadata:
        text = msgspec.json.encode(metadata).replace(b'"path":"us/', b'"path":"../../us/')
        return msgspec.json.decode(text, type=CommitMetadata)

    cow.edit_commit(instant, escaping)
    (finding,) = check_soon(cow.root, "quick").findings
    assert finding.id == "T001"
    assert ".." in finding.evidence


def put_pending(patient: Patient, *states: State) -> Path:
    """Begin a write right after the last one; return the file of its last state."""
    instant = shift_instant(patient.instants[-1], 1)
    for state in states:
        name = format_instant_file_name(
            instant, "commit", state, None, patient.config.timeline_layout
        )
        path = patient.root / patient.config.timeline_path / name
        path.touch()
        os.utime(path, (0, 0))
    return path


def test_t001_inflight_that_was_never_requested(cow: Patient) -> None:
    path = put_pending(cow, State.INFLIGHT)
    finding = check_says(cow, "T001", path, "its requested file is missing")
    assert (finding.severity, len(finding.instants)) == ("error", 1)


def test_t001_write_that_is_stuck(cow: Patient) -> None:
    path = put_pending(cow, State.REQUESTED, State.INFLIGHT)
    assert check_soon(cow.root, "quick").status == "clean"
    (finding,) = check_at(cow.root, timedelta(hours=60), "quick").findings
    assert (finding.id, finding.severity) == ("T001", "warning")
    assert finding.paths == (path.relative_to(cow.root).as_posix(),)
    assert "inflight and nothing was heard of it for " in finding.evidence
    assert finding.fix.startswith("If no writer is at work on it, roll it back")
    (time,) = finding.instants
    assert f"`bucketfmt rollback TABLE {time}`" in in_shell_words(finding.fix)
    assert not finding.data_loss


def test_a_heartbeat_is_a_sign_of_life(cow: Patient) -> None:
    path = put_pending(cow, State.REQUESTED, State.INFLIGHT)
    later = timedelta(hours=60)
    assert check_at(cow.root, later, "quick").status == "findings"
    beat = cow.root / ".hoodie/.heartbeat" / path.name.partition(".")[0]
    beat.parent.mkdir(exist_ok=True)
    beat.touch()  # now: after all that the table's instants say
    assert check_at(cow.root, timedelta(0), "quick").status == "clean"


@pytest.mark.parametrize(
    ("version", "name", "pattern"),
    [
        ("1.0.2", "cleaned", "*.clean"),
        ("1.2.0", "cleaned", "*.clean"),
        *((version, "rolledback", "*.rollback") for version in VERSIONS),
        *((version, "restored", "*.restore") for version in VERSIONS),
        *((version, "savepointed", "*.savepoint") for version in VERSIONS),
        *((version, "pending_clustering", "*.requested") for version in VERSIONS),
    ],
)
def test_t001_unreadable_plans_and_services(
    golden_copy: Copy, version: str, name: str, pattern: str
) -> None:
    patient = Patient(golden_copy(version, name))
    folder = patient.root / patient.config.timeline_path
    path = max(path for path in folder.glob(pattern) if path.stat().st_size)
    path.write_bytes(path.read_bytes()[:-9])
    check_says(patient, "T001", path, path.name)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_t001_plan_of_a_compaction_that_was_never_written(tmp_path: Path, version: int) -> None:
    """Hudi makes the file before it writes the plan. Here rows are read, written and compacted."""
    root, model = tmp_path / "t", Model()
    table = create_table(root, bf.SimpleBucketIndex(2), "MERGE_ON_READ", table_version=version)
    for given in (rows(range(20), 1), rows(range(9), 2)):
        table.upsert(given)
        model.upsert(given)
    last = table.timeline.last
    assert last is not None
    time = shift_instant(last.requested_time, 1)
    path = root / table.config.timeline_path / f"{time}.compaction.requested"
    path.touch()
    finding = check_says(Patient(root), "T001", path, "is empty: Hudi died before it wrote")
    assert (finding.severity, finding.data_loss) == ("error", False)
    assert finding.fix.startswith("Compact the table")
    given = rows(range(3, 12), 3)
    bf.open(root).upsert(given)
    model.upsert(given)
    assert bf.open(root).scan().count() == len(model.rows)
    assert path.exists()
    assert bf.open(root).compact() is not None
    assert not path.exists()
    assert_reads_as(table.uri, model)


@pytest.mark.parametrize("version", VERSIONS)
def test_t001_plan_of_a_resize_is_lost(golden_copy: Copy, version: str) -> None:
    """Whether or not it has begun, only its plan tells that it is one."""
    patient = Patient(golden_copy(version, "pending_clustering"))
    folder = patient.root / patient.config.timeline_path
    (path,) = (p for p in folder.glob("*.requested") if re.search("clustering|replace", p.name))
    data = path.read_bytes()
    path.write_bytes(b"")
    finding = check_says(patient, "T001", path, "is empty: its plan is lost")
    assert (finding.severity, finding.data_loss) == ("error", True)
    assert finding.fix.startswith("Restore the file from a copy")
    path.with_suffix(".inflight").touch()
    check_says(patient, "T001", path, "is empty: its plan is lost")
    path.write_bytes(data[:-9])
    check_says(patient, "T001", path, path.name)
    path.write_bytes(data)
    assert check_soon(patient.root, "quick").status == "clean"


@pytest.mark.parametrize("version", VERSIONS)
def test_an_overwrite_needs_no_plan(golden_copy: Copy, version: str) -> None:
    """Some writers leave its requested file empty; once it is inflight, it says what it is."""
    patient = Patient(golden_copy(version, "overwritten"))
    folder = patient.root / patient.config.timeline_path
    path = max(folder.glob("*.replacecommit.requested"))
    path.write_bytes(b"")
    max(folder.glob("*.replacecommit")).unlink()
    report = check_soon(patient.root, "quick")
    assert not [finding for finding in report.findings if finding.id == "T001"]


@pytest.mark.parametrize("version", VERSIONS)
def test_t001_unreadable_plan_of_a_compaction(golden_copy: Copy, version: str) -> None:
    patient = Patient(golden_copy(version, "mor_compacted"))
    folder = patient.root / patient.config.timeline_path
    plan = max(folder.glob("*.compaction.requested"))
    instant = plan.name.partition(".")[0]
    for path in folder.glob(f"{instant}*"):
        if path != plan:
            path.unlink()
    assert check_soon(patient.root).status == "clean"
    plan.write_bytes(plan.read_bytes()[:-9])
    finding = check_says(patient, "T001", plan, plan.name)
    assert finding.severity == "error"


@pytest.mark.parametrize("version", VERSIONS)
def test_t001_archived_timeline_is_damaged(golden_copy: Copy, version: str) -> None:
    """Quick asks only where the active timeline does not tell when a write completed."""
    patient = Patient(golden_copy(version, "cleaned"))
    pattern = "history/*.parquet" if version != "0.15.0" else "archived/.commits_*"
    archived = [p for p in (patient.root / ".hoodie").rglob("*") if p.match(pattern)]
    assert archived
    for path in archived:
        path.write_bytes(path.read_bytes()[:-5])
    for depth in DEPTHS:
        findings = check_soon(patient.root, depth).findings
        assert {finding.id for finding in findings} - {"T001"} == set()
        assert findings or depth == "quick"
        assert all("archived" in f.evidence or "history" in f.evidence for f in findings)


# -- T006


def test_t006_backup_was_read_for_a_lost_file(cow: Patient) -> None:
    path = cow.root / PROPERTIES
    backup = path.with_name("hoodie.properties.backup")
    path.rename(backup)
    for depth in DEPTHS:
        lost, left = check_soon(cow.root, depth).findings
        assert (lost.id, lost.severity, lost.paths) == ("T006", "error", (PROPERTIES,))
        assert lost.evidence == "the file is missing; its backup was read"
        assert (left.id, left.severity) == ("T006", "warning")
        assert left.paths == (f"{PROPERTIES}.backup",)
        assert not lost.data_loss


def test_t006_file_is_cut(cow: Patient) -> None:
    """The checksum is of the name of the table, and holds all the same."""
    path = cow.root / PROPERTIES
    whole = path.read_bytes()
    path.write_bytes(whole + b"hoodie.record.mer")  # of another property the beginning
    for depth in DEPTHS:
        (cut,) = check_soon(cow.root, depth).findings
        assert (cut.id, cut.severity, cut.paths) == ("T006", "warning", (PROPERTIES,))
        assert "the last line has no end" in cut.evidence
        assert "hoodie.properties.backup" in cut.fix
    path.write_bytes(whole.rstrip(b"\n") + b"\r\n")
    assert check_soon(cow.root, "quick").status == "clean"


def test_t006_backup_was_read_for_a_damaged_file(cow: Patient) -> None:
    path = cow.root / PROPERTIES
    backup = path.with_name("hoodie.properties.backup")
    backup.write_bytes(path.read_bytes())
    text = path.read_text()
    path.write_text(text.replace("hoodie.table.name=cow", "hoodie.table.name=cattle"))
    damaged, left = check_soon(cow.root, "quick").findings
    assert (damaged.id, damaged.severity, damaged.paths) == ("T006", "error", (PROPERTIES,))
    assert "checksum" in damaged.evidence
    assert left.paths == (f"{PROPERTIES}.backup",)


DAMAGES = {
    "checksum": (r"(?m)^hoodie.table.checksum=.*", "hoodie.table.checksum=7", "checksum is 7"),
    "checksum is no number": (r"(table.checksum)=", r"\1=x", "not a number"),
    "other name": (r"(?m)^hoodie.table.name=.*", "hoodie.table.name=cattle", "checksum is"),
    "no name": (r"(?m)^hoodie.table.name=.*\n", "", "hoodie.table.name is missing"),
    "damaged name": ("hoodie.table.recordkey.fields", "hoodie.table.recordkey.fiel_s", "damaged"),
    "damaged separator": ("hoodie.table.type=", "hoodie.table.type-", "is glued to"),
    "damaged end of a line": (r"\n(hoodie.table.type=)", r"x\1", "is glued to"),
    "damaged end of a comment": (r"(?s)^(#.*?)\n(?!#)", r"\1x", "glued to a comment"),
    "malformed escape": (r"\Z", r"some.key=\\u12x\n", "malformed"),
    "no flag": (r"\Z", "hoodie.table.cdc.enabled=tru\n", "neither true nor false"),
    "other layout": (r"\Z", "hoodie.timeline.layout.version=4\n", "layout.version is 4"),
    "not a number": (r"\Z", "hoodie.table.initial.version=six\n", "not a number"),
}


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize("name", DAMAGES)
def test_t006_damaged_properties_are_told_and_the_check_goes_on(cow: Patient, name: str) -> None:
    """Readers refuse the table; what is wrong elsewhere is found nonetheless."""
    pattern, replacement, evidence = DAMAGES[name]
    path = cow.root / PROPERTIES
    sound = path.read_text()
    if name == "damaged end of a comment":
        lines = [line for line in sound.splitlines() if not line.startswith("#")]
        first = next(line for line in lines if line.startswith("hoodie.table.type="))
        sound = "\n".join(["#saved", first, *(line for line in lines if line != first)]) + "\n"
    damaged = re.sub(pattern, replacement, sound, count=1)
    assert damaged != sound
    path.write_text(damaged)
    with pytest.raises(CorruptError):
        bf.open(cow.root)
    sound_config = TableConfig.from_properties(decode_properties(sound.encode()))
    store = open_store(cow.root)
    config = load_config_to_check(store, bf.Limits())
    assert dataclasses.replace(
        config, properties={}, name=sound_config.name
    ) == dataclasses.replace(sound_config, properties={})
    for depth in DEPTHS:
        (finding,) = bf.check_table(cow.root, depth=depth).findings
        assert (finding.id, finding.severity, finding.paths) == ("T006", "error", (PROPERTIES,))
        assert evidence in finding.evidence
    (cow.root / "us/.hoodie_partition_metadata").unlink()
    report = bf.check_table(cow.root)
    assert [finding.id for finding in report.findings] == ["T005", "T006"]


@pytest.mark.parametrize("left", ["", "#", "hoodie.table.version=x\nhoodie.table.name=cow\n"])
def test_properties_that_tell_too_little_are_no_table(cow: Patient, left: str) -> None:
    (cow.root / PROPERTIES).write_text(left)
    with pytest.raises(CorruptError, match=r"hoodie\.properties"):
        bf.check_table(cow.root)


@pytest.mark.parametrize("extension", ["backup", "updated"])
def test_t006_update_was_not_finished(cow: Patient, extension: str) -> None:
    left = cow.root / f"{PROPERTIES}.{extension}"
    left.write_bytes((cow.root / PROPERTIES).read_bytes())
    os.utime(left, (0, 0))
    finding = check_says(cow, "T006", left, "an update of the properties was not finished")
    assert finding.severity == "warning"


def test_a_backup_that_was_left_goes_with_the_next_change_of_the_properties(cow: Patient) -> None:
    left = cow.root / f"{PROPERTIES}.backup"
    left.write_bytes((cow.root / PROPERTIES).read_bytes())
    os.utime(left, (0, 0))
    bf.open(cow.root).metadata_table.init("files")
    assert not left.exists()
    assert "hoodie.table.metadata.partitions=files" in (cow.root / PROPERTIES).read_text()


def test_an_update_under_way_is_left_alone(cow: Patient) -> None:
    left = cow.root / f"{PROPERTIES}.updated"
    left.write_bytes(b"")
    assert bf.open(cow.root).check("quick").status == "clean"


@pytest.mark.parametrize("number", ["0", "-4", "many", "99999999999"])
def test_t006_number_of_buckets_is_none(cow: Patient, number: str) -> None:
    cow.state(hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets=number)
    check_says(cow, "T006", cow.root / PROPERTIES, "is not a positive number")


@pytest.mark.parametrize(
    "fields", ["hoodie.table.recordkey.fields", "hoodie.table.partition.fields"]
)
def test_t006_fields_that_are_no_columns(cow: Patient, fields: str) -> None:
    cow.state(**{fields.replace(".", "__"): "nope"})
    for depth in ("default", "full"):
        found = [f for f in check_soon(cow.root, depth).findings if f.id == "T006"]
        assert [(f.severity, f.paths) for f in found] == [("error", (PROPERTIES,))]
        assert "are of nope, which the table has no column for" in found[0].evidence


def without(patient: Patient, *names: str) -> Patient:
    """Take properties out of hoodie.properties."""
    path = patient.root / PROPERTIES
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith(names)))
    return patient


def without_key_fields(patient: Patient) -> Patient:
    return without(patient, "hoodie.table.recordkey")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["mor", "ch_split", "multipart", "virtual", "tskeygen"])
def test_t006_partition_fields_are_lost(golden_copy: Copy, version: str, name: str) -> None:
    """The table was clean, a look-up found nothing, and an upsert wrote rows a second time."""
    root = golden_copy(version, name)
    row = bf.open(root).scan().to_arrow().slice(0, 1)
    keys = row["id"].to_pylist()
    patient = without(Patient(root), "hoodie.table.partition.fields")
    instants = patient.instants
    paths = [
        path for path in bf.open(root).inspect.partitions()["partition_path"].to_pylist() if path
    ]
    told = f"hoodie.table.partition.fields is missing, and the table has the partition {paths[0]!r}"
    for depth in DEPTHS:
        found = [f for f in check_soon(root, depth).findings if f.id == "T006"]
        assert [(f.severity, f.paths) for f in found] == [("error", (PROPERTIES,))]
        assert found[0].evidence == f"{told} and {len(paths) - 1} more"
        assert "put the line hoodie.table.partition.fields= with the partition" in found[0].fix
    table = bf.open(root)
    for work in (
        lambda: table.lookup(keys),
        lambda: table.locate(keys),
        lambda: table.upsert(row),
        lambda: table.delete(keys),
    ):
        with pytest.raises(CorruptError, match=re.escape(told)):
            work()
    assert Patient(root).instants == instants


@pytest.mark.parametrize("version", ["1.0.2", "1.2.0"])
def test_t006_ordering_fields_are_lost(golden_copy: Copy, version: str) -> None:
    """Hudi warns of such a table, and reads it by the time of commits."""
    patient = Patient(golden_copy(version, "mor"))
    without(patient, "hoodie.table.ordering.fields", "hoodie.table.precombine.field")
    finding = check_says(
        patient,
        "T006",
        patient.root / PROPERTIES,
        "hoodie.record.merge.mode is EVENT_TIME_ORDERING",
    )
    assert finding.severity == "warning"
    assert "state COMMIT_TIME_ORDERING if the table never had any" in finding.fix


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "told", "line"),
    [
        ("mor", "; the keys are the values of id", "id"),
        ("nonpart", "; the keys are the values of id", "id"),
        ("complexkey", "; the keys name id, name", "id,name"),
        ("partrules", "; the keys are the values of id", "id"),
        ("ch_split", "; the keys are the values of id", "id"),
        ("virtual", "", ""),
    ],
)
def test_t006_key_fields_are_lost(
    golden_copy: Copy, version: str, name: str, told: str, line: str
) -> None:
    """Keys are compared with buckets by what they are themselves."""
    if name == "partrules":
        version = "1.2.0"  # no earlier release writes rules
    patient = without_key_fields(Patient(golden_copy(version, name)))
    missing = "hoodie.table.recordkey.fields is missing"
    for depth in DEPTHS:
        report = check_soon(patient.root, depth)
        (finding,) = (f for f in report.findings if f.severity != "info")
        assert (finding.id, finding.severity, finding.paths) == ("T006", "error", (PROPERTIES,))
        assert missing in finding.evidence
        assert not finding.data_loss
        if depth == "quick":
            assert "put the line hoodie.table.recordkey.fields= with the key" in finding.fix
        else:
            assert finding.evidence.endswith(told)
            assert f"put the line hoodie.table.recordkey.fields={line}" in finding.fix
            assert not [text for text in report.not_checked if "failed" in text]
    assert ("4 buckets by _hoodie_record_key" in str(report.not_checked)) == (name == "mor")


def test_t006_key_fields_are_lost_and_keys_are_misplaced(cow: Patient) -> None:
    one, other = (cow.base_file("us", n).name.partition("_")[0] for n in (1, 2))
    cow.rename_group("us", one, f"00000009{one[8:]}")
    cow.rename_group("us", other, f"00000001{other[8:]}")
    without_key_fields(cow)
    assert {(f.id, f.partition) for f in check_soon(cow.root).findings} == {
        ("T006", None),
        ("B005", "us"),
    }
    cow.state_buckets(4)
    findings = check_soon(cow.root).findings
    assert {f.id for f in findings} == {"T006", "B004", "B006"}


def test_tables_without_key_fields_and_buckets_are_clean(golden_copy: Copy) -> None:
    patient = without_key_fields(Patient(golden_copy("1.2.0", "bloom")))
    for depth in DEPTHS:
        assert check_soon(patient.root, depth).status == "clean"


def test_t006_schema_at_creation_does_not_parse(cow: Patient) -> None:
    cow.state(hoodie__table__create__schema='{"type"')
    check_says(cow, "T006", cow.root / PROPERTIES, "Avro schema: not JSON")


def test_p001_rules_in_the_properties_are_malformed(cow: Patient) -> None:
    cow.state_buckets(4)
    cow.state(hoodie__bucket__index__partition__expressions="us")
    check_says(cow, "P001", cow.root / PROPERTIES, "is not 'regex,number'")


# -- T007


def test_t007_is_not_said_of_change_data_that_a_plan_names(golden_copy: Copy) -> None:
    """Hudi 1.2.0 plans the CDC log files of a compaction as if they held rows."""
    root = golden_copy("1.2.0", "cdc_pending_mor")
    table = bf.open(root)
    (instant,) = table.timeline.pending.instants
    plan = load_compaction_plan(table.store, table.config, instant, table.limits)
    planned = {name for each in plan.operations for name in each.delta_file_paths}
    assert {path.name for path in root.glob("*/.*.cdc")} < planned
    for depth in DEPTHS:
        assert check_soon(root, depth).findings == ()


@pytest.mark.parametrize("version", [6, 9])
def test_t007_a_plan_with_files_that_are_gone(tmp_path: Path, version: int) -> None:
    table = bf.create(
        tmp_path / "t",
        schema=pa.schema([("id", pa.string()), ("v", pa.int64())]),
        record_key=["id"],
        index=bf.SimpleBucketIndex(1),
        table_type="MERGE_ON_READ",
        table_version=version,
    )
    for v in range(4):
        table.upsert(pa.table({"id": ["a"], "v": [v]}))
    scheduled = Compactor(table._snapshot, table._transactions).schedule()
    assert scheduled is not None
    (instant,) = table.timeline.pending.instants
    plan = load_compaction_plan(table.store, table.config, instant, table.limits)
    (operation,) = plan.operations
    never = operation.delta_file_paths[-1].replace(".log.", ".log.7")
    names = [*operation.delta_file_paths, never]
    plan = msgspec.structs.replace(
        plan, operations=[msgspec.structs.replace(operation, delta_file_paths=names)]
    )
    path = tmp_path / "t" / table.config.timeline_path / instant.file_name
    path.write_bytes(encode_compaction_plan(plan))
    for depth in DEPTHS:
        (finding,) = check_soon(tmp_path / "t", depth).findings
        assert (finding.id, finding.severity, finding.data_loss) == ("T007", "error", False)
        assert finding.paths == (never,)
        assert finding.instants == (scheduled,)
        assert "no completed instant wrote" in finding.evidence

    # One that an archived commit wrote is lost.
    assert table.archive(min_commits=1, max_commits=1)
    victim = next(tmp_path.glob("t/.*.log.1_*"))
    victim.unlink()
    findings = check_soon(tmp_path / "t").findings
    if version == 6:  # whose listing leaves nothing to miss it by
        lost, gone = sorted(findings, key=lambda finding: not finding.data_loss)
        assert (lost.id, lost.paths, lost.data_loss) == ("T007", (victim.name,), True)
        assert "archived commit" in lost.evidence
        assert gone.paths == (never,)
