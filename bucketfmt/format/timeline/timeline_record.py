"""Values that Hudi stores as one Avro record in a file of the timeline.

Pure. Source: `TimelineMetadataUtils`, `HoodieAvroUtils.convertToSpecificRecord`.

A value's class is the record of the same name without "Hoodie", its fields are the
record's in Python spelling. Where Hudi's record may hold null and null means the same as
the default (an empty list, an empty map), the value holds the default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Protocol, TypeVar

import msgspec

from bucketfmt.errors import CorruptError
from bucketfmt.format.encoding.avro_container import decode_container, encode_container
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.encoding.struct_types import prepare_to_decode
from bucketfmt.format.timeline.hudi_schemas import hudi_schema
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "Int32",
    "Int64",
    "TimelineRecord",
    "decode_single_record",
    "timeline_record",
    "timeline_record_codec",
]

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

_Self = TypeVar("_Self", bound="TimelineRecord")


class TimelineRecord(msgspec.Struct, frozen=True, rename="camel"):
    """Base class of the values."""

    def as_read(self: _Self) -> _Self:
        """Return what readers take the value for, which was decoded as it is stored."""
        return self


R = TypeVar("R", bound=TimelineRecord)

_NESTED = (dict, list)
R_co = TypeVar("R_co", bound=TimelineRecord, covariant=True)


class RecordDecoder(Protocol[R_co]):
    """Returns the value in an Avro container that holds exactly one record.

    Raises:
        CorruptError: the bytes are not such a container, or hold another record.
        UnsupportedError: the container is compressed or its schema is not one of Hudi's.
        LimitError: the file exceeds a limit.
    """

    def __call__(self, data: Buffer, limits: Limits = DEFAULT_LIMITS) -> R_co: ...


def timeline_record_codec(kind: type[R]) -> tuple[RecordDecoder[R], Callable[[R], bytes]]:
    """Return (decode, encode) between `kind` and an Avro container of its Hudi record."""
    name = "Hoodie" + kind.__name__
    prepare_to_decode(kind)

    def decode(data: Buffer, limits: Limits = DEFAULT_LIMITS) -> R:
        _, record = decode_single_record(data, (name,), limits)
        return timeline_record(record, kind)

    def encode(value: R) -> bytes:
        return encode_container(hudi_schema(name), [msgspec.to_builtins(value)])

    return decode, encode


def decode_single_record(
    data: Buffer, names: tuple[str, ...], limits: Limits
) -> tuple[str, dict[str, Any]]:
    """Return (record name, record) of an Avro container of one record with one of `names`.

    Raises:
        CorruptError: the container does not hold exactly one record, or holds another record.
    """
    schema, records = decode_container(data, limits)
    name = schema["name"].rpartition(".")[2]
    if name not in names:
        raise CorruptError(f"a file of {name[:80]} where {' or '.join(names)} belongs")
    if len(records) != 1:
        raise CorruptError(f"{len(records)} records of {name} in a file that has one")
    return name, records[0]


def timeline_record(record: Mapping[str, Any], kind: type[R]) -> R:
    """Return a decoded Avro record as `kind`. Fields that `kind` lacks are skipped.

    Raises:
        CorruptError: a field that `kind` needs is missing or of another type.
    """
    try:
        # a record without a version is of the first, not of the one written today
        return msgspec.convert({"version": 1} | _without_nulls(record), kind).as_read()
    except msgspec.ValidationError as error:
        raise CorruptError(f"Hoodie{kind.__name__}: {error}") from error


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_nulls(item) if isinstance(item, _NESTED) else item
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    return value
