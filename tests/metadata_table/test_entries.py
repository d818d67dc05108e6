"""The entries of metadata tables as Arrow tables."""

from __future__ import annotations

from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bucketfmt as bf
from bucketfmt.format.metadata.metadata_keys import format_bloom_filter_key
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.table_properties import load_config
from soak.damage.tables import table_files


def opened(table: str) -> bf.Table:
    store = MemoryStore(table_files(table))
    return bf.Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None)


@pytest.mark.parametrize("table", ["0.15.0/rli", "metadata/1.0.2/mdt_services", "1.2.0/rli"])
def test_every_partition_has_entries(table: str) -> None:
    found = opened(table)
    columns = {"files": "size", "record_index": "record_key", "column_stats": "column"}
    for name in found.config.metadata_partitions:
        entries = found.inspect.metadata_entries(name)
        assert entries.num_rows > 3, name
        assert columns.get(name, entries.column_names[0]) in entries.column_names
        assert found.inspect.metadata_entries(name, limit=2).num_rows < entries.num_rows
        assert found.inspect.metadata_entries(name, limit=0) == entries.slice(0, 0)


def test_files_and_keys_are_those_of_the_table() -> None:
    found = opened("1.2.0/rli")
    files = found.inspect.metadata_entries("files")
    files = files.filter(pc.is_valid(files["file_name"]))
    paths = pc.binary_join_element_wise(files["partition_path"], files["file_name"], "/")
    newest = found.inspect.files()
    assert set(newest["path"].to_pylist()) <= set(paths.to_pylist())
    assert len(files) == 9
    keys = found.inspect.metadata_entries("record_index")
    rows = found.scan(meta_columns=True).to_arrow()
    assert sorted(keys["record_key"].to_pylist()) == sorted(rows["_hoodie_record_key"].to_pylist())
    assert keys.schema.field("instant").type == pa.timestamp("ms", "UTC")


def test_secondary_entries_are_values_and_keys() -> None:
    found = opened("metadata/1.0.2/mdt_services")
    (name,) = [n for n in found.config.metadata_partitions if n.startswith("secondary_index_")]
    entries = found.inspect.metadata_entries(name)
    rows = found.scan(columns=["name", "id"]).to_arrow()
    said = sorted(zip(entries["value"].to_pylist(), entries["record_key"].to_pylist(), strict=True))
    assert said == sorted(zip(rows["name"].to_pylist(), rows["id"].to_pylist(), strict=True))


@pytest.mark.parametrize("version", ["1.0.2", "1.2.0"])
def test_expression_entries_are_bounds_and_filters_of_files(version: str) -> None:
    found = opened(f"metadata/{version}/mdt_expression")
    entries = found.inspect.metadata_entries("expr_index_by_day").to_pylist()
    assert {entry["column"] for entry in entries} == {"ts"}
    said = {
        entry["file_name"]: (entry["minimum"], entry["maximum"], entry["values"])
        for entry in entries
        if entry["file_name"].endswith(".parquet")
    }
    days: dict[str, list[str]] = {}
    for row in found.scan(["_hoodie_file_name", "ts"]).to_arrow().to_pylist():
        day = datetime.fromtimestamp(row["ts"], timezone.utc).date().isoformat()
        days.setdefault(row["_hoodie_file_name"], []).append(day)
    expected = {name: (min(own), max(own), len(own)) for name, own in days.items()}
    assert {name: said[name] for name in expected} == expected
    keys = set(found.inspect.metadata_entries("expr_index_by_name")["key"].to_pylist())
    files = found.inspect.files().to_pylist()
    paths = [file["path"].rpartition("/") for file in files]
    assert {format_bloom_filter_key(partition, name) for partition, _, name in paths} <= keys


@pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
def test_bounds_are_text_as_a_person_writes_them(version: str) -> None:
    entries = opened(f"metadata/{version}/mdt_types").inspect.metadata_entries("column_stats")
    bounds = {
        column: (low, high)
        for column, low, high in zip(
            *(entries[name].to_pylist() for name in ("column", "minimum", "maximum")), strict=True
        )
        if low is not None
    }
    assert bounds["id"][0].startswith("key-0")
    assert all("." in bound for bound in bounds["d"])
    if version == "1.2.0":
        assert all(len(bound.partition(".")[2]) == 4 for bound in bounds["c"])
        assert bounds["day"][0][:2] in ("19", "20")


def test_what_is_not_there() -> None:
    with pytest.raises(ValueError, match="no metadata table"):
        opened("1.2.0/tiny_cow").inspect.metadata_entries("files")
    with pytest.raises(ValueError, match="no partition 'rows'"):
        opened("1.2.0/rli").inspect.metadata_entries("rows")
    with pytest.raises(ValueError, match="limit"):
        opened("1.2.0/rli").inspect.metadata_entries("files", limit=-1)
