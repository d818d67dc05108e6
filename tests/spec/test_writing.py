"""What chapter 22 says of tables that are written, looked at in their files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bucketfmt as bf
from bucketfmt.format.table.properties import decode_properties
from bucketfmt.testing.recording_store import RecordingStore

SCHEMA = pa.schema(
    [("id", pa.string()), ("city", pa.string()), ("n", pa.int64()), ("fare", pa.decimal128(5, 2))]
)
ROWS = pa.Table.from_pylist(
    [{"id": str(n), "city": "sf", "n": n, "fare": None} for n in range(4)], SCHEMA
)
LEAST = {
    "hoodie.table.name",
    "hoodie.table.checksum",
    "hoodie.table.type",
    "hoodie.table.version",
    "hoodie.timeline.layout.version",
    "hoodie.table.recordkey.fields",
    "hoodie.table.partition.fields",
    "hoodie.datasource.write.hive_style_partitioning",
    "hoodie.datasource.write.partitionpath.urlencode",
}
OF_VERSION = {
    6: {"hoodie.table.precombine.field", "hoodie.compaction.payload.class"},
    8: {
        "hoodie.table.precombine.field",
        "hoodie.record.merge.mode",
        "hoodie.record.merge.strategy.id",
        "hoodie.compaction.payload.class",
    },
    9: {"hoodie.table.ordering.fields", "hoodie.record.merge.mode"},
}


def make(folder: Path, version: int = 9) -> bf.Table:
    return bf.create(
        folder / "t",
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        ordering="n",
        index=bf.SimpleBucketIndex(1),
        table_type="MERGE_ON_READ",
        table_version=version,
        writer=bf.WriterConfig(services=None),
    )


def base_files(table: bf.Table) -> list[Path]:
    return sorted(Path(table.uri, "sf").glob("*.parquet"))


@pytest.mark.rule("WRITE-1")
@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_table_has_the_least_properties(tmp_path: Path, version: int) -> None:
    data = Path(make(tmp_path, version).uri, ".hoodie/hoodie.properties").read_bytes()
    assert decode_properties(data).keys() >= LEAST | OF_VERSION[version]


@pytest.mark.rule("WRITE-2")
@pytest.mark.rule("WRITE-3")
def test_texts_are_annotated(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert(ROWS)
    (path,) = base_files(table)
    schema = pq.ParquetFile(path).schema
    columns = {schema.column(n).name: schema.column(n) for n in range(len(schema.names))}
    texts = [name for name in columns if name.startswith("_hoodie") or name in ("id", "city")]
    assert len(texts) == 7
    for name in texts:
        column = columns[name]
        assert (column.physical_type, column.logical_type.type) == ("BYTE_ARRAY", "STRING")
        assert column.max_definition_level == 1, "optional"
    assert columns["n"].physical_type == "INT64"
    fare = columns["fare"]
    assert (fare.physical_type, fare.logical_type.type) == ("FIXED_LEN_BYTE_ARRAY", "DECIMAL")


@pytest.mark.rule("WRITE-2")
def test_a_decimal_has_the_full_name_that_hudi_gives_it(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert(ROWS)
    (path,) = base_files(table)
    properties = decode_properties(Path(table.uri, ".hoodie/hoodie.properties").read_bytes())
    footer = pq.read_metadata(path).metadata[b"parquet.avro.schema"]
    for text in (properties["hoodie.table.create.schema"], footer):
        schema = json.loads(text)
        assert (schema["namespace"], schema["name"]) == ("hoodie.t", "t_record")
        (fare,) = (field["type"][1] for field in schema["fields"] if field["name"] == "fare")
        assert (fare["namespace"], fare["name"]) == ("hoodie.t.t_record.fare", "fixed")


@pytest.mark.rule("WRITE-4")
def test_partition_columns_are_in_the_files(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert(ROWS)
    (path,) = base_files(table)
    assert pq.read_table(path, partitioning=None)["city"].to_pylist() == ["sf"] * 4


@pytest.mark.rule("WRITE-6")
@pytest.mark.rule("WRITE-7")
def test_a_row_that_stays_keeps_when_it_was_written(tmp_path: Path) -> None:
    table = make(tmp_path)
    first = table.upsert(ROWS).instant
    second = table.upsert(ROWS.slice(0, 1).set_column(2, "n", pa.array([9]))).instant
    compacted = table.compact()
    assert compacted is not None
    (path,) = (path for path in base_files(table) if compacted.instant in path.name)
    rows = pq.read_table(path, partitioning=None).sort_by("id").to_pylist()
    assert [row["_hoodie_commit_time"] for row in rows] == [second, first, first, first]
    assert {row["_hoodie_file_name"] for row in rows} == {path.name}
    numbers = [row["_hoodie_commit_seqno"] for row in rows]
    assert [number.partition("_")[0] for number in numbers] == [second, first, first, first]
    assert len({*numbers}) == 4


@pytest.mark.rule("WRITE-5")
@pytest.mark.rule("WRITE-8")
def test_the_steps_of_a_write_are_in_order(tmp_path: Path) -> None:
    plain = make(tmp_path)
    store = RecordingStore(plain.store)
    table = bf.Table(store, plain.config, plain.limits, None, bf.WriterConfig(services=None))
    instant = table.upsert(ROWS).instant
    steps = [path for verb, path in store.operations if verb.startswith(("put", "delete"))]
    steps = [path for path in steps if instant in path and ".heartbeat" not in path]

    def at(part: str) -> int:
        return next(number for number, path in enumerate(steps) if part in path)

    order = [
        at(f"{instant}.deltacommit.requested"),
        at(f"{instant}.deltacommit.inflight"),
        at(".hoodie/.temp/"),
        at("sf/"),
        at(f"{instant}_"),
    ]
    assert order == sorted(order)
    assert ".hoodie/.temp/" in steps[-1], "markers go last"
