"""Avro schemas as Hudi stores them: JSON text -> values -> Arrow types.

A table's schema, and the schema of every Avro log block, is Avro JSON. Avro features beyond the
values of `avro_types` are refused by name. Source: the Avro 1.11
specification. Pure: no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.rows.avro.avro_types import (
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroNullable,
    AvroPrimitive,
    AvroRecord,
    AvroSchema,
    LogicalType,
)

__all__ = ["arrow_schema", "arrow_type", "parse_avro_schema"]


_ARROW_PRIMITIVES: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_BYTES_MIN = {"null": 0, "float": 4, "double": 8}  # every other primitive takes at least one
_ARROW_LOGICALS: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
    ("string", "uuid"): pa.string(),
}
_DECIMAL128_DIGITS, _DECIMAL256_DIGITS = 38, 76
_KEPT_TEXT_MAX = 256 << 10  # that of 4,000 columns


def arrow_type(schema: AvroSchema) -> pa.DataType:
    """Return the Arrow type that rows of `schema` decode to. Only fields are nullable.

    Strings and enums become `string`, fixed becomes fixed-size binary, decimals decimal128 up to
    38 digits and decimal256 up to 76. List items are named "element" and map entries "key" and
    "value", as pyarrow names the items of three-level Parquet lists and the entries of maps; the
    two-level lists that Hudi's Avro writer writes to Parquet differ in that name only.
    """
    if isinstance(schema, (AvroPrimitive, AvroFixed)):
        return _arrow_scalar(schema)
    if isinstance(schema, AvroEnum):
        return pa.string()
    if isinstance(schema, AvroArray):
        return pa.list_(_arrow_field("element", schema.items))
    if isinstance(schema, AvroMap):
        return pa.map_(pa.string(), _arrow_field("value", schema.values))
    if isinstance(schema, AvroNullable):
        return arrow_type(schema.value)
    return pa.struct([_arrow_field(child.name, child.schema) for child in schema.fields])


def arrow_schema(schema: AvroRecord) -> pa.Schema:
    """Return the Arrow schema rows of `schema` decode to; a field is nullable iff it is a union."""
    global _known_schemas  # noqa: PLW0603  (threads that race work out the same twice)
    for known, found in _known_schemas:
        if known is schema:
            return found
    found = pa.schema([_arrow_field(child.name, child.schema) for child in schema.fields])
    _known_schemas = ((schema, found), *_known_schemas[: _SCHEMAS_KNOWN - 1])
    return found


_SCHEMAS_KNOWN = 8
_known_schemas: tuple[tuple[AvroRecord, pa.Schema], ...] = ()  # `parse_avro_schema` keeps some too


def _arrow_field(name: str, schema: AvroSchema) -> pa.Field:
    kind = arrow_type(schema)
    return pa.field(name, kind, isinstance(schema, AvroNullable) or kind == pa.null())


def _arrow_scalar(schema: AvroPrimitive | AvroFixed) -> pa.DataType:
    logical = schema.logical
    if logical is not None and logical.name == "decimal":
        wide = logical.precision > _DECIMAL128_DIGITS
        return (pa.decimal256 if wide else pa.decimal128)(logical.precision, logical.scale)
    if isinstance(schema, AvroFixed):
        return pa.binary(schema.size)
    if logical is not None:
        return _ARROW_LOGICALS[schema.kind, logical.name]
    return _ARROW_PRIMITIVES[schema.kind]


def parse_avro_schema(text: str, limits: Limits = DEFAULT_LIMITS) -> AvroRecord:
    """Return the record schema that Avro JSON `text` describes, names resolved.

    Attributes without a meaning for bytes or Arrow (unknown logical types, `avro.java.string`,
    orders) are dropped; a logical type that does not fit its base type is ignored, as Avro asks.

    Raises:
        CorruptError: the text is not JSON, or not an Avro schema.
        UnsupportedError: the schema is valid Avro that no Hudi table has: a union other than null
            and one type, a recursive type, a list of zero-width items, a row that is not a record.
        LimitError: the schema has more fields or levels than `limits` allow, with references
            expanded.
    """
    limits.check("log_header_value_bytes_max", len(text))
    # Every commit and every log block of a table states it, mostly the same.
    return (_parse_kept if len(text) <= _KEPT_TEXT_MAX else _parse)(text, limits)


def _parse(text: str, limits: Limits) -> AvroRecord:
    try:
        node = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"Avro schema: not JSON ({error})") from error
    schema = _SchemaParser(limits).parse(node, "", 0)
    if not isinstance(schema, AvroRecord):
        raise UnsupportedError("Avro schema: a row must be a record")
    return schema


_parse_kept = lru_cache(maxsize=32)(_parse)


class _Extent(NamedTuple):
    """The size of a type with references expanded."""

    fields: int
    height: int
    bytes_min: int


class _SchemaParser:
    """Parses a schema in one walk over the JSON.

    `_extents` is keyed by identity: types are shared, so a short text can stand for a huge tree,
    and only sums over children keep the check cheap.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._named: dict[str, AvroSchema | None] = {}  # None while its definition is open
        self._extents: dict[int, tuple[AvroSchema, _Extent]] = {}

    def parse(self, node: object, namespace: str, depth: int) -> AvroSchema:
        self._limits.check("schema_depth_max", depth)
        if isinstance(node, str):
            return self._reference(node, namespace)
        if isinstance(node, list):
            return self._union(node, namespace, depth)
        if not isinstance(node, dict):
            raise CorruptError(f"Avro schema: a type cannot be {_brief(node)}")
        kind = node.get("type")
        if not isinstance(kind, str):  # {"type": {"type": ...}}, which some writers leave
            return self.parse(kind, namespace, depth + 1)
        if kind in {"record", "error"}:
            return self._record(node, namespace, depth)
        if kind == "array":
            items = self.parse(node.get("items"), namespace, depth + 1)
            return self._collection(AvroArray(items), items)
        if kind == "map":
            values = self.parse(node.get("values"), namespace, depth + 1)
            return self._with_extent(AvroMap(values), [values], bytes_min=1)
        if kind == "enum":
            return self._enum(node, namespace)
        if kind == "fixed":
            return self._fixed(node, namespace)
        if kind in _ARROW_PRIMITIVES:
            return self._primitive(kind, _logical_type(node, kind, None))
        return self._reference(kind, namespace)

    def _reference(self, name: str, namespace: str) -> AvroSchema:
        if name in _ARROW_PRIMITIVES:
            return self._primitive(name, None)
        for full_name in (_full_name(name, namespace), name):
            if full_name in self._named:
                schema = self._named[full_name]
                if schema is None:
                    raise UnsupportedError(f"Avro schema: {full_name!r} contains itself")
                return schema
        raise CorruptError(f"Avro schema: unknown type {_brief(name)}")

    def _primitive(self, kind: str, logical: LogicalType | None) -> AvroSchema:
        return self._with_extent(AvroPrimitive(kind, logical), [], _BYTES_MIN.get(kind, 1))

    def _union(self, branches: Sequence[object], namespace: str, depth: int) -> AvroSchema:
        parsed = [self.parse(branch, namespace, depth + 1) for branch in branches]
        nulls = [index for index, branch in enumerate(parsed) if branch == AvroPrimitive("null")]
        if len(parsed) != 2 or len(nulls) != 1 or isinstance(parsed[1 - nulls[0]], AvroNullable):
            raise UnsupportedError(
                f"Avro schema: a union of {len(parsed)} types other than null and one type"
            )
        value = parsed[1 - nulls[0]]
        return self._with_extent(AvroNullable(value, nulls[0]), [value], bytes_min=1)

    def _record(self, node: Mapping[str, object], namespace: str, depth: int) -> AvroSchema:
        name = self._declare(node, namespace)
        children = node.get("fields")
        if not isinstance(children, list):
            raise CorruptError(f"Avro schema: record {name!r} has no list of fields")
        inner = name.rpartition(".")[0]
        fields = tuple(self._field(child, inner, depth + 1) for child in children)
        if len({child.name for child in fields}) != len(fields):
            raise CorruptError(f"Avro schema: record {name!r} has a field twice")
        record = AvroRecord(name, fields, _doc(node), _texts(node, "aliases"))
        types = [child.schema for child in fields]
        bytes_min = sum(self._extents[id(child)][1].bytes_min for child in types)
        self._named[name] = self._with_extent(record, types, bytes_min)
        return record

    def _field(self, node: object, namespace: str, depth: int) -> AvroField:
        if not isinstance(node, dict):
            raise CorruptError(f"Avro schema: a field cannot be {_brief(node)}")
        return AvroField(
            _text(node.get("name"), "a field's name"),
            self.parse(node.get("type"), namespace, depth),
            "default" in node,
            node.get("default"),
            _doc(node),
            _texts(node, "aliases"),
        )

    def _collection(self, schema: AvroArray, items: AvroSchema) -> AvroSchema:
        if self._extents[id(items)][1].bytes_min == 0:
            raise UnsupportedError("Avro schema: a list whose items take no bytes")
        return self._with_extent(schema, [items], bytes_min=1)

    def _enum(self, node: Mapping[str, object], namespace: str) -> AvroSchema:
        name = self._declare(node, namespace)
        symbols = _texts(node, "symbols")
        if not symbols or len(set(symbols)) != len(symbols):
            raise CorruptError(f"Avro schema: enum {name!r} needs distinct symbols")
        self._named[name] = schema = self._with_extent(AvroEnum(name, symbols), [], bytes_min=1)
        return schema

    def _fixed(self, node: Mapping[str, object], namespace: str) -> AvroSchema:
        name = self._declare(node, namespace)
        size = node.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
            raise CorruptError(f"Avro schema: fixed {name!r} has size {_brief(size)}")
        fixed = AvroFixed(name, size, _logical_type(node, "fixed", size))
        self._named[name] = schema = self._with_extent(fixed, [], size)
        return schema

    def _declare(self, node: Mapping[str, object], namespace: str) -> str:
        inner = node.get("namespace", namespace)
        name = _text(node.get("name"), "a name")
        name = _full_name(name, inner if isinstance(inner, str) else namespace)
        if name in self._named:
            raise CorruptError(f"Avro schema: {name!r} is defined twice")
        self._named[name] = None
        return name

    def _with_extent(
        self, schema: AvroSchema, children: Sequence[AvroSchema], bytes_min: int
    ) -> AvroSchema:
        """Return `schema` after noting its extent, which must be within the limits."""
        inner = [self._extents[id(child)][1] for child in children]
        fields = sum((extent.fields for extent in inner), start=1)
        height = max((extent.height for extent in inner), default=-1) + 1
        self._limits.check("schema_fields_max", fields)
        self._limits.check("schema_depth_max", height)
        self._extents[id(schema)] = schema, _Extent(fields, height, bytes_min)
        return schema


def _logical_type(
    node: Mapping[str, object], kind: str, fixed_size: int | None
) -> LogicalType | None:
    """Return the logical type that a type's attributes name; None if Avro says to ignore it."""
    name = node.get("logicalType")
    if not isinstance(name, str):
        return None
    if name != "decimal" or kind not in {"bytes", "fixed"}:
        return LogicalType(name) if (kind, name) in _ARROW_LOGICALS else None
    precision, scale = node.get("precision"), node.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None
    if not 0 <= scale <= precision or precision < 1:
        return None
    if precision > _DECIMAL256_DIGITS:
        raise UnsupportedError(f"Avro schema: a decimal of {precision} digits; Arrow has 76")
    if fixed_size is not None and (10**precision).bit_length() > max(8 * fixed_size - 1, 0):
        return None
    return LogicalType("decimal", precision, scale)


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _text(value: object, what: str) -> str:
    """Return `value` if it is a text that UTF-8 can hold (JSON escapes can spell others)."""
    try:
        if isinstance(value, str) and value.encode():
            return value
    except UnicodeEncodeError:
        pass
    raise CorruptError(f"Avro schema: {what} cannot be {_brief(value)}")


def _doc(node: Mapping[str, object]) -> str | None:
    doc = node.get("doc")
    return doc if isinstance(doc, str) else None


def _texts(node: Mapping[str, object], key: str) -> tuple[str, ...]:
    values = node.get(key) or []
    if not isinstance(values, list):
        raise CorruptError(f"Avro schema: {key} cannot be {_brief(values)}")
    return tuple(_text(value, key) for value in values)


def _brief(value: object) -> str:
    return ascii(value)[:80]
