"""M001 to M006: the metadata table against the table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.choices import TableType
from bucketfmt.format.metadata.metadata_keys import file_group_of_key
from bucketfmt.write.metadata import keeper
from tests.check.metadata.metadata_planting import (
    Change,
    edit_records,
    metadata_files,
    only_finding,
    unpack,
)
from tests.check.planting import Patient, check_soon
from tests.write.models import create_table, rows

pytestmark = pytest.mark.rotated

Copy = Callable[[str, str], Path]
VERSIONS = ["0.15.0", "1.0.2", "1.2.0"]


def without_file(name: str) -> Change:
    def change(key: str, fields: dict[str, Any]) -> dict[str, dict[str, Any]]:
        (fields["filesystemMetadata"] or {}).pop(name, None)
        return {key: fields}

    return change


def data_file(root: Path, partition: str) -> Path:
    return max((root / partition).glob("*.parquet"), key=lambda path: path.name.split("_")[2])


@pytest.mark.parametrize("version", [6, 8, 9])
def test_m002_compaction_without_a_plan(tmp_path: Path, version: int) -> None:
    root = tmp_path / "t"
    table = create_table(root, bf.SimpleBucketIndex(2), table_version=version)
    table.upsert(rows(range(20), 1))
    table.metadata_table.init("files", "column_stats")
    table.upsert(rows(range(9), 2))
    last = table.timeline.last
    assert last is not None
    below = root / ".hoodie/metadata" / table.config.timeline_path
    time = last.completion_time if version >= 8 else f"{last.requested_time}001"
    path = below / f"{time}.compaction.requested"
    path.touch()
    finding = only_finding(root, "quick", "default", "full")
    assert (finding.id, finding.severity, finding.data_loss) == ("M002", "error", False)
    assert finding.paths == (str(path.relative_to(root)),)
    bf.open(root).upsert(rows(range(9), 3))
    assert not path.exists()
    assert check_soon(root, "full").status == "clean"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("partition", ["bloom_filters", "column_stats", "record_index"])
def test_m002_file_of_a_completed_write_that_is_gone(
    golden_copy: Copy, version: str, partition: str
) -> None:
    """Readers go by what is left of the partition; nothing was found but of a record index."""
    root = golden_copy(version, "rli")
    logs = [path for path in metadata_files(root, partition) if path.name.startswith(".")]
    path = max(logs, key=lambda path: path.stat().st_size)
    path.unlink()
    finding = only_finding(root, "default")
    assert (finding.id, finding.severity) == ("M002", "error")
    assert finding.paths == (path.relative_to(root).as_posix(),)
    assert f"metadata_table.rebuild({partition!r})" in finding.fix
    assert {f.id for f in check_soon(root, "full").findings} <= {"M002", "M003"}
    bf.open(root).metadata_table.rebuild(partition)
    assert check_soon(root, "full").status == "clean"


@pytest.mark.parametrize("version", ["1.0.2", "1.2.0"])
def test_m002_base_file_of_an_expression_index_that_is_gone(tmp_path: Path, version: str) -> None:
    """Hudi read no row by the expression, and the table was clean."""
    unpack(tmp_path, f"{version}/mdt_expression")
    assert not check_soon(tmp_path, "full").findings
    files = metadata_files(tmp_path, "expr_index_by_day")
    path = max((own for own in files if own.suffix == ".hfile"), key=lambda p: p.stat().st_size)
    path.unlink()
    finding = only_finding(tmp_path, "default", "full")
    assert (finding.id, finding.severity, finding.data_loss) == ("M002", "error", True)
    assert finding.paths == (path.relative_to(tmp_path).as_posix(),)
    assert "metadata_table.drop('expr_index_by_day')" in finding.fix
    bf.open(tmp_path).metadata_table.drop("expr_index_by_day")
    assert not check_soon(tmp_path, "full").findings


@pytest.mark.parametrize("partition", ["record_index", "secondary_index_by_name"])
def test_m002_folder_of_an_index_of_rows_that_is_gone(tmp_path: Path, partition: str) -> None:
    """Depth default did not look whether the index is there, as it does not read its entries."""
    unpack(tmp_path, "1.2.0/mdt_secondary")
    shutil.rmtree(tmp_path / ".hoodie/metadata" / partition)
    finding = only_finding(tmp_path, "default", "full")
    assert (finding.id, finding.severity) == ("M002", "error")
    bf.open(tmp_path).metadata_table.rebuild(partition)
    assert not check_soon(tmp_path, "full").findings


@pytest.mark.parametrize("version", [6, 8, 9])
def test_files_of_a_partition_that_was_dropped_and_made_again_are_not_missed(
    tmp_path: Path, version: int
) -> None:
    table = create_table(tmp_path / "t", bf.SimpleBucketIndex(2), table_version=version)
    table.upsert(rows(range(20), 1))
    table.metadata_table.init("files", "column_stats")
    table.upsert(rows(range(9), 2))
    table.metadata_table.drop("column_stats")
    table.upsert(rows(range(9), 3))
    table.metadata_table.init("column_stats")
    table.upsert(rows(range(4), 4))
    assert check_soon(tmp_path / "t", "full").status == "clean"


@pytest.mark.parametrize("version", VERSIONS)
def test_m001_file_that_the_metadata_table_does_not_list(golden_copy: Copy, version: str) -> None:
    root = golden_copy(version, "rli")
    partition = next(path.name for path in root.iterdir() if path.name != ".hoodie")
    file = data_file(root, partition)
    edit_records(root, "files", without_file(file.name))
    finding = only_finding(root, "quick", "default", "full")
    assert (finding.id, finding.severity, finding.data_loss) == ("M001", "error", True)
    assert finding.paths == (f"{partition}/{file.name}",)
    assert "1 files of completed commits are not in the metadata table" in finding.evidence


@pytest.mark.parametrize("version", VERSIONS)
def test_m001_file_that_only_the_metadata_table_lists(golden_copy: Copy, version: str) -> None:
    root = golden_copy(version, "rli")
    partition = next(path.name for path in root.iterdir() if path.name != ".hoodie")

    def change(key: str, fields: dict[str, Any]) -> dict[str, dict[str, Any]]:
        if key == partition:
            fields["filesystemMetadata"]["gone.parquet"] = {"size": 7, "isDeleted": False}
        return {key: fields}

    edit_records(root, "files", change)
    finding = only_finding(root, "quick", "default", "full")
    assert (finding.id, finding.partition) == ("M001", partition)
    assert finding.paths == (f"{partition}/gone.parquet",)


@pytest.mark.parametrize("version", VERSIONS)
def test_m001_change_data_that_only_the_metadata_table_lists(
    golden_copy: Copy, version: str
) -> None:
    """CDC log files are in no snapshot, and Hudi lists them in the metadata table."""
    root = golden_copy(version, "cdc_metadata")
    assert check_soon(root, "full").findings == ()
    victim = next(iter(sorted(root.glob("*/.*.cdc"))))
    victim.unlink()
    finding = only_finding(root, "quick", "default", "full")
    assert (finding.id, finding.severity) == ("M001", "error")
    assert finding.paths == (f"{victim.parent.name}/{victim.name}",)


@pytest.mark.parametrize("is_restored", [False, True])
def test_m001_log_file_that_takes_back_what_was_logged(tmp_path: Path, is_restored: bool) -> None:
    """Readers pass over what it takes back only as long as the timeline begins before that."""
    table = create_table(
        str(tmp_path / "t"), bf.SimpleBucketIndex(1), "MERGE_ON_READ", table_version=6
    )
    table.upsert(rows([3], ts=1))
    table.metadata_table.init()
    point = table.savepoint()
    taken_back = table.upsert(rows([3], ts=2)).instant
    if is_restored:
        table.restore(point)
    else:
        table.rollback(taken_back)
    (path,) = tmp_path.glob("t/*/.*.log.2_1-0-1")
    assert check_soon(tmp_path / "t", "full").findings == ()
    edit_records(tmp_path / "t", "files", without_file(path.name))
    finding = only_finding(tmp_path / "t", "quick", "default", "full")
    assert (finding.id, finding.severity) == ("M001", "error")
    assert finding.paths == (f"{path.parent.name}/{path.name}",)


@pytest.mark.parametrize("version", VERSIONS)
def test_m001_size_that_the_metadata_table_has_wrong(golden_copy: Copy, version: str) -> None:
    root = golden_copy(version, "mdt_bucket")
    file = next(iter(sorted(root.glob("*/*.parquet"))))

    def change(key: str, fields: dict[str, Any]) -> dict[str, dict[str, Any]]:
        entry = (fields["filesystemMetadata"] or {}).get(file.name)
        if entry is not None:
            entry["size"] += 1
        return {key: fields}

    edit_records(root, "files", change)
    finding = only_finding(root, "quick", "default", "full")
    assert finding.id == "M001"
    size = file.stat().st_size
    assert f"{file.name!r} has {size} bytes and {size + 1} in the metadata table" in (
        finding.evidence
    )


def test_m001_partition_that_the_metadata_table_does_not_list(golden_copy: Copy) -> None:
    root = golden_copy("1.2.0", "rli")
    partition = next(path.name for path in root.iterdir() if path.name != ".hoodie")

    def change(key: str, fields: dict[str, Any]) -> dict[str, dict[str, Any]]:
        if key == "__all_partitions__":
            fields["filesystemMetadata"].pop(partition, None)
        return {key: fields}

    edit_records(root, "files", change)
    finding = only_finding(root, "quick", "default", "full")
    assert (finding.id, finding.partition) == ("M001", partition)
    assert "list of partitions" in finding.evidence


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("partition", "depths"),
    [
        ("files", ("quick", "default", "full")),
        ("column_stats", ("default", "full")),
        ("record_index", ("full",)),
    ],
)
def test_m002_damaged_file(
    golden_copy: Copy, version: str, partition: str, depths: tuple[str, ...]
) -> None:
    root = golden_copy(version, "rli")
    path = max(metadata_files(root, partition), key=lambda path: path.stat().st_size)
    data = bytearray(path.read_bytes())
    at = data.find(b"DATABLK*") + 60  # in the compressed entries
    data[at : at + 8] = b"\xff" * 8
    path.write_bytes(data)
    finding = only_finding(root, *depths)
    assert (finding.id, finding.severity) == ("M002", "error")
    assert finding.paths == () or finding.paths == (path.relative_to(root).as_posix(),)
    assert path.name in finding.evidence


def test_m002_is_not_told_of_a_file_of_the_table(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = create_table(root, bf.SimpleBucketIndex(1), table_type="MERGE_ON_READ")
    table.upsert(rows(range(20), 1))
    table.metadata_table.init("record_index")
    done = table.upsert(rows(range(9), 2))
    lost = next(file for file in done.files if ".log." in file)
    (root / lost).unlink()
    report = check_soon(root, "full")
    found = {finding.id: finding for finding in report.findings}
    assert sorted(found) == ["M001", "T002"]
    assert lost in found["T002"].paths
    assert "Restore the files that T002 names" in found["M001"].fix
    assert any(lost in why for why in report.not_checked if why.startswith("the record index"))


@pytest.mark.parametrize(
    ("version", "name"), [("0.15.0", "mdt_bucket"), ("1.0.2", "rli"), ("1.2.0", "rli")]
)
def test_m002_properties_that_are_cut(golden_copy: Copy, version: str, name: str) -> None:
    """Without their end: the lines are in the order of the names, and the version is late."""
    root = golden_copy(version, name)
    before = bf.open(root).scan().count()
    properties = root / ".hoodie/metadata/.hoodie/hoodie.properties"
    lines = properties.read_text().splitlines(keepends=True)
    properties.write_text("".join(x for x in lines if not x.startswith("hoodie.table.version")))
    finding = only_finding(root, "quick", "default", "full")
    assert finding.id == "M002"
    assert "hoodie.table.version is missing" in finding.evidence
    assert "rebuild" in finding.fix
    bf.open(root).metadata_table.rebuild()
    assert not check_soon(root, "full").findings
    assert bf.open(root).scan().count() == before


def test_m002_metadata_table_that_is_gone(golden_copy: Copy) -> None:
    root = golden_copy("1.2.0", "rli")
    shutil.rmtree(root / ".hoodie/metadata")
    finding = only_finding(root, "quick", "default", "full")
    assert finding.id == "M002"
    assert "there is no metadata table" in finding.evidence


def first_location(root: Path) -> tuple[str, dict[str, Any]]:
    """A key of the record index, and its location."""
    found: list[tuple[str, dict[str, Any]]] = []

    def look(key: str, fields: dict[str, Any]) -> dict[str, dict[str, Any]]:
        found.append((key, fields["recordIndexMetadata"]))
        return {key: fields}

    edit_records(root, "record_index", look)
    return found[-1]


@pytest.mark.parametrize("version", VERSIONS)
def test_m003_key_that_is_not_in_the_record_index(golden_copy: Copy, version: str) -> None:
    root = golden_copy(version, "rli")
    lost, location = first_location(root)
    edit_records(root, "record_index", lambda key, fields: {} if key == lost else {key: fields})
    finding = only_finding(root, "full")
    assert (finding.id, finding.partition) == ("M003", location["partitionName"])
    assert "1 keys are not in the record index" in finding.evidence
    assert repr(lost) in finding.evidence


@pytest.mark.parametrize("version", VERSIONS)
def test_m003_entries_that_point_to_nothing(golden_copy: Copy, version: str) -> None:
    root = golden_copy(version, "rli")
    strayed, location = first_location(root)

    def change(key: str, fields: dict[str, Any]) -> dict[str, dict[str, Any]]:
        if key == strayed:
            fields["recordIndexMetadata"]["fileIdLowBits"] += 1
        return {key: fields}

    edit_records(root, "record_index", change)
    findings = check_soon(root, "full").findings
    assert [finding.id for finding in findings] == ["M003", "M003"]
    ((group,),) = {
        f.subject.file_groups for f in findings if "which readers do not see" in f.evidence
    }
    assert group[0] == location["partitionName"]
    (moved,) = (f for f in findings if "in another file group" in f.evidence)
    assert repr(strayed) in moved.evidence


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_misplaced", [False, True])
def test_m003_entry_of_a_key_that_is_not_there(
    golden_copy: Copy, version: str, is_misplaced: bool
) -> None:
    root = golden_copy(version, "rli")
    model, location = first_location(root)
    ids = {path.name.lstrip(".").split("_")[0] for path in metadata_files(root, "record_index")}
    wanted = file_group_of_key(model, len(ids))
    added = next(
        key
        for key in (f"added-{number}" for number in range(1_000))
        if (file_group_of_key(key, len(ids)) != wanted) is is_misplaced
    )

    def change(key: str, fields: dict[str, Any]) -> dict[str, dict[str, Any]]:
        return {key: fields, added: fields} if key == model else {key: fields}

    edit_records(root, "record_index", change)
    findings = check_soon(root, "full").findings
    assert {finding.id for finding in findings} == {"M003"}
    assert all(repr(added) in finding.evidence for finding in findings)
    (stale,) = (f for f in findings if "of keys that are not there" in f.evidence)
    assert stale.partition == location["partitionName"]
    others = [f.evidence for f in findings if f is not stale]
    assert len(others) == is_misplaced
    assert all("belong into another of its file groups" in text for text in others)


@pytest.mark.parametrize("version", VERSIONS)
def test_m003_key_with_two_entries(golden_copy: Copy, version: str) -> None:
    """The second is in another file group of the index, where no look-up of the key finds it."""
    root = golden_copy(version, "rli")
    model, _ = first_location(root)
    ids = {path.name.lstrip(".").split("_")[0] for path in metadata_files(root, "record_index")}
    own = file_group_of_key(model, len(ids))
    keys = bf.open(root).scan(["_hoodie_record_key"]).to_arrow().column(0).to_pylist()
    doubled = next(key for key in sorted(keys) if file_group_of_key(key, len(ids)) != own)

    def change(key: str, fields: dict[str, Any]) -> dict[str, dict[str, Any]]:
        return {key: fields, doubled: fields} if key == model else {key: fields}

    edit_records(root, "record_index", change)
    findings = check_soon(root, "full").findings
    assert {found.id for found in findings} == {"M003"}
    (misplaced,) = (f for f in findings if "belong into another" in f.evidence)
    (stale,) = (f for f in findings if "of keys that are not there" in f.evidence)
    assert all(repr(doubled) in finding.evidence for finding in (misplaced, stale))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["rli", "mdt_bucket"])
def test_m004_commit_that_the_metadata_table_lacks(
    golden_copy: Copy, version: str, name: str
) -> None:
    root = golden_copy(version, name)
    table = bf.open(root)
    last = table.timeline.writes.completed.instants[-1].requested_time
    own = root / ".hoodie/metadata" / table.config.timeline_path
    for path in own.iterdir():
        if path.name.startswith(last):
            path.unlink()
    finding = only_finding(root, "quick", "default", "full")
    assert (finding.id, finding.severity, finding.data_loss) == ("M004", "error", True)
    assert finding.instants == (last,)
    assert finding.evidence == f"it lacks {last}"


@pytest.mark.parametrize("version", VERSIONS)
def test_m004_commit_that_the_table_lacks(golden_copy: Copy, version: str) -> None:
    """Its files are still there, and count for readers of the metadata table."""
    root = golden_copy(version, "rli")
    table = bf.open(root)
    lost = table.timeline.writes.completed.instants[-2].requested_time
    for path in (root / table.config.timeline_path).iterdir():
        if path.name.startswith(lost):
            path.unlink()
    for depth in ("quick", "default", "full"):
        found = {f.id: f for f in check_soon(root, depth).findings if f.severity == "error"}
        assert found["M004"].evidence == f"it has {lost}, which the table lacks"
        assert found["M004"].instants == (lost,)
    bf.open(root).metadata_table.rebuild()
    assert not [f for f in check_soon(root, "full").findings if f.id.startswith("M")]


def test_m004_initialisation_that_has_begun(golden_copy: Copy) -> None:
    root = golden_copy("1.2.0", "rli")
    Patient(root).state(hoodie__table__metadata__partitions__inflight="column_stats")
    finding = only_finding(root, "quick", "full")
    assert (finding.id, finding.severity) == ("M004", "info")
    assert "initialisation of column_stats is under way" in finding.evidence


@pytest.mark.parametrize("name", ["1.2.0/mdt_secondary", "1.0.2/mdt_secondary_mor"])
def test_m005_rows_without_entries_and_entries_without_rows(tmp_path: Path, name: str) -> None:
    unpack(tmp_path, name)
    assert not check_soon(tmp_path, "full").findings
    listed = bf.open(tmp_path).config.metadata_partitions
    partition = next(p for p in listed if p.startswith("secondary_index"))
    keys: list[str] = []

    def change(key: str, fields: dict[str, Any]) -> dict[str, dict[str, Any]]:
        keys.append(key)
        return {key + "x": fields} if key == keys[0] else {key: fields}

    edit_records(tmp_path, partition, change)
    assert not check_soon(tmp_path, "default").findings
    findings = check_soon(tmp_path, "full").findings
    assert {(f.id, f.severity, f.data_loss) for f in findings} == {("M005", "error", True)}
    missing, stale = sorted((f.evidence for f in findings), key=lambda text: "no row" in text)
    assert (
        f"1 rows have no entry there, and readers that go by the index do not see them: {keys[0]!r}"
        in missing
    )
    assert f"1 entries are of no row, or belong into another file group: {keys[0] + 'x'!r}" in stale
    bf.open(tmp_path).metadata_table.rebuild(partition)
    assert not check_soon(tmp_path, "full").findings


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [8, 9])
def test_m006_statistics_of_a_partition_without_a_write_that_others_overtook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, kind: TableType
) -> None:
    """As writers of Hudi leave them, which do not say again what they said before others."""
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
    table = bf.create(
        tmp_path / "t",
        schema=schema,
        record_key=["id"],
        partition_by=["part"],
        index=bf.SimpleBucketIndex(2),
        table_type=kind,
        table_version=version,
    )
    given = {key: pa.table({"id": [key], "ts": [7], "part": ["x"]}, schema) for key in "ab"}
    table.upsert(pa.concat_tables(given.values()))
    assert len(set(table.locate(pa.concat_tables(given.values()))["file_id"].to_pylist())) == 2
    table.metadata_table.init("column_stats", "partition_stats")
    monkeypatch.setattr(keeper, "find_last_overtaking", lambda *_: None)
    with table.start_write("upsert", schema) as late:
        table.upsert(pa.table({"id": ["a"], "ts": [8], "part": ["x"]}, schema))
        rows_of_late = pa.table({"id": ["b"], "ts": [-9], "part": ["x"]}, schema)
        late.publish(list(late.task.write(rows_of_late, "0-0-0")))
    assert not check_soon(tmp_path / "t", "default").findings
    (finding,) = check_soon(tmp_path / "t", "full").findings
    assert (finding.id, finding.severity, finding.data_loss) == ("M006", "error", True)
    assert finding.subject.partition == "x"
    assert finding.evidence == "statistics of ts from 7 to 8, and its files from -9 to 8"
    found = bf.open(tmp_path / "t").scan(filter=[("ts", "<", 0)]).to_arrow()
    assert found["id"].to_pylist() == ["b"]
    bf.open(tmp_path / "t").metadata_table.rebuild("partition_stats")
    assert not check_soon(tmp_path / "t", "full").findings


def test_m006_statistics_that_no_value_is_within(tmp_path: Path) -> None:
    """As Hudi 1.2.0 merges those of decimals from before an upgrade to version 9, and new ones."""
    schema = pa.schema([("id", pa.string()), ("d", pa.decimal128(10, 2))])
    root = tmp_path / "t"
    table = bf.create(root, schema=schema, record_key=["id"], index=bf.SimpleBucketIndex(2))
    rows = pa.table({"id": ["a", "b"], "d": pa.array([Decimal("0.25"), Decimal(7)])}).cast(schema)
    table.upsert(rows)
    table.metadata_table.init("column_stats", "partition_stats")

    def cross(key: str, fields: dict[str, Any]) -> dict[str, dict[str, Any]]:
        stats = fields["ColumnStatsMetadata"]
        if stats["columnName"] == "d":
            name, bound = stats["minValue"]
            stats["minValue"] = name, {**bound, "value": (10**13).to_bytes(7, "big")}
        return {key: fields}

    edit_records(root, "partition_stats", cross)
    assert not check_soon(root, "default").findings
    (finding,) = check_soon(root, "full").findings
    assert finding.id == "M006"
    assert finding.evidence == (
        "statistics of d, whose least value is greater than the greatest, and its files from "
        "Decimal('0.25') to Decimal('7.00')"
    )
    bf.open(root).metadata_table.rebuild("partition_stats")
    assert not check_soon(root, "full").findings


def test_a_table_opened_before_is_checked_with_the_metadata_table_that_another_made(
    tmp_path: Path,
) -> None:
    opened = create_table(str(tmp_path / "t"), bf.SimpleBucketIndex(2))
    opened.upsert(rows(range(9), ts=1))
    bf.open(opened.uri).metadata_table.init("files")
    for file in metadata_files(Path(opened.uri), "files"):
        file.unlink()
    (finding,) = opened.check("quick").findings
    assert finding.id == "M002"
    bf.open(opened.uri).metadata_table.drop()
    assert opened.check("quick").findings == ()
    assert "metadata table</th><td style='text-align:left'>none</td>" in opened._repr_html_()
