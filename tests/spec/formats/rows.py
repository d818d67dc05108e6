"""Formats of log files, footers, file slices and merging."""

from __future__ import annotations

import hashlib
import math
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from bucketfmt.errors import UnsupportedError
from bucketfmt.format.hfile.reader import HFile
from bucketfmt.format.keys.bloom import BloomFilterBuilder, BloomFilterType, decode_bloom_filter
from bucketfmt.format.keys.hashing import (
    jenkins_hash,
    murmur2_hudi,
)
from bucketfmt.format.log.delete_records import DeleteBlock, DeleteRecord, decode_delete_block
from bucketfmt.format.log.log_block import (
    BlockType,
    CorruptSpan,
    HeaderKey,
    LogBlock,
    encode_log_block,
)
from bucketfmt.format.log.log_file import covers_file, decode_log_file, select_blocks
from bucketfmt.format.log.ordering_values import OrderingKind, OrderingValue
from bucketfmt.format.log.record_positions import decode_record_positions, encode_record_positions
from bucketfmt.format.log.virtual_log import decode_virtual_log, is_virtual_log
from bucketfmt.format.names import names
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.rows.avro.avro_decode import decode_avro_blocks
from bucketfmt.rows.avro.avro_schema import parse_avro_schema
from bucketfmt.rows.avro.row_blocks import decode_row_blocks
from bucketfmt.rows.merging.log_entries import DeleteRun, RowRun
from bucketfmt.rows.merging.merge import merge_log
from bucketfmt.rows.merging.merge_rules import find_log_rules, find_partial_refusal
from bucketfmt.snapshot.data_files.file_slices import find_slice_history, group_files
from bucketfmt.snapshot.data_files.files import DataFile
from tests.spec.formats.values import Json, members

__all__ = ["FORMATS"]


def log_file(data: bytes) -> Json:
    spans = list(decode_log_file(data))
    assert covers_file(spans, len(data))
    return [_told(span) for span in spans]


def _told(span: LogBlock | CorruptSpan) -> Json:
    place = members(span, "offset", "end")
    if isinstance(span, CorruptSpan):
        return {**place, "corrupt": True, "truncated": span.truncated}
    return {
        **place,
        "type": span.block_type.name,
        "header": {str(key): value for key, value in sorted(span.header.items())},
        "content_bytes": len(span.content),
        "content_sha256": hashlib.sha256(span.content).hexdigest(),
    }


def log_selection(question: Json) -> Json:
    files: list[list[LogBlock | CorruptSpan]] = []
    for blocks in question["files"]:
        made = [
            encode_log_block(
                BlockType(block["type"]), {int(k): v for k, v in block["header"].items()}
            )
            for block in blocks
        ]
        files.append(list(decode_log_file(b"".join(made))))
    valid = question.get("valid")
    selected = select_blocks(
        files,
        latest_instant=question.get("latest"),
        is_valid_instant=None if valid is None else valid.__contains__,
    )
    places = {id(b): [f, i] for f, file in enumerate(files) for i, b in enumerate(file)}
    return [places[id(block)] for block in selected]


def virtual_log(question: Json) -> Json:
    header: dict[int, str] = {
        HeaderKey.INSTANT_TIME: "1",
        HeaderKey.COMMAND_BLOCK_TYPE: "42",
        HeaderKey.TARGET_INSTANT_TIME: question["resize"],
    }
    content = bytes.fromhex(question["content"])
    (block,) = decode_log_file(encode_log_block(BlockType.COMMAND, header, content))
    assert isinstance(block, LogBlock)
    assert is_virtual_log(block)
    return [[str(file.name), file.size] for file in decode_virtual_log(block).files]


def avro_data_block(question: Json) -> Json:
    schema = parse_avro_schema(question["schema"])
    return decode_avro_blocks([bytes.fromhex(question["content"])], schema).to_pylist()


def hfile_data_block(question: Json) -> Json:
    content = bytes.fromhex(question["content"])
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: "1"}
    (block,) = decode_log_file(encode_log_block(BlockType.HFILE_DATA, header, content))
    assert isinstance(block, LogBlock)
    return decode_row_blocks([block], parse_avro_schema(question["schema"])).to_pylist()


def delete_block(data: bytes) -> Json:
    return [
        [delete.record_key, delete.partition_path, *_ordering(delete.ordering_value)]
        for delete in decode_delete_block(data)
    ]


def _ordering(value: OrderingValue) -> list[Json]:
    if value.kind is OrderingKind.ARRAY:
        assert isinstance(value.value, tuple)
        return [value.kind.name, [_ordering(item) for item in value.value]]
    raw = value.value
    if isinstance(raw, bytes):
        raw = raw.hex()
    elif value.kind in _AS_TEXT or (isinstance(raw, float) and not math.isfinite(raw)):
        raw = _NOT_FINITE.get(str(raw), str(raw))
    return [value.kind.name, raw]


_AS_TEXT = (
    OrderingKind.LONG,
    OrderingKind.DECIMAL,
    OrderingKind.TIME_MICROS,
    OrderingKind.TIMESTAMP_MICROS,
    OrderingKind.INSTANT,
    OrderingKind.BIG_INTEGER,
)
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def record_positions(data: bytes | str) -> Json:
    text = b64encode(data).decode() if isinstance(data, bytes) else data
    positions = decode_record_positions(text)
    assert encode_record_positions(positions) == text
    return positions.tolist()


def bloom_filter(question: Json) -> Json:
    if isinstance(question, bytes):
        question = {"text": b64encode(question).decode(), "type_code": None}
    bytes_max = question.get("bytes_max", DEFAULT_LIMITS.bloom_filter_bytes_max)
    limits = Limits(bloom_filter_bytes_max=bytes_max)
    found = decode_bloom_filter(question["text"], question["type_code"], limits)
    told = {
        "type": found.filter_type.value,
        "num_hashes": found.num_hashes,
        "hash_type": found.hash_type.name,
        "num_bits": found.num_bits,
        "rows": len(found.rows),
        "keys_per_row": found.keys_per_row,
        "keys_in_last_row": found.keys_in_last_row,
    }
    if "keys" not in question:
        bits = [
            np.unpackbits(np.frombuffer(row, np.uint8), bitorder="little") for row in found.rows
        ]
        return {**told, "set_bits": [np.flatnonzero(row).tolist() for row in bits]}
    answers = [found.might_contain(key) for key in question["keys"]]
    assert found.might_contain_many(pa.array(question["keys"], pa.string())).tolist() == answers
    return {**told, "might_contain": answers}


def bloom_bits(question: Json) -> Json:
    hash_value, bits = 0, set()
    for _ in range(question["num_hashes"]):
        hash_value = murmur2_hudi(question["key"].encode(), hash_value)
        bits.add(abs(hash_value) % question["num_bits"])
    built = BloomFilterBuilder(BloomFilterType.SIMPLE)
    built.add(pa.array([question["key"]]))
    row = np.frombuffer(built.build().rows[0], np.uint8)
    assert np.flatnonzero(np.unpackbits(row, bitorder="little")).tolist() == sorted(bits)
    return sorted(bits)


def bloom_size(question: Json) -> Json:
    keys, rate = question["keys"], float(question["rate"])
    return members(
        BloomFilterBuilder(BloomFilterType.SIMPLE, keys, rate).build(), "num_bits", "num_hashes"
    )


class _View:
    """The timeline of a file-slices vector."""

    def __init__(self, question: Json) -> None:
        self.table_version: int = question["table_version"]
        self._completed: dict[str, str] = question["completed"]

    def is_visible(self, requested_time: str) -> bool:
        return requested_time in self._completed

    def completion_time(self, requested_time: str) -> str:
        return self._completed[requested_time]


def file_slices(question: Json) -> Json:
    files = []
    for name in question["files"]:
        parsed = names.find_data_file_name(name)
        assert parsed is not None
        files.append(DataFile(name, parsed, 1))
    found = []
    for file_id, group in group_files(files).items():
        view, pending = _View(question), question["pending_compaction"]
        found += find_slice_history("", file_id, group, view, pending)
    return [
        {
            "instant": file_slice.base_instant,
            "base_file": file_slice.base_file.path if file_slice.base_file else None,
            "log_files": [file.path for file in file_slice.log_files],
        }
        for file_slice in found
    ]


_ORDERING_TYPES = {
    "long": (pa.int64(), pa.int64()),
    "string": (pa.string(), pa.string()),
    "date": (pa.int32(), pa.date32()),
    "timestamp": (pa.int64(), pa.timestamp("us", "UTC")),
}
"""What a vector holds, and the column it stands for."""


def merge(question: Json) -> Json:
    rules = find_log_rules(TableConfig.from_properties(question["properties"]))
    kind = question["ordering_type"]
    runs = [_run(run, kind) for run in question["log"]]
    base = _rows(question["base"], kind)
    log = merge_log(runs, rules, base.schema)
    merged = [log.apply(base), log.remaining()]
    rows = pa.concat_tables(merged).to_pylist()
    return {row["_hoodie_record_key"]: row["value"] for row in rows}


def partial_updates(question: Json) -> Json:
    config = TableConfig.from_properties(question["properties"])
    rules = find_log_rules(config)
    if any(run.get("is_partial") for run in question["log"]):
        reason = find_partial_refusal(config, by_column_id=False)
        if reason is not None:
            raise UnsupportedError(reason)
    base = _numbers(question["base"])
    runs = [
        RowRun(
            _numbers(run["rows"]),
            frozenset({"_hoodie_record_key", "ts", *run["holds"]}),
            run["is_partial"],
        )
        if "rows" in run
        else _run(run, "")
        for run in question["log"]
    ]
    log = merge_log(runs, rules, base.schema)
    rows = pa.concat_tables([log.apply(base), log.remaining()]).to_pylist()
    return {row.pop("_hoodie_record_key"): row for row in rows}


def _numbers(rows: Json) -> pa.Table:
    columns = {name: pa.array([row.get(name) for row in rows], pa.int64()) for name in _NUMBERS}
    return pa.table({"_hoodie_record_key": [row["key"] for row in rows], **columns})


_NUMBERS = ("ts", "a", "b", "c")


def _run(run: Json, kind: str) -> RowRun | DeleteRun:
    if "rows" in run:
        return RowRun(_rows(run["rows"], kind))
    deletes = [
        DeleteRecord(key, "", _ordering_value(OrderingKind[name], value))
        for key, name, value in run["deletes"]
    ]
    return DeleteRun(DeleteBlock.from_records(deletes))


def hfile(data: bytes) -> Json:
    """The entries of an HFile, and digests of what else is in it."""
    file = HFile.of(data)
    metas = {name: file.meta_block(name) or b"" for name in file.meta_blocks}
    return {
        "entries": [[key.hex(), value.hex()] for key, value in file.scan()],
        "file_info": {
            name.decode(): hashlib.sha256(value).hexdigest()[:16]
            for name, value in file.file_info.items()
        },
        "meta_blocks": {
            name: hashlib.sha256(meta).hexdigest()[:16] for name, meta in metas.items()
        },
    }


def _ordering_value(kind: OrderingKind, value: Json) -> OrderingValue:
    return OrderingValue(kind, int(value) if kind in _AS_TEXT else value)


def _rows(rows: Json, kind: str) -> pa.Table:
    held, wanted = _ORDERING_TYPES[kind]
    columns = {name: [row[name] for row in rows] for name in ("key", "ts", "value", "deleted")}
    return pa.table(
        {
            "_hoodie_record_key": pa.array(columns["key"], pa.string()),
            "ts": pa.array(columns["ts"], held).cast(wanted),
            "value": pa.array(columns["value"], pa.string()),
            "_hoodie_is_deleted": pa.array(columns["deleted"], pa.bool_()),
        }
    )


FORMATS: dict[str, Callable[[Any], Json]] = {
    "avro-data-block": avro_data_block,
    "hfile-data-block": hfile_data_block,
    "bloom-filter": bloom_filter,
    "bloom-bits": bloom_bits,
    "bloom-size": bloom_size,
    "delete-block": delete_block,
    "file-slices": file_slices,
    "hfile": hfile,
    "jenkins": lambda q: jenkins_hash(q["text"].encode(), q["seed"]),
    "log-file": log_file,
    "log-selection": log_selection,
    "merge": merge,
    "partial-updates": partial_updates,
    "murmur2": lambda q: murmur2_hudi(q["text"].encode(), q["seed"]),
    "record-positions": record_positions,
    "virtual-log": virtual_log,
}
