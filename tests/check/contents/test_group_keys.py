"""B011 and B012: keys of buckets with several file groups, planted and found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import bucketfmt as bf
from tests.check.planting import check_soon
from tests.write.models import NO_SERVICES, create_table, rows


def made(folder: Path, table_type: str) -> bf.Table:
    table = create_table(
        str(folder / "trips"), bf.MultiGroupBucketIndex(1), table_type, writer=NO_SERVICES
    )
    table.upsert(rows(range(12), ts=1))
    return table


@pytest.mark.rule("GRP-2")
def test_b011_one_key_in_two_file_groups(tmp_path: Path) -> None:
    table = made(tmp_path, "COPY_ON_WRITE")
    (file,) = (Path(table.uri) / "us").glob("*.parquet")
    assert check_soon(Path(table.uri)).status == "clean"
    shutil.copy(file, file.with_name(f"00000000-ffff-{file.name[14:]}"))
    (found,) = (f for f in check_soon(Path(table.uri)).findings if f.id == "B011")
    assert (found.partition, found.bucket) == ("us", 0)
    assert "4 keys, such as 'key-000000', 'key-000003', 'key-000006', in 2" in found.evidence
    with pytest.raises(bf.CorruptError, match="key-000003 is in two file groups"):
        bf.open(table.uri).upsert(rows([3], ts=2))
    assert bf.open(table.uri).upsert(rows([4], ts=2)).rows_updated == 1


@pytest.mark.rule("GRP-3")
def test_b012_a_key_that_only_a_log_has(tmp_path: Path) -> None:
    table = made(tmp_path, "MERGE_ON_READ")
    properties = Path(table.uri) / ".hoodie/hoodie.properties"
    stated = properties.read_bytes()
    properties.write_bytes(stated.replace(b"=MULTIPLE_FILE_GROUPS", b"=SIMPLE"))
    bf.open(table.uri, writer=NO_SERVICES).upsert(rows([0, 300], ts=2))
    properties.write_bytes(stated)
    (found,) = (f for f in check_soon(Path(table.uri)).findings if f.severity == "error")
    assert (found.id, found.partition, found.bucket) == ("B012", "us", 0)
    assert "1 keys, such as 'key-000300'" in found.evidence
    table = bf.open(table.uri, writer=NO_SERVICES)
    assert table.lookup(["key-000300"]).num_rows == 0
    table.compact()
    assert check_soon(Path(table.uri)).status == "clean"
    assert table.lookup(["key-000300"]).num_rows == 1
