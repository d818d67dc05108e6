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
            with pytest.raises(bf.UnsupportedError, match="where rings state"):
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


def run(table: bf.Table, operation: str, given: pa.Table, **options: object) -> bf.CommitResult:
    if operation == "insert_overwrite_table":
        return table.insert_overwrite(given, table=True, **options)  # type: ignore[arg-type]
    return getattr(table, operation)(given, **options)


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


def both(table: bf.Table, given: object, operation: str, **options: object) -> list[str]:
    """How the preview and the write are refused, which leaves no byte changed."""
    before, told = state_of(table.uri), []
    for call in (
        lambda: table.preview_write(given, operation, **options),  # type: ignore[arg-type]
        lambda: run(table, operation, given, **options),  # type: ignore[arg-type]
    ):
        with pytest.raises((bf.BucketfmtError, ValueError, TypeError)) as caught:
            call()
        told.append(f"{caught.type.__name__}: {caught.value}")
    now = state_of(table.uri)
    assert {p: now.get(p) for p in before if ".locks" not in p} == {
        p: data for p, data in before.items() if ".locks" not in p
    }
    return told


@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table"])
@pytest.mark.parametrize("given", [[], rows([], ts=1), rows([1], ts=3)])
def test_no_ring_is_overwritten_even_by_nothing(
    tmp_path: Path, operation: str, given: object
) -> None:
    """Its file groups would be hidden, and what is written to them would stay so."""
    table = create_table(str(tmp_path / "t"), INDEXES["ring"], "MERGE_ON_READ")
    table.upsert(rows(range(20), ts=1))
    preview, write = both(table, given, operation)
    assert preview == write
    assert "where rings state the file ids" in write
    with pytest.raises(bf.UnsupportedError, match="where rings state the file ids"):
        table.delete_partitions("us")
    assert table.upsert(rows(range(20), ts=2)).committed
    assert bf.open(table.uri).scan().count() == 20


@pytest.mark.parametrize("index", [bf.RecordIndex(), bf.RecordIndex(partitioned=True)], ids=repr)
def test_the_record_index_is_not_removed_by_a_write_that_needs_it(
    tmp_path: Path, index: bf.Index
) -> None:
    uri = str(tmp_path / "t")
    create_table(uri, index, "COPY_ON_WRITE").upsert(rows(range(20), ts=1))
    table = bf.open(uri, writer=bf.WriterConfig(metadata_table="drop"))
    preview, write = both(table, rows([1], ts=3), "upsert")
    assert preview == write
    assert 'metadata_table="drop" on a table that is written by RecordIndex' in write
    with pytest.raises(bf.UnsupportedError, match="on a table that is written by RecordIndex"):
        table.delete(["key-000001"])
    assert bf.open(uri).upsert(rows([1], ts=3)).rows_updated == 1


def test_what_is_refused_alike(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), INDEXES["simple"], "COPY_ON_WRITE")
    table.upsert(rows(range(20), ts=1))
    null = rows([1, 2], ts=3)
    at = null.schema.get_field_index("ts")
    null = null.set_column(at, null.schema.field(at), pa.array([3, None], null.schema.types[at]))
    for given, operation, options, why in (
        (null, "upsert", {}, "SchemaError: column ts: null, but the table finds"),
        (rows([1], ts=3), "upsert", {"commit_metadata": {"schema": "x"}}, "ValueError: the entry"),
        (rows([1], ts=3), "upsert", {"idempotency_key": ""}, "ValueError: idempotency_key is not"),
        (rows([1], ts=3), "upsert", {"codec": "lz77"}, "ValueError: "),
        (rows([1], ts=3), "upsert", {"other": 1}, "TypeError: unknown argument 'other'"),
    ):
        preview, write = both(table, given, operation, **options)
        assert preview == write
        assert write.startswith(why)
    table.metadata_table.init("files")
    refusing = bf.open(table.uri, writer=bf.WriterConfig(metadata_table="refuse"))
    preview, write = both(refusing, rows([1], ts=3), "upsert")
    assert preview == write
    assert write.startswith("UnsupportedError: the table has a metadata table")
    begun = Path(table.uri, ".hoodie/timeline/20990101000000000.restore.inflight")
    begun.write_bytes(b"")
    preview, write = both(bf.open(table.uri), rows([1], ts=3), "upsert")
    assert preview == write
    assert write.startswith("ConflictError: restore 20990101000000000 was begun")


def test_a_write_that_was_done_before(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "t"), INDEXES["simple"], "COPY_ON_WRITE")
    given = rows(range(20), ts=1)
    assert table.preview_write(given, idempotency_key="k").rows == 20
    table.upsert(given, idempotency_key="k")
    found = table.preview_write(given, idempotency_key="k")
    assert found == bf.WritePreview(0, 0, 0, 0, 0, (), repeated=True)
    assert table.upsert(given, idempotency_key="k").repeated


def test_a_base_file_that_is_gone(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", bf.SimpleBucketIndex(1))
    table.upsert(rows(range(9), ts=1))
    (gone,) = (tmp_path / "t/eu").glob("*.parquet")
    gone.unlink()
    for act in (table.preview_write, table.upsert):
        with pytest.raises(bf.CorruptError, match="does not exist; restore it") as refused:
            act(rows(range(9), ts=2))
        assert refused.value.path == f"eu/{gone.name}"
    assert table.preview_write(rows([0, 3], ts=2)).file_groups == 1  # of us alone
