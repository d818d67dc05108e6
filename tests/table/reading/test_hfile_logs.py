"""Tables whose log blocks are HFiles: hoodie.logfile.data.block.format=hfile."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import bucketfmt as bf
from bucketfmt.format.log.log_block import BlockType, LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from tests.golden import DATA, expected

COLUMNS = ["id", "name", "price", "qty", "ts", "region"]


def unpack(version: str, name: str, into: Path) -> Path:
    """Unpack a table; of Hudi 1.2.0 without expectation, since it fails to read the table."""
    with tarfile.open(DATA / version / "apart" / f"{name}.tar.xz") as archive:
        archive.extractall(into, filter="fully_trusted")  # this repository made it
    return into / name


def rows_of(table: pa.Table, columns: Sequence[str] = COLUMNS) -> list[dict[str, Any]]:
    return table.select(columns).sort_by("id").to_pylist()


def kinds_of_blocks(root: Path) -> set[BlockType]:
    return {
        block.block_type
        for path in root.glob("*/.*.log.*")
        if path.suffix != ".crc"
        for block in decode_log_file(path.read_bytes())
        if isinstance(block, LogBlock)
    }


def test_rows_are_those_of_the_same_writes_in_parquet(
    golden_expected: Callable[..., pa.Table], tmp_path: Path
) -> None:
    """Hudi reads the table whose log blocks are parquet; the writes are the same."""
    written = rows_of(golden_expected("1.2.0", "parquet_log"))
    root = unpack("1.2.0", "hfile_log", tmp_path)
    assert kinds_of_blocks(root) == {BlockType.HFILE_DATA, BlockType.DELETE}
    t = bf.open(root)
    assert rows_of(t.scan().to_arrow()) == written
    found = rows_of(t.lookup(["key-000150", "key-000010"]))  # updated, deleted
    assert found == [row for row in written if row["id"] == "key-000150"]
    assert t.check(depth="full").findings == ()
    t.compact()
    assert rows_of(bf.open(root).scan(read_optimized=True).to_arrow()) == written


def test_rows_are_those_that_hudi_reads(tmp_path: Path) -> None:
    with_key = [*COLUMNS, "key"]
    for version, name, columns in (
        ("0.15.0", "hfile_log", COLUMNS),
        ("0.15.0", "hfile_log_key", with_key),
        ("1.0.2", "hfile_log_key", with_key),
    ):
        into = tmp_path / version
        root = unpack(version, name, into)
        assert BlockType.HFILE_DATA in kinds_of_blocks(root)
        found = bf.open(root).scan().to_arrow()
        assert rows_of(found, columns) == rows_of(expected(into, name), columns)


def test_a_column_that_is_called_key_is_the_record_key(tmp_path: Path) -> None:
    """Hudi writes an empty string for the column into the blocks, and `own-` into base files."""
    rows = bf.open(unpack("1.2.0", "hfile_log_key", tmp_path)).scan().to_arrow().to_pylist()
    updated = [row for row in rows if row["name"].endswith("u")]
    assert len(updated) == 100
    assert all(row["key"] == row["id"] for row in updated)
    assert all(row["key"] == f"own-{row['id']}" for row in rows if row not in updated)
