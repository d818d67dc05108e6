"""Delete blocks: which keys to delete, and with which ordering value.

Pure. Source: HoodieDeleteBlock, DeleteRecord.

    i32 version | i32 length | payload

The version is that of the log block, neither of the frame nor of the table: 1 and 2 are Kryo
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
    """One key to delete. `ordering_value` is the integer 0 where the delete had none."""

    record_key: str | None
    partition_path: str | None
    ordering_value: OrderingValue


@dataclass(frozen=True, slots=True)
class DeleteBlock:
    """The content of a delete block, as columns of equal length. Iterating yields records.

    Attributes:
        version: 1, 2 or 3: which encoding.
        record_keys: The key of each record.
        partition_paths: Its partition path; "" in an unpartitioned table.
        ordering_kinds: Its `OrderingKind`, one byte each.
        ordering_values: Its value, of the Python type that the kind says.
    """

    version: int
    record_keys: list[str | None]
    partition_paths: list[str | None]
    ordering_kinds: bytes
    ordering_values: list[RawOrderingValue]

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

    @property
    def ordering_kind(self) -> OrderingKind | None:
        """The kind that all ordering values share; None if they differ or there are none."""
        kinds = self.ordering_kinds
        if not kinds or kinds.count(kinds[0]) != len(kinds):
            return None
        return OrderingKind(kinds[0])

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
        CorruptError: the content is no delete block.
        UnsupportedError: a version above 3, or a Java class that no delete block may hold.
        LimitError: more records or objects than `limits` allow.
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
        UnsupportedError: an ordering value that Hudi cannot write in that version.
        ValueError: no such version, or a value that its kind does not hold.
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
