"""The records of a file group: base file, log blocks, deletes, blocks that were rolled back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, UnsupportedError
from bucketfmt.format.log.log_block import BlockType, HeaderKey, encode_log_block
from bucketfmt.format.metadata.metadata_encoding import encode_metadata_records
from bucketfmt.format.metadata.metadata_files import (
    encode_deletes_block,
    encode_entries_block,
    encode_initial_block,
    encode_metadata_base_file,
)
from bucketfmt.format.metadata.metadata_records import (
    FileEntry,
    FilesRecord,
    MetadataRecord,
    RecordLocation,
)
from bucketfmt.format.metadata.metadata_schemas import metadata_schema
from bucketfmt.format.names.names import find_metadata_file_name
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.metadata_table.group_reader import GroupReader
from bucketfmt.metadata_table.metadata_partition import MetadataPartition
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.testing.memory_store import MemoryStore

SCHEMA = metadata_schema(9)
BASE = "record-index-0000-0_0-0-0_10.hfile"
A, B, C = (RecordLocation("p", f"72c3849d-e3ca-4135-a298-4ff2c4fcaa50-{n}", n) for n in range(3))


def entries(instant: str, **records: MetadataRecord) -> bytes:
    return encode_entries_block(
        encode_metadata_records(records, SCHEMA), SCHEMA, instant, created_ms=0
    )


def deletes(instant: str, *keys: str) -> bytes:
    return encode_deletes_block(keys, "record_index", SCHEMA, instant)


def rollback(instant: str, target: str) -> bytes:
    header = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.TARGET_INSTANT_TIME: target,
        HeaderKey.COMMAND_BLOCK_TYPE: "0",
    }
    return encode_log_block(BlockType.COMMAND, dict(header))


def reader(
    *logs: bytes, base: Mapping[str, MetadataRecord] | None = None, name: str = "record_index"
) -> MetadataPartition:
    files = {}
    if base is not None:
        own = encode_metadata_records(base, SCHEMA)
        files[BASE] = encode_metadata_base_file(own, SCHEMA, created_ms=0)
    for number, log in enumerate(logs, 1):
        files[f".record-index-0000-0_10.log.{number}_0-0-0"] = log
    if name != "record_index":
        files = {k.replace("record-index", "files"): v for k, v in files.items()}
    listed = []
    for path, data in files.items():
        file_name = find_metadata_file_name(path)
        assert file_name is not None
        listed.append(DataFile(path, file_name, len(data)))
    base_file = listed.pop(0) if base is not None else None
    file_id = (base_file or listed[0]).name.file_id
    file_slice = FileSlice(name, file_id, "10", base_file, tuple(listed))
    group = GroupReader(
        MemoryStore(files), file_slice, lambda t: t != "99", name == "record_index", DEFAULT_LIMITS
    )
    return MetadataPartition(name, [group], 1)


def found(partition: MetadataPartition) -> dict[str, MetadataRecord]:
    scanned = dict(partition.scan())
    assert partition.lookup(["a", "b", "c", "d"]) == scanned
    return scanned


def test_the_newest_record_counts_and_deletes_delete() -> None:
    base: dict[str, MetadataRecord] = {"a": A, "b": A, "c": A}
    partition = reader(entries("11", b=B) + deletes("11", "a"), entries("12", d=C), base=base)
    assert found(partition) == {"b": B, "c": A, "d": C}
    again = reader(deletes("11", "a", "b"), entries("12", a=C), base=base)
    assert found(again) == {"a": C, "c": A}


def test_blocks_that_do_not_count() -> None:
    assert found(reader(entries("11", a=A), entries("99", a=B, b=B))) == {"a": A}
    assert found(reader(entries("11", a=A), deletes("99", "a"))) == {"a": A}
    assert found(reader(entries("11", a=A), entries("12", a=B), rollback("13", "12"))) == {"a": A}
    after = reader(entries("12", a=B), rollback("13", "12"), entries("12", a=C))
    assert found(after) == {"a": C}
    assert found(reader(encode_initial_block("00"))) == {}


def test_records_of_files_add_up() -> None:
    def files(**own: int) -> FilesRecord:
        return FilesRecord({n: FileEntry(max(size, 0), size < 0) for n, size in own.items()}, False)

    partition = reader(
        entries("11", p=files(x=7, y=-1)),
        entries("12", p=files(z=3), q=files(w=-1)),
        base={"p": files(x=5, y=6)},
        name="files",
    )
    assert partition.lookup(["p", "q", "r"]) == {"p": files(x=7, z=3), "q": files(w=-1)}


def test_damage_is_an_error_that_names_the_file() -> None:
    log = entries("11", a=A)
    with pytest.raises(CorruptError) as caught:
        reader(log[:-20]).lookup(["a"])
    assert caught.value.path == ".record-index-0000-0_10.log.1_0-0-0"
    header = {HeaderKey.INSTANT_TIME: "11", HeaderKey.SCHEMA: '"string"'}
    avro = reader(encode_log_block(BlockType.AVRO_DATA, dict(header)))
    with pytest.raises(UnsupportedError, match="AVRO_DATA"):
        avro.lookup(["a"])


@given(st.data())
def test_any_change_of_a_log_is_read_or_refused(data: Any) -> None:
    log = bytearray(entries("11", a=A, b=B) + deletes("12", "a"))
    at = data.draw(st.integers(0, len(log) - 1))
    log[at] = data.draw(st.integers(0, 255))
    with suppress(BucketfmtError):
        assert len(list(reader(bytes(log)).scan())) <= 2


def test_file_groups_are_numbered_without_gaps() -> None:
    group = next(iter(reader(entries("11", a=A)).groups.values()))[0]
    with pytest.raises(CorruptError, match="no file group"):
        MetadataPartition("files", [group], 1)


@pytest.mark.parametrize("in_base", [False, True])
def test_files_with_keys_of_another_file_group_are_refused(in_base: bool) -> None:
    """Look-ups by the record index found no rows, and a delete by keys deleted nothing."""
    records: dict[str, MetadataRecord] = {"b": B}  # the second of two file groups has "a"
    name = "record-index-{:04d}-0_0-0-0_10.hfile" if in_base else ".record-index-{:04d}-0_10.log.1"
    data = entries("11", b=B)
    if in_base:
        own = encode_metadata_records(records, SCHEMA)
        data = bytes(encode_metadata_base_file(own, SCHEMA, created_ms=0))

    def partition(number: int) -> MetadataPartition:
        """Return a record index of which only one of two file groups has a file with bytes."""
        store, groups = MemoryStore({}), []
        for each in range(2):
            path = name.format(each)
            file_name = find_metadata_file_name(path)
            assert file_name is not None
            files = [DataFile(path, file_name, len(data))] if each == number else []
            if files:
                store = MemoryStore({path: data})
            base = files.pop() if files and in_base else None
            file_slice = FileSlice("record_index", file_name.file_id, "10", base, tuple(files))
            groups.append(GroupReader(store, file_slice, lambda _: True, True, DEFAULT_LIMITS))
        return MetadataPartition("record_index", groups, 1)

    assert partition(0).lookup(["a", "b"]) == {"b": B}
    misplaced = partition(1)
    for ask in (misplaced.lookup, lambda keys: misplaced.locate(pa.array(keys))):
        with pytest.raises(CorruptError, match="belongs into another file group") as caught:
            ask(["a", "b"])
        assert caught.value.path == name.format(1)
    assert dict(misplaced.scan()) == {"b": B}


@pytest.mark.parametrize("partitions", [["p=1", "q"], [""]])
def test_a_partitioned_record_index(partitions: list[str]) -> None:
    groups = []
    for path in partitions:
        escaped = path.replace("=", "%3D")
        name = find_metadata_file_name(f".record-index-{escaped}-0000-0_10.log.1_0-0-0")
        assert name is not None
        data = entries("11", a=RecordLocation(path, "raw", 1))
        file_slice = FileSlice(
            "record_index", name.file_id, "10", None, (DataFile(path + "x", name, len(data)),)
        )
        groups.append(
            GroupReader(
                MemoryStore({path + "x": data}), file_slice, lambda _: True, True, DEFAULT_LIMITS
            )
        )
    partition = MetadataPartition("record_index", groups, 1)
    assert partition.is_partitioned
    for path in partitions:
        assert partition.lookup(["a", "b"], path) == {"a": RecordLocation(path, "raw", 1)}
    assert partition.lookup(["a"], "unknown") == {}
    with pytest.raises(ValueError, match="is partitioned itself"):
        partition.lookup(["a"])
