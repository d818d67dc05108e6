"""The keys of the rows that file slices have.

I/O, read only. Source: HoodieTableMetadataUtil.readRecordKeysFromFileSlices.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.streams import map_in_threads, waiting_count

__all__ = ["read_slice_keys"]

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
    output = pa.schema([pa.field(RECORD_KEY, pa.string())])
    reader = SliceReader(snapshot, RowSpec(table=snapshot.schema, output=output))

    def read(file_slice: FileSlice) -> pa.Array:
        batches = [rows[RECORD_KEY] for rows in reader.read(file_slice, None)]
        chunks = [chunk.cast(_KEYS) for own in batches for chunk in own.chunks]
        return pa.chunked_array(chunks, _KEYS).combine_chunks()

    return map_in_threads(read, slices, waiting_count(snapshot.state.store))
