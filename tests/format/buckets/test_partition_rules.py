"""Partition-level bucket rules: Hudi's own files, and how rules are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, LimitError, UnsupportedError
from bucketfmt.format.buckets.partition_rules import (
    PartitionBucketRules,
    choose_hashing_config,
    decode_hashing_config,
    encode_hashing_config,
)
from bucketfmt.limits import Limits
from tests.golden import GOLDEN

EXAMPLE = b"""{
  "expressions" : "2024-01,3;2024-02,1",
  "defaultBucketNumber" : 2,
  "rule" : "regex",
  "version" : 1,
  "instant" : "20261121041605328"
}"""


@pytest.mark.parametrize(("version", "name"), [g for g in GOLDEN if g[1] == "partrules"])
def test_every_file_hudi_wrote_reencodes_to_the_byte(
    version: str, name: str, golden: Callable[[str, str], Path]
) -> None:
    folder = golden(version, name) / ".hoodie/.bucket_index/partition_bucket_index_meta/configs"
    files = sorted(folder.glob("*.hashing_config"))
    decoded = [decode_hashing_config(path.read_bytes()) for path in files]
    assert [encode_hashing_config(rules) for rules in decoded] == [f.read_bytes() for f in files]
    assert [f"{rules.instant}.hashing_config" for rules in decoded] == [f.name for f in files]
    assert [rules.expressions for rules in decoded] == ["us,4;eu,3", "us,1;ap,5"]
    numbers = [decoded[-1].num_buckets_for(path) for path in ("us", "eu", "ap")]
    assert numbers == [1, 2, 5]


def test_the_file_of_another_table() -> None:
    rules = decode_hashing_config(EXAMPLE)
    expected = PartitionBucketRules("2024-01,3;2024-02,1", 2, instant="20261121041605328")
    assert rules == expected
    assert encode_hashing_config(rules) == EXAMPLE
    paths = ("p=2024-01-01", "p=2024-02-01", "p=2024-03-01", "")
    assert [rules.num_buckets_for(path) for path in paths] == [3, 1, 2, 2]


@pytest.mark.parametrize(
    ("expressions", "partition_path", "number"),
    [
        ("^a$,2;b,3", "a", 2),
        ("^a$,2;b,3", "abc", 3),
        ("a,2;a,3", "a", 2),  # the first match wins
        (" a , 2 ; b ,\t3 ", "b", 3),  # trimmed
        ("a,2;b,3;;", "b", 3),  # String.split drops empty parts at the end
        ("a,2,,", "a", 2),
        (",7", "anything", 7),  # the empty regex is found everywhere
        (";", "a", 9),  # no rules at all
        ("a,-1", "a", 9),  # Hudi's sign for "no rule matched"
        ("a,-1;a,5", "a", 9),
        ("a,+5", "a", 5),
    ],
)
def test_num_buckets_for(expressions: str, partition_path: str, number: int) -> None:
    assert PartitionBucketRules(expressions, 9).num_buckets_for(partition_path) == number


@pytest.mark.parametrize(
    "expressions",
    ["", " ", "a", "a,", "a,2;;b,3", "a,b", "a,2,3", "a,1_0", "a,2.0", "a,99999999999"],
)
def test_rules_that_hudi_refuses_are_corrupt(expressions: str) -> None:
    with pytest.raises(CorruptError, match="not 'regex,number'"):
        PartitionBucketRules(expressions, 9).num_buckets_for("a")


@pytest.mark.parametrize(("expressions", "default"), [("a,0", 9), ("a,-2", 9), ("b,1", 0)])
def test_no_buckets_at_all_are_corrupt(expressions: str, default: int) -> None:
    with pytest.raises(CorruptError, match="buckets"):
        PartitionBucketRules(expressions, default).num_buckets_for("a")


def test_what_is_not_supported_is_named() -> None:
    with pytest.raises(UnsupportedError, match=r"rule 'us\+\+,8'"):
        PartitionBucketRules("eu,2;us++,8", 4).num_buckets_for("ap")
    with pytest.raises(UnsupportedError, match="kind 'date'"):
        PartitionBucketRules("eu,2", 4, rule="date").num_buckets_for("ap")
    assert PartitionBucketRules("eu,2", 4, rule="Regex").num_buckets_for("ap") == 4


def test_limits_hold() -> None:
    rules = PartitionBucketRules("a,2;b,1000", 4)
    with pytest.raises(LimitError, match="partition_rules_max"):
        rules.num_buckets_for("a", Limits(partition_rules_max=1))
    with pytest.raises(LimitError, match="num_buckets_max"):
        rules.num_buckets_for("b", Limits(num_buckets_max=999))
    with pytest.raises(LimitError, match="hashing_metadata_bytes_max"):
        decode_hashing_config(EXAMPLE, Limits(hashing_metadata_bytes_max=10))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (EXAMPLE, b""),
        (EXAMPLE, b"{}"),
        (b'"20261121041605328"', b'"../x"'),
        (b" 2,", b" 2.5,"),
        (b" 2,", b" 99999999999,"),
        (b'"regex"', b"null"),
    ],
)
def test_what_is_no_hashing_config_is_corrupt(old: bytes, new: bytes) -> None:
    with pytest.raises(CorruptError, match="hashing config"):
        decode_hashing_config(EXAMPLE.replace(old, new))


@given(
    st.builds(
        PartitionBucketRules,
        st.text(),
        st.integers(-(2**31), 2**31 - 1),
        st.text(),
        st.integers(0, 9),
        st.sampled_from(["00000000000000", "20260102030405678"]),
    )
)
def test_round_trip(rules: PartitionBucketRules) -> None:
    assert decode_hashing_config(encode_hashing_config(rules)) == rules


@given(st.binary() | st.lists(st.sampled_from(EXAMPLE.split(b" "))).map(b" ".join), st.text())
def test_any_bytes_give_a_number_or_raise(data: bytes, partition_path: str) -> None:
    try:
        assert decode_hashing_config(data).num_buckets_for(partition_path) > 0
    except BucketfmtError:
        return


@given(st.text() | st.text("ab,;0123 ^$.*", max_size=20), st.text(max_size=10))
def test_any_rules_give_a_number_or_raise(expressions: str, partition_path: str) -> None:
    try:
        assert PartitionBucketRules(expressions, 3).num_buckets_for(partition_path) > 0
    except BucketfmtError:
        return


@pytest.mark.parametrize(
    ("instants", "pending", "archived", "as_of", "chosen"),
    [
        ([], [], [], None, None),
        (["3", "1", "2"], [], [], None, "3"),
        (["1", "2", "3"], ["3"], [], None, "2"),
        (["3"], ["3"], ["1"], None, None),
        (["1", "2", "3"], [], [], "2", "2"),
        (["1", "3"], [], [], "2", "1"),
        (["3"], [], ["1", "2"], "2", "2"),
        (["2", "3"], ["2"], ["1"], "2", "1"),
        (["3"], [], ["2"], "1", None),
    ],
)
def test_choose_hashing_config(
    instants: list[str],
    pending: list[str],
    archived: list[str],
    as_of: str | None,
    chosen: str | None,
) -> None:
    assert choose_hashing_config(instants, pending, archived, as_of) == chosen
