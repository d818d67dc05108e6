"""Which file groups of a bucket take its new keys, where buckets grow by file groups.

Pure. Source: RFC-29, multiple file groups per bucket; UpsertPartitioner for the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["place_new_keys"]

_FULL = 5 / 6
"""The part of its size at which a file group takes no more new keys.

As Hudi's `hoodie.parquet.small.file.limit` by default is to `hoodie.parquet.max.file.size`.
"""


def place_new_keys(
    record_keys: pa.Array, sizes: Sequence[int | None], group_bytes: int, row_bytes: int
) -> tuple[int | None, np.ndarray]:
    """Return which file groups take the new keys of one bucket.

    The smallest file group is filled, then new ones are begun. Keys are divided by their order, so
    that the ranges of file groups that are written at once do not overlap.

    Args:
        record_keys: The keys, which may repeat.
        sizes: The bytes of the base file of each file group of the bucket; None for a file group
            that takes no new keys.
        group_bytes: How large a file group becomes.
        row_bytes: Bytes of a row, about.

    Returns:
        The place in `sizes` of the file group that is filled, None for no such file group; and for
        each key 0 for that file group, or 1, 2, ... for a new one.
    """
    small = [
        (size, place)
        for place, size in enumerate(sizes)
        if size is not None and size < group_bytes * _FULL
    ]
    least, taker = min(small, default=(group_bytes, None))
    room = -(-(group_bytes - least) // row_bytes)
    if len(record_keys) <= room:
        return taker, np.zeros(len(record_keys), np.int64)
    ranks = pc.rank(record_keys, tiebreaker="dense").to_numpy().astype(np.int64) - 1
    rows_of_new = -(-group_bytes // row_bytes)
    places: np.ndarray = np.where(ranks < room, 0, (ranks - room) // rows_of_new + 1)
    return taker, places
