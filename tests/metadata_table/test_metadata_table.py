"""What metadata tables that Hudi wrote say, beside the table's files and what Hudi read."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from bucketfmt.errors import (
    BucketfmtError,
    CorruptError,
    TableNotFoundError,
    UnsupportedError,
)
from bucketfmt.format.metadata.metadata_keys import parse_files_key
from bucketfmt.format.metadata.metadata_records import (
    BloomFilterEntry,
    ColumnStats,
    FilesRecord,
    MetadataRecord,
    RecordLocation,
    SecondaryEntry,
    StatValue,
)
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.metadata_table.metadata_table import MetadataTable, load_metadata_table
from bucketfmt.snapshot.listing import StoreLister
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.load import load_timeline
from bucketfmt.timeline.table_properties import load_config
from soak.damage.tables import table_files
from tests.metadata_table.tables import OF_METADATA, TABLES, VERSIONS, loaded, recorded

pytestmark = pytest.mark.rotated


def metadata_table_of(table: str) -> MetadataTable:
    return loaded(MemoryStore(table_files(table)))


@pytest.mark.parametrize("table", TABLES)
def test_files_are_those_in_the_folders(table: str) -> None:
    store = MemoryStore(table_files(table))
    found = dict(loaded(store).partition("files").scan())
    listed = StoreLister(store)
    everything = found.pop("__all_partitions__")
    assert isinstance(everything, FilesRecord)
    named = sorted(parse_files_key(key) for key in everything.entries)
    assert named == list(listed.partitions) == sorted(map(parse_files_key, found))
    for key, record in found.items():
        partition = parse_files_key(key)
        assert isinstance(record, FilesRecord)
        said = {name: e.size for name, e in record.entries.items() if not e.is_deleted}
        files = [f for group in listed.files(partition).values() for f in group]
        there = {str(file.name): file.size for file in files}
        if "/0.15.0/" in table:  # Hudi says 1 byte of a log file that it rolled back a write in
            there |= {name: 1 for name in there.keys() & said.keys() if said[name] == 1}
        assert said == there


def of_hudi(bound: Mapping[str, Any] | None) -> Any:
    """The value in the one branch of a union that is there."""
    branches = (branch for branch in (bound or {}).values() if branch is not None)
    return next((branch["value"] for branch in branches), None)


def of_us(bound: StatValue | None) -> Any:
    if bound is not None and bound.wrapper == "Decimal" and isinstance(bound.value, bytes):
        digits = int.from_bytes(bound.value, "big", signed=True)
        return digits if digits < 0 or bound.value[:1] < b"\x80" else None
    return bound.value if bound is not None else None


def said_by_hudi(row: Mapping[str, Any]) -> tuple[object, ...]:
    """A record as Hudi merged it; decimals as their digits."""
    if row["filesystemMetadata"] is not None:
        return tuple(sorted((n, e["size"], e["isDeleted"]) for n, e in row["filesystemMetadata"]))
    if row["ColumnStatsMetadata"] is not None:
        stats = row["ColumnStatsMetadata"]
        bounds = [of_hudi(stats["minValue"]), of_hudi(stats["maxValue"])]
        for number, value in enumerate(bounds):
            if isinstance(value, Decimal):
                bounds[number] = int(value.scaleb(15))
        counts = ("valueCount", "nullCount", "totalSize", "totalUncompressedSize", "isDeleted")
        return (
            stats["fileName"],
            stats["columnName"],
            *map(repr, bounds),
            *(stats[c] for c in counts),
        )
    if row["BloomFilterMetadata"] is not None:
        own = row["BloomFilterMetadata"]
        return own["type"], own["timestamp"], bytes(own["bloomFilter"]), own["isDeleted"]
    if row.get("SecondaryIndexMetadata") is not None:
        return (row["SecondaryIndexMetadata"]["isDeleted"],)
    location = row["recordIndexMetadata"]
    high, low = (location[f"fileId{half}Bits"] & (1 << 64) - 1 for half in ("High", "Low"))
    file_id = f"{uuid.UUID(int=high << 64 | low)}-{location['fileIndex']}"
    return location["partitionName"], file_id, location["instantTime"]


def said_by_us(record: MetadataRecord, bytes_for_decimals: bool) -> tuple[object, ...]:
    if isinstance(record, FilesRecord):
        return tuple(sorted((n, e.size, e.is_deleted) for n, e in record.entries.items()))
    if isinstance(record, ColumnStats):
        bounds = (of_us(record.minimum), of_us(record.maximum))
        if bytes_for_decimals:
            bounds = tuple(
                b.value if b is not None else None for b in (record.minimum, record.maximum)
            )
        return (
            record.file_name,
            record.column,
            *map(repr, bounds),
            record.value_count,
            record.null_count,
            record.total_bytes,
            record.total_uncompressed_bytes,
            record.is_deleted,
        )
    if isinstance(record, BloomFilterEntry):
        return record.type_code, record.instant, bytes(record.text), record.is_deleted
    if isinstance(record, SecondaryEntry):
        return (record.is_deleted,)
    assert isinstance(record, RecordLocation)
    return record.partition_path, record.file_id, record.instant_ms


@pytest.mark.rule("MDT-15", "MDT-16", "MDT-17")
@pytest.mark.parametrize("table", [t for t in OF_METADATA if recorded(t) is not None])
def test_records_are_those_that_hudi_reads(table: str) -> None:
    found = recorded(table)
    assert found is not None
    metadata = metadata_table_of(table)
    is_old = "/0.15.0/" in table  # then Hudi shows decimals as bytes
    of_ours = Counter(
        (key, said_by_us(record, is_old))
        for name in metadata.partition_names
        for key, record in metadata.partition(name).scan()
    )
    of_hudis = Counter((row["key"], said_by_hudi(row)) for row in found.to_pylist())
    assert len(of_hudis) > 15
    assert of_ours == of_hudis


@pytest.mark.parametrize("version", VERSIONS)
def test_a_record_is_where_the_record_index_says(
    version: str, golden_expected: Callable[..., pa.Table]
) -> None:
    index = metadata_table_of(f"{version}/rli").partition("record_index")
    rows = golden_expected(version, "rli").to_pylist()
    found = index.lookup([row["_hoodie_record_key"] for row in rows] + ["no such key"])
    assert len(found) == len(rows) == 310
    for row in rows:
        location = found[row["_hoodie_record_key"]]
        assert isinstance(location, RecordLocation)
        assert location.partition_path == row["_hoodie_partition_path"]
        assert row["_hoodie_file_name"].startswith(location.file_id)


def same(first: Mapping[str, MetadataRecord], second: Mapping[str, MetadataRecord]) -> bool:
    """Whether the records are the same; a bound may be NaN."""
    return {k: repr(r) for k, r in first.items()} == {k: repr(r) for k, r in second.items()}


@pytest.mark.parametrize("table", TABLES)
def test_look_ups_find_what_a_scan_finds(table: str) -> None:
    metadata = metadata_table_of(table)
    for name in metadata.partition_names:
        partition = metadata.partition(name)
        records = dict(partition.scan())
        keys = list(records)
        assert keys == sorted(keys)
        looked_up = {}
        for data_partition in partition.groups:
            looked_up.update(partition.lookup([*keys, "", "~"], data_partition))
        assert same(looked_up, records)
        assert same(partition.lookup_prefixes([""]), records)
        one = keys[len(keys) // 2]
        begun = {key: record for key, record in records.items() if key.startswith(one[:3])}
        assert same(partition.lookup_prefixes([one[:3], one[:3]]), begun)
        assert partition.lookup([], next(iter(partition.groups))) == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_bounds_of_a_file_hold_for_the_rows_that_it_has(
    version: str, golden_expected: Callable[..., pa.Table]
) -> None:
    statistics = metadata_table_of(f"{version}/rli").partition("column_stats")
    values: dict[str, list[str]] = {}
    for row in golden_expected(version, "rli").to_pylist():
        values.setdefault(row["_hoodie_file_name"], []).append(row["_hoodie_record_key"])
    found = {
        record.file_name: record
        for _, record in statistics.scan()
        if isinstance(record, ColumnStats) and record.column == "_hoodie_record_key"
    }
    for file, keys in values.items():
        record = found[file]
        assert record.minimum is not None
        assert record.maximum is not None
        assert (record.minimum.value, record.maximum.value) == (min(keys), max(keys))
        assert (record.value_count, record.null_count) == (len(keys), 0)


def test_a_table_without_one() -> None:
    store = MemoryStore(table_files("1.2.0/tiny_cow"))
    config = load_config(store, DEFAULT_LIMITS)
    timeline = load_timeline(store, config, DEFAULT_LIMITS)
    assert load_metadata_table(store, config, timeline, DEFAULT_LIMITS) is None


def test_a_partition_that_the_table_does_not_list() -> None:
    with pytest.raises(ValueError, match="no partition 'record_index'"):
        metadata_table_of("1.2.0/mdt_bucket").partition("record_index")


def without(table: str, lost: Callable[[str], bool]) -> MemoryStore:
    files = table_files(table)
    return MemoryStore({path: data for path, data in files.items() if not lost(path)})


@pytest.mark.parametrize(
    ("lost", "error"),
    [
        ("hoodie.properties", TableNotFoundError),
        ("record-index-0001-0", CorruptError),
        ("record-index-", CorruptError),
    ],
)
def test_what_is_lost_is_an_error(lost: str, error: type[BucketfmtError]) -> None:
    prefix = ".hoodie/metadata/"
    store = without("1.2.0/rli", lambda path: path.startswith(prefix) and lost in path)
    with pytest.raises(error):
        loaded(store).partition("record_index")


def test_of_another_version_than_the_table() -> None:
    path = ".hoodie/metadata/.hoodie/hoodie.properties"
    older = table_files("1.0.2/rli")[path]
    with pytest.raises(UnsupportedError, match="version 8, and the table of version 9"):
        loaded(MemoryStore(table_files("1.2.0/rli")).with_file(path, older))


def test_a_damaged_file_is_named() -> None:
    files = table_files("1.2.0/mdt_bucket")
    path = next(p for p in files if p.startswith(".hoodie/metadata/files/f"))
    store = MemoryStore(files).with_file(path, files[path][:-1] + b"\x09")  # the version
    with pytest.raises(BucketfmtError) as caught:
        loaded(store).partition("files").lookup(["us"])
    assert caught.value.path == path


def test_only_the_files_that_are_asked_for_are_read() -> None:
    store = RecordingStore(MemoryStore(table_files("1.2.0/rli")))
    metadata = loaded(store)
    store.operations.clear()
    partition = metadata.partition("record_index")
    assert [tuple(o) for o in store.operations] == [("list", ".hoodie/metadata/record_index")]
    partition.lookup(["key-000001"])
    reads = store.paths("read", "read_ranges")
    (group,) = {path.rpartition("/")[2].removeprefix(".").partition("_")[0] for path in reads}
    assert group.startswith("record-index-000")
    partition.lookup(["key-000001"])
    assert store.paths("read", "read_ranges") == reads
    assert store.writes == []
