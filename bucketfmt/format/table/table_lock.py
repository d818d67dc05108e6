"""The lock file of Hudi's `StorageBasedLockProvider`: JSON with the owner and the end of the lease.

Pure. Source: `StorageLockData`, `StorageLockFile` (Hudi 1.1 and later, RFC-91).
"""

from __future__ import annotations

import msgspec

from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.encoding.json_text import decode_json
from bucketfmt.format.encoding.struct_types import prepare_to_decode
from bucketfmt.format.timeline.timeline_record import Int64
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = ["TableLease", "decode_table_lease", "encode_table_lease"]


class TableLease(msgspec.Struct, frozen=True, rename="camel"):
    """A lease of the table. The fields in their order are Hudi's JSON.

    Attributes:
        expired: Whether the owner released the lease.
        valid_until: Milliseconds since the epoch at which the lease ends.
        owner: A UUID, one per writer.
    """

    expired: bool
    valid_until: Int64
    owner: str


def decode_table_lease(data: Buffer, limits: Limits = DEFAULT_LIMITS) -> TableLease:
    """Return the lease in a lock file.

    Raises:
        CorruptError: the bytes are not such JSON.
        LimitError: the file exceeds `limits.properties_bytes_max`.
    """
    limits.check("properties_bytes_max", len(data))
    return decode_json(data, TableLease, "table lock")


def encode_table_lease(lease: TableLease) -> bytes:
    """Return the lease as Hudi writes it, on one line without spaces."""
    return msgspec.json.encode(lease)


prepare_to_decode(TableLease)
