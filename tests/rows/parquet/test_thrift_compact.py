"""Thrift structures: what is read is written again byte for byte, and nothing is taken on trust."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError
from bucketfmt.rows.parquet.parquet_chunks import split_footer
from bucketfmt.rows.parquet.thrift_compact import (
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    Struct,
    ThriftList,
    encode_struct,
    read_struct,
    skip_struct,
)

BOOLEAN, BYTE, DOUBLE, BINARY = 1, 3, 7, 8

PLAIN = [
    (BOOLEAN, st.booleans()),
    (BYTE, st.integers(0, 255)),
    (I16, st.integers(-(1 << 15), (1 << 15) - 1)),
    (I32, st.integers(-(1 << 31), (1 << 31) - 1)),
    (I64, st.integers(-(1 << 63), (1 << 63) - 1)),
    (DOUBLE, st.floats(allow_nan=False)),
    (BINARY, st.binary(max_size=200)),
]


def _struct(fields: dict[int, tuple[int, object]]) -> Struct:
    made = Struct()
    for field_id, (kind, value) in fields.items():
        made.put(field_id, value, kind)
    return made


def _lists(kind: int, values: st.SearchStrategy) -> st.SearchStrategy:
    made = st.lists(values, max_size=20).map(lambda items: ThriftList(items, kind))
    return st.tuples(st.just(LIST), made)


def _with_below(below: st.SearchStrategy) -> st.SearchStrategy:
    kinds = [st.tuples(st.just(kind), values) for kind, values in PLAIN]
    kinds += [_lists(kind, values) for kind, values in PLAIN]
    kinds += [st.tuples(st.just(STRUCT), below), _lists(STRUCT, below)]
    return st.dictionaries(st.integers(1, 300), st.one_of(kinds), max_size=6).map(_struct)


structs = st.recursive(st.just(Struct()), _with_below, max_leaves=8)


@given(structs, st.binary(max_size=3))
def test_a_struct_is_read_back(fields: Struct, before: bytes) -> None:
    data = encode_struct(fields)
    found, end = read_struct(before + data + b"rest", len(before))
    assert (found, end) == (fields, len(before) + len(data))
    assert encode_struct(found) == data
    assert skip_struct(before + data + b"rest", len(before)) == end


@given(st.binary(max_size=60))
def test_any_bytes_are_a_struct_or_an_error(data: bytes) -> None:
    try:
        found, end = read_struct(data, 0)
    except (CorruptError, IndexError, struct.error):
        with pytest.raises((CorruptError, IndexError, struct.error)):
            skip_struct(data, 0)
        return
    assert skip_struct(data, 0) == end <= len(data)
    assert encode_struct(read_struct(encode_struct(found), 0)[0]) == encode_struct(found)


@pytest.mark.parametrize("name", ["cow", "nested_mor", "evolved_ids"])
@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
def test_footers_of_hudi_are_written_again_byte_for_byte(
    golden: Callable[[str, str], Path], version: str, name: str
) -> None:
    footers = [
        split_footer(pa.py_buffer(path.read_bytes()))
        for path in golden(version, name).rglob("*.parquet")
    ]
    assert footers
    for footer in footers:
        assert encode_struct(read_struct(footer, 0)[0]) == footer
