from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.format.table.properties import decode_properties
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.local_store import LocalStore
from bucketfmt.write.properties.metadata_table import drop_metadata_table


@pytest.mark.rule("PROP-18")
def test_rewritten_properties_have_no_sidecar_of_the_file_before(
    golden: Callable[[str, str], Path], tmp_path: Path
) -> None:
    table = tmp_path / "mdt_bucket"
    shutil.copytree(golden("1.2.0", "mdt_bucket"), table)
    properties, sidecar = (
        table / ".hoodie" / name for name in ("hoodie.properties", ".hoodie.properties.crc")
    )
    sidecar.write_bytes(b"crc\0")
    before = decode_properties(properties.read_bytes())
    assert before["hoodie.table.metadata.partitions"]
    rows = bf.open(table).scan().count()

    drop_metadata_table(LocalStore(str(table)), DEFAULT_LIMITS, time.time())

    assert not sidecar.exists()
    changed = {"hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight"}
    after = decode_properties(properties.read_bytes())
    assert {key: after[key] for key in after.keys() - changed} == {
        key: before[key] for key in before.keys() - changed
    }
    assert not after["hoodie.table.metadata.partitions"]
    assert bf.open(table).scan().count() == rows


@pytest.mark.rule("PROP-18")
def test_rewritten_definitions_of_indexes_have_no_sidecar_of_the_file_before(
    golden_copy: Callable[[str, str], Path],
) -> None:
    """Hudi took the definitions for none, and failed on reads by conditions."""
    root = golden_copy("1.2.0", "mdt_bucket")
    table = bf.open(root, index=bf.SimpleBucketIndex(4))
    definitions = root / table.config.properties["hoodie.table.index.defs.path"]
    sidecar = definitions.with_name(f".{definitions.name}.crc")
    sidecar.write_bytes(b"crc\0")
    definitions.write_text(definitions.read_text() + "\n")

    table.metadata_table.rebuild("column_stats", "partition_stats")

    assert not sidecar.exists()
    assert "column_stats" in definitions.read_text()


def test_column_stats_made_anew_keep_the_partition_stats_that_are_worked_out_from_them(
    golden_copy: Callable[[str, str], Path],
) -> None:
    """The partition_stats were removed without a word."""
    table = bf.open(golden_copy("1.2.0", "mdt_bucket"), index=bf.SimpleBucketIndex(4))
    before = table.metadata_table.list()
    assert "partition_stats" in {partition.name for partition in before}

    table.metadata_table.rebuild("column_stats")

    assert table.metadata_table.list() == before
    assert table.check(depth="full").findings == ()
