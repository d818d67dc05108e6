"""Formats of the metadata table's records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bucketfmt.format.metadata.metadata_encoding import encode_metadata_record
from bucketfmt.format.metadata.metadata_keys import (
    file_group_of_key,
    format_bloom_filter_key,
    format_column_stats_key,
    format_files_key,
    format_partition_stats_key,
    format_secondary_key,
    parse_secondary_key,
    secondary_file_group_of_key,
)
from bucketfmt.format.metadata.metadata_records import (
    BloomFilterEntry,
    ColumnStats,
    FilesRecord,
    RecordLocation,
    StatValue,
    decode_metadata_record,
    decode_metadata_schema,
)
from bucketfmt.format.metadata.metadata_schemas import metadata_schema
from tests.spec.formats.values import Json

__all__ = ["FORMATS"]


def metadata_key(question: Json) -> Json:
    """A key of one of the partitions of the metadata table."""
    match question:
        case {"kind": "files", "partition": partition}:
            return format_files_key(partition)
        case {"kind": "column_stats", "column": column, "partition": partition, "file": file}:
            return format_column_stats_key(column, partition, file)
        case {"kind": "partition_stats", "column": column, "partition": partition}:
            return format_partition_stats_key(column, partition)
        case {"kind": "bloom_filters", "partition": partition, "file": file}:
            return format_bloom_filter_key(partition, file)
    return format_secondary_key(question["value"], question["record_key"])


def metadata_group(question: Json) -> Json:
    """The number of the file group of a key."""
    find = secondary_file_group_of_key if question["secondary"] else file_group_of_key
    return find(question["key"], question["groups"])


def metadata_record(question: Json) -> Json:
    """What a record says."""
    schema = decode_metadata_schema(question["schema"].encode())
    record = decode_metadata_record(bytes.fromhex(question["value"]), schema)
    if isinstance(record, FilesRecord):
        files = {name: [str(e.size), e.is_deleted] for name, e in record.entries.items()}
        return {"files": files, "partitions": record.are_partitions}
    if isinstance(record, ColumnStats):
        return {
            "file": record.file_name,
            "column": record.column,
            "min": _bound(record.minimum),
            "max": _bound(record.maximum),
            "values": str(record.value_count),
            "nulls": str(record.null_count),
            "deleted": record.is_deleted,
            "tight": record.is_tight,
            "type": record.value_type,
            "of_partition": record.of_partition,
        }
    if isinstance(record, BloomFilterEntry):
        return {
            "type": record.type_code,
            "instant": record.instant,
            "text": record.text.hex(),
            "deleted": record.is_deleted,
        }
    if isinstance(record, RecordLocation):
        return {
            "partition": record.partition_path,
            "file_id": record.file_id,
            "instant_ms": str(record.instant_ms),
            "position": record.position,
        }
    return {"deleted": record.is_deleted}


def _bound(value: StatValue | None) -> Json:
    if value is None:
        return None
    shown = str(value.value) if isinstance(value.value, int) else value.value
    return [value.wrapper, shown]


def metadata_location(question: Json) -> Json:
    """The value of a record of the record index, as it is written."""
    place = RecordLocation(question["partition"], question["file_id"], int(question["instant_ms"]))
    return encode_metadata_record(place, metadata_schema(question["table_version"])).hex()


FORMATS: dict[str, Callable[[Any], Json]] = {
    "metadata-group": metadata_group,
    "metadata-key": metadata_key,
    "metadata-location": metadata_location,
    "metadata-record": metadata_record,
    "secondary-key": lambda text: list(parse_secondary_key(text)),
}
