"""Some record keys of a table, each with the file group that holds the key.

I/O: reads the key columns of a few base files, and the first log file of file groups that have no
base file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import pyarrow as pa

from bucketfmt.errors import BucketfmtError
from bucketfmt.index.infer import KEYS_MIN
from bucketfmt.index.layout import BucketLayout
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.streams import map_in_threads, waiting_count

__all__ = ["KeySample", "load_key_sample"]

_SLICES_SAMPLED = 8
_SLICES_SAMPLED_MAX = 64  # where the first ones have fewer than KEYS_MIN keys
_KEYS_SAMPLED = 2_000  # of each slice


@dataclass(frozen=True)
class KeySample:
    """Keys as found.

    Attributes:
        found: (file slice, record keys in it), one a file group.
        unreadable: Why a file group gave no keys: the first such error.
        is_of_all: Whether every file group was read.
    """

    found: tuple[tuple[FileSlice, pa.ChunkedArray], ...]
    unreadable: BucketfmtError | None = None
    is_of_all: bool = False

    @property
    def num_keys(self) -> int:
        """Keys of all file groups."""
        return sum(len(keys) for _, keys in self.found)

    def in_buckets(
        self, layout_of: Callable[[str], BucketLayout]
    ) -> list[tuple[BucketLayout, int, pa.ChunkedArray]]:
        """Return (layout of the partition, bucket, keys) of each file group that is in a bucket.

        Args:
            layout_of: Returns the layout of a partition.
        """
        found = []
        for file_slice, keys in self.found:
            layout = layout_of(file_slice.partition_path)
            bucket_id = layout.bucket_of(file_slice.file_id)
            if bucket_id is not None:
                found.append((layout, bucket_id, keys))
        return found


def load_key_sample(snapshot: Snapshot, slices: Sequence[FileSlice]) -> KeySample:
    """Return keys of file groups spread over `slices`; a damaged file group is left out.

    Nine file groups are read at most, or 64 while their keys are too few to prove anything.
    """
    step = max(1, len(slices) // _SLICES_SAMPLED)
    first = list(range(len(slices)))[::step][: _SLICES_SAMPLED + 1]
    order = [*first, *sorted(set(range(len(slices))).difference(first))][:_SLICES_SAMPLED_MAX]
    found: list[tuple[FileSlice, pa.ChunkedArray]] = []
    unreadable: BucketfmtError | None = None
    start, end, num_keys = 0, len(first), 0
    while start < end and num_keys < KEYS_MIN:
        some = [slices[at] for at in order[start:end]]
        workers = waiting_count(snapshot.state.store)
        for file_slice, keys in zip(
            some, map_in_threads(partial(_load_keys, snapshot), some, workers), strict=True
        ):
            if isinstance(keys, BucketfmtError):
                unreadable = unreadable or keys
                continue
            found.append((file_slice, keys))
            num_keys += len(keys)
        start, end = end, min(end + _SLICES_SAMPLED, len(order))
    return KeySample(tuple(found), unreadable, len(found) == len(slices))


def _load_keys(snapshot: Snapshot, file_slice: FileSlice) -> pa.ChunkedArray | BucketfmtError:
    only_key = pa.schema([pa.field(RECORD_KEY, pa.string())])
    first_log = msgspec.structs.replace(file_slice, log_files=file_slice.log_files[:1])
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
