"""Statistics of the metadata table leave out only file slices without a row that passes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache, partial
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.metadata.metadata_records import ColumnStats, StatValue
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.metadata_table.metadata_lister import metadata_behind
from bucketfmt.metadata_table.skipping.bloom_skipping import prune_by_bloom_filters
from bucketfmt.metadata_table.skipping.column_ranges import find_file_ranges, prunable_columns
from bucketfmt.metadata_table.skipping.data_skipping import prune_slices
from bucketfmt.metadata_table.trusted_metadata import TrustedMetadata
from bucketfmt.rows.filters.filter import Filter, parse_filter
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.table_properties import load_config
from soak.damage.tables import table_files
from tests.metadata_table.tables import TABLES


@cache
def read(table: str) -> tuple[Snapshot, TrustedMetadata, list[tuple[FileSlice, pa.Table]]]:
    """A table, its metadata table, and the rows of each file slice."""
    store = MemoryStore(table_files(table))
    opened = bf.Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None)
    snapshot = opened._snapshot()
    metadata = metadata_behind(snapshot.state.lister)
    assert metadata is not None
    reader = SliceReader(snapshot, RowSpec(snapshot.schema, snapshot.schema.data))
    slices = snapshot.slices_of(snapshot.partitions)
    rows = [pa.concat_tables(list(reader.read(each, None))) for each in slices]
    return snapshot, metadata, list(zip(slices, rows, strict=True))


def neighbours(value: Any, chance: random.Random) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return chance.choice(
            [value, value[:-1], value + "0", value + "\U0001f600", value + "\uffee"]
        )
    step: Any = chance.choice([0, 0, 1, -1])
    if isinstance(value, datetime):
        return value + timedelta(microseconds=step)
    if isinstance(value, date):
        return value + timedelta(days=step)
    if isinstance(value, Decimal):
        return value + step * Decimal("0.0001")
    return value + step


def filters(table: str, number: int) -> Iterator[Filter]:
    _, _, rows = read(table)
    chance = random.Random(table)
    everything = pa.concat_tables([own for _, own in rows])
    scalar = [f.name for f in everything.schema if not pa.types.is_nested(f.type)]
    values = {name: everything[name].to_pylist() for name in scalar}

    def part() -> tuple[str, str, Any]:
        name = chance.choice(scalar)
        operator = chance.choice(["==", "!=", "<", "<=", ">", ">=", "in", "not in"])
        if "in" in operator:
            return name, operator, [chance.choice([*values[name], None]) for _ in range(2)]
        known = [value for value in values[name] if value is not None]
        return name, operator, neighbours(chance.choice(known), chance)

    for _ in range(number):
        groups = [
            [part() for _ in range(chance.choice([1, 1, 2]))] for _ in range(chance.choice([1, 2]))
        ]
        yield parse_filter(groups)


NO_STATISTICS = (
    "mdt_expression",
    "mdt_keys_by_partition",
    "mdt_secondary",
    "mdt_secondary_mor",
)


@pytest.mark.rule("MDT-19", "MDT-20")
@pytest.mark.rotated(1, one_of=4)
@pytest.mark.parametrize("table", [t for t in TABLES if t.rpartition("/")[2] not in NO_STATISTICS])
def test_no_row_that_passes_is_left_out(table: str) -> None:
    snapshot, metadata, rows = read(table)
    schema = snapshot.schema.data
    rows_of = {(s.partition_path, s.file_id): own for s, own in rows}
    slices = [file_slice for file_slice, _ in rows]
    num_left_out = 0
    for row_filter in filters(table, 60):
        kept = prune_slices(metadata, slices, row_filter, schema, whatever_it_costs=True)
        for file_slice in slices:
            if file_slice not in kept:
                num_left_out += 1
                own = rows_of[file_slice.partition_path, file_slice.file_id]
                assert row_filter.apply(own).num_rows == 0, row_filter.alternatives
    assert num_left_out > 0


SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "f": pa.float64(),
        "word": pa.string(),
        "amount": pa.decimal128(10, 2),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "raw": pa.binary(),
    }
)


def stats(
    column: str, wrapper: str, low: object, high: object, nulls: int = 0, **more: Any
) -> ColumnStats:
    bounds = StatValue(wrapper, low), StatValue(wrapper, high)
    return ColumnStats("file", column, *bounds, 10, nulls, 0, 0, False, **more)


def may_match(column: str, operator: str, value: Any, *own: ColumnStats) -> bool:
    row_filter = parse_filter([(column, operator, value)])
    wanted = [list(own)] if prunable_columns(row_filter, SCHEMA) and own else []
    return row_filter.may_match(find_file_ranges(wanted, SCHEMA))


def test_the_range_of_a_slice_is_that_of_all_its_files() -> None:
    base, log = stats("n", "Int", 1, 5), stats("n", "Long", 20, 30)
    assert may_match("n", "==", 12, base, log)
    assert may_match("n", "==", 30, base, log)
    assert not may_match("n", "==", 31, base, log)
    assert not may_match("n", "in", [None], base, log)
    assert may_match("n", "in", [None], base, stats("n", "Int", 1, 5, nulls=1))


@pytest.mark.parametrize(
    ("column", "value", "own"),
    [
        ("f", 7.0, stats("f", "Double", 0.0, 0.0)),  # as Hudi says where there is a NaN
        ("raw", b"z", stats("raw", "Bytes", b"a", b"b")),
        ("at", datetime(2024, 1, 1), stats("at", "Long", 0, 0)),  # of which unit?
        ("word", "\uffee", stats("word", "String", "a", "b")),
        ("word", "x", stats("word", "Int", 1, 2)),
        ("n", 9, stats("n", "String", "1", "2")),
        ("n", 9, stats("n", "Long", 1, 2, value_type=16)),
        ("amount", Decimal("9"), stats("amount", "Bytes", b"\x01", b"\x02")),
        ("amount", Decimal("9"), stats("amount", "Bytes", b"1", b"2", value_type=10)),
        (
            "amount",
            Decimal("9"),
            stats("amount", "Bytes", b"\1", b"\2", value_type=10, value_type_info="9,1"),
        ),
        ("day", date(2024, 1, 1), stats("day", "Date", 10**9, 10**9)),
        ("n", 9, ColumnStats("file", "n", None, None, 10, 10, 0, 0, False)),  # without statistics
        ("n", 9, stats("n", "Int", 2, 1)),
    ],
)
def test_statistics_that_are_not_trusted(column: str, value: Any, own: ColumnStats) -> None:
    assert may_match(column, "==", value, own)


@pytest.mark.parametrize(
    ("column", "value", "own"),
    [
        ("word", "c", stats("word", "String", "a", "b", value_type=7)),
        ("amount", Decimal("9"), stats("amount", "Decimal", b"\x01", b"\x02")),
        (
            "amount",
            Decimal("9"),
            stats("amount", "Bytes", b"\x01", b"\x02", value_type=10, value_type_info="10,2"),
        ),
        ("day", date(1970, 1, 3), stats("day", "Int", 0, 1, value_type=12)),
        ("day", date(1970, 1, 3), stats("day", "Date", 0, 1)),
    ],
)
def test_statistics_that_are_trusted(column: str, value: Any, own: ColumnStats) -> None:
    assert not may_match(column, "==", value, own)


def test_a_scan_skips_by_statistics_where_that_saves_requests() -> None:
    table = "metadata/1.2.0/mdt_types"
    snapshot, metadata, rows = read(table)
    slices = [file_slice for file_slice, _ in rows]
    row_filter = parse_filter([("n", ">", 10**6)])
    schema = snapshot.schema.data
    assert (
        prune_slices(metadata, slices, row_filter, schema) == slices
    )  # 6 files to open, 8 to read
    assert prune_slices(metadata, slices, row_filter, schema, whatever_it_costs=True) == []
    assert prune_slices(metadata, slices * 3, row_filter, schema) == []


def test_a_plan_says_what_statistics_left_out() -> None:
    files = table_files("1.0.2/mdt_bucket")
    store = MemoryStore(files)
    opened = bf.Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None)
    plan = opened.scan(filter=[("price", ">=", 1.0), ("qty", ">", 100)]).plan()
    assert plan.file_groups_skipped > 0


BLOOMED = [t for t in TABLES if t.endswith(("rli", "mdt_services"))]


@pytest.mark.parametrize("table", BLOOMED)
def test_bloom_filters_leave_out_files_without_the_keys(table: str) -> None:
    _, metadata, rows = read(table)
    keys = pa.array([f"key-{number:06}" for number in range(0, 340, 7)] + ["no key"])
    wanted = [(file_slice, keys) for file_slice, _ in rows]
    kept = prune_by_bloom_filters(metadata, wanted, whatever_it_costs=True)
    left = {(each.partition_path, each.file_id): own.to_pylist() for each, own in kept}
    for file_slice, own in rows:
        held = set(own["id"].to_pylist()) & set(keys.to_pylist())
        kept_keys = left.get((file_slice.partition_path, file_slice.file_id), [])
        assert held <= set(kept_keys)
        if file_slice.log_files:
            assert kept_keys == keys.to_pylist()
    if not all(file_slice.log_files for file_slice, _ in rows):
        assert sum(map(len, left.values())) < len(wanted) * len(keys)
    assert prune_by_bloom_filters(metadata, wanted) == wanted  # it would take more requests
    assert prune_by_bloom_filters(metadata, []) == []


def test_look_ups_by_bloom_filters_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    always = partial(prune_by_bloom_filters, whatever_it_costs=True)
    monkeypatch.setattr("bucketfmt.table.lookup.prune_by_bloom_filters", always)
    store = MemoryStore(table_files("1.2.0/rli"))
    opened = bf.Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None)
    keys = [f"key-{number:06}" for number in range(0, 340, 7)]
    found = opened.lookup(keys)
    rows = opened.scan(filter=[("id", "in", keys)]).to_arrow()
    assert sorted(found["id"].to_pylist()) == sorted(rows["id"].to_pylist()) != []
