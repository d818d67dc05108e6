"""Tables with an extendible hashing index, which is an extension: written and read by bucketfmt."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.buckets.extendible_directory import directory_entries
from bucketfmt.format.buckets.extendible_metadata import decode_extendible_metadata
from bucketfmt.format.keys.hashing import xxhash32
from bucketfmt.format.table.properties import decode_properties
from tests.write.models import SCHEMA, Model, assert_reads_as, rows

FOLDER = ".hoodie/.bucket_index/extendible_hashing_metadata"


@pytest.fixture
def table(tmp_path: Path) -> bf.Table:
    return bf.create(
        str(tmp_path / "trips"),
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        ordering=["ts"],
        index=bf.ExtendibleHashingIndex(8),
        table_type="MERGE_ON_READ",
    )


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
