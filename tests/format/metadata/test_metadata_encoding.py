"""Records of metadata tables as they are written here: the bytes are those that Hudi writes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError
from bucketfmt.format.hfile.entries import KEY_SUFFIX
from bucketfmt.format.hfile.entry_kernels import EntryColumns
from bucketfmt.format.hfile.reader import HFile
from bucketfmt.format.keys.bloom import decode_bloom_filter
from bucketfmt.format.log.log_block import BlockType, LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.metadata.metadata_encoding import (
    encode_metadata_record,
    encode_metadata_records,
)
from bucketfmt.format.metadata.metadata_files import (
    encode_deletes_block,
    encode_entries_block,
    encode_initial_block,
    encode_metadata_base_file,
)
from bucketfmt.format.metadata.metadata_keys import (
    file_group_of_key,
    format_secondary_key,
    secondary_file_group_of_key,
)
from bucketfmt.format.metadata.metadata_records import (
    BloomFilterEntry,
    ColumnStats,
    FileEntry,
    FilesRecord,
    MetadataRecord,
    RecordLocation,
    SecondaryEntry,
    StatValue,
    decode_metadata_record,
)
from bucketfmt.format.metadata.metadata_schemas import metadata_schema
from bucketfmt.format.metadata.record_location_kernels import (
    RecordLocations,
    decode_record_locations,
    encode_record_locations,
)
from bucketfmt.format.metadata.secondary_key_kernels import find_file_groups
from soak.damage.seeds import hfiles_of
from soak.damage.tables import table_files

VERSIONS = {"0.15.0": 6, "1.0.2": 8, "1.2.0": 9}
UUID = "72c3849d-e3ca-4135-a298-4ff2c4fcaa50"
BYTES = pa.large_binary()


@pytest.mark.parametrize("release", VERSIONS)
def test_every_record_and_every_block_is_as_hudi_wrote_it(release: str) -> None:
    schema = metadata_schema(VERSIONS[release])
    kinds = set()
    for name in ("rli", "mdt_bucket"):
        for path, data in hfiles_of(f"{release}/{name}"):
            file = HFile.of(data)
            assert file.file_info[b"schema"].decode() == schema.text
            for key, value in file.scan():
                record = decode_metadata_record(value, schema)
                own = encode_metadata_record(record, schema)
                if path.endswith(".hfile") and release != "1.2.0":
                    own = with_file_name(own, path.rpartition("/")[2])
                assert own == value, (path, key)
                kinds.add(type(record))
    assert kinds == {FilesRecord, ColumnStats, BloomFilterEntry, RecordLocation}


def with_file_name(value: bytes, name: str) -> bytes:
    """Releases before 1.1 name a base file in the last meta column of each of its records."""
    return value[:4] + b"\x02" + bytes([2 * len(name)]) + name.encode() + value[5:]


@pytest.mark.parametrize("release", VERSIONS)
def test_every_delete_block_is_as_hudi_wrote_it(release: str) -> None:
    """But for the order of the header, which Java's hash map decides."""
    schema = metadata_schema(VERSIONS[release])
    deleted = 0
    for path, data in table_files(f"{release}/rli").items():
        if not path.startswith(".hoodie/metadata/") or ".log." not in path or path[-4:] == ".crc":
            continue
        for block in decode_log_file(data):
            assert isinstance(block, LogBlock)
            if block.block_type is BlockType.DELETE and len(block.content) == 9:
                assert encode_initial_block(block.instant_time) == data
            elif block.block_type is BlockType.DELETE:
                partition = path.split("/")[2]
                keys = [f"key-{number:06}" for number in range(30)]
                keys = [key for key in keys if key.encode() in bytes(block.content)]
                own = encode_deletes_block(keys, partition, schema, block.instant_time)
                (read,) = decode_log_file(own)
                assert isinstance(read, LogBlock)
                assert (read.header, read.content) == (block.header, block.content)
                deleted += len(keys)
    assert deleted == 20


def test_a_log_block_is_as_hudi_wrote_it() -> None:
    schema, seen = metadata_schema(9), 0
    for path, data in table_files("1.2.0/rli").items():
        if "/files/.files-0000" not in path or path.endswith(".crc"):
            continue
        for block in decode_log_file(data):
            assert isinstance(block, LogBlock)
            if block.block_type is BlockType.HFILE_DATA:
                theirs = HFile.of(block.content)
                entries = EntryColumns.of(theirs.scan())
                created = int.from_bytes(theirs.file_info[b"hfile.CREATE_TIME_TS"], "big")
                own = encode_entries_block(entries, schema, block.instant_time, created_ms=created)
                (read,) = decode_log_file(own)
                assert isinstance(read, LogBlock)
                assert (read.header, read.block_type) == (block.header, block.block_type)
                written = HFile.of(read.content)
                assert [written.entries(n).content for n in range(len(written.data_blocks))] == [
                    theirs.entries(n).content for n in range(len(theirs.data_blocks))
                ]
                seen += 1
    assert seen == 3


def test_a_base_file_says_what_hudis_says() -> None:
    path, data = next(each for each in hfiles_of("1.2.0/rli") if each[0].endswith(".hfile"))
    theirs = HFile.of(data)
    text = theirs.meta_block("bloomFilter")
    assert text is not None
    own = HFile.of(
        encode_metadata_base_file(
            EntryColumns.of(theirs.scan()),
            metadata_schema(9),
            created_ms=int.from_bytes(theirs.file_info[b"hfile.CREATE_TIME_TS"], "big"),
            bloom_filter=decode_bloom_filter(text.decode(), "DYNAMIC_V0"),
        )
    )
    last = {b"hfile.LASTKEY": theirs.file_info[b"hfile.LASTKEY"] + KEY_SUFFIX}
    assert own.file_info == {**theirs.file_info, **last}, path
    assert own.meta_block("bloomFilter") == text
    assert [(key, bytes(value)) for key, value in own.scan()] == list(theirs.scan())


TEXT = st.text(max_size=20)
LONGS = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.none() | st.integers(0, 2**63 - 1)
WRAPPED = st.one_of(
    st.builds(StatValue, st.just("Boolean"), st.booleans()),
    st.builds(StatValue, st.sampled_from(["Int", "Date"]), st.integers(-(2**31), 2**31 - 1)),
    st.builds(StatValue, st.sampled_from(["Long", "TimeMicros", "TimestampMicros"]), LONGS),
    st.builds(StatValue, st.just("Float"), st.floats(width=32, allow_nan=False)),
    st.builds(StatValue, st.just("Double"), st.floats(allow_nan=False)),
    st.builds(StatValue, st.just("String"), TEXT),
    st.builds(StatValue, st.sampled_from(["Bytes", "Decimal"]), st.binary(max_size=20)),
)
FILE_IDS = st.one_of(
    TEXT,
    st.uuids().map(str),
    st.uuids().map(lambda each: str(each).upper()),
    st.builds("{}-{}".format, st.uuids(), st.integers(-2, 2**32)),
    st.builds("{}-0{}".format, st.uuids(), st.integers(0, 9)),
)
LOCATIONS = st.builds(RecordLocation, TEXT, FILE_IDS, LONGS)
RECORDS: st.SearchStrategy[MetadataRecord] = st.one_of(
    st.builds(
        FilesRecord,
        st.dictionaries(TEXT, st.builds(FileEntry, LONGS, st.booleans()), max_size=4),
        st.booleans(),
    ),
    st.builds(
        ColumnStats,
        *(st.none() | TEXT, st.none() | TEXT, st.none() | WRAPPED, st.none() | WRAPPED),
        *(COUNTS, COUNTS, COUNTS, COUNTS, st.booleans()),
        is_tight=st.booleans(),
        of_partition=st.booleans(),
        value_type=st.integers(0, 20),
        value_type_info=st.none() | TEXT,
    ),
    st.builds(BloomFilterEntry, TEXT, TEXT, st.binary(max_size=50), st.booleans()),
    st.builds(RecordLocation, TEXT, FILE_IDS, LONGS, st.none() | LONGS),
    st.builds(SecondaryEntry, st.booleans()),
)


@given(RECORDS)
def test_what_a_record_says_is_read_again(record: MetadataRecord) -> None:
    schema = metadata_schema(9)
    assert decode_metadata_record(encode_metadata_record(record, schema), schema) == record


@given(st.lists(st.tuples(TEXT, LOCATIONS), unique_by=lambda each: each[0], max_size=30))
def test_locations_in_columns_are_those_of_the_records(
    rows: list[tuple[str, RecordLocation]],
) -> None:
    schema = metadata_schema(8)
    places = list({place: None for _, place in rows})
    numbers = np.array([places.index(place) for _, place in rows], np.int32)
    keys = pa.array([key for key, _ in rows], pa.string())
    entries = encode_record_locations(keys, RecordLocations(places, numbers), schema).sort()
    assert entries.keys == encode_metadata_records(dict(rows), schema).keys
    expected = [encode_metadata_record(place, schema) for _, place in sorted(rows)]
    assert entries.values.to_pylist() == expected
    found = decode_record_locations(pa.array([None, *expected], BYTES), schema)
    assert found.numbers[0] == -1
    assert [found.locations[number] for number in found.numbers[1:]] == [
        place for _, place in sorted(rows, key=lambda row: row[0].encode())
    ]


def test_a_key_without_a_location_is_not_written() -> None:
    place = RecordLocation("p", UUID + "-0", 1)
    found = RecordLocations([place], np.array([0, -1], np.int32))
    with pytest.raises(ValueError, match="has a location"):
        encode_record_locations(pa.array(["a", "b"]), found, metadata_schema(9))


@given(st.lists(TEXT, max_size=12), st.integers(1, 11))
@example(["\\"], 1)
def test_file_groups_of_keys_in_columns_are_those_of_each_key(keys: list[str], count: int) -> None:
    keys.append("polygenelubricants")  # its hash is the least int32
    valued = [format_secondary_key(key, "k") for key in keys]
    for kind in (pa.string(), BYTES):
        found = find_file_groups(pa.array(keys, pa.string()).cast(kind), count)
        assert found.tolist() == [file_group_of_key(key, count) for key in keys]
        found = find_file_groups(pa.array(valued, pa.string()).cast(kind), count, by_value=True)
        assert found.tolist() == [secondary_file_group_of_key(key, count) for key in valued]


def test_values_that_no_schema_holds() -> None:
    with pytest.raises(ValueError, match="version 7"):
        metadata_schema(7)
    with pytest.raises(ValueError, match="no SecondaryIndexMetadata"):
        encode_metadata_record(SecondaryEntry(False), metadata_schema(6))
    stats = ColumnStats("f", "c", StatValue("LocalDate", 3), None, 1, 0, 0, 0, False)
    assert encode_metadata_record(stats, metadata_schema(8))
    with pytest.raises(ValueError, match="LocalDateWrapper"):
        encode_metadata_record(stats, metadata_schema(6))
    with pytest.raises(ValueError, match="do not match"):
        encode_metadata_record(RecordLocation("p", UUID, 1 << 63), metadata_schema(9))


def test_a_value_that_is_no_location() -> None:
    schema = metadata_schema(9)
    value = encode_metadata_record(SecondaryEntry(False), schema)
    with pytest.raises(CorruptError, match="not a location"):
        decode_record_locations(pa.array([value], BYTES), schema)


@pytest.mark.parametrize(
    ("keys", "values"),
    [(["a"], [None]), ([None], [b""]), (["a", "b"], [b""])],
)
def test_columns_that_are_no_entries(keys: list[str | None], values: list[bytes | None]) -> None:
    with pytest.raises(ValueError, match="an HFile"):
        EntryColumns(pa.array(keys, pa.string()).cast(BYTES), pa.array(values, BYTES))
