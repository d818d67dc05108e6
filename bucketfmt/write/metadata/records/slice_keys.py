"""The keys of the rows that file slices have.

I/O, read only. Source: HoodieTableMetadataUtil.readRecordKeysFromFileSlices.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.slices.merged_keys import merged_keys
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.read_basis import ReadBasis
from bucketfmt.snapshot.schema import TableSchema
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.streams import map_in_threads, waiting_count

__all__ = ["read_keys_among", "read_slice_keys"]

_KEYS = pa.large_string()


def read_slice_keys(snapshot: Snapshot, slices: Sequence[FileSlice]) -> list[pa.Array]:
    """Return the keys that each of some file slices has rows of, log files merged.

    A key that was deleted, or moved to another file group, is not among them.

    Raises:
        CorruptError: a file is damaged.
        StorageError: the store failed.
    """
    if not slices:
        return []

    def read(file_slice: FileSlice) -> pa.Array:
        batches = [keys.cast(_KEYS) for keys in merged_keys(snapshot, file_slice)]
        return pa.chunked_array(batches, _KEYS).combine_chunks()

    return map_in_threads(read, slices, waiting_count(snapshot.state.store))


def read_keys_among(
    basis: ReadBasis, schema: TableSchema, file_slice: FileSlice, keys: pa.Array
) -> pa.Array:
    """Return those of some keys that a file slice has rows of, log files merged.

    Args:
        basis: Of the table, or of the table as it will be.
        schema: The columns of the table that the slice is of.
        file_slice: Of that table.
        keys: The keys, as `large_string`.

    Raises:
        CorruptError: a file is damaged.
        StorageError: the store failed.
    """
    output = pa.schema([schema.with_meta.field(RECORD_KEY)])
    reader = SliceReader(basis, RowSpec(table=schema, output=output, keys=keys))
    batches = [rows.column(RECORD_KEY) for rows in reader.read(file_slice, None)]
    chunks = [chunk.cast(_KEYS) for column in batches for chunk in column.chunks]
    return pa.chunked_array(chunks, _KEYS).combine_chunks()
