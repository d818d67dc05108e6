"""What metadata tables that Hudi wrote say, beside the table's files and what Hudi read."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from bucketfmt.errors import (
    BucketfmtError,
    CorruptError,
    TableNotFoundError,
    UnsupportedError,
)
from bucketfmt.format.metadata.metadata_records import (
    ColumnStats,
    FilesRecord,
    RecordLocation,
)
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.metadata_table.metadata_table import MetadataTable, load_metadata_table
from bucketfmt.snapshot.listing import StoreLister
from bucketfmt.storage.store import Store
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.load import load_timeline
from bucketfmt.timeline.table_properties import load_config
from soak.tables import table_files

VERSIONS = ("0.15.0", "1.0.2", "1.2.0")
TABLES = [f"{version}/{name}" for version in VERSIONS for name in ("rli", "mdt_bucket")]


def loaded(store: Store) -> MetadataTable:
    config = load_config(store, DEFAULT_LIMITS)
    timeline = load_timeline(store, config, DEFAULT_LIMITS)
    found = load_metadata_table(store, config, timeline, DEFAULT_LIMITS)
    assert found is not None
    return found


def metadata_table_of(table: str) -> MetadataTable:
    return loaded(MemoryStore(table_files(table)))


@pytest.mark.parametrize("table", TABLES)
def test_files_are_those_in_the_folders(table: str) -> None:
    store = MemoryStore(table_files(table))
    found = dict(loaded(store).partition("files").scan())
    listed = StoreLister(store)
    everything = found.pop("__all_partitions__")
    assert isinstance(everything, FilesRecord)
    assert sorted(everything.entries) == list(listed.partitions) == sorted(found)
    for partition, record in found.items():
        assert isinstance(record, FilesRecord)
        said = {name: e.size for name, e in record.entries.items() if not e.is_deleted}
        files = [f for group in listed.files(partition).values() for f in group]
        assert said == {str(file.name): file.size for file in files}


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


@pytest.mark.parametrize("table", TABLES)
def test_look_ups_find_what_a_scan_finds(table: str) -> None:
    metadata = metadata_table_of(table)
    for name in metadata.partition_names:
        partition = metadata.partition(name)
        records = dict(partition.scan())
        keys = list(records)
        assert keys == sorted(keys)
        assert partition.lookup([*keys, "", "~"]) == records
        assert partition.lookup_prefixes([""]) == records
        one = keys[len(keys) // 2]
        assert partition.lookup_prefixes([one[:3], one[:3]]) == {
            key: record for key, record in records.items() if key.startswith(one[:3])
        }
        assert partition.lookup([]) == {}


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
    reads = store.paths("read", "read_range")
    (group,) = {path.rpartition("/")[2].removeprefix(".").partition("_")[0] for path in reads}
    assert group.startswith("record-index-000")
    partition.lookup(["key-000001"])
    assert store.paths("read", "read_range") == reads
    assert store.writes == []
