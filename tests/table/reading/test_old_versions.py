"""Tables of versions 3, 4 and 5: everything reads them, and nothing writes to them.

Hudi 0.15.0 reads such tables without an upgrade, and its upgrade from 3 to 6 changes only
hoodie.properties (ThreeToFourUpgradeHandler to FiveToSixUpgradeHandler). So a copy of a table of
version 6 with another version in its properties holds the rows of the original; Hudi 0.15.0 reads
these copies so too (tests/data/README.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.testing.recording_store import RecordingStore
from tests.check.planting import check_soon, found
from tests.golden import expected
from tests.index.test_assign import index_of
from tests.same_rows import assert_same

Golden = Callable[[str, str], Path]

OLD_VERSIONS = (3, 4, 5)
NAMES = (
    "bloom",
    "ch_split",
    "complexkey",
    "cow",
    "delete_marker_mor",
    "mor",
    "mor_compacted",
    "overwritten_mor",
    "rolledback_mor",
    "timetravel_mor",
)


def made_old(root: Path, version: int) -> Path:
    """Give a copy of a table of version 6 an older version, and the properties that one has."""
    path = root / ".hoodie" / "hoodie.properties"
    lines = path.read_text().splitlines()
    kept = [line for line in lines if not line.startswith("hoodie.table.version=")]
    if version < 4:
        kept = [line for line in kept if not line.startswith("hoodie.table.checksum=")]
    path.write_text("\n".join([*kept, f"hoodie.table.version={version}", ""]))
    (root / ".hoodie" / ".hoodie.properties.crc").unlink(missing_ok=True)
    return root


@pytest.fixture
def old_table(golden_copy: Golden) -> Callable[[int, str], bf.Table]:
    def make(version: int, name: str) -> bf.Table:
        root = made_old(golden_copy("0.15.0", name), version)
        return bf.open(root, index=None if name == "bloom" else index_of(name))

    return make


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.rule("PROP-20")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_reads_as_the_table_of_version_6(
    golden: Golden, old_table: Callable[[int, str], bf.Table], version: int, name: str
) -> None:
    old, new = old_table(version, name), bf.open(golden("0.15.0", name), index=None)
    assert old.config.table_version == version
    hudis = expected(golden("0.15.0", name).parent, name)
    assert_same(old.scan(meta_columns=True).to_arrow(), hudis)
    assert old.scan().count() == hudis.num_rows
    assert old.schema == new.schema
    first = old.timeline.writes.completed.instants[0].requested_time
    for arguments in ({"as_of": first}, {"read_optimized": True}):
        assert_same(old.scan(**arguments).to_arrow(), new.scan(**arguments).to_arrow())
    assert_same(old.changes(first).to_arrow(), new.changes(first).to_arrow())
    assert old.inspect.commits() == new.inspect.commits()
    assert old.inspect.files().num_rows == new.inspect.files().num_rows

    keys = hudis.select(["_hoodie_record_key", "_hoodie_partition_path"]).slice(0, 40)
    assert_same(old.lookup(keys), new.lookup(keys))
    if name != "bloom":
        located = old.locate(keys)
        new = bf.open(golden("0.15.0", name), index=index_of(name))
        assert located == new.locate(keys)
        assert located["file_id"].null_count == 0


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_is_clean(golden_copy: Golden, version: int, name: str) -> None:
    root = made_old(golden_copy("0.15.0", name), version)
    for depth in ("quick", "full"):
        report = check_soon(root, depth)
        assert found(report) == set()
        assert report.status == "clean"


def writes_of(table: bf.Table) -> dict[str, Callable[[], object]]:
    """Every call that changes a table, or plans to."""
    rows = table.scan(limit=1).to_arrow()
    instant = table.timeline.writes.completed.instants[-1].requested_time
    partition = table.inspect.partitions()["partition_path"][0].as_py()
    calls: dict[str, Callable[[], object]] = {
        name: lambda name=name: getattr(table, name)(rows)
        for name in ("upsert", "insert", "bulk_insert", "insert_overwrite", "delete")
    }
    return {
        **calls,
        "delete by filter": lambda: table.delete(filter=[("id", "=", "key-000001")]),
        "delete_partitions": lambda: table.delete_partitions([partition]),
        "start_write": lambda: table.start_write("upsert", rows.schema),
        "compact": table.compact,
        "preview_compaction": table.preview_compaction,
        "start_compaction": table.start_compaction,
        "clean": lambda: table.clean(dry_run=False),
        "archive": table.archive,
        "rollback": lambda: table.rollback(instant),
        "savepoint": table.savepoint,
        "delete_savepoint": lambda: table.delete_savepoint(instant),
        "restore": lambda: table.restore(instant),
    }


@pytest.mark.parametrize("name", ["cow", "mor"])
@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_every_write_is_refused_before_the_first_byte(
    old_table: Callable[[int, str], bf.Table], version: int, name: str
) -> None:
    opened = old_table(version, name)
    store = RecordingStore(opened.store)
    table = bf.Table(store, opened.config, bf.Limits(), index_of(name))
    for what, call in writes_of(table).items():
        with pytest.raises(bf.UnsupportedError, match=f"version {version} .*upgrade_table") as told:
            call()
        assert "Hudi 0.14 or 0.15" in str(told.value), what
        assert not store.writes, what


def test_a_table_that_was_downgraded_since_it_was_opened_is_not_written(
    golden_copy: Golden,
) -> None:
    root = golden_copy("0.15.0", "cow")
    table = bf.open(root, index=index_of("cow"))
    rows = table.scan(limit=3).to_arrow()
    instants = table.timeline.instants
    made_old(root, 5)
    with pytest.raises(bf.UnsupportedError, match="version 5"):
        table.upsert(rows)
    assert bf.open(root).timeline.instants == instants


def test_null_partition_values_of_old_tables_are_not_pruned(golden_copy: Golden) -> None:
    """Up to Hudi 0.11 rows without a partition value lie in the partition `default`."""
    root = made_old(golden_copy("0.15.0", "nonpart"), 4)
    properties = root / ".hoodie" / "hoodie.properties"
    text = properties.read_text().replace("NonpartitionedKeyGenerator", "SimpleKeyGenerator")
    properties.write_text(text + "hoodie.table.partition.fields=region\n")
    (root / "default").mkdir()
    for path in [p for p in root.iterdir() if p.is_file() and not p.name.endswith(".crc")]:
        path.rename(root / "default" / path.name)
    for path in root.glob(".hoodie/*.commit"):
        commit = json.loads(path.read_text())
        commit["partitionToWriteStats"] = {
            "default": [
                {**stat, "partitionPath": "default", "path": f"default/{stat['path']}"}
                for stats in commit["partitionToWriteStats"].values()
                for stat in stats
            ]
        }
        path.write_text(json.dumps(commit))
    table = bf.open(root)
    regions: list[Any] = table.scan(["region"]).to_arrow()["region"].to_pylist()
    wanted = sum(region == "" for region in regions)
    assert table.scan(filter=[("region", "=", "")]).count() == wanted
    assert table.scan(filter=[("region", "=", "")]).plan().partitions_pruned == 0
    assert table.scan(filter=[("region", "=", "eu")]).plan().partitions_pruned == 1
    assert pa.types.is_string(table.schema.field("region").type)
