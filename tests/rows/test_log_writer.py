"""Log blocks written: read back by our readers, and the same bytes as Hudi's own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import SchemaError, UnsupportedError
from bucketfmt.format.log.delete_records import DeleteBlock, DeleteRecord, decode_delete_block
from bucketfmt.format.log.log_block import BlockType, HeaderKey, LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.log.ordering_values import NO_ORDERING_VALUE, OrderingKind, OrderingValue
from bucketfmt.rows import log_writer
from bucketfmt.rows.avro.avro_decode import decode_avro_blocks
from bucketfmt.rows.avro.avro_schema import parse_avro_schema
from bucketfmt.rows.avro.avro_schema_json import avro_schema_json
from bucketfmt.rows.log_writer import encode_log_blocks, make_delete_block
from bucketfmt.rows.merging.log_entries import DeleteRun, RowRun, Run
from bucketfmt.rows.merging.merge import merge_log
from bucketfmt.rows.merging.merge_rules import MergeRules
from bucketfmt.rows.parquet.base_file import BaseFileReader
from tests.golden import GOLDEN
from tests.same_rows import assert_same

INSTANT = "20240102030405678"
SCHEMA = pa.schema(
    [("_hoodie_record_key", pa.string()), ("ts", pa.int64()), ("v", pa.list_(pa.string()))]
)
AVRO = avro_schema_json(SCHEMA, "t_record", "hoodie.t")
EVENT_TIME = MergeRules(("ts",), True, True)


def rows(*values: tuple[str, int]) -> pa.Table:
    return pa.table(
        [
            [key for key, _ in values],
            [ts for _, ts in values],
            [[f"{key}{ts}", None] for key, ts in values],
        ],
        schema=SCHEMA,
    )


def keys_of(*keys: str) -> pa.ChunkedArray:
    return pa.chunked_array([keys], pa.string())


def blocks_of(data: bytes) -> list[LogBlock]:
    found = list(decode_log_file(data))
    assert all(isinstance(block, LogBlock) for block in found)
    return [block for block in found if isinstance(block, LogBlock)]


def rows_of(block: LogBlock) -> pa.Table:
    if block.block_type is BlockType.PARQUET_DATA:
        return BaseFileReader(pa.py_buffer(bytes(block.content))).read()
    return decode_avro_blocks([block.content], parse_avro_schema(block.schema))


def run_of(block: LogBlock) -> Run:
    if block.block_type is BlockType.DELETE:
        return DeleteRun(decode_delete_block(block.content))
    return RowRun(rows_of(block))


# ---------------------------------------------------------------------------- what is written


@pytest.mark.parametrize("data_format", ["avro", "parquet"])
def test_rows_then_deletes_with_their_headers(data_format: Any) -> None:
    given_rows = rows(("a", 1), ("b", 2))
    deletes = make_delete_block(keys_of("c"), "p")
    written = b"".join(encode_log_blocks(given_rows, deletes, INSTANT, AVRO, data_format))
    data, delete = blocks_of(written)
    kind = BlockType.AVRO_DATA if data_format == "avro" else BlockType.PARQUET_DATA
    assert (data.block_type, delete.block_type) == (kind, BlockType.DELETE)
    header = {HeaderKey.INSTANT_TIME: INSTANT, HeaderKey.SCHEMA: AVRO}
    assert data.header == delete.header == header
    assert_same(rows_of(data), given_rows)
    assert decode_delete_block(delete.content) == deletes
    assert (data.offset, data.end, delete.end) == (0, delete.offset, len(written))


@pytest.mark.parametrize("data_format", ["avro", "parquet"])
def test_many_rows_make_several_data_blocks(
    data_format: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_rows = rows(*((f"k{number}", number) for number in range(100)))
    monkeypatch.setattr(log_writer, "DATA_BLOCK_BYTES", given_rows.nbytes // 3)
    written = b"".join(encode_log_blocks(given_rows, None, INSTANT, AVRO, data_format))
    found = blocks_of(written)
    assert [rows_of(block).num_rows for block in found] == [33, 33, 33, 1]
    assert_same(pa.concat_tables(rows_of(block) for block in found), given_rows)


def test_nothing_to_write_makes_no_block() -> None:
    nothing = make_delete_block(keys_of(), "p")
    assert list(encode_log_blocks(rows(), None, INSTANT, AVRO)) == []
    assert list(encode_log_blocks(rows(), nothing, INSTANT, AVRO)) == []
    only = blocks_of(
        b"".join(encode_log_blocks(rows(), make_delete_block(keys_of("a"), ""), INSTANT, AVRO))
    )
    assert [block.block_type for block in only] == [BlockType.DELETE]


@pytest.mark.parametrize("data_format", ["avro", "parquet"])
def test_rows_of_another_schema(data_format: Any) -> None:
    with pytest.raises(SchemaError, match="x"):
        list(encode_log_blocks(pa.table({"x": [1]}), None, INSTANT, AVRO, data_format))


ENTRY = st.tuples(st.sampled_from("abcd"), st.integers(-3, 3))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.lists(ENTRY, max_size=4), st.lists(ENTRY, max_size=3)), max_size=4),
    st.lists(ENTRY, max_size=3, unique_by=lambda entry: entry[0]),
    st.sampled_from(["avro", "parquet"]),
)
def test_a_log_merges_as_what_was_put_in(
    writes: list[tuple[list, list]], base: list, data_format: Any
) -> None:
    written, expected_runs = b"", []
    for number, (upserts, deletes) in enumerate(writes):
        marked = rows(*deletes)
        block = make_delete_block(marked["_hoodie_record_key"], "p", marked, ["ts"])
        table, instant = rows(*upserts), f"{INSTANT[:-1]}{number}"
        written += b"".join(encode_log_blocks(table, block, instant, AVRO, data_format))
        expected_runs += [RowRun(table), DeleteRun(block)]
    outcomes = []
    for runs in ([run_of(block) for block in blocks_of(written)], expected_runs):
        merged = merge_log(runs, EVENT_TIME, SCHEMA)
        outcomes.append(pa.concat_tables([merged.apply(rows(*base)), merged.remaining()]))
    assert_same(*outcomes)


# ---------------------------------------------------------------------------- ordering values


def orderings(kind: pa.DataType, values: list, version: int = 9) -> list[OrderingValue]:
    block = make_delete_block(
        keys_of(*map(str, range(len(values)))),
        "p",
        pa.table({"ts": pa.array(values, kind)}),
        ["ts"],
        version,
    )
    assert len(block) == len(values)
    again = decode_delete_block(log_writer.encode_delete_block(block))
    assert list(again) == list(block)
    assert {record.partition_path for record in block} == {"p"}
    return [record.ordering_value for record in block]


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize(
    ("kind", "value", "expected", "stored"),
    [
        (pa.bool_(), True, OrderingKind.BOOLEAN, True),
        (pa.int32(), 0, OrderingKind.INT, 0),
        (pa.int64(), 2**40, OrderingKind.LONG, 2**40),
        (pa.float32(), 0.5, OrderingKind.FLOAT, 0.5),
        (pa.float64(), -0.1, OrderingKind.DOUBLE, -0.1),
        (pa.string(), "ß", OrderingKind.STRING, "ß"),
        (pa.binary(), b"\xff", OrderingKind.BYTES, b"\xff"),
        (pa.time32("ms"), dt.time(0, 0, 1), OrderingKind.INT, 1000),
        (pa.time64("us"), dt.time(0, 0, 1), OrderingKind.LONG, 10**6),
        (pa.timestamp("us", "UTC"), dt.datetime(1970, 1, 1, 0, 0, 1), OrderingKind.LONG, 10**6),
        (pa.timestamp("ms"), dt.datetime(1970, 1, 1, 0, 0, 1), OrderingKind.LONG, 1000),
        (
            pa.decimal128(10, 2),
            Decimal("1.50"),
            OrderingKind.DECIMAL,
            Decimal("1.50"),
        ),
    ],
    ids=str,
)
def test_kinds(
    kind: pa.DataType, value: object, expected: OrderingKind, stored: object, version: int
) -> None:
    found = orderings(kind, [value, None], version)
    assert found == [OrderingValue(expected, stored), NO_ORDERING_VALUE]


def test_dates_depend_on_the_release() -> None:
    day = [dt.date(1970, 1, 11)]
    assert orderings(pa.date32(), day, 6) == [OrderingValue(OrderingKind.DATE, 10)]
    assert orderings(pa.date32(), day, 8) == [OrderingValue(OrderingKind.INT, 10)]
    assert orderings(pa.date32(), day, 9) == [OrderingValue(OrderingKind.INT, 10)]


def test_types_without_an_ordering_value() -> None:
    with pytest.raises(UnsupportedError, match=r"ordering field ts: .* type list"):
        orderings(pa.list_(pa.int32()), [[1]])


def test_several_ordering_fields() -> None:
    marked = pa.table({"ts": [5, None], "at": [{"n": "x"}, {"n": "y"}]})
    block = make_delete_block(keys_of("a", "b"), "", marked, ["ts", "at.n"])
    assert [record.ordering_value for record in block] == [
        OrderingValue(
            OrderingKind.ARRAY,
            (OrderingValue(OrderingKind.LONG, 5), OrderingValue(OrderingKind.STRING, "x")),
        ),
        OrderingValue(
            OrderingKind.ARRAY, (NO_ORDERING_VALUE, OrderingValue(OrderingKind.STRING, "y"))
        ),
    ]
    for version in (6, 8):
        with pytest.raises(UnsupportedError, match="from version 9 on"):
            make_delete_block(keys_of("a", "b"), "", marked, ["ts", "at.n"], version)


def test_deletes_without_ordering_value() -> None:
    marked = pa.table({"x": [1]})
    for block in (
        make_delete_block(keys_of("a"), "p"),
        make_delete_block(keys_of("a"), "p", marked),
        make_delete_block(keys_of("a"), "p", marked, ["absent"]),
    ):
        assert list(block) == [DeleteRecord("a", "p", NO_ORDERING_VALUE)]
        assert block.version == 3


# ---------------------------------------------------------------------------- Hudi's own


def golden_blocks(folder: Path) -> Iterator[LogBlock]:
    """The blocks that a write of whole rows makes; no positions, which a bucket index has not."""
    for path in sorted(folder.rglob(".*.log.*")):
        if ".hoodie" in path.relative_to(folder).parts or path.name.endswith((".crc", ".cdc")):
            continue
        for block in blocks_of(path.read_bytes()):
            if set(block.header) == {HeaderKey.INSTANT_TIME, HeaderKey.SCHEMA}:
                yield block


def made_again(block: LogBlock) -> DeleteBlock:
    """The deletes, from their keys and from rows with their ordering values."""
    found = decode_delete_block(block.content)
    kinds = set(found.ordering_kinds)
    keys, (partition,) = keys_of(*filter(None, found.record_keys)), set(found.partition_paths)
    assert partition is not None
    if kinds == {OrderingKind.LONG}:
        marked = pa.table({"ts": pa.array(found.ordering_values, pa.int64())})
        return make_delete_block(keys, partition, marked, ["ts"])
    assert (kinds, set(found.ordering_values)) == ({OrderingKind.INT}, {0})
    return make_delete_block(keys, partition)


def frame_of(block: LogBlock) -> tuple[Any, ...]:
    return block.block_type, dict(block.header), block.end - block.offset, bytes(block.content)


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(
    # Up to Hudi 0.13 data blocks were of version 2, which is read and not written.
    ("version", "name"),
    [table for table in GOLDEN if table[0] != "flink-0.13.1"],
)
def test_blocks_of_hudi_byte_by_byte(
    golden: Callable[[str, str], Path], version: str, name: str
) -> None:
    for block in list(golden_blocks(golden(version, name)))[:60]:
        if block.block_type is BlockType.DELETE:
            arguments: tuple[Any, ...] = (pa.table({}), made_again(block))
        else:
            arguments = (rows_of(block), None)
        is_parquet = block.block_type is BlockType.PARQUET_DATA
        (written,) = encode_log_blocks(
            *arguments, block.instant_time, block.schema, "parquet" if is_parquet else "avro"
        )
        (found,) = blocks_of(written)
        if is_parquet:
            assert (found.block_type, found.header) == (block.block_type, block.header)
            assert_same(rows_of(found), rows_of(block))
            ours, hudis = (
                BaseFileReader(pa.py_buffer(bytes(content)))
                for content in (found.content, block.content)
            )
            assert (ours.key_values, ours.schema) == (hudis.key_values, hudis.schema)
        else:  # the order of header entries is a Java hash map's, which no run repeats
            assert frame_of(found) == frame_of(block)


def test_golden_tables_hold_both_kinds_of_delete(golden: Callable[[str, str], Path]) -> None:
    for version in ("0.15.0", "1.0.2", "1.2.0"):
        kinds = {
            kind
            for name in ("mor", "delete_marker_mor")
            for block in golden_blocks(golden(version, name))
            if block.block_type is BlockType.DELETE
            for kind in decode_delete_block(block.content).ordering_kinds
        }
        assert kinds == {OrderingKind.INT, OrderingKind.LONG}
