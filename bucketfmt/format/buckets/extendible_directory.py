"""The directory of a partition with an extendible hashing index: look-up, split and merge.

Pure. A directory of global depth g has 2^g entries. The low g bits of a hash are the entry of the
hash, which leads to a bucket. A bucket of local depth d has all hashes that agree in their low d
bits, so 2^(g - d) entries lead to the bucket, and the lowest of them is the id of the bucket. The
global depth is the largest local depth. Low bits, so that a directory is doubled by repeating it.
No release of Hudi has this index: RFC-29 and RFC-42 name it. Source: spec EXT; Fagin et al.,
Extendible hashing (1979).
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from bucketfmt.errors import CorruptError
from bucketfmt.format.keys.hashing import HASH_VALUE_MASK

__all__ = [
    "HASH_BITS",
    "DirectoryBucket",
    "buddy_of",
    "check_directory_prefixes",
    "derive_directory_prefix",
    "directory_entries",
    "global_depth_of",
    "initial_directory",
    "merge_bucket",
    "overwritten_directory",
    "split_bucket",
]

HASH_BITS = HASH_VALUE_MASK.bit_length()
"""How many bits a hash value has, and so the largest local depth."""

_NO_BUCKET = -1
_FIRST_DIGIT = "e"
_PREFIX = re.compile(rf"{_FIRST_DIGIT}[0-9a-f]{{7}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}")


class DirectoryBucket(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One bucket: the hashes that it has, and the file group that it stands for.

    The fields in their order are the JSON object. The file id prefix is a UUID whose first digit is
    `e`: no file id begins with eight decimal digits, as a writer of numbered buckets expects.
    """

    bucket_id: Annotated[int, msgspec.Meta(ge=0, le=HASH_VALUE_MASK)]  # its low local_depth bits
    local_depth: Annotated[int, msgspec.Meta(ge=0, le=HASH_BITS)]
    file_id_prefix: str  # of many buckets, `check_directory_prefixes` checks them at once


def global_depth_of(buckets: Sequence[DirectoryBucket]) -> int:
    """Return the global depth of a directory: the largest local depth.

    Raises:
        CorruptError: there is no bucket.
    """
    if not buckets:
        raise CorruptError("a directory needs at least one bucket")
    return max([bucket.local_depth for bucket in buckets])


def check_directory_prefixes(buckets: Iterable[DirectoryBucket]) -> None:
    """Check that file id prefixes are those of directories.

    Raises:
        CorruptError: a prefix is not a UUID whose first digit is `e`.
    """
    for bucket in buckets:
        if not _PREFIX.fullmatch(bucket.file_id_prefix):
            raise CorruptError(
                f"the fileIdPrefix {bucket.file_id_prefix!r:.80} of bucket {bucket.bucket_id} is "
                f"not a UUID that begins with {_FIRST_DIGIT}"
            )


def directory_entries(
    buckets: Sequence[DirectoryBucket], *, is_whole: bool = True
) -> npt.NDArray[np.int32]:
    """Return the bucket id that each entry leads to, int32, 2^(global depth) of them.

    Whoever decodes buckets checks the depth against `limits.directory_depth_max` before.

    Args:
        buckets: The buckets.
        is_whole: They are of one partition: each entry has to lead to a bucket. Otherwise -1
            stands for no bucket, and the file groups may be any.

    Raises:
        CorruptError: the buckets do not have each hash once, are not in ascending order of their
            ids, or share a file group.
    """
    depth = global_depth_of(buckets)
    ids = np.array([bucket.bucket_id for bucket in buckets], np.int64)
    depths = np.array([bucket.local_depth for bucket in buckets], np.int64)
    is_misplaced = (ids >> depths != 0) | (np.diff(ids, prepend=-1) <= 0)
    if is_misplaced.any():
        at = int(np.argmax(is_misplaced))
        raise CorruptError(
            f"bucket ids ascend and have at most local depth bits, but {ids[at]} with "
            f"{depths[at]} bits is bucket {at} of the directory"
        )
    entries = np.full(1 << depth, _NO_BUCKET, np.int32)
    for own_depth in np.unique(depths).tolist():
        own = ids[depths == own_depth]
        columns = entries.reshape(-1, 1 << own_depth)
        is_taken = (columns[:, own] != _NO_BUCKET).any(axis=0)
        if is_taken.any():
            number = int(own[np.argmax(is_taken)])
            raise CorruptError(f"directory entries of bucket {number} lead to another bucket too")
        columns[:, own] = own
    if is_whole and (entries == _NO_BUCKET).any():
        raise CorruptError(f"directory entry {int(np.argmin(entries))} leads to no bucket")
    if is_whole and len({bucket.file_id_prefix for bucket in buckets}) < len(buckets):
        raise CorruptError("two buckets of a directory share a file group")
    return entries


def initial_directory(partition_path: str, num_buckets: int) -> tuple[DirectoryBucket, ...]:
    """Return the directory every writer gives a partition at first: derived names, equal depths.

    Raises:
        ValueError: `num_buckets` is not a power of two, or has more bits than a hash value.
    """
    depth = num_buckets.bit_length() - 1
    if num_buckets < 1 or num_buckets != 1 << depth or depth > HASH_BITS:
        raise ValueError(
            f"a directory begins with 1, 2, 4, ... 2^{HASH_BITS} buckets, not {num_buckets}"
        )
    path = partition_path.encode()
    buckets = []
    for number in range(num_buckets):
        name = depth.to_bytes(8, "big") + number.to_bytes(8, "big") + path
        buckets.append(DirectoryBucket(number, depth, derive_directory_prefix(name)))
    return tuple(buckets)


def overwritten_directory(
    buckets: Iterable[DirectoryBucket], partition_path: str, instant: str
) -> tuple[DirectoryBucket, ...]:
    """Return the same buckets with other file groups, which take the rows of an overwrite.

    Args:
        buckets: The directory.
        partition_path: The partition.
        instant: The requested time of the overwrite, from which the file ids follow.
    """
    found = []
    for bucket in buckets:
        name = f"{instant}/{partition_path}/{bucket.bucket_id}/{bucket.local_depth}"
        prefix = derive_directory_prefix(name.encode())
        found.append(DirectoryBucket(bucket.bucket_id, bucket.local_depth, prefix))
    return tuple(found)


def derive_directory_prefix(name: bytes) -> str:
    """Return the file id prefix that follows from a name: a UUID whose first digit is `e`."""
    digest = hashlib.md5(name, usedforsecurity=False).digest()
    return _FIRST_DIGIT + str(uuid.UUID(bytes=digest, version=3))[1:]


def split_bucket(
    buckets: Sequence[DirectoryBucket], bucket_id: int, prefixes: tuple[str, str]
) -> tuple[DirectoryBucket, ...] | None:
    """Return the directory with one bucket split by its next bit; None where no bit is left.

    Both halves are new file groups: the first prefix gets the hashes whose next bit is 0. The
    directory is twice as large if the bucket had its depth.

    Raises:
        ValueError: there is no such bucket.
    """
    bucket = _find(buckets, bucket_id)
    depth = bucket.local_depth
    if depth == HASH_BITS:
        return None
    low, high = prefixes
    return _sorted(
        *(other for other in buckets if other is not bucket),
        DirectoryBucket(bucket_id, depth + 1, low),
        DirectoryBucket(bucket_id + (1 << depth), depth + 1, high),
    )


def buddy_of(buckets: Sequence[DirectoryBucket], bucket_id: int) -> DirectoryBucket | None:
    """Return the bucket that differs in the last of its bits only.

    None where that half of the hashes is divided further, or the bucket has all hashes.

    Raises:
        ValueError: there is no such bucket.
    """
    bucket = _find(buckets, bucket_id)
    if not bucket.local_depth:
        return None
    other = bucket_id ^ (1 << (bucket.local_depth - 1))
    for found in buckets:
        if (found.bucket_id, found.local_depth) == (other, bucket.local_depth):
            return found
    return None


def merge_bucket(
    buckets: Sequence[DirectoryBucket], bucket_id: int, prefix: str
) -> tuple[DirectoryBucket, ...]:
    """Return the directory with a bucket and its buddy merged into a new file group.

    The directory is half as large if no other bucket has its depth.

    Raises:
        ValueError: there is no such bucket, or the bucket has no buddy.
    """
    bucket, buddy = _find(buckets, bucket_id), buddy_of(buckets, bucket_id)
    if buddy is None:
        raise ValueError(f"bucket {bucket_id} has no buddy of its depth, {bucket.local_depth}")
    merged = DirectoryBucket(min(bucket_id, buddy.bucket_id), bucket.local_depth - 1, prefix)
    return _sorted(*(other for other in buckets if other not in (bucket, buddy)), merged)


def _sorted(*buckets: DirectoryBucket) -> tuple[DirectoryBucket, ...]:
    return tuple(sorted(buckets, key=lambda bucket: bucket.bucket_id))


def _find(buckets: Sequence[DirectoryBucket], bucket_id: int) -> DirectoryBucket:
    found: Iterator[DirectoryBucket] = (b for b in buckets if b.bucket_id == bucket_id)
    bucket = next(found, None)
    if bucket is None:
        raise ValueError(f"the directory has no bucket {bucket_id}")
    return bucket
