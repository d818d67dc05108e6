"""Files of tables real Hudi wrote, annotated field by field."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.dump.annotation import Annotation
from bucketfmt.dump.file import annotate_file
from bucketfmt.errors import BucketfmtError, UnsupportedError
from bucketfmt.format.buckets.extendible_metadata import (
    encode_extendible_metadata,
    initial_extendible_metadata,
)
from bucketfmt.format.log.delete_records import DeleteBlock, DeleteRecord, encode_delete_block
from bucketfmt.format.log.log_block import BlockType, HeaderKey, encode_log_block
from bucketfmt.format.log.ordering_values import OrderingKind, OrderingValue
from bucketfmt.format.log.virtual_log import PointedFile, VirtualLog, encode_virtual_log
from bucketfmt.format.names.names import LogFileName
from tests.golden import GOLDEN

Golden = Callable[[str, str], Path]


def annotate(path: Path) -> list[Annotation]:
    return list(annotate_file(path.name, path.read_bytes(), records_max=1000))


def by_field(annotations: list[Annotation]) -> dict[str, Annotation]:
    return {annotation.field: annotation for annotation in annotations}


def files_of(root: Path) -> list[Path]:
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return [path for path in files if path.suffix != ".crc"]


@pytest.mark.parametrize(
    ("version", "name"), [g for g in GOLDEN if g[1] in ("mor", "ch_pending", "evolved", "rli")]
)
def test_whole_tables_annotate_without_damage_and_in_place(
    golden: Golden, version: str, name: str
) -> None:
    annotated = 0
    for path in files_of(golden(version, name)):
        data = path.read_bytes()
        for annotation in annotate(path):
            assert not annotation.is_damage, (path, annotation)
            assert 0 <= annotation.offset <= annotation.offset + annotation.length <= len(data)
            annotated += 1
    assert annotated > 500


@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
def test_hfiles_of_a_metadata_table(golden: Golden, version: str) -> None:
    folder = golden(version, "mdt_bucket") / ".hoodie" / "metadata" / "files"
    (base,) = (path for path in folder.iterdir() if path.suffix == ".hfile")
    fields = by_field(annotate(base))
    partitions = fields["block[0].__all_partitions__"].value
    assert "'type': 1" in partitions
    assert "'filesystemMetadata': {}" in partitions
    assert fields["trailer"].value.startswith("1 entries in 1 blocks, codec GZ")
    assert fields["file_info.schema"].value.startswith('{"type":"record"')
    logs = sorted(p for p in folder.iterdir() if ".log." in p.name and p.suffix != ".crc")
    fields = {}
    for log in logs:
        fields |= by_field(annotate(log))
    files = fields["block[0].content.block[0].us"].value
    assert "HoodieMetadataFileInfo" in files or ".parquet" in files or ".log." in files


def test_delete_block_of_a_log_file(golden: Golden) -> None:
    root = golden("1.2.0", "mor")
    (path,) = (
        p for p in root.glob("us/.00000000-*_20261121044120416.log.1_*") if p.suffix != ".crc"
    )
    fields = by_field(annotate(path))
    assert fields["block[0].type"].value == "1 DELETE"
    key = fields["block[0].content.deleteRecordList[0].recordKey"]
    assert key.value == "key-000003"
    assert path.read_bytes()[key.offset : key.offset + key.length] == b"\x14key-000003"
    assert fields["block[0].content.deleteRecordList[0].orderingVal.INT"].value == "0"
    assert fields["block[0].header.INSTANT_TIME"].value == "20261121044120416"
    length, echo = fields["block[0].length"], fields["block[0].echo"]
    assert int(echo.value) == int(length.value) + 6
    assert (length.rule, echo.rule) == ("LOG-2", "LOG-2")


@pytest.mark.parametrize("version", [1, 2])
def test_kryo_deletes_are_told_record_by_record(version: int) -> None:
    ordering = OrderingValue(OrderingKind.INT, 0)
    block = DeleteBlock.from_records([DeleteRecord("k1", "p1", ordering)], version)
    header = {HeaderKey.INSTANT_TIME: "20240101000000000"}
    data = encode_log_block(BlockType.DELETE, header, encode_delete_block(block))
    fields = by_field(list(annotate_file(".a-0_1.log.1_0-0-0", data)))
    assert fields["block[0].content.version"].value == str(version)
    assert fields["block[0].content.record[0]"].value.startswith("k1 in p1, ")


def test_array_ordering_values() -> None:
    long, text = OrderingValue(OrderingKind.LONG, 5), OrderingValue(OrderingKind.STRING, "abc")
    date = OrderingValue(OrderingKind.LOCAL_DATE, 3)
    array = OrderingValue(OrderingKind.ARRAY, (long, text, date))
    block = DeleteBlock.from_records([DeleteRecord("k1", "p1", array)])
    header = {HeaderKey.INSTANT_TIME: "20240101000000000"}
    data = encode_log_block(BlockType.DELETE, header, encode_delete_block(block))
    values = {a.field.rpartition(".")[2]: a.value for a in annotate_file(".log.", data)}
    assert (values["LONG"], values["STRING"], values["LOCAL_DATE"]) == ("5", "abc", "3")


def test_a_virtual_log() -> None:
    name = LogFileName("a-0", "20240101000000000", 1, "0-0-1")
    log = VirtualLog("20240101000000001", "20240101000000000", (PointedFile(name, 7),))
    fields = by_field(list(annotate_file(".log.", encode_virtual_log(log))))
    pointed = fields["block[0].content.log_files[0]"]
    assert (pointed.value, pointed.rule) == (f"{name}, 7 bytes", "VLOG-4")


def test_hashing_metadata(golden: Golden) -> None:
    folder = golden("1.2.0", "ch_split") / ".hoodie/.bucket_index/consistent_hashing_metadata/us"
    fields = by_field(annotate(folder / "00000000000000.hashing_meta"))
    node = fields["nodes[1].value"]
    assert (node.value, node.rule) == ("1073741824", "RING-3")
    assert fields["numBuckets"].rule == "RING-8"


def test_extendible_hashing_metadata() -> None:
    data = encode_extendible_metadata(initial_extendible_metadata("us", 2))
    fields = by_field(list(annotate_file("00000000000000.hashing_meta", data)))
    assert (fields["globalDepth"].value, fields["globalDepth"].rule) == ("1", "EXT-2")
    assert (fields["buckets[1].bucketId"].value, fields["numBuckets"].rule) == ("1", "EXT-7")
    assert fields["buckets[0].fileIdPrefix"].rule == "EXT-4"


@pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
def test_commit_metadata_as_json_and_as_avro(golden: Golden, version: str) -> None:
    root = golden(version, "mor")
    (path, *_) = (p for p in sorted(root.rglob("*.deltacommit")) if p.suffix != ".crc")
    annotations = annotate(path)
    paths = [a for a in annotations if a.field.endswith("].path")]
    assert {a.rule for a in paths} == {"META-5"}
    assert all((root / a.value).exists() for a in paths)
    assert len(paths) == 12


def test_properties_and_a_wrong_checksum(golden: Golden) -> None:
    path = golden("1.2.0", "mor") / ".hoodie/hoodie.properties"
    data = path.read_bytes()
    fields = by_field(list(annotate_file(path.name, data)))
    version = fields["hoodie.table.version"]
    assert (version.value, version.rule) == ("9", "PROP-6")
    line = data[version.offset : version.offset + version.length]
    assert line.strip() == b"hoodie.table.version=9"
    damaged = data.replace(b"hoodie.table.name=mor", b"hoodie.table.name=mop")
    damage = by_field(list(annotate_file(path.name, damaged)))["damage"]
    assert damage.rule == "PROP-4"


def test_base_file_footer(golden: Golden) -> None:
    path = sorted(golden("1.2.0", "mor").rglob("*.parquet"))[0]
    fields = by_field(annotate(path))
    assert fields["footer.hoodie_min_record_key"].rule == "BLOOM-1"
    length = fields["footer.length"]
    stored = path.read_bytes()[length.offset : length.offset + 4]
    assert int.from_bytes(stored, "little") == int(length.value)


def test_a_cut_log_file_is_told_where_it_is_cut(golden: Golden) -> None:
    root = golden("1.2.0", "mor")
    path = next(p for p in sorted(root.glob("us/.*.log.1_*")) if p.suffix != ".crc")
    data = path.read_bytes()
    (damage,) = (a for a in annotate_file(path.name, data[:-1]) if a.is_damage)
    assert "truncated" in damage.value
    assert damage.offset == 0


def test_a_file_without_annotator() -> None:
    with pytest.raises(UnsupportedError, match=r"x\.orc"):
        list(annotate_file("x.orc", b"DATABLK*"))


NAMES = [".a_1.log.1_0-0-0", "hoodie.properties", "1.commit", "0.hashing_meta", "a.parquet"]


@given(st.sampled_from(NAMES), st.binary(max_size=400), st.sampled_from([b"", b"Obj\x01", b"{"]))
def test_any_bytes_annotate_or_raise_a_typed_error(name: str, data: bytes, head: bytes) -> None:
    try:
        annotations = list(annotate_file(name, head + data))
    except BucketfmtError:
        return
    for annotation in annotations:
        assert annotation.offset <= len(head + data)


@given(st.integers(0, 2**32), st.integers(0, 255))
def test_damaged_files_annotate(place: int, byte: int) -> None:
    header = {
        HeaderKey.INSTANT_TIME: "2024",
        HeaderKey.SCHEMA: '{"type":"record","name":"r","fields":[]}',
    }
    ordering = OrderingValue(OrderingKind.INT, 0)
    deletes = encode_delete_block(DeleteBlock.from_records([DeleteRecord("k", "p", ordering)] * 3))
    data = bytearray(encode_log_block(BlockType.DELETE, header, deletes))
    data[place % len(data)] = byte
    with_errors = list(annotate_file(".a_1.log.1_0-0-0", bytes(data)))
    assert with_errors
