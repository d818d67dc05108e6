"""What rows of a write are gathered by, and the file groups that take the rows. Pure."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["GroupRef", "Route"]


class Route(NamedTuple):
    """Keys of one partition whose rows are written to the same file groups.

    Attributes:
        partition_path: The partition.
        number: What the locator calls them; the bucket id where the index has buckets.
    """

    partition_path: str
    number: int


class GroupRef(NamedTuple):
    """A file group that takes rows of a write.

    Attributes:
        partition_path: The partition.
        file_id: The file group; None for a file group that the write begins.
        bucket_id: The bucket that the file group is named after; None without buckets.
        new_number: Tells file groups apart that the write begins in one bucket, or in one partition
            without buckets.
        takes_new_keys: Whether rows come to it whose keys it does not have, where the bucket of a
            key does not tell the file group. They go to its base file.
        resize: The requested time of the pending resize that the file group takes copies of rows
            for: it has only these until the resize is completed. None for any other file group.
    """

    partition_path: str
    file_id: str | None
    bucket_id: int | None
    new_number: int = 0
    takes_new_keys: bool = False
    resize: str | None = None
