"""Row files: what readers use of a base file, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.log.log_block import BlockType, LogBlock
from bucketfmt.process import cached_property
from bucketfmt.rows.filters.filter import Filter
from bucketfmt.rows.parquet.base_file import BaseFileReader
from bucketfmt.rows.parquet.base_file_writer import encode_base_file
from bucketfmt.rows.parquet.copying import find_codec_of, read_to_copy
from bucketfmt.rows.parquet.key_footer import KeyFooter
from bucketfmt.rows.recorded_keys import RecordedKeys
from bucketfmt.rows.row_file import RowFile, open_row_block, open_row_file
from bucketfmt.rows.row_ranges import RowGroupRanges
from tests.same_rows import assert_same

Golden = Callable[[str, str], Path]

AVRO_SCHEMA = (
    '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"},'
    ' {"name": "b", "type": "string"}]}'
)
ROWS = pa.table({"a": pa.array([1, 2, 3]), "b": ["x", "y", "z"]})


@pytest.fixture(scope="module")
def parquet() -> pa.Buffer:
    return encode_base_file(ROWS, AVRO_SCHEMA)


def test_the_extension_tells_the_format(parquet: pa.Buffer) -> None:
    for extension in ("parquet", "PARQUET"):
        opened = open_row_file(parquet, extension)
        assert (opened.num_rows, opened.num_row_groups) == (3, 1)
        assert opened.read().to_pylist() == ROWS.to_pylist()


@pytest.mark.parametrize("extension", ["orc", "hfile", "lance", "", "parquet2"])
def test_other_formats_are_refused_by_name(parquet: pa.Buffer, extension: str) -> None:
    with pytest.raises(UnsupportedError, match=f"the format {extension.upper()} are not read"):
        open_row_file(parquet, extension)


def test_a_file_of_another_format_than_its_name_says_is_damaged() -> None:
    with pytest.raises(CorruptError, match="does not end like a parquet file"):
        open_row_file(pa.py_buffer(b"DATABLK*" * 100), "parquet")


def test_blocks_of_rows_are_row_files(parquet: pa.Buffer) -> None:
    opened = open_row_block(_block(BlockType.PARQUET_DATA, parquet))
    assert opened.read().to_pylist() == ROWS.to_pylist()
    with pytest.raises(UnsupportedError, match="HFILE_DATA"):
        open_row_block(_block(BlockType.HFILE_DATA, parquet))


def test_ranges_are_those_of_row_groups(parquet: pa.Buffer) -> None:
    (group,) = open_row_file(parquet, "parquet").ranges(["b", "gone"])
    assert (group.num_rows, list(group.columns)) == (3, ["b"])
    assert (group.columns["b"].low, group.columns["b"].high) == ("x", "z")


def _block(kind: BlockType, content: pa.Buffer) -> LogBlock:
    return LogBlock(0, 0, kind, {}, 0, memoryview(content))


@dataclass
class RowsInMemory:
    """A row file of another format: rows in groups of seven, of which it records nothing."""

    rows: pa.Table

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    @property
    def num_rows(self) -> int:
        return int(self.rows.num_rows)

    @property
    def num_row_groups(self) -> int:
        return -(-self.num_rows // 7)

    @cached_property
    def keys(self) -> RecordedKeys:
        return RecordedKeys(None, lambda: None)

    def check_nullable(self, columns: Sequence[str]) -> None:
        pass

    def ranges(self, columns: Sequence[str]) -> list[RowGroupRanges]:
        return [RowGroupRanges(7, {}) for _ in range(self.num_row_groups)]

    def find_row_groups(self, wanted: Filter, table_schema: pa.Schema) -> list[int]:
        return list(range(self.num_row_groups))

    def find_row_groups_of_keys(self, record_keys: pa.Array) -> list[int]:
        return list(range(self.num_row_groups))

    def read(
        self,
        columns: Sequence[str] | None = None,
        row_groups: Sequence[int] | None = None,
        use_threads: bool = True,
    ) -> pa.Table:
        groups = range(self.num_row_groups) if row_groups is None else row_groups
        pieces = [self.rows.slice(7 * group, 7) for group in groups]
        rows = pa.concat_tables([self.rows.schema.empty_table(), *pieces])
        return rows if columns is None else rows.select(list(columns))

    def iter_batches(
        self,
        columns: Sequence[str] | None = None,
        row_groups: Sequence[int] | None = None,
        batch_rows: int = 5,
        use_threads: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        yield from self.read(columns, row_groups).to_batches(max_chunksize=batch_rows)


@pytest.fixture
def other_format(monkeypatch: pytest.MonkeyPatch) -> list[RowsInMemory]:
    """Have base files opened as row files of another format, and note them."""
    opened: list[RowsInMemory] = []

    def open_other(source: pa.NativeFile, extension: str, limits: bf.Limits) -> RowFile:
        opened.append(RowsInMemory(BaseFileReader(source, limits).read()))
        return opened[-1]

    monkeypatch.setattr("bucketfmt.snapshot.data_files.base_files.open_row_file", open_other)
    return opened


@pytest.mark.parametrize("name", ["cow", "mor_compacted"])
def test_readers_need_no_more_of_a_base_file_than_a_row_file_has(
    golden: Golden, name: str, other_format: list[RowsInMemory], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = golden("1.2.0", name)

    def answers() -> list[pa.Table]:
        table = bf.open(root)
        key = sorted(table.scan(["_hoodie_record_key"]).to_arrow().column(0).to_pylist())[:1]
        scans = [table.scan(), table.scan(filter=[("_hoodie_record_key", ">", key[0])])]
        return [*(scan.to_arrow() for scan in scans), table.lookup(key)]

    others = answers()
    assert other_format, "base files were opened in the other format"
    monkeypatch.undo()
    for other, of_parquet in zip(others, answers(), strict=True):
        assert_same(other, of_parquet)


def test_a_base_file_of_another_format_is_rewritten_without_copying(
    golden_copy: Golden, other_format: list[RowsInMemory], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = bf.open(golden_copy("1.2.0", "cow"), index=bf.SimpleBucketIndex(4))
    before = table.scan().to_arrow()
    table.upsert(before.slice(0, 3))
    assert other_format
    monkeypatch.undo()
    assert_same(table.scan().to_arrow(), before)


def test_what_writers_take_over_is_of_parquet_only(parquet: pa.Buffer) -> None:
    other = RowsInMemory(ROWS)
    assert read_to_copy(other, ["a"], 0) is None
    assert KeyFooter.resume(other, 0) is None
    assert find_codec_of(other) is None
    assert find_codec_of(None) is None
    assert find_codec_of(open_row_file(parquet, "parquet")) == "zstd"
    assert read_to_copy(open_row_file(parquet, "parquet"), ["a"], 0) is None, "it is small"
