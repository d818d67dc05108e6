"""Row files: files of rows and what they say of their rows, whatever their format.

Pure but for the source that a row file reads. Base files are row files, and so is the content of
some blocks of a log. Parquet is the format that is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from bucketfmt.errors import UnsupportedError
from bucketfmt.format.log.log_block import BlockType, LogBlock
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.rows.filters.filter import Filter
from bucketfmt.rows.parquet.base_file import BATCH_ROWS, BaseFileReader
from bucketfmt.rows.recorded_keys import RecordedKeys
from bucketfmt.rows.row_ranges import RowGroupRanges

__all__ = [
    "ROW_FILE_BLOCKS",
    "ROW_FILE_FORMATS",
    "RowFile",
    "check_base_file_format",
    "open_row_block",
    "open_row_file",
]

ROW_FILE_FORMATS = frozenset({"PARQUET"})
"""The formats that are read, as `hoodie.table.base.file.format` names them."""

_FORMATS_OF_BLOCKS = {BlockType.PARQUET_DATA: "PARQUET"}
ROW_FILE_BLOCKS = frozenset(_FORMATS_OF_BLOCKS)
"""The log blocks whose content is a row file that is read."""


class RowFile(Protocol):
    """Rows in row groups, which can be read alone, and what the file says of them.

    Opening a row file has checked what it says of sizes. What it says of values is checked where
    it is used: errors are CorruptError, without path.
    """

    @property
    def schema(self) -> pa.Schema:
        """Columns of the file, without metadata."""

    @property
    def num_rows(self) -> int:
        """Rows of the file."""

    @property
    def num_row_groups(self) -> int:
        """Row groups of the file; a file without rows may have none."""

    @property
    def keys(self) -> RecordedKeys:
        """What the file records of its record keys."""

    @property
    def bounds_nan(self) -> bool:
        """Whether `ranges` has no bounds of a column with NaN; else NaN may lie outside of them."""

    def check_nullable(self, columns: Sequence[str]) -> None:
        """Check columns of which a commit says otherwise than the file whether they may be null.

        Raises:
            CorruptError: the file contradicts itself in this.
        """

    def ranges(self, columns: Sequence[str]) -> list[RowGroupRanges]:
        """Return, per row group, what the file states of the values of columns."""

    def column_sizes(self) -> dict[str, tuple[int, int]]:
        """Return the bytes of each top-level column: compressed, and before compression."""

    def find_row_groups(self, wanted: Filter, table_schema: pa.Schema) -> list[int]:
        """Return the row groups that may hold a row `wanted` holds for.

        Args:
            wanted: The filter.
            table_schema: The columns that rows will have when they are filtered.
        """

    def find_row_groups_of_keys(self, record_keys: pa.Array) -> list[int]:
        """Return the row groups that may hold any of the keys."""

    def read(
        self,
        columns: Sequence[str] | None = None,
        row_groups: Sequence[int] | None = None,
        use_threads: bool = True,
    ) -> pa.Table:
        """Return rows of row groups, all by default, in the file's order.

        Args:
            columns: All by default. Columns that the file does not have are left out.
            row_groups: Which.
            use_threads: Whether columns may be decoded side by side.
        """

    def iter_batches(
        self,
        columns: Sequence[str] | None = None,
        row_groups: Sequence[int] | None = None,
        batch_rows: int = BATCH_ROWS,
        use_threads: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """Yield what `read` returns, at most `batch_rows` rows at a time."""


def check_base_file_format(name: str) -> None:
    """Check that base files of a format are read.

    Args:
        name: The format as `hoodie.table.base.file.format` has it: a file's extension in capitals.

    Raises:
        UnsupportedError: the format is ORC, HFile, Lance, or unknown to this release.
    """
    if name not in ROW_FILE_FORMATS:
        raise UnsupportedError(
            f"base files of the format {name[:40]} are not read, only those of "
            f"{', '.join(sorted(ROW_FILE_FORMATS))}; read the table with Hudi, or have Hudi "
            "rewrite it in parquet"
        )


def open_row_file(
    source: pa.NativeFile | pa.Buffer, extension: str, limits: Limits = DEFAULT_LIMITS
) -> RowFile:
    """Open a row file and check what it says of sizes; no rows are read.

    Args:
        source: The file. It stays open as long as rows are read.
        extension: Of the file's name, which tells the format.
        limits: Bounds on what the file may state.

    Raises:
        CorruptError: the file is not of that format, or contradicts itself.
        LimitError: a row group, the file or the schema is larger than `limits` allow.
        UnsupportedError: the format is not read, or the file has a feature that is not read.
    """
    check_base_file_format(extension.upper())
    return BaseFileReader(source, limits)


def open_row_block(block: LogBlock, limits: Limits = DEFAULT_LIMITS) -> RowFile:
    """Open the content of a log block of one of `ROW_FILE_BLOCKS`.

    Raises:
        CorruptError, LimitError, UnsupportedError: as `open_row_file`.
    """
    extension = _FORMATS_OF_BLOCKS.get(block.block_type, block.block_type.name)
    return open_row_file(pa.py_buffer(block.content), extension, limits)
