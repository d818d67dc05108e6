from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError
from bucketfmt.format.encoding.avro_records import (
    OtherAvroTypeError,
    RecordDecoder,
    RecordEncoder,
    decode_count,
    decode_text,
    encode_long,
    encode_text,
)
from bucketfmt.format.timeline.commit_metadata import RuntimeStats, WriteStat
from bucketfmt.format.timeline.hudi_schemas import hudi_schema

SCHEMA = hudi_schema("HoodieWriteStat")
PARSED = fastavro.parse_schema(SCHEMA)

_LONGS = st.one_of(st.integers(0, 100), st.integers(-(2**63), 2**63 - 1))
_STATS = st.builds(
    WriteStat,
    file_id=st.none() | st.text(max_size=3),
    path=st.text(max_size=100),
    num_writes=_LONGS,
    num_inserts=_LONGS,
    partition_path=st.text(max_size=3),
    file_size_in_bytes=_LONGS,
    log_version=st.none() | st.integers(-(2**31), 2**31 - 1),
    base_file=st.none() | st.text(max_size=3),
    log_files=st.none() | st.lists(st.text(max_size=3), max_size=3),
    temp_path=st.none() | st.just("t"),
)


def by_fastavro(stat: WriteStat) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, PARSED, msgspec.to_builtins(stat))
    return stream.getvalue()


@settings(deadline=None)
@given(st.lists(_STATS, max_size=5))
def test_as_fastavro(stats: list[WriteStat]) -> None:
    encoded = list(RecordEncoder(SCHEMA, WriteStat).encode(stats))
    assert encoded == [by_fastavro(stat) for stat in stats]
    data = b"before" + b"".join(encoded)
    decoder = RecordDecoder(SCHEMA, WriteStat)
    assert decoder.decode(data + b"after", 6, len(stats)) == (stats, len(data))


@pytest.mark.parametrize(
    "stat",
    [WriteStat(runtime_stats=RuntimeStats(total_scan_time=5)), WriteStat(cdc_stats={"a": 1})],
)
def test_other_types_are_encoded_and_left_to_fastavro(stat: WriteStat) -> None:
    (data,) = RecordEncoder(SCHEMA, WriteStat).encode([stat])
    assert data == by_fastavro(stat)
    with pytest.raises(OtherAvroTypeError):
        RecordDecoder(SCHEMA, WriteStat).decode(data, 0, 1)


def test_fields_of_another_version() -> None:
    fields = [
        {"name": name, "type": ["null", kind]}
        for name, kind in (("path", "string"), ("new", "long"), ("numWrites", "int"))
    ]
    schema: dict[str, Any] = {"type": "record", "name": "Stat", "fields": fields}
    data = b"\x02" + encode_text("p/f") + b"\x02\x06" + b"\x00"
    found, end = RecordDecoder(schema, WriteStat).decode(data, 0, 1)
    assert (found, end) == ([WriteStat(path="p/f")], len(data))


@settings(deadline=None)
@given(st.lists(_STATS, min_size=1, max_size=3), st.data())
def test_damage_is_told(stats: list[WriteStat], data: st.DataObject) -> None:
    encoded = bytearray(b"".join(RecordEncoder(SCHEMA, WriteStat).encode(stats)))
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] = data.draw(st.integers(0, 255))
    cut = bytes(encoded[: data.draw(st.integers(at, len(encoded)))])
    try:
        found, end = RecordDecoder(SCHEMA, WriteStat).decode(cut, 0, len(stats))
    except (CorruptError, IndexError, UnicodeDecodeError, OtherAvroTypeError):
        return
    assert end <= len(cut)
    stream = BytesIO(cut)
    for stat in found:
        record = fastavro.schemaless_reader(stream, PARSED, None)
        plain = {name: value for name, value in record.items() if value is not None}
        assert msgspec.convert(plain, WriteStat) == stat


@pytest.mark.parametrize(
    ("data", "decode"),
    [
        (b"\xff" * 10 + b"\x00", decode_count),
        (encode_long(5) + b"four", decode_text),
        (encode_long(-1) + b"text", decode_text),
    ],
)
def test_what_is_no_number_or_text(data: bytes, decode: Callable[[bytes, int], Any]) -> None:
    with pytest.raises(CorruptError):
        decode(data, 0)


def test_numbers_that_do_not_fit_are_not_written() -> None:
    for stat in (WriteStat(num_writes=2**63), WriteStat(log_version=2**31)):
        with pytest.raises(OverflowError, match="does not fit"):
            list(RecordEncoder(SCHEMA, WriteStat).encode([stat]))


def test_blocks_with_their_size() -> None:
    assert decode_count(encode_long(-3) + encode_long(300), 0) == (3, 3)
    assert decode_count(encode_long(3), 0) == (3, 1)


def test_a_number_without_an_end_is_refused_where_64_bits_end() -> None:
    """Not where the data end: that would take the square of their length."""
    endless = bytes([0xFF]) * 20_000_000
    with pytest.raises(CorruptError, match="more than 64 bits"):
        decode_count(endless, 0)
    with pytest.raises(CorruptError, match="more than 64 bits"):
        decode_text(b"\xff" * 9 + b"\x02", 0)
    assert decode_count(encode_long(2**63 - 1), 0) == (2**63 - 1, 10)
