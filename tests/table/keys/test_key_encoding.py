"""How complex keys of one field are written is seen in the keys that are there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.keys.record_keys import KeyEncoding
from bucketfmt.location.key_encoding import find_key_encoding

ROWS = pa.table({"id": [1, 2], "a": ["x", "y"], "b": ["z", "z"], "n": [1, 1]})
pytestmark = [pytest.mark.rotated, pytest.mark.rule("KEY-3")]


def make(tmp_path: Path, version: int, table_type: str = "COPY_ON_WRITE") -> bf.Table:
    return bf.create(
        tmp_path / "t",
        schema=ROWS.schema,
        record_key=["id"],
        partition_by=["a", "b"],
        index=bf.SimpleBucketIndex(1),
        table_type=table_type,  # type: ignore[arg-type]
        table_version=version,
    )


def keys_of(table: bf.Table) -> list[str]:
    found = table.scan(["_hoodie_record_key"]).to_arrow()["_hoodie_record_key"].to_pylist()
    return sorted(found)


def write_as(encoding: KeyEncoding, table: bf.Table, rows: pa.Table) -> None:
    """Write as a Hudi release does that writes keys in this way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bucketfmt.write.rows.basis.find_key_encoding", lambda *_, **__: encoding)
        table.upsert(rows)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [6, 8])
@pytest.mark.parametrize("encoding", KeyEncoding)
def test_writes_go_on_as_the_table_has_it(
    tmp_path: Path, version: int, table_type: str, encoding: KeyEncoding
) -> None:
    table = make(tmp_path, version, table_type)
    write_as(encoding, table, ROWS)
    newer = ROWS.set_column(3, "n", pa.array([2, 2]))
    table.upsert(newer)
    names = {KeyEncoding.VALUE: ["1", "2"], KeyEncoding.NAMED: ["id:1", "id:2"]}
    assert keys_of(table) == names[encoding]
    fields = ROWS.select(["id", "a", "b"])
    assert table.locate(fields)["record_key"].to_pylist() == names[encoding]
    assert table.lookup(fields).sort_by("id").equals(newer)
    table.delete(fields.slice(0, 1))
    assert keys_of(table) == names[encoding][1:]
    with table.start_write("delete", fields.schema) as started:
        started.publish(list(started.task.write(fields, "0-0-0")))
    assert keys_of(table) == []


@pytest.mark.parametrize(("version", "key"), [(6, "1"), (8, "1"), (9, "id:1")])
def test_the_version_decides_where_there_are_no_keys(
    tmp_path: Path, version: int, key: str
) -> None:
    table = make(tmp_path, version)
    assert table.lookup(ROWS.slice(0, 1)).num_rows == 0
    table.upsert(ROWS.slice(0, 1))
    assert keys_of(table) == [key]


def test_a_table_written_in_both_ways_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path, 8)
    for encoding in KeyEncoding:
        write_as(encoding, table, ROWS)
    assert keys_of(table) == ["1", "2", "id:1", "id:2"]
    with pytest.raises(bf.UnsupportedError, match=r"as `7` and as `id:7`.*deployment guide"):
        table.upsert(ROWS)
    assert not table.timeline.pending.instants
    assert table.lookup(["id:1"]).num_rows == 1


@pytest.mark.parametrize(
    ("version", "found"),
    [("0.15.0", KeyEncoding.VALUE), ("1.0.2", KeyEncoding.VALUE), ("1.2.0", None)],
)
def test_tables_that_hudi_wrote(
    golden: Callable[[str, str], Path], version: str, found: KeyEncoding | None
) -> None:
    table = bf.open(golden(version, "multipart"))
    assert find_key_encoding(table._snapshot()) is found
    rows = table.scan(limit=5).to_arrow()
    assert table.lookup(rows).num_rows == 5
