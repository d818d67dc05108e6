"""Files keep the codec that the table's files have, unless the caller or the table says another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bucketfmt as bf
from bucketfmt.rows.parquet.base_file import BaseFileReader
from bucketfmt.write.rows.bucket_writer import FileFormats

pytestmark = pytest.mark.rotated

KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]


def make(root: Path, kind: str, **properties: str) -> bf.Table:
    return bf.create(
        root,
        schema=rows(0).schema,
        record_key=["id"],
        partition_by=["p"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(1),
        table_type=kind,  # type: ignore[arg-type]
        properties=properties,
    )


def rows(ts: int, *partitions: str) -> pa.Table:
    count = len(partitions)
    return pa.table(
        {"id": pa.array(["a"] * count), "p": pa.array(partitions, pa.string()), "ts": [ts] * count},
        pa.schema([("id", pa.string()), ("p", pa.string()), ("ts", pa.int64())]),
    )


def codecs(table: bf.Table) -> dict[str, str]:
    """The codec of the newest base file of each partition."""
    found = {}
    for file_slice in bf.open(table.uri).scan().plan().slices:
        if file_slice.base_file is not None:
            footer = pq.read_metadata(Path(table.uri, file_slice.base_file.path))
            found[file_slice.partition_path] = footer.row_group(0).column(0).compression
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("codec", "stored"), [("gzip", "GZIP"), ("snappy", "SNAPPY"), ("none", "UNCOMPRESSED")]
)
def test_of_the_files(tmp_path: Path, kind: str, codec: str, stored: str) -> None:
    table = make(tmp_path / "t", kind)
    table.upsert(rows(1, "x"), codec=codec)  # type: ignore[typeddict-item]
    table.upsert(rows(2, "x", "y"))
    table.compact()
    assert codecs(table) == {"x": stored, "y": stored}
    table.insert_overwrite(rows(3, "z"))
    assert codecs(table)["z"] == stored
    table.upsert(rows(4, "x", "y"), codec="zstd")
    table.compact(codec="zstd")
    table.upsert(rows(5, "x"))
    table.compact()
    assert codecs(table) == {"x": "ZSTD", "y": "ZSTD", "z": stored}


@pytest.mark.parametrize("kind", KINDS)
def test_each_file_keeps_its_own(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path / "t", kind)
    table.upsert(rows(1, "x"), codec="gzip")
    table.upsert(rows(1, "y"), codec="snappy")
    table.upsert(rows(2, "x", "y"))
    table.compact()
    assert codecs(table) == {"x": "GZIP", "y": "SNAPPY"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("said", "stored"), [("gzip", "GZIP"), ("UNCOMPRESSED", "UNCOMPRESSED"), ("lzo", "GZIP")]
)
def test_what_the_table_says(tmp_path: Path, kind: str, said: str, stored: str) -> None:
    table = make(tmp_path / "t", kind, **{"hoodie.parquet.compression.codec": said})
    table.upsert(rows(1, "x"))
    table.upsert(rows(1, "y"), codec="snappy")
    assert codecs(table) == {"x": stored, "y": "SNAPPY"}
    table.upsert(rows(2, "y"))
    table.compact()
    assert codecs(table) == {"x": stored, "y": stored}


def test_where_nothing_tells(tmp_path: Path) -> None:
    for kind in KINDS:
        table = make(tmp_path / kind, kind)
        table.upsert(rows(1, "x"))
        assert codecs(table) == {"x": "ZSTD"}


def test_a_write_in_two_halves_and_a_table_of_logs(tmp_path: Path) -> None:
    table = bf.create(
        tmp_path / "t",
        schema=rows(0).schema,
        record_key=["id"],
        partition_by=["p"],
        index=bf.ConsistentHashingIndex(1),
        table_type="MERGE_ON_READ",
    )
    for number, partition in enumerate("xy"):
        with table.start_write("upsert", rows(0).schema) as started:
            assert started.task.formats == FileFormats()
            started.publish(list(started.task.write(rows(1, partition), "0-0-0")))
        assert len(codecs(table)) == number  # a ring begins with logs
        table.compact(codec=None if number else "gzip")
    assert codecs(table) == {"x": "GZIP", "y": "GZIP"}


@pytest.mark.parametrize(
    ("version", "name"), [("flink-0.14.0", "mor_bucket"), ("1.2.0", "ch_init")]
)
def test_a_table_of_logs_by_hudi(
    golden_copy: Callable[[str, str], Path], version: str, name: str
) -> None:
    """Its own compaction has gzip by default, and its bundle for Flink has no zstd."""
    table = bf.open(golden_copy(version, name))
    assert not codecs(table)
    table.compact()
    assert set(codecs(table).values()) == {"GZIP"}


@pytest.mark.parametrize(
    ("written", "found"), [("brotli", "gzip"), ("snappy", "snappy"), ("none", "none")]
)
def test_what_a_footer_tells(written: str, found: str) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(rows(1, "x"), sink, compression=written)
    assert BaseFileReader(sink.getvalue()).codec == found
    empty = pa.BufferOutputStream()
    pq.write_table(rows(1), empty, compression=written)
    assert BaseFileReader(empty.getvalue()).codec is None
