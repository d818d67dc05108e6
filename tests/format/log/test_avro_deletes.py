from __future__ import annotations

import contextlib
import io
from decimal import Decimal

import fastavro
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
from bucketfmt.format.log.avro_deletes import decode_avro_deletes, encode_avro_deletes
from bucketfmt.format.log.delete_records import DeleteBlock, DeleteRecord
from bucketfmt.format.log.ordering_values import OrderingKind, OrderingValue, RawOrderingValue
from bucketfmt.limits import Limits
from tests.format.log.delete_strategies import AVRO, VECTORS, delete_records

K = OrderingKind

EXPECTED: dict[str, tuple[OrderingKind, RawOrderingValue]] = {
    "int0": (K.INT, 0),
    "int100": (K.INT, 100),
    "int-1": (K.INT, -1),
    "long5": (K.LONG, 5),
    "long big": (K.LONG, 1_700_000_000_000),
    "double": (K.DOUBLE, 1.5),
    "float": (K.FLOAT, 1.5),
    "string": (K.STRING, "abc"),
    "stringEmpty": (K.STRING, ""),
    "bool": (K.BOOLEAN, True),
    "Utf8": (K.STRING, "abc"),
    "BigDecimal": (K.DECIMAL, Decimal("12.340000000000000")),
    "sqlTimestamp": (K.TIMESTAMP_MICROS, 1_700_000_000_123_000),
    "sqlDate": (K.DATE, 19724),
    "ArrayComparable(5L,abc)": (
        K.ARRAY,
        (OrderingValue(K.LONG, 5), OrderingValue(K.STRING, "abc")),
    ),
}


def encode(records: list[DeleteRecord]) -> bytes:
    block = DeleteBlock.from_records(records)
    return encode_avro_deletes(
        block.record_keys, block.partition_paths, block.ordering_kinds, block.ordering_values
    )


def decode(payload: bytes, limits: Limits = Limits()) -> list[DeleteRecord]:  # noqa: B008
    return list(DeleteBlock(3, *decode_avro_deletes(payload, limits)))


def one(kind: OrderingKind, value: RawOrderingValue) -> list[DeleteRecord]:
    return [DeleteRecord("k1", "p1", OrderingValue(kind, value))]


def test_every_vector_has_its_value() -> None:
    assert EXPECTED.keys() == VECTORS["avro"].keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_vectors_of_hudi(name: str) -> None:
    content = bytes.fromhex(VECTORS["avro"][name])
    records = one(*EXPECTED[name])
    assert decode(content[8:]) == records
    assert encode(records) == content[8:]


@given(delete_records(AVRO, frozenset({K.LOCAL_DATE})))
def test_round_trip(records: list[DeleteRecord]) -> None:
    assert decode(encode(records)) == records


@given(st.binary(max_size=60))
def test_any_bytes_decode_or_are_refused(payload: bytes) -> None:
    with contextlib.suppress(BucketfmtError):
        decode(payload)


@given(delete_records(AVRO, frozenset({K.LOCAL_DATE})), st.data())
def test_damage_decodes_or_is_refused(records: list[DeleteRecord], data: st.DataObject) -> None:
    payload = bytearray(encode(records))
    position = data.draw(st.integers(0, len(payload) - 1))
    payload[position] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BucketfmtError):
        decode(bytes(payload))
    with pytest.raises(CorruptError):
        decode(encode(records)[: data.draw(st.integers(0, position))])


def test_a_long_block_in_the_eyes_of_another_avro_reader() -> None:
    """Lengths and integers of every size next to each other."""
    keys = [f"{'k' * (i % 200)}{'é' if i % 7 == 0 else ''}{i}" for i in range(3000)]
    keys[100] = "x" * 10_000
    values = [(-1) ** i * (1 << (i % 64)) % (1 << 63) - (i % 3) for i in range(3000)]
    records = [
        DeleteRecord(key, None if i % 50 == 0 else f"p{i // 300}", OrderingValue(K.LONG, value))
        for i, (key, value) in enumerate(zip(keys, values, strict=True))
    ]
    payload = encode(records)
    assert decode(payload) == records
    wrapper = {
        "type": "record",
        "name": "LongWrapper",
        "fields": [{"name": "value", "type": "long"}],
    }
    fillers = ["null", "boolean", "int"]  # branches 0 to 2
    fields = [
        {"name": "key", "type": ["null", "string"]},
        {"name": "path", "type": ["null", "string"]},
        {"name": "ordering", "type": [*fillers, wrapper]},
    ]
    schema = {"type": "array", "items": {"type": "record", "name": "Delete", "fields": fields}}
    read = fastavro.schemaless_reader(io.BytesIO(payload), fastavro.parse_schema(schema))
    assert [(row["key"], row["path"], row["ordering"]["value"]) for row in read] == [
        (record.record_key, record.partition_path, record.ordering_value.value)
        for record in records
    ]


def test_mixed_kinds_keep_their_places() -> None:
    values = [
        (K.INT, 0),
        (K.LONG, 1 << 40),
        (K.STRING, "s"),
        (K.INT, -7),
        (K.DATE, 3),
        (K.NULL, None),
    ]
    records = [record for value in values for record in one(*value)]
    assert decode(encode(records)) == records


def test_array_blocks_with_their_size_are_read() -> None:
    record = encode(one(K.INT, 0))[1:-1]
    sized = b"\3" + bytes((2 * 2 * len(record),)) + record + record + b"\2" + record + b"\0"
    assert decode(sized) == one(K.INT, 0) * 3
    wrong = b"\1" + bytes((2 * len(record) - 2,)) + record + b"\0"
    with pytest.raises(CorruptError, match="size"):
        decode(wrong)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ("", "left"),
        ("02", "cannot fit"),
        ("0202026b", "within a record"),
        ("020202", "cannot fit"),
        ("0202026b0202700600", "left"),
        ("0202026b02027004000000", "follow"),
        ("0202016b020270040000", "negative"),
        ("0203026b020270040000", "union branch"),
        ("0204026b020270040000", "union branch"),
        ("0202026b0202701a0000", "union branch"),
        ("0202026b020270010000", "union branch"),
        ("0202026b020270020200", "boolean 2"),
        ("020202ff020270040000", "UTF-8"),
        ("0202026b020270040680808080808080808080", "within a record|64 bits"),
        ("0202026b0202700680808080808080808080800100", "64 bits"),
        ("0202026b02027006ffffffffffffffffff0300", "64 bits"),
        ("0202026b02027004ffffffff1f00", "32 bits"),
        ("0202026b020270180000", "has no values"),
        ("0202026b02027018020218" + "0000", "left|union"),
        ("0202026b0202701802021a000000", "union branch"),
        ("0202026b020270121a" + "7f" * 13 + "00", "30 digits"),
        ("01ffffffffffffffffff0100", "negative|cannot fit"),
        ("fefffffffffffffffe01", "cannot fit"),
    ],
)
def test_damage_is_named(payload: str, message: str) -> None:
    with pytest.raises(CorruptError, match=message):
        decode(bytes.fromhex(payload))


def test_truncation_is_told_from_other_damage() -> None:
    payload = encode(one(K.LONG, 1 << 40))
    with pytest.raises(TruncatedError):
        decode(payload[:-3])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (K.LOCAL_DATE, 1),
        (K.INSTANT, 1),
        (K.BIG_INTEGER, 1),
        (K.DECIMAL, Decimal("1e15")),
        (K.DECIMAL, Decimal("1e1000000")),
        (K.DECIMAL, Decimal("1e-16")),
        (K.DECIMAL, Decimal("0.1234567890123456")),
        (K.ARRAY, (OrderingValue(K.ARRAY, ()),)),
        (K.ARRAY, (OrderingValue(K.INSTANT, 1),)),
    ],
)
def test_what_hudi_refuses_to_write(kind: OrderingKind, value: RawOrderingValue) -> None:
    with pytest.raises(UnsupportedError):
        encode(one(kind, value))


@pytest.mark.parametrize(
    ("kind", "value"), [(K.INT, 1 << 31), (K.LONG, 1 << 63), (K.DATE, -(1 << 32))]
)
def test_values_that_their_kind_does_not_hold(kind: OrderingKind, value: int) -> None:
    with pytest.raises(ValueError, match="bits"):
        encode(one(kind, value))


def test_decimals_are_brought_to_scale_15() -> None:
    (record,) = decode(encode(one(K.DECIMAL, Decimal("-3.10000000000000000"))))
    assert str(record.ordering_value.value) == "-3.100000000000000"


def test_zero_of_either_sign_is_kept() -> None:
    records = one(K.DOUBLE, 0.0) + one(K.DOUBLE, -0.0)
    assert str([record.ordering_value.value for record in decode(encode(records))]) == "[0.0, -0.0]"


def test_columns_of_different_length() -> None:
    with pytest.raises(ValueError, match="zip"):
        encode_avro_deletes(["k"], [], b"\0", [None])


def test_limits() -> None:
    with pytest.raises(LimitError, match="records_per_block_max"):
        decode(encode(one(K.INT, 0) * 3), Limits(records_per_block_max=2))
    wide = one(K.ARRAY, (OrderingValue(K.NULL, None),) * 3)
    with pytest.raises(LimitError, match="schema_fields_max"):
        decode(encode(wide), Limits(schema_fields_max=2))
