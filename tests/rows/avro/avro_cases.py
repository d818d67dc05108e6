"""Random Avro schemas with rows of them, and data blocks made by fastavro."""

from __future__ import annotations

import datetime as dt
import io
import itertools
import json
import math
import struct
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
from hypothesis import strategies as st

Json = Any
Values = st.SearchStrategy[Any]


class Case(NamedTuple):
    """An Avro record schema and rows of it as fastavro takes and gives them."""

    schema: dict[str, Json]
    rows: list[dict[str, Any]]

    @property
    def text(self) -> str:
        return json.dumps(self.schema)


def fastavro_block(case: Case, version: int = 3) -> bytes:
    """The content of a data block as Hudi would write it."""
    parsed = fastavro.parse_schema(case.schema)
    out = [struct.pack(">ii", version, len(case.rows))]
    for row in case.rows:
        one = io.BytesIO()
        fastavro.schemaless_writer(one, parsed, row, strict=True)
        out += [struct.pack(">i", one.tell()), one.getvalue()]
    return b"".join(out)


def fastavro_rows(content: bytes, schema: dict[str, Json]) -> list[dict[str, Any]]:
    """What fastavro reads from a data block; each row must end where its length says."""
    parsed, stream, rows = fastavro.parse_schema(schema), io.BytesIO(content), []
    _, count = struct.unpack(">ii", stream.read(8))
    for _ in range(count):
        (length,) = struct.unpack(">i", stream.read(4))
        begin = stream.tell()
        rows.append(comparable(fastavro.schemaless_reader(stream, parsed)))
        assert stream.tell() - begin == length
    assert stream.read() == b""
    return rows


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows as fastavro gives them: maps as dicts."""
    return [comparable(row) for row in table.to_pylist(maps_as_pydicts="strict")]


def comparable(value: Any) -> Any:
    """The value with a text in place of each NaN, which is unequal to itself."""
    if isinstance(value, dict):
        return {key: comparable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [comparable(inner) for inner in value]
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


_EXACT = Context(prec=100)
_UTC = dt.timezone.utc
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=70)
_NAIVE = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))
_MILLIS = _NAIVE.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))


def _logical(base: str, name: str, values: Values) -> tuple[Json, Values]:
    return {"type": base, "logicalType": name}, values


def _decimal(base: dict[str, Json], precision: int, scale: int) -> tuple[Json, Values]:
    unscaled = st.integers(-(10**precision) + 1, 10**precision - 1)
    kind = {**base, "logicalType": "decimal", "precision": precision, "scale": scale}
    return kind, unscaled.map(lambda value: Decimal(value).scaleb(-scale, _EXACT))


SCALARS: list[Callable[[Iterator[str]], tuple[Json, Values]]] = [
    lambda _: ("boolean", st.booleans()),
    lambda _: ("int", st.integers(-(2**31), 2**31 - 1)),
    lambda _: ("long", st.integers(-(2**63), 2**63 - 1)),
    lambda _: ("long", st.integers(-100, 100)),
    lambda _: ("float", st.floats(width=32)),
    lambda _: ("double", st.floats()),
    lambda _: ("string", _TEXT),
    lambda _: ({"type": "string", "avro.java.string": "String"}, _TEXT),
    lambda _: ("bytes", st.binary(max_size=70)),
    lambda _: _logical("int", "date", st.dates()),
    lambda _: _logical("long", "timestamp-micros", _NAIVE.map(lambda t: t.replace(tzinfo=_UTC))),
    lambda _: _logical("long", "timestamp-millis", _MILLIS.map(lambda t: t.replace(tzinfo=_UTC))),
    lambda _: _logical("long", "local-timestamp-micros", _NAIVE),
    lambda _: _logical("long", "time-micros", st.times()),
    lambda names: (
        {"type": "fixed", "name": next(names), "size": 5},
        st.binary(min_size=5, max_size=5),
    ),
    lambda names: (
        {"type": "enum", "name": next(names), "symbols": ["RED", "GREEN", "BLUE"]},
        st.sampled_from(["RED", "GREEN", "BLUE"]),
    ),
    lambda _: _decimal({"type": "bytes"}, 20, 6),
    lambda _: _decimal({"type": "bytes"}, 60, 10),
    lambda names: _decimal({"type": "fixed", "name": next(names), "size": 8}, 18, 4),
    lambda names: _decimal({"type": "fixed", "name": next(names), "size": 16}, 38, 0),
    lambda names: _decimal({"type": "fixed", "name": next(names), "size": 20}, 30, 3),
]


@st.composite
def _kinds(draw: st.DrawFn, names: Iterator[str], depth: int) -> tuple[Json, Values]:
    shape = draw(st.sampled_from(["scalar"] * 4 + ["null", "array", "map", "record"]))
    if shape == "null" and depth:
        kind, values = draw(_kinds(names, depth - 1))
        if not isinstance(kind, list):
            union = draw(st.sampled_from([["null", kind], [kind, "null"]]))
            return union, st.none() | values
        return kind, values
    if shape == "array" and depth:
        kind, values = draw(_kinds(names, depth - 1))
        return {"type": "array", "items": kind}, st.lists(values, max_size=5)
    if shape == "map" and depth:
        kind, values = draw(_kinds(names, depth - 1))
        return {"type": "map", "values": kind}, st.dictionaries(_TEXT, values, max_size=3)
    if shape == "record" and depth:
        return draw(_records(names, depth - 1))
    return draw(st.sampled_from(SCALARS))(names)


@st.composite
def _records(draw: st.DrawFn, names: Iterator[str], depth: int) -> tuple[Json, Values]:
    count = draw(st.integers(1, 4))
    kinds = [draw(_kinds(names, depth)) for _ in range(count)]
    fields = [{"name": f"f{index}", "type": kind} for index, (kind, _) in enumerate(kinds)]
    values = st.fixed_dictionaries({f"f{i}": values for i, (_, values) in enumerate(kinds)})
    return {"type": "record", "name": next(names), "fields": fields}, values


@st.composite
def cases(draw: st.DrawFn, rows_max: int = 12) -> Case:
    """A random record schema, nested, and some rows of it."""
    names = (f"named{number}" for number in itertools.count())
    schema, values = draw(_records(names, 3))
    return Case(schema, draw(st.lists(values, max_size=rows_max)))
