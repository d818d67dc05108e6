"""Keys of buckets with several file groups: each in one of them, and where its base file tells so.

I/O: reads the keys of the file slices. B011, B012.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.check.report import Event, Finding
from bucketfmt.errors import BucketfmtError
from bucketfmt.index.layout import BucketLayout
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.slices.merged_keys import merged_keys
from bucketfmt.snapshot.data_files.base_files import open_base_file
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot

__all__ = ["find_group_key_faults"]

_SHOWN = 3
_TEXT = pa.string()


def find_group_key_faults(
    snapshot: Snapshot, layout: BucketLayout, slices: Sequence[FileSlice]
) -> Iterator[Event]:
    """Yield B011 for keys in two file groups of a bucket, B012 for keys that look-ups overlook.

    A file slice that cannot be read is told of where its files were examined.

    Args:
        snapshot: The table.
        layout: Of one partition.
        slices: What readers see of the partition.
    """
    of_bucket: dict[int, list[FileSlice]] = defaultdict(list)
    for file_slice in slices:
        bucket_id = layout.bucket_of(file_slice.file_id)
        if bucket_id is not None:
            of_bucket[bucket_id].append(file_slice)
    for bucket_id, groups in sorted(of_bucket.items()):
        seen, twice = pa.array([], _TEXT), pa.array([], _TEXT)
        for file_slice in groups:
            try:
                keys = _keys_of(snapshot, file_slice)
                found = _is_found(snapshot, file_slice, keys)
            except (BucketfmtError, pa.ArrowException):
                continue
            overlooked = keys.filter(pc.invert(found))
            if len(overlooked):
                yield Finding.of(
                    "B012",
                    f"{len(overlooked)} keys, such as {_show(overlooked)}: the base file does not "
                    "have them, or its footer rules them out",
                    partition=file_slice.partition_path,
                    bucket=bucket_id,
                    slices=[file_slice],
                )
            twice = pa.concat_arrays([twice, keys.filter(pc.is_in(keys, value_set=seen))])
            seen = pa.concat_arrays([seen, keys])
        if len(twice):
            yield Finding.of(
                "B011",
                f"{len(twice)} keys, such as {_show(twice)}, in {len(groups)} file groups",
                partition=groups[0].partition_path,
                bucket=bucket_id,
                slices=groups,
            )


def _keys_of(snapshot: Snapshot, file_slice: FileSlice) -> pa.Array:
    """Return the keys that readers see, each once."""
    return pc.unique(pa.concat_arrays([pa.array([], _TEXT), *merged_keys(snapshot, file_slice)]))


def _is_found(snapshot: Snapshot, file_slice: FileSlice, keys: pa.Array) -> pa.Array:
    """Return for each key whether a look-up finds that the file group has it."""
    if file_slice.base_file is None:
        return pa.repeat(pa.scalar(False), len(keys))
    state = snapshot.state
    with open_base_file(state.store, file_slice.base_file, state.limits) as opened:
        stored = opened.read([RECORD_KEY]).column(RECORD_KEY)
        may_hold = pa.array(opened.keys.may_hold(keys))
    return pc.and_(may_hold, pc.is_in(keys, value_set=stored.combine_chunks()))


def _show(keys: pa.Array) -> str:
    return ", ".join(repr(key[:80]) for key in keys.slice(0, _SHOWN).to_pylist())
