"""Arrow schemas as the Avro JSON text Hudi's Spark writer makes of the same columns.

Hudi keeps this text in commit metadata, in `hoodie.table.create.schema` and in the SCHEMA header
of log blocks. Sources: `HoodieSparkAvroSchemaConverters.toAvroType` (names of nested types),
`AvroConversionUtils.getAvroSchemaWithDefaults`, `HoodieAvroUtils.addMetadataFields`. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa

from bucketfmt.errors import SchemaError, UnsupportedError
from bucketfmt.rows.columns.meta_columns import META_COLUMNS

__all__ = ["avro_schema_json"]

_PLAIN: Mapping[pa.DataType, str] = {
    pa.null(): "null",
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.uint8(): "int",
    pa.uint16(): "int",
    pa.uint32(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.binary(): "bytes",
    pa.large_binary(): "bytes",
    pa.string(): "string",
    pa.large_string(): "string",
}
_UNITS = {"s": "millis", "ms": "millis", "us": "micros", "ns": "micros"}


def avro_schema_json(schema: pa.Schema, name: str, namespace: str) -> str:
    """Return the Avro JSON of a record called `name` in `namespace` ("" for none).

    A nullable field is ["null", type] with default null. A nested record has the name of its field,
    in the namespace of the record around it; a decimal is the smallest fixed that holds its digits,
    named "fixed" in a namespace of its own. Timestamps of seconds become
    milliseconds, of nanoseconds microseconds: casting rows may then refuse.

    Raises:
        SchemaError: a name is not valid in Avro.
        UnsupportedError: Avro or Hudi has no counterpart for a type.
    """
    return json.dumps(
        _record(list(schema), name, namespace), ensure_ascii=False, separators=(",", ":")
    )


def _record(fields: list[pa.Field], name: str, namespace: str) -> dict[str, object]:
    inner = f"{namespace}.{name}" if namespace else name
    return {
        "type": "record",
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "fields": [_field(field, inner) for field in fields],
    }


def _field(field: pa.Field, namespace: str) -> dict[str, object]:
    if not _is_name(field.name):
        raise SchemaError(
            f"column {field.name!r}: Hudi takes names of letters, digits and _, no digit first"
        )
    kind = _nullable(field, field.name, namespace)
    doc = {"doc": ""} if field.name in META_COLUMNS else {}
    default = {"default": None} if isinstance(kind, list) else {}
    return {"name": field.name, "type": kind, **doc, **default}


def _is_name(text: str) -> bool:
    """Source: org.apache.avro.Schema.validateName, which looks at units of UTF-16."""
    letters = [letter == "_" or (letter <= "\uffff" and letter.isalpha()) for letter in text]
    return (
        bool(text)
        and letters[0]
        and all(
            is_letter or letter.isdecimal() for is_letter, letter in zip(letters, text, strict=True)
        )
    )


def _nullable(field: pa.Field, name: str, namespace: str) -> object:
    """Return the type of a field, item or map value; a named type in it gets the name `name`."""
    kind = _type(field.type, name, namespace)
    return ["null", kind] if field.nullable and kind != "null" else kind


def _type(kind: pa.DataType, name: str, namespace: str) -> object:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pa.types.is_dictionary(kind):
        return _type(kind.value_type, name, namespace)
    if pa.types.is_struct(kind):
        return _record(list(kind), name, namespace)
    if pa.types.is_map(kind):
        return {"type": "map", "values": _nullable(kind.item_field, name, namespace)}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"type": "array", "items": _nullable(kind.value_field, name, namespace)}
    if pa.types.is_decimal(kind):
        size = ((10**kind.precision - 1).bit_length() + 8) // 8  # and a bit for the sign
        logical = {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        return {**_fixed(name, namespace, size), **logical}
    if pa.types.is_fixed_size_binary(kind):
        return _fixed(name, namespace, kind.byte_width)
    if pa.types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_time(kind):
        unit = _UNITS[kind.unit]
        base = "int" if unit == "millis" else "long"
        return {"type": base, "logicalType": f"time-{unit}"}
    if pa.types.is_timestamp(kind):
        local = "" if kind.tz else "local-"
        return {"type": "long", "logicalType": f"{local}timestamp-{_UNITS[kind.unit]}"}
    raise UnsupportedError(f"column {name!r}: Avro has no type for {kind}; cast it first")


def _fixed(name: str, namespace: str, size: int) -> dict[str, object]:
    inner = f"{namespace}.{name}" if namespace else name
    return {"type": "fixed", "name": "fixed", "namespace": inner, "size": size}
