"""A write records the index of a table that does not record it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import bucketfmt as bf
from tests.table.tables import forget_index

SCHEMA = pa.schema({"id": pa.string(), "p": pa.string(), "v": pa.int64()})


def rows(*keys: tuple[str, str], v: int = 0) -> pa.Table:
    ids, paths = zip(*keys, strict=True)
    return pa.table([ids, paths, [v] * len(keys)], schema=SCHEMA)


def log_only_table(root: Path) -> Path:
    """58 keys in twelve file groups without a base file, as Flink writes them."""
    writer = bf.WriterConfig(concurrency="non_blocking")
    table = bf.create(
        root,
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["p"],
        index=bf.SimpleBucketIndex(4),
        table_type="MERGE_ON_READ",
        writer=writer,
    )
    table.upsert(rows(*[(f"key-{i:04d}", "abc"[i % 3]) for i in range(58)]))
    forget_index(root)
    groups = bf.open(root).inspect.file_groups()
    assert groups["base_file"].null_count == groups.num_rows == 12
    return root


def test_a_base_file_with_one_key_hides_no_keys_in_log_files(tmp_path: Path) -> None:
    root = log_only_table(tmp_path / "t")
    unpinned = bf.open(root)
    assert unpinned.index == bf.SimpleBucketIndex(4)
    unpinned.upsert(rows(("new", "d")))
    forget_index(root)
    groups = bf.open(root).inspect.file_groups()
    assert groups.num_rows - groups["base_file"].null_count == 1

    table = bf.open(root)
    assert table.index == bf.SimpleBucketIndex(4)
    assert table.locate(["key-0000"], partitions=["a"])["base_file"].to_pylist() == [None]
    table.upsert(rows(("key-0000", "a"), v=7))
    table.delete(rows(("key-0001", "b")).select(["id", "p"]))
    found = dict(zip(*bf.open(root).scan(["id", "v"]).to_arrow().to_pydict().values(), strict=True))
    assert len(found) == 58
    assert found["key-0000"] == 7
    assert "key-0001" not in found
