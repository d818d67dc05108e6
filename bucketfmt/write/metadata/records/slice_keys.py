"""The keys of the rows that file slices have.

I/O, read only. Source: HoodieTableMetadataUtil.readRecordKeysFromFileSlices.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from bucketfmt.slices.merged_keys import merged_keys
from bucketfmt.snapshot.data_files.files import FileSlice
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

    def read(file_slice: FileSlice) -> pa.Array:
        batches = [keys.cast(_KEYS) for keys in merged_keys(snapshot, file_slice)]
        return pa.chunked_array(batches, _KEYS).combine_chunks()

    return map_in_threads(read, slices, waiting_count(snapshot.state.store))
