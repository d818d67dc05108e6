"""What commits say of replaced file groups and of columns, against what is there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from bucketfmt.errors import CorruptError
from bucketfmt.slices.cross_checks import (
    check_file_columns,
    find_nullability_changes,
)
from bucketfmt.slices.slice_columns import RowSpec, SliceColumns
from bucketfmt.snapshot.data_files.replaced_groups import check_replaced
from bucketfmt.snapshot.schema import TableSchema

OLD = "00000000-8c76-4f72-b6d4-57f8885a1db9-0"
NEW = "00000000-32ae-4f55-95e9-d8c3c0ac7190-0"


def test_a_replaced_group_that_is_there() -> None:
    check_replaced("us", {OLD, NEW}, {OLD}, {})


def test_replaced_groups_that_were_cleaned() -> None:
    check_replaced("us", {NEW}, {OLD}, {OLD: "us"})
    sibling = NEW[:-1] + "1"
    check_replaced("us", {NEW}, {OLD, "x"}, {sibling[:-2]: "eu"})


@pytest.mark.parametrize("at", range(len(OLD) - 2))
def test_a_damaged_id(at: int) -> None:
    damaged = OLD[:at] + chr(ord(OLD[at]) ^ 1) + OLD[at + 1 :]
    with pytest.raises(CorruptError, match="the commit is damaged"):
        check_replaced("us", {OLD, NEW}, {damaged}, {damaged: "us"})


def test_a_damaged_partition() -> None:
    with pytest.raises(CorruptError, match="in partition 'ts'"):
        check_replaced("us", {OLD, NEW}, set(), {OLD: "ts"})


def test_ids_of_fixed_form_are_neighbours_by_design() -> None:
    first, second = (f"0000000{bucket}-0000-0000-0000-000000000000-0" for bucket in (1, 2))
    check_replaced("us", {first}, {second}, {second: "us"})
    check_replaced("us", {first}, set(), {first: "eu"})


STATED = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int64()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.struct([("k", pa.int32())]))),
    ]
)


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("n", pa.int32()),
        ("n", pa.int16()),
        ("id", pa.binary()),
        ("at", pa.timestamp("us")),
        ("at", pa.int64()),
        ("tags", pa.list_(pa.struct([("k", pa.int8())]))),
    ],
)
def test_types_that_read_alike(name: str, stored: pa.DataType) -> None:
    check_file_columns(pa.schema([("_hoodie_record_key", pa.string()), (name, stored)]), STATED)


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("n", pa.float64()),
        ("price", pa.decimal128(10, 3)),
        ("price", pa.int64()),
        ("id", pa.int32()),
        ("i", pa.string()),
        ("tags", pa.list_(pa.struct([("k", pa.int64())]))),
        ("tags", pa.list_(pa.struct([("c", pa.int32())]))),
    ],
)
def test_types_that_read_otherwise(name: str, stored: pa.DataType) -> None:
    with pytest.raises(CorruptError, match="not in the schema of the commit"):
        check_file_columns(pa.schema([(name, stored)]), STATED)


def test_nullability_changes() -> None:
    stored = pa.schema([pa.field("id", pa.string(), nullable=False), ("n", pa.int64())])
    assert find_nullability_changes(stored, STATED) == ["id"]
    assert find_nullability_changes(pa.schema([("_hoodie_record_key", pa.string())]), STATED) == []


class _File:
    """A base file, of which only the columns are asked."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.asked: list[list[str]] = []

    def check_nullable(self, columns: list[str]) -> None:
        self.asked.append(columns)


def test_files_with_other_columns_are_checked_after_a_file_that_is_sound() -> None:
    sound, wide = pa.schema([("n", pa.int64())]), pa.schema([("n", pa.int64()), ("m", pa.int64())])
    strict = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    stated = {"1": sound, "2": wide, "3": strict}
    basis: Any = SimpleNamespace(stated_columns=stated.get)
    columns = SliceColumns(basis, RowSpec(TableSchema(sound), sound))
    files: Any = [_File(sound) for _ in range(3)]
    for file, instant in zip(files, ("1", "1", "3"), strict=True):
        columns.check_file(file, instant)
    assert [file.asked for file in files] == [[[]], [[]], [["n"]]]
    damaged: Any = _File(wide)
    with pytest.raises(CorruptError, match="column 'm' is not in the schema of the commit"):
        columns.check_file(damaged, "1")
    columns.check_file(damaged, "2")
    with pytest.raises(CorruptError, match="column 'm' is not in the schema of the commit"):
        columns.check_file(damaged, "1")
    assert damaged.asked == [[]]
