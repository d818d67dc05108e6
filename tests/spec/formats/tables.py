"""Formats whose input is a table, a folder of files, or the place of keys in a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

import bucketfmt as bf
from bucketfmt.errors import CorruptError
from bucketfmt.format.buckets.ring import HashingNode
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.names.names import find_data_file_name
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.index.layout import BucketLayout, FixedBuckets, RingBuckets
from bucketfmt.rows.filters.filter import parse_filter
from bucketfmt.rows.parquet.base_file import BaseFileReader
from bucketfmt.snapshot.cleaned_moments import check_not_cleaned
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.snapshot.data_files.log_files import check_spans
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.stores.local_store import LocalStore
from bucketfmt.table.plan_read import find_buckets, plan_slices
from bucketfmt.timeline.history import load_history
from tests.spec.formats.values import Json

__all__ = ["FORMATS"]


def _lay_out(files: Json, root: Path) -> None:
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        ((kind, value),) = content.items()
        data = {"hex": bytes.fromhex, "text": str.encode, "size": bytes}[kind](value)
        file.write_bytes(data)


def snapshot(question: Json) -> Json:
    with TemporaryDirectory() as folder:
        _lay_out(question["files"], Path(folder))
        state = bf.open(folder).state
        seen = Snapshot(state, question.get("as_of"))
        slices = seen.slices_of(seen.partitions)
        check_not_cleaned(seen, slices)
        for file_slice in slices:
            for file in file_slice.files:
                file.check_exists()
        there = (path for path in Path(folder).rglob("*") if path.is_file())
        assert {path.relative_to(folder).as_posix() for path in there} == set(question["files"])
    return [
        {
            "partition_path": found.partition_path,
            "file_id": found.file_id,
            "instant": found.base_instant,
            "base_file": found.base_file.path if found.base_file else None,
            "log_files": [file.path for file in found.log_files],
        }
        for found in slices
    ]


def archived_instants(question: Json) -> Json:
    config = TableConfig.from_properties({"hoodie.table.name": "t", "hoodie.table.version": "6"})
    with TemporaryDirectory() as folder:
        files = {f"{config.history_path}/{name}": file for name, file in question["files"].items()}
        _lay_out(files, Path(folder))
        found = load_history(LocalStore(folder), config)
    return [[instant.requested_time, instant.action, instant.state.value] for instant in found]


def committed_log_file(question: Json) -> Json:
    spans = list(decode_log_file(bytes.fromhex(question["data"])))
    written = question["committed"]
    check_spans(spans, None if written is None else tuple((s, e) for s, e in written))
    return [[span.offset, span.end] for span in spans if hasattr(span, "block_type")]


def _buckets(question: Json) -> BucketLayout:
    fields, dialect = tuple(question["fields"]), KeyDialect(question["dialect"])
    if "ring" in question:
        return RingBuckets(
            tuple(msgspec.convert(question["ring"], list[HashingNode])), fields, dialect
        )
    return FixedBuckets(question["num_buckets"], fields, dialect)


def lookup(question: Json) -> Json:
    buckets = _buckets(question)
    slices = []
    for file_id in question["file_ids"]:
        name = f"{file_id}_0-0-0_1.parquet"
        parsed = find_data_file_name(name)
        assert parsed is not None
        slices.append(FileSlice("", file_id, "1", DataFile(name, parsed, 1), ()))
    wanted = frozenset(buckets.assign(pa.array([question["key"]])).tolist())
    return [found.file_id for found in plan_slices(slices, buckets, wanted)]


def prune_buckets(question: Json) -> Json:
    config = TableConfig.from_properties(question["properties"])
    schema = pa.schema([(name, pa.string()) for name in question["columns"]])
    buckets = _buckets({**question, "fields": question["hash_fields"]})
    row_filter = parse_filter([(name, "in", values) for name, values in question["filter"].items()])
    found = find_buckets(row_filter, config, schema, buckets)
    return None if found is None else sorted(found)


def may_hold_key(question: Json) -> Json:
    stated = {"hoodie_min_record_key": question["min"], "hoodie_max_record_key": question["max"]}
    rows = pa.table({"_hoodie_record_key": pa.array([], pa.string())}).replace_schema_metadata(
        {name: text for name, text in stated.items() if text is not None}
    )
    out = pa.BufferOutputStream()
    pq.write_table(rows, out)
    reader = BaseFileReader(out.getvalue())
    return [bool(answer) for answer in reader.keys.may_hold(pa.array(question["keys"]))]


def parquet_data_block(data: bytes) -> Json:
    if not data:
        return []
    try:
        return BaseFileReader(pa.py_buffer(data)).read().to_pylist()
    except pa.ArrowException as error:
        raise CorruptError(str(error)) from error


FORMATS: dict[str, Callable[[Any], Json]] = {
    "archived-instants": archived_instants,
    "committed-log-file": committed_log_file,
    "lookup": lookup,
    "may-hold-key": may_hold_key,
    "parquet-data-block": parquet_data_block,
    "prune-buckets": prune_buckets,
    "snapshot": snapshot,
}
