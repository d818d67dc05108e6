"""What a write of rows would do, told before it is done."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from tests.write.models import SCHEMA, create_table, rows

pytestmark = pytest.mark.rotated

INDEXES = {"simple": bf.SimpleBucketIndex(4), "ring": bf.ConsistentHashingIndex(4)}
OPERATIONS = ["upsert", "insert", "insert_overwrite", "insert_overwrite_table"]


def state_of(root: str) -> dict[str, bytes]:
    return {path.as_posix(): path.read_bytes() for path in Path(root).rglob("*") if path.is_file()}


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_preview_tells_what_the_write_does_then(
    tmp_path: Path, version: int, index: str, operation: str
) -> None:
    table = create_table(
        str(tmp_path / "t"), INDEXES[index], "MERGE_ON_READ", table_version=version
    )
    if index == "simple":
        table.upsert(rows(range(20), ts=1))
    given = rows(range(10, 60), ts=2)
    before = state_of(table.uri)
    if index == "ring" and operation.startswith("insert_overwrite"):
        for call in (
            lambda: table.preview_write(given, operation),
            lambda: run(table, operation, given),
        ):  # type: ignore[arg-type]
            with pytest.raises(bf.UnsupportedError, match="overwriting where rings state"):
                call()
        return
    found = table.preview_write(given, operation)  # type: ignore[arg-type]
    assert state_of(table.uri) == before
    result = run(table, operation, given)
    stats = result.files
    assert found.rows == 50
    assert found.file_groups == len(stats)
    assert found.partitions == len({path.rpartition("/")[0] for path in stats})
    assert found.file_groups_replaced == result.file_groups_replaced
    assert found.schema_changes == result.schema_changes == ()
    assert 0 <= found.new_file_groups <= found.file_groups
    if operation.startswith("insert_overwrite") or index == "ring":
        assert found.new_file_groups == found.file_groups


def run(table: bf.Table, operation: str, given: pa.Table) -> bf.CommitResult:
    if operation == "insert_overwrite_table":
        return table.insert_overwrite(given, table=True)
    return getattr(table, operation)(given)


def test_of_no_rows_and_of_other_columns(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), INDEXES["simple"], "COPY_ON_WRITE")
    table.upsert(rows(range(20), ts=1))
    assert table.preview_write([]) == bf.WritePreview(0, 0, 0, 0, 0, ())
    wide = rows([1], ts=3).append_column("extra", pa.array([1]))
    with pytest.raises(bf.SchemaError, match="lacks columns that the rows have: extra"):
        table.preview_write(wide)
    assert table.preview_write(wide, evolve=True).schema_changes == ("extra: added, int64",)
    assert table.schema == SCHEMA
    with pytest.raises(ValueError, match="which has rows; use upsert or insert"):
        table.preview_write(rows([1], ts=3), "bulk_insert")
    with pytest.raises(ValueError, match="operation"):
        table.preview_write(rows([1], ts=3), "delete")  # type: ignore[arg-type]
