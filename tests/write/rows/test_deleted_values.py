"""What was deleted does not come back, and what is written afterwards is there (ADR 0016)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.log.delete_records import decode_delete_block
from bucketfmt.format.log.log_block import BlockType, LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.log.ordering_values import OrderingKind
from bucketfmt.format.timeline.plans import CompactionOperation, CompactionPlan
from bucketfmt.timeline.transitions import put_requested
from bucketfmt.write.rows import bucket_writer
from tests.table.tables import state_properties
from tests.write.rows.test_ordering import KINDS, SCHEMA, row, rows, values

pytestmark = [pytest.mark.rotated, pytest.mark.rule("MERGE-14")]


def create(folder: Path, table_type: str, version: int, **more: object) -> bf.Table:
    return bf.create(
        folder / "t",
        schema=SCHEMA,
        record_key=["id"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(1),
        table_type=table_type,  # type: ignore[arg-type]
        table_version=version,
        **more,  # type: ignore[arg-type]
    )


DELETES = ["keys", "filter", "marked", "marked low"]
COMPACTED_OR_NOT = [
    *((kind, version, False) for kind, version in KINDS),
    *((kind, version, True) for kind, version in KINDS if kind == "MERGE_ON_READ"),
]


def delete(table: bf.Table, how: str, keys: list[str]) -> None:
    if how == "keys":
        table.delete(keys)
    elif how == "filter":
        table.delete(filter=[("id", "in", keys)])
    else:
        table.upsert(rows(*(row(key, "x", 7 if how == "marked" else 5, True) for key in keys)))


@pytest.mark.parametrize(("table_type", "version", "is_compacted"), COMPACTED_OR_NOT)
@pytest.mark.parametrize("how", DELETES)
def test_a_row_after_a_delete_is_a_new_row(
    tmp_path: Path, table_type: str, version: int, how: str, is_compacted: bool
) -> None:
    """Whatever its ordering value, wherever the deleted row lies, however it was deleted."""
    table = create(tmp_path, table_type, version)
    table.upsert(rows(row("base", "old", 5), row("both", "old", 4), row("other", "kept", 1)))
    table.upsert(rows(row("log", "old", 5), row("both", "older", 5)))
    delete(table, how, ["base", "log", "both"])
    assert values(table) == {"other": "kept"}
    if is_compacted:
        table.compact()
    table.upsert(rows(*(row(key, "new", 2) for key in ("base", "log", "both"))))
    expected = dict.fromkeys(("base", "log", "both"), "new") | {"other": "kept"}
    assert values(table) == expected
    table.upsert(rows(row("base", "stale", 1), row("log", "newer", 3)))
    expected["log"] = "newer"
    assert values(table) == expected
    if table_type == "MERGE_ON_READ":
        table.compact()
        assert values(table) == expected
    assert table.check(depth="full").status == "clean"
    found = table.lookup(["base", "log", "both", "other"])
    assert {r["id"]: r["v"] for r in found.to_pylist()} == expected


@pytest.mark.rule("MERGE-15")
@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("how", DELETES)
def test_deletes_of_rows_that_a_decimal_orders(tmp_path: Path, version: int, how: str) -> None:
    """Hudi 1.0 fails to read a delete with a decimal. Without, a late delete is to be left out."""
    decimal = pa.decimal128(25, 4)
    at = SCHEMA.get_field_index("ts")

    def ordered(*of: tuple) -> pa.Table:
        given = rows(*of)
        return given.set_column(at, "ts", given["ts"].cast(decimal))

    table = bf.create(
        tmp_path / "t",
        schema=ordered(row("a", "old", 5)).schema,
        record_key="id",
        ordering="ts",
        index=bf.SimpleBucketIndex(1),
        table_type="MERGE_ON_READ",
        table_version=version,  # type: ignore[arg-type]
    )
    table.upsert(ordered(row("a", "old", 5), row("b", "old", 5), row("late", "old", 9)))
    if how.startswith("marked"):
        ts = 7 if how == "marked" else 5
        table.upsert(ordered(*(row(key, "x", ts, True) for key in ("a", "b", "late"))))
    else:
        delete(table, how, ["a", "b"])
    assert values(table) == {"late": "old"}
    blocks = [
        decode_delete_block(span.content)
        for path in Path(table.uri).glob(".*.log.*")
        for span in decode_log_file(path.read_bytes())
        if isinstance(span, LogBlock) and span.block_type is BlockType.DELETE
    ]
    expected = OrderingKind.INT if version == 8 else OrderingKind.DECIMAL
    assert {kind for block in blocks for kind in block.ordering_kinds} == {expected}
    keys = {key for block in blocks for key in block.record_keys}
    assert keys - {"late"} == {"a", "b"}
    assert version == 9 or "late" not in keys
    table.upsert(ordered(row("a", "new", 2)))
    assert values(table) == {"a": "new", "late": "old"}
    table.compact()
    assert values(table) == {"a": "new", "late": "old"}
    assert table.check(depth="full").status == "clean"


def base_files(table: bf.Table) -> int:
    return sum(1 for path in Path(table.uri).glob("*.parquet"))


@pytest.mark.parametrize("version", [6, 8, 9])
def test_only_rows_that_would_not_be_seen_cost_a_base_file(tmp_path: Path, version: int) -> None:
    table = create(tmp_path, "MERGE_ON_READ", version)
    table.upsert(rows(row("a", "old", 5), row("b", "old", 5), row("c", "old", 5)))
    table.delete(["a", "b"])
    table.upsert(rows(row("c", "late", 2), row("d", "new", 1)))  # no key that was deleted
    table.upsert(rows(row("a", "newer", 6)))
    assert base_files(table) == 1
    assert values(table) == {"a": "newer", "c": "old", "d": "new"}
    table.upsert(rows(row("b", "late", 4), row("e", "new", 1), row("d", "gone", 9, True)))
    assert base_files(table) == 2
    assert values(table) == {"a": "newer", "b": "late", "c": "old", "e": "new"}
    table.upsert(rows(row("b", "stale", 3)))  # the base file has no deletes
    assert base_files(table) == 2
    assert values(table)["b"] == "late"
    assert values(bf.open(table.uri)) == {"a": "newer", "b": "late", "c": "old", "e": "new"}


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_live_row_that_outlived_a_late_delete_is_not_replaced(
    tmp_path: Path, version: int
) -> None:
    """A row marked as deleted that is older than the stored row deletes nothing."""
    table = create(tmp_path, "MERGE_ON_READ", version)
    table.upsert(rows(row("a", "old", 5)))
    table.upsert(rows(row("a", "x", 3, True)))
    table.upsert(rows(row("a", "late", 4)))
    assert values(table) == {"a": "old"}


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_slice_under_a_pending_compaction_is_rewritten(tmp_path: Path, version: int) -> None:
    table = create(tmp_path, "MERGE_ON_READ", version)
    table.upsert(rows(row("a", "old", 5), row("b", "old", 5), row("c", "old", 5)))
    table.delete(["a"])
    compaction = table.start_compaction()
    assert compaction is not None
    table.delete(["b"])
    table.upsert(rows(row("a", "new", 2), row("b", "new", 3)))
    expected = {"a": "new", "b": "new", "c": "old"}
    assert values(table) == expected
    # What is logged now belongs to the newest base file, not to the slice of the compaction.
    table.upsert(rows(row("b", "newer", 4)))
    table.delete(["a"])
    del expected["a"]
    expected["b"] = "newer"
    assert values(table) == expected
    receipts = [compaction.task.compact(payload, "0-0-0") for payload in compaction.payloads]
    compaction.publish(receipts)
    assert values(bf.open(table.uri)) == expected
    table.upsert(rows(row("b", "stale", 1), row("c", "newer", 6)))
    table.compact()
    assert values(table) == expected | {"c": "newer"}
    assert table.check(depth="full").status == "clean"


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_compaction_that_began_meanwhile_does_not_hide_the_rows(
    tmp_path: Path, version: int
) -> None:
    table = create(tmp_path, "MERGE_ON_READ", version)
    table.upsert(rows(row("a", "old", 5), row("b", "old", 5)))
    table.delete(["a"])
    given = rows(row("a", "new", 2))
    with table.start_write("upsert", given.schema) as started:
        receipts = list(started.task.write(given, "0-0-0"))
        bf.open(table.uri).compact()
        with pytest.raises(bf.ConflictError):
            started.publish(receipts)
    table.upsert(given)
    assert values(table) == {"a": "new", "b": "old"}


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_write_over_a_delete_is_taken_back_whole(tmp_path: Path, version: int) -> None:
    table = create(tmp_path, "MERGE_ON_READ", version)
    table.upsert(rows(row("a", "old", 5), row("b", "old", 5)))
    table.delete(["a"])
    done = table.upsert(rows(row("a", "new", 2)))
    assert values(table) == {"a": "new", "b": "old"}
    assert done.instant is not None
    table.rollback(done.instant)
    assert values(table) == {"b": "old"}
    table.upsert(rows(row("a", "again", 1)))
    assert values(table) == {"a": "again", "b": "old"}


@pytest.mark.parametrize("version", [8, 9])
def test_a_non_blocking_writer_brings_nothing_back(tmp_path: Path, version: int) -> None:
    """It rewrites nothing. The delete keeps the ordering value, and a late row stays hidden."""
    create(tmp_path, "MERGE_ON_READ", version)
    writer = bf.WriterConfig(concurrency="non_blocking")
    table = bf.open(tmp_path / "t", writer=writer)
    table.upsert(rows(row("a", "old", 5), row("b", "old", 5)))
    bf.open(table.uri).compact()
    table.delete(["a"])
    table.upsert(rows(row("a", "late", 2), row("b", "newer", 6)))
    assert values(table) == {"b": "newer"}
    table.upsert(rows(row("a", "new", 7)))
    assert values(table) == {"a": "new", "b": "newer"}


@pytest.mark.parametrize("version", [8, 9])
def test_a_non_blocking_writer_refuses_rows_over_a_delete_without_ordering(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(tmp_path, "MERGE_ON_READ", version)
    table.upsert(rows(row("a", "old", 5), row("b", "old", 5)))
    monkeypatch.setattr(bucket_writer, "_deletes_need_ordering", lambda *_: False)  # as Hudi
    table.delete(["a"])
    late = rows(row("a", "late", 2))
    appending = bf.open(table.uri, writer=bf.WriterConfig(concurrency="non_blocking"))
    with pytest.raises(bf.UnsupportedError, match="of keys that the log deletes"):
        appending.upsert(late)
    assert values(table) == {"b": "old"}
    table.upsert(late)
    assert values(table) == {"a": "late", "b": "old"}


@pytest.mark.parametrize("version", [6, 8, 9])
def test_deletes_that_hudi_wrote_without_ordering_value(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi 1.0 fails on any row over such a delete, so that none is logged in version 8."""
    table = create(tmp_path, "MERGE_ON_READ", version)
    table.upsert(rows(row("a", "old", 5), row("b", "old", 5), row("c", "old", 5)))
    monkeypatch.setattr(bucket_writer, "_deletes_need_ordering", lambda *_: False)
    table.delete(["a", "b"])
    table.upsert(rows(row("b", "newer", 6)))
    assert base_files(table) == (2 if version == 8 else 1)
    table.upsert(rows(row("a", "late", 2)))
    assert base_files(table) == 2
    assert values(table) == {"a": "late", "b": "newer", "c": "old"}


def test_virtual_keys(tmp_path: Path) -> None:
    properties = {"hoodie.populate.meta.fields": "false"}
    table = create(tmp_path, "MERGE_ON_READ", 9, properties=properties)
    table.upsert(rows(row("a", "old", 5), row("b", "old", 5)))
    table.delete(["a"])
    table.upsert(rows(row("a", "new", 2)))
    assert values(table) == {"a": "new", "b": "old"}


def test_deletes_where_no_column_has_the_name_of_the_ordering_field(tmp_path: Path) -> None:
    """Hudi 0.x records the ordering field `ts` by default, whatever columns there are."""
    table = create(tmp_path, "MERGE_ON_READ", 9)
    path = tmp_path / "t/.hoodie/hoodie.properties"
    lines = [line for line in path.read_text().splitlines() if "checksum" not in line]
    path.write_text("\n".join(lines).replace("ordering.fields=ts", "ordering.fields=other"))
    table = bf.open(table.uri)
    table.upsert(rows(row("a", "old", 5), row("b", "old", 5)))
    table.delete(["a"])
    assert values(table) == {"b": "old"}
    table.upsert(rows(row("a", "new", 2)))
    assert values(table) == {"a": "new", "b": "old"}


@pytest.mark.parametrize("version", [6, 8, 9])
def test_deletes_whose_commits_are_archived(tmp_path: Path, version: int) -> None:
    """Nothing but the log tells then that there are deletes."""
    table = create(tmp_path, "MERGE_ON_READ", version)
    table.upsert(rows(row("a", "old", 5), row("b", "old", 5)))
    table.delete(["a"])
    for number in range(4):
        table.upsert(rows(row("b", f"new {number}", 6 + number)))
    table.archive(min_commits=2, max_commits=3)
    table = bf.open(table.uri)
    assert len(table.timeline.writes.completed.instants) <= 3
    table.upsert(rows(row("a", "new", 2)))
    assert values(table) == {"a": "new", "b": "new 3"}


@pytest.mark.parametrize("how", ["keys", "keys, as Hudi", "marked"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_pending_compaction_of_the_deleted_row_does_not_bring_it_back(
    tmp_path: Path, version: int, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row is in the log when the delete is written, and in a base file afterwards."""
    table = create(tmp_path, "MERGE_ON_READ", version)
    table.upsert(rows(row("other", "kept", 1)))
    table.upsert(rows(row("a", "old", 5)))
    compaction = table.start_compaction()
    assert compaction is not None
    if how == "keys, as Hudi":
        monkeypatch.setattr(bucket_writer, "_deletes_need_ordering", lambda *_: False)
    delete(table, how.partition(",")[0], ["a"])
    table.upsert(rows(row("a", "new", 4)))
    expected = {"a": "new", "other": "kept"}
    assert values(table) == expected
    receipts = [compaction.task.compact(payload, "0-0-0") for payload in compaction.payloads]
    compaction.publish(receipts)
    assert values(bf.open(table.uri)) == expected


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("is_planned", [True, False])
def test_no_base_file_goes_below_a_pending_log_compaction(
    tmp_path: Path, version: int, is_planned: bool
) -> None:
    """Hudi 1.0.2 executed it above the base file, and read the deleted value again."""
    table = create(tmp_path, "MERGE_ON_READ", version)
    table.upsert(rows(row("a", "old", 5)))
    table.upsert(rows(row("a", "newer", 6)))
    file_id = next(Path(table.uri).glob(".*.log.*")).name[1:].partition("_")[0]
    planned = CompactionOperation(file_id=file_id if is_planned else "other", partition_path="")
    plan = CompactionPlan(operations=[planned])
    put_requested(table.store, table.config, "20990101000000000", "logcompaction", plan)
    table.delete(["a"])
    late = rows(row("a", "late", 2))
    if not is_planned:
        table.upsert(late)
        assert values(table) == {"a": "late"}
        return
    with pytest.raises(bf.ConflictError, match=r"log compaction 2099.* is pending"):
        table.upsert(late)
    assert values(table) == {}
    table.upsert(rows(row("b", "new", 1)))  # no key that was deleted
    assert values(table) == {"b": "new"}


@pytest.mark.rule("MERGE-7")
@pytest.mark.parametrize("prefix", ["hoodie.record.merge.property.", ""])
def test_a_delete_marker_of_merge_properties_is_for_writers(tmp_path: Path, prefix: str) -> None:
    """Hudi 1.2 reads and compacts a row that MERGE INTO logged with the marker as a row."""
    table = create(tmp_path, "MERGE_ON_READ", 9)
    table.upsert(rows(row("a", "old", 1), row("b", "old", 1)))
    table.upsert(rows(row("a", "D", 2)))  # logged as a row: there is no marker yet
    marker = {"hoodie.payload.delete.field": "v", "hoodie.payload.delete.marker": "D"}
    state_properties(tmp_path / "t", {prefix + name: value for name, value in marker.items()})
    left = {"a": "D", "b": "old"} if prefix else {"b": "old"}
    table = bf.open(table.uri)
    assert values(table) == left
    table.compact()
    assert values(table) == left
    table.upsert(rows(row("a", "D", 3), row("b", "new", 3)))
    assert values(bf.open(table.uri)) == {"b": "new"}
