"""Rings that are resized: rows, files, rings, and everybody who reads and writes meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.location.hashing_files import load_hashing_metadata
from tests.write.metadata_records import assert_in_step
from tests.write.models import SCHEMA, Model, assert_reads_as, rows

SMALL = 1
"""A largest file size that every file exceeds, so that all buckets are split."""
LARGE = 1 << 30
"""A largest file size that no file comes near, so that all buckets are merged."""


def make(path: Path, version: int = 9, n: int = 4, **index: int) -> bf.Table:
    return bf.create(
        path,
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        ordering=["ts"],
        index=bf.ConsistentHashingIndex(n, **index),
        table_type="MERGE_ON_READ",
        table_version=version,
    )


def filled(path: Path, version: int = 9, n: int = 4) -> tuple[bf.Table, Model]:
    """Return a table with rows in base files and logs, and its model."""
    table, model = make(path, version, n), Model()
    for given in (rows(range(60), 1), rows(range(20, 40), 2, 3.0)):
        table.upsert(given)
        model.upsert(given)
    table.delete(rows(range(5), 3))
    model.delete([f"key-{i:06d}" for i in range(5)])
    return table, model


def ring_of(table: bf.Table, path: str) -> list[int]:
    metadata = load_hashing_metadata(table._snapshot().state, path)
    assert metadata is not None
    return [node.value for node in metadata.nodes]


@pytest.mark.rule("RING-18", "RING-19", "RING-22", "RING-23")
@pytest.mark.parametrize("version", [6, 8, 9])
def test_rows_stay_and_rings_change(tmp_path: Path, version: int) -> None:
    table, model = filled(tmp_path / "t", version)
    table.metadata_table.init("files", "column_stats", "record_index")
    paths = table._snapshot().partitions
    before = table.scan(meta_columns=True).to_arrow().drop_columns(["_hoodie_file_name"])
    keys = [("_hoodie_record_key", "ascending")]
    for size, limits, num_nodes in ((SMALL, {}, 8), (LARGE, {"min_buckets": 3}, 3)):
        preview = table.preview_resize(max_file_size=size, max_buckets=8, **limits)
        done = table.resize(max_file_size=size, max_buckets=8, **limits)
        assert done is not None
        assert (preview.partitions, preview.file_groups) == (len(paths), done.file_groups_replaced)
        for path in paths:
            assert len(ring_of(table, path)) == num_nodes
        after = table.scan(meta_columns=True).to_arrow().drop_columns(["_hoodie_file_name"])
        assert after.sort_by(keys) == before.sort_by(keys)
        assert_reads_as(table.uri, model)
        assert_in_step(table)
    more = rows(range(50, 70), 4)
    table.upsert(more)
    model.upsert(more)
    assert_reads_as(table.uri, model)
