"""Tasks of buckets: parts of large buckets alone, small buckets together. Pure.

Equal keys are in one part of one bucket, so that the rows of several buckets can be joined or
grouped as those of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import bucketfmt as bf
from bucketfmt_spark.engine.bucket_parts import BucketParts, bucket_size
from bucketfmt_spark.engine.tasks import pack_by_size

__all__ = ["count_tasks", "pack_buckets", "unpack_buckets"]


def pack_buckets(
    groups: bf.BucketGroups, parts: BucketParts, kept: Sequence[int], parallelism: int
) -> list[list[list[bytes]]]:
    """Return the sides of tasks for `task_frame`, to be read by `unpack_buckets`.

    Args:
        groups: The tasks to read of each scan and bucket.
        parts: The parts of the buckets.
        kept: The buckets that have rows to give.
        parallelism: How many tasks run at a time.
    """
    pieces = [(bucket, number) for bucket in kept for number in parts.numbers_of(bucket)]
    packs = pack_by_size([bucket_size(groups, bucket) for bucket, _ in pieces], parallelism)
    tasks = [[pieces[place] for place in pack] for pack in packs]
    headers = [[_header(groups, *piece) for piece in task] for task in tasks]
    return [headers] + [
        [[task.payload for bucket, _ in pack for _, task in side[bucket]] for pack in tasks]
        for side in groups.tasks
    ]


def unpack_buckets(
    headers: Sequence[bytes], *sides: Sequence[bytes]
) -> Iterator[tuple[int, list[Sequence[bytes]]]]:
    """Yield the number of each part of a task, with the payloads of each side of its bucket."""
    places = [0 for _ in sides]
    for header in headers:
        number, *counts = map(int, header.split())
        own = [side[at : at + n] for side, at, n in zip(sides, places, counts, strict=True)]
        places = [at + n for at, n in zip(places, counts, strict=True)]
        yield number, own


def count_tasks(groups: bf.BucketGroups, num_places: int, parallelism: int) -> int:
    """Return how many tasks take the rows that are moved to `num_places` buckets or parts."""
    number = groups.buckets.num_buckets
    packs = pack_by_size([bucket_size(groups, bucket) for bucket in range(number)], parallelism)
    return min(num_places, max(len(packs), 2 * parallelism))


def _header(groups: bf.BucketGroups, bucket: int, number: int) -> bytes:
    return " ".join(map(str, (number, *(len(side[bucket]) for side in groups.tasks)))).encode()
