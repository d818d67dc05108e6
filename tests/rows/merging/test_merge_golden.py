"""File slices that real Hudi wrote, merged; what Hudi read back is the judge."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pytest

from bucketfmt.format.log.delete_records import decode_delete_block
from bucketfmt.format.log.log_block import BlockType, LogBlock
from bucketfmt.format.log.log_file import decode_log_file, select_blocks
from bucketfmt.format.names.names import BaseFileName, LogFileName, find_data_file_name
from bucketfmt.format.table.properties import decode_properties
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.rows.avro.avro_decode import decode_avro_blocks
from bucketfmt.rows.avro.avro_schema import parse_avro_schema
from bucketfmt.rows.columns.conform import conform
from bucketfmt.rows.merging.log_entries import DeleteRun, RowRun, Run
from bucketfmt.rows.merging.merge import merge_log
from bucketfmt.rows.merging.merge_rules import find_merge_rules
from bucketfmt.rows.parquet.base_file import BaseFileReader
from tests.golden import GOLDEN

pytestmark = pytest.mark.rotated

# Tables that were never compacted: one base file per file group, and all its log files.
TABLES = {
    "ch_init",
    "delete_marker_mor",
    "dms_mor",
    "mdt_bucket",
    "mor",
    "mor_commit",
    "mor_event",
    "multiorder_mor",
    "nbcc",
    "parquet_log",
}
UNSUPPORTED = {("1.0.2", "dms_mor")}  # a payload class that 1.0 runs as custom code


def read_slice(paths: list[Path], config: TableConfig, schema: pa.Schema) -> list[dict]:
    names = {path: find_data_file_name(path.name) for path in paths}
    logs = sorted((n.sort_key, p) for p, n in names.items() if isinstance(n, LogFileName))
    blocks = select_blocks([list(decode_log_file(path.read_bytes())) for _, path in logs])
    runs: list[Run] = [run_of(block, schema) for block in blocks]
    merged = merge_log(runs, find_merge_rules(config), schema)
    rows = []
    for path, name in names.items():
        if isinstance(name, BaseFileName):
            base = BaseFileReader(pa.py_buffer(path.read_bytes())).read()
            rows += merged.apply(conform(base, schema)).to_pylist()
    return rows + merged.remaining().to_pylist()


def run_of(block: LogBlock, schema: pa.Schema) -> Run:
    if block.block_type is BlockType.DELETE:
        return DeleteRun(decode_delete_block(block.content))
    if block.block_type is BlockType.PARQUET_DATA:
        return RowRun(conform(BaseFileReader(pa.py_buffer(block.content)).read(), schema))
    written = parse_avro_schema(block.schema)
    return RowRun(conform(decode_avro_blocks([block.content], written), schema))


@pytest.mark.parametrize(
    ("version", "name"), [t for t in GOLDEN if t[1] in TABLES and t not in UNSUPPORTED]
)
def test_reads_what_hudi_reads(
    version: str,
    name: str,
    golden: Callable[[str, str], Path],
    golden_expected: Callable[..., pa.Table],
) -> None:
    table = golden(version, name)
    config = TableConfig.from_properties(
        decode_properties((table / ".hoodie" / "hoodie.properties").read_bytes())
    )
    expected = golden_expected(version, name)
    files = [
        (path.parent, found.file_id, path)
        for path in table.glob("**/*")
        if ".hoodie" not in path.parts and (found := find_data_file_name(path.name)) is not None
    ]
    rows: list[dict] = []
    for _, slice_files in groupby(sorted(files), key=lambda file: file[:2]):
        rows += read_slice([path for *_, path in slice_files], config, expected.schema)
    assert sorted(map(repr, rows)) == sorted(map(repr, expected.to_pylist()))
