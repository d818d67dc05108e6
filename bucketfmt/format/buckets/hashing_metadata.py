"""Consistent hashing metadata (`<instant>.hashing_meta`): the ring of one partition as JSON.

Pure. Also reads the layout of the RFC-42 document, which no release is known to have written:
`bucket_mappings` of `hash_value` and `file_group`, and names in snake case.
Sources: `HoodieConsistentHashingMetadata`, `ConsistentBucketIndexUtils.loadMetadata`, RFC-42.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Annotated

import msgspec

from bucketfmt.errors import CorruptError
from bucketfmt.format.buckets.ring import HashingNode, check_ring, initial_ring
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.encoding.json_text import (
    decode_json,
    decode_unambiguous_json,
    encode_jackson_json,
)
from bucketfmt.format.encoding.struct_types import prepare_to_decode
from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "HashingMetadata",
    "choose_hashing_metadata",
    "decode_hashing_metadata",
    "encode_hashing_metadata",
    "initial_hashing_metadata",
]

_Int32 = Annotated[int, msgspec.Meta(ge=0, le=0x7FFFFFFF)]
_Instant = Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{14}([0-9]{3})?\Z")]


class HashingMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The ring of a partition as of one instant. The fields in their order are Hudi's JSON."""

    version: _Int32
    partition_path: str
    instant: _Instant  # of the clustering that made this ring, or INIT_INSTANT
    num_buckets: _Int32  # of the initial ring; resizing leaves it alone
    seq_no: _Int32  # one more with every clustering
    nodes: tuple[HashingNode, ...]

    @property
    def file_ids(self) -> frozenset[str]:
        """The file groups that the ring leads to."""
        return frozenset(node.file_id for node in self.nodes)


class _Rfc42Mapping(msgspec.Struct):
    hash_value: int
    file_group: str


class _Rfc42Metadata(msgspec.Struct):
    version: _Int32
    partition_path: str
    instant: _Instant
    num_buckets: _Int32
    bucket_mappings: list[_Rfc42Mapping]


class _Layout(msgspec.Struct):
    bucket_mappings: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


prepare_to_decode(HashingMetadata, _Rfc42Metadata, _Layout)


def decode_hashing_metadata(data: Buffer, limits: Limits = DEFAULT_LIMITS) -> HashingMetadata:
    """Return the metadata; properties that are not known are skipped.

    Raises:
        CorruptError: the bytes are not such JSON, a property is given twice, or the nodes are not a
            ring.
        LimitError: the file or the ring is too large.
    """
    what = "hashing metadata"
    limits.check("hashing_metadata_bytes_max", len(data))
    if decode_json(data, _Layout, what).bucket_mappings is msgspec.UNSET:
        metadata = decode_unambiguous_json(data, HashingMetadata, what)
    else:
        document = decode_unambiguous_json(data, _Rfc42Metadata, what)
        metadata = HashingMetadata(
            document.version,
            document.partition_path,
            document.instant,
            document.num_buckets,
            0,
            tuple(HashingNode(m.hash_value, m.file_group) for m in document.bucket_mappings),
        )
    limits.check("ring_nodes_max", len(metadata.nodes))
    check_ring(metadata.nodes)
    return metadata


def encode_hashing_metadata(metadata: HashingMetadata) -> bytes:
    """Return the bytes Hudi writes for this metadata, to the byte."""
    return encode_jackson_json(msgspec.to_builtins(metadata))


def initial_hashing_metadata(partition_path: str, num_buckets: int) -> HashingMetadata:
    """Return the metadata that the first writer puts into a partition; all writers agree on it.

    Raises:
        ValueError: a ring cannot have that many buckets.
    """
    nodes = initial_ring(partition_path, num_buckets)
    return HashingMetadata(0, partition_path, INIT_INSTANT, num_buckets, 0, nodes)


def choose_hashing_metadata(
    instants: Collection[str],
    markers: Collection[str],
    completed_instants: Collection[str],
    pending_instants: Collection[str],
    has_base_file_of: Callable[[str], bool],
) -> str | None:
    """Return the instant whose metadata is in force for a partition; None if there is none.

    Args:
        instants: The instants with a `.hashing_meta` file in the partition's hashing folder.
        markers: The instants with a zero-byte `.commit` file, in the hashing folder (1.x) or in the
            partition's data folder (0.15).
        completed_instants: Completed commits and replace commits of the active timeline.
        pending_instants: Pending instants of the active timeline.
        has_base_file_of: Returns whether some latest base file of the partition belongs to a node
            of an instant's metadata. Called only for instants that the timeline no longer has.

    Raises:
        CorruptError: the newest marker has no metadata, and no later instant is in force.
    """
    if max(instants, default=None) == INIT_INSTANT:
        return INIT_INSTANT
    marked = max(markers, default=None)
    for instant in sorted({*instants, *([] if marked is None else [marked])}, reverse=True):
        if instant not in instants:
            raise CorruptError(
                f"hashing metadata of {instant} is marked as committed, but the file is missing"
            )
        is_committed = instant in {marked, INIT_INSTANT} or instant in completed_instants
        if is_committed or (instant not in pending_instants and has_base_file_of(instant)):
            return instant
    return None
