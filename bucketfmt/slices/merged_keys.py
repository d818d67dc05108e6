"""The rows of a file slice as readers see them, and their keys. I/O, read only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot

__all__ = ["merged_keys", "merged_rows"]

_BATCH_ROWS = 131_072


def merged_rows(
    snapshot: Snapshot, file_slice: FileSlice, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield some columns of the rows of a file slice, as readers of the snapshot see them.

    Raises:
        BucketfmtError: a file of the slice is damaged, or of a kind that is not read.
    """
    table = snapshot.schema
    output = pa.schema([table.with_meta.field(name) for name in columns])
    yield from SliceReader(snapshot, RowSpec(table=table, output=output)).read(
        file_slice, _BATCH_ROWS
    )


def merged_keys(snapshot: Snapshot, file_slice: FileSlice) -> Iterator[pa.Array]:
    """Yield the record keys of a file slice as strings. Errors as in `merged_rows`."""
    for rows in merged_rows(snapshot, file_slice, [RECORD_KEY]):
        yield rows.column(RECORD_KEY).combine_chunks().cast(pa.string())
