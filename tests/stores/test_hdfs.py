"""Tables on HDFS are read by WebHDFS, and refused where they would be written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import fsspec
import pyarrow as pa
import pytest

import bucketfmt as bf
from tests.stores.servers import Place, run_hdfs
from tests.write.models import SCHEMA, create_table, rows

pytestmark = pytest.mark.stores


@pytest.fixture(scope="module")
def hdfs() -> Iterator[Place]:
    with run_hdfs() as place:
        yield place


def put(place: Place, folder: Path) -> str:
    """Upload a table; return its URL."""
    uri = place.new_uri()
    fs, root = fsspec.core.url_to_fs(uri, **place.options)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        target = f"{root}/{path.relative_to(folder).as_posix()}"
        fs.makedirs(target.rpartition("/")[0], exist_ok=True)
        fs.pipe_file(target, path.read_bytes())
    return uri


def files(place: Place, uri: str) -> dict[str, Any]:
    fs, root = fsspec.core.url_to_fs(uri, **place.options)
    return {path: info["size"] for path, info in fs.find(root, detail=True).items()}


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_reads(
    hdfs: Place, tmp_path: Path, table_type: Literal["COPY_ON_WRITE", "MERGE_ON_READ"]
) -> None:
    local = create_table(tmp_path / "trips", bf.SimpleBucketIndex(2), table_type)
    first = local.upsert(rows(range(30), 1))
    local.upsert(rows(range(10, 40), 2))
    local.delete(pa.table({"id": ["key-000012"], "region": ["us"]}))
    uri = put(hdfs, tmp_path / "trips")
    table = bf.open(uri, hdfs.options)
    for read in (
        lambda t: t.scan().to_arrow(),
        lambda t: t.scan(as_of=first.completion_time).to_arrow(),
        lambda t: t.scan(filter="ts > 1", columns=["id", "ts", "region"]).to_arrow(),
        lambda t: t.lookup(pa.table({"id": ["key-000003", "key-000012"], "region": ["us"] * 2})),
    ):
        expected, found = (
            read(t).sort_by([("region", "ascending"), ("id", "ascending")]) for t in (local, table)
        )
        assert expected.num_rows
        assert found.equals(expected)
    assert table.check(depth="full").status == "clean"


def test_writes_are_refused_and_leave_nothing(hdfs: Place, tmp_path: Path) -> None:
    local = bf.create(
        tmp_path / "trips",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        index=bf.SimpleBucketIndex(2),
        table_type="MERGE_ON_READ",
    )
    local.upsert(rows(range(6), 1))
    uri = put(hdfs, tmp_path / "trips")
    before = files(hdfs, uri)
    table = bf.open(uri, hdfs.options)
    gone = pa.table({"id": ["key-000000"], "region": ["us"]})
    locked = bf.open(uri, hdfs.options, writer=bf.WriterConfig(lock="process"))
    for write in (
        lambda: table.upsert(rows([0], 2)),
        lambda: table.delete(gone),
        lambda: locked.upsert(rows([0], 2)),
    ):
        with pytest.raises(bf.UnsupportedError, match="HDFS are read only"):
            write()
    assert files(hdfs, uri) == before
    assert table.scan().count() == 6
