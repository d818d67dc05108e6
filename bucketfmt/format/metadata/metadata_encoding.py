"""Encoding what a record of the metadata table says.

Pure. Source: HoodieMetadataPayload (createRecordIndexUpdate and its siblings),
HFileUtils.serializeRecord: the field `key` is left empty.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

from bucketfmt.format.encoding.avro_container import encode_datum
from bucketfmt.format.hfile.entry_kernels import EntryColumns
from bucketfmt.format.metadata.metadata_records import (
    BloomFilterEntry,
    ColumnStats,
    FilesRecord,
    MetadataRecord,
    MetadataSchema,
    RecordLocation,
    RecordType,
    SecondaryEntry,
    StatValue,
)
from bucketfmt.format.timeline.hudi_schemas import HUDI_NAMESPACE

__all__ = ["encode_metadata_record", "encode_metadata_records"]

_UUID_AND_NUMBER = re.compile(
    r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-(0|[1-9][0-9]{0,9}))?", re.ASCII
)
_INT_MAX = 2**31 - 1


def encode_metadata_records(
    records: Mapping[str, MetadataRecord], schema: MetadataSchema
) -> EntryColumns:
    """Return records, given by their keys, as entries of an HFile, in the order of the keys.

    Raises:
        ValueError: as `encode_metadata_record`.
    """
    entries = [
        (key.encode(), encode_metadata_record(record, schema)) for key, record in records.items()
    ]
    return EntryColumns.of(sorted(entries))


def encode_metadata_record(record: MetadataRecord, schema: MetadataSchema) -> bytes:
    """Return the value of an HFile's entry.

    A member that the schema lacks is left out; the record then says what older releases can say.

    Args:
        record: What the value says.
        schema: By which to write, mostly `metadata_schema` of the table version.

    Raises:
        ValueError: the schema has no records of that kind or no wrapper for a bound, or a value is
            not of its type.
    """
    kind, name, part = _part_of(record)
    if name not in schema.members:
        raise ValueError(f"the schema of this metadata table has no {name}")
    try:
        return encode_datum(schema.avro, {"key": "", "type": kind, name: part})
    except (TypeError, OverflowError) as error:
        raise ValueError(f"a record of the metadata table does not fit: {error}") from error


def _part_of(record: MetadataRecord) -> tuple[RecordType, str, object]:
    """Return the type of a record, the member that says what the record says, and its value."""
    if isinstance(record, FilesRecord):
        kind = RecordType.ALL_PARTITIONS if record.are_partitions else RecordType.FILES
        files = {
            name: {"size": entry.size, "isDeleted": entry.is_deleted}
            for name, entry in record.entries.items()
        }
        return kind, "filesystemMetadata", files
    if isinstance(record, ColumnStats):
        kind = RecordType.PARTITION_STATS if record.of_partition else RecordType.COLUMN_STATS
        part = _branch("HoodieMetadataColumnStats", _column_stats(record))
        return kind, "ColumnStatsMetadata", part
    if isinstance(record, BloomFilterEntry):
        bloom_filter = {
            "type": record.type_code,
            "timestamp": record.instant,
            "bloomFilter": record.text,
            "isDeleted": record.is_deleted,
        }
        part = _branch("HoodieMetadataBloomFilter", bloom_filter)
        return RecordType.BLOOM_FILTER, "BloomFilterMetadata", part
    if isinstance(record, SecondaryEntry):
        part = _branch("HoodieSecondaryIndexInfo", {"isDeleted": record.is_deleted})
        return RecordType.SECONDARY_INDEX, "SecondaryIndexMetadata", part
    part = _branch("HoodieRecordIndexInfo", _location(record))
    return RecordType.RECORD_INDEX, "recordIndexMetadata", part


def _column_stats(stats: ColumnStats) -> dict[str, object]:
    value_type = None
    if stats.value_type is not None:
        said = {"typeOrdinal": stats.value_type, "additionalInfo": stats.value_type_info}
        value_type = _branch("HoodieValueTypeInfo", said)
    return {
        "fileName": stats.file_name,
        "columnName": stats.column,
        "minValue": _wrapped(stats.minimum),
        "maxValue": _wrapped(stats.maximum),
        "valueCount": stats.value_count,
        "nullCount": stats.null_count,
        "totalSize": stats.total_bytes,
        "totalUncompressedSize": stats.total_uncompressed_bytes,
        "isDeleted": stats.is_deleted,
        "isTightBound": stats.is_tight,
        "valueType": value_type,
    }


def _wrapped(value: StatValue | None) -> object:
    if value is None:
        return None
    name = f"{value.wrapper}Wrapper"
    return _branch(name, {name: value.value})


def _branch(name: str, fields: Mapping[str, object]) -> object:
    """Return a record of a union as fastavro takes the record without trying all branches."""
    return f"{HUDI_NAMESPACE}.{name}", fields


def _location(location: RecordLocation) -> dict[str, object]:
    return {
        "partitionName": location.partition_path,
        **_file_id(location.file_id),
        "instantTime": location.instant_ms,
        "position": location.position,
    }


def _file_id(file_id: str) -> dict[str, Any]:
    """Return a file id as the halves of a UUID and a number if it is made of these, else raw."""
    found = _UUID_AND_NUMBER.fullmatch(file_id)
    if found is None or int(found[2] or 0) > _INT_MAX:
        raw = {"fileIdHighBits": -1, "fileIdLowBits": -1, "fileIndex": -1}
        return {**raw, "fileId": file_id, "fileIdEncoding": 1}
    halves = uuid.UUID(found[1]).bytes
    return {
        "fileIdHighBits": int.from_bytes(halves[:8], "big", signed=True),
        "fileIdLowBits": int.from_bytes(halves[8:], "big", signed=True),
        "fileIndex": -1 if found[2] is None else int(found[2]),
        "fileId": "",
        "fileIdEncoding": 0,
    }
