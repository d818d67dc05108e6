from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, ChecksumError, CorruptError, LimitError
from bucketfmt.format.table.properties import (
    PartitionMetadata,
    check_table_checksum,
    decode_partition_metadata,
    decode_properties,
    encode_partition_metadata,
    encode_properties,
    table_checksum,
)
from bucketfmt.limits import Limits
from tests.golden import GOLDEN

text = st.text(st.characters(exclude_categories=("Cs",)) | st.sampled_from(" \t\n\r\f\\=:#!é😀"))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # separators and white space
        (b"a=1", {"a": "1"}),
        (b"a:1", {"a": "1"}),
        (b"a 1", {"a": "1"}),
        (b"  a \t=\f 1 ", {"a": "1 "}),
        (b"a = = 1", {"a": "= 1"}),
        (b"a : = 1", {"a": "= 1"}),
        (b"a", {"a": ""}),
        (b"a=", {"a": ""}),
        (b"=1", {"": "1"}),
        (b":", {"": ""}),
        (b"a=1\nb=2\rc=3\r\nd=4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        (b"a=1\na=2", {"a": "2"}),
        # comments and blank lines
        (b"# x\n! y\n  # z\n\n \t\na=1", {"a": "1"}),
        (b"# x \\\na=1", {"a": "1"}),
        (b"a=1#2!3", {"a": "1#2!3"}),
        # continued lines
        (b"a=1\\\n  2", {"a": "12"}),
        (b"a=1\\\r\n\t2", {"a": "12"}),
        (b"a\\\nb=1", {"ab": "1"}),
        (b"a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        (b"a=1\\\\\\\nb=2", {"a": "1\\b=2"}),
        (b"a=1\\\n# no comment", {"a": "1# no comment"}),
        (b"a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        (b"\\\n# comment\na=1", {"a": "1"}),
        (b"a=1\\", {"a": "1"}),
        (b"", {}),
        # escapes
        (b"a\\=b\\:c\\ d=1", {"a=b:c d": "1"}),
        (b"a=\\t\\n\\r\\f\\b\\z\\\\", {"a": "\t\n\r\fbz\\"}),
        (b"a=\\ 1", {"a": " 1"}),
        (b"a=\\u0041\\u00e9\\u65E5", {"a": "Aé日"}),
        (b"a=\\ud83d\\ude00", {"a": "😀"}),
        (b"a=\\\\u0041", {"a": "\\u0041"}),
        (b"\\#a=1\n\\!b=2", {"#a": "1", "!b": "2"}),
        # ISO 8859-1, not UTF-8
        (b"a=\xe9\xff", {"a": "éÿ"}),
        (b"a\xa0b=1", {"a\xa0b": "1"}),
    ],
)
def test_what_java_loads(data: bytes, expected: dict[str, str]) -> None:
    assert decode_properties(data) == expected


@pytest.mark.parametrize("data", [b"a=\\u12", b"a=\\u", b"\\u00zz=1", b"a=\\uD83D", b"a=\\uDE00x"])
def test_malformed_escapes(data: bytes) -> None:
    with pytest.raises(CorruptError):
        decode_properties(data)


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("a", "1", b"a=1\n"),
        ("a", "", b"a=\n"),
        ("", "1", b"=1\n"),
        ("a", "  b c ", b"a=\\  b c \n"),
        ("k ey:=#!", "x", b"k\\ ey\\:\\=\\#\\!=x\n"),
        ("a", ":=#!\\", b"a=\\:\\=\\#\\!\\\\\n"),
        ("a", "\t\n\r\f\x01~\x7f", b"a=\\t\\n\\r\\f\\u0001~\\u007F\n"),
        ("a\xa0b", "é日😀", b"a\\u00A0b=\\u00E9\\u65E5\\uD83D\\uDE00\n"),
        (
            "hoodie.table.create.schema",
            '{"type":"record"}',
            b'hoodie.table.create.schema={"type"\\:"record"}\n',
        ),
    ],
)
def test_what_java_stores(key: str, value: str, line: bytes) -> None:
    assert encode_properties({key: value}) == line
    assert decode_properties(line) == {key: value}


def test_comments_and_order() -> None:
    assert encode_properties({"b": "1", "a": "2"}, ["Updated at x", "é 日"]) == (
        b"#Updated at x\n#\xe9 \\u65E5\nb=1\na=2\n"
    )
    with pytest.raises(ValueError, match="one line"):
        encode_properties({}, ["a\nb"])


@given(st.dictionaries(text, text), st.lists(st.text(st.characters(exclude_categories=["C", "Z"]))))
def test_everything_stored_loads_back(properties: dict[str, str], comments: list[str]) -> None:
    assert decode_properties(encode_properties(properties, comments)) == properties


@given(st.binary() | st.lists(st.sampled_from(b"\\\n\r=: \tu04D8#ab")).map(bytes))
def test_any_bytes_load_or_are_refused(data: bytes) -> None:
    try:
        properties = decode_properties(data)
        decode_partition_metadata(data)
    except BucketfmtError:
        return
    assert all(isinstance(value, str) for value in properties.values())


def test_size_is_bounded() -> None:
    with pytest.raises(LimitError, match="properties_bytes_max"):
        decode_properties(b"a=1\n", Limits(properties_bytes_max=3))


@pytest.mark.parametrize(
    ("unit", "key"),
    [
        (b"\\\n", None),
        (b"x\\\n", "x" * 100_000),
        (b"a\n", "a"),
        (b"\\\\", "\\" * 100_000),
        (b"\\u0041", "A" * 100_000),
        (b" ", None),
        (b"\\a", "a" * 100_000),
    ],
)
def test_what_recurs_takes_linear_time(unit: bytes, key: str | None) -> None:
    """Else it would not end."""
    assert decode_properties(unit * 100_000) == ({} if key is None else {key: ""})


@pytest.mark.parametrize(
    ("name", "database", "checksum"),
    [
        ("cow", "", 121430431),
        ("cow_metadata", "", 1229203194),
        ("mor", "", 2110273562),
        ("sq", "default", 3833911162),
        ("v8_trips_8i3u1d", "default", 1197752875),
        ("v6_nonpartitioned", "default", 1363530505),
    ],
)
def test_table_checksum(name: str, database: str, checksum: int) -> None:
    assert table_checksum(name, database) == checksum
    properties = {
        "hoodie.table.name": name,
        "hoodie.database.name": database,
        "hoodie.table.checksum": str(checksum),
    }
    check_table_checksum(properties)
    with pytest.raises(ChecksumError, match=r"hoodie\.properties\.backup"):
        check_table_checksum({**properties, "hoodie.table.name": "other"})


def test_a_table_without_checksum_needs_a_name() -> None:
    check_table_checksum({"hoodie.table.name": "cow"})
    with pytest.raises(CorruptError, match=r"hoodie\.table\.name"):
        check_table_checksum({"hoodie.table.type": "COPY_ON_WRITE"})
    for checksum in ("", "x", "-1", "١", "9" * 5000):
        with pytest.raises(CorruptError, match="not a number"):
            check_table_checksum({"hoodie.table.name": "cow", "hoodie.table.checksum": checksum})


def test_partition_metadata() -> None:
    data = (
        b"#partition metadata\n#Sat Nov 21 04:41:31 UTC 2026\n"
        b"commitTime=20261121044131253\npartitionDepth=1\n"
    )
    metadata = PartitionMetadata("20261121044131253", 1)
    assert decode_partition_metadata(data) == metadata
    assert encode_partition_metadata(metadata) == (
        b"#partition metadata\ncommitTime=20261121044131253\npartitionDepth=1\n"
    )
    assert decode_partition_metadata(encode_partition_metadata(metadata)) == metadata


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"commitTime=1\n",
        b"partitionDepth=1\n",
        b"commitTime=1\npartitionDepth=-1\n",
        b"commitTime=1\npartitionDepth=x\n",
        b"PAR1\x15\x04",
    ],
)
def test_incomplete_partition_metadata(data: bytes) -> None:
    with pytest.raises(CorruptError):
        decode_partition_metadata(data)


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.rule("PROP-1", "PROP-4")
@pytest.mark.parametrize(("version", "table"), GOLDEN)
def test_every_properties_file_hudi_wrote(version: str, table: str, golden) -> None:
    root: Path = golden(version, table)
    files = list(root.rglob("hoodie.properties"))
    assert files
    for path in files:
        data = path.read_bytes()
        properties = decode_properties(data)
        check_table_checksum(properties)
        comments = [line[1:].decode() for line in data.splitlines() if line.startswith(b"#")]
        assert encode_properties(properties, comments) == data
    for base in (root, root / ".hoodie" / "metadata"):
        for path in base.rglob(".hoodie_partition_metadata"):
            folder = path.parent.relative_to(base)
            if ".hoodie" not in folder.parts:
                metadata = decode_partition_metadata(path.read_bytes())
                assert metadata.partition_depth == len(folder.parts)
                assert metadata.commit_time.isdigit()
