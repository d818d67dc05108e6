"""Avro schemas as values: the part of Avro that Hudi's tables use.

A union is "null and one other type" and no type contains itself. `avro_schema` makes these values
of JSON text. Source: the Avro 1.11 specification. Pure: no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = [
    "AvroArray",
    "AvroEnum",
    "AvroField",
    "AvroFixed",
    "AvroMap",
    "AvroNullable",
    "AvroPrimitive",
    "AvroRecord",
    "AvroSchema",
    "LogicalType",
]


@dataclass(frozen=True, slots=True)
class LogicalType:
    """An Avro logical type; `precision` and `scale` are a decimal's and 0 otherwise."""

    name: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class AvroPrimitive:
    """A built-in type: `kind` is null, boolean, int, long, float, double, bytes or string."""

    kind: str
    logical: LogicalType | None = None


@dataclass(frozen=True, slots=True)
class AvroFixed:
    """Exactly `size` bytes. `name` is the full name, as for every named type."""

    name: str
    size: int
    logical: LogicalType | None = None


@dataclass(frozen=True, slots=True)
class AvroEnum:
    """One of `symbols`, stored as its index."""

    name: str
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AvroArray:
    """A list of `items`."""

    items: AvroSchema


@dataclass(frozen=True, slots=True)
class AvroMap:
    """String keys with `values`."""

    values: AvroSchema


@dataclass(frozen=True, slots=True)
class AvroNullable:
    """The union of null and `value`; `null_index` is the branch (0 or 1) that is null."""

    value: AvroSchema
    null_index: int = 0


@dataclass(frozen=True, slots=True)
class AvroField:
    """One field of a record. `default` is a JSON value, meaningless without `has_default`."""

    name: str
    schema: AvroSchema
    has_default: bool = False
    default: object = field(default=None, hash=False)
    doc: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AvroRecord:
    """A record, the type of a row and of a nested row."""

    name: str
    fields: tuple[AvroField, ...]
    doc: str | None = None
    aliases: tuple[str, ...] = ()


AvroSchema = AvroPrimitive | AvroFixed | AvroEnum | AvroArray | AvroMap | AvroNullable | AvroRecord
