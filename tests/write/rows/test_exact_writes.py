"""A write keeps every value, stored and incoming, or is refused and leaves nothing.

Values are compared exactly, as Python compares numbers of different types.
"""

from __future__ import annotations

import math
import tempfile
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import bucketfmt as bf
from bucketfmt.rows.columns.column_types import stored_columns
from tests.rotation import examples
from tests.write.arguments.test_bad_input import tree

UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
NUMBERS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.decimal128(9, 2), pa.decimal128(12, 4), pa.decimal256(20, 3), pa.decimal128(38, 0)),
]
FAMILIES = [
    NUMBERS,
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
    [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2), pa.binary(3)],
    [pa.date32(), pa.date64()],
    [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
    [pa.timestamp(unit) for unit in UNITS],
    [pa.timestamp(unit, zone) for unit in UNITS for zone in ("UTC", "Europe/Berlin")],
    [pa.bool_()],
]
ONLY_IN_ROWS = [pa.uint64(), pa.decimal128(5, -2), pa.null()]
NEVER = [
    pa.uint64(),
    pa.duration("s"),
    pa.null(),
    pa.uuid(),
    pa.month_day_nano_interval(),
    pa.struct([]),
    pa.struct([("a", pa.int32()), ("a", pa.int32())]),
    pa.struct([("a", pa.int32()), ("A", pa.int32())]),
    pa.map_(pa.int32(), pa.string()),
    pa.decimal256(40, 2),
    pa.decimal128(10, -2),
    pa.dense_union([pa.field("a", pa.int32())]),
    pa.binary(0),
]
SHAPES = [
    lambda kind: kind,
    pa.list_,
    pa.large_list,
    lambda kind: pa.list_(kind, 2),
    lambda kind: pa.map_(pa.string(), kind),
    lambda kind: pa.struct([("a", kind), ("b", pa.string())]),
    lambda kind: pa.list_(pa.struct([("a", pa.map_(pa.large_string(), pa.list_(kind)))])),
]
KINDS = [(kind, version) for kind in ("COPY_ON_WRITE", "MERGE_ON_READ") for version in (6, 8, 9)]
FEW = settings(deadline=None, max_examples=examples(20))


def integers(bits: int, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    edges = [n for p in (24, 31, 32, 53, 63) for n in (2**p - 1, 2**p, 2**p + 1) if n <= high]
    small = st.integers(max(low, -3), min(high, 300))
    return small | st.integers(low, high) | (st.sampled_from(edges) if edges else small)


def scalars(kind: pa.DataType, *, whole: bool) -> st.SearchStrategy[Any]:
    """Values of a type; `whole`: only those that the stored type holds."""
    types = pa.types
    if types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind):
        return st.text(max_size=4)
    if kind == pa.string_view():
        return st.text(max_size=20)
    if types.is_boolean(kind):
        return st.booleans()
    if types.is_integer(kind):
        return integers(kind.bit_width, types.is_signed_integer(kind))
    if types.is_floating(kind):
        return st.floats(width=kind.bit_width) | st.integers(-1000, 1000).map(float)
    if types.is_decimal(kind):
        digits = st.integers(1 - 10**kind.precision, 10**kind.precision - 1)
        few = st.integers(-500, 500)
        context = Context(prec=kind.precision)  # the default one rounds to 28 digits
        return (digits | few).map(lambda n: Decimal(n).scaleb(-kind.scale, context))
    if types.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if types.is_date32(kind):
        return st.integers(-100_000, 100_000)
    if types.is_date64(kind):
        days = st.integers(-10_000, 10_000).map(lambda n: n * 86_400_000)
        return days if whole else days | st.integers(0, 10**9)
    if types.is_time(kind):
        units = st.integers(0, 86_399 * 10**9 // UNITS[kind.unit])
        return units.map(lambda n: n - n % 1000) if whole and kind.unit == "ns" else units
    if types.is_timestamp(kind):
        units = st.integers(-(10**9), 10**9) | st.integers(0, 10**4).map(lambda n: n * 1000)
        if not whole:
            units |= st.integers(-(2**62), 2**62)
        return units.map(lambda n: n - n % 1000) if whole and kind.unit == "ns" else units
    return st.binary(max_size=4)


def column(kind: pa.DataType, size: int, *, whole: bool) -> st.SearchStrategy[pa.Array]:
    """Arrays of a type."""
    types = pa.types
    if types.is_null(kind):
        return st.just(pa.nulls(size))
    if types.is_struct(kind):
        fields = [column(field.type, size, whole=whole) for field in kind]
        masks = st.lists(st.booleans(), min_size=size, max_size=size)
        return st.builds(
            lambda children, mask: pa.StructArray.from_arrays(
                children, fields=list(kind), mask=pa.array(mask, pa.bool_())
            ),
            st.tuples(*fields),
            masks,
        )
    if types.is_nested(kind):
        count = kind.list_size if types.is_fixed_size_list(kind) else None
        item = kind.item_type if types.is_map(kind) else kind.value_type
        possible = [None, count or 0, count or 1, count or 2]
        lengths = st.lists(st.sampled_from(possible), min_size=size, max_size=size)
        return lengths.flatmap(
            lambda sizes: column(item, _count(sizes, count), whole=whole).map(
                lambda items: listed(kind, sizes, items)
            )
        )
    values = st.lists(st.none() | scalars(kind, whole=whole), min_size=size, max_size=size)
    return values.map(lambda found: plain(found, kind))


def _count(sizes: list[int | None], fixed: int | None) -> int:
    return len(sizes) * fixed if fixed else sum(size or 0 for size in sizes)


def plain(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_date64(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        bits = 32 if kind.bit_width == 32 else 64
        return pa.array(values, pa.int32() if bits == 32 else pa.int64()).view(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


def listed(kind: pa.DataType, sizes: list[int | None], items: pa.Array) -> pa.Array:
    if pa.types.is_fixed_size_list(kind):
        mask = pa.array([n is None for n in sizes], pa.bool_())
        return pa.FixedSizeListArray.from_arrays(items, type=kind, mask=mask)
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + (size or 0))
    mask = pa.array([size is None for size in sizes], pa.bool_())
    if pa.types.is_map(kind):
        keys = pa.array([f"k{n}" for n in range(len(items))], kind.key_type)
        entries = pa.StructArray.from_arrays(
            [keys, items], fields=[kind.key_field, kind.item_field]
        )
        spans = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), entries, mask=mask)
        return pa.Array.from_buffers(kind, len(sizes), spans.buffers()[:2], children=[entries])
    of = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    width = pa.int64() if pa.types.is_large_list(kind) else pa.int32()
    return of.from_arrays(pa.array(offsets, width), items, type=kind, mask=mask)


def exact(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values, in a form in which equal values of all types are equal and others differ."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind = array.type
    if pa.types.is_dictionary(kind):
        return exact(array.dictionary_decode())
    if pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        raw = array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
        return [None if n is None else n * UNITS[kind.unit] for n in raw]
    if pa.types.is_date64(kind):
        return [None if n is None else n / 86_400_000 for n in array.view(pa.int64()).to_pylist()]
    if pa.types.is_date32(kind):
        return list(array.view(pa.int32()).to_pylist())
    if pa.types.is_struct(kind):
        children = [exact(child) for child in array.flatten()]
        names = [field.name for field in kind]
        valid = array.is_valid().to_pylist()
        return [
            dict(zip(names, row, strict=True)) if is_valid else None
            for is_valid, row in zip(valid, zip(*children, strict=True), strict=True)
        ]
    if pa.types.is_map(kind):
        return [
            None if not each.is_valid else dict(zip(*_entries(each), strict=True)) for each in array
        ]
    if pa.types.is_nested(kind):
        return [None if not each.is_valid else exact(each.values) for each in array]
    return [_tagged(value) for value in array.to_pylist()]


def _entries(each: pa.Scalar) -> tuple[list[Any], list[Any]]:
    return each.values.field(0).to_pylist(), exact(each.values.field(1))


def _tagged(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, float) and value == 0 and math.copysign(1, value) < 0:
        return "-0.0"
    return ("bool", value) if isinstance(value, bool) else value


def keyed(keys: str, **columns: pa.Array) -> pa.Table:
    return pa.table({"id": list(keys), "ts": pa.array([len(keys)] * len(keys)), **columns})


def make(root: Path, schema: pa.Schema, kind: tuple[str, int]) -> bf.Table:
    return bf.create(
        root,
        schema=pa.schema([("id", pa.string()), ("ts", pa.int64()), *schema]),
        record_key=["id"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(1),
        table_type=kind[0],  # type: ignore[arg-type]
        table_version=kind[1],
    )


def read(table: bf.Table, name: str) -> dict[str, Any]:
    found = bf.open(table.uri).scan().to_arrow()
    return dict(zip(found["id"].to_pylist(), exact(found[name]), strict=True))


@FEW
@given(st.sampled_from(KINDS), st.sampled_from(SHAPES), st.data())
def test_values_stay_or_the_write_is_refused(
    kind: tuple[str, int], shape: Any, data: st.DataObject
) -> None:
    family = data.draw(st.sampled_from(FAMILIES))
    stored = shape(data.draw(st.sampled_from(family)))
    version = 9 if any(map(is_zoneless, family)) else kind[1]
    kind = kind[0], version
    other = data.draw(st.sampled_from([*family, *ONLY_IN_ROWS]))
    first = data.draw(column(stored, 3, whole=True))
    second = data.draw(column(shape(other), 2, whole=data.draw(st.booleans())))
    evolve = data.draw(st.booleans())
    with tempfile.TemporaryDirectory() as folder:
        table = make(Path(folder, "t"), pa.schema([("v", stored)]), kind)
        table.upsert(keyed("abc", v=first))
        expected = dict(zip("abc", exact(first), strict=True))
        assert read(table, "v") == expected
        before = tree(Path(folder))
        rows = keyed("cd", v=second)
        rows = rows.set_column(1, "ts", pa.array([9, 9]))
        try:
            try:
                table.upsert(rows, evolve=evolve)
            except bf.UnsupportedError as error:
                assert "logged" in str(error)  # noqa: PT017  (there may be none)
                assert kind[0] == "MERGE_ON_READ"
                assert pa.types.is_decimal(family[0])
                assert tree(Path(folder)) == before
                table.compact()
                before = tree(Path(folder))
                table.upsert(rows, evolve=evolve)
        except bf.SchemaError as error:
            assert "column v" in str(error)  # noqa: PT017  (there may be none)
            assert tree(Path(folder)) == before
        else:
            expected |= dict(zip("cd", exact(second), strict=True))
        assert read(table, "v") == expected
        table.compact()
        assert read(table, "v") == expected


def is_zoneless(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind)) and kind.tz is None


ALL_TYPES = [kind for family in FAMILIES for kind in family]


@FEW
@given(st.sampled_from(KINDS), st.data())
def test_what_create_takes_is_stored_and_read_equal(
    kind: tuple[str, int], data: st.DataObject
) -> None:
    odd = data.draw(st.integers(0, 9)) == 0
    taken = [each for each in ALL_TYPES if kind[1] >= 9 or not is_zoneless(each)]
    types = st.sampled_from([*ALL_TYPES, *NEVER] if odd else taken)
    fields = [
        pa.field(name, shape(data.draw(types)), data.draw(st.integers(0, 5)) > 0)
        for name, shape in zip("xyz", data.draw(st.permutations(SHAPES)), strict=False)
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "t")
        try:
            table = make(root, pa.schema(fields), kind)
        except (bf.SchemaError, bf.UnsupportedError) as error:
            assert odd
            assert any(field.name in str(error) for field in fields)  # noqa: PT017
            assert not root.exists()
            return
        columns = {}
        for field in fields:
            values = data.draw(column(field.type, 3, whole=True))
            if not field.nullable and values.null_count:
                if values.null_count == 3:
                    return
                place = values.is_valid().index(True).as_py()
                values = pa.concat_arrays([values.slice(place, 1)] * 3)
            columns[field.name] = values
        for _ in range(2):  # a new file, then the next or a log
            table.upsert(keyed("abc", **columns))
        expected = stored_columns(pa.schema(fields))
        assert [table.schema.field(f.name).type for f in fields] == [f.type for f in expected]
        for name, values in columns.items():
            assert read(table, name) == dict(zip("abc", exact(values), strict=True))
        assert bf.open(table.uri).check(depth="full").status == "clean"
