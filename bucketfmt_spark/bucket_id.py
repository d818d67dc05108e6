"""The bucket id of a row as a Column.

Where expressions of Spark give exactly Hudi's hash, the column is made of them: `String.hashCode`
is called by generated code, or by `reflect` on Connect, and `List.hashCode` is arithmetic.
Otherwise the core's kernel computes the column in an Arrow UDF: for types that Spark prints
differently from Hudi, for keys as releases before 1.0 parse them, for partition rules, for rings,
and for an index that the table does not record and that has to be proved.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as sf

import bucketfmt as bf
from bucketfmt_spark.engine.arguments import check_names

__all__ = ["bucket_id", "expressed_bucket_id", "key_fields"]

_EXACT = {pa.string(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.bool_(), pa.date32()}
_EXACT_NAMES = ("string", "tinyint", "smallint", "int", "bigint", "boolean", "date")
_STRING_ON_CONNECT = "string collate UTF8_BINARY"
_SEPARATORS = "[,:]"
_NEXT_FIELD = ",(?=[^,:]*:)"  # a ',' whose next mark is a ':'
_NULL, _EMPTY = "__null__", "__empty__"
_LOW_32, _LOW_31 = 0xFFFFFFFF, 0x7FFFFFFF


def bucket_id(*columns: str, index: bf.SimpleBucketIndex | bf.Table) -> Column:
    """Return the bucket id of each row; on a ring, the value of the row's node.

    >>> df.withColumn("bucket", bucket_id("id", index=bf.SimpleBucketIndex(16)))  # doctest: +SKIP

    Args:
        columns: The fields of the record key, in the table's order. With a table, these are its
            key fields and then its partition fields, and may be left out.
        index: A number of buckets, for keys as Hudi 1.x parses them; or a table with any bucket
            index.

    A row whose key is null or empty fails the job with the message of `KeyEncodingError`.

    Raises:
        ValueError: no columns are given.
        TypeError: `index` is another kind of index: the buckets of a partition are known to the
            table only.
        UnsupportedError: before Spark 4.1, the table needs the kernel, and its keys or partitions
            have types that Spark prints differently from Hudi.
        IndexUnknownError: in a task, the index is unknown or not proved for a partition.
    """
    check_names("columns", columns)
    if isinstance(index, bf.Table):
        return _of_table(index, columns)
    if not isinstance(index, bf.SimpleBucketIndex):
        raise TypeError(f"index= takes a SimpleBucketIndex or a bucketfmt.Table, not {index!r}")
    if not columns:
        raise ValueError("bucket_id takes the columns that make the record key")
    return simple_bucket_id(columns, index, is_named=len(columns) > 1)


def key_fields(table: bf.Table) -> tuple[str, ...]:
    """Return the columns that determine the partition and the bucket of a row of a table."""
    return tuple(dict.fromkeys((*table.config.record_key_fields, *table.config.partition_fields)))


def expressed_bucket_id(table: bf.Table) -> Column | None:
    """Return the bucket id as an expression of Spark; None where only the kernel gives it.

    An index that the table does not record is not proved: rows are placed by this column, and
    whoever writes them proves the index.
    """
    config, index = table.config, table.index
    fields = config.record_key_fields
    if (
        not isinstance(index, bf.SimpleBucketIndex)
        or config.table_version < 8
        or config.key_generator.value == "GLOBAL_DELETE"
        or any(field not in table.schema.names for field in fields)  # a field of a struct
        or any(table.schema.field(field).type not in _EXACT for field in fields)
    ):
        return None
    return simple_bucket_id(fields, index, is_named=names_keys(table))


def simple_bucket_id(
    fields: Sequence[str], index: bf.SimpleBucketIndex, *, is_named: bool
) -> Column:
    """Return the bucket id of a simple index as an expression of Spark.

    Args:
        fields: The columns of the record key.
        index: The number of buckets, and the hash fields.
        is_named: Whether the record key contains the names of its fields, as `id:7` does.
    """
    texts = [_text(field) for field in fields]
    checked = sf.when(_is_bare(texts), sf.raise_error(sf.lit(_refusal(fields))).cast("bigint"))
    hashed = index.hash_fields or tuple(fields)
    if not is_named:
        is_plain = ~(sf.contains(texts[0], sf.lit(",")) & sf.contains(texts[0], sf.lit(":")))
        plain = _list_hash([texts[0]])
        record_key = texts[0]
    elif len(fields) == 1:
        record_key = sf.concat(sf.lit(f"{fields[0]}:"), texts[0])
        is_plain = ~sf.contains(texts[0], sf.lit(","))
        plain = _list_hash([record_key])
    else:
        named = [_written(name, text) for name, text in zip(fields, texts, strict=True)]
        record_key = sf.concat_ws(",", *named)
        has_marks = [sf.coalesce(text.rlike(_SEPARATORS), sf.lit(False)) for text in texts]
        is_plain = ~reduce(Column.__or__, has_marks)
        own = [_read(text) for name, text in zip(fields, texts, strict=True) if name in hashed]
        plain = _list_hash(own or [record_key])
    found = checked.when(is_plain, plain).otherwise(_parsed_hash(record_key, hashed))
    return (found.bitwiseAND(sf.lit(_LOW_31)) % sf.lit(index.num_buckets)).cast("int")


def _of_table(table: bf.Table, columns: Sequence[str]) -> Column:
    fields = key_fields(table)
    if columns and tuple(columns) != fields:
        raise ValueError(
            f"the key and partition columns of the table are {', '.join(fields)}, not "
            f"{', '.join(columns)}; leave them out"
        )
    # The kernel proves the index for each partition, the expression does not (docs/decisions/0014).
    expressed = expressed_bucket_id(table) if table.resolved_index.is_recorded else None
    return _kernel(table) if expressed is None else expressed


def names_keys(table: bf.Table) -> bool:
    """Return whether record keys contain the names of their fields."""
    config = table.config
    is_complex = config.key_generator.value == "COMPLEX"
    return len(config.record_key_fields) > 1 or (is_complex and config.table_version >= 9)


def _kernel(table: bf.Table) -> Column:
    if not hasattr(sf, "arrow_udf"):
        return _pandas_kernel(table)
    pinned = table.pinned()

    def assign(rows: pa.Array) -> pa.Array:
        given = pa.Table.from_struct_array(pa.chunked_array([rows]))
        return pinned.assign(given).column("bucket_id").combine_chunks()

    kernel = sf.arrow_udf(assign, "int")
    return kernel(sf.struct(*[sf.col(field) for field in key_fields(table)]))


def _pandas_kernel(table: bf.Table) -> Column:
    """Return the kernel for Spark before 4.1, on texts of values: pandas changes other types."""
    fields = key_fields(table)
    known = {field.name: field.type for field in table.schema}
    if any(known.get(field) not in _EXACT for field in fields):
        raise bf.UnsupportedError(
            f"bucket ids by the columns {', '.join(fields)} need Spark 4.1, because earlier "
            "releases print one of these types differently from Hudi; write() needs no bucket ids"
        )
    import pandas as pd  # noqa: PLC0415  (Spark 3.5 does nothing by Arrow without)

    pinned = table.pinned()
    texts = pa.schema([(field, pa.string()) for field in fields])
    types = pa.schema([(field, known[field]) for field in fields])

    def assign(rows: Any) -> Any:
        given = pa.Table.from_pandas(rows, texts, preserve_index=False)
        try:
            given = given.cast(types)
        except pa.ArrowInvalid as error:
            raise bf.SchemaError(
                f"a key or partition is not of the table's type: {error}"
            ) from None
        return pinned.assign(given).column("bucket_id").to_pandas()

    assign.__annotations__ = {"rows": pd.DataFrame, "return": pd.Series}
    kernel = sf.pandas_udf(assign, "int")
    return kernel(sf.struct(*[sf.col(field).cast("string").alias(field) for field in fields]))


# -- expressions


def _text(field: str) -> Column:
    """Return the text of a column, whose type Spark and Hudi print alike."""
    column = sf.col(field)
    kind = sf.typeof(column)
    message = sf.concat(
        sf.lit(f"bucket_id of column {field}: Hudi hashes the text of a "),
        kind,
        sf.when(
            kind.startswith("string"), sf.lit(", and has no collations; cast it to STRING")
        ).otherwise(sf.lit(", which Spark writes differently; pass index=bucketfmt.open(...)")),
    )
    return sf.when(kind.isin(*_EXACT_NAMES, _STRING_ON_CONNECT), column.cast("string")).otherwise(
        sf.raise_error(message).cast("string")
    )


def _is_bare(texts: Sequence[Column]) -> Column:
    return reduce(Column.__and__, [sf.coalesce(text == sf.lit(""), sf.lit(True)) for text in texts])


def _refusal(fields: Sequence[str]) -> str:
    return f"the record key fields {', '.join(fields)} are null or empty; Hudi takes no such row"


def _written(name: str, text: Column) -> Column:
    value = sf.coalesce(sf.when(text == sf.lit(""), sf.lit(_EMPTY)).otherwise(text), sf.lit(_NULL))
    return sf.concat(sf.lit(f"{name}:"), value)


def _read(text: Column) -> Column:
    """Return a value as Hudi reads it from a record key."""
    return (
        sf.when(text == sf.lit(_NULL), sf.lit(None).cast("string"))
        .when(text == sf.lit(_EMPTY), sf.lit(""))
        .otherwise(text)
    )


def _string_hash(text: Column) -> Column:
    """Return `Objects.hashCode` of a text."""
    called = _called_hash(text)
    if called is not None:
        return sf.coalesce(called, sf.lit(0)).cast("bigint")
    # Spark takes `reflect` for one that may return something else each time: where rows are moved
    # by it, they are moved with its result as a column more, which takes a third more time.
    return sf.call_function("reflect", sf.lit("java.util.Objects"), sf.lit("hashCode"), text).cast(
        "bigint"
    )


def _called_hash(text: Column) -> Column | None:
    """Return a call of `String.hashCode` in generated code, as encoders of Datasets call methods.

    None on Connect, and where a release of Spark has these classes otherwise.
    """
    context = SparkContext._active_spark_context
    if context is None or not hasattr(text, "_jc"):
        return None
    jvm: Any = context._jvm
    try:
        if context.version.startswith("3."):
            given, column = text._jc.expr(), jvm.org.apache.spark.sql.Column
        else:
            converters = jvm.org.apache.spark.sql.classic.ExpressionUtils
            given, column = converters.expression(text._jc), converters.column
        types, empty = jvm.org.apache.spark.sql.types, jvm.PythonUtils.toSeq([])
        java_string = types.ObjectType(jvm.java.lang.Class.forName("java.lang.String"))
        call = jvm.org.apache.spark.sql.catalyst.expressions.objects.Invoke
        string = call(given, "toString", java_string, empty, empty, True, False, True)
        integer = types.DataType.fromDDL("int")
        hashed = call(string, "hashCode", integer, empty, empty, True, False, True)
        return Column(column(hashed))
    except Exception:  # another release of Spark has them otherwise: they are not public
        return None


def _string_hash_in_lambda(text: Column) -> Column:
    """Return the low 32 bits of a text's hash without `reflect`: from its UTF-16, unit by unit.

    This is ten times slower, which matters little: only ambiguous keys are hashed so.
    """
    units = sf.hex(sf.encode(text, "UTF-16BE"))

    def unit(place: Column) -> Column:
        digits = units.substr(place * sf.lit(4) - sf.lit(3), sf.lit(4))
        return sf.conv(digits, 16, 10).cast("bigint")

    places = sf.sequence(
        sf.lit(1), sf.greatest(sf.length(units) / sf.lit(4), sf.lit(1)).cast("int")
    )
    hashed = sf.aggregate(
        places, sf.lit(0).cast("bigint"), lambda found, place: _step(found, unit(place))
    )
    return sf.when(sf.length(text) > 0, hashed).otherwise(sf.lit(0).cast("bigint"))


def _step(hashed: Column, added: Column) -> Column:
    """Return `31 * hashed + added` in the low 32 bits of a long, which never overflows."""
    return (hashed * sf.lit(31) + added).bitwiseAND(sf.lit(_LOW_32))


def _list_hash(texts: Sequence[Column]) -> Column:
    return reduce(_step, map(_string_hash, texts), sf.lit(1).cast("bigint"))


def _parsed_hash(record_key: Column, hashed: Sequence[str]) -> Column:
    """Return the hash of a key that has both `,` and `:`, parsed as Hudi 1.x parses it."""
    head = sf.substring_index(record_key, ":", 1)
    tail = record_key.substr(sf.length(head) + sf.lit(2), sf.length(record_key))
    parts = sf.split(tail, _NEXT_FIELD, -1)
    fields = sf.concat(
        sf.array(sf.struct(head.alias("name"), sf.element_at(parts, 1).alias("value"))),
        sf.transform(
            sf.slice(parts, 2, sf.greatest(sf.size(parts) - 1, sf.lit(0))),
            lambda part: sf.struct(
                sf.substring_index(part, ":", 1).alias("name"),
                part.substr(
                    sf.length(sf.substring_index(part, ":", 1)) + sf.lit(2), sf.length(part)
                ).alias("value"),
            ),
        ),
    )
    own = sf.filter(fields, lambda field: field["name"].isin(*hashed))
    last = sf.element_at(fields, -1)
    is_endless = ~last["name"].isin(*hashed) & sf.contains(last["value"], sf.lit(":"))
    values = sf.transform(own, lambda field: _read(field["value"]))
    endless = "a record key that Hudi 1.x never returns from hashing: its last field is no hash"
    return (
        sf.when(is_endless, sf.raise_error(sf.lit(f"{endless} field and has a ':'")).cast("bigint"))
        .when(sf.size(own) == 0, _list_hash([record_key]))
        .otherwise(
            sf.aggregate(
                values,
                sf.lit(1).cast("bigint"),
                lambda found, value: _step(found, _string_hash_in_lambda(value)),
            )
        )
    )
