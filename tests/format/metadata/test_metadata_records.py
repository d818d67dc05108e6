"""Records of metadata tables that Hudi wrote: their keys, their file groups, what they say."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.encoding.avro_container import check_writer_schema, encode_datum
from bucketfmt.format.hfile.reader import HFile
from bucketfmt.format.metadata.metadata_keys import (
    ALL_PARTITIONS_KEY,
    file_group_of_key,
    format_bloom_filter_key,
    format_column_stats_key,
    format_files_key,
    format_metadata_file_id,
    format_partition_stats_key,
    format_secondary_key,
    parse_files_key,
    parse_metadata_file_id,
    parse_secondary_key,
    secondary_file_group_of_key,
)
from bucketfmt.format.metadata.metadata_records import (
    BloomFilterEntry,
    ColumnStats,
    FileEntry,
    FilesRecord,
    MetadataRecord,
    RecordLocation,
    StatValue,
    decode_metadata_record,
    decode_metadata_schema,
)
from soak.damage.seeds import hfiles_of
from soak.damage.tables import table_files

TABLES = [
    (version, name) for version in ("0.15.0", "1.0.2", "1.2.0") for name in ("rli", "mdt_bucket")
]
PARTITIONS = ("ap", "eu", "us")


def records_of(table: str) -> Iterator[tuple[str, str, str, MetadataRecord]]:
    """Metadata partition, file id, key and record."""
    for path, data in hfiles_of(table):
        file = HFile.of(data)
        schema = decode_metadata_schema(file.file_info[b"schema"])
        _, _, partition, name = path.split("/")
        file_id = name.removeprefix(".").partition("_")[0]
        for key, value in file.scan():
            yield partition, file_id, key.decode(), decode_metadata_record(value, schema)


def file_ids_of(table: str) -> dict[str, set[str]]:
    """The file groups of each metadata partition, those without records among them."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in table_files(table):
        parts = path.split("/")
        if path.startswith(".hoodie/metadata/") and len(parts) == 4 and parts[2] != ".hoodie":
            name = parts[3].removeprefix(".").removeprefix(".")
            if "hoodie_partition_metadata" not in name:
                found[parts[2]].add(name.partition("_")[0])
    return found


@pytest.mark.parametrize(("version", "name"), TABLES)
def test_every_record_is_in_the_file_group_of_its_key(version: str, name: str) -> None:
    groups = file_ids_of(f"{version}/{name}")
    seen = set()
    for partition, file_id, key, _ in records_of(f"{version}/{name}"):
        number = file_group_of_key(key, len(groups[partition]))
        assert format_metadata_file_id(partition, number) == file_id, key
        seen.add(file_id)
    assert len(seen) >= 3


@pytest.mark.parametrize(("version", "name"), TABLES)
def test_every_key_is_made_of_what_its_record_says(version: str, name: str) -> None:
    files = [path.rpartition("/") for path in table_files(f"{version}/{name}")]
    partitions_of = {file: partition for partition, _, file in files}
    checked = defaultdict(int)
    for partition, _, key, record in records_of(f"{version}/{name}"):
        checked[partition] += 1
        if isinstance(record, ColumnStats):
            assert record.column is not None
            assert record.file_name is not None
            if record.of_partition:
                expected = format_partition_stats_key(record.column, record.file_name)
            else:
                own = partitions_of[record.file_name]
                expected = format_column_stats_key(record.column, own, record.file_name)
            assert key == expected
        elif isinstance(record, FilesRecord):
            assert record.are_partitions == (key == ALL_PARTITIONS_KEY)
            assert record.are_partitions or parse_files_key(key) in PARTITIONS
        elif isinstance(record, RecordLocation):
            assert record.partition_path in PARTITIONS
            assert any(
                file.startswith(record.file_id) and partition == record.partition_path
                for partition, _, file in files
            ), key
    assert checked["files"] == 13
    assert checked["column_stats"] >= 81


@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
def test_files_are_those_of_the_table(version: str) -> None:
    table = table_files(f"{version}/mdt_bucket")
    said: dict[tuple[str, str], int] = {}
    for partition, _, key, record in records_of(f"{version}/mdt_bucket"):
        if isinstance(record, FilesRecord) and not record.are_partitions:
            assert partition == "files"
            for file, entry in record.entries.items():
                said[key, file] = max(entry.size, said.get((key, file), 0))
    data = {
        tuple(path.split("/")): len(content)
        for path, content in table.items()
        if path.split("/")[0] in PARTITIONS and not path.endswith((".crc", "partition_metadata"))
    }
    assert said == data


@pytest.mark.parametrize(("version", "bits"), [("0.15.0", None), ("1.0.2", None), ("1.2.0", 7)])
def test_statistics_of_a_partition_or_a_file(version: str, bits: int | None) -> None:
    found = [
        record
        for _, _, _, record in records_of(f"{version}/mdt_bucket")
        if isinstance(record, ColumnStats)
        and record.column == "_hoodie_record_key"
        and ".log." not in str(record.file_name)
    ]
    assert len(found) >= 12
    for record in found:
        assert isinstance(record.minimum, StatValue)
        assert isinstance(record.maximum, StatValue)
        assert (record.minimum.wrapper, record.value_type) == ("String", bits)
        assert "key-000000" <= str(record.minimum.value) <= str(record.maximum.value) < "key-001"
        assert record.null_count == 0
        assert not record.is_deleted


def test_bloom_filters_are_the_text_of_the_footer() -> None:
    table = table_files("1.2.0/rli")
    for partition, _, key, record in records_of("1.2.0/rli"):
        if isinstance(record, BloomFilterEntry):
            path = next(
                path for path in table if format_bloom_filter_key(*path.rpartition("/")[::2]) == key
            )
            assert (partition, record.type_code) == ("bloom_filters", "DYNAMIC_V0")
            assert record.text in table[path]
            assert record.instant in path


def test_keys_as_hudi_makes_them() -> None:
    name = "326471c7-484a-498e-9351-5a1b860797ed-0_1-42-77_20261121035636929.parquet"
    key = "+WGrmgkN3io=tssgLg9E7p0=SMh1q8I6nTJkVVw2z0/Qzw=="
    assert format_column_stats_key("part", "part=p1", name) == key
    assert format_partition_stats_key("price", "part=p2") == "XV1ds8/f890=tFBD22Dgg24="
    assert format_partition_stats_key("ts", "") == "oyTjviKHuhI=FXThHwelITM="
    assert format_files_key("") == "."
    assert parse_files_key(".") == ""
    assert [file_group_of_key(k, 10) for k in ("k000", "k001", "k005", "k009")] == [1, 2, 6, 0]
    assert file_group_of_key("tssgLg9E7p0=SMh1q8I6nTJkVVw2z0/Qzw==", 4) == 2
    assert file_group_of_key("any", 1) == 0
    assert file_group_of_key("polygenelubricants", 10) == 8  # its hash is -2^31
    assert [secondary_file_group_of_key(k, 10) for k in ("x$a1", "y$a2", "z$a1")] == [6, 7, 8]
    assert format_metadata_file_id("record_index", 7) == "record-index-0007-0"
    assert (
        format_metadata_file_id("secondary_index_idx_name", 6) == "secondary-index-idx-name-0006-0"
    )
    with pytest.raises(ValueError, match="no partition"):
        format_metadata_file_id("rows", 0)


@pytest.mark.parametrize(
    ("value", "record_key", "key"),
    [
        ("x", "a1", "x$a1"),
        ("", "", "$"),
        (None, "a", "\0$a"),
        ("a$b", "c\\d", "a\\$b$c\\\\d"),
        ("\0", "a", "\\\0$a"),
    ],
)
def test_keys_of_a_secondary_index(value: str | None, record_key: str, key: str) -> None:
    assert format_secondary_key(value, record_key) == key
    assert parse_secondary_key(key) == (value, record_key)


@given(st.text() | st.text("\\$\0a") | st.none(), st.text() | st.text("\\$\0a"))
def test_any_secondary_key(value: str | None, record_key: str) -> None:
    assert parse_secondary_key(format_secondary_key(value, record_key)) == (value, record_key)


def test_a_secondary_key_without_separator() -> None:
    with pytest.raises(CorruptError, match="no separator"):
        parse_secondary_key("a\\$b")


def schema_of(version: str) -> bytes:
    data = next(data for path, data in hfiles_of(f"{version}/rli") if path.endswith(".hfile"))
    return HFile.of(data).file_info[b"schema"]


def encoded(version: str, **fields: object) -> bytes:
    return encode_datum(check_writer_schema(json.loads(schema_of(version))), fields)


def location(**fields: object) -> dict[str, object]:
    of_uuid = {"fileIdHighBits": 8269599154448777525, "fileIdLowBits": -6730541738999633328}
    at = {"partitionName": "p", "instantTime": 1795233396929, "fileIdEncoding": 0, "fileId": ""}
    return {**of_uuid, **at, "fileIndex": 0, **fields}


@pytest.mark.parametrize(
    ("fields", "file_id"),
    [
        ({}, "72c3849d-e3ca-4135-a298-4ff2c4fcaa50-0"),
        ({"fileIndex": -1}, "72c3849d-e3ca-4135-a298-4ff2c4fcaa50"),
        ({"fileIndex": 12}, "72c3849d-e3ca-4135-a298-4ff2c4fcaa50-12"),
        (
            {"fileIdEncoding": 1, "fileId": "raw id", "fileIdHighBits": -1, "fileIdLowBits": -1},
            "raw id",
        ),
    ],
)
def test_locations(fields: dict[str, object], file_id: str) -> None:
    data = encoded("1.2.0", key="", type=5, recordIndexMetadata=location(**fields))
    found = decode_metadata_record(data, decode_metadata_schema(schema_of("1.2.0")))
    assert found == RecordLocation("p", file_id, 1795233396929)
    assert isinstance(found, RecordLocation)
    assert found.instant().strftime("%Y%m%d%H%M%S%f")[:17] == "20261121035636929"


def test_a_value_as_hudi_wrote_it() -> None:
    data = bytes.fromhex("0000000000000202040e706172743d703200000e706172743d703100000000000000")
    found = decode_metadata_record(data, decode_metadata_schema(schema_of("1.2.0")))
    entry = FileEntry(0, False)
    assert found == FilesRecord({"part=p2": entry, "part=p1": entry}, True)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"type": 9}, UnsupportedError),
        ({"type": 3}, CorruptError),
        ({"type": 5}, CorruptError),
        ({"type": 5, "recordIndexMetadata": location(fileIdEncoding=2)}, UnsupportedError),
        ({"type": 5, "recordIndexMetadata": location(partitionName=None)}, CorruptError),
        ({"type": 5, "recordIndexMetadata": location(fileIdHighBits=None)}, CorruptError),
    ],
)
def test_records_that_say_nothing(fields: dict[str, object], error: type[Exception]) -> None:
    data = encoded("1.2.0", key="", **fields)
    with pytest.raises(error):
        decode_metadata_record(data, decode_metadata_schema(schema_of("1.2.0")))


@pytest.mark.parametrize("text", [b"", b"[]", b'"string"', b'{"type":"record"}'])
def test_texts_that_are_no_schema(text: bytes) -> None:
    with pytest.raises(CorruptError):
        decode_metadata_schema(text)


@pytest.mark.parametrize(
    ("partition", "file_id", "parsed"),
    [
        ("files", "files-0000-0", (None, 0)),
        ("record_index", "record-index-9999-0", (None, 9999)),
        ("record_index", "record-index-day%3D2024%2D01-0003-0", ("day=2024-01", 3)),
        ("record_index", "record-index--0000-0", ("", 0)),
        ("secondary_index_by_city", "secondary-index-by-city-0006-0", (None, 6)),
    ],
)
def test_file_ids(partition: str, file_id: str, parsed: tuple[str | None, int]) -> None:
    assert parse_metadata_file_id(partition, file_id) == parsed


@pytest.mark.parametrize("file_id", ["files-0000", "files-x-0", "col-stats-0000-0", "0000-0", ""])
def test_file_ids_of_no_file_group(file_id: str) -> None:
    with pytest.raises(CorruptError, match="no file group"):
        parse_metadata_file_id("files", file_id)
