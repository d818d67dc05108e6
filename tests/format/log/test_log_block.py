from __future__ import annotations

import contextlib
import mmap
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import (
    BucketfmtError,
    CorruptError,
    LimitError,
    TruncatedError,
    UnsupportedError,
)
from bucketfmt.format.encoding.cursor import Cursor
from bucketfmt.format.log.log_block import (
    MAGIC,
    BlockType,
    HeaderKey,
    LogBlock,
    decode_log_block,
    encode_log_block,
    find_damaged_instant,
)
from bucketfmt.limits import Limits

ROLLBACK = bytes.fromhex(
    "234855444923000000000000005b0000000100000000"
    "00000003"
    "00000000000000113230323530313236303430393336353738"
    "000000030000000130"
    "00000001000000113230323530313236303430383236383738"
    "0000000000000000000000000000000000000061"
)
EMPTY_DELETES = bytes.fromhex(
    "2348554449230000000000000042000000010000000100000001"
    "00000000000000113030303030303030303030303030303033"
    "0000000000000009000000030000000100000000000000000000000048"
)
HEADER = {HeaderKey.INSTANT_TIME: "20250126040936578", HeaderKey.SCHEMA: '{"type":"é"}'}
BLOCK = encode_log_block(BlockType.AVRO_DATA, HEADER, b"content")

headers = st.dictionaries(st.integers(0, 2**31 - 1), st.text(max_size=40), max_size=8)


def decode(data: bytes, limits: Limits = Limits()) -> LogBlock:  # noqa: B008
    return decode_log_block(Cursor(data, limits=limits))


def test_rollback_block_of_hudi() -> None:
    block = decode(ROLLBACK)
    assert (block.offset, block.end, block.content_offset) == (0, 105, 93)
    assert block.block_type is BlockType.COMMAND
    assert block.instant_time == "20250126040936578"
    assert block.target_instant_time == "20250126040826878"
    assert block.header[HeaderKey.COMMAND_BLOCK_TYPE] == "0"
    assert bytes(block.content) == b""
    assert encode_log_block(block.block_type, block.header, block.content) == ROLLBACK


def test_empty_delete_block_of_a_new_metadata_file_group() -> None:
    block = decode(EMPTY_DELETES)
    assert block.block_type is BlockType.DELETE
    assert dict(block.header) == {HeaderKey.INSTANT_TIME: "00000000000000003"}
    assert bytes(block.content) == bytes.fromhex("000000030000000100")
    assert encode_log_block(block.block_type, block.header, block.content) == EMPTY_DELETES


def test_content_is_a_view_of_the_file() -> None:
    data = bytearray(b"before" + BLOCK)
    block = decode_log_block(Cursor(data, 6))
    assert (block.offset, block.end) == (6, len(data))
    assert data[block.content_offset : block.content_offset + 7] == b"content"
    data[block.content_offset] = ord("C")
    assert bytes(block.content) == b"Content"


@given(st.sampled_from(BlockType), headers, st.binary(max_size=50))
def test_round_trip(block_type: BlockType, header: dict[int, str], content: bytes) -> None:
    block = decode(encode_log_block(block_type, header, content))
    assert (block.block_type, dict(block.header), bytes(block.content)) == (
        block_type,
        header,
        content,
    )


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_decode_or_are_refused(data: bytes, framed: bool) -> None:
    if framed:
        data = MAGIC + struct.pack(">q", len(data) + 8) + data
        data += struct.pack(">q", len(data))
    with contextlib.suppress(BucketfmtError):
        decode(data)


@pytest.mark.rule("LOG-2")
def test_every_truncation_is_refused() -> None:
    for size in range(len(BLOCK)):
        with pytest.raises(TruncatedError):
            decode(BLOCK[:size])


@pytest.mark.rule("LOG-2")
def test_no_flipped_bit_of_the_frame_gives_the_same_block() -> None:
    content = range(len(BLOCK) - 19, len(BLOCK) - 12)  # has no checksum
    for bit in range(8 * len(BLOCK)):
        if bit // 8 in content:
            continue
        data = bytearray(BLOCK)
        data[bit // 8] ^= 1 << bit % 8
        try:
            block = decode(bytes(data))
        except (CorruptError, UnsupportedError, LimitError):
            continue
        assert (block.block_type, dict(block.header)) != (BlockType.AVRO_DATA, HEADER)


@pytest.mark.parametrize(
    ("patch", "error", "message"),
    [
        ((14, ">i", 0), UnsupportedError, "frame version 0"),
        ((14, ">i", 2), UnsupportedError, "frame version 2"),
        ((18, ">i", 2), UnsupportedError, "block type 2"),
        ((18, ">i", 7), UnsupportedError, "block type 7"),
        ((18, ">i", -1), UnsupportedError, "block type -1"),
        ((22, ">i", -1), CorruptError, "negative"),
        ((22, ">i", 2**31 - 1), CorruptError, "cannot fit"),
        ((30, ">i", -1), CorruptError, "negative"),
        ((6, ">q", -1), CorruptError, "impossible block length"),
        ((6, ">q", 31), CorruptError, "impossible block length"),
        ((6, ">q", 2**31), CorruptError, "impossible block length"),
        ((len(BLOCK) - 8, ">q", 7), CorruptError, "at the end"),
        ((len(BLOCK) - 12, ">i", 1), CorruptError, "footer"),
        ((len(BLOCK) - 27, ">q", 6), CorruptError, "footer"),
        ((len(BLOCK) - 27, ">q", 12), CorruptError, "wanted"),
    ],
)
def test_damage_is_named(
    patch: tuple[int, str, int], error: type[BucketfmtError], message: str
) -> None:
    data = bytearray(BLOCK)
    struct.pack_into(patch[1], data, patch[0], patch[2])
    with pytest.raises(error, match=message) as caught:
        decode(bytes(data))
    assert not isinstance(caught.value, TruncatedError)
    assert caught.value.offset is not None


@pytest.mark.rule("LOG-4")
def test_header_is_bounded() -> None:
    with pytest.raises(LimitError, match="log_header_entries_max"):
        decode(BLOCK, Limits(log_header_entries_max=1))
    with pytest.raises(LimitError, match="log_header_value_bytes_max"):
        decode(BLOCK, Limits(log_header_value_bytes_max=12))


def test_a_key_may_not_come_twice() -> None:
    data = bytearray(BLOCK)
    struct.pack_into(">i", data, 26 + 8 + 17, 0)  # SCHEMA becomes a second INSTANT_TIME
    with pytest.raises(CorruptError, match="repeated"):
        decode(bytes(data))


def test_missing_header_values_are_refused_when_asked_for() -> None:
    block = decode(encode_log_block(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: "x"}, b""))
    assert block.schema == "x"
    for name in ("instant_time", "target_instant_time"):
        with pytest.raises(CorruptError, match=name.upper()):
            getattr(block, name)


@pytest.mark.rule("LOG-3")
def test_a_block_longer_than_hudi_reads_is_not_written() -> None:
    with mmap.mmap(-1, 2**31) as content, pytest.raises(ValueError, match="2147483647"):
        encode_log_block(BlockType.AVRO_DATA, {}, memoryview(content))


def test_damaged_instant() -> None:
    assert find_damaged_instant(Cursor(BLOCK[:60])) == "20250126040936578"
    assert find_damaged_instant(Cursor(BLOCK[:50])) is None
    assert find_damaged_instant(Cursor(MAGIC)) is None
    other = encode_log_block(BlockType.AVRO_DATA, {HeaderKey.INSTANT_TIME: "now"})
    assert find_damaged_instant(Cursor(other)) is None
