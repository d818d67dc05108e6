"""Converts between the types of tables and the types of Spark.

Spark accepts Arrow batches only in the Arrow types that correspond to its own types. Pure.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as st

from bucketfmt import UnsupportedError

__all__ = [
    "arrow_for_spark",
    "arrow_of",
    "as_spark_takes_it",
    "refuse_collations",
    "spark_schema",
]

_DECIMAL_DIGITS = 38
_PLAIN_ORDER = "UTF8_BINARY"  # of text without a collation

_PLAIN: dict[pa.DataType, st.DataType] = {
    pa.null(): st.NullType(),
    pa.bool_(): st.BooleanType(),
    pa.int8(): st.ByteType(),
    pa.int16(): st.ShortType(),
    pa.int32(): st.IntegerType(),
    pa.int64(): st.LongType(),
    pa.float32(): st.FloatType(),
    pa.float64(): st.DoubleType(),
    pa.string(): st.StringType(),
    pa.binary(): st.BinaryType(),
    pa.date32(): st.DateType(),
    pa.timestamp("us", "UTC"): st.TimestampType(),
    pa.timestamp("us"): st.TimestampNTZType(),
}


def arrow_for_spark(schema: pa.Schema) -> pa.Schema:
    """Return the schema in the types that Spark accepts; every column is nullable, as in Spark.

    Times of day become integers, as in Hudi's reader; fixed becomes binary; timestamps are in
    microseconds.

    Raises:
        UnsupportedError: Spark has no such type.
    """
    return pa.schema([pa.field(field.name, _accepted(field.type)) for field in schema])


def _accepted(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_struct(kind):
        return pa.struct([pa.field(f.name, _accepted(f.type)) for f in kind])
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(_accepted(kind.value_type))
    if types.is_map(kind):
        return pa.map_(_accepted(kind.key_type), _accepted(kind.item_type))
    if types.is_decimal(kind) and kind.precision <= _DECIMAL_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if types.is_time32(kind):
        return pa.int32()
    if types.is_time64(kind):
        return pa.int64()
    if types.is_fixed_size_binary(kind) or types.is_large_binary(kind):
        return pa.binary()
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if kind in _PLAIN:
        return kind
    raise UnsupportedError(f"Spark has no type for {kind}; leave the column out with columns=")


def spark_schema(schema: pa.Schema) -> st.StructType:
    """Return Spark's schema for a result of `arrow_for_spark`."""
    return st.StructType([st.StructField(field.name, _spark_type(field.type)) for field in schema])


def _spark_type(kind: pa.DataType) -> st.DataType:
    if pa.types.is_struct(kind):
        return st.StructType([st.StructField(f.name, _spark_type(f.type)) for f in kind])
    if pa.types.is_list(kind):
        return st.ArrayType(_spark_type(kind.value_type))
    if pa.types.is_map(kind):
        return st.MapType(_spark_type(kind.key_type), _spark_type(kind.item_type))
    if pa.types.is_decimal(kind):
        return st.DecimalType(kind.precision, kind.scale)
    return _PLAIN[kind]


def arrow_of(schema: st.StructType) -> pa.Schema:
    """Return the Arrow schema of a DataFrame, in the types of `arrow_for_spark`.

    Raises:
        UnsupportedError: Hudi has no such type, for example an interval, or text with a collation:
            what Spark takes as one text would be several texts in the table.
    """
    return pa.schema([pa.field(f.name, _arrow_type(f.name, f.dataType)) for f in schema])


def refuse_collations(schema: st.StructType) -> None:
    """Refuse columns of text with a collation, which may be keys; other types may be any.

    Raises:
        UnsupportedError: as `arrow_of`.
    """
    arrow_of(st.StructType([field for field in schema if _is_collated(field.dataType)]))


def _is_collated(kind: st.DataType) -> bool:
    """Whether text has a collation, or a struct has such text, a field of which may be a key."""
    if isinstance(kind, st.StructType):
        return any(_is_collated(field.dataType) for field in kind)
    return getattr(kind, "collation", _PLAIN_ORDER) != _PLAIN_ORDER


def _arrow_type(column: str, kind: st.DataType) -> pa.DataType:
    if isinstance(kind, st.StructType):
        return pa.struct([pa.field(f.name, _arrow_type(column, f.dataType)) for f in kind])
    if isinstance(kind, st.ArrayType):
        return pa.list_(_arrow_type(column, kind.elementType))
    if isinstance(kind, st.MapType) and not isinstance(kind.keyType, st.NullType):
        found = (_arrow_type(column, own) for own in (kind.keyType, kind.valueType))
        return pa.map_(*found)
    if isinstance(kind, st.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    is_collated = _is_collated(kind)
    for arrow, spark in _PLAIN.items():
        if type(kind) is type(spark) and not is_collated:
            return arrow
    is_text = is_collated or kind.typeName() in ("char", "varchar")
    raise UnsupportedError(
        f"column {column}: Hudi has no type for {kind.simpleString()}; "
        + ("make it a STRING" if is_text else "leave the column out, or cast it")
    )


def as_spark_takes_it(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch in the schema that `arrow_for_spark` returned for its own schema."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
