from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, LimitError
from bucketfmt.format.table.table_lock import TableLease, decode_table_lease, encode_table_lease
from bucketfmt.limits import Limits

# What Hudi 1.2.0's StorageLockFile.toByteArray returns for these values.
HUDI = (
    b'{"expired":false,"validUntil":1700000300123,"owner":"2f1c9d0a-6a3e-4f0e-9d4b-0c1d2e3f4a5b"}'
)
LEASE = TableLease(False, 1700000300123, "2f1c9d0a-6a3e-4f0e-9d4b-0c1d2e3f4a5b")


def test_bytes_are_those_of_hudi() -> None:
    assert encode_table_lease(LEASE) == HUDI
    assert decode_table_lease(HUDI) == LEASE


def test_layout_and_properties_to_come_do_not_matter() -> None:
    data = b'{ "owner" : "o", "later" : {"x": [1]},\n "validUntil" : -1, "expired" : true }'
    assert decode_table_lease(data) == TableLease(True, -1, "o")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"expired":false,"validUntil":1}',
        b'{"expired":false,"owner":"o"}',
        b'{"validUntil":1,"owner":"o"}',
        b'{"expired":null,"validUntil":1,"owner":"o"}',
        b'{"expired":false,"validUntil":null,"owner":"o"}',
        b'{"expired":false,"validUntil":1.5,"owner":"o"}',
        b'{"expired":false,"validUntil":9223372036854775808,"owner":"o"}',
        b'{"expired":false,"validUntil":1,"owner":"\xff"}',
    ],
)
def test_what_is_no_lock_file(data: bytes) -> None:
    with pytest.raises(CorruptError, match="table lock"):
        decode_table_lease(data)


def test_a_file_too_large_is_not_decoded() -> None:
    with pytest.raises(LimitError):
        decode_table_lease(HUDI, Limits(properties_bytes_max=10))


@given(
    st.builds(
        TableLease,
        expired=st.booleans(),
        valid_until=st.integers(-(2**63), 2**63 - 1),
        owner=st.text(),
    )
)
def test_round_trip(lease: TableLease) -> None:
    assert decode_table_lease(encode_table_lease(lease)) == lease


@given(st.binary())
def test_any_bytes_decode_or_raise(data: bytes) -> None:
    with suppress(BucketfmtError):
        decode_table_lease(data)
