"""Tables with an extendible hashing index, which is an extension: written and read by bucketfmt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.buckets.extendible_directory import directory_entries
from bucketfmt.format.buckets.extendible_metadata import decode_extendible_metadata
from bucketfmt.format.keys.hashing import xxhash32
from bucketfmt.format.table.properties import decode_properties
from bucketfmt.location.directory_files import load_directory
from tests.write.metadata.metadata_records import assert_in_step
from tests.write.models import SCHEMA, Model, assert_reads_as, create_table, rows

FOLDER = ".hoodie/.bucket_index/extendible_hashing_metadata"


def make(
    path: Path, kind: Literal["COPY_ON_WRITE", "MERGE_ON_READ"], version: int, number: int = 2
) -> bf.Table:
    return create_table(path, bf.ExtendibleHashingIndex(number), kind, table_version=version)


@pytest.fixture
def table(tmp_path: Path) -> bf.Table:
    return make(tmp_path / "trips", "MERGE_ON_READ", 9, 8)


@pytest.mark.rule("EXT-13", "EXT-14")
def test_each_key_is_in_the_bucket_of_its_low_bits(table: bf.Table) -> None:
    given, model = rows(range(9), ts=1), Model()
    table.upsert(given)
    model.upsert(given)
    assert_reads_as(table.uri, model)
    stated = decode_properties((Path(table.uri) / ".hoodie/hoodie.properties").read_bytes())
    assert {key: stated[key] for key in stated if ".index." in key} == {
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "EXTENDIBLE_HASHING",
        "hoodie.bucket.index.hash.field": "id",
        "hoodie.bucket.index.num.buckets": "8",
    }
    opened = bf.open(table.uri)
    assert opened.index == bf.ExtendibleHashingIndex(8, ("id",))
    found = opened.locate(given.select(["id", "region"])).to_pylist()
    assert [row["bucket_id"] for row in found] == [
        xxhash32(row["record_key"].encode()) % 8 for row in found
    ]
    directories = {
        path: decode_extendible_metadata(
            (Path(table.uri) / FOLDER / path / "00000000000000.hashing_meta").read_bytes()
        )
        for path in ("ap", "eu", "us")
    }
    for row in found:
        own = directories[row["partition_path"]]
        assert own.partition_path == row["partition_path"]
        bucket = own.buckets[directory_entries(own.buckets)[row["bucket_id"]]]
        assert row["file_id"] == f"{bucket.file_id_prefix}-0"
    buckets = opened.inspect.buckets()  # 24, of which most are empty
    assert buckets.column("bucket_id").to_pylist() == [*range(8)] * 3
    assert buckets.column("file_id").null_count == 24 - len({row["file_id"] for row in found})
    assert opened.check(depth="full").status == "clean"
    plan = opened.scan(filter=[("id", "=", "key-000004")]).plan()
    assert len(plan.slices) <= 3  # the bucket of the key, in each partition
    assert opened.lookup(["key-000004"]).to_pylist() == [given.to_pylist()[4]]
    assert json.loads((Path(table.uri) / FOLDER / "us/00000000000000.hashing_meta").read_text())


def test_what_contradicts_the_table_is_refused(table: bf.Table, tmp_path: Path) -> None:
    table.upsert(rows(range(9), ts=1))
    for index in (bf.SimpleBucketIndex(8), bf.ConsistentHashingIndex(8)):
        with pytest.raises(ValueError, match="contradicts the table"):
            bf.open(table.uri, index=index).lookup(["key-000001"])
    for number in (0, 3, 12):
        with pytest.raises(ValueError, match="num_buckets"):
            bf.ExtendibleHashingIndex(number)
    with pytest.raises(bf.LimitError, match="directory_depth_max"):
        bf.create(
            str(tmp_path / "large"),
            schema=pa.schema([("id", pa.string())]),
            record_key=["id"],
            index=bf.ExtendibleHashingIndex(1 << 21),
        )
    properties = Path(table.uri) / ".hoodie/hoodie.properties"
    text = properties.read_text()
    properties.write_text(text.replace("num.buckets=8", "num.buckets=9"))
    with pytest.raises(bf.CorruptError, match="power of two"):
        bf.open(table.uri).locate(["key-000001"])


def buckets_of(table: bf.Table, partition: str) -> list[tuple[int, int]]:
    """Return the buckets of a partition, each with its local depth."""
    metadata = load_directory(table._snapshot(), partition)
    assert metadata is not None
    return [(bucket.bucket_id, bucket.local_depth) for bucket in metadata.buckets]


@pytest.mark.rule("EXT-15")
@pytest.mark.rotated(0, among="overwritten directories", one_of=2)
@pytest.mark.parametrize(("kind", "version"), [("COPY_ON_WRITE", 9), ("MERGE_ON_READ", 6)])
def test_an_overwrite_keeps_the_buckets_and_a_drop_begins_anew(
    tmp_path: Path, kind: Literal["COPY_ON_WRITE", "MERGE_ON_READ"], version: int
) -> None:
    table, model = make(tmp_path / "t", kind, version), Model()
    table.upsert(rows(range(30), 1))
    model.upsert(rows(range(30), 1))
    table.metadata_table.init("files", "column_stats", "record_index")
    split = table.resize(max_file_size=1, max_buckets=4)
    assert split is not None
    first, after_split = buckets_of(table, "us"), table.scan().to_arrow()
    assert first == [(0, 2), (1, 2), (2, 2), (3, 2)]

    given = rows(range(90, 120, 3), 2)  # all of us
    replaced = table.insert_overwrite(given)
    model.drop("us")
    model.upsert(given)
    assert (replaced.action, buckets_of(table, "us")) == ("replacecommit", first)
    assert_reads_as(table.uri, model)
    assert_in_step(table)

    table.insert_overwrite(rows(range(1, 60, 3), 3), table=True)  # all of eu
    model.rows.clear()
    model.upsert(rows(range(1, 60, 3), 3))
    assert [buckets_of(table, path) for path in ("us", "eu")] == [[(0, 1), (1, 1)], first]
    assert_reads_as(table.uri, model)

    table.delete_partitions(["eu"])
    model.drop("eu")
    assert buckets_of(table, "eu") == [(0, 1), (1, 1)]
    assert_reads_as(table.uri, model)
    again = rows(range(40), 4)  # all partitions, of which two are empty
    table.upsert(again)
    model.upsert(again)
    assert_reads_as(table.uri, model)
    assert_in_step(table)
    assert table.scan(as_of=split.instant).to_arrow().num_rows == after_split.num_rows

    table.clean(retain=1, dry_run=False)
    table.rollback()
    model.rows.clear()
    assert_reads_as(table.uri, model)


def test_an_overwrite_is_taken_back_with_its_directory(table: bf.Table) -> None:
    model = Model()
    table.upsert(rows(range(30), 1))
    model.upsert(rows(range(30), 1))
    folder = Path(table.uri) / FOLDER / "us"
    for replace in (
        lambda: table.insert_overwrite(rows([0, 3], 2)),
        lambda: table.delete_partitions(["us"]),
    ):
        done = replace()
        assert {file.name for file in folder.iterdir()} >= {f"{done.instant}.hashing_meta"}
        table.rollback(done.instant)
        assert [file.name for file in folder.iterdir()] == ["00000000000000.hashing_meta"]
        assert_reads_as(table.uri, model)


def test_who_begins_a_bucket_of_a_partition_that_is_overwritten_is_in_conflict(
    table: bf.Table,
) -> None:
    table.upsert(rows([0], 1))
    others = rows(range(3, 30, 3), 1)
    with table.start_write("insert_overwrite", SCHEMA) as started:
        receipts = list(started.task.write(rows([6], 2), "0-0-0"))
        bf.open(table.uri).upsert(others)  # begins other buckets of the partition
        with pytest.raises(bf.ConflictError, match="us"):
            started.publish(receipts)
    model = Model()
    model.upsert(rows([0], 1))
    model.upsert(others)
    assert_reads_as(table.uri, model)
    late = bf.open(table.uri, writer=bf.WriterConfig(services=None))
    with late.start_write("upsert", SCHEMA) as started:
        receipts = list(started.task.write(rows([9], 3), "0-0-0"))
        table.insert_overwrite(rows([0], 4))
        with pytest.raises(bf.ConflictError, match="us"):
            started.publish(receipts)
    assert table.scan().to_arrow().num_rows == 1


def test_directories_of_overwrites_are_cleaned(table: bf.Table) -> None:
    for ts in range(1, 9):
        table.insert_overwrite(rows([0, 3], ts))
    table.clean(retain=1, dry_run=False)
    table.archive(min_commits=2, max_commits=3)
    table.insert_overwrite(rows([0, 3], 10))
    table.clean(retain=1, dry_run=False)
    left = len(list((Path(table.uri) / FOLDER / "us").iterdir()))
    assert left <= 5
    model = Model()
    model.upsert(rows([0, 3], 10))
    assert_reads_as(table.uri, model)
