from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.errors import CorruptError
from bucketfmt.format.metadata.metadata_records import ColumnStats
from bucketfmt.format.names.layout import METADATA_TABLE
from bucketfmt.format.table.properties import decode_properties
from bucketfmt.format.table.table_config import METADATA_PARTITIONS_UNFINISHED
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.stores.local_store import LocalStore
from bucketfmt.timeline.table_properties import change_properties
from bucketfmt.write.properties.metadata_table import drop_metadata_table
from tests.write.metadata.metadata_records import assert_in_step, records_of


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

    drop_metadata_table(LocalStore(str(table)), DEFAULT_LIMITS, time.time(), lambda: None)

    assert not sidecar.exists()
    changed = {"hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight"}
    after = decode_properties(properties.read_bytes())
    assert {key: after[key] for key in after.keys() - changed} == {
        key: before[key] for key in before.keys() - changed
    }
    assert not after["hoodie.table.metadata.partitions"]
    assert bf.open(table).scan().count() == rows


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("0.15.0", "cdc_metadata"),
        ("1.0.2", "cdc_metadata"),
        ("1.2.0", "cdc_metadata"),
        ("1.2.0", "cdc_pending_mor"),  # the only release that captures changes when it compacts
    ],
)
def test_a_partition_files_that_is_made_anew_lists_change_data_as_hudi(
    golden_copy: Callable[[str, str], Path], version: str, name: str
) -> None:
    table = bf.open(golden_copy(version, name), index=bf.SimpleBucketIndex(2))
    of_hudi = records_of(table, "files")
    table.metadata_table.rebuild("files")
    assert records_of(bf.open(table.uri), "files") == of_hudi
    assert ".cdc" in str(of_hudi)


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


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_an_upgraded_table_keeps_its_statistics_in_the_form_of_before(
    tmp_path: Path, kind: Any
) -> None:
    """As its definitions tell. Hudi fails to merge statistics of two forms."""
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("day", pa.date32())])
    table = bf.create(
        tmp_path / "t",
        schema=schema,
        record_key="id",
        ordering="ts",
        table_type=kind,
        index=bf.SimpleBucketIndex(1),
        writer=bf.WriterConfig(services=None),
    )

    def write(day: int) -> None:
        table.upsert(pa.table({"id": ["a"], "ts": [day], "day": [date(2024, 1, day)]}, schema))

    def forms() -> set[tuple[int | None, str | None]]:
        return {
            (own.value_type, own.minimum.wrapper if own.minimum else None)
            for name in ("column_stats", "partition_stats")
            for own in records_of(table, name).values()
            if isinstance(own, ColumnStats) and own.column == "day" and not own.is_deleted
        }

    write(1)
    table.metadata_table.init("column_stats", "partition_stats")
    (new,) = forms()
    assert new[0] is not None
    definitions = tmp_path / "t/.hoodie/.index_defs/index.json"
    definitions.write_text(definitions.read_text().replace('"V2"', '"V1"'))
    table.metadata_table.rebuild("column_stats", "partition_stats")
    assert forms() == {(None, "Date")}
    for day in (2, 3):
        write(day)
    table.compact()
    table.clean(retain=1)
    assert forms() == {(None, "Date")}
    assert_in_step(table)
    assert table.check(depth="full").status == "clean"
    assert table.scan(filter="day = '2024-01-03'").count() == 1
    assert '"V1"' in definitions.read_text()


@pytest.mark.parametrize("names", [(), ("files",)])
def test_a_table_without_a_metadata_table_has_none_to_make_anew(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    """`files` was made without a word."""
    schema = pa.schema({"id": pa.string(), "ts": pa.int64()})
    table = bf.create(tmp_path / "t", schema=schema, record_key=["id"], ordering=["ts"])
    with pytest.raises(ValueError, match="no metadata table to make anew; init makes one"):
        table.metadata_table.rebuild(*names)
    assert table.metadata_table.list() == ()
    assert not (tmp_path / "t/.hoodie/metadata").exists()


@pytest.mark.parametrize(("version", "is_refused"), [(6, False), (8, True), (9, True)])
def test_an_empty_log_of_a_completed_write_of_the_metadata_table(
    tmp_path: Path, version: int, is_refused: bool
) -> None:
    """Keys whose entries were in it were taken for new: an upsert stored them twice.

    In version 6, a writer that died before it wrote to a log may have left one.
    """
    schema = pa.schema({"id": pa.string(), "ts": pa.int64()})
    table = bf.create(
        tmp_path / "t",
        schema=schema,
        record_key=["id"],
        ordering=["ts"],
        index=bf.RecordIndex(),
        table_version=version,
    )
    table.upsert(pa.table({"id": ["a", "b", "c"], "ts": [1, 1, 1]}))
    table.upsert(pa.table({"id": ["d", "e", "f"], "ts": [1, 1, 1]}))
    logs = (tmp_path / "t/.hoodie/metadata/record_index").glob(".*.log.*")
    (last, *_) = [path for path in sorted(logs) if not path.name.endswith("0-0-0")]
    last.write_bytes(b"")
    found = bf.open(tmp_path / "t")
    assert found.scan().count() == 6
    again = pa.table({"id": list("abcdef"), "ts": [2] * 6})
    if not is_refused:
        found.locate(again)
        return
    with pytest.raises(CorruptError, match=r"is empty.*make the metadata table anew") as refused:
        found.upsert(again)
    assert str(refused.value.path).endswith(last.name)
    assert "M002" in {finding.id for finding in found.check(depth="full").findings}
    found.metadata_table.rebuild()
    found.upsert(again)
    assert found.scan().count() == 6
    assert found.check(depth="full").status == "clean"


def test_partitions_that_a_dead_writer_was_making_are_made_where_hudi_removed_the_others(
    tmp_path: Path,
) -> None:
    """Hudi's write without a metadata table removes it, `files` too, and keeps these names."""
    rows = pa.table({"id": ["a"], "v": [1]})
    table = bf.create(
        tmp_path / "t", schema=rows.schema, record_key="id", index=bf.SimpleBucketIndex(1)
    )
    table.upsert(rows)
    shutil.rmtree(tmp_path / "t" / METADATA_TABLE, ignore_errors=True)
    unfinished = {METADATA_PARTITIONS_UNFINISHED: "bloom_filters,column_stats"}
    gone = {"hoodie.table.metadata.partitions": ""}
    change_properties(
        table.store, DEFAULT_LIMITS, 0, lambda old: {**old, **gone, **unfinished}, lambda: None
    )
    with pytest.warns(UserWarning, match="made anew: bloom_filters, column_stats"):
        bf.open(table.uri).upsert(pa.table({"id": ["b"], "v": [2]}))
    found = bf.open(table.uri)
    assert set(found.config.metadata_partitions) == {"files", "bloom_filters", "column_stats"}
    assert_in_step(found)
    assert found.check(depth="full").status == "clean"
