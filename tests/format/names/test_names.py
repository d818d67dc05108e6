from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, UnsafePathError, UnsupportedError
from bucketfmt.format.names.layout import (
    parse_hashing_metadata_name,
)
from bucketfmt.format.names.names import (
    BaseFileName,
    IoType,
    LogFileName,
    MarkerName,
    Rfc29FileName,
    WriteToken,
    find_bucket_id,
    find_data_file_name,
    format_bucket_file_id,
    format_consistent_file_id,
    format_nbcc_file_id,
    format_write_token,
    parse_base_file_name,
    parse_bucket_file_name,
    parse_log_file_name,
    parse_marker_name,
    parse_write_token,
)
from tests.golden import GOLDEN

FILE_ID = "00000002-3283-49e3-9253-c8430b71b5e5-0"
UUID = "7d2c1b4e-3283-49e3-9253-c8430b71b5e5"

instants = st.from_regex(r"[0-9]{14,20}", fullmatch=True)
file_ids = st.from_regex(r"[a-zA-Z0-9-]{1,40}", fullmatch=True)
tokens = st.tuples(*[st.integers(0, 10**6)] * 3).map(lambda ids: "-".join(map(str, ids)))
extensions = st.sampled_from(["parquet", "orc", "hfile", "lance", "Vortex2"])
base_files = st.builds(BaseFileName, file_ids, tokens, instants, extensions)
log_files = st.builds(
    LogFileName, file_ids, instants, st.integers(0, 2**31 - 1), st.none() | tokens
) | st.builds(
    LogFileName, file_ids, instants, st.integers(0, 9), tokens, st.just("log"), st.booleans()
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "00000000-5e80-4b54-a99b-d97c2c9ba68b_0-24-55_20261121041612311.parquet",
            BaseFileName(
                "00000000-5e80-4b54-a99b-d97c2c9ba68b", "0-24-55", "20261121041612311", "parquet"
            ),
        ),
        (
            "files-0000-0_0-5-4_00000000000000000.hfile",
            BaseFileName("files-0000-0", "0-5-4", "00000000000000000", "hfile"),
        ),
        (
            "00000002-0000-4035-a392-22a91eafd130_0-2-0_20210527160855.parquet",
            BaseFileName(
                "00000002-0000-4035-a392-22a91eafd130", "0-2-0", "20210527160855", "parquet"
            ),
        ),
    ],
)
def test_base_file_names(name: str, expected: BaseFileName) -> None:
    assert parse_base_file_name(name) == expected
    assert find_data_file_name(name) == expected
    assert str(expected) == name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            ".00000000-d2b6-4403-8834-6d6fb7a4c582-0_20261121035906871.log.2_0-29-60",
            LogFileName(
                "00000000-d2b6-4403-8834-6d6fb7a4c582-0", "20261121035906871", 2, "0-29-60"
            ),
        ),
        (".a-0_001.log.1", LogFileName("a-0", "001", 1, None)),
        (".a-0_001.log.1_1-0-1.cdc", LogFileName("a-0", "001", 1, "1-0-1", is_cdc=True)),
        (
            ".record-index-us%2Fca%2Deu-0000-0_20261121035906871.log.1_0-1-0",
            LogFileName("record-index-us%2Fca%2Deu-0000-0", "20261121035906871", 1, "0-1-0"),
        ),
    ],
)
def test_log_file_names(name: str, expected: LogFileName) -> None:
    assert parse_log_file_name(name) == expected
    assert find_data_file_name(name) == expected
    assert str(expected) == name


def test_an_archive_file_is_a_log_file_but_no_data_file() -> None:
    name = ".commits_.archive.3_1-0-1"
    assert parse_log_file_name(name) == LogFileName("commits", "", 3, "1-0-1", "archive")
    assert str(parse_log_file_name(name)) == name
    assert find_data_file_name(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        ".hoodie_partition_metadata",
        ".hoodie_partition_metadata.parquet",
        "..hoodie_partition_metadata.crc",
        ".00000000-5e80-4b54-a99b-d97c2c9ba68b_0-24-55_20261121041612311.parquet.crc",
        "..a-0_001.log.1_0-0-1.crc",
        "00000000000000.commit",
        "part-00000-67a0f2b1-c000.snappy.parquet",
        "a_0-1-0_001.",
        "a_0-1-0_001.t-t",
        "a_0-1-0_.parquet",
        "a_0-1-0_00x.parquet",
        "a_0-1-0_001_2.parquet",
        "a/b_0-1-0_001.parquet",
        "../a_0-1-0_001.parquet",
        "a_0-1-0_001.parquet\n",
        ".a-0_.log.1_0-0-1",
        ".a-0_001.log.1_0-0-1\n",
        ".a-0_001.log.1_0-0",
        ".a-0_001.log.1.cdc",
        ".a-0_001.log.99999999999",
        ".a-0_001.log.2147483648",
        ".a-0_001.log.01",
        ".a/../b_001.log.1",
        ".a\\b_001.log.1",
        ".a\x00b_001.log.1",
        ".a-0_٠٠١.log.1",
    ],
)
def test_other_files_are_no_data_files(name: str) -> None:
    assert find_data_file_name(name) is None
    with pytest.raises(CorruptError):
        parse_base_file_name(name)
    with pytest.raises(CorruptError):
        parse_log_file_name(name)


@pytest.mark.rule("NAME-8")
def test_a_file_from_outside_hudi_is_not_passed_over() -> None:
    with pytest.raises(UnsupportedError, match="outside Hudi"):
        find_data_file_name("data.parquet_20240101000000_hudiext")


def test_log_files_sort_as_hudi_sorts_them() -> None:
    names = [
        ".a-0_001.log.1",
        ".a-0_001.log.1_0-0-1",
        ".a-0_001.log.1_1-0-1",
        ".a-0_001.log.1_1-0-1.cdc",
        ".a-0_001.log.1_10-0-1",
        ".a-0_001.log.1_2-0-1",
        ".a-0_001.log.2_0-0-1",
        ".a-0_001.log.10_0-0-1",
        ".a-0_002.log.1_0-0-1",
    ]
    parsed = [parse_log_file_name(name) for name in reversed(names)]
    assert [str(name) for name in sorted(parsed, key=lambda name: name.sort_key)] == names


def test_write_tokens_order_as_text() -> None:
    assert format_write_token(10, 0, 1) == "10-0-1"
    assert parse_write_token("10-0-1") == WriteToken(10, 0, 1)
    assert str(parse_write_token("10-0-1")) == "10-0-1"
    assert parse_write_token("10-0-1") < parse_write_token("2-0-1")
    assert parse_write_token("2-0-1") >= parse_write_token("10-0-1")
    with pytest.raises(ValueError, match="negative"):
        format_write_token(0, -1, 0)


@pytest.mark.parametrize("text", ["", "1-0", "1-0-1-0", "01-0-1", "a-0-1", "1-0-1\n", "9" * 70])
def test_malformed_write_tokens(text: str) -> None:
    with pytest.raises(CorruptError):
        parse_write_token(text)


@pytest.mark.rule("NAME-10")
@pytest.mark.parametrize(
    ("file_id", "bucket_id"),
    [
        (FILE_ID, 2),
        ("00000000-0000-0000-0000-000000000000-0", 0),
        ("99999999", 99_999_999),
        ("0000000a-3283-49e3-9253-c8430b71b5e5-0", None),
        ("+0000001-3283-49e3-9253-c8430b71b5e5-0", None),
        ("٠٠٠٠٠٠٠١-3283", None),
        ("²²²²²²²²-3283", None),
        ("1234567", None),
        ("", None),
    ],
)
def test_bucket_id_of_a_file_id(file_id: str, bucket_id: int | None) -> None:
    assert find_bucket_id(file_id) == bucket_id


def test_bucket_file_ids() -> None:
    assert format_bucket_file_id(2, UUID) == FILE_ID
    assert format_bucket_file_id(2, UUID, with_suffix=False) == FILE_ID.removesuffix("-0")
    assert format_nbcc_file_id(3) == "00000003-0000-0000-0000-000000000000-0"
    prefix = "cd524024-9cdd-3644-b9b2-3dd0a5f000e3"
    assert format_consistent_file_id(prefix) == f"{prefix}-0"
    for bucket_id in (-1, 100_000_000):
        with pytest.raises(ValueError, match="bucket id"):
            format_bucket_file_id(bucket_id, UUID)
        with pytest.raises(ValueError, match="bucket id"):
            format_nbcc_file_id(bucket_id)
    with pytest.raises(ValueError, match="not a UUID"):
        format_bucket_file_id(1, "7d2c1b4e")


def test_rfc_29_reads_hudis_names() -> None:
    uuid = "00000002-0000-4035-a392-22a91eafd130"
    name = f"{uuid}_0-2-0_20210527160855.parquet"
    assert parse_bucket_file_name(name) == Rfc29FileName(2, uuid, uuid, "20210527160855")
    log = f".{FILE_ID}_20261121035906871.log.1_0-29-60"
    assert parse_bucket_file_name(log) == Rfc29FileName(
        2, FILE_ID, FILE_ID.removesuffix("-0"), "20261121035906871"
    )


def test_rfc_29_template_read_literally() -> None:
    name = f"00000002_fg-7_{UUID}_20210527160855.log"
    assert parse_bucket_file_name(name) == Rfc29FileName(2, "fg-7", UUID, "20210527160855")


@pytest.mark.parametrize(
    "name",
    [
        "cd524024-9cdd-3644-b9b2-3dd0a5f000e3-0_0-2-0_20210527160855.parquet",
        "files-0000-0_0-5-4_00000000000000000.hfile",
        "00000002_0-2-0_20210527160855.parquet",
        "README.md",
    ],
)
def test_rfc_29_needs_a_bucket_id(name: str) -> None:
    with pytest.raises(CorruptError):
        parse_bucket_file_name(name)


def test_marker_names() -> None:
    path = f"region=eu/day=1/{FILE_ID}_0-1-0_20261121035906871.parquet.marker.CREATE"
    marker = parse_marker_name(path)
    assert marker == MarkerName(
        "region=eu/day=1", f"{FILE_ID}_0-1-0_20261121035906871.parquet", IoType.CREATE
    )
    assert str(marker) == path
    unpartitioned = MarkerName("", ".a-0_001.log.1_0-0-1", IoType.APPEND)
    assert str(unpartitioned) == ".a-0_001.log.1_0-0-1.marker.APPEND"
    assert parse_marker_name(str(unpartitioned)) == unpartitioned
    twice = "eu/a.marker.CREATE.marker.MERGE"
    assert parse_marker_name(twice) == MarkerName("eu", "a.marker.CREATE", IoType.MERGE)
    for bad in ("", "MARKERS.type", "eu/a.marker", "eu/a.marker.DELETE", "eu/.marker.CREATE"):
        with pytest.raises(CorruptError):
            parse_marker_name(bad)
    with pytest.raises(UnsafePathError):
        parse_marker_name("../a_0-1-0_001.parquet.marker.CREATE")


@given(base_files | log_files)
def test_every_name_reads_back(name: BaseFileName | LogFileName) -> None:
    assert find_data_file_name(str(name)) == name


@given(st.text() | st.from_regex(r"\.[^_]*_.*\.log\..*") | st.from_regex(r".*_.*_.*\.parquet"))
def test_any_text_parses_or_is_refused(text: str) -> None:
    found = find_data_file_name(text)
    if found is not None:
        assert str(found) == text
        assert not re.search(r"[/\\\x00-\x1f]", text)
    for parse in (parse_bucket_file_name, parse_marker_name, parse_write_token):
        with contextlib.suppress(BucketfmtError):
            parse(text)


SIMPLE_BUCKETS = [
    "cow",
    "mor",
    "mor_compacted",
    "cleaned",
    "complexkey",
    "intkey",
    "nonpart",
    "mdt_bucket",
    "parquet_log",
    "partlevel",
]


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.rule("NAME-1", "NAME-3", "NAME-7")
@pytest.mark.parametrize(("version", "table"), GOLDEN)
def test_every_file_hudi_wrote(version: str, table: str, golden) -> None:
    root: Path = golden(version, table)
    metafiles = list(root.rglob(".hoodie_partition_metadata"))
    for metafile in metafiles:
        for path in metafile.parent.iterdir():
            # Hudi 0.15 leaves hashing markers in the partition
            if path.is_dir() or path == metafile or path.suffix in (".crc", ".commit"):
                assert find_data_file_name(path.name) is None
                continue
            found = find_data_file_name(path.name)
            assert found is not None, path
            assert str(found) == path.name
            if table in SIMPLE_BUCKETS and ".hoodie" not in path.relative_to(root).parts:
                assert find_bucket_id(found.file_id) in range(8)
                assert parse_bucket_file_name(path.name).bucket_id in range(8)
    assert metafiles
    for path in root.rglob("*.hashing_meta"):
        assert f'"instant" : "{parse_hashing_metadata_name(path.name)}"' in path.read_text()
