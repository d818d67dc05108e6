"""Tasks of whole buckets: large buckets alone, small buckets together. Pure.

Equal keys are in one bucket, so that the rows of several buckets can be joined or grouped as those
of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import bucketfmt as bf
from bucketfmt_spark.engine.tasks import pack_by_size

__all__ = ["count_tasks", "pack_buckets", "unpack_buckets"]


def pack_buckets(
    groups: bf.BucketGroups, kept: Sequence[int], parallelism: int
) -> list[list[list[bytes]]]:
    """Return the sides of tasks for `task_frame`, to be read by `unpack_buckets`.

    Args:
        groups: The tasks to read of each scan and bucket.
        kept: The buckets that have rows to give.
        parallelism: How many tasks run at a time.
    """
    packs = pack_by_size([_size(groups, bucket) for bucket in kept], parallelism)
    buckets = [[kept[place] for place in pack] for pack in packs]
    headers = [[_header(groups, bucket) for bucket in pack] for pack in buckets]
    return [headers] + [
        [[task.payload for bucket in pack for _, task in side[bucket]] for pack in buckets]
        for side in groups.tasks
    ]


def unpack_buckets(
    headers: Sequence[bytes], *sides: Sequence[bytes]
) -> Iterator[tuple[int, list[Sequence[bytes]]]]:
    """Yield each bucket of a task, with the payloads of each side."""
    places = [0 for _ in sides]
    for header in headers:
        bucket, *counts = map(int, header.split())
        own = [side[at : at + n] for side, at, n in zip(sides, places, counts, strict=True)]
        places = [at + n for at, n in zip(places, counts, strict=True)]
        yield bucket, own


def count_tasks(groups: bf.BucketGroups, parallelism: int) -> int:
    """Return how many tasks take the rows that are moved to buckets."""
    number = groups.buckets.num_buckets
    packs = pack_by_size([_size(groups, bucket) for bucket in range(number)], parallelism)
    return min(number, max(len(packs), 2 * parallelism))


def _size(groups: bf.BucketGroups, bucket: int) -> int:
    return sum(task.size for side in groups.tasks for _, task in side[bucket])


def _header(groups: bf.BucketGroups, bucket: int) -> bytes:
    return " ".join(map(str, (bucket, *(len(side[bucket]) for side in groups.tasks)))).encode()
