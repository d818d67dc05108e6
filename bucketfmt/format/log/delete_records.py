"""Delete blocks: which keys to delete, and with which ordering value.

Pure. Source: HoodieDeleteBlock, DeleteRecord.

    i32 version | i32 length | payload

The version is the version of the delete block, not of the frame or the table: 1 and 2 are Kryo
(`kryo_deletes`), 3 is Avro (`avro_deletes`), as every release since 0.14 writes it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.encoding.cursor import Buffer, Cursor
from bucketfmt.format.log.avro_deletes import decode_avro_deletes, encode_avro_deletes
from bucketfmt.format.log.kryo_deletes import decode_kryo_deletes, encode_kryo_deletes
from bucketfmt.format.log.ordering_values import OrderingKind, OrderingValue, RawOrderingValue
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "AVRO_VERSION",
    "DeleteBlock",
    "DeleteRecord",
    "decode_delete_block",
    "encode_delete_block",
]

AVRO_VERSION = 3

_HEAD = struct.Struct(">ii")


class DeleteRecord(NamedTuple):
    """One key to delete. `ordering_value` is the integer 0 for a delete without ordering value."""

    record_key: str | None
    partition_path: str | None
    ordering_value: OrderingValue


@dataclass(frozen=True, slots=True)
class DeleteBlock:
    """The content of a delete block, as columns of equal length. Iterating yields records.

    Attributes:
        version: The encoding: 1, 2 or 3.
        record_keys: The key of each record.
        partition_paths: The partition path of each record; "" in an unpartitioned table.
        ordering_kinds: The `OrderingKind` of each record, one byte each.
        ordering_values: The ordering value of each record, of the Python type of its kind.
    """

    version: int
    record_keys: list[str | None]
    partition_paths: list[str | None]
    ordering_kinds: bytes
    ordering_values: list[RawOrderingValue]

    def joined_with(self, other: DeleteBlock) -> DeleteBlock:
        """Return the block of the records of both."""
        return DeleteBlock(
            self.version,
            self.record_keys + other.record_keys,
            self.partition_paths + other.partition_paths,
            self.ordering_kinds + other.ordering_kinds,
            self.ordering_values + other.ordering_values,
        )

    @classmethod
    def from_records(
        cls, records: Iterable[DeleteRecord], version: int = AVRO_VERSION
    ) -> DeleteBlock:
        """Return the block that holds `records`."""
        rows = list(records)
        return cls(
            version,
            [row.record_key for row in rows],
            [row.partition_path for row in rows],
            bytes(row.ordering_value.kind for row in rows),
            [row.ordering_value.value for row in rows],
        )

    def __len__(self) -> int:
        return len(self.record_keys)

    def __iter__(self) -> Iterator[DeleteRecord]:
        ordering_values = map(
            OrderingValue, map(OrderingKind, self.ordering_kinds), self.ordering_values
        )
        return map(DeleteRecord, self.record_keys, self.partition_paths, ordering_values)


def decode_delete_block(content: Buffer, limits: Limits = DEFAULT_LIMITS) -> DeleteBlock:
    """Return the deletes in the content of a delete block.

    Raises:
        CorruptError: the content is not a delete block.
        UnsupportedError: the version is above 3, or the content names a Java class that no delete
            block holds.
        LimitError: the content has more records or objects than `limits` allow.
    """
    cursor = Cursor(content, limits=limits)
    version = cursor.i32("delete block version")
    payload = cursor.take(cursor.i32("delete payload length"), "delete payload")
    cursor.expect_end("delete block")
    if version < 1:
        raise CorruptError(f"delete block version {version} is unknown")
    if version > AVRO_VERSION:
        raise UnsupportedError(f"delete block version {version} is unknown")
    if version == AVRO_VERSION:
        return DeleteBlock(version, *decode_avro_deletes(payload, limits))
    deletes = decode_kryo_deletes(payload, version, limits)
    return DeleteBlock.from_records(map(DeleteRecord._make, deletes), version)


def encode_delete_block(block: DeleteBlock) -> bytes:
    """Return the content of a delete block, in the encoding that `block.version` names.

    Raises:
        UnsupportedError: Hudi cannot write an ordering value in that version.
        ValueError: there is no such version, or a value does not fit its kind.
    """
    if block.version == AVRO_VERSION:
        payload = encode_avro_deletes(
            block.record_keys, block.partition_paths, block.ordering_kinds, block.ordering_values
        )
    elif block.version in (1, 2):
        payload = encode_kryo_deletes(block, block.version)
    else:
        raise ValueError(f"delete block version {block.version}")
    return _HEAD.pack(block.version, len(payload)) + payload
