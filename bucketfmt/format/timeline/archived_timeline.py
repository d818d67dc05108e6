"""Instants that were moved out of the active timeline.

Pure. Sources: `HoodieArchivedTimeline` and `HoodieArchivedMetaEntry` (layout 1: Avro records
in the blocks of log files, one per state), `LSMTimeline`, `HoodieLSMTimelineInstant` and
`HoodieLSMTimelineManifest` (layout 2: rows of parquet files that a manifest names, one per
action). The framing of log files and parquet is read elsewhere.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.encoding.avro_container import check_writer_schema, decode_datum, encode_datum
from bucketfmt.format.encoding.cursor import Buffer, Cursor
from bucketfmt.format.encoding.json_text import decode_json, encode_jackson_json
from bucketfmt.format.encoding.struct_types import prepare_to_decode
from bucketfmt.format.names.instants import State
from bucketfmt.format.timeline.commit_metadata import CommitMetadata, commit_metadata_record
from bucketfmt.format.timeline.hudi_schemas import hudi_schema, with_java_strings
from bucketfmt.format.timeline.instant_content import InstantContent, decode_instant_content
from bucketfmt.format.timeline.plans import CleanerPlan, CompactionPlan, RequestedReplaceMetadata
from bucketfmt.format.timeline.service_metadata import (
    CleanMetadata,
    IndexCommitMetadata,
    RollbackMetadata,
    SavepointMetadata,
)
from bucketfmt.format.timeline.timeline_record import Int32, Int64, TimelineRecord, timeline_record
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "ArchivedInstant",
    "HistoryFile",
    "decode_archived_block",
    "decode_history_manifest",
    "decode_history_row",
    "decode_history_version",
    "encode_archived_block",
    "encode_history_manifest",
    "encode_history_version",
    "parse_history_file_name",
]


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """An archived action, or in layout 1 one state of it.

    `metadata` is the content of the completed (or inflight) file, `plan` the content of the
    requested file; None if the archive has no such content. In layout 1 `completion_time` is the
    state transition time of the file of that state, and None in old archives.
    """

    requested_time: str
    action: str
    state: State
    completion_time: str | None
    metadata: InstantContent | None = None
    plan: InstantContent | None = None


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """A parquet file of layout 2's history: instants `min_instant`..`max_instant`, inclusive.

    New files are in layer 0; a merge of ten files of a layer makes one file of the next layer.
    """

    name: str
    size: int
    min_instant: str
    max_instant: str
    layer: int


# layout 1 ------------------------------------------------------------------------------------

_BLOCK_VERSION = 3

_METADATA_FIELDS: Mapping[str, type[InstantContent]] = {
    "hoodieCommitMetadata": CommitMetadata,
    "hoodieReplaceCommitMetadata": CommitMetadata,
    "HoodieInflightReplaceMetadata": CommitMetadata,
    "hoodieCleanMetadata": CleanMetadata,
    "hoodieRollbackMetadata": RollbackMetadata,
    "hoodieSavePointMetadata": SavepointMetadata,
    "hoodieIndexCommitMetadata": IndexCommitMetadata,
}
_PLAN_FIELDS: Mapping[str, type[InstantContent]] = {
    "hoodieCompactionPlan": CompactionPlan,
    "hoodieCleanerPlan": CleanerPlan,
    "hoodieRequestedReplaceMetadata": RequestedReplaceMetadata,
}


class ArchivedMetaEntry(TimelineRecord, frozen=True, kw_only=True):
    """The fields of `HoodieArchivedMetaEntry` that identify the instant."""

    commit_time: str
    action_type: str
    action_state: State = State.COMPLETED  # very old entries have none
    state_transition_time: str | None = None


def decode_archived_block(
    content: Buffer, schema_json: str, limits: Limits = DEFAULT_LIMITS
) -> list[ArchivedInstant]:
    """Return the entries of one Avro data block of an archive log file, in file order.

    `content` is int32 version 3, int32 count, then per entry an int32 length and the Avro
    record; `schema_json` is the block's SCHEMA header.

    Raises:
        CorruptError: the bytes are not such a block.
        UnsupportedError: the block has another version, or a schema that Hudi would not write.
        LimitError: the block exceeds a limit.
    """
    limits.check("history_file_bytes_max", len(content))
    schema = check_writer_schema(decode_json(schema_json, object, "archive schema"), limits)
    cursor = Cursor(content, limits=limits)
    version = cursor.i32("archive block version")
    if version != _BLOCK_VERSION:
        raise UnsupportedError(f"archive block of version {version}, not {_BLOCK_VERSION}")
    count = cursor.count(cursor.i32("archive entries"), 5, "archive entries")
    limits.check("timeline_instants_max", count)
    entries = []
    for _ in range(count):
        record = cursor.take(cursor.i32("archive entry length"), "archive entry")
        entries.append(_archived_instant(decode_datum(record, schema)))
    cursor.expect_end("archive block")
    return entries


def _archived_instant(record: Any) -> ArchivedInstant:
    if not isinstance(record, dict):
        raise CorruptError("an entry of the archive is not a record")
    fields = {name: record.get(name) for name in ArchivedMetaEntry.__struct_encode_fields__}
    entry = timeline_record(fields, ArchivedMetaEntry)
    return ArchivedInstant(
        entry.commit_time,
        entry.action_type,
        entry.action_state,
        entry.state_transition_time,
        _first_of(record, _METADATA_FIELDS),
        _first_of(record, _PLAN_FIELDS),
    )


def encode_archived_block(entries: Iterable[ArchivedInstant]) -> tuple[str, bytes]:
    """Return the SCHEMA header and the content of a block with these entries.

    The header says that texts are Java strings. Hudi 1.2 takes the records of the archive as its
    schema has them, and fails on others as it upgrades the table (`LegacyArchivedMetaEntryReader`).

    Raises:
        TypeError: an entry holds content for which the archive of layout 1 has no field.
    """
    schema = hudi_schema("HoodieArchivedMetaEntry")
    records = [encode_datum(schema, _archived_record(entry)) for entry in entries]
    framed = b"".join(struct.pack(">i", len(record)) + record for record in records)
    header = struct.pack(">ii", _BLOCK_VERSION, len(records))
    return msgspec.json.encode(with_java_strings(schema)).decode(), header + framed


def _archived_record(entry: ArchivedInstant) -> dict[str, Any]:
    record: dict[str, Any] = {
        "commitTime": entry.requested_time,
        "actionType": entry.action,
        "actionState": entry.state.value,
        "stateTransitionTime": entry.completion_time,
    }
    for content in (entry.metadata, entry.plan):
        if isinstance(content, CommitMetadata):
            replaces = entry.action == "replacecommit"
            is_replaced = replaces and entry.state is State.COMPLETED
            name = "HoodieInflightReplaceMetadata" if replaces else "hoodieCommitMetadata"
            name = "hoodieReplaceCommitMetadata" if is_replaced else name
            record[name] = commit_metadata_record(content, is_replaced)
        elif content is not None:
            fields = {**_METADATA_FIELDS, **_PLAN_FIELDS}
            names = [name for name, kind in fields.items() if kind is type(content)]
            if not names:
                raise TypeError(f"the archive of layout 1 holds no {type(content).__name__}")
            record[names[0]] = msgspec.to_builtins(content)
    return record


def _first_of(
    record: Mapping[str, Any], kinds: Mapping[str, type[InstantContent]]
) -> InstantContent | None:
    for name, kind in kinds.items():
        if record.get(name) is not None:
            return timeline_record(record[name], kind)
    return None


# layout 2 ------------------------------------------------------------------------------------

_HISTORY_FILE_NAME = re.compile(r"([0-9]+)_([0-9]+)_([0-9])\.parquet")
_HISTORY_VERSION = re.compile(rb"[0-9]{1,9}")


class LSMTimelineInstant(TimelineRecord, frozen=True, kw_only=True):
    """A row of history as stored. `metadata` and `plan` are whole files of the timeline."""

    instant_time: str
    completion_time: str
    action: str
    metadata: bytes | None = None
    plan: bytes | None = None
    version: Int32 = 1


class ManifestEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A file of a manifest."""

    file_name: str
    file_len: Int64


class Manifest(msgspec.Struct, frozen=True):
    """A snapshot of history."""

    files: list[ManifestEntry] = []


prepare_to_decode(ArchivedMetaEntry, LSMTimelineInstant, Manifest)


def decode_history_row(row: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS) -> ArchivedInstant:
    """Return one row of a history file, given as {column: value}.

    A reader that needs times and actions only may leave out the columns `metadata` and `plan`.

    Raises:
        CorruptError: a column is missing or of another type, or the content is corrupt.
        UnsupportedError: the row has another version.
        LimitError: the content exceeds a limit.
    """
    stored = timeline_record(row, LSMTimelineInstant)
    if stored.version != 1:
        raise UnsupportedError(
            f"a row of the archived timeline has version {stored.version}, not 1"
        )
    return ArchivedInstant(
        stored.instant_time,
        stored.action,
        State.COMPLETED,
        stored.completion_time,
        decode_instant_content(stored.metadata or b"", limits),
        decode_instant_content(stored.plan or b"", limits),
    )


def decode_history_manifest(
    data: Buffer, limits: Limits = DEFAULT_LIMITS
) -> tuple[HistoryFile, ...]:
    """Return the files of a `manifest_N`, as listed. Only these are part of history.

    Raises:
        CorruptError: the bytes are not a manifest, or the manifest names other files than history
            files.
        LimitError: the file exceeds a limit.
    """
    limits.check("timeline_file_bytes_max", len(data))
    manifest = decode_json(data, Manifest, "history manifest")
    return tuple(parse_history_file_name(file.file_name, file.file_len) for file in manifest.files)


def encode_history_manifest(files: Iterable[HistoryFile]) -> bytes:
    """Return the JSON of a `manifest_N`, as Hudi writes it."""
    entries = [{"fileName": file.name, "fileLen": file.size} for file in files]
    return encode_jackson_json({"files": entries})


def parse_history_file_name(name: str, size: int) -> HistoryFile:
    """Return the parts of `<min instant>_<max instant>_<layer>.parquet`. `size` is in bytes.

    Raises:
        CorruptError: the name is of another form, or the size is negative.
    """
    match = _HISTORY_FILE_NAME.fullmatch(name)
    if match is None or size < 0:
        raise CorruptError(
            f"{name!r} of {size} bytes, which the manifest lists, is not a file of "
            "the archived timeline"
        )
    return HistoryFile(name, size, match[1], match[2], int(match[3]))


def decode_history_version(data: Buffer) -> int:
    """Return N of the manifest in force, from `_version_`.

    Raises:
        CorruptError: the content is not a number. Then the highest `manifest_N` is in force.
    """
    text = bytes(data)
    if _HISTORY_VERSION.fullmatch(text) is None:
        raise CorruptError(f"_version_ is not a number: {text[:20]!r}; use the highest manifest_N")
    return int(text)


def encode_history_version(version: int) -> bytes:
    """Return the content of `_version_`."""
    return b"%d" % version
