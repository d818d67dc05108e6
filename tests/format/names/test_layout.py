"""Where a table keeps its own files. The paths are Hudi's: tables in ../golden have them."""

from __future__ import annotations

import pytest

from bucketfmt.errors import CorruptError
from bucketfmt.format.names import layout
from bucketfmt.format.names.layout import (
    format_hashing_config_name,
    format_hashing_marker_name,
    format_hashing_metadata_name,
    parse_hashing_config_name,
    parse_hashing_marker_name,
    parse_hashing_metadata_name,
)


def test_paths_of_single_files_are_hudis() -> None:
    assert layout.PROPERTIES == ".hoodie/hoodie.properties"
    assert layout.PROPERTIES_BACKUP == ".hoodie/hoodie.properties.backup"
    assert layout.checksum_path(layout.PROPERTIES) == ".hoodie/.hoodie.properties.crc"
    assert layout.checksum_path("f") == ".f.crc"
    assert layout.FILE_LOCK == ".hoodie/lock"
    assert layout.LEASE == ".hoodie/.locks/table_lock.json"
    assert layout.heartbeat_path("20240131120000000") == ".hoodie/.heartbeat/20240131120000000"
    assert layout.PARTITION_METAFILE == ".hoodie_partition_metadata"


def test_paths_of_folders_are_hudis() -> None:
    assert layout.METADATA_TABLE == ".hoodie/metadata"
    assert layout.SCHEMA_FOLDER == ".hoodie/.schema"
    assert layout.marker_folder("20240131120000000") == ".hoodie/.temp/20240131120000000"
    assert layout.HASHING_CONFIG_FOLDER == (
        ".hoodie/.bucket_index/partition_bucket_index_meta/configs"
    )


@pytest.mark.parametrize(("partition_path", "end"), [("", ""), ("a=1/b=2", "/a=1/b=2")])
def test_rings_are_in_a_folder_of_the_partition(partition_path: str, end: str) -> None:
    folders = [
        layout.hashing_metadata_folder(root, partition_path)
        for root in layout.HASHING_METADATA_FOLDERS
    ]
    assert folders == [
        f".hoodie/.bucket_index/consistent_hashing_metadata{end}",
        f".hoodie/.hashing_meta{end}",
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".hoodie", True),
        (".hoodie/timeline/1_2.commit", True),
        ("", False),
        (".hoodie_partition_metadata", False),
        ("a/.hoodie", False),
    ],
)
def test_metadata_paths_begin_at_the_root(path: str, expected: bool) -> None:
    assert layout.is_metadata_path(path) is expected


def test_names_of_the_history() -> None:
    assert layout.format_archive_name(3) == ".commits_.archive.3_1-0-1"
    assert layout.find_archive_number(".commits_.archive.3_1-0-1") == 3
    assert layout.find_archive_number(".commits_.archive.12") == 12
    assert layout.find_archive_number("..commits_.archive.3_1-0-1.crc") is None
    assert layout.format_manifest_name(7) == "manifest_7"
    assert layout.find_manifest_version("manifest_7") == 7
    assert layout.find_manifest_version("manifest_7.crc") is None


@pytest.mark.parametrize(
    ("name", "is_update"),
    [
        ("hoodie.properties", False),
        ("hoodie.properties.backup", True),
        ("hoodie.properties.0c6fca6c", True),
        (".hoodie.properties.crc", False),
    ],
)
def test_files_of_an_update_of_the_properties(name: str, is_update: bool) -> None:
    assert layout.is_properties_update_name(name) is is_update


def test_hashing_file_names() -> None:
    instant = "00000000000000"
    assert format_hashing_metadata_name(instant) == "00000000000000.hashing_meta"
    assert format_hashing_marker_name(instant) == "00000000000000.commit"
    assert format_hashing_config_name(instant) == "00000000000000.hashing_config"
    assert parse_hashing_metadata_name("00000000000000.hashing_meta") == instant
    assert parse_hashing_marker_name("00000000000000.commit") == instant
    assert parse_hashing_config_name("00000000000000.hashing_config") == instant


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".hashing_meta",
        "x.hashing_meta",
        "00000000000000",
        "00000000000000.hashing_meta.0c6fca6c-1d3b-4b34-8f16-9a2c4f2f0b1c",
        ".00000000000000.hashing_meta.crc",
        "../00000000000000.hashing_meta",
    ],
)
def test_temporary_and_foreign_files_are_no_hashing_metadata(name: str) -> None:
    with pytest.raises(CorruptError):
        parse_hashing_metadata_name(name)
