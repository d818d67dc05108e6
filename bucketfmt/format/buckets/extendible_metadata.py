"""Extendible hashing metadata (`<instant>.hashing_meta`): the directory of a partition as JSON.

Pure. An extension of this package: no release of Hudi has it. The file is laid out as Hudi lays out
consistent hashing metadata. Source: spec EXT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

import msgspec

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.buckets.extendible_directory import (
    HASH_BITS,
    DirectoryBucket,
    check_directory_prefixes,
    directory_entries,
    global_depth_of,
    initial_directory,
    overwritten_directory,
)
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.encoding.json_text import (
    decode_unambiguous_json,
    encode_jackson_json,
)
from bucketfmt.format.encoding.struct_types import prepare_to_decode
from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "EMPTY_GROUPS",
    "ExtendibleMetadata",
    "choose_extendible_metadata",
    "decode_extendible_metadata",
    "encode_extendible_metadata",
    "initial_extendible_metadata",
    "overwritten_extendible_metadata",
]

EMPTY_GROUPS = "bucketfmt.empty.groups"
"""The key, in `extraMetadata` of a replacecommit, of those replaced file groups that had no file.

Their ids with commas between. Whoever rolls the commit back tells by the entry that no clean has
deleted files of these.
"""

_Int32 = Annotated[int, msgspec.Meta(ge=0, le=0x7FFFFFFF)]
_Instant = Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{14}([0-9]{3})?\Z")]
_WHAT = "extendible hashing metadata"


class ExtendibleMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The directory of a partition as of one instant. The fields in their order are the JSON."""

    version: _Int32  # 0
    partition_path: str
    instant: _Instant  # of the replacecommit that made this directory, or INIT_INSTANT
    num_buckets: _Int32  # of the initial directory; resizing leaves it alone
    seq_no: _Int32  # one more with every resize of the partition
    global_depth: Annotated[int, msgspec.Meta(ge=0, le=HASH_BITS)]
    buckets: tuple[DirectoryBucket, ...]


prepare_to_decode(ExtendibleMetadata)


def decode_extendible_metadata(data: Buffer, limits: Limits = DEFAULT_LIMITS) -> ExtendibleMetadata:
    """Return the metadata; properties that are not known are skipped.

    Raises:
        CorruptError: the bytes are not such JSON, a property is given twice, or the buckets are not
            a directory of the stated depth.
        LimitError: the file or the directory is too large.
        UnsupportedError: a later version.
    """
    limits.check("hashing_metadata_bytes_max", len(data))
    metadata = decode_unambiguous_json(data, ExtendibleMetadata, _WHAT)
    if metadata.version:
        raise UnsupportedError(f"{_WHAT} of version {metadata.version}; this release reads 0")
    depth = limits.check("directory_depth_max", global_depth_of(metadata.buckets))
    check_directory_prefixes(metadata.buckets)
    directory_entries(metadata.buckets)
    if metadata.global_depth != depth:
        raise CorruptError(
            f"{_WHAT}: the global depth is {metadata.global_depth}, and the largest local depth "
            f"{depth}"
        )
    return metadata


def encode_extendible_metadata(metadata: ExtendibleMetadata) -> bytes:
    """Return the bytes of this metadata, laid out as Hudi lays out JSON."""
    return encode_jackson_json(msgspec.to_builtins(metadata))


def initial_extendible_metadata(partition_path: str, num_buckets: int) -> ExtendibleMetadata:
    """Return the metadata that the first writer puts into a partition; all writers agree on it.

    Raises:
        ValueError: a directory cannot begin with that many buckets.
    """
    buckets = initial_directory(partition_path, num_buckets)
    depth = global_depth_of(buckets)
    return ExtendibleMetadata(0, partition_path, INIT_INSTANT, num_buckets, 0, depth, buckets)


def overwritten_extendible_metadata(
    metadata: ExtendibleMetadata, instant: str, *, is_emptied: bool
) -> ExtendibleMetadata:
    """Return the metadata of a partition whose file groups an instant hides.

    Rows of an overwrite are divided among the buckets that the partition has, since they are
    likely to be as many and as skewed as the rows before. A partition that is emptied begins with
    the initial number of buckets again.

    Args:
        metadata: In force before.
        instant: The requested time of the overwrite, or of the drop of the partition.
        is_emptied: The partition gets no rows.
    """
    path, buckets = metadata.partition_path, metadata.buckets
    if is_emptied:
        buckets = initial_directory(path, metadata.num_buckets)
    return msgspec.structs.replace(
        metadata,
        instant=instant,
        seq_no=metadata.seq_no + 1,
        global_depth=global_depth_of(buckets),
        buckets=overwritten_directory(buckets, path, instant),
    )


def choose_extendible_metadata(
    instants: Iterable[str], is_visible: Callable[[str], bool]
) -> str | None:
    """Return the instant whose metadata is in force; None if there is none.

    Args:
        instants: The instants with metadata of the partition.
        is_visible: Whether files of the replacecommit of an instant count, at the moment looked at.
    """
    return next(
        (i for i in sorted(instants, reverse=True) if i == INIT_INSTANT or is_visible(i)), None
    )
