"""Formats of file names and paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bucketfmt.format.names import layout, names
from bucketfmt.format.names.paths import (
    check_partition_path,
    check_relative_path,
    escape_partition_value,
    format_partition_path,
    parse_partition_path,
    unescape_partition_value,
)
from bucketfmt.format.table.properties import (
    decode_partition_metadata,
)
from bucketfmt.format.table.table_lock import decode_table_lease
from tests.spec.formats.values import Json, as_bytes, members

__all__ = ["FORMATS"]


def data_file_name(name: str) -> Json:
    found = names.find_data_file_name(name)
    if isinstance(found, names.BaseFileName):
        assert str(found) == name
        assert names.parse_base_file_name(name) == found
        return members(found, "file_id", "write_token", "instant", "extension")
    if isinstance(found, names.LogFileName):
        assert str(found) == name
        assert names.parse_log_file_name(name) == found
        return members(found, "file_id", "instant", "version", "write_token", "is_cdc")
    return None


def log_file_order(file_names: list[str]) -> Json:
    return sorted(file_names, key=lambda name: names.parse_log_file_name(name).sort_key)


def write_token_order(tokens: list[str]) -> Json:
    return [str(token) for token in sorted(map(names.parse_write_token, tokens))]


def new_file_id(question: Json) -> Json:
    if "file_id_prefix" in question:
        return names.format_consistent_file_id(question["file_id_prefix"])
    if question.get("nbcc"):
        return names.format_nbcc_file_id(question["bucket_id"])
    return names.format_bucket_file_id(question["bucket_id"], question["uuid"])


def rfc29_file_name(name: str) -> Json:
    found = names.parse_bucket_file_name(name)
    return members(found, "bucket_id", "file_group_id", "uuid", "timestamp")


def hashing_file_name(name: str) -> Json:
    parsers = {
        "hashing_meta": ("metadata", layout.parse_hashing_metadata_name),
        "commit": ("marker", layout.parse_hashing_marker_name),
    }
    default = ("config", layout.parse_hashing_config_name)
    kind, parse = parsers.get(name.rpartition(".")[2], default)
    return {"kind": kind, "instant": parse(name)}


def marker_path(path: str) -> Json:
    found = names.parse_marker_name(path)
    assert str(found) == path
    return {
        "partition_path": found.partition_path,
        "data_file_name": found.data_file_name,
        "type": found.io_type.value,
    }


def partition_path(question: Json) -> Json:
    return check_partition_path(
        format_partition_path(
            question["values"], question["fields"], question["hive_style"], question["url_encoded"]
        )
    )


def partition_values(question: Json) -> Json:
    values = parse_partition_path(
        question["path"], question["fields"], question["hive_style"], question["url_encoded"]
    )
    return list(values)


def partition_metadata(data: bytes | str) -> Json:
    return members(decode_partition_metadata(as_bytes(data)), "commit_time", "partition_depth")


def table_lease(data: bytes | str) -> Json:
    lease = decode_table_lease(as_bytes(data))
    return {**members(lease, "expired", "owner"), "valid_until": str(lease.valid_until)}


FORMATS: dict[str, Callable[[Any], Json]] = {
    "bucket-of-file-id": names.find_bucket_id,
    "data-file-name": data_file_name,
    "hashing-file-name": hashing_file_name,
    "log-file-order": log_file_order,
    "marker-path": marker_path,
    "new-file-id": new_file_id,
    "partition-escape": escape_partition_value,
    "partition-metadata": partition_metadata,
    "partition-path": partition_path,
    "partition-unescape": unescape_partition_value,
    "partition-values": partition_values,
    "relative-path": check_relative_path,
    "rfc29-file-name": rfc29_file_name,
    "table-lease": table_lease,
    "write-token-order": write_token_order,
}
