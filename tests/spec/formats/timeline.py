"""Formats of the timeline, its files, and properties."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timezone
from typing import Any

import msgspec

from bucketfmt.format.buckets.index_settings import IndexSettings
from bucketfmt.format.names.instants import (
    State,
    find_instant_file,
    format_instant_file_name,
    normalise_instant,
    parse_instant_time,
)
from bucketfmt.format.table.internal_schema import decode_schema_history, find_schema_in_force
from bucketfmt.format.table.properties import (
    decode_properties,
    encode_properties,
    table_checksum,
)
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.archived_timeline import (
    decode_archived_block,
    decode_history_manifest,
    decode_history_row,
    decode_history_version,
)
from bucketfmt.format.timeline.commit_metadata import decode_commit_metadata
from bucketfmt.format.timeline.instant_content import decode_instant_content
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.snapshot.data_files.written_files import CommitRecord
from bucketfmt.timeline.timeline import plan_timeline
from tests.spec.formats.values import Json, as_bytes, members

__all__ = ["FORMATS"]


def instant_file(question: Json) -> Json:
    found = find_instant_file(question["name"], question["layout"])
    if found is None:
        return None
    times = members(found, "requested_time", "completion_time", "action")
    return {**times, "state": found.state.value}


def instant_file_name(question: Json) -> Json:
    return format_instant_file_name(
        question["requested_time"],
        question["action"],
        State(question["state"]),
        question["completion_time"],
        question["layout"],
    )


def instant_time(text: str) -> Json:
    return parse_instant_time(text).isoformat(timespec="milliseconds")


def instant_of_time(question: Json) -> Json:
    return normalise_instant(question["time"], question["timezone"])


def history_row(question: Json) -> Json:
    row = {
        name: bytes.fromhex(value) if name in ("metadata", "plan") and value else value
        for name, value in question.items()
    }
    found = decode_history_row(row)
    return {
        **members(found, "requested_time", "completion_time", "action"),
        "metadata": found.metadata is not None,
        "plan": found.plan is not None,
    }


def timeline(question: Json) -> Json:
    files = [
        (file["name"], None if file["modified_ms"] is None else file["modified_ms"] / 1000)
        for file in question["files"]
    ]
    planned = plan_timeline(files, question["layout"], timezone.utc)
    return [
        [i.requested_time, i.completion_time, i.action, i.state.value] for i in planned.instants
    ]


def committed_times(question: Json) -> Json:
    files = [(name, None) for name in question["files"]]
    planned = plan_timeline(files, question["layout"], timezone.utc)
    times = question["times"]
    return {
        "files": [time for time in times if planned.is_completed(time)],
        "blocks": [time for time in times if planned.is_block_committed(time)],
    }


def archived_block(question: Json) -> Json:
    entries = decode_archived_block(bytes.fromhex(question["content"]), question["schema"])
    return [[entry.requested_time, entry.action, entry.state.value] for entry in entries]


def history_version(data: bytes | str) -> Json:
    return decode_history_version(as_bytes(data))


def history_manifest(data: bytes | str) -> Json:
    files = decode_history_manifest(as_bytes(data))
    return [members(f, "name", "size", "min_instant", "max_instant", "layer") for f in files]


def timeline_file(data: bytes) -> Json:
    value = decode_instant_content(data)
    if value is None:
        return None
    return {"record": f"Hoodie{type(value).__name__}", "value": msgspec.to_builtins(value)}


def commit_metadata(data: bytes | str) -> Json:
    value = msgspec.to_builtins(decode_commit_metadata(as_bytes(data)))
    return {
        "partitionToWriteStats": {
            partition: [{name: stat.get(name) for name in _STAT_FIELDS} for stat in stats]
            for partition, stats in value["partitionToWriteStats"].items()
        },
        **{
            name: value[name]
            for name in (
                "partitionToReplaceFileIds",
                "compacted",
                "operationType",
                "extraMetadata",
            )
        },
    }


_STAT_FIELDS = (
    *("fileId", "path", "prevCommit", "numWrites", "numDeletes", "numUpdateWrites", "numInserts"),
    *("totalWriteBytes", "partitionPath", "fileSizeInBytes", "prevBaseFile"),
    *("logVersion", "logOffset", "baseFile", "logFiles"),
)


def written_files(data: bytes | str) -> Json:
    metadata = decode_commit_metadata(as_bytes(data))
    commit = CommitRecord.from_metadata("1", "2", metadata, DEFAULT_LIMITS)
    return sorted(file[2] for file in commit.files)


def schema_history(data: bytes | str) -> Json:
    return [
        {
            "version_id": str(schema.version_id),
            "max_column_id": schema.max_column_id,
            "columns": {str(field.id): field.name for field in schema.fields},
        }
        for schema in decode_schema_history(as_bytes(data))
    ]


def schema_in_force(question: Json) -> Json:
    schemas = decode_schema_history(question["history"].encode())
    found = [find_schema_in_force(schemas, instant) for instant in question["instants"]]
    return [str(schema.version_id) if schema else None for schema in found]


def table_config(properties: Json) -> Json:
    config = TableConfig.from_properties(properties)
    return {
        **members(config, "table_version", "timeline_layout", "timeline_path", "history_path"),
        "key_generator": config.key_generator.value,
        "record_key_fields": list(config.record_key_fields),
        "partition_fields": list(config.partition_fields),
        "ordering_fields": list(config.ordering_fields),
        "merge_mode": config.merge_mode.value,
        "merge_properties": config.merge_properties,
    }


def _of_config(member: str) -> Callable[[Json], Json]:
    return lambda properties: table_config(properties)[member]


def index_settings(properties: Json) -> Json:
    settings = IndexSettings.from_properties(properties)
    fields = settings.hash_fields
    return {
        **members(settings, "index_type", "engine", "num_buckets"),
        "hash_fields": None if fields is None else list(fields),
    }


def group_bytes(properties: Json) -> Json:
    return IndexSettings.from_properties(properties).group_bytes


FORMATS: dict[str, Callable[[Any], Json]] = {
    "archived-block": archived_block,
    "commit-metadata": commit_metadata,
    "group-bytes": group_bytes,
    "history-manifest": history_manifest,
    "history-row": history_row,
    "history-version": history_version,
    "index-settings": index_settings,
    "instant-file": instant_file,
    "instant-file-name": instant_file_name,
    "instant-of-time": instant_of_time,
    "instant-order": sorted,
    "instant-time": instant_time,
    "key-generator": _of_config("key_generator"),
    "merge-mode": _of_config("merge_mode"),
    "merge-properties": _of_config("merge_properties"),
    "path-holds-values": lambda p: TableConfig.from_properties(p).partition_path_holds_values,
    "ordering-fields": _of_config("ordering_fields"),
    "partition-fields": _of_config("partition_fields"),
    "properties": lambda data: decode_properties(as_bytes(data)),
    "properties-text": lambda items: encode_properties(dict(items)).decode("iso-8859-1"),
    "schema-history": schema_history,
    "schema-in-force": schema_in_force,
    "table-checksum": lambda question: table_checksum(question[1], question[0]),
    "table-config": table_config,
    "timeline": timeline,
    "committed-times": committed_times,
    "timeline-file": timeline_file,
    "written-files": written_files,
}
