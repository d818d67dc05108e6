"""The rows of a file slice as readers see them, and the keys of its files. I/O, read only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot

__all__ = ["merged_keys", "merged_rows", "stored_keys"]

_BATCH_ROWS = 131_072


def merged_rows(
    snapshot: Snapshot, file_slice: FileSlice, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield some columns of the rows of a file slice, as readers of the snapshot see them.

    Raises:
        BucketfmtError: a file of the slice is damaged, or of a kind that is not read.
    """
    yield from _reader(snapshot, columns).read(file_slice, _BATCH_ROWS)


def merged_keys(snapshot: Snapshot, file_slice: FileSlice) -> Iterator[pa.Array]:
    """Yield the record keys of a file slice as strings. Errors as in `merged_rows`."""
    for rows in merged_rows(snapshot, file_slice, [RECORD_KEY]):
        yield rows.column(RECORD_KEY).combine_chunks().cast(pa.string())


def stored_keys(snapshot: Snapshot, file_slice: FileSlice) -> Iterator[pa.Array | pa.ChunkedArray]:
    """Yield the record keys in the files of a slice, also those that its log deletes.

    A key may come more than once. Errors as in `merged_rows`.
    """
    yield from merged_keys(snapshot, msgspec.structs.replace(file_slice, log_files=()))
    yield from _reader(snapshot, [RECORD_KEY]).logged_keys(file_slice)


def _reader(snapshot: Snapshot, columns: Sequence[str]) -> SliceReader:
    table = snapshot.schema
    output = pa.schema([table.with_meta.field(name) for name in columns])
    return SliceReader(snapshot, RowSpec(table=table, output=output))
