"""What a writer takes over from the parquet file it replaces: row groups as stored, the codec.

Pure but for the source that a row file reads. A file of another format gives nothing: then rows
are encoded anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from bucketfmt.choices import Codec
from bucketfmt.rows.parquet.base_file import BaseFileReader
from bucketfmt.rows.parquet.base_file_writer import ROW_GROUP_BYTES
from bucketfmt.rows.parquet.parquet_chunks import StoredColumn
from bucketfmt.rows.row_file import RowFile

__all__ = ["StoredRows", "find_codec_of", "read_to_copy"]

_COPIED_BYTES = 64 << 10  # to encode less than that takes no longer than to copy it
_COPIED_COLUMNS = 8  # so many; of more columns, copying has to pay for the footer's entry of each
_HELD_ROWS, _HELD_BYTES = 1 << 18, 4 * ROW_GROUP_BYTES  # of a row group, to hold it as a whole


class StoredRows(NamedTuple):
    """The rows of a row group, and its columns as they are stored."""

    rows: pa.Table
    columns: Mapping[str, StoredColumn]


def read_to_copy(file: RowFile, columns: Sequence[str], row_group: int) -> StoredRows | None:
    """Return the rows of a row group and what is stored of them, if copying is worth it.

    None where the row group is small, or too large to be held as a whole, or not of parquet.

    Raises:
        CorruptError: as `BaseFileReader.read_stored`.
    """
    if not isinstance(file, BaseFileReader):
        return None
    columns_of_file = max(_COPIED_COLUMNS, file.metadata.num_columns)
    least = _COPIED_BYTES * columns_of_file // _COPIED_COLUMNS
    if file.metadata.row_group(row_group).total_byte_size < least:
        return None
    if not file.row_groups[row_group].is_within(_HELD_ROWS, _HELD_BYTES):
        return None
    return StoredRows(*file.read_stored(columns, row_group))


def find_codec_of(replaced: RowFile | None) -> Codec | None:
    """Return the codec of a file that is replaced; None where no file tells a codec."""
    return replaced.codec if isinstance(replaced, BaseFileReader) else None
