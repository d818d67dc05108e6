from __future__ import annotations

from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import (
    BucketfmtError,
    CorruptError,
    KeyEncodingError,
    LimitError,
    UnsafePathError,
)
from bucketfmt.format.names.paths import (
    DEFAULT_PARTITION,
    check_partition_path,
    check_relative_path,
    escape_partition_value,
    format_partition_path,
    join_path,
    parse_partition_path,
    unescape_partition_value,
)
from bucketfmt.limits import Limits
from tests.golden import GOLDEN

nasty_text = st.lists(
    st.sampled_from([*"./\\%:~ a2eEfF5cC", "..", "%2e", "%2F", "%5c", "．", "／", "‥", "\x00"])
).map("".join)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "us",
        "region=us%2Fca",
        "region=us%2Fca/day=2024-01-01",
        "region=__HIVE_DEFAULT_PARTITION__",
        "2024/01/01",
        "region=100%",
        "region=%zz",
        "a=1.5/b=..x/c=x../d=.hidden",
        "a=%2E%2Ex",
        "time/10:11:12",
        "%252e%252e",
        "a b/日本/ß/😀",
        "東京／大阪",
        " ",
        "~",
        "us%5Cca",
        ".hoodie/timeline/20261121035636929_20261121035655993.commit",
    ],
)
def test_ordinary_paths_pass_unchanged(path: str) -> None:
    assert check_relative_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        # parent and same folder
        "..",
        "../x",
        "a/../b",
        "a/..",
        ".",
        "./a",
        "a/./b",
        "a/.. /b",
        "a/. ./b",
        "a/.../b",
        # absolute, empty components
        "/",
        "/etc/passwd",
        "//host/share",
        "a//b",
        "a/",
        # other separators, drives, schemes
        "a\\b",
        "..\\..\\x",
        "\\\\host\\share",
        "C:",
        "C:/Windows",
        "c:x",
        "file:/etc/passwd",
        "s3://bucket/key",
        "s3:key",
        "simplecache::file:/x",
        # control characters and what is no text
        "a\x00b",
        "a\nb",
        "a\x1b[2Jb",
        "a\x7f",
        "a\x85b",
        "a\ud800b",
        # one decoding away
        "%2e%2e",
        "%2E%2e/x",
        "a/.%2e/b",
        "a/%2e/b",
        "a%2F..",
        "a/..%2F..%2Fetc",
        "%2e%2e%2fx",
        "..%5Cx",
        "%2e%2e%5cx",
        # Unicode that folds to dots and separators
        "．．",
        "a/．．/b",
        "‥/x",
        "․․/x",
        "﹒﹒",
        "a／．．／b",
        "％2e％2e",
        "%２e%2e",
    ],
)
def test_paths_that_could_leave_the_root_are_refused(path: str) -> None:
    with pytest.raises(UnsafePathError):
        check_relative_path(path)


@pytest.mark.rule("PATH-10")
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("..", "points to another folder; change the value$"),
        ("us/.", "points to another folder; change the value$"),
        ("a\x85", "a control character; change the value$"),
        ("a\n", "a control character; change the value, or have values escaped"),
        ("a//b", "an empty component; change the value, or have values escaped"),
        ("a:b", "a drive or a URL scheme; change the value, or have values escaped"),
        (".hoodie", "Hudi keeps files of its own"),
        (".hoodie/timeline", "Hudi keeps files of its own"),
        ("region=us/.hoodie", "Hudi keeps files of its own"),
        (".hoodie_partition_metadata", "a file of its own by that name"),
        ("us/.hoodie_partition_metadata.parquet", "a file of its own by that name"),
        (".hoodie_partition_metadata_2/us", "a file of its own by that name"),
    ],
)
def test_partition_paths_that_are_not_written(path: str, reason: str) -> None:
    with pytest.raises(UnsafePathError, match=reason):
        check_partition_path(path)
    assert check_partition_path("region=.hoodie/.hoodies") == "region=.hoodie/.hoodies"


def test_length_is_bounded_in_bytes() -> None:
    assert check_relative_path("a" * 4096) == "a" * 4096
    with pytest.raises(LimitError, match="path_bytes_max"):
        check_relative_path("a" * 4097)
    with pytest.raises(LimitError, match="path_bytes_max"):
        check_relative_path("日" * 1366)
    with pytest.raises(LimitError, match="path_bytes_max"):
        check_relative_path("abc", Limits(path_bytes_max=2))


def test_the_message_stays_short_and_printable() -> None:
    with pytest.raises(UnsafePathError) as caught:
        check_relative_path("../" + "\x1b[31m" + "x" * 3000)
    assert len(str(caught.value)) < 300
    assert "\x1b" not in str(caught.value)


@pytest.mark.rule("PATH-1", "PATH-2")
@given(nasty_text | st.text())
def test_no_accepted_path_leaves_the_root(text: str) -> None:
    try:
        path = check_relative_path(text)
    except BucketfmtError:
        return
    assert path == text
    for reading in (path, unquote(path)):
        depth = 0
        for component in reading.replace("\\", "/").split("/"):
            depth += {"..": -1, ".": 0, "": 0}.get(component, 1)
            assert depth >= 0
    assert not PurePosixPath(path).is_absolute()
    assert ".." not in PurePosixPath(path).parts


def test_join_leaves_out_empty_parts() -> None:
    assert join_path("", "a.parquet") == "a.parquet"
    assert join_path("region=eu", "", "a.parquet") == "region=eu/a.parquet"
    assert join_path() == ""


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        ("us/ca", "us%2Fca"),
        ("a b", "a b"),
        ("100%", "100%25"),
        ("10:11", "10%3A11"),
        ("k=v", "k%3Dv"),
        ("\"#'*?\\{[]^", "%22%23%27%2A%3F%5C%7B%5B%5D%5E"),
        ("}_-.", "}_-."),
        ("\x00\t\n\x7f", "%00%09%0A%7F"),
        ("日本ß", "日本ß"),
        ("", DEFAULT_PARTITION),
        (None, DEFAULT_PARTITION),
    ],
)
def test_escaping(value: str | None, escaped: str) -> None:
    assert escape_partition_value(value) == escaped
    if value:
        assert unescape_partition_value(escaped) == value


def test_stray_percent_signs_stay() -> None:
    assert unescape_partition_value("100%") == "100%"
    assert unescape_partition_value("%zz%2%20") == "%zz%2 "
    assert unescape_partition_value("%+1%２0") == "%+1%２0"


@given(st.text(min_size=1))
def test_escaped_values_read_back(value: str) -> None:
    escaped = escape_partition_value(value)
    assert "/" not in escaped
    assert unescape_partition_value(escaped) == value


@pytest.mark.parametrize(
    ("values", "fields", "hive_style", "url_encoded", "path"),
    [
        ((), (), False, False, ""),
        (("us",), ("region",), False, False, "us"),
        (("us",), ("region",), True, False, "region=us"),
        (("us/ca",), ("region",), True, True, "region=us%2Fca"),
        (("us/ca",), ("region",), False, False, "us/ca"),
        ((None,), ("region",), True, True, "region=__HIVE_DEFAULT_PARTITION__"),
        (("us", "1"), ("region", "day"), True, False, "region=us/day=1"),
        (("us", None), ("region", "day"), False, False, "us/__HIVE_DEFAULT_PARTITION__"),
        (("a=b", "x y"), ("r", "s"), True, False, "r=a=b/s=x y"),
    ],
)
def test_partition_paths(values, fields, hive_style, url_encoded, path) -> None:
    assert format_partition_path(values, fields, hive_style, url_encoded) == path
    assert parse_partition_path(path, fields, hive_style, url_encoded) == values


@pytest.mark.rule("PATH-13")
@pytest.mark.parametrize("value", ["", DEFAULT_PARTITION])
def test_values_with_the_path_of_null_are_refused(value: str) -> None:
    for hive_style in (False, True):
        for url_encoded in (False, True):
            with pytest.raises(KeyEncodingError, match="the partition path of null"):
                format_partition_path((value,), ("r",), hive_style, url_encoded)


@pytest.mark.parametrize("value", ["..", "../x", "a//b", "/a", "a/", "a\\b", "c:x"])
def test_values_that_make_no_safe_path_need_url_encoding(value: str) -> None:
    with pytest.raises(UnsafePathError):
        format_partition_path((value,), ("region",), False, False)


@pytest.mark.parametrize(
    ("path", "fields", "hive_style"),
    [
        ("us", (), False),
        ("", ("region",), False),
        ("us", ("region", "day"), False),
        ("us/1/2", ("region", "day"), False),
        ("us", ("region",), True),
        ("day=1/region=us", ("region", "day"), True),
    ],
)
def test_paths_that_do_not_fit_the_fields(path, fields, hive_style) -> None:
    with pytest.raises(CorruptError):
        parse_partition_path(path, fields, hive_style, False)


def test_values_and_fields_must_agree() -> None:
    with pytest.raises(ValueError, match="zip"):
        format_partition_path(("us",), ("region", "day"), False, False)


@given(
    st.lists(
        st.tuples(st.from_regex("[a-z]{1,5}", fullmatch=True), st.none() | st.text(min_size=1)),
        max_size=3,
    ),
    st.booleans(),
)
def test_url_encoded_paths_read_back(columns, hive_style) -> None:
    fields = tuple(field for field, _ in columns)
    values = tuple(value for _, value in columns)
    try:
        path = format_partition_path(values, fields, hive_style, True)
    except BucketfmtError:
        return
    assert parse_partition_path(path, fields, hive_style, True) == values


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(("version", "table"), GOLDEN)
def test_every_path_hudi_wrote_passes(version: str, table: str, golden) -> None:
    root: Path = golden(version, table)
    for path in root.rglob("*"):
        relative = path.relative_to(root).as_posix()
        assert check_relative_path(relative) == relative


@pytest.mark.rule("PATH-6", "PATH-7")
@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
def test_escaped_partitions_of_a_real_table(version: str, golden) -> None:
    root: Path = golden(version, "intkey")
    partitions = sorted(path.name for path in root.iterdir() if path.name != ".hoodie")
    values = [parse_partition_path(path, ("region",), True, True)[0] for path in partitions]
    assert values == [None, "eu", "us/ca"]
    assert [format_partition_path((value,), ("region",), True, True) for value in values] == (
        partitions
    )
