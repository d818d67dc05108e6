"""The exchange by bucket: moves rows of a DataFrame to the buckets of a table, or their parts.

A partition has one bucket or several. Later stages do not rely on which: the bucket's number stays
with the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from bucketfmt_spark.engine.bucket_parts import BucketParts
from bucketfmt_spark.engine.executors import map_batches
from bucketfmt_spark.engine.placement import place

__all__ = ["BUCKET", "exchange", "move_to_buckets", "split_by_bucket"]

BUCKET = "__bucketfmt_bucket"
"""The column that holds the number of the bucket of a row, or of a part of a bucket."""


def exchange(df: DataFrame, parts: BucketParts, num_tasks: int, *, every_bucket: bool) -> DataFrame:
    """Return the rows with the number of their part as first column; a part is in one partition.

    Args:
        df: The rows, with the hash fields.
        parts: The parts of the buckets of the table; most buckets are one part.
        num_tasks: The number of partitions of the result; each has several parts or one.
        every_bucket: Add a row of nulls to each part, with the negative number `~number`, so that
            a part without rows has a task too.
    """
    fields = parts.buckets.columns.fields

    def assign(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = pa.array(parts.assign_rows([batch.column(n) for n in fields]), pa.int32())
            yield pa.RecordBatch.from_arrays(
                [found, *batch.columns], names=[BUCKET, *batch.schema.names]
            )

    schema = st.StructType([st.StructField(BUCKET, st.IntegerType(), False), *_nullable(df)])
    rows = map_batches(df, assign, schema)
    if every_bucket:
        session = df.sparkSession
        nulls = [sf.lit(None).cast(f.dataType).alias(f.name) for f in schema.fields[1:]]
        number = sf.expr("cast(~id as int)").alias(BUCKET)
        rows = rows.union(session.range(0, len(parts), 1, 1).select(number, *nulls))
    return move_to_buckets(rows, num_tasks)


def move_to_buckets(rows: DataFrame, num_tasks: int) -> DataFrame:
    """Return rows that have their bucket id, moved so that a bucket is in one partition."""
    bucket = sf.expr(f"if({BUCKET} < 0, ~{BUCKET}, {BUCKET})")
    return place(rows, sf.pmod(bucket, sf.lit(num_tasks)), num_tasks)


def split_by_bucket(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (bucket, rows without the bucket) of the batches of a task after `exchange`.

    A bucket that has only its added row has no rows.
    """
    for batch in batches:
        numbers, rows = batch.column(0), batch.select(batch.schema.names[1:])
        found = pc.unique(numbers).to_pylist()
        for bucket in found:
            own = rows if len(found) == 1 else rows.filter(pc.equal(numbers, bucket))
            yield (bucket, own) if bucket >= 0 else (~bucket, own.slice(0, 0))


def _nullable(df: DataFrame) -> list[st.StructField]:
    return [st.StructField(field.name, field.dataType) for field in df.schema.fields]
