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
