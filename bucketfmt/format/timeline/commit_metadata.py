"""Commit metadata: the content of commit, deltacommit and replacecommit files.

Pure. Sources: `HoodieCommitMetadata`, `HoodieReplaceCommitMetadata`, `HoodieWriteStat`,
`HoodieDeltaWriteStat`, `CommitMetadataSerDeV1` (JSON, layout 1), `CommitMetadataSerDeV2`
(Avro, layout 2). Both forms decode to the same value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import Any

import msgspec

from bucketfmt.errors import CorruptError
from bucketfmt.format.encoding.avro_container import (
    CONTAINER_MAGIC,
    AvroSchema,
    container_of,
    decode_datum,
    encode_datum,
    split_container,
)
from bucketfmt.format.encoding.avro_records import (
    OtherAvroTypeError,
    RecordDecoder,
    RecordEncoder,
    decode_count,
    decode_text,
    encode_long,
    encode_text,
)
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.encoding.json_text import decode_json, encode_jackson_json
from bucketfmt.format.encoding.struct_types import prepare_to_decode
from bucketfmt.format.names.damaged_names import check_names
from bucketfmt.format.names.names import BaseFileName, LogFileName, find_data_file_name
from bucketfmt.format.timeline.hudi_schemas import hudi_schema
from bucketfmt.format.timeline.stat_paths import find_relative_path
from bucketfmt.format.timeline.timeline_record import (
    Int32,
    Int64,
    TimelineRecord,
    decode_single_record,
    timeline_record,
)
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "NULL_COMMIT",
    "CommitMetadata",
    "RuntimeStats",
    "WriteStat",
    "commit_metadata_record",
    "decode_commit_metadata",
    "encode_commit_metadata_avro",
    "encode_commit_metadata_json",
]

NULL_COMMIT = "null"
"""`WriteStat.prev_commit` of a new file group: the text, not a null."""

_STATS = "partitionToWriteStats"
_LARGE_BYTES = 1 << 16
_UNKNOWN = "UNKNOWN"  # WriteOperationType of a commit that states none
_COMMIT, _REPLACE_COMMIT = "HoodieCommitMetadata", "HoodieReplaceCommitMetadata"


class RuntimeStats(TimelineRecord, frozen=True, kw_only=True):
    """Milliseconds a writer spent on one file."""

    total_scan_time: Int64 = 0
    total_upsert_time: Int64 = 0
    total_create_time: Int64 = 0


class WriteStat(TimelineRecord, frozen=True, gc=False):
    """One file a commit wrote. In the order of Hudi's JSON; sizes in bytes, times in ms.

    Only the stat of a log file has `log_version`, `log_offset`, `base_file` and `log_files`;
    they are None on the stat of a base file.

    `path` is relative to the table, also where the file states a URL (`find_relative_path`).
    `prev_commit` is the instant of the base file that was replaced, `NULL_COMMIT` for a new file
    group; on a log file, the slice's base instant (table version 6) or the delta commit's own
    instant (8 and later).
    """

    file_id: str | None = None
    path: str | None = None
    cdc_stats: Mapping[str, Int64] | None = None
    prev_commit: str | None = None
    num_writes: Int64 = 0
    num_deletes: Int64 = 0
    num_update_writes: Int64 = 0
    num_inserts: Int64 = 0
    total_write_bytes: Int64 = 0
    total_write_errors: Int64 = 0
    temp_path: str | None = None
    partition_path: str | None = None
    total_log_records: Int64 = 0
    total_log_files_compacted: Int64 = 0
    total_log_size_compacted: Int64 = 0
    total_updated_records_compacted: Int64 = 0
    total_log_blocks: Int64 = 0
    total_corrupt_log_block: Int64 = 0
    total_rollback_blocks: Int64 = 0
    file_size_in_bytes: Int64 = 0
    min_event_time: Int64 | None = None
    max_event_time: Int64 | None = None
    prev_base_file: str | None = None
    runtime_stats: RuntimeStats | None = None
    total_log_files: Int64 | None = None
    total_log_read_time_ms: Int64 | None = None
    num_updates: Int64 | None = None
    log_version: Int32 | None = None
    log_offset: Int64 | None = None
    base_file: str | None = None
    log_files: Sequence[str] | None = None

    @property
    def file_name(self) -> BaseFileName | LogFileName | None:
        """The name of the file; None if it is no data file's."""
        return find_data_file_name((self.path or "").rpartition("/")[2])


class CommitMetadata(TimelineRecord, frozen=True, kw_only=True):
    """A commit: {partition path: its files}, and {partition path: file ids it replaced}.

    `extra_metadata["schema"]` is the table's Avro schema without meta columns.
    `operation_type` is Hudi's enum name, or UNKNOWN if a writer left it out. JSON may have null for
    `operation_type` and `compacted`, which is decoded as the default.
    """

    partition_to_write_stats: Mapping[str, Sequence[WriteStat]] = {}
    compacted: bool | None = False
    extra_metadata: Mapping[str, str | None] = {}
    operation_type: str | None = _UNKNOWN
    partition_to_replace_file_ids: Mapping[str, Sequence[str]] = {}

    @property
    def write_stats(self) -> Iterator[WriteStat]:
        """The files of all partitions."""
        return chain.from_iterable(self.partition_to_write_stats.values())

    def as_read(self) -> CommitMetadata:
        """Return the commit with the paths that Hudi did not make relative made so (DEV-35)."""
        stats = self.partition_to_write_stats
        # Nearly no path has a colon, and there may be a million.
        odd = [path for path, own in stats.items() if any(":" in (s.path or "") for s in own)]
        if not odd:
            return self
        mended = {path: [_with_relative_path(stat, path) for stat in stats[path]] for path in odd}
        return msgspec.structs.replace(self, partition_to_write_stats={**stats, **mended})


def _with_relative_path(stat: WriteStat, partition_path: str) -> WriteStat:
    found = find_relative_path(stat.path or "", partition_path, stat.file_id or "")
    return stat if found is None else msgspec.structs.replace(stat, path=found)


prepare_to_decode(CommitMetadata)

# Hudi 0.15 leaves these out of the JSON of a stat that has none; others it writes as null.
_ABSENT_WHEN_NULL = (
    "prevBaseFile",
    "totalLogFiles",
    "totalLogReadTimeMs",
    "numUpdates",
    "logVersion",
    "logOffset",
    "baseFile",
    "logFiles",
)


def decode_commit_metadata(data: Buffer, limits: Limits = DEFAULT_LIMITS) -> CommitMetadata:
    """Return the commit metadata in a completed or inflight file, Avro or JSON.

    A file of zero bytes is an empty commit, as Hudi reads it.

    Raises:
        CorruptError: the bytes have neither form.
        UnsupportedError: the bytes are an Avro container that Hudi would not write.
        LimitError: the file exceeds a limit.
    """
    limits.check("timeline_file_bytes_max", len(data))
    if not len(data):
        return CommitMetadata()
    if bytes(data[: len(CONTAINER_MAGIC)]) == CONTAINER_MAGIC:
        record, stats = _decode_large(data, limits)
        metadata = timeline_record(record, CommitMetadata)
        if stats is not None:
            metadata = msgspec.structs.replace(metadata, partition_to_write_stats=stats).as_read()
    else:
        metadata = decode_json(data, CommitMetadata, "commit metadata").as_read()
        if metadata.compacted is None:
            metadata = msgspec.structs.replace(metadata, compacted=False)
        if metadata.operation_type is None:
            metadata = msgspec.structs.replace(metadata, operation_type=_UNKNOWN)
        record = decode_json(data, dict[str, msgspec.Raw], "commit metadata")
    # A damaged name is skipped as unknown: a replacecommit would replace nothing.
    check_names(record, CommitMetadata.__struct_encode_fields__, "commit metadata")
    return metadata


_Stats = dict[str, list[WriteStat]]


def _decode_large(data: Buffer, limits: Limits) -> tuple[dict[str, Any], _Stats | None]:
    """Return the record in a container, and its stats where they were decoded apart.

    The stats of a large commit are not made into dicts first. What that does not succeed with is
    decoded as any record, which tells of damage.
    """
    found = _find_stats(data, limits) if len(data) >= _LARGE_BYTES else None
    if found is not None:
        stat_schema, block, others = found
        with suppress(CorruptError, OtherAvroTypeError, IndexError, UnicodeDecodeError):
            stats, end = _decode_stats(RecordDecoder(stat_schema, WriteStat), block)
            return decode_datum(block[end:], others) | {_STATS: {}}, stats
    _, record = decode_single_record(data, (_COMMIT, _REPLACE_COMMIT), limits)
    return record, None


def _find_stats(data: Buffer, limits: Limits) -> tuple[AvroSchema, bytes, AvroSchema] | None:
    """Return the schema of the stats, the record that begins with them, the schema of its rest.

    None where the container does not hold one record that begins with stats.
    """
    schema, blocks = split_container(data, limits)
    found = list(blocks)
    if len(found) != 1 or found[0].num_values != 1:
        return None
    if schema["name"].rpartition(".")[2] not in (_COMMIT, _REPLACE_COMMIT):
        return None
    match schema["fields"]:
        case [{"name": name, "type": ["null", {"type": "map", "values": stats}]}, *others]:
            match stats:
                case {"type": "array", "items": {"type": "record", "fields": [_, _, *_]} as stat}:
                    if name == _STATS and others:
                        rest = {"type": "record", "name": "Others", "fields": others}
                        return stat, bytes(found[0].data), rest
    return None


def _decode_stats(decoder: RecordDecoder, block: bytes) -> tuple[_Stats, int]:
    """Return the stats by partition, an optional map that the block begins with, and its end."""
    stats: _Stats = {}
    branch, at = decode_count(block, 0)
    if not branch:
        return stats, at
    if branch != 1:
        raise CorruptError("an Avro union of two types has no such branch", offset=0)
    while True:
        partitions, at = decode_count(block, at)
        if not partitions:
            return stats, at
        for _ in range(partitions):
            partition_path, at = decode_text(block, at)
            own = stats[partition_path] = []
            while True:
                count, at = decode_count(block, at)
                if not count:
                    break
                more, at = decoder.decode(block, at, count)
                own += more


def encode_commit_metadata_json(metadata: CommitMetadata, replace: bool = False) -> bytes:
    """Return the JSON of a layout 1 file, laid out as Hudi 0.15 writes it.

    `replace` says that the action is a replacecommit.

    Raises:
        TypeError: a key or a value of the extra metadata is not text.
        ValueError: file ids are replaced and `replace` is false.
    """
    record = _to_record(_without_stats(metadata), replace)
    stats = metadata.partition_to_write_stats.items()
    # Stat by stat: the members of a million stats would take more memory than the text.
    return encode_jackson_json(
        record | {_STATS: {path: map(_json_stat, own) for path, own in stats}}
    )


def _json_stat(stat: WriteStat) -> dict[str, Any]:
    members: dict[str, Any] = msgspec.to_builtins(stat)
    for name in _ABSENT_WHEN_NULL:
        if members[name] is None:
            del members[name]
    if "logFiles" in members:
        # column ranges Hudi 0.15 keeps in memory and spills here; no reader wants them
        members["recordsStats"] = {"val": None}
    return members


def _without_stats(metadata: CommitMetadata) -> CommitMetadata:
    return msgspec.structs.replace(metadata, partition_to_write_stats={})


def encode_commit_metadata_avro(metadata: CommitMetadata, replace: bool) -> bytearray:
    """Return the Avro container of a layout 2 file.

    `replace` says that the action is a replacecommit, which is a record of its own.

    Raises:
        TypeError: a key or a value of the extra metadata is not text.
        ValueError: file ids are replaced and `replace` is false.
    """
    schema = hudi_schema(_REPLACE_COMMIT if replace else _COMMIT)
    encoded = bytearray()
    for field in schema["fields"]:
        if field["name"] == _STATS:
            _encode_stats(encoded, metadata.partition_to_write_stats)
            record = commit_metadata_record(_without_stats(metadata), replace)
        else:
            encoded += encode_datum(field["type"], record[field["name"]])
    return container_of(schema, encoded, 1)


def _encode_stats(encoded: bytearray, stats: Mapping[str, Sequence[WriteStat]]) -> None:
    """Append the stats of all partitions, as the optional map that they are."""
    encoded += encode_long(1)
    if stats:
        encoded += encode_long(len(stats))
    encoder = _stat_encoder()
    for partition_path, own in stats.items():
        encoded += encode_text(partition_path)
        if own:
            encoded += encode_long(len(own))
        for data in encoder.encode(own):
            encoded += data
        encoded += encode_long(0)
    encoded += encode_long(0)


@cache
def _stat_encoder() -> RecordEncoder:
    return RecordEncoder(hudi_schema("HoodieWriteStat"), WriteStat)


def commit_metadata_record(metadata: CommitMetadata, replace: bool) -> dict[str, Any]:
    """Return the Avro record; arguments and errors as for `encode_commit_metadata_avro`."""
    record = _to_record(metadata, replace)
    record["version"] = None  # as Hudi leaves it
    extra = record["extraMetadata"]
    record["extraMetadata"] = {key: text for key, text in extra.items() if text is not None}
    return record


def _to_record(metadata: CommitMetadata, replace: bool) -> dict[str, Any]:
    for key, text in metadata.extra_metadata.items():
        if not isinstance(key, str) or not isinstance(text, str | None):
            raise TypeError(f"extra metadata must be text, not {key!r}: {text!r}")
    record: dict[str, Any] = msgspec.to_builtins(metadata)
    if not replace and record.pop("partitionToReplaceFileIds"):
        raise ValueError("a commit that replaces file groups is a replacecommit: pass replace=True")
    return record
