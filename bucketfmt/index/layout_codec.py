"""The layout of a partition as few bytes, for sending the layout to another process. Pure.

MessagePack, decoded by type: nothing in it makes an object of a class that it names.
"""

from __future__ import annotations

import msgspec

from bucketfmt.errors import CorruptError
from bucketfmt.format.buckets.extendible_directory import DirectoryBucket
from bucketfmt.format.buckets.ring import HashingNode
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.index.layout import BucketLayout, DirectoryBuckets, FixedBuckets, RingBuckets

__all__ = ["decode_layout", "encode_layout"]


class _Fixed(msgspec.Struct, frozen=True, array_like=True, tag="fixed"):
    num_buckets: int
    hash_fields: tuple[str, ...]
    dialect: KeyDialect


class _Ring(msgspec.Struct, frozen=True, array_like=True, tag="ring"):
    nodes: tuple[tuple[int, str | None], ...]
    hash_fields: tuple[str, ...]
    dialect: KeyDialect


class _Directory(msgspec.Struct, frozen=True, array_like=True, tag="directory"):
    buckets: tuple[DirectoryBucket, ...]
    hash_fields: tuple[str, ...]
    dialect: KeyDialect


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[_Fixed | _Ring | _Directory] = msgspec.msgpack.Decoder(
    _Fixed | _Ring | _Directory
)


def encode_layout(layout: BucketLayout) -> bytes:
    """Return what assigning keys to buckets needs; of a node its value and its file group.

    A ring of some of the nodes of a partition assigns the keys between two of these nodes as the
    whole ring does.
    """
    match layout:
        case FixedBuckets(number, hash_fields, dialect):
            return _ENCODER.encode(_Fixed(number, hash_fields, dialect))
        case RingBuckets(nodes, hash_fields, dialect):
            sent = tuple((node.value, node.file_id_prefix) for node in nodes)
            return _ENCODER.encode(_Ring(sent, hash_fields, dialect))
        case DirectoryBuckets(buckets, hash_fields, dialect):
            return _ENCODER.encode(_Directory(buckets, hash_fields, dialect))
    raise TypeError(f"{type(layout).__name__} is a layout that is not sent")


def decode_layout(data: bytes) -> BucketLayout:
    """Return the layout that `encode_layout` made the bytes of; nodes are tagged NORMAL.

    Raises:
        CorruptError: they are not such bytes.
    """
    try:
        found = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptError(f"no layout as it was sent: {error}") from None
    match found:
        case _Fixed(number, hash_fields, dialect):
            if number < 1:
                raise CorruptError(f"no layout as it was sent: {number} buckets")
            return FixedBuckets(number, hash_fields, dialect)
        case _Ring(nodes, hash_fields, dialect):
            ring = tuple(HashingNode(value, prefix) for value, prefix in nodes)
            return RingBuckets(ring, hash_fields, dialect)
        case _Directory(buckets, hash_fields, dialect):
            return DirectoryBuckets(buckets, hash_fields, dialect)
