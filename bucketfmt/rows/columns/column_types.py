"""Which Arrow types a table stores, and the type that a column has once it is in a table.

Pure. A table stores types whose values Avro, parquet and every Hudi release that writes its
version read back equal. Sources: the Avro 1.11 specification, HoodieSparkAvroSchemaConverters,
AvroSchemaConverter of parquet-avro.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pyarrow as pa

from bucketfmt.errors import SchemaError, UnsupportedError

__all__ = ["NESTING_MAX", "column_type", "find_wider_type", "is_list", "stored_columns"]

NESTING_MAX = 30
"""Levels of structs, lists and maps in a column that is created here.

Each level takes two levels of the Avro schema and of parquet's schema, and
`Limits.schema_depth_max` is 64, like
Arrow's own bound for columns that one process passes on to another.
"""

_DECIMAL_DIGITS = 38  # of Spark's decimals
_STORED: Mapping[pa.DataType, pa.DataType] = {
    **{
        kind: kind
        for kind in (
            pa.bool_(),
            pa.int32(),
            pa.int64(),
            pa.float32(),
            pa.float64(),
            pa.string(),
            pa.binary(),
            pa.date32(),
        )
    },
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time32("ms"),
    pa.time32("ms"): pa.time32("ms"),
    pa.time64("us"): pa.time64("us"),
    pa.time64("ns"): pa.time64("us"),
}
_ZONELESS_VERSION = 9  # the first whose releases read timestamps without a time zone
# Hudi on Spark has columns of microseconds only. Copy-on-write upserts of 0.15 and 1.0 store the
# numbers of a column of milliseconds as microseconds, and 1.2 refuses to write.
_TIMESTAMP_UNIT = "us"


def stored_columns(schema: pa.Schema, table_version: int = 9) -> pa.Schema:
    """Return the columns as a table of a version stores them.

    Raises:
        SchemaError: two names differ at most in case, which Spark ignores; or a column is of type
            null.
        UnsupportedError: a table cannot hold a type.
    """
    _check_names([field.name for field in schema], "")
    types = [column_type(field.type, field.name, 0, table_version) for field in schema]
    fields = zip(schema, types, strict=True)
    return pa.schema([field.with_type(kind).remove_metadata() for field, kind in fields])


def column_type(
    kind: pa.DataType, path: str, depth: int = 0, table_version: int = 9
) -> pa.DataType:
    """Return the type that a column of `kind` has once it is in a table.

    Every value of `kind` has an equal value of that type, except times in units finer than
    microseconds: `rows.exact_cast` refuses a value that microseconds cannot express.

    Args:
        kind: Any Arrow type.
        path: The name of the column in errors, such as "point.x".
        depth: The number of types around this type.
        table_version: Of the table. Hudi 0.15.0 on Spark reads no table that has a timestamp
            without a time zone, and Hudi 1.0.2 reads other values; neither writes to it.

    Raises:
        SchemaError: two fields of a struct have names that differ at most in case, or a column is
            of type null.
        UnsupportedError: a table cannot hold the type, or the Hudi releases that write the table
            version do not read it.
    """
    if kind in _STORED:
        return _STORED[kind]
    if pa.types.is_null(kind):
        raise SchemaError(f"column {path}: Hudi stores no column of type null; give it a type")
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return column_type(kind.value_type, path, depth, table_version)
    if pa.types.is_timestamp(kind):
        return _timestamp(kind, path, table_version)
    if pa.types.is_decimal(kind):
        return _decimal(kind, path)
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width:
        return kind
    if depth >= NESTING_MAX and pa.types.is_nested(kind):
        raise UnsupportedError(
            f"column {_shown(path)}: more than {NESTING_MAX} levels of structs, lists and maps; "
            "store the inner levels as text or as columns of their own"
        )
    if pa.types.is_struct(kind):
        return _struct(kind, path, depth, table_version)
    if pa.types.is_map(kind):
        return _map(kind, path, depth, table_version)
    if is_list(kind):
        element = column_type(kind.value_type, f"{path}.element", depth + 1, table_version)
        return pa.list_(pa.field("element", element, kind.value_field.nullable))
    raise UnsupportedError(f"column {path}: {_reason(kind)}")


def is_list(kind: pa.DataType) -> bool:
    """Return whether a type is one of Arrow's list types, which have the same values."""
    return any(
        test(kind)
        for test in (
            pa.types.is_list,
            pa.types.is_large_list,
            pa.types.is_fixed_size_list,
            pa.types.is_list_view,
            pa.types.is_large_list_view,
        )
    )


def find_wider_type(stored: pa.DataType, given: pa.DataType) -> pa.DataType | None:
    """Return the type that holds every value of a stored column and of a wider type; or None.

    Integers of 32 bits and decimals are widened. Hudi widens other types too, which changes stored
    values: a bigint above 2^53 becomes another number as a double, a float is converted through its
    text (1.1f becomes 1.1, also another number), and a number becomes a text.
    """
    types = pa.types
    if stored == pa.int32():
        if given in (pa.int64(), pa.uint32(), pa.uint64()):
            return pa.int64()
        return pa.float64() if types.is_floating(given) else None
    if types.is_decimal(stored) and types.is_decimal(given):
        scale = max(stored.scale, given.scale)
        whole = max(stored.precision - stored.scale, given.precision - given.scale)
        if whole + scale <= _DECIMAL_DIGITS and (whole + scale, scale) != (
            stored.precision,
            stored.scale,
        ):
            return pa.decimal128(whole + scale, scale)
    return None


def _decimal(kind: pa.DataType, path: str) -> pa.DataType:
    if not 0 <= kind.scale <= kind.precision <= _DECIMAL_DIGITS:
        raise UnsupportedError(
            f"column {path}: {kind}, where Hudi's decimals have up to {_DECIMAL_DIGITS} digits, "
            "and as many of them or fewer behind the point; cast it"
        )
    return pa.decimal128(kind.precision, kind.scale)


def _timestamp(kind: pa.DataType, path: str, table_version: int) -> pa.DataType:
    if not kind.tz and table_version < _ZONELESS_VERSION:
        raise UnsupportedError(
            f"column {_shown(path)}: Hudi on Spark reads timestamps without a time zone from table "
            f"version {_ZONELESS_VERSION} on, and this table has version {table_version}; give it "
            f'a time zone: pa.timestamp("{_TIMESTAMP_UNIT}", "UTC")'
        )
    return pa.timestamp(_TIMESTAMP_UNIT, "UTC" if kind.tz else None)


def _struct(kind: pa.DataType, path: str, depth: int, table_version: int) -> pa.DataType:
    fields = list(kind)
    if not fields:
        raise UnsupportedError(f"column {path}: parquet has no struct without fields")
    _check_names([field.name for field in fields], f"{path}.")
    types = [column_type(f.type, f"{path}.{f.name}", depth + 1, table_version) for f in fields]
    stored = zip(fields, types, strict=True)
    return pa.struct([pa.field(field.name, own, field.nullable) for field, own in stored])


def _map(kind: pa.DataType, path: str, depth: int, table_version: int) -> pa.DataType:
    key = kind.key_type
    while pa.types.is_dictionary(key) or pa.types.is_run_end_encoded(key):
        key = key.value_type
    if _STORED.get(key) != pa.string():
        raise UnsupportedError(
            f"column {path}: the keys of Hudi's maps are text, not {key}; "
            "cast the keys, or store a list of structs"
        )
    value = column_type(kind.item_type, f"{path}.value", depth + 1, table_version)
    return pa.map_(pa.string(), pa.field("value", value, kind.item_field.nullable))


def _check_names(names: Iterable[str], path: str) -> None:
    """Refuse names that are equal, or differ only in case, which Spark ignores."""
    known: dict[str, str] = {}
    for name, count in Counter(names).items():
        if count > 1:
            raise SchemaError(f"column {path}{name} occurs twice; rename one of the two columns")
        other = known.setdefault(name.lower(), name)
        if other != name:
            raise SchemaError(
                f"the columns {path}{other} and {path}{name} differ by case only, which Spark "
                "does not tell apart; rename one of them"
            )


def _reason(kind: pa.DataType) -> str:
    if isinstance(kind, pa.BaseExtensionType):
        return (
            f"a table keeps no extension types such as {kind}; write its storage, "
            f"{kind.storage_type}"
        )
    if pa.types.is_uint64(kind):
        return "uint64 goes beyond Hudi's long; cast it to int64, or to decimal128(20, 0)"
    return f"Hudi has no type for {kind}; cast it"


def _shown(path: str) -> str:
    return path if len(path) <= 120 else f"{path[:120]}..."
