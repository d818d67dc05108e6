"""What a record of the metadata table says: Avro values of the schema HoodieMetadataRecord.

Pure. Source: HoodieMetadataRecord (in HoodieMetadata.avsc), HoodieMetadataPayload. A record's own
schema counts, which grew from release to release; what a schema lacks has Avro's default.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import IntEnum
from functools import lru_cache
from typing import Any, TypeVar

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.encoding.avro_container import (
    AvroSchema,
    check_writer_schema,
    decode_datum,
)
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.encoding.json_text import decode_json
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.process import cached_property

__all__ = [
    "BloomFilterEntry",
    "ColumnStats",
    "FileEntry",
    "FilesRecord",
    "MetadataRecord",
    "MetadataSchema",
    "RecordLocation",
    "RecordType",
    "SecondaryEntry",
    "StatValue",
    "decode_metadata_record",
    "decode_metadata_schema",
]

T = TypeVar("T")

_WRAPPER = "Wrapper"
_MASK64 = 0xFFFFFFFFFFFFFFFF


class RecordType(IntEnum):
    """The number in the field `type`."""

    ALL_PARTITIONS = 1
    FILES = 2
    COLUMN_STATS = 3
    BLOOM_FILTER = 4
    RECORD_INDEX = 5
    PARTITION_STATS = 6
    SECONDARY_INDEX = 7


@dataclass(frozen=True)
class FileEntry:
    """A file, or a partition, in a record of `files`.

    Attributes:
        size: In bytes; 0 of a partition.
        is_deleted: The file is gone: the entry takes back an earlier one.
    """

    size: int
    is_deleted: bool


@dataclass(frozen=True)
class FilesRecord:
    """The files of a partition by name, or the partitions of the table by path."""

    entries: Mapping[str, FileEntry]
    are_partitions: bool


@dataclass(frozen=True)
class StatValue:
    """A minimum or a maximum, in Avro's physical form.

    Attributes:
        wrapper: Which of Hudi's wrapper records the value is in, without "Wrapper": `Int`,
            `Long`, `String`, `Date`, `Decimal`, `TimestampMicros`, ...
        value: What the wrapper holds: of a date the days, of a decimal the bytes of its digits.
    """

    wrapper: str
    value: object


@dataclass(frozen=True)
class ColumnStats:
    """The statistics of a column in a file, or in a partition.

    Attributes:
        file_name: Name of the file; of the statistics of a partition, its path.
        column: The column; dots lead into structs.
        minimum: The smallest value; None where there is none, or where it is not known.
        maximum: The largest value, likewise.
        value_count: How many rows there are, nulls included.
        null_count: How many of them are null.
        total_bytes: Bytes of the column, compressed; 0 of a log file.
        total_uncompressed_bytes: Bytes of the column before compression.
        is_deleted: The file is gone.
        is_tight: The bounds are those of the values; else the values may lie closer together.
        value_type: Ordinal of Hudi's ValueType, since table version 9; None before.
        value_type_info: What else the type says: precision and scale of a decimal.
    """

    file_name: str | None
    column: str | None
    minimum: StatValue | None
    maximum: StatValue | None
    value_count: int | None
    null_count: int | None
    total_bytes: int | None
    total_uncompressed_bytes: int | None
    is_deleted: bool
    is_tight: bool = False
    value_type: int | None = None
    value_type_info: str | None = None
    of_partition: bool = False


@dataclass(frozen=True)
class BloomFilterEntry:
    """The bloom filter of a base file: its type code and its text, as in the file's footer."""

    type_code: str
    instant: str
    text: bytes
    is_deleted: bool


@dataclass(frozen=True)
class RecordLocation:
    """Where the record index says that a record is.

    Attributes:
        partition_path: Of the record.
        file_id: Of its file group.
        instant_ms: Requested time of the commit that the file group began with, in milliseconds
            since the epoch; the writer read the instant in the time zone of its machine.
        position: Place of the row in its base file; None: not recorded.
    """

    partition_path: str
    file_id: str
    instant_ms: int
    position: int | None = None

    def instant(self) -> datetime:
        """Return the instant, read in UTC."""
        return datetime.fromtimestamp(self.instant_ms / 1000, timezone.utc)


@dataclass(frozen=True)
class SecondaryEntry:
    """That a record has a value: both are in the key of the entry."""

    is_deleted: bool


MetadataRecord = FilesRecord | ColumnStats | BloomFilterEntry | RecordLocation | SecondaryEntry


@dataclass(frozen=True)
class MetadataSchema:
    """The schema that a file's records are written by.

    Attributes:
        text: The schema as the file has it: JSON.
        avro: The schema, checked, with the fields of wrappers named after their wrappers.
    """

    text: str
    avro: AvroSchema

    @cached_property
    def members(self) -> frozenset[str]:
        """The names of the fields of a record."""
        return frozenset(field["name"] for field in self.avro["fields"])


def decode_metadata_schema(text: Buffer, limits: Limits = DEFAULT_LIMITS) -> MetadataSchema:
    """Return the schema that the records of a file are decoded by.

    Args:
        text: JSON: `schema` in the file info of an HFile, or SCHEMA in the header of a log block.
        limits: Bounds on what is allocated.

    Raises:
        CorruptError: the text is no Avro schema of a record.
    """
    return _decode_schema(bytes(text), limits)


@lru_cache(maxsize=8)  # all files that one release wrote have the same
def _decode_schema(text: bytes, limits: Limits) -> MetadataSchema:
    schema = decode_json(text, object, "schema of the metadata table")
    plain = check_writer_schema(_with_named_wrappers(schema), limits)
    if not isinstance(plain, dict) or plain.get("type") != "record":
        raise CorruptError("the schema of the metadata table is not that of a record")
    return MetadataSchema(str(text, "utf-8"), plain)


def _with_named_wrappers(schema: object) -> object:
    """Return a schema in which the one field of each wrapper has the wrapper's name.

    Values in a union of records are told apart by it; the bytes do not have names.
    """
    if isinstance(schema, list):
        return [_with_named_wrappers(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {name: _with_named_wrappers(value) for name, value in schema.items()}
    name, fields = schema.get("name"), changed.get("fields")
    if isinstance(name, str) and name.endswith(_WRAPPER) and isinstance(fields, list):
        changed["fields"] = [
            {**field, "name": name} if isinstance(field, dict) else field for field in fields
        ]
    return changed


def decode_metadata_record(value: Buffer, schema: MetadataSchema) -> MetadataRecord:
    """Return what the value of an HFile's entry says.

    Raises:
        CorruptError: the value is not of the schema, or lacks what its type needs.
        UnsupportedError: a record of a type that this release does not know.
    """
    record = decode_datum(value, schema.avro)
    kind = record.get("type")
    if kind in (RecordType.ALL_PARTITIONS, RecordType.FILES):
        entries = record.get("filesystemMetadata") or {}
        files = {
            name: FileEntry(_member(entry, "size", int), _member(entry, "isDeleted", bool))
            for name, entry in entries.items()
        }
        return FilesRecord(files, kind == RecordType.ALL_PARTITIONS)
    if kind in (RecordType.COLUMN_STATS, RecordType.PARTITION_STATS):
        return _column_stats(
            _member(record, "ColumnStatsMetadata", dict), kind == RecordType.PARTITION_STATS
        )
    if kind == RecordType.BLOOM_FILTER:
        part = _member(record, "BloomFilterMetadata", dict)
        return BloomFilterEntry(
            _member(part, "type", str),
            _member(part, "timestamp", str),
            part.get("bloomFilter") or b"",
            _member(part, "isDeleted", bool),
        )
    if kind == RecordType.RECORD_INDEX:
        return _location(_member(record, "recordIndexMetadata", dict))
    if kind == RecordType.SECONDARY_INDEX:
        part = _member(record, "SecondaryIndexMetadata", dict)
        return SecondaryEntry(_member(part, "isDeleted", bool))
    raise UnsupportedError(f"a record of the metadata table of type {kind!r}")


def _column_stats(part: Mapping[str, Any], of_partition: bool) -> ColumnStats:
    value_type = part.get("valueType") or {}
    return ColumnStats(
        part.get("fileName"),
        part.get("columnName"),
        _stat_value(part.get("minValue")),
        _stat_value(part.get("maxValue")),
        part.get("valueCount"),
        part.get("nullCount"),
        part.get("totalSize"),
        part.get("totalUncompressedSize"),
        _member(part, "isDeleted", bool),
        bool(part.get("isTightBound")),
        value_type.get("typeOrdinal"),
        value_type.get("additionalInfo"),
        of_partition,
    )


def _stat_value(wrapped: object) -> StatValue | None:
    if wrapped is None:
        return None
    if not isinstance(wrapped, dict) or len(wrapped) != 1:
        raise CorruptError("a bound in the column statistics is not wrapped")
    ((wrapper, value),) = wrapped.items()
    return StatValue(wrapper.removesuffix(_WRAPPER), value)


def _location(part: Mapping[str, Any]) -> RecordLocation:
    encoding = part.get("fileIdEncoding") or 0
    if encoding == 0:
        bits = (
            _member(part, "fileIdHighBits", int) & _MASK64,
            _member(part, "fileIdLowBits", int) & _MASK64,
        )
        text = str(uuid.UUID(int=bits[0] << 64 | bits[1]))
        number = _member(part, "fileIndex", int)
        file_id = text if number == -1 else f"{text}-{number}"
    elif encoding == 1:
        file_id = _member(part, "fileId", str)
    else:
        raise UnsupportedError(f"a record index whose file ids are encoded as number {encoding!r}")
    return RecordLocation(
        _member(part, "partitionName", str),
        file_id,
        _member(part, "instantTime", int),
        part.get("position"),
    )


def _member(part: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """Return a member that a record cannot do without."""
    value = part.get(name)
    if not isinstance(value, kind):
        raise CorruptError(f"a record of the metadata table lacks {name}")
    return value
