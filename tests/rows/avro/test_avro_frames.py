"""Where the records of a data block begin: followed in many places at once, or one by one."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, LimitError, UnsupportedError
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.rows.avro import avro_frames
from bucketfmt.rows.avro.avro_frames import find_frames
from tests.rotation import examples


def block(*records: bytes, count: int | None = None, version: int = 3) -> np.ndarray:
    header = struct.pack(">ii", version, len(records) if count is None else count)
    frames = b"".join(struct.pack(">i", len(record)) + record for record in records)
    return np.frombuffer(header + frames, np.uint8)


def begins(records: list[bytes]) -> list[int]:
    positions = [8]
    for record in records:
        positions.append(positions[-1] + 4 + len(record))
    return positions


def many(seed: int, count: int, content: str) -> list[bytes]:
    """Records of a block large enough to be entered in many places."""
    rng = random.Random(seed)
    sizes = {"even": [200], "uneven": range(400), "few": [0, 0, 0, 5000], "empty": [0]}
    fill = {"even": b"abc\x02\x22", "uneven": bytes(range(256)), "few": b"\0", "empty": b""}
    pool = fill[content] * 40
    return [(pool[rng.randrange(40) :] * 20)[: rng.choice(sizes[content])] for _ in range(count)]


@pytest.mark.parametrize("content", ["even", "uneven", "few", "empty"])
@pytest.mark.parametrize("count", [4097, 20_000])
def test_long_chains(content: str, count: int) -> None:
    records = many(count, count, content)
    assert find_frames(block(*records), DEFAULT_LIMITS).tolist() == begins(records)


def test_long_chains_are_not_followed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(avro_frames, "_follow_alone")
    for content in ("even", "uneven"):
        records = many(1, 20_000, content)
        assert find_frames(block(*records), DEFAULT_LIMITS).tolist() == begins(records)


@settings(max_examples=examples(200))
@given(
    st.lists(st.binary(max_size=40) | st.integers(0, 60).map(bytes), min_size=1, max_size=60),
    st.integers(1, 8),
)
def test_short_chains_followed_in_many_places(records: list[bytes], per_lane: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro_frames, "_ALONE_MAX", per_lane)
        patch.setattr(avro_frames, "_RECORDS_PER_LANE", per_lane)
        patch.setattr(avro_frames, "_ENTRY_HOPS", 1)
        assert find_frames(block(*records), DEFAULT_LIMITS).tolist() == begins(records)


@pytest.mark.parametrize("alone_max", [0, 100])
@pytest.mark.parametrize(
    ("data", "match"),
    [
        (block(b"abcd", count=2), "record 1 of 2"),
        (block(b"abc", b"", count=1), "4 bytes follow"),
        (block(b"abc", count=0), "7 bytes follow"),
        (block(b"abc")[:-1], "record 0 of 1"),
        (block(b"abc", count=-1), "negative count"),
        (block(b"abc", count=2**31 - 1), "cannot fit"),
        (np.frombuffer(struct.pack(">iiii", 3, 1, -1, 0), np.uint8), "record 0 of 1"),
        (np.frombuffer(struct.pack(">iiiii", 3, 2, 0, -4, 0), np.uint8), "record 1 of 2"),
        (block()[:7], "record count"),
        (block()[:0], "version"),
    ],
)
def test_broken_chains(
    data: np.ndarray, match: str, alone_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(avro_frames, "_ALONE_MAX", alone_max)
    monkeypatch.setattr(avro_frames, "_RECORDS_PER_LANE", 1)
    with pytest.raises(CorruptError, match=match):
        find_frames(data, DEFAULT_LIMITS)


@settings(max_examples=examples(100))
@given(st.data())
def test_a_changed_length_is_seen_or_leads_to_the_same_end(data: st.DataObject) -> None:
    records = [b"x" * size for size in data.draw(st.lists(st.integers(0, 9), min_size=1))]
    changed = bytearray(block(*records).tobytes())
    changed[data.draw(st.integers(8, len(changed) - 1))] = data.draw(st.integers(0, 255))
    results = []
    for alone_max in (0, 100):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(avro_frames, "_ALONE_MAX", alone_max)
            patch.setattr(avro_frames, "_RECORDS_PER_LANE", 1)
            try:
                frames = find_frames(np.frombuffer(changed, np.uint8), DEFAULT_LIMITS)
                results.append(frames.tolist())
            except BucketfmtError as error:
                results.append([str(error)])
    assert results[0] == results[1]


def test_versions_and_limits() -> None:
    with pytest.raises(UnsupportedError, match="version 4"):
        find_frames(block(version=4), DEFAULT_LIMITS)
    with pytest.raises(LimitError, match="records_per_block_max"):
        find_frames(block(b"", b""), Limits(records_per_block_max=1))
