"""Every table real Hudi wrote reads as that Hudi read it: row by row, type by type."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bucketfmt as bf
from tests.golden import GOLDEN, expected, folders
from tests.same_rows import assert_same

Golden = Callable[[str, str], Path]

SNAPSHOTS = [
    (version, name, folder)
    for version, name in GOLDEN
    for folder in folders(version, name)
    # `_changes` is change data capture, `_plain_read` a read that ignores column ids: not ours
    if not any(p in folder for p in ("_asof_", "_incremental_", "_changes", "_plain_read"))
]


UNSUPPORTED = {
    # Merging that is not built must say so, and never return rows that may be wrong.
    "partial": "partial",
    "dms_mor@1.0.2": "custom code",
}


def as_hudi_reads_partitions(ours: pa.Table, version: str, name: str) -> pa.Table:
    """Hudi on Spark takes partition columns from the path: another type, "" as null.

    We return what the files hold (docs/decisions/0005).
    """
    if name == "multipart":
        kind = ours.column("kind")
        null = pa.scalar(None, pa.string())
        index = ours.schema.get_field_index("kind")
        return ours.set_column(index, "kind", pc.if_else(pc.equal(kind, ""), null, kind))
    if name == "tskeygen":
        index = ours.schema.get_field_index("made")
        text = ours.column("_hoodie_partition_path" if version == "0.15.0" else "made")
        return ours.set_column(index, "made", text.cast(pa.string()))
    if version.startswith("flink") and "att" in ours.column_names:  # Spark has microseconds only
        index = ours.schema.get_field_index("att")
        micros = ours.column("att").cast(pa.timestamp("us", "UTC"))
        return ours.set_column(index, "att", micros)
    if (version, name) == ("0.15.0", "customkeygen"):  # 20231123 of "eu/20231123" as a long
        index = ours.schema.get_field_index("made")
        day = pc.list_element(pc.split_pattern(ours.column("_hoodie_partition_path"), "/"), 1)
        return ours.set_column(index, "made", day.cast(pa.int64()))
    return ours


def as_hudi_1_0_reads_renamed_fields(ours: pa.Table, version: str, name: str) -> pa.Table:
    """Hudi 1.0.2 loses a renamed field of a struct in log records; 1.2.0 reads it as we do."""
    if (version, name) != ("1.0.2", "evolved_ids_mor"):
        return ours
    rows = ours.to_pylist()
    of_log = [row for row in rows if not row["_hoodie_file_name"].endswith(".parquet")]
    if not of_log:
        return ours
    before_the_rename = min(row["_hoodie_commit_time"] for row in of_log)
    for row in of_log:
        if row["_hoodie_commit_time"] == before_the_rename:
            row["s"]["z"] = None
    return pa.Table.from_pylist(rows, ours.schema)


@pytest.mark.rule(
    "SLICE-3",
    "SLICE-4",
    "SLICE-6",
    "MERGE-2",
    "MERGE-4",
    "MERGE-7",
    "MERGE-11",
    "LOG-12",
    "LOG-13",
    "LOG-19",
)
@pytest.mark.parametrize(("version", "name", "folder"), SNAPSHOTS)
def test_snapshot_reads_as_hudi_read_it(
    golden: Golden, version: str, name: str, folder: str
) -> None:
    table = bf.open(golden(version, name))
    read_optimized = folder.endswith("_read_optimized")
    scan = table.scan(meta_columns=True, read_optimized=read_optimized)
    reason = UNSUPPORTED.get(name) or UNSUPPORTED.get(f"{name}@{version}")
    if reason and not read_optimized:
        with pytest.raises(bf.UnsupportedError, match=reason):
            scan.to_arrow()
        return
    hudis = expected(golden(version, name).parent, folder)
    for read in (scan.to_arrow(), scan.to_reader().read_all()):
        ours = as_hudi_1_0_reads_renamed_fields(read, version, name)
        assert_same(as_hudi_reads_partitions(ours, version, name), hudis)
    assert scan.count() == hudis.num_rows


TIME_TRAVEL = [
    (version, name, folder)
    for version, name in GOLDEN
    for folder in folders(version, name)
    if "_asof_" in folder
]


@pytest.mark.rule("SLICE-7")
@pytest.mark.parametrize(("version", "name", "folder"), TIME_TRAVEL)
def test_time_travel_reads_as_hudi_read_it(
    golden: Golden, version: str, name: str, folder: str
) -> None:
    root = golden(version, name)
    recorded = json.loads((root.parent / "_expected" / f"{name}.json").read_text())
    instants = [instant for instant, where in recorded["as_of"].items() if where == folder]
    table = bf.open(root)
    # Hudi 0.15 stops reading a log at a rollback block later than the instant looked at, and so
    # loses what that instant wrote behind it. The next instant changes nothing but shows it.
    if (version, folder) == ("0.15.0", "rolledback_mor_asof_2"):
        folder = "rolledback_mor_asof_3"
    for instant in instants:
        scan = table.scan(as_of=instant, meta_columns=True)
        assert_same(scan.to_arrow(), expected(root.parent, folder))


INCREMENTAL = [
    (version, name, folder)
    for version, name in GOLDEN
    for folder in folders(version, name)
    if "_incremental_" in folder
]


@pytest.mark.rule("SLICE-7")
@pytest.mark.parametrize(("version", "name", "folder"), INCREMENTAL)
def test_changes_are_those_hudi_read(golden: Golden, version: str, name: str, folder: str) -> None:
    root = golden(version, name)
    recorded = json.loads((root.parent / "_expected" / f"{name}.json").read_text())
    (query,) = (entry for entry in recorded["incremental"] if entry["folder"] == folder)
    since = None if query["begin"] == "000" else query["begin"]
    if since is not None and version == "1.0.2":
        since = str(int(since) - 1)  # that release takes the begin to be inside the range
    scan = bf.open(root).changes(since, query["end"], meta_columns=True)
    assert_same(scan.to_arrow(), expected(root.parent, folder))
