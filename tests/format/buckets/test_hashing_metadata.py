"""Consistent hashing metadata: Hudi's own files, hostile ones, and which one is in force."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, LimitError
from bucketfmt.format.buckets.hashing_metadata import (
    HashingMetadata,
    choose_hashing_metadata,
    decode_hashing_metadata,
    encode_hashing_metadata,
    initial_hashing_metadata,
)
from bucketfmt.format.buckets.ring import HashingNode
from bucketfmt.limits import Limits
from tests.golden import GOLDEN

INIT = "00000000000000"
RINGED = [g for g in GOLDEN if g[1].startswith("ch_")]

EXAMPLE = b"""{
  "version" : 0,
  "partitionPath" : "a",
  "instant" : "00000000000000",
  "numBuckets" : 2,
  "seqNo" : 0,
  "nodes" : [ {
    "value" : 1073741824,
    "fileIdPrefix" : "cd524024-9cdd-3644-b9b2-3dd0a5f000e3",
    "tag" : "NORMAL"
  }, {
    "value" : 2147483647,
    "fileIdPrefix" : "3cb365d6-7de0-3e27-9567-076096e7f7fc",
    "tag" : "NORMAL"
  } ]
}"""

DEEP = 2_000_000  # deeper than any stack of an interpreter


def metadata_files(table: Path) -> list[Path]:
    folder = table / ".hoodie/.bucket_index/consistent_hashing_metadata"
    return sorted(folder.rglob("*.hashing_meta"))


@pytest.mark.parametrize(("version", "name"), RINGED)
def test_every_file_hudi_wrote_reencodes_to_the_byte(
    version: str, name: str, golden: Callable[[str, str], Path]
) -> None:
    files = metadata_files(golden(version, name))
    assert files
    for path in files:
        data = path.read_bytes()
        metadata = decode_hashing_metadata(data)
        assert encode_hashing_metadata(metadata) == data
        assert metadata.instant == path.name.removesuffix(".hashing_meta")
        assert metadata.partition_path == path.parent.name
        if metadata.instant == INIT:
            initial = initial_hashing_metadata(metadata.partition_path, metadata.num_buckets)
            assert initial == metadata


def load(path: Path) -> HashingMetadata:
    return decode_hashing_metadata(path.read_bytes())


def test_the_file_as_the_document_shows_it() -> None:
    metadata = decode_hashing_metadata(EXAMPLE)
    assert metadata == HashingMetadata(
        version=0,
        partition_path="a",
        instant=INIT,
        num_buckets=2,
        seq_no=0,
        nodes=(
            HashingNode(1073741824, "cd524024-9cdd-3644-b9b2-3dd0a5f000e3"),
            HashingNode(2147483647, "3cb365d6-7de0-3e27-9567-076096e7f7fc"),
        ),
    )
    assert encode_hashing_metadata(metadata) == EXAMPLE


def test_the_layout_of_rfc_42() -> None:
    document = {
        "version": 1,
        "partition_path": "2024/01",
        "instant": "20240102030405",
        "num_buckets": 2,
        "bucket_mappings": [
            {"hash_value": 1073741823, "file_group": "one"},
            {"hash_value": 0x7FFFFFFF, "file_group": "two"},
        ],
        "statistics": {"unknown": [1.5]},
    }
    assert decode_hashing_metadata(json.dumps(document).encode()) == HashingMetadata(
        version=1,
        partition_path="2024/01",
        instant="20240102030405",
        num_buckets=2,
        seq_no=0,
        nodes=(HashingNode(1073741823, "one"), HashingNode(0x7FFFFFFF, "two")),
    )
    document["bucket_mappings"] = []
    with pytest.raises(CorruptError, match="at least one node"):
        decode_hashing_metadata(json.dumps(document).encode())


def test_unknown_properties_and_any_whitespace_are_read() -> None:
    document = json.loads(EXAMPLE)
    document["later"] = {"nodes": [1, None, "x"]}
    document["nodes"][0]["weight"] = 1.5
    compact = json.dumps(document, separators=(",", ":")).encode()
    assert decode_hashing_metadata(compact) == decode_hashing_metadata(EXAMPLE)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (EXAMPLE, b"", "hashing metadata"),
        (EXAMPLE, b"[]", "hashing metadata"),
        (EXAMPLE, b"\xff", "hashing metadata"),
        (EXAMPLE, b"{" * 100_000, "hashing metadata"),
        (
            b'"seqNo" : 0,',
            b'"seqNo" : 0, "x" : ' + b"[" * 2_000_000 + b"]" * 2_000_000 + b",",
            "hashing",
        ),
        (b'"version" : 0', b'"version" : 0, "version" : 0', "given twice"),
        (b'"value" : 1073741824', b'"value" : 1, "value" : 1073741824', "given twice"),
        (b'"version" : 0', b'"version" : ' + b"9" * 30, "version"),
        (b'"version" : 0', b'"later" : ' + b"9" * 5000 + b', "version" : 0', "hashing metadata"),
        (b'"seqNo" : 0', b'"seqNo" : 1.5', "seqNo"),
        (b'"seqNo" : 0', b'"seqNo" : -1', "seqNo"),
        (b'"seqNo" : 0', b'"seqNo" : "0"', "seqNo"),
        (b'"seqNo" : 0,', b"", "seqNo"),
        (b'"00000000000000"', b'"../../x"', "instant"),
        (b'"00000000000000"', b'"00000000000000\\n"', "instant"),
        (b'"a"', b'"\\ud800"', "hashing metadata"),
        (b'"a"', b"null", "partitionPath"),
        (b'"NORMAL"', b'"SPARE"', "tag"),
        (b"1073741824", b"-1", "value"),
        (b"1073741824", b"2147483648", "value"),
        (b"1073741824", b"2147483647", "ascend strictly"),
        (b"2147483647", b"7", "ascend strictly"),
        (b'"cd524024-9cdd-3644-b9b2-3dd0a5f000e3"', b"null", "no file id prefix"),
        (b'"cd524024-9cdd-3644-b9b2-3dd0a5f000e3"', b'""', "no file id prefix"),
    ],
)
def test_what_is_no_hashing_metadata_is_corrupt(old: bytes, new: bytes, message: str) -> None:
    data = EXAMPLE.replace(old, new)
    assert data != EXAMPLE
    with pytest.raises(CorruptError, match=message):
        decode_hashing_metadata(data)


def test_limits_hold() -> None:
    with pytest.raises(LimitError, match="ring_nodes_max"):
        decode_hashing_metadata(EXAMPLE, Limits(ring_nodes_max=1))
    with pytest.raises(LimitError, match="hashing_metadata_bytes_max"):
        decode_hashing_metadata(EXAMPLE, Limits(hashing_metadata_bytes_max=100))


METADATA = st.builds(
    HashingMetadata,
    version=st.integers(0, 9),
    partition_path=st.text(),
    instant=st.sampled_from([INIT, "20260102030405678"]),
    num_buckets=st.integers(1, 2**31 - 1),
    seq_no=st.integers(0, 2**31 - 1),
    nodes=st.dictionaries(st.integers(0, 2**31 - 1), st.text(min_size=1), min_size=1).map(
        lambda ring: tuple(HashingNode(value, ring[value]) for value in sorted(ring))
    ),
)


@given(METADATA)
def test_round_trip(metadata: HashingMetadata) -> None:
    assert decode_hashing_metadata(encode_hashing_metadata(metadata)) == metadata


@given(st.binary() | st.lists(st.sampled_from(EXAMPLE.split(b" "))).map(b" ".join))
def test_any_bytes_decode_or_raise(data: bytes) -> None:
    try:
        assert msgspec.structs.asdict(decode_hashing_metadata(data))
    except BucketfmtError:
        return


T1, T2, T3 = "20260101000000001", "20260101000000002", "20260101000000003"


@pytest.mark.rule("RING-13", "RING-14", "RING-15")
@pytest.mark.parametrize(
    ("instants", "markers", "completed", "pending", "with_files", "chosen"),
    [
        ([], [], [], [], [], None),
        ([INIT], [], [], [], [], INIT),
        ([INIT], [INIT, T1], [], [], [], INIT),  # markers do not count against a lone first file
        ([INIT, T1], [T1], [], [], [], T1),  # marked
        ([INIT, T1], [], [T1], [], [], T1),  # on the timeline
        ([INIT, T1], [], [], [T1], [T1], INIT),  # clustering still pending
        ([INIT, T1], [], [], [], [T1], T1),  # archived, but its files are there
        ([INIT, T1], [], [], [], [], INIT),  # left over from an aborted clustering
        ([T1], [], [], [], [], None),
        ([INIT, T1, T2], [T1], [], [T2], [], T1),
        ([INIT, T1, T2], [INIT, T1], [T2], [], [], T2),
        ([INIT, T1, T2, T3], [T1], [T1, T2], [], [], T2),  # T3 was aborted
        ([T3, INIT, T2, T1], [T1], [T2], [T3], [T3], T2),  # in any order
        ([INIT, T1, T2], [T2], [T1], [], [], T2),
    ],
)
def test_choose_hashing_metadata(
    instants: list[str],
    markers: list[str],
    completed: list[str],
    pending: list[str],
    with_files: list[str],
    chosen: str | None,
) -> None:
    found = choose_hashing_metadata(
        instants, markers, completed, pending, lambda instant: instant in with_files
    )
    assert found == chosen


@pytest.mark.rule("RING-16")
def test_a_marker_without_its_file_is_corrupt() -> None:
    with pytest.raises(CorruptError, match=f"{T2} is marked"):
        choose_hashing_metadata([INIT, T1], [T2], [], [], lambda _: False)


@pytest.mark.rule("RING-16")
@pytest.mark.parametrize("is_archived", [False, True])
def test_a_later_ring_takes_the_place_of_a_marked_one_that_is_lost(is_archived: bool) -> None:
    completed = [] if is_archived else [T3]
    for instants in ([T3], [T1, T3], [INIT, T1, T3]):
        assert choose_hashing_metadata(instants, [T2], completed, [], lambda _: True) == T3
    with pytest.raises(CorruptError, match=f"{T2} is marked"):
        choose_hashing_metadata([T1, T3], [T2], [T1], [T3], lambda _: True)


def test_base_files_are_looked_at_only_where_the_timeline_is_silent() -> None:
    asked: list[str] = []

    def has_base_file_of(instant: str) -> bool:
        asked.append(instant)
        return False

    chosen = choose_hashing_metadata([INIT, T1, T2, T3], [], [T1], [T3], has_base_file_of)
    assert (chosen, asked) == (T1, [T2])
