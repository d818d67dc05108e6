"""Formats of the metadata table's records."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bucketfmt.format.metadata.metadata_encoding import encode_metadata_record
from bucketfmt.format.metadata.metadata_keys import (
    file_group_of_key,
    format_bloom_filter_key,
    format_column_stats_key,
    format_files_key,
    format_metadata_file_id,
    format_partition_stats_key,
    format_secondary_key,
    parse_metadata_file_id,
    parse_secondary_key,
    secondary_file_group_of_key,
)
from bucketfmt.format.metadata.metadata_records import (
    BloomFilterEntry,
    ColumnStats,
    FileEntry,
    FilesRecord,
    MetadataRecord,
    RecordLocation,
    StatValue,
    decode_metadata_record,
    decode_metadata_schema,
)
from bucketfmt.format.metadata.metadata_schemas import metadata_schema
from bucketfmt.metadata_table.in_step import find_step
from bucketfmt.metadata_table.merge_records import merge_records
from bucketfmt.metadata_table.valid_instants import ValidInstants
from bucketfmt.timeline.timeline import Timeline, plan_timeline
from tests.spec.formats.values import Json

_DECIMAL_ORDINAL = 10
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

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


def metadata_file_id(question: Json) -> Json:
    """The id of a file group of the metadata table."""
    given = question["metadata"], question["number"], question["partition"]
    file_id = format_metadata_file_id(*given)
    if parse_metadata_file_id(given[0], file_id) != (given[2], given[1]):
        raise AssertionError(f"{file_id} is parsed as another one")
    return file_id


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


def metadata_merge(question: Json) -> Json:
    """What several records of one key add up to."""
    records = [_given_record(given) for given in question]
    merged = merge_records(records)
    if isinstance(merged, FilesRecord):
        return {"files": {name: [str(e.size), e.is_deleted] for name, e in merged.entries.items()}}
    if isinstance(merged, RecordLocation):
        instant_ms = str(merged.instant_ms)
        return {
            "partition": merged.partition_path,
            "file_id": merged.file_id,
            "instant_ms": instant_ms,
        }
    assert isinstance(merged, ColumnStats)
    decimal = {} if merged.value_type is None else {"decimal": merged.value_type_info}
    return decimal | {
        "min": _shown(merged.minimum),
        "max": _shown(merged.maximum),
        "values": merged.value_count,
        "nulls": merged.null_count,
        "deleted": merged.is_deleted,
        "tight": merged.is_tight,
    }


def _given_record(given: Json) -> MetadataRecord:
    if "files" in given:
        entries = {
            name: FileEntry(int(size), gone) for name, (size, gone) in given["files"].items()
        }
        return FilesRecord(entries, are_partitions=False)
    if "file_id" in given:
        return RecordLocation(given["partition"], given["file_id"], int(given["instant_ms"]))
    low, high = (None if b is None else _given_bound(*b) for b in (given["min"], given["max"]))
    counts = given["values"], given["nulls"]
    stats = ColumnStats("f", "c", low, high, *counts, 0, 0, given["deleted"], given["tight"])
    if "decimal" not in given:
        return stats
    return replace(stats, value_type=_DECIMAL_ORDINAL, value_type_info=given["decimal"])


def _given_bound(wrapper: str, value: Json) -> StatValue:
    if wrapper in {"Bytes", "Decimal"}:
        return StatValue(wrapper, bytes.fromhex(value))
    return StatValue(wrapper, float(value) if wrapper == "Double" else value)


def _shown(bound: StatValue | None) -> Json:
    if bound is None:
        return None
    value = bound.value
    if isinstance(value, bytes):
        return [bound.wrapper, value.hex()]
    is_number = not isinstance(value, float) or math.isfinite(value)
    return [bound.wrapper, value if is_number else _NOT_FINITE[repr(value)]]


def _timeline(names: Json, layout: int) -> Timeline:
    return plan_timeline([(name, None) for name in names], layout)


def metadata_valid(question: Json) -> Json:
    """The instants whose log blocks count."""
    layout = question["layout"]
    data, metadata = (_timeline(question[of], layout) for of in ("data", "metadata"))
    valid = ValidInstants(data, metadata, lambda: question["rolled_back"])
    return [
        time
        for time in question["times"]
        if time in valid and (layout > 1 or metadata.is_block_committed(time))
    ]


def metadata_step(question: Json) -> Json:
    """What a metadata table lacks and has too much."""
    data, metadata, archived = (
        _timeline(question[of], question["layout"]) for of in ("data", "metadata", "archived")
    )
    step = find_step(data, metadata, archived.instants)
    return {
        "missing": list(step.missing),
        "ahead": list(step.ahead),
        "leftovers": list(step.leftovers),
        "unfinished": step.is_unfinished,
    }


FORMATS: dict[str, Callable[[Any], Json]] = {
    "metadata-group": metadata_group,
    "metadata-file-id": metadata_file_id,
    "metadata-key": metadata_key,
    "metadata-location": metadata_location,
    "metadata-merge": metadata_merge,
    "metadata-record": metadata_record,
    "metadata-step": metadata_step,
    "metadata-valid": metadata_valid,
    "secondary-key": lambda text: list(parse_secondary_key(text)),
}
