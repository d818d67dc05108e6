from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, TruncatedError, UnsupportedError
from bucketfmt.format.log.delete_records import (
    DeleteBlock,
    DeleteRecord,
    decode_delete_block,
    encode_delete_block,
)
from bucketfmt.format.log.ordering_values import NO_ORDERING_VALUE, OrderingKind, OrderingValue
from tests.format.log.delete_strategies import VECTORS


def long(value: int) -> OrderingValue:
    return OrderingValue(OrderingKind.LONG, value)


TWO = [DeleteRecord("k1", "p1", long(5)), DeleteRecord("k2", "p1", long(6))]


@pytest.mark.parametrize("version", [2, 3])
def test_whole_blocks_of_hudi(version: int) -> None:
    content = bytes.fromhex(VECTORS["blocks"][f"delete block v{version}"])
    block = decode_delete_block(content)
    assert block == DeleteBlock(version, ["k1", "k2"], ["p1", "p1"], bytes([3, 3]), [5, 6])
    assert list(block) == TWO
    assert encode_delete_block(block) == content


def test_version_1_has_no_ordering_values() -> None:
    payload = bytes.fromhex(VECTORS["kryo"]["HoodieKey[2]"])
    content = struct.pack(">ii", 1, len(payload)) + payload
    block = decode_delete_block(content)
    assert list(block) == [
        DeleteRecord("k1", "p1", NO_ORDERING_VALUE),
        DeleteRecord("key-ü", "p1", NO_ORDERING_VALUE),
    ]
    assert encode_delete_block(block) == content


def test_delete_without_ordering_value() -> None:
    content = bytes.fromhex("000000030000000d0202086b6579340202610400" + "00")
    (record,) = decode_delete_block(content)
    assert record == DeleteRecord("key4", "a", NO_ORDERING_VALUE)
    unpartitioned = DeleteBlock.from_records([record._replace(partition_path="")])
    assert encode_delete_block(unpartitioned)[8:] == bytes.fromhex("0202086b6579340200040000")


def test_record_index_delete() -> None:
    content = bytes.fromhex(
        "0000000300000018020208" + b"k009".hex() + "0218" + b"record_index".hex() + "040000"
    )
    (record,) = decode_delete_block(content)
    assert record == DeleteRecord("k009", "record_index", NO_ORDERING_VALUE)


def test_block_without_deletes() -> None:
    content = bytes.fromhex("000000030000000100")
    block = decode_delete_block(content)
    assert (len(block), list(block)) == (0, [])
    assert encode_delete_block(block) == content


@pytest.mark.parametrize("version", [1, 2, 3])
def test_columns_and_records_agree(version: int) -> None:
    block = DeleteBlock.from_records(TWO, version)
    assert (block.version, len(block), list(block)) == (version, 2, TWO)


def test_other_versions() -> None:
    payload = bytes.fromhex("0000000100")
    for version in (0, -1):
        with pytest.raises(CorruptError, match=f"version {version}"):
            decode_delete_block(struct.pack(">i", version) + payload)
    with pytest.raises(UnsupportedError, match="version 4"):
        decode_delete_block(struct.pack(">i", 4) + payload)
    with pytest.raises(ValueError, match="version 4"):
        encode_delete_block(DeleteBlock.from_records(TWO, 4))


def test_length_must_be_that_of_the_payload() -> None:
    content = encode_delete_block(DeleteBlock.from_records(TWO))
    with pytest.raises(TruncatedError):
        decode_delete_block(content[:-1])
    with pytest.raises(CorruptError, match="follow"):
        decode_delete_block(content + b"\0")
    with pytest.raises(CorruptError, match="negative"):
        decode_delete_block(struct.pack(">ii", 3, -1))
    with pytest.raises(TruncatedError):
        decode_delete_block(b"\0\0\0\3")


@given(st.integers(0, 4), st.binary(max_size=80))
def test_any_bytes_decode_or_are_refused(version: int, payload: bytes) -> None:
    with contextlib.suppress(BucketfmtError):
        decode_delete_block(struct.pack(">ii", version, len(payload)) + payload)
