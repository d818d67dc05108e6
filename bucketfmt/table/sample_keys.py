"""Some record keys of a table, each with the file group it is in.

I/O: reads the key columns of a few base files, or log files where a group has no base file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from bucketfmt.errors import BucketfmtError
from bucketfmt.rows.meta_columns import RECORD_KEY
from bucketfmt.table.files import FileSlice
from bucketfmt.table.slice_columns import RowSpec
from bucketfmt.table.slice_reader import SliceReader
from bucketfmt.table.snapshot import Snapshot

__all__ = ["KeySample", "load_key_sample"]

_SLICES_SAMPLED = 8
_KEYS_SAMPLED = 2_000  # of each slice


@dataclass(frozen=True)
class KeySample:
    """Keys as found.

    Attributes:
        found: (file slice, record keys in it), one a file group.
        unreadable: Why a file group gave no keys: the first such error.
    """

    found: tuple[tuple[FileSlice, pa.ChunkedArray], ...]
    unreadable: BucketfmtError | None = None

    @property
    def num_keys(self) -> int:
        """Keys of all file groups."""
        return sum(len(keys) for _, keys in self.found)


def load_key_sample(snapshot: Snapshot, slices: list[FileSlice]) -> KeySample:
    """Return keys of file groups spread over `slices`; a damaged one is left out."""
    with_base = [file_slice for file_slice in slices if file_slice.base_file is not None]
    candidates = with_base or slices
    step = max(1, len(candidates) // _SLICES_SAMPLED)
    sampled = candidates[::step][: _SLICES_SAMPLED + 1]
    loaded = [_load_keys(snapshot, file_slice) for file_slice in sampled]
    return KeySample(
        tuple(
            (file_slice, keys)
            for file_slice, keys in zip(sampled, loaded, strict=True)
            if not isinstance(keys, BucketfmtError)
        ),
        next((error for error in loaded if isinstance(error, BucketfmtError)), None),
    )


def _load_keys(snapshot: Snapshot, file_slice: FileSlice) -> pa.ChunkedArray | BucketfmtError:
    only_key = pa.schema([pa.field(RECORD_KEY, pa.string())])
    first_log = replace(file_slice, log_files=file_slice.log_files[:1])
    try:
        spec = RowSpec(
            table=snapshot.schema,
            output=only_key,
            read_optimized=file_slice.base_file is not None,
        )
        rows = next(SliceReader(snapshot, spec).read(first_log, _KEYS_SAMPLED), None)
    except BucketfmtError as error:
        return error
    return (only_key.empty_table() if rows is None else rows).column(0).slice(0, _KEYS_SAMPLED)
