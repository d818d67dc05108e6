from __future__ import annotations

import contextlib
import hashlib
import json
import struct
from base64 import b64decode, b64encode
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, LimitError
from bucketfmt.format.log.record_positions import decode_record_positions, encode_record_positions
from bucketfmt.limits import Limits

VECTORS = json.loads((Path(__file__).parent / "vectors" / "record_positions.json").read_text())


def arange(text: str) -> np.ndarray:
    start, stop, step = map(int, text.split(":"))
    return np.arange(start, stop, step, np.uint64)


@pytest.mark.parametrize("positions", VECTORS["positions"])
def test_positions_of_hudi(positions: str) -> None:
    expected = np.array(json.loads(positions), np.uint64)
    text = VECTORS["positions"][positions]
    decoded = decode_record_positions(text)
    assert decoded.dtype == np.uint64
    assert decoded.tolist() == expected.tolist()
    assert encode_record_positions(expected) == text


@pytest.mark.parametrize("positions", [*VECTORS["ranges"], *VECTORS["ranges_sha256"]])
def test_ranges_of_hudi(positions: str) -> None:
    text = encode_record_positions(arange(positions))
    assert text == VECTORS["ranges"].get(positions, text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert digest == VECTORS["ranges_sha256"].get(positions, digest)
    assert np.array_equal(decode_record_positions(text), arange(positions))


@given(st.sets(st.integers(0, 2**64 - 1) | st.integers(0, 300), max_size=50))
def test_round_trip(positions: set[int]) -> None:
    text = encode_record_positions(np.array(list(positions), np.uint64))
    assert decode_record_positions(text).tolist() == sorted(positions)


@pytest.mark.rule("POS-5")
def test_the_same_position_twice() -> None:
    with pytest.raises(ValueError, match="same position"):
        encode_record_positions(np.array([1, 2, 1], np.uint64))


@given(st.binary(max_size=100))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    with contextlib.suppress(BucketfmtError):
        decode_record_positions(b64encode(data).decode())


@given(st.sampled_from(sorted(VECTORS["positions"].values())), st.data())
def test_damage_decodes_or_is_refused(text: str, data: st.DataObject) -> None:
    raw = bytearray(b64decode(text))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BucketfmtError):
        decode_record_positions(b64encode(raw).decode())


@given(st.text(max_size=60))
def test_any_text_is_refused_or_decodes(text: str) -> None:
    with contextlib.suppress(BucketfmtError):
        decode_record_positions(text)


@pytest.mark.parametrize("text", ["", "AAAAAAAAAAA", "AAAA AAAAAAA=", "é", "AQAAAAAAAAA="])
def test_damage_is_refused(text: str) -> None:
    with pytest.raises(CorruptError):
        decode_record_positions(text)


def test_bytes_behind_the_bitmap() -> None:
    raw = b64decode(VECTORS["positions"]["[1, 5]"])
    with pytest.raises(CorruptError, match="after the bitmap"):
        decode_record_positions(b64encode(raw + b"\0").decode())


def full_bitmap(groups: int) -> bytes:
    """Every position of `groups` times 2^32, in some hundred kilobytes."""
    containers = 1 << 16
    head = struct.pack("<I", 0x303B | (containers - 1) << 16) + b"\xff" * (containers // 8)
    keys = b"".join(struct.pack("<HH", key, 0xFFFF) for key in range(containers))
    first = len(head) + 8 * containers
    offsets = struct.pack(f"<{containers}I", *range(first, first + 6 * containers, 6))
    bitmap = head + keys + offsets + struct.pack("<HHH", 1, 0, 0xFFFF) * containers
    return struct.pack("<Q", groups) + b"".join(
        struct.pack("<I", group) + bitmap for group in range(groups)
    )


@pytest.mark.rule("POS-4")
def test_runs_are_not_spelled_out() -> None:
    text = b64encode(full_bitmap(2)).decode()
    with pytest.raises(LimitError, match=r"8589934592 .* record_positions_max"):
        decode_record_positions(text)
    with pytest.raises(LimitError):
        decode_record_positions(VECTORS["positions"]["[1, 5]"], Limits(record_positions_max=1))
