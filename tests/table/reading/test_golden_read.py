"""Every table real Hudi wrote reads as that Hudi read it: row by row, type by type."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bucketfmt as bf
from tests.golden import GOLDEN, expected, folders
from tests.instants import shift_instant
from tests.same_rows import assert_same

Golden = Callable[[str, str], Path]

UNSUPPORTED = {
    # Merging that is not built must say so, and never return rows that may be wrong.
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
    "MERGE-16",
    "LOG-12",
    "LOG-13",
    "LOG-19",
)
@pytest.mark.rule("SLICE-7")
@pytest.mark.rotated(1, one_of=4)
@pytest.mark.parametrize(("version", "name"), GOLDEN)
def test_a_table_reads_as_hudi_read_it(golden: Golden, version: str, name: str) -> None:
    """Each view that Hudi read: as it is, read-optimized, as it was, and what changed."""
    root = golden(version, name)
    wrong = []
    for folder in folders(root.parent):
        # `_changes` is change data capture, `_plain_read` a read that ignores column ids: not ours
        if "_changes" in folder or "_plain_read" in folder:
            continue
        try:
            if "_asof_" in folder:
                compare_as_of(root, version, folder)
            elif "_incremental_" in folder:
                compare_changes(root, version, folder)
            else:
                compare_snapshot(root, version, folder)
        except Exception as error:
            wrong.append(f"{folder}: {type(error).__name__}: {error}")
    assert not wrong, "\n\n".join(wrong)


def compare_snapshot(root: Path, version: str, folder: str) -> None:
    table, name = bf.open(root), root.name
    read_optimized = folder.endswith("_read_optimized")
    scan = table.scan(meta_columns=True, read_optimized=read_optimized)
    reason = UNSUPPORTED.get(name) or UNSUPPORTED.get(f"{name}@{version}")
    if reason and not read_optimized:
        with pytest.raises(bf.UnsupportedError, match=reason):
            scan.to_arrow()
        return
    hudis = expected(root.parent, folder)
    for read in (scan.to_arrow(), scan.to_reader().read_all()):
        ours = as_hudi_1_0_reads_renamed_fields(read, version, name)
        assert_same(as_hudi_reads_partitions(ours, version, name), hudis)
    assert scan.count() == hudis.num_rows


def compare_as_of(root: Path, version: str, folder: str) -> None:
    instants = [i for i, where in recorded(root)["as_of"].items() if where == folder]
    table = bf.open(root)
    # Hudi 0.15 stops reading a log at a rollback block later than the instant looked at, and so
    # loses what that instant wrote behind it. The next instant changes nothing but shows it.
    if (version, folder) == ("0.15.0", "rolledback_mor_asof_2"):
        folder = "rolledback_mor_asof_3"
    for instant in instants:
        scan = table.scan(as_of=instant, meta_columns=True)
        assert_same(scan.to_arrow(), expected(root.parent, folder))


def compare_changes(root: Path, version: str, folder: str) -> None:
    (query,) = (entry for entry in recorded(root)["incremental"] if entry["folder"] == folder)
    since = None if query["begin"] == "000" else query["begin"]
    if since is not None and version == "1.0.2":
        since = shift_instant(since, -1)  # that release takes the begin to be inside the range
    scan = bf.open(root).changes(since, query["end"], meta_columns=True)
    assert_same(scan.to_arrow(), expected(root.parent, folder))


def recorded(root: Path) -> dict[str, Any]:
    """What was noted of a table when Hudi had read it."""
    found: dict[str, Any] = json.loads(
        (root.parent / "_expected" / f"{root.name}.json").read_text()
    )
    return found


def test_views_of_every_kind_are_compared(golden: Golden) -> None:
    """Else the test above would prove less than it says."""
    views = Counter(
        re.sub(r"^.*?(_asof_|_incremental_|_read_optimized|$).*", r"\1", folder[len(name) :])
        for version, name in GOLDEN
        for folder in folders(golden(version, name).parent)
    )
    assert len(GOLDEN) >= 190
    assert views[""] >= 190
    assert views["_read_optimized"] >= 70
    assert views["_asof_"] >= 300
    assert views["_incremental_"] >= 60
    print(views)
