"""What the error says about a folder that is no Hudi table."""

from __future__ import annotations

from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.format.table.properties import PartitionMetadata, encode_partition_metadata

FILES = {
    "delta/_delta_log/00000000000000000000.json": b"{}",
    "iceberg/metadata/v1.metadata.json": b"{}",
    "paimon/snapshot/LATEST": b"1",
    "paimon/manifest/manifest-1": b"",
    "paimon/schema/schema-0": b"{}",
    "parquet/part-0.parquet": b"PAR1",
    "hive/day=1/part-0.parquet": b"PAR1",
    "lake/a/.hoodie/hoodie.properties": b"",
    "lake/b/.hoodie/hoodie.properties": b"",
    "lake/c/part-0.parquet": b"PAR1",
    "other/notes.txt": b"",
    "t/.hoodie/hoodie.properties": b"",
    "t/eu/sf/.hoodie_partition_metadata": encode_partition_metadata(PartitionMetadata("1", 2)),
    "t/us/ny/.hoodie_partition_metadata.parquet": b"PAR1",
    "lost/eu/.hoodie_partition_metadata": encode_partition_metadata(PartitionMetadata("1", 1)),
    "damaged/.hoodie_partition_metadata": b"nothing",
}
TOLD = {
    "delta": "this is a Delta table; the package deltalake reads it",
    "iceberg": "this is an Iceberg table; the package pyiceberg reads it",
    "paimon": "this is a Paimon table; the package pypaimon reads it",
    "parquet": "this is a folder of parquet files without a Hudi timeline; pyarrow, polars and "
    "DuckDB read it as it is",
    "hive": "this is a folder of parquet files without a Hudi timeline; pyarrow, polars and "
    "DuckDB read it as it is",
    "lake": "this is a folder that holds 2 Hudi tables: a, b; give the folder of a table",
    "other": ".hoodie/hoodie.properties is not there; give the folder above .hoodie",
    "t/.hoodie": "this is the .hoodie folder of the table at {root}/t",
    "t/eu": "this folder holds partitions of the Hudi table at {root}/t; give the folder of the "
    "table",
    "t/eu/sf": "this is a partition of the Hudi table at {root}/t; give the folder of the table",
    "t/us/ny": "this is a partition of the Hudi table; give the folder of the table",
    "lost": "this folder has partitions of a Hudi table, and no .hoodie folder",
    "damaged": ".hoodie/hoodie.properties is not there; give the folder above .hoodie",
    "parquet/part-0.parquet": "this is a file; give the folder of the table",
    "nowhere": "the folder is empty or does not exist",
}


@pytest.fixture
def on_disk(tmp_path: Path) -> str:
    for path, content in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    return str(tmp_path)


@pytest.fixture
def in_memory() -> str:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for path, content in FILES.items():
        memory.pipe_file(f"/foreign/{path}", content)
    return "memory://foreign"


@pytest.mark.parametrize("place", ["on_disk", "in_memory"])
def test_each_folder_is_told_apart(place: str, request: pytest.FixtureRequest) -> None:
    root = request.getfixturevalue(place)
    for folder, told in TOLD.items():
        if (place, folder) == ("in_memory", "parquet/part-0.parquet"):
            continue  # an object store has no folders, and lists a file for its own name
        with pytest.raises(bf.TableNotFoundError) as raised:
            bf.open(f"{root}/{folder}")
        place_told = f"no Hudi table at {root}/{folder}: "
        assert str(raised.value) == place_told + told.format(root=root)


def test_names_in_the_message_are_printable(tmp_path: Path) -> None:
    (tmp_path / "a\u202eb" / ".hoodie").mkdir(parents=True)
    with pytest.raises(bf.TableNotFoundError, match=r"holds a Hudi table: 'a\\u202eb'; give"):
        bf.open(tmp_path)
