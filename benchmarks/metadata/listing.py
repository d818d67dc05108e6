"""Requests that opening a table of many partitions takes, by its folders and by its metadata table.

The table is laid out here: its data files are empty, since no data file is opened.
"""

from __future__ import annotations

import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Figure, Peer, Result, race
from bucketfmt import Table
from bucketfmt.format.metadata.metadata_encoding import encode_metadata_records
from bucketfmt.format.metadata.metadata_files import (
    encode_entries_block,
    encode_metadata_base_file,
)
from bucketfmt.format.metadata.metadata_records import FileEntry, FilesRecord, MetadataRecord
from bucketfmt.format.metadata.metadata_schemas import metadata_schema
from bucketfmt.format.names.layout import METADATA_TABLE, PARTITION_METAFILE
from bucketfmt.format.names.names import BaseFileName, format_bucket_file_id
from bucketfmt.format.table.properties import encode_properties, table_checksum
from bucketfmt.format.timeline.commit_metadata import CommitMetadata, encode_commit_metadata_avro
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import Store
from bucketfmt.table.scan import ScanPlan
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.table_properties import load_config

__all__ = ["ByMetadata", "listed_table", "measure_metadata_listing"]

_PARTITIONS, _FILES_EACH = 1_000, 100
_COMMITS = 8  # since the metadata table was compacted: each has a log file there
_REPETITIONS = 3
_INITIAL = "00000000000000000"
_VERSION = 9
_SCHEMA = (
    '{"type":"record","name":"r","fields":[{"name":"id","type":"string"},'
    '{"name":"ts","type":"long"},{"name":"region","type":"string"}]}'
)
_COMMON = {
    "hoodie.table.version": str(_VERSION),
    "hoodie.table.initial.version": str(_VERSION),
    "hoodie.timeline.layout.version": "2",
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
}
_PROPERTIES = {
    **_COMMON,
    "hoodie.table.name": "listed",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "region",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.table.checksum": str(table_checksum("listed")),
}
_OWN_PROPERTIES = {
    **_COMMON,
    "hoodie.table.name": "listed_metadata",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
    "hoodie.table.recordkey.fields": "key",
    "hoodie.populate.meta.fields": "false",
    "hoodie.table.base.file.format": "HFILE",
    "hoodie.record.merge.mode": "CUSTOM",
    "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
    "hoodie.table.checksum": str(table_checksum("listed_metadata")),
}
_PARTITION_LIST = {"hoodie.table.metadata.partitions": "files"}


def listed_table(num_partitions: int, files_each: int) -> dict[str, bytes]:
    """Return a table of that many partitions and base files, and its metadata table, by path."""
    commits = [f"202601010000{number:05}" for number in range(_COMMITS + 1)]
    paths = [f"region={number:05}" for number in range(num_partitions)]
    names = {path: list(_file_names(path, files_each, commits[0])) for path in paths}
    later = {
        commit: (path, next(_file_names(path, 1, commit)))
        for commit, path in zip(commits[1:], paths * _COMMITS, strict=False)
    }
    data = [(path, name) for path, own in names.items() for name in own]
    files = {f"{path}/{name}": b"1" for path, name in (*data, *later.values())}
    files |= {f"{path}/{PARTITION_METAFILE}": b"" for path in paths}
    commit_bytes = encode_commit_metadata_avro(
        CommitMetadata(extra_metadata={"schema": _SCHEMA}, operation_type="INSERT"), replace=False
    )
    own = f"{METADATA_TABLE}/.hoodie"
    for commit in commits:
        files[f".hoodie/timeline/{commit}_{commit[:-1]}9.commit"] = commit_bytes
        if commit in later:
            files[f"{own}/timeline/{commit}_{commit[:-1]}8.deltacommit"] = b""
    files[f"{own}/timeline/{_INITIAL}_{commits[0][:-2]}99.deltacommit"] = b""
    files[f"{own}/hoodie.properties"] = encode_properties(_OWN_PROPERTIES)
    files[".hoodie/hoodie.properties"] = encode_properties({**_PROPERTIES, **_PARTITION_LIST})

    schema = metadata_schema(_VERSION)
    base = f"{METADATA_TABLE}/files/files-0000-0_0-0-0_{_INITIAL}.hfile"
    entries = encode_metadata_records(_records(names), schema)
    files[base] = encode_metadata_base_file(entries, schema, created_ms=0)
    for commit, (path, name) in later.items():
        block = encode_metadata_records(_records({path: [name]}), schema)
        log = f"{METADATA_TABLE}/files/.files-0000-0_{commit}.log.1_0-0-0"
        files[log] = encode_entries_block(block, schema, commit, created_ms=0)
    return files


def _file_names(path: str, count: int, commit: str) -> Iterator[str]:
    for number in range(count):
        file_id = format_bucket_file_id(number, str(uuid.uuid5(uuid.NAMESPACE_URL, path)))
        yield str(BaseFileName(file_id, "0-1-1", commit, "parquet"))


def _records(names: dict[str, list[str]]) -> dict[str, MetadataRecord]:
    every = FilesRecord({path: FileEntry(0, False) for path in names}, are_partitions=True)
    return {
        "__all_partitions__": every,
        **{
            path: FilesRecord(dict.fromkeys(own, FileEntry(1, False)), are_partitions=False)
            for path, own in names.items()
        },
    }


class ByMetadata:
    """Opens a table, and plans a scan of it, by its metadata table or without."""

    def __init__(self, store: Store, is_used: bool) -> None:
        self.requests: Counter[str] = Counter()
        self._store = store
        self._is_used = is_used

    def plan(self) -> ScanPlan:
        """Return the plan of all rows, from a table that was never opened before."""
        store = RecordingStore(self._store)
        config = load_config(store, DEFAULT_LIMITS)
        if not self._is_used:
            kept = {k: v for k, v in config.properties.items() if k not in _PARTITION_LIST}
            config = type(config).from_properties(kept)
        found = Table(store, config, DEFAULT_LIMITS, None).scan().plan()
        self.requests = Counter(operation.verb for operation in store.operations)
        return found


def measure_metadata_listing(data: Path) -> list[Result]:
    """Return the requests, and the time on a disk, of opening 100,000 files in 1,000 partitions."""
    del data  # the table is made here
    with tempfile.TemporaryDirectory() as folder:
        for path, content in listed_table(_PARTITIONS, _FILES_EACH).items():
            target = Path(folder, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        peers = {
            name: ByMetadata(open_store(folder), is_used)
            for name, is_used in (("metadata table", True), ("folders", False))
        }
        timings = race(
            [Peer(name, peer.plan) for name, peer in peers.items()],
            _REPETITIONS,
            lambda plan: (len(plan.slices), plan.size),
        )
    counts = {name: peer.requests.total() for name, peer in peers.items()}
    figures = [
        Figure(
            "requests by the metadata table, by those of listing",
            counts["metadata table"] / counts["folders"],
            "x",
            at_most=1 / 5,
        ),
    ]
    notes = [f"{count} requests by {name}." for name, count in counts.items()]
    title = "Opening a table of 100,000 files in 1,000 partitions"
    return [Result(title, timings, figures, notes=notes)]
